/* The settings of the consumer's client: those that are ours, and the user's. */
#include <string.h>

#include "consumer_private.h"

/* Ours whatever the user wrote: the truth is in the database, and an eager group lets go of all
 * that it had before it takes anything. */
static const struct setting {
	const char *name;
	const char *value;
} fixed_settings[] = {
	{ "enable.auto.commit", "false" },
	{ "enable.auto.offset.store", "false" },
	{ "auto.offset.reset", "earliest" },
	{ "partition.assignment.strategy", "range" },
};

/* Ours unless the user chose: the memory that waits for the database stays small, and the
 * partitions of a process that was killed are handed on in seconds. A client whose queue is full
 * fetches no more for up to a second, so that the queue holds what is recorded in one. */
static const struct chosen_setting {
	const char *name;
	const char *library_default;
	const char *value;
} chosen_settings[] = {
	{ "queued.max.messages.kbytes", "65536", "8192" },
	{ "queued.min.messages", "100000", "10000" },
	{ "session.timeout.ms", "45000", "6000" },
	{ "heartbeat.interval.ms", "3000", "2000" },
	{ "topic.metadata.refresh.interval.ms", "300000", "30000" },
};

/* What one fetch brings stands above what the queue may hold, and unpacked it is several times as
 * much. The client takes no fetch that is smaller than its largest message; to a consumer that is
 * only a number, since a broker gives a larger one as well. */
static const struct chosen_setting fetch_settings[] = {
	{ "message.max.bytes", "1000000", "262144" },
	{ "fetch.max.bytes", "52428800", "262144" },
};

static bool is_default(const rd_kafka_conf_t *conf, const struct chosen_setting *setting)
{
	char value[64];
	size_t size = sizeof(value);

	return rd_kafka_conf_get(conf, setting->name, value, &size) == RD_KAFKA_CONF_OK &&
	       strcmp(value, setting->library_default) == 0;
}

static bool limit_fetches(rd_kafka_conf_t *conf, struct err *err)
{
	const size_t count = sizeof(fetch_settings) / sizeof(fetch_settings[0]);

	for (size_t i = 0; i < count; i++)
		if (!is_default(conf, &fetch_settings[i]))
			return true;
	for (size_t i = 0; i < count; i++)
		if (!kafka_conf_set(conf, fetch_settings[i].name, fetch_settings[i].value, err))
			return false;
	return true;
}

static bool add_settings(rd_kafka_conf_t *conf, const char *group, struct err *err)
{
	for (size_t i = 0; i < sizeof(fixed_settings) / sizeof(fixed_settings[0]); i++)
		if (!kafka_conf_set(conf, fixed_settings[i].name, fixed_settings[i].value, err))
			return false;
	for (size_t i = 0; i < sizeof(chosen_settings) / sizeof(chosen_settings[0]); i++)
		if (is_default(conf, &chosen_settings[i]) &&
		    !kafka_conf_set(conf, chosen_settings[i].name, chosen_settings[i].value, err))
			return false;
	return limit_fetches(conf, err) && kafka_conf_set(conf, "group.id", group, err);
}

rd_kafka_conf_t *consumer_settings(const struct conf *conf, bool ends, struct log *log,
				   struct err *err)
{
	rd_kafka_conf_t *settings;

	if (!kafka_conf_new(&conf->kafka, log, err, &settings))
		return NULL;
	if (!add_settings(settings, conf->ledger.group, err) ||
	    !kafka_conf_set(settings, "enable.partition.eof", ends ? "true" : "false", err)) {
		rd_kafka_conf_destroy(settings);
		return NULL;
	}
	rd_kafka_conf_set_events(settings, RD_KAFKA_EVENT_REBALANCE);
	return settings;
}

bool consumer_check(const struct conf *conf, struct err *err)
{
	rd_kafka_conf_t *settings = consumer_settings(conf, false, NULL, err);

	return settings && kafka_client_check(settings, RD_KAFKA_CONSUMER, err);
}
