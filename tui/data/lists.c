/* The lists of keys. */
#include "data/lists.h"

#include <stdio.h>
#include <string.h>

#include "data/sql_console.h"

static const struct words {
	const char *name, *title, *glyph;
	enum style style;
} words[] = {
#define X(symbol, name_, title_, glyph_, style_)                                                   \
	[LIST_##symbol] = { name_, title_, glyph_, STYLE_##style_ },
	LISTS(X)
#undef X
};

static const char *const statements[LIST_COUNT] = {
#define X(symbol, name, title, glyph, style) [LIST_##symbol] = SQL_LIST_##symbol,
	LISTS(X)
#undef X
};

static const char *const error_statements[LIST_COUNT] = {
	[LIST_RETRY_WAIT] = SQL_ERROR_RETRY_WAIT,
	[LIST_UNCERTAIN] = SQL_ERROR_UNCERTAIN,
	[LIST_DEAD] = SQL_ERROR_DEAD,
};

const char *list_name(enum list list)
{
	return words[list].name;
}

const char *list_title(enum list list)
{
	return words[list].title;
}

const char *list_glyph(enum list list)
{
	return words[list].glyph;
}

enum style list_style(enum list list)
{
	return words[list].style;
}

/* '_', '-' and ' ' are one. */
static bool same_word(const char *a, const char *b)
{
	for (; *a && *b; a++, b++) {
		bool gaps = strchr("_- ", *a) && strchr("_- ", *b);
		if (*a != *b && !gaps)
			return false;
	}
	return *a == *b;
}

bool list_parse(const char *name, enum list *list_r)
{
	for (size_t i = 0; i < LIST_COUNT; i++)
		if (same_word(name, words[i].name) || same_word(name, words[i].title)) {
			*list_r = (enum list)i;
			return true;
		}
	return false;
}

enum list list_of_state(const char *state)
{
	for (size_t i = 0; i < LIST_COUNT; i++)
		if (strcmp(state, words[i].name) == 0)
			return (enum list)i;
	return LIST_ALL;
}

const char *list_state_title(const char *state)
{
	enum list list = list_of_state(state);
	return list == LIST_ALL ? state : words[list].title;
}

bool list_has_errors(enum list list)
{
	return error_statements[list] != NULL;
}

const char *list_sql(const struct list_query *query)
{
	return query->error ? error_statements[query->list] : statements[query->list];
}

void list_params(const struct list_query *query, struct pg_params *params)
{
	const struct list_cursor *after = &query->after;
	pg_add_time(params, after->set ? after->time : USEC_NEVER);
	pg_add_int8(params, after->set ? after->id : query->list == LIST_PENDING ? -1 : INT64_MAX);
	pg_add_int8(params, query->budget);
	pg_add_int8(params, query->wanted);
	pg_add_text(params, query->error);
	pg_add_text(params, after->set ? after->target : NULL);
	pg_add_text(params, after->set ? after->tenant : NULL);
}

int list_rows(const PGresult *result)
{
	int rows = pg_rows(result);
	return rows == 1 && pg_null(result, 0, ROW_ID) ? 0 : rows;
}

static void copy_text(char *to, size_t size, const char *text)
{
	(void)snprintf(to, size, "%s", text ? text : "");
}

void list_place(enum list list, const PGresult *result, int row, struct list_cursor *cursor_r)
{
	*cursor_r = (struct list_cursor){
		.set = true,
		.time = pg_get_time(result, row, list == LIST_PENDING ? ROW_DUE : ROW_SINCE),
		.id = pg_get_int8(result, row, ROW_ID),
	};
	copy_text(cursor_r->target, sizeof(cursor_r->target), pg_get_text(result, row, ROW_TARGET));
	copy_text(cursor_r->tenant, sizeof(cursor_r->tenant), pg_get_text(result, row, ROW_TENANT));
}

int64_t list_examined(const PGresult *result)
{
	return pg_get_int8(result, 0, ROW_EXAMINED);
}

void list_end(const PGresult *result, struct list_cursor *cursor_r)
{
	*cursor_r = (struct list_cursor){ .set = true,
					  .time = pg_get_time(result, 0, ROW_LAST_TIME),
					  .id = pg_get_int8(result, 0, ROW_LAST_ID) };
	copy_text(cursor_r->target, sizeof(cursor_r->target),
		  pg_get_text(result, 0, ROW_LAST_TARGET));
	copy_text(cursor_r->tenant, sizeof(cursor_r->tenant),
		  pg_get_text(result, 0, ROW_LAST_TENANT));
}

bool list_look_further(struct list_query *query, const PGresult *result, usec_t took, usec_t aim)
{
	bool filled = list_rows(result) >= query->wanted;
	bool ended = list_examined(result) < query->budget;
	if (filled || ended || took > aim || query->budget >= LIST_BUDGET_MAX)
		return false;
	query->budget *= 2;
	if (query->budget > LIST_BUDGET_MAX)
		query->budget = LIST_BUDGET_MAX;
	return true;
}
