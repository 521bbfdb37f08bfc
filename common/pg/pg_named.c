/* A short list, searched from its beginning: a connection has a few statements only. */
#include "pg/pg_named.h"

#include <stdio.h>
#include <string.h>

static struct pg_named_item *add(struct pg_named *named, const char *sql,
				 const struct pg_arguments *arguments)
{
	struct pg_named_item *item = &named->items[named->count];
	*item = (struct pg_named_item){ .sql = sql, .count = arguments->count };
	(void)snprintf(item->name, sizeof(item->name), "cf_%zu", named->count++);
	if (arguments->count > 0)
		memcpy(item->types, arguments->types,
		       (size_t)arguments->count * sizeof(*item->types));
	return item;
}

struct pg_named_item *pg_named_use(struct pg_named *named, const char *sql,
				   const struct pg_arguments *arguments)
{
	struct pg_named_item *item = NULL;
	if (named->off)
		return NULL;
	for (size_t i = 0; i < named->count && !item; i++)
		if (named->items[i].sql == sql)
			item = &named->items[i];
	if (!item && named->count < PG_NAMED_MAX)
		item = add(named, sql, arguments);
	if (item)
		item->uses++;
	return item;
}

static bool same_types(const struct pg_named_item *item, const struct pg_arguments *arguments)
{
	return item->count == arguments->count &&
	       (item->count == 0 || memcmp(item->types, arguments->types,
					   (size_t)item->count * sizeof(*item->types)) == 0);
}

bool pg_named_fits(const struct pg_named_item *item, const struct pg_arguments *arguments)
{
	return item && item->ready && same_types(item, arguments);
}

bool pg_named_due(const struct pg_named_item *item)
{
	return item && !item->asked && item->uses >= PG_NAMED_AFTER;
}

void pg_named_forget(struct pg_named *named)
{
	*named = (struct pg_named){ .off = named->off };
}

bool pg_named_lost(const char *sqlstate)
{
	return strcmp(sqlstate, "26000") == 0 || strcmp(sqlstate, "42P05") == 0 ||
	       strcmp(sqlstate, "0A000") == 0;
}
