/* counterfoil-ledger: options, configuration, and the exit code. */
#include "main.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "connect.h"
#include "installation.h"
#include "ledger.h"
#include "log.h"
#include "options.h"
#include "rules/rules.h"
#include "try/try.h"
#include "version.h"

#define MAPPED_FROM (128 * 1024)

enum { OWN_TRY, OWN_TOPIC, OWN_TYPE };

static const struct options_own own_options[] = {
	[OWN_TRY] = { "try", NULL,
		      "show for each FILE, an event, which effects it has\n"
		      "and the request of each, and end; nothing is sent,\n"
		      "no server is contacted. Without FILE, or for \"-\":\n"
		      "standard input",
		      .task = true, .files = true },
	[OWN_TOPIC] = { "topic", "TOPIC", "with --try: each FILE is a bare payload of this topic" },
	[OWN_TYPE] = { "type", "TYPE", "with --topic: and of this type" },
	{ 0 },
};

static const struct options_program program = {
	.name = "counterfoil-ledger",
	.program = CONF_LEDGER,
	.summary = "Consumes events from Kafka, records their effects in PostgreSQL, and performs "
		   "each\n"
		   "once.",
	.notes = "An event in a FILE is a JSON object:\n"
		 "  { \"topic\": \"orders\", \"type\": \"order.placed\", \"id\": \"e1\", \"key\": "
		 "\"42\",\n"
		 "    \"headers\": { \"tenant\": \"acme\" }, \"payload\": { \"order_id\": 42 } }\n"
		 "topic and payload are required. A payload in quotes stands for its characters, "
		 "null\n"
		 "for a tombstone; \"payload_base64\" takes any bytes.\n"
		 "\n"
		 "SIGTERM and SIGINT finish what is under way, within general.drain_timeout; a "
		 "second\n"
		 "one ends at once. Exit codes: 0 ended as asked; 1 ended at once, or an event "
		 "that was\n"
		 "tried is dead, poison or unmatched; 2 the options; 69 http.ledger cannot be "
		 "listened\n"
		 "on, or the schema was replaced by one that does not fit; 78 the configuration.",
	.own = own_options,
};

static void log_lines(struct log *log, const char *message, const struct buf *lines)
{
	struct buf copy BUF_AUTO = { 0 };
	char *rest = NULL;

	buf_add_text(&copy, buf_text(lines));
	for (char *line = strtok_r(copy.data, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		log_warn(log, message, LOG_TEXT("detail", line));
}

static enum exit_code run(const struct conf *conf, struct rules *rules, const struct buf *warnings)
{
	struct log *log = log_new(program.name, conf->log.level, conf->log.format);
	struct ledger *ledger;
	int exit_code;

	log_lines(log, "configuration", warnings);
	log_info(log, "starting", LOG_TEXT("version", COUNTERFOIL_VERSION),
		 LOG_TEXT("instance", conf->general.instance), LOG_INT("pid", getpid()));
	if (!*conf->general.environment)
		log_warn(log, INSTALLATION_NO_ENVIRONMENT);
	ledger = ledger_new(log, conf, rules);
	exit_code = ledger_run(ledger);
	if (exit_code == EXIT_ERROR)
		_exit(exit_code); /* at once: nothing is put away */
	ledger_free(ledger);
	log_info(log, "stopped", LOG_INT("exit_code", exit_code));
	log_free(log);
	return (enum exit_code)exit_code;
}

static enum exit_code say_checked(const struct options *options, const struct conf *conf,
				  const struct buf *faults, const struct buf *warnings)
{
	enum exit_code exit_code = options_say_checked(options, faults, warnings);

	return exit_code == EXIT_OK && options->connect ? connect_ledger(conf, options->strict)
							: exit_code;
}

/* To run is to check, and then to go on. */
static enum exit_code check_and_run(const struct options *options, const struct conf *conf)
{
	struct buf faults BUF_AUTO = { 0 }, warnings BUF_AUTO = { 0 };
	struct rules *rules;
	enum exit_code exit_code = EXIT_CONFIG;
	bool good = check_configuration(conf, &faults, &warnings, &rules);

	if (options->task == OPTIONS_CHECK_CONFIG)
		exit_code = say_checked(options, conf, &faults, &warnings);
	else if (good)
		exit_code = run(conf, rules, &warnings);
	else
		fputs(buf_text(&faults), stderr);
	if (good)
		rules_free(rules);
	return exit_code;
}

static enum exit_code try_events(const struct options *options, const struct conf *conf)
{
	const struct try_form form = { .topic = options->own[OWN_TOPIC],
				       .type = options->own[OWN_TYPE] };

	return try_files(conf, &form, options->arguments, options->argument_count);
}

static bool check_own(const struct options *options, enum exit_code *code_r)
{
	if (options->own[OWN_TOPIC] && !options->own[OWN_TRY])
		*code_r = options_wrong(&program, "--topic goes with --try");
	else if (options->own[OWN_TYPE] && !options->own[OWN_TOPIC])
		*code_r = options_wrong(&program, "--type goes with --topic");
	else
		return true;
	return false;
}

static enum exit_code work(const struct options *options, const struct conf *conf)
{
	switch (options->task) {
	case OPTIONS_PRINT_CONFIG:
		return options_print_config(options, conf);
	case OPTIONS_OWN:
		return try_events(options, conf);
	case OPTIONS_CHECK_CONFIG:
	case OPTIONS_RUN:
		break;
	}
	return check_and_run(options, conf);
}

/* Kafka's threads allocate what the loop frees, and the pages of a batch are large and short-lived:
 * in arenas of their own, or on the heap, they would stay. A threshold that is fixed also gives
 * back what is free at the end of the heap. Before any thread is there. */
static void keep_memory_small(void)
{
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, MAPPED_FROM);
}

int main(int argc, char **argv)
{
	struct options options;
	struct conf *conf;
	enum exit_code exit_code;

	keep_memory_small();
	signal(SIGPIPE, SIG_IGN);
	if (!options_read(&program, argc, argv, &options, &exit_code) ||
	    !check_own(&options, &exit_code))
		return exit_code;
	if (!options_load(&options, &conf))
		return EXIT_CONFIG;
	exit_code = work(&options, conf);
	conf_free(conf);
	return options_end(&program, exit_code);
}
