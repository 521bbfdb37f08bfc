/* A Kafka stand-in: librdkafka's mock cluster as a process of its own.
 *
 *   mock-broker [--brokers N] [--partitions N]
 *
 * Prints "bootstrap HOST:PORT,..." when it is ready, then takes commands as lines on stdin and
 * answers each with one line, "ok" or "error WHY". It ends at the end of its stdin, so it never
 * outlives the process that started it, or at SIGTERM. What it holds is in memory only, at most
 * 5 MiB or 100,000 message sets a partition: the oldest are dropped beyond that. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#define WORDS_MAX      5
#define ERRORS_MAX     10000
#define ROUND_TRIP_MAX 600000

struct broker {
	rd_kafka_t *handle; /* the cluster needs a client to belong to; it is not used otherwise */
	rd_kafka_mock_cluster_t *cluster;
	int partitions; /* of a topic that is made without a number */
};

struct command {
	const char *name;
	const char *usage;
	int least; /* words after the name */
	int most;
	/* NULL: done; else why not */
	const char *(*run)(struct broker *broker, char *const *words, int count);
};

static bool number(const char *text, long least, long most, int *number_r)
{
	char *end;
	errno = 0;
	long value = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || value < least || value > most)
		return false;
	*number_r = (int)value;
	return true;
}

static const char *answer(rd_kafka_resp_err_t err)
{
	return err == RD_KAFKA_RESP_ERR_NO_ERROR ? NULL : rd_kafka_err2str(err);
}

static const char *run_topic(struct broker *broker, char *const *words, int count)
{
	int partitions = broker->partitions;
	if (count > 1 && !number(words[1], 1, 1000, &partitions))
		return "a topic has 1 to 1000 partitions";
	return answer(rd_kafka_mock_topic_create(broker->cluster, words[0], partitions, 1));
}

static const char *run_topic_error(struct broker *broker, char *const *words, int count)
{
	int code;
	(void)count;
	if (!number(words[1], INT16_MIN, INT16_MAX, &code))
		return "no error code";
	rd_kafka_mock_topic_set_error(broker->cluster, words[0], (rd_kafka_resp_err_t)code);
	return NULL;
}

static const char *run_down(struct broker *broker, char *const *words, int count)
{
	int id;
	(void)count;
	if (!number(words[0], 1, INT32_MAX, &id))
		return "no broker id";
	return answer(rd_kafka_mock_broker_set_down(broker->cluster, id));
}

static const char *run_up(struct broker *broker, char *const *words, int count)
{
	int id;
	(void)count;
	if (!number(words[0], 1, INT32_MAX, &id))
		return "no broker id";
	return answer(rd_kafka_mock_broker_set_up(broker->cluster, id));
}

static const char *run_errors(struct broker *broker, char *const *words, int count)
{
	static const rd_kafka_resp_err_t none;
	int api, times, code;
	(void)count;
	if (!number(words[0], 0, INT16_MAX, &api) || !number(words[1], 0, ERRORS_MAX, &times) ||
	    !number(words[2], INT16_MIN, INT16_MAX, &code))
		return "no API key, count or error code";
	if (times == 0) {
		rd_kafka_mock_clear_request_errors(broker->cluster, (int16_t)api);
		return NULL;
	}
	rd_kafka_resp_err_t *errors = calloc((size_t)times, sizeof(none));
	if (!errors)
		return "out of memory";
	for (int i = 0; i < times; i++)
		errors[i] = (rd_kafka_resp_err_t)code;
	rd_kafka_mock_push_request_errors_array(broker->cluster, (int16_t)api, (size_t)times,
						errors);
	free(errors);
	return NULL;
}

static const char *run_errors_of(struct broker *broker, char *const *words, int count)
{
	int id, api, times, code;
	(void)count;
	if (!number(words[0], 1, INT32_MAX, &id) || !number(words[1], 0, INT16_MAX, &api) ||
	    !number(words[2], 1, ERRORS_MAX, &times) ||
	    !number(words[3], INT16_MIN, INT16_MAX, &code))
		return "no broker id, API key, count or error code";
	for (int i = 0; i < times; i++) {
		rd_kafka_resp_err_t err = rd_kafka_mock_broker_push_request_error_rtts(
			broker->cluster, id, (int16_t)api, 1, (rd_kafka_resp_err_t)code, 0);
		if (err)
			return answer(err);
	}
	return NULL;
}

