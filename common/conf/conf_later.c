/* A key must not be taken in silence while nothing does what it says. */
#include "conf/conf_later.h"

#include <string.h>

#include "conf/conf_keys.h"
#include "conf/conf_read.h"

static const void *at(const void *base, size_t offset)
{
	return (const char *)base + offset;
}

/* --- equal ------------------------------------------------------------------------------------
 */

static bool same_rate(const struct conf_rate *a, const struct conf_rate *b)
{
	return a->events == b->events && a->period == b->period;
}

static bool same_predicate(const struct conf_predicate *a, const struct conf_predicate *b)
{
	return a->equal == b->equal && strcmp(a->pointer, b->pointer) == 0 &&
	       strcmp(a->text, b->text) == 0;
}

static bool same(const struct conf_key *key, const void *a, const void *b)
{
	const void *left = at(a, key->offset), *right = at(b, key->offset);
	switch (key->type) {
	case CONF_BOOL:
		return *(const bool *)left == *(const bool *)right;
	case CONF_INT:
	case CONF_SIZE:
	case CONF_DURATION:
		return *(const int64_t *)left == *(const int64_t *)right;
	case CONF_WORD:
	case CONF_START:
		return memcmp(left, right, sizeof(int)) == 0;
	case CONF_TEXT:
		return strcmp(*(char *const *)left, *(char *const *)right) == 0;
	case CONF_RATE:
		return same_rate(left, right);
	case CONF_PREDICATE:
		return same_predicate(left, right);
	case CONF_PAIRS:
		return ((const struct conf_pairs *)left)->count == 0;
	case CONF_TEXTS:
	case CONF_STATUSES:
	case CONF_POINTERS:
		return ((const struct conf_texts *)left)->count == 0;
	case CONF_GROUP:
		break;
	}
	return true;
}

/* --- the walk ---------------------------------------------------------------------------------
 */

static void check_table(const struct conf_table *table, bool later, const char *path,
			const void *base, const void *defaults, struct conf_faults *faults)
{
	char child[CONF_PATH_MAX];
	for (size_t i = 0; i < table->count; i++) {
		const struct conf_key *key = &table->keys[i];
		bool refused = later || key->later;
		conf_path(child, path, key->name);
		if (key->type == CONF_GROUP)
			check_table(key->group, refused, child, base, defaults, faults);
		else if (refused && !same(key, base, defaults))
			conf_fault(faults, child, CONF_LATER);
	}
}

static void check_list(const struct conf_section *section, const struct conf *conf,
		       const struct conf *pattern, struct conf_faults *faults)
{
	const char *items = *(char *const *)at(conf, section->offset);
	const void *defaults = *(void *const *)at(pattern, section->offset);
	size_t count = *(const size_t *)at(conf, section->count_offset);
	char path[CONF_PATH_MAX];
	if (section->later && count)
		conf_fault(faults, section->name, CONF_LATER);
	for (size_t i = 0; i < count && !section->later; i++)
		check_table(section->table, false, conf_path_item(path, section->name, i),
			    items + i * section->item_size, defaults, faults);
}

void conf_later_check(const struct conf *conf, struct conf_faults *faults)
{
	struct conf pattern = { 0 };
	conf_read_pattern(&pattern);
	for (size_t i = 0; i < conf_section_count; i++) {
		const struct conf_section *section = &conf_sections[i];
		if (section->item_size)
			check_list(section, conf, &pattern, faults);
		else
			check_table(section->table, false, section->name, at(conf, section->offset),
				    at(&pattern, section->offset), faults);
	}
	conf_read_free(&pattern);
}

bool conf_later_key(const char *key)
{
	for (size_t i = 0; i < conf_section_count; i++) {
		const struct conf_table *table = conf_sections[i].table;
		char path[CONF_PATH_MAX];
		for (size_t k = 0; k < table->count; k++)
			if (strcmp(conf_path(path, conf_sections[i].name, table->keys[k].name),
				   key) == 0)
				return table->keys[k].later;
	}
	return false;
}
