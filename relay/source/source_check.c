/* The questions in their order, and what their answers mean. */
#include "source_check.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "mem.h"
#include "source_check_sql.h"
#include "source_map.h"

#define OWN_SCHEMA "counterfoil"
#define OWN_TABLE  "outbox"
#define PREDICATES 16

/* Each asks for what the next ones build upon; the first fault that leaves nothing to build upon
 * ends it. */
enum check_step {
	CHECK_TABLE,
	CHECK_COLUMNS,
	CHECK_SEQUENCE,
	CHECK_INDEXES,
	CHECK_BEGIN, /* from here to ROLLBACK one transaction */
	CHECK_PLANNER,
	CHECK_PLAN,
	CHECK_ROLLBACK,
	CHECK_HIGHEST,
	CHECK_ADD,
	CHECK_DONE,
};

struct source_check {
	enum check_step step;
	const struct conf_relay *conf;
	struct source *source;
	bool add;
	struct source_map *map; /* NULL: our own table */
	bool there;             /* the table, and we may use its schema */
	bool partitioned;
	bool indexed;                 /* by the id */
	bool whole;                   /* one of these indexes holds all rows */
	char *predicates[PREDICATES]; /* of partial indexes by the id */
	size_t predicate_count;
	struct buf faults;
	struct buf warnings;
	struct buf text;

	struct pg *pg;
	struct pg_params params;
	source_check_fn *done;
	void *arg;
};

static void set_step(struct source_check *check, enum check_step step)
{
	check->step = step;
}

static const char *relation(const struct source_check *check)
{
	return check->map ? buf_text(&check->map->relation) : CONF_OWN_TABLE;
}

static const char *id_column(const struct source_check *check)
{
	return check->map ? check->conf->columns.id : "id";
}

static bool marks(const struct source_check *check)
{
	return check->conf->after_publish == CONF_AFTER_MARK;
}

/* --- the table --- */

static void read_privileges(struct source_check *check, const PGresult *result)
{
	const char *user = pg_get_text(result, 0, 5);
	const char *table = relation(check);
	if (!pg_get_bool(result, 0, 2))
		buf_addf(&check->faults, "%s cannot be read; GRANT SELECT ON %s TO \"%s\"\n", table,
			 table, user);
	if (!marks(check) && !pg_get_bool(result, 0, 3))
		buf_addf(&check->faults,
			 "rows of %s cannot be deleted; GRANT DELETE ON %s TO \"%s\"\n", table,
			 table, user);
	if (marks(check) && !pg_get_bool(result, 0, 4))
		buf_addf(&check->faults,
			 "rows of %s cannot be marked; GRANT UPDATE ON %s TO \"%s\"\n", table,
			 table, user);
	if (pg_get_bool(result, 0, 6))
		buf_addf(&check->warnings,
			 "row security hides rows of %s which its policies do not show to \"%s\"\n",
			 table, user);
}

static void read_table(struct source_check *check, const PGresult *result)
{
	const char *kind = pg_get_text(result, 0, 0);
	if (!pg_null(result, 0, 1) && !pg_get_bool(result, 0, 1))
		buf_addf(&check->faults,
			 "relay.table: schema \"%s\" cannot be used; GRANT USAGE ON SCHEMA \"%s\" "
			 "TO \"%s\"\n",
			 check->map->schema, check->map->schema, pg_get_text(result, 0, 5));
	else if (!kind)
		buf_addf(&check->faults,
			 "relay.table: there is no table %s; letters count as they are written\n",
			 relation(check));
	else if (*kind != 'r' && *kind != 'p')
		buf_addf(&check->faults,
			 "relay.table: %s is neither a table nor a partitioned table; name that "
			 "which rows are inserted into\n",
			 relation(check));
	else
		read_privileges(check, result);
	check->there = kind && pg_get_bool(result, 0, 1);
	check->partitioned = kind && *kind == 'p';
}

/* --- its columns --- */

