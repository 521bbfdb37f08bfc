/* Columns by their use, and the expressions made of them. */
#include "source_map.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "source_fill.h"

struct source_map_role {
	const char *key;   /* of the configuration */
	const char *types; /* that will do; NULL: any */
	const char *wants; /* for people */
	const char *remedy;
};

#define NO_SUCH " or, where the table has none, \"\""

/* In the order of struct conf_columns. */
static const struct source_map_role roles[] = {
	{ "relay.columns.id", " int8 int4 ", "bigint or integer",
	  "add one: ALTER TABLE %s ADD seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE" },
	{ "relay.columns.event_id", " uuid ", "uuid",
	  "add one: ALTER TABLE %s ADD event_id uuid NOT NULL DEFAULT gen_random_uuid()" },
	{ "relay.columns.topic", NULL, "",
	  "name a column of %s, or write the topic in relay.topic" },
	{ "relay.columns.type", NULL, "", "name a column of %s" NO_SUCH ": the topic is the type" },
	{ "relay.columns.ordering_key", NULL, "", "name a column of %s" NO_SUCH },
	{ "relay.columns.partition", " int4 int2 ", "integer", "name a column of %s" NO_SUCH },
	{ "relay.columns.message_key", NULL, "", "name a column of %s" NO_SUCH },
	{ "relay.columns.payload", " bytea text varchar json jsonb ",
	  "bytea, text, varchar, json or jsonb", "name a column of %s" },
	{ "relay.columns.headers", " json jsonb ", "json or jsonb", "name a column of %s" NO_SUCH },
	{ "relay.columns.created_at", " timestamptz timestamp ",
	  "timestamp with or without time zone", "name a column of %s" NO_SUCH },
};
static const struct source_map_role topic_role = { "relay.topic", NULL, "", "name a column of %s" };
static const struct source_map_role mark_role = { "relay.mark_column",
						  " timestamptz timestamp bool ",
						  "boolean or timestamp with or without time zone",
						  "name a column of %s" };

enum {
	ID,
	EVENT_ID,
	TOPIC,
	TYPE,
	ORDERING_KEY,
	PARTITION,
	MESSAGE_KEY,
	PAYLOAD,
	HEADERS,
	CREATED_AT
};
#define ROLES (sizeof(roles) / sizeof(roles[0]))

static const char *const field_names[ROLES] = {
	[ID] = "id",
	[EVENT_ID] = "event_id",
	[TOPIC] = "topic",
	[TYPE] = "type",
	[ORDERING_KEY] = "ordering_key",
	[PARTITION] = "partition",
	[MESSAGE_KEY] = "message_key",
	[PAYLOAD] = "payload",
	[HEADERS] = "headers",
	[CREATED_AT] = "created_at",
};

static const char *named(const struct conf_relay *conf, size_t role)
{
	const struct conf_columns *columns = &conf->columns;
	const char *const names[ROLES] = {
		[ID] = columns->id,
		[EVENT_ID] = columns->event_id,
		[TOPIC] = columns->topic,
		[TYPE] = columns->type,
		[ORDERING_KEY] = columns->ordering_key,
		[PARTITION] = columns->partition,
		[MESSAGE_KEY] = columns->message_key,
		[PAYLOAD] = columns->payload,
		[HEADERS] = columns->headers,
		[CREATED_AT] = columns->created_at,
	};
	return names[role];
}

/* --- the columns it must have --- */

static void need(struct source_map *map, const struct source_map_role *role, const char *name,
		 size_t length)
{
	for (size_t i = 0; i < map->count; i++)
		if (map->columns[i].role == role && strlen(map->columns[i].name) == length &&
		    memcmp(map->columns[i].name, name, length) == 0)
			return;
	if (map->count < SOURCE_MAP_COLUMNS)
		map->columns[map->count++] = (struct source_map_column){
			.role = role,
			.name = mem_text_n(name, length),
		};
}

