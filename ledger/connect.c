/* What would be in the ledger's way at its servers. */
#include "connect.h"

#include <stdlib.h>
#include <string.h>

#include "expiry/reach_connect.h"
#include "findings.h"
#include "kafka_connect.h"
#include "mem.h"

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

	if (findings_postgres(&findings, conf, "counterfoil-ledger", rights, &session))
		pg_session_free(session);
	const unsigned reached = findings.unreachable;
	kafka_connect(&findings, &question);
	if (findings.unreachable == reached)
		reach_connect(&findings, conf);
	free(topics);
	return findings_code(&findings, strict);
}
