/* Checks of the relay's section: a mapped table must be mapped whole, and ours is what it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_check.h"
#include "conf/conf_net.h"
#include "conf/conf_quoted.h"

/* --- our own table -----------------------------------------------------------------------------
 */

static void refuse(struct conf_faults *faults, const char *key)
{
	conf_fault(faults, key,
		   "is for a mapped table; relay.table is our own, \"" CONF_OWN_TABLE "\"");
}

static void check_own_columns(const struct conf_columns *columns, struct conf_faults *faults)
{
#define OWN(field_)                                                                                \
	if (strcmp(columns->field_, #field_) != 0)                                                 \
	refuse(faults, "relay.columns." #field_)
	OWN(id);
	OWN(event_id);
	OWN(topic);
	OWN(type);
	OWN(ordering_key);
	OWN(partition);
	OWN(message_key);
	OWN(payload);
	OWN(headers);
	OWN(created_at);
#undef OWN
}

static void check_own(const struct conf_relay *relay, struct conf_faults *faults)
{
	check_own_columns(&relay->columns, faults);
	if (strcmp(relay->topic, "${topic}") != 0)
		refuse(faults, "relay.topic");
	if (*relay->pending)
		refuse(faults, "relay.pending");
	if (relay->after_publish != CONF_AFTER_DELETE)
		refuse(faults, "relay.after_publish");
	if (*relay->mark_column)
		refuse(faults, "relay.mark_column");
	if (relay->start_after)
		refuse(faults, "relay.start_after");
}

/* --- a mapped table ---------------------------------------------------------------------------
 */

static bool said(const struct conf_faults *faults, const char *key)
{
	return conf_places_find(faults->places, key) != NULL;
}

static void check_said(const struct conf_relay *relay, struct conf_faults *faults)
{
	if (!*relay->pending)
		conf_fault(faults, "relay.pending",
			   "is required for a mapped table; write the condition of the rows that "
			   "are to be published, as in \"published_at IS NULL\", or \"true\" for "
			   "all");
	if (!said(faults, "relay.after_publish"))
		conf_fault(faults, "relay.after_publish",
			   "is required for a mapped table; write \"delete\", or \"mark\" and the "
			   "name of the column in relay.mark_column");
	if (!said(faults, "relay.start_after"))
		conf_fault(faults, "relay.start_after",
			   "is required for a mapped table; rows with an id up to it are left "
			   "alone: the highest id of today publishes only what is new, 0 all there "
			   "is");
}

static void check_mark(const struct conf_relay *relay, struct conf_faults *faults)
{
	switch (relay->after_publish) {
	case CONF_AFTER_DELETE:
		if (*relay->mark_column)
			conf_fault(faults, "relay.mark_column",
				   "has no use where relay.after_publish is \"delete\"");
		return;
	case CONF_AFTER_MARK:
		break;
	}
	if (!*relay->mark_column)
		conf_fault(faults, "relay.mark_column",
			   "is required with after_publish = \"mark\": the column that says that a "
			   "row was published");
	else if (*relay->pending && !strcasestr(relay->pending, relay->mark_column))
		conf_fault(faults, "relay.pending",
			   "does not speak of relay.mark_column: marked rows would be published "
			   "again, for ever; write for example \"%s IS NULL\"",
			   relay->mark_column);
}

static void check_columns(const struct conf_columns *columns, struct conf_faults *faults)
{
	if (!*columns->id)
		conf_fault(faults, "relay.columns.id", "is required");
	if (!*columns->event_id)
		conf_fault(faults, "relay.columns.event_id", "is required");
	if (!*columns->payload)
		conf_fault(faults, "relay.columns.payload", "is required");
}

static bool is(const struct conf_piece *piece, const char *name)
{
	return piece->column && piece->length == strlen(name) &&
	       memcmp(piece->text, name, piece->length) == 0;
}

static void check_topic(const struct conf_relay *relay, struct conf_faults *faults)
{
	const char *rest = relay->topic;
	struct conf_piece piece;
	struct err err;
	while (conf_topic_piece(&rest, &err, &piece))
		if (is(&piece, "topic") && !*relay->columns.topic)
			conf_fault(faults, "relay.topic",
				   "${topic} has no column: relay.columns.topic is \"\"");
	if (*err.text)
		conf_fault(faults, "relay.topic", "%s", err.text);
}

static void check_foreign(const struct conf_relay *relay, struct conf_faults *faults)
{
	check_said(relay, faults);
	check_mark(relay, faults);
	check_columns(&relay->columns, faults);
	check_topic(relay, faults);
}

/* --- both --------------------------------------------------------------------------------------
 */

static void check_table(const struct conf_relay *relay, struct conf_faults *faults)
{
	char *schema, *table;
	struct err err;
	if (!conf_table_split(relay->table, &err, &schema, &table)) {
		conf_fault(faults, "relay.table", "%s", err.text);
		return;
	}
	free(schema);
	free(table);
	if (conf_table_is_own(relay))
		check_own(relay, faults);
	else
		check_foreign(relay, faults);
}

static void check_topics(const struct conf_texts *topics, struct conf_faults *faults)
{
	struct err err;
	for (size_t i = 0; i < topics->count; i++) {
		BUF_AUTO struct buf shown = { 0 };
		char path[64];
		(void)snprintf(path, sizeof(path), "relay.topics[%zu]", i);
		if (!conf_topic_check(topics->items[i], &err))
			conf_fault(faults, path, "%s %s", conf_quoted(&shown, topics->items[i]),
				   err.text);
	}
}

void conf_check_relay(const struct conf_relay *relay, struct conf_faults *faults)
{
	struct err err;
	if (relay->poll_idle < relay->poll_busy)
		conf_fault(faults, "relay.poll_idle", "is shorter than relay.poll_busy");
	if (!conf_header_value_check(relay->source, &err))
		conf_fault(faults, "relay.source", "%s", err.text);
	if (!conf_header_value_check(relay->content_type, &err))
		conf_fault(faults, "relay.content_type", "%s", err.text);
	check_table(relay, faults);
	check_topics(&relay->topics, faults);
}