static const char *run_leader(struct broker *broker, char *const *words, int count)
{
	int partition, id;
	(void)count;
	if (!number(words[1], 0, INT32_MAX, &partition) || !number(words[2], -1, INT32_MAX, &id))
		return "no partition or broker id";
	return answer(rd_kafka_mock_partition_set_leader(broker->cluster, words[0], partition, id));
}

static const char *run_rtt(struct broker *broker, char *const *words, int count)
{
	int id, milliseconds;
	(void)count;
	if (!number(words[0], 1, INT32_MAX, &id) ||
	    !number(words[1], 0, ROUND_TRIP_MAX, &milliseconds))
		return "no broker id or milliseconds";
	return answer(rd_kafka_mock_broker_set_rtt(broker->cluster, id, milliseconds));
}

static const struct command commands[] = {
	{ "topic", "NAME [PARTITIONS]", 1, 2, run_topic },
	{ "topic-error", "NAME ERROR", 2, 2, run_topic_error },
	{ "down", "BROKER", 1, 1, run_down },
	{ "up", "BROKER", 1, 1, run_up },
	{ "errors", "API COUNT ERROR (0 times: clears)", 3, 3, run_errors },
	{ "errors-of", "BROKER API COUNT ERROR", 4, 4, run_errors_of },
	{ "leader", "TOPIC PARTITION BROKER (-1: none)", 3, 3, run_leader },
	{ "rtt", "BROKER MILLISECONDS", 2, 2, run_rtt },
};

static int split(char *line, char **words)
{
	int count = 0;
	char *word;
	while (count < WORDS_MAX && (word = strsep(&line, " \t\n")))
		if (*word != '\0')
			words[count++] = word;
	return count;
}

static void obey(struct broker *broker, char *line)
{
	char *words[WORDS_MAX];
	int count = split(line, words);
	const char *wrong = "no such command";
	for (size_t i = 0; count > 0 && i < sizeof(commands) / sizeof(commands[0]); i++) {
		const struct command *command = &commands[i];
		if (strcmp(command->name, words[0]) != 0)
			continue;
		wrong = count - 1 < command->least || count - 1 > command->most
				? command->usage
				: command->run(broker, words + 1, count - 1);
		break;
	}
	if (wrong)
		printf("error %s\n", wrong);
	else
		puts("ok");
	fflush(stdout);
}

/* Breaks the reading of stdin: no SA_RESTART. librdkafka's threads block every signal. */
static void on_signal(int signal_number)
{
	(void)signal_number;
}

static void serve(struct broker *broker)
{
	struct sigaction action = { .sa_handler = on_signal };
	char *line = NULL;
	size_t size = 0;
	sigaction(SIGTERM, &action, NULL);
	printf("bootstrap %s\n", rd_kafka_mock_cluster_bootstraps(broker->cluster));
	fflush(stdout);
	while (getline(&line, &size, stdin) > 0)
		obey(broker, line);
	free(line);
}

static bool options(int argc, char **argv, int *brokers_r, int *partitions_r)
{
	static const struct option known[] = {
		{ "brokers", required_argument, NULL, 'b' },
		{ "partitions", required_argument, NULL, 'p' },
		{ 0 },
	};
	int option;
	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (option == 'b' && number(optarg, 1, 100, brokers_r))
			continue;
		if (option == 'p' && number(optarg, 1, 1000, partitions_r))
			continue;
		return false;
	}
	return optind == argc;
}

static rd_kafka_t *client_new(char *why, size_t size)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	if (rd_kafka_conf_set(conf, "log_level", "4", why, size) != RD_KAFKA_CONF_OK) {
		rd_kafka_conf_destroy(conf);
		return NULL;
	}
	rd_kafka_t *client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, size);
	if (!client)
		rd_kafka_conf_destroy(conf);
	return client;
}

int main(int argc, char **argv)
{
	struct broker broker = { .partitions = 4 };
	int brokers = 1;
	char why[512];
	if (!options(argc, argv, &brokers, &broker.partitions)) {
		fputs("usage: mock-broker [--brokers N] [--partitions N]\n", stderr);
		return 2;
	}
	broker.handle = client_new(why, sizeof(why));
	if (!broker.handle) {
		fprintf(stderr, "mock-broker: %s\n", why);
		return 1;
	}
	broker.cluster = rd_kafka_mock_cluster_new(broker.handle, brokers);
	if (!broker.cluster) {
		fputs("mock-broker: no mock cluster\n", stderr);
		rd_kafka_destroy(broker.handle);
		return 1;
	}
	serve(&broker);
	rd_kafka_mock_cluster_destroy(broker.cluster);
	rd_kafka_destroy(broker.handle);
	return 0;
}