static void read_columns(struct source_check *check, const PGresult *result)
{
	for (size_t i = 0; i < check->map->count; i++) {
		int row = (int)i;
		const struct source_map_found found = {
			.there = pg_get_bool(result, row, 0),
			.type = pg_get_text(result, row, 1),
			.shown = pg_get_text(result, row, 2),
			.generated = pg_get_bool(result, row, 3),
			.readable = pg_get_bool(result, row, 4),
		};
		source_map_found(check->map, i, &found, &check->faults);
	}
}

/* Ids that are drawn in blocks, or elsewhere, may come after higher ones whoever holds a lock. */
static void read_sequence(struct source_check *check, const PGresult *result)
{
	const char *consequence =
		"a row that comes late below higher ids is found by the next sweep only, and out "
		"of order";
	check->source->sequential = false;
	if (pg_rows(result) == 0)
		buf_addf(&check->warnings,
			 "column \"%s\" of %s has neither an identity nor a sequence as its "
			 "default: %s\n",
			 id_column(check), relation(check), consequence);
	else if (pg_get_int8(result, 0, 1) != 1 || pg_get_int8(result, 0, 2) != 1)
		buf_addf(&check->warnings,
			 "sequence %s gives out ids in blocks: %s; ALTER SEQUENCE %s CACHE 1 "
			 "INCREMENT BY 1\n",
			 pg_get_text(result, 0, 0), consequence, pg_get_text(result, 0, 0));
	else
		check->source->sequential = true;
}

static void forget_predicates(struct source_check *check)
{
	for (size_t i = 0; i < check->predicate_count; i++)
		free(check->predicates[i]);
	check->predicate_count = 0;
}

static void read_indexes(struct source_check *check, const PGresult *result)
{
	check->indexed = pg_rows(result) > 0;
	check->whole = false;
	for (int i = 0; i < pg_rows(result); i++)
		check->whole = check->whole || pg_null(result, i, 0);
	for (int i = 0; i < pg_rows(result) && check->predicate_count < PREDICATES; i++)
		if (!pg_null(result, i, 0))
			check->predicates[check->predicate_count++] =
				mem_text(pg_get_text(result, i, 0));
}

/* --- the plan --- */

static void ask_for_index(const struct source_check *check, const char *why, struct buf *out)
{
	buf_addf(out, "%s: %s; ", relation(check), why);
	source_map_index(check->map, check->partitioned, out);
	buf_add_char(out, '\n');
}

/* On a table that is small, or was never analyzed, the planner may prefer another index to the one
 * that holds nothing but such rows. */
static bool index_holds_only(const struct source_check *check, const char *condition)
{
	for (size_t i = 0; i < check->predicate_count; i++)
		if (strcmp(check->predicates[i], condition) == 0)
			return true;
	return false;
}

static void read_plan(struct source_check *check, const PGresult *result)
{
	bool sorted = false, filtered = false;
	for (int i = 0; i < pg_rows(result); i++) {
		const char *line = pg_get_text(result, i, 0);
		const char *filter = strstr(line, "Filter: ");
		line += strspn(line, " ->");
		if (strcmp(line, "Sort") == 0 || strcmp(line, "Incremental Sort") == 0 ||
		    strstr(line, "Seq Scan on "))
			sorted = true;
		if (filter && !index_holds_only(check, filter + strlen("Filter: ")))
			filtered = true;
	}
	if (sorted)
		ask_for_index(check, "no index gives the rows that wait in the order of their ids",
			      &check->faults);
	else if (filtered && marks(check))
		ask_for_index(check,
			      "every fetch would walk over the rows that were published, for no "
			      "index holds only those of relay.pending",
			      &check->faults);
	else if (filtered)
		ask_for_index(check,
			      "rows that are not of relay.pending are walked over again and again, "
			      "for no index holds only those that are",
			      &check->warnings);
}

/* --- where it begins --- */

