/* Statements made of the texts in source_sql.h and of what the table is called. */
#include "source.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "mem.h"
#include "source_sql.h"

#define SOURCE_OWN  "counterfoil.outbox"
#define TEXTS_COUNT 6

struct source_texts {
	struct buf items[TEXTS_COUNT];
	size_t count;
};

struct blank {
	const char *name;
	const char *text;
};

static const struct blank own_blanks[] = {
	{ "table", "counterfoil.outbox" },
	{ "regclass", "'counterfoil.outbox'::regclass" },
	{ "id", "o.id" },
	{ "event_id", "o.event_id" },
	{ "columns", "o.id, o.event_id, o.topic, o.type, o.ordering_key, o.partition,"
		     " o.message_key, o.payload, o.headers::text AS headers, o.created_at" },
	{ "topic", "o.topic" },
	{ "created_at", "o.created_at" },
	{ "scope", "" },
	{ "leave", "DELETE FROM" },
	{ "using", "USING" },
	{ "kept", "o.topic, o.type, o.ordering_key, o.partition, o.message_key, o.payload,"
		  " o.headers, o.created_at, NULL::text AS whole" },
	{ NULL, NULL },
};

static const char *filling(const struct blank *blanks, const char *name, size_t length)
{
	for (const struct blank *blank = blanks; blank->name; blank++)
		if (strlen(blank->name) == length && memcmp(blank->name, name, length) == 0)
			return blank->text;
	return NULL;
}

static void fill(struct buf *out, const char *form, const struct blank *blanks)
{
	for (;;) {
		size_t plain = strcspn(form, "{");
		buf_add(out, form, plain);
		if (!form[plain])
			return;
		form += plain + 1;
		size_t length = strcspn(form, "}");
		const char *text = filling(blanks, form, length);
		if (!text)
			abort();
		buf_add_text(out, text);
		form += length + 1;
	}
}

static const char *make(struct source *source, const char *form, const struct blank *blanks)
{
	struct buf *text = &source->texts->items[source->texts->count++];
	fill(text, form, blanks);
	return buf_text(text);
}

static void make_all(struct source *source, const struct blank *blanks)
{
	source->poll = make(source, source_poll, blanks);
	source->holders = make(source, source_holders, blanks);
	source->remove = make(source, source_remove, blanks);
	source->bury = make(source, source_bury, blanks);
	source->measure = make(source, source_measure, blanks);
	source->topics = make(source, source_topics, blanks);
	source->blocked = source_blocked;
}

struct source *source_new(const struct conf_relay *conf)
{
	struct source *source = mem_zero(sizeof(*source));
	(void)conf;
	source->texts = mem_zero(sizeof(*source->texts));
	source->own = true;
	source->sequential = true;
	source->name = SOURCE_OWN;
	source->lease = "relay";
	source->start_after = INT64_MIN;
	make_all(source, own_blanks);
	return source;
}

void source_free(struct source *source)
{
	if (!source)
		return;
	for (size_t i = 0; i < source->texts->count; i++)
		buf_done(&source->texts->items[i]);
	free(source->texts);
	free(source);
}
