/* The distance of two words: letters to put in, to take out, to change or to swap. */
#include "conf/conf_near.h"

#include <stdbool.h>
#include <string.h>

#define WORD_MAX 40

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t distance(const char *a, const char *b)
{
	size_t rows[3][WORD_MAX + 1];
	size_t *before = rows[0], *last = rows[1], *row = rows[2];
	size_t length = strlen(b);
	for (size_t k = 0; k <= length; k++)
		last[k] = before[k] = k;
	for (size_t i = 1; a[i - 1]; i++) {
		row[0] = i;
		for (size_t k = 1; k <= length; k++) {
			row[k] = least(least(row[k - 1], last[k]) + 1,
				       last[k - 1] + (a[i - 1] != b[k - 1]));
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				row[k] = least(row[k], before[k - 2] + 1);
		}
		size_t *spare = before;
		before = last;
		last = row;
		row = spare;
	}
	return last[length];
}

void conf_near_init(struct conf_near *near, const char *word)
{
	*near = (struct conf_near){ .word = word, .distance = WORD_MAX };
}

void conf_near_try(struct conf_near *near, const char *known)
{
	if (strlen(near->word) > WORD_MAX || strlen(known) > WORD_MAX)
		return;
	size_t apart = distance(near->word, known);
	if (apart >= near->distance)
		return;
	near->distance = apart;
	near->best = known;
}

const char *conf_near_best(const struct conf_near *near)
{
	size_t length = strlen(near->word);
	size_t allowed = length <= 4 ? 1 : length < 8 ? 2 : 3;
	return near->distance <= allowed ? near->best : NULL;
}
