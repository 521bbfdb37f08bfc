/* What would be in the ledger's way at its servers. */
#include "connect.h"

#include <stdlib.h>
#include <string.h>

#include "expiry/reach_connect.h"
#include "findings.h"
#include "intake/locator.h"
#include "intake/sql_positions.h"
#include "kafka_connect.h"
#include "mem.h"
#include "sql_census.h"
#include "strays.h"

static const struct findings_right rights[] = {
	{ "counterfoil.instance", "SELECT, INSERT, UPDATE, DELETE" },
	{ "counterfoil.effect", "SELECT, INSERT, DELETE" },
	{ "counterfoil.effect_id_seq", "USAGE" },
	{ "counterfoil.effect_state", "SELECT, INSERT, UPDATE, DELETE" },
	{ "counterfoil.effect_request", "SELECT, INSERT, DELETE" },
	{ "counterfoil.attempt", "SELECT, INSERT, DELETE" },
	{ "counterfoil.conflict", "SELECT, INSERT, DELETE" },
	{ "counterfoil.poison", "SELECT, INSERT, UPDATE, DELETE" },
	{ "counterfoil.unmatched", "SELECT, INSERT, UPDATE, DELETE" },
	{ "counterfoil.intake_position", "SELECT, INSERT, UPDATE" },
	{ "counterfoil.topic_awaited", "SELECT, INSERT, DELETE" },
	{ "counterfoil.reach", "SELECT, INSERT, UPDATE" },
	{ "counterfoil.target_state", "SELECT, INSERT, UPDATE" },
	{ "counterfoil.pause", "SELECT" },
	{ "counterfoil.expiry", "SELECT, UPDATE" },
	{ "counterfoil.operation", "SELECT, UPDATE, DELETE" },
	{ "counterfoil.operation_item", "SELECT, UPDATE, DELETE" },
	{ "counterfoil.lease", "SELECT" },
	{ "counterfoil.outbox", "SELECT, INSERT" },
	{ NULL, NULL },
};

/* What was recorded under a name that the configuration has no more. */
static void judge_strays(struct findings *findings, const struct conf *conf,
			 struct pg_session *session)
{
	PG_RESULT_AUTO PGresult *strays = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	struct err err;
	char count[32];

	strays_params(conf, &params);
	if (!pg_session_query(session, SQL_STRAYS, &params, &err, NULL, &strays)) {
		findings_say(findings, FINDING_ERROR, "targets: %s", err.text);
		return;
	}
	for (int row = 0; row < pg_rows(strays); row++)
		findings_say(findings, FINDING_WARNING,
			     "targets: \"%s\" is not configured and has %s unfinished "
			     "keys: " STRAYS_REMEDY,
			     pg_get_text(strays, row, STRAY_TARGET),
			     strays_count(strays, row, count, sizeof(count)));
	if (pg_rows(strays) == 0)
		findings_say(findings, FINDING_OK, "targets: no key is of another one");
}

/* Borrowed, each once. */
static size_t list_topics(const struct conf *conf, const char **topics)
{
	size_t count = 0;

	for (size_t i = 0; i < conf->effect_count; i++) {
		size_t at = 0;

		while (at < count && strcmp(topics[at], conf->effects[i].topic) != 0)
			at++;
		topics[at] = conf->effects[i].topic;
		count += at == count;
	}
	return count;
}

static const char *beginning_of(const struct conf_ledger *ledger)
{
	switch (ledger->start) {
	case CONF_START_UNSET:
		break;
	case CONF_START_EARLIEST:
		return "its whole history is performed";
	case CONF_START_LATEST:
		return "only what comes from then on is performed";
	case CONF_START_TIME:
		return "what came from that time on is performed";
	}
	return NULL;
}

/* A topic that has no position is begun at the start, if it is said where. */
static void judge_beginnings(struct findings *findings, const struct conf *conf,
			     const struct kafka_connect *question, struct pg_session *session)
{
	PG_RESULT_AUTO PGresult *unbegun = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	PG_ARRAY_AUTO struct pg_array topics;
	const char *beginning = beginning_of(&conf->ledger);
	struct err err;

	pg_array_init(&topics, PG_TEXT);
	for (size_t i = 0; i < question->topic_count; i++)
		pg_array_text(&topics, question->topics[i]);
	pg_add_array(&params, &topics);
	if (!pg_session_query(session, SQL_UNBEGUN, &params, &err, NULL, &unbegun)) {
		findings_say(findings, FINDING_ERROR, "positions: %s", err.text);
		return;
	}
	for (int row = 0; row < pg_rows(unbegun); row++) {
		const char *topic = pg_get_text(unbegun, row, 0);

		if (beginning)
			findings_say(findings, FINDING_OK,
				     "topic \"%s\" has never been read: %s (ledger.start)", topic,
				     beginning);
		else
			findings_say(findings, FINDING_ERROR, "topic \"%s\": " LOCATOR_UNSET,
				     topic);
	}
}

enum exit_code connect_ledger(const struct conf *conf, bool strict)
{
	struct findings findings = { 0 };
	const char **topics = mem_zero((conf->effect_count + 1) * sizeof(*topics));
	const struct kafka_connect question = {
		.kafka = &conf->kafka,
		.use = KAFKA_CONNECT_READS,
		.topics = topics,
		.topic_count = list_topics(conf, topics),
	};
	struct pg_session *session;

	if (findings_postgres(&findings, conf, "counterfoil-ledger", rights, &session)) {
		judge_strays(&findings, conf, session);
		judge_beginnings(&findings, conf, &question, session);
		pg_session_free(session);
	}
	const unsigned reached = findings.unreachable;
	kafka_connect(&findings, &question);
	if (findings.unreachable == reached)
		reach_connect(&findings, conf);
	free(topics);
	return findings_code(&findings, strict);
}
