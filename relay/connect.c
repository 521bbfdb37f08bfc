/* What would be in the relay's way at its servers. */
#include "connect.h"

#include <stdlib.h>
#include <string.h>

#include "findings.h"
#include "kafka_connect.h"
#include "mem.h"
#include "source/source.h"
#include "source/source_check.h"
#include "sql_connect.h"

#define TOPICS_MAX 200
#define ROWS_MAX   10000 /* that are looked at for topics */

static const struct findings_right rights[] = {
	{ "counterfoil.outbox_source", "SELECT, UPDATE" },
	{ "counterfoil.outbox_dead", "SELECT, INSERT, UPDATE" },
	{ "counterfoil.lease", "SELECT, INSERT, UPDATE" },
	{ "counterfoil.suspect", "SELECT, INSERT, UPDATE, DELETE" },
	{ "counterfoil.relay", "SELECT, INSERT, UPDATE, DELETE" },
	{ "counterfoil.relay_topic", "SELECT, INSERT, UPDATE, DELETE" },
	{ "counterfoil.once", "SELECT, UPDATE, DELETE" },
	{ "counterfoil.outbox", "SELECT, DELETE" }, /* of our own source alone */
	{ NULL, NULL },
};
enum { OWN_RIGHT = sizeof(rights) / sizeof(rights[0]) - 2 };

/* An id that a session keeps for later is committed after higher ones are known to be all. */
static void judge_identity(struct findings *findings, struct pg_session *session)
{
	PG_RESULT_AUTO PGresult *identity = NULL;
	struct err err;
	if (!pg_session_query(session, sql_identity_cache, NULL, &err, NULL, &identity))
		findings_say(findings, FINDING_ERROR, "outbox: %s", err.text);
	else if (pg_rows(identity) == 1 && pg_get_int8(identity, 0, 0) == 1)
		findings_say(findings, FINDING_OK, "outbox: ids are given out one by one");
	else if (pg_rows(identity) == 1)
		findings_say(findings, FINDING_ERROR,
			     "outbox: sessions keep %lld ids at a time, and rows would be skipped: "
			     "ALTER TABLE counterfoil.outbox ALTER COLUMN id SET CACHE 1",
			     (long long)pg_get_int8(identity, 0, 0));
	else
		findings_say(findings, FINDING_ERROR,
			     "outbox: counterfoil.outbox.id is no identity column: restore the "
			     "table as `counterfoil migrate --print` has it");
}

/* Those of the configuration, else those of rows that wait: borrowed from either. */
static size_t list_topics(const struct conf_relay *relay, const PGresult *waiting,
			  const char **topics)
{
	size_t count = 0;
	for (; count < relay->topics.count && count < TOPICS_MAX; count++)
		topics[count] = relay->topics.items[count];
	for (int row = 0; count < TOPICS_MAX && row < pg_rows(waiting); row++)
		if (*pg_get_text(waiting, row,
				 0)) /* else the row is dead, whatever the brokers say */
			topics[count++] = pg_get_text(waiting, row, 0);
	return count;
}

static void judge_kafka(struct findings *findings, const struct conf *conf, const PGresult *waiting)
{
	const char **topics = mem_zero(TOPICS_MAX * sizeof(*topics));
	const struct kafka_connect question = {
		.kafka = &conf->kafka,
		.use = KAFKA_CONNECT_WRITES,
		.key = conf->relay.message_key,
		.topics = topics,
		.topic_count = list_topics(&conf->relay, waiting, topics),
	};
	if (question.topic_count == 0)
		findings_say(findings, FINDING_OK,
			     "topics: none to ask for: relay.topics names none, and no row that "
			     "waits is known");
	kafka_connect(findings, &question);
	if (question.topic_count == TOPICS_MAX)
		findings_say(findings, FINDING_WARNING, "topics: only %d were asked for",
			     TOPICS_MAX);
	free(topics);
}

static void say_lines(struct findings *findings, enum findings_level level, const char *text)
{
	while (*text) {
		size_t length = strcspn(text, "\n");
		if (length > 0)
			findings_say(findings, level, "table: %.*s", (int)length, text);
		text += length + (text[length] == '\n');
	}
}

/* A table that is not ours. */
static bool judge_mapping(struct findings *findings, const struct conf_relay *relay,
			  struct source *source, struct pg_session *session)
{
	struct source_check *check = source_check_new(relay, source, false);
	struct err err;
	bool fits = source_check_run(check, session, &err);
	const char *text = source_check_text(check);
	if (!fits)
		say_lines(findings, FINDING_ERROR, *text ? text : err.text);
	else if (*text)
		say_lines(findings, FINDING_WARNING, text);
	else
		findings_say(findings, FINDING_OK, "table: %s fits", relay->table);
	source_check_free(check);
	return fits;
}

/* The topics of rows that wait; NULL: they are not known, or not wanted. */
static PGresult *list_waiting(struct findings *findings, const struct source *source,
			      struct pg_session *session)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	PGresult *waiting = NULL;
	struct err err;
	pg_add_int8(&params, ROWS_MAX);
	if (!pg_session_query(session, source->topics, &params, &err, NULL, &waiting))
		findings_say(findings, FINDING_ERROR, "outbox: %s", err.text);
	return waiting;
}

static PGresult *judge_outbox(struct findings *findings, const struct conf_relay *relay,
			      struct pg_session *session)
{
	bool own = conf_table_is_own(relay);
	struct source *source = source_new(own ? NULL : relay);
	PGresult *waiting = NULL;
	bool fits = true;
	if (own)
		judge_identity(findings, session);
	else
		fits = judge_mapping(findings, relay, source, session);
	if (fits && relay->topics.count == 0)
		waiting = list_waiting(findings, source, session);
	source_free(source);
	return waiting;
}

enum exit_code connect_relay(const struct conf *conf, bool strict)
{
	struct findings findings = { 0 };
	struct findings_right wanted[OWN_RIGHT + 2];
	struct pg_session *session;
	PGresult *waiting = NULL;
	for (size_t i = 0; i < OWN_RIGHT + 2; i++)
		wanted[i] = rights[i];
	if (!conf_table_is_own(&conf->relay))
		wanted[OWN_RIGHT] = (struct findings_right){ 0 };
	if (findings_postgres(&findings, conf, "counterfoil-relay", wanted, &session)) {
		waiting = judge_outbox(&findings, &conf->relay, session);
		pg_session_free(session);
	}
	judge_kafka(&findings, conf, waiting);
	pg_drop(waiting);
	return findings_code(&findings, strict);
}