/* One of our names in relay.topic means the column that is mapped to it. */
static bool our_field(const struct conf_piece *piece, size_t *role_r)
{
	for (size_t i = 0; i < ROLES; i++) {
		if (strlen(field_names[i]) == piece->length &&
		    memcmp(field_names[i], piece->text, piece->length) == 0) {
			*role_r = i;
			return true;
		}
	}
	return false;
}

static void need_topic(struct source_map *map)
{
	const char *rest = map->conf->topic;
	struct conf_piece piece;
	size_t role;
	while (conf_topic_piece(&rest, NULL, &piece)) {
		if (!piece.column)
			continue;
		if (!our_field(&piece, &role))
			need(map, &topic_role, piece.text, piece.length);
		else if (role == TOPIC)
			need(map, &roles[TOPIC], map->conf->columns.topic,
			     strlen(map->conf->columns.topic));
	}
}

struct source_map *source_map_new(const struct conf_relay *conf)
{
	struct source_map *map = mem_zero(sizeof(*map));
	map->conf = conf;
	if (!conf_table_split(conf->table, NULL, &map->schema, &map->table))
		abort(); /* the configuration was checked */
	source_quote_name(&map->relation, map->schema);
	buf_add_char(&map->relation, '.');
	source_quote_name(&map->relation, map->table);
	for (size_t i = 0; i < ROLES; i++)
		if (i != TOPIC && *named(conf, i))
			need(map, &roles[i], named(conf, i), strlen(named(conf, i)));
	need_topic(map);
	if (conf->after_publish == CONF_AFTER_MARK)
		need(map, &mark_role, conf->mark_column, strlen(conf->mark_column));
	return map;
}

void source_map_free(struct source_map *map)
{
	if (!map)
		return;
	for (size_t i = 0; i < map->count; i++) {
		free(map->columns[i].name);
		free(map->columns[i].type);
	}
	buf_done(&map->relation);
	free(map->schema);
	free(map->table);
	free(map);
}

/* --- do they fit --- */

static bool suits(const struct source_map_role *role, const char *type)
{
	BUF_AUTO struct buf word = { 0 };
	buf_addf(&word, " %s ", type);
	return !role->types || strstr(role->types, word.data);
}

static void say_missing(const struct source_map *map, const struct source_map_column *column,
			struct buf *faults)
{
	const char *relation = buf_text(&map->relation);
	const char *at = strstr(column->role->remedy, "%s");
	buf_addf(faults, "%s: there is no column \"%s\"; %.*s%s%s\n", column->role->key,
		 column->name, (int)(at - column->role->remedy), column->role->remedy, relation,
		 at + 2);
}

static void say_misfit(const struct source_map_column *column, const struct source_map_found *found,
		       struct buf *faults)
{
	buf_addf(faults, "%s: column \"%s\" is %s; it must be %s\n", column->role->key,
		 column->name, found->shown, column->role->wants);
}

void source_map_found(struct source_map *map, size_t number, const struct source_map_found *found,
		      struct buf *faults)
{
	struct source_map_column *column = &map->columns[number];
	if (!found->there) {
		say_missing(map, column, faults);
		return;
	}
	free(column->type);
	column->type = mem_text(found->type);
	if (!suits(column->role, found->type))
		say_misfit(column, found, faults);
	if (!found->readable)
		buf_addf(faults,
			 "%s: column \"%s\" cannot be read; GRANT SELECT ON %s TO the relay\n",
			 column->role->key, column->name, buf_text(&map->relation));
	if (column->role == &mark_role && found->generated)
		buf_addf(faults, "%s: column \"%s\" is generated and cannot be set\n",
			 column->role->key, column->name);
}

bool source_map_ordered(const struct source_map *map)
{
	return map->columns[0].type && suits(map->columns[0].role, map->columns[0].type);
}

/* --- expressions --- */

static void add_column(struct buf *out, const char *name)
{
	buf_add_text(out, "o.");
	source_quote_name(out, name);
}

