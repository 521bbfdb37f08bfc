/* Finding keys. */
#include "data/find.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool read_number(const char *text, char end, int64_t limit, const char **next_r,
			int64_t *number_r)
{
	char *after;
	errno = 0;
	long long number = strtoll(text, &after, 10);
	if (*text < '0' || *text > '9' || errno || *after != end || number > limit)
		return false;
	*next_r = after + 1;
	*number_r = number;
	return true;
}

bool find_place(const char *text, size_t *topic_length_r, int32_t *partition_r, int64_t *offset_r)
{
	const char *bracket = strrchr(text, '[');
	const char *next;
	int64_t partition, offset;
	if (!bracket || bracket == text ||
	    !read_number(bracket + 1, ']', INT32_MAX, &next, &partition) || *next != '@' ||
	    !read_number(next + 1, '\0', INT64_MAX, &next, &offset))
		return false;
	*topic_length_r = (size_t)(bracket - text);
	*partition_r = (int32_t)partition;
	*offset_r = offset;
	return true;
}

void find_params(const char *text, struct pg_params *params)
{
	size_t topic_length = 0;
	int32_t partition = -1;
	int64_t offset = -1;
	bool place = find_place(text, &topic_length, &partition, &offset);
	pg_add_text(params, text);
	if (place)
		pg_add_text_n(params, text, topic_length);
	else
		pg_add_text(params, NULL);
	pg_add_int4(params, partition);
	pg_add_int8(params, offset);
	pg_add_int8(params, FIND_LIMIT);
}