static void read_highest(struct source_check *check, const PGresult *result)
{
	int64_t start_after = check->source->start_after;
	if (!pg_null(result, 0, 0) && pg_get_int8(result, 0, 0) < start_after)
		buf_addf(&check->warnings,
			 "relay.start_after = %lld is above all ids of %s, of which %lld is the "
			 "highest: rows up to it are never published\n",
			 (long long)start_after, relation(check),
			 (long long)pg_get_int8(result, 0, 0));
}

/* Without an index that holds all rows the server would read them all. */
static enum check_step after_plan(const struct source_check *check)
{
	if (check->faults.length)
		return CHECK_DONE;
	if (check->step == CHECK_ROLLBACK && check->whole && check->source->start_after > 0)
		return CHECK_HIGHEST;
	return check->add ? CHECK_ADD : CHECK_DONE;
}

/* --- from step to step --- */

/* The columns are looked at as a whole: then the statements can be made, or not. */
static enum check_step after_indexes(struct source_check *check)
{
	if (!check->indexed && source_map_ordered(check->map))
		ask_for_index(check, "there is no index that begins with the id", &check->faults);
	if (check->faults.length)
		return CHECK_DONE;
	source_map_fill(check->map, check->source);
	return CHECK_BEGIN;
}

static enum check_step next_step(struct source_check *check)
{
	switch (check->step) {
	case CHECK_TABLE:
		return check->there ? CHECK_COLUMNS : CHECK_DONE;
	case CHECK_SEQUENCE:
		return check->map ? CHECK_INDEXES : CHECK_DONE;
	case CHECK_INDEXES:
		return after_indexes(check);
	case CHECK_COLUMNS:
	case CHECK_BEGIN:
	case CHECK_PLANNER:
	case CHECK_PLAN:
		return check->step + 1;
	case CHECK_ROLLBACK:
	case CHECK_HIGHEST:
		return after_plan(check);
	case CHECK_ADD:
	case CHECK_DONE:
		break;
	}
	return CHECK_DONE;
}

static void read_answer(struct source_check *check, const PGresult *result)
{
	switch (check->step) {
	case CHECK_TABLE:
		read_table(check, result);
		break;
	case CHECK_COLUMNS:
		read_columns(check, result);
		break;
	case CHECK_SEQUENCE:
		read_sequence(check, result);
		break;
	case CHECK_INDEXES:
		read_indexes(check, result);
		break;
	case CHECK_PLAN:
		read_plan(check, result);
		break;
	case CHECK_HIGHEST:
		read_highest(check, result);
		break;
	case CHECK_BEGIN:
	case CHECK_PLANNER:
	case CHECK_ROLLBACK:
	case CHECK_ADD:
	case CHECK_DONE:
		break;
	}
}

/* The plan is the first that the server makes of what the user wrote. An open transaction is ended.
 */
static enum check_step after_refusal(struct source_check *check, const char *text)
{
	if (check->step == CHECK_PLAN)
		buf_addf(&check->faults,
			 "relay.pending, or another part of the mapping, does not do for %s: %s\n",
			 relation(check), text);
	else
		buf_addf(&check->faults, "%s cannot be %s: %s\n", relation(check),
			 check->step == CHECK_ADD ? "added to counterfoil.outbox_source"
						  : "checked",
			 text);
	return check->step == CHECK_PLANNER || check->step == CHECK_PLAN ? CHECK_ROLLBACK
									 : CHECK_DONE;
}

/* error: NULL where the server gave a result. */
static void take_answer(struct source_check *check, const PGresult *result, const char *error)
{
	if (error) {
		set_step(check, after_refusal(check, error));
		return;
	}
	read_answer(check, result);
	set_step(check, next_step(check));
}

