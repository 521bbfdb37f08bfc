/* Faults that would otherwise show when the first server is asked, or at the first stop. */
#include "check.h"

#include "intake/consumer.h"
#include "kafka.h"
#include "pg_conf.h"
#include "rules/rules.h"

/* What a request that has run into its timeout needs until its result is recorded. */
#define DRAIN_RESERVE (3 * USEC_SEC)

static void say(const struct conf *conf, const char *key, const char *text, struct buf *out)
{
	char place[1024];

	buf_addf(out, "%s: %s\n", conf_place(conf, key, place, sizeof(place)), text);
}

/* Settings that are wrong by themselves are said one by one, then whether they fit each other. */
static void check_kafka(const struct conf *conf, struct buf *faults)
{
	const size_t before = faults->length;
	struct err err;

	kafka_conf_check(conf, faults);
	if (faults->length == before && !consumer_check(conf, &err))
		say(conf, "kafka", err.text, faults);
}

static void check_drain(const struct conf *conf, struct buf *warnings)
{
	const struct conf_target *slowest = NULL;
	char drain[32], timeout[32];
	struct err text;

	for (size_t i = 0; i < conf->target_count; i++)
		if (!slowest || conf->targets[i].timeout > slowest->timeout)
			slowest = &conf->targets[i];
	if (!slowest || conf->general.drain_timeout >= slowest->timeout + DRAIN_RESERVE)
		return;
	err_set(&text,
		"\"%s\" is shorter than the timeout of target \"%s\", \"%s\", and 3s more: a stop "
		"cuts off requests that might still be answered",
		usec_format(conf->general.drain_timeout, drain, sizeof(drain)), slowest->name,
		usec_format(slowest->timeout, timeout, sizeof(timeout)));
	say(conf, "general.drain_timeout", text.text, warnings);
}

bool check_configuration(const struct conf *conf, struct buf *faults, struct buf *warnings,
			 struct rules **rules_r)
{
	const size_t before = faults->length;
	struct rules *rules = NULL;

	pg_conf_check(conf, CONF_LEDGER, faults);
	check_kafka(conf, faults);
	check_drain(conf, warnings);
	if (!rules_new(conf, faults, warnings, &rules) || faults->length != before) {
		rules_free(rules);
		return false;
	}
	*rules_r = rules;
	return true;
}