static const char *type_of(const struct source_map *map, const struct source_map_role *role)
{
	for (size_t i = 0; i < map->count; i++)
		if (map->columns[i].role == role && map->columns[i].type)
			return map->columns[i].type;
	return "";
}

static bool is_type(const struct source_map *map, size_t role, const char *type)
{
	return strcmp(type_of(map, &roles[role]), type) == 0;
}

/* The column cast to what the poll gives, or that type's NULL. */
static void add_cast(const struct source_map *map, size_t role, const char *type, struct buf *out)
{
	const char *name = named(map->conf, role);
	if (*name)
		add_column(out, name);
	else
		buf_add_text(out, "NULL");
	buf_addf(out, "::%s", type);
}

/* bytea stays; of anything else it is the text. */
static void add_bytes(const struct source_map *map, size_t role, struct buf *out)
{
	add_cast(map, role, is_type(map, role, "bytea") ? "bytea" : "text", out);
}

/* A timestamp is taken as UTC, whatever the session's zone. */
static void add_time(const struct source_map *map, struct buf *out)
{
	if (!is_type(map, CREATED_AT, "timestamp")) {
		add_cast(map, CREATED_AT, "timestamptz", out);
		return;
	}
	buf_add_char(out, '(');
	add_column(out, map->conf->columns.created_at);
	buf_add_text(out, " AT TIME ZONE 'UTC')");
}

static void add_piece(const struct source_map *map, const struct conf_piece *piece, struct buf *out)
{
	BUF_AUTO struct buf text = { 0 };
	size_t role;
	buf_add(&text, piece->text, piece->length);
	if (!piece->column) {
		source_quote_text(out, text.data);
		return;
	}
	add_column(out, our_field(piece, &role) ? named(map->conf, role) : text.data);
	buf_add_text(out, "::text");
}

/* NULL where one of its columns is. */
static void add_topic(const struct source_map *map, struct buf *out)
{
	const char *rest = map->conf->topic;
	const char *joint = "(";
	struct conf_piece piece;
	while (conf_topic_piece(&rest, NULL, &piece)) {
		buf_add_text(out, joint);
		add_piece(map, &piece, out);
		joint = " || ";
	}
	buf_add_text(out, ")");
}

static void add_type(const struct source_map *map, const char *topic, struct buf *out)
{
	if (!*map->conf->columns.type) {
		buf_add_text(out, topic);
		return;
	}
	buf_add_text(out, "coalesce(");
	add_cast(map, TYPE, "text", out);
	buf_addf(out, ", %s)", topic);
}

static void add_mark(const struct source_map *map, struct buf *out)
{
	const char *type = type_of(map, &mark_role);
	source_quote_name(out, map->conf->mark_column);
	if (strcmp(type, "bool") == 0)
		buf_add_text(out, " = true");
	else if (strcmp(type, "timestamp") == 0)
		buf_add_text(out, " = clock_timestamp() AT TIME ZONE 'UTC'");
	else
		buf_add_text(out, " = clock_timestamp()");
}

/* The line end closes a comment that the condition may end with. */
static void add_scope(const struct source_map *map, const char *id, struct buf *out)
{
	buf_addf(out, " AND %s > %lld AND (%s\n)", id, (long long)map->conf->start_after,
		 map->conf->pending);
}

/* --- statements --- */

/* What fills the blanks of source_sql.h. */
struct parts {
	struct buf regclass, id, event_id, topic, type, created_at, columns, kept, scope, mark;
	struct buf name, relation, id_column, event_id_column, mark_column;
};

