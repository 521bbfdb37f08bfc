/* Statements made of the texts in source_sql.h and of what the table is called. */
#include "source.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "mem.h"
#include "source_fill.h"
#include "source_sql.h"

#define OWN_LEASE   "relay"
#define TEXTS_COUNT 11

struct source_texts {
	struct buf name;
	struct buf lease;
	struct buf statements[TEXTS_COUNT];
	size_t count;
};

static const struct source_blank own_blanks[] = {
	{ "table", CONF_OWN_TABLE },
	{ "regclass", "'" CONF_OWN_TABLE "'::regclass" },
	{ "id", "o.id" },
	{ "event_id", "o.event_id" },
	{ "columns", "o.id, o.event_id, o.topic, o.type, o.ordering_key, o.partition,"
		     " o.message_key, o.payload, o.headers::text AS headers, o.created_at" },
	{ "topic", "o.topic" },
	{ "created_at", "o.created_at" },
	{ "scope", "" },
	{ "kept", "o.topic, o.type, o.ordering_key, o.partition, o.message_key, o.payload,"
		  " o.headers, o.created_at, NULL::text AS whole" },
	{ NULL, NULL },
};

/* --- quoting --- */

static void quote(struct buf *out, const char *text, char mark)
{
	buf_add_char(out, mark);
	for (const char *c = text; *c; c++) {
		if (*c == mark)
			buf_add_char(out, mark);
		buf_add_char(out, *c);
	}
	buf_add_char(out, mark);
}

void source_quote_name(struct buf *out, const char *name)
{
	quote(out, name, '"');
}

/* A backslash is one of E'...' alone: it means itself whatever the server is set to. */
void source_quote_text(struct buf *out, const char *text)
{
	if (!strchr(text, '\\')) {
		quote(out, text, '\'');
		return;
	}
	BUF_AUTO struct buf doubled = { 0 };
	for (const char *c = text; *c; c++) {
		if (*c == '\\')
			buf_add_char(&doubled, '\\');
		buf_add_char(&doubled, *c);
	}
	buf_add_text(out, " E");
	quote(out, buf_text(&doubled), '\'');
}

/* --- filling --- */

static const char *filling(const struct source_blank *blanks, const char *name, size_t length)
{
	for (const struct source_blank *blank = blanks; blank->name; blank++)
		if (strlen(blank->name) == length && memcmp(blank->name, name, length) == 0)
			return blank->text;
	abort(); /* a statement asks for what is never given */
}

static const char *make(struct source *source, const char *form, const struct source_blank *blanks)
{
	struct buf *out = &source->texts->statements[source->texts->count++];
	for (;;) {
		size_t plain = strcspn(form, "{");
		buf_add(out, form, plain);
		if (!form[plain])
			return buf_text(out);
		form += plain + 1;
		size_t length = strcspn(form, "}");
		buf_add_text(out, filling(blanks, form, length));
		form += length + 1;
	}
}

static void forget(struct source *source)
{
	for (size_t i = 0; i < source->texts->count; i++)
		buf_done(&source->texts->statements[i]);
	source->texts->count = 0;
}

static bool has(const struct source_blank *blanks, const char *name)
{
	for (; blanks->name; blanks++)
		if (strcmp(blanks->name, name) == 0)
			return true;
	return false;
}

void source_fill(struct source *source, const struct source_blank *blanks)
{
	bool marks = has(blanks, "mark");
	forget(source);
	source->poll = make(source, source_poll, blanks);
	source->page = make(source, source_page, blanks);
	source->holders = make(source, source_holders, blanks);
	source->remove = make(source, marks ? source_mark : source_delete, blanks);
	source->bury = make(source, marks ? source_bury_marked : source_bury, blanks);
	source->measure = make(source, source_measure, blanks);
	source->waiting = make(source, source_waiting, blanks);
	source->topics = make(source, source_topics, blanks);
	if (source->own)
		return;
	source->add = make(source, source_add, blanks);
	source->plan = make(source, source_plan, blanks);
	source->highest = make(source, source_highest, blanks);
}

/* --- making --- */

/* public.events, or "a.b"."say ""no""". */
static void add_part(struct buf *out, const char *part)
{
	if (strpbrk(part, ".\""))
		source_quote_name(out, part);
	else
		buf_add_text(out, part);
}

static void name_it(struct source_texts *texts, const char *table)
{
	char *schema_part, *table_part;
	if (!conf_table_split(table, NULL, &schema_part, &table_part))
		abort(); /* the configuration was checked */
	add_part(&texts->name, schema_part);
	buf_add_char(&texts->name, '.');
	add_part(&texts->name, table_part);
	buf_addf(&texts->lease, OWN_LEASE ":%s", texts->name.data);
	free(schema_part);
	free(table_part);
}

struct source *source_new(const struct conf_relay *conf)
{
	struct source *source = mem_zero(sizeof(*source));
	source->texts = mem_zero(sizeof(*source->texts));
	source->own = !conf || conf_table_is_own(conf);
	source->blocked = source_blocked;
	if (source->own) {
		source->sequential = true;
		source->name = CONF_OWN_TABLE;
		source->lease = OWN_LEASE;
		source->start_after = INT64_MIN;
		source_fill(source, own_blanks);
		return source;
	}
	name_it(source->texts, conf->table);
	source->name = buf_text(&source->texts->name);
	source->lease = buf_text(&source->texts->lease);
	source->start_after = conf->start_after;
	return source;
}

void source_free(struct source *source)
{
	if (!source)
		return;
	forget(source);
	buf_done(&source->texts->name);
	buf_done(&source->texts->lease);
	free(source->texts);
	free(source);
}
