/* Places of keys, and faults with their places. */
#include "conf/conf_places.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "mem.h"

#define KEY_MAX    256
#define FAULTS_MAX 200 /* beyond that a list helps nobody */

static struct conf_place *find(const struct conf_places *places, const char *key)
{
	for (size_t i = 0; i < places->count; i++)
		if (strcmp(places->items[i].key, key) == 0)
			return &places->items[i];
	return NULL;
}

const struct conf_place *conf_places_find(const struct conf_places *places, const char *key)
{
	return find(places, key);
}

void conf_places_add(struct conf_places *places, const char *key, unsigned line,
		     const char *variable)
{
	struct conf_place *place = find(places, key);
	if (!place) {
		places->items = mem_grow(places->items, places->count + 1, sizeof(*places->items));
		place = &places->items[places->count++];
		*place = (struct conf_place){ .key = mem_text(key) };
	}
	free(place->variable);
	place->variable = mem_text(variable);
	place->line = line;
}

void conf_places_copy(struct conf_places *places, const char *from, const char *to)
{
	const struct conf_place *place = find(places, from);
	unsigned line = place ? place->line : 0;
	char *variable = mem_text(place ? place->variable : NULL);
	if (place)
		conf_places_add(places, to, line, variable);
	free(variable);
}

void conf_places_done(struct conf_places *places)
{
	for (size_t i = 0; i < places->count; i++) {
		free(places->items[i].key);
		free(places->items[i].variable);
	}
	free(places->items);
	conf_text_done(&places->text);
	free(places->path);
	*places = (struct conf_places){ 0 };
}

/* The key's own place, else that of the nearest group around it, else NULL. */
static const struct conf_place *nearest(const struct conf_places *places, const char *key)
{
	char around[KEY_MAX];
	(void)snprintf(around, sizeof(around), "%s", key);
	for (;;) {
		const struct conf_place *place = find(places, around);
		if (place)
			return place;
		char *dot = strrchr(around, '.');
		char *bracket = strrchr(around, '[');
		char *end = !dot || (bracket && bracket > dot) ? bracket : dot;
		if (!end)
			return NULL;
		*end = '\0';
	}
}

static const char *show_place(const struct conf_places *places, const struct conf_place *place,
			      const char *key, char *buffer, size_t size)
{
	const char *colon = *key ? ": " : "";
	unsigned line;
	if (!place) {
		(void)snprintf(buffer, size, "%s%s%s", places->path, colon, key);
	} else if (place->variable) {
		(void)snprintf(buffer, size, "%s%s%s", place->variable, colon, key);
	} else {
		const char *file = conf_text_place(&places->text, place->line, &line);
		(void)snprintf(buffer, size, "%s:%u%s%s", file, line, colon, key);
	}
	return buffer;
}

const char *conf_place(const struct conf *conf, const char *key, char *buffer, size_t size)
{
	return show_place(conf->places, nearest(conf->places, key), key, buffer, size);
}

void conf_fault(struct conf_faults *faults, const char *key, const char *format, ...)
{
	faults->items = mem_grow(faults->items, faults->count + 1, sizeof(*faults->items));
	struct conf_fault *fault = &faults->items[faults->count++];
	const struct conf_place *place = nearest(faults->places, key);
	char where[1024];
	struct err why;
	va_list args;
	va_start(args, format);
	(void)vsnprintf(why.text, sizeof(why.text), format, args);
	va_end(args);
	BUF_AUTO struct buf text = { 0 };
	buf_addf(&text, "%s: %s", show_place(faults->places, place, key, where, sizeof(where)),
		 why.text);
	fault->line = place ? place->line : 0;
	fault->text = buf_take(&text);
}

static int by_line(const void *a, const void *b)
{
	const struct conf_fault *left = a;
	const struct conf_fault *right = b;
	if (left->line != right->line)
		return left->line < right->line ? -1 : 1;
	return strcmp(left->text, right->text);
}

void conf_faults_print(struct conf_faults *faults, struct buf *out)
{
	if (faults->count)
		qsort(faults->items, faults->count, sizeof(*faults->items), by_line);
	for (size_t i = 0; i < faults->count && i < FAULTS_MAX; i++)
		buf_addf(out, "%s\n", faults->items[i].text);
	if (faults->count > FAULTS_MAX)
		buf_addf(out, "%s: and %zu more\n", faults->places->path,
			 faults->count - FAULTS_MAX);
}

void conf_faults_done(struct conf_faults *faults)
{
	for (size_t i = 0; i < faults->count; i++)
		free(faults->items[i].text);
	free(faults->items);
	faults->items = NULL;
	faults->count = 0;
}