static const char *statement(const struct source_check *check)
{
	switch (check->step) {
	case CHECK_TABLE:
		return check_table;
	case CHECK_COLUMNS:
		return check_columns;
	case CHECK_SEQUENCE:
		return check_sequence;
	case CHECK_INDEXES:
		return check_indexes;
	case CHECK_BEGIN:
		return check_begin;
	case CHECK_PLANNER:
		return check_planner;
	case CHECK_PLAN:
		return check->source->plan;
	case CHECK_ROLLBACK:
		return check_rollback;
	case CHECK_HIGHEST:
		return check->source->highest;
	case CHECK_ADD:
		return check->source->add;
	case CHECK_DONE:
		break;
	}
	return NULL;
}

static void add_names(struct source_check *check)
{
	PG_ARRAY_AUTO struct pg_array names;
	pg_array_init(&names, PG_TEXT);
	for (size_t i = 0; i < check->map->count; i++)
		pg_array_text(&names, check->map->columns[i].name);
	pg_add_array(&check->params, &names);
}

static const struct pg_params *parameters(struct source_check *check)
{
	pg_params_clear(&check->params);
	if (check->step >= CHECK_BEGIN)
		return &check->params;
	pg_add_text(&check->params, check->map ? check->map->schema : OWN_SCHEMA);
	pg_add_text(&check->params, check->map ? check->map->table : OWN_TABLE);
	if (check->step == CHECK_COLUMNS)
		add_names(check);
	else if (check->step != CHECK_TABLE)
		pg_add_text(&check->params, id_column(check));
	return &check->params;
}

static void begin(struct source_check *check)
{
	forget_predicates(check);
	buf_clear(&check->faults);
	buf_clear(&check->warnings);
	buf_clear(&check->text);
	check->indexed = false;
	source_map_free(check->map);
	check->map = check->source->own ? NULL : source_map_new(check->conf);
	set_step(check, check->map ? CHECK_TABLE : CHECK_SEQUENCE);
}

/* Lines become one text. True: it fits. */
static bool end(struct source_check *check)
{
	const struct buf *from = check->faults.length ? &check->faults : &check->warnings;
	for (const char *line = buf_text(from); *line;) {
		size_t length = strcspn(line, "\n");
		if (check->text.length)
			buf_add_text(&check->text, "; ");
		buf_add(&check->text, line, length);
		line += length + (line[length] == '\n');
	}
	return !check->faults.length;
}

/* --- by the loop --- */

static void ask(struct source_check *check);

static void on_answer(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct source_check *check = arg;
	if (error && error->kind != PG_REFUSED)
		return;
	take_answer(check, result, error ? error->text : NULL);
	ask(check);
}

static void ask(struct source_check *check)
{
	const char *sql = statement(check);
	if (sql) {
		pg_send(check->pg, sql, parameters(check), on_answer, check);
		return;
	}
	bool fits = end(check);
	check->done(check->arg, fits, buf_text(&check->text));
}

void source_check_start(struct source_check *check, struct pg *pg, source_check_fn *done, void *arg)
{
	check->pg = pg;
	check->done = done;
	check->arg = arg;
	begin(check);
	ask(check);
}

/* --- at once --- */

bool source_check_run(struct source_check *check, struct pg_session *session, struct err *err)
{
	const char *sql;
	begin(check);
	while ((sql = statement(check))) {
		PG_RESULT_AUTO PGresult *result = NULL;
		struct err refusal;
		bool ok =
			pg_session_query(session, sql, parameters(check), &refusal, NULL, &result);
		take_answer(check, result, ok ? NULL : refusal.text);
	}
	return end(check) || err_set(err, "%s", buf_text(&check->text));
}

const char *source_check_text(const struct source_check *check)
{
	return buf_text(&check->text);
}

struct source_check *source_check_new(const struct conf_relay *conf, struct source *source,
				      bool add)
{
	struct source_check *check = mem_zero(sizeof(*check));
	check->conf = conf;
	check->source = source;
	check->add = add;
	return check;
}

void source_check_free(struct source_check *check)
{
	if (!check)
		return;
	forget_predicates(check);
	source_map_free(check->map);
	buf_done(&check->faults);
	buf_done(&check->warnings);
	buf_done(&check->text);
	pg_params_done(&check->params);
	free(check);
}