static void parts_done(struct parts *parts)
{
	struct buf *const all[] = {
		&parts->regclass,    &parts->id,
		&parts->event_id,    &parts->topic,
		&parts->type,        &parts->created_at,
		&parts->columns,     &parts->kept,
		&parts->scope,       &parts->mark,
		&parts->name,        &parts->relation,
		&parts->id_column,   &parts->event_id_column,
		&parts->mark_column,
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		buf_done(all[i]);
}

static void make_columns(const struct source_map *map, const struct parts *parts, struct buf *out)
{
	buf_addf(out, "%s::int8 AS id, %s AS event_id, %s AS topic, %s AS type, ", parts->id.data,
		 parts->event_id.data, parts->topic.data, parts->type.data);
	add_cast(map, ORDERING_KEY, "text", out);
	buf_add_text(out, " AS ordering_key, ");
	add_cast(map, PARTITION, "int4", out);
	buf_add_text(out, " AS partition, ");
	add_bytes(map, MESSAGE_KEY, out);
	buf_add_text(out, " AS message_key, ");
	add_bytes(map, PAYLOAD, out);
	buf_add_text(out, " AS payload, ");
	add_cast(map, HEADERS, "text", out);
	buf_addf(out, " AS headers, %s AS created_at", parts->created_at.data);
}

/* The whole row goes back as it was; the rest is to be shown. */
static void make_kept(const struct source_map *map, const struct parts *parts, struct buf *out)
{
	buf_addf(out, "%s AS topic, %s AS type, ", parts->topic.data, parts->type.data);
	add_cast(map, ORDERING_KEY, "text", out);
	buf_addf(out,
		 " AS ordering_key, NULL::int4 AS partition, NULL::bytea AS message_key,"
		 " NULL::bytea AS payload, NULL::jsonb AS headers, %s AS created_at,"
		 " (o.*)::text AS whole",
		 parts->created_at.data);
}

static void make_parts(const struct source_map *map, const struct source *source,
		       struct parts *parts)
{
	const struct conf_relay *conf = map->conf;
	source_quote_text(&parts->relation, buf_text(&map->relation));
	buf_addf(&parts->regclass, "%s::regclass", parts->relation.data);
	add_column(&parts->id, conf->columns.id);
	add_column(&parts->event_id, conf->columns.event_id);
	add_topic(map, &parts->topic);
	add_type(map, parts->topic.data, &parts->type);
	add_time(map, &parts->created_at);
	make_columns(map, parts, &parts->columns);
	make_kept(map, parts, &parts->kept);
	add_scope(map, parts->id.data, &parts->scope);
	source_quote_text(&parts->name, source->name);
	source_quote_text(&parts->id_column, conf->columns.id);
	source_quote_text(&parts->event_id_column, conf->columns.event_id);
	if (conf->after_publish == CONF_AFTER_MARK) {
		add_mark(map, &parts->mark);
		source_quote_text(&parts->mark_column, conf->mark_column);
	} else {
		buf_add_text(&parts->mark_column, "NULL");
	}
}

void source_map_fill(const struct source_map *map, struct source *source)
{
	struct parts parts = { 0 };
	make_parts(map, source, &parts);
	const struct source_blank blanks[] = {
		{ "table", buf_text(&map->relation) },
		{ "regclass", parts.regclass.data },
		{ "id", parts.id.data },
		{ "event_id", parts.event_id.data },
		{ "columns", parts.columns.data },
		{ "topic", parts.topic.data },
		{ "created_at", parts.created_at.data },
		{ "scope", parts.scope.data },
		{ "kept", parts.kept.data },
		{ "name", parts.name.data },
		{ "relation", parts.relation.data },
		{ "id_column", parts.id_column.data },
		{ "event_id_column", parts.event_id_column.data },
		{ "mark_column", parts.mark_column.data },
		{ parts.mark.length ? "mark" : NULL, buf_text(&parts.mark) },
		{ NULL, NULL },
	};
	source_fill(source, blanks);
	parts_done(&parts);
}

void source_map_index(const struct source_map *map, bool partitioned, struct buf *out)
{
	const char *pending = map->conf->pending;
	buf_addf(out, "CREATE INDEX %sON %s (", partitioned ? "" : "CONCURRENTLY ",
		 buf_text(&map->relation));
	source_quote_name(out, map->conf->columns.id);
	buf_add_char(out, ')');
	if (strcmp(pending, "true") != 0)
		buf_addf(out, " WHERE %s", pending);
}
