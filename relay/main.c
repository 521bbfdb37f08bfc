/* counterfoil-relay: options, configuration, signals. */
#include <signal.h>
#include <stdio.h>

#include "conf.h"
#include "connect.h"
#include "dry_run.h"
#include "installation.h"
#include "kafka.h"
#include "log.h"
#include "loop.h"
#include "main.h"
#include "options.h"
#include "pg_conf.h"
#include "publishing/producer.h"
#include "relay.h"
#include "version.h"

static const struct options_own own_options[] = {
	{ "dry-run", NULL,
	  "show, a line a row, what waits and would be\n"
	  "published, and end; nothing is sent, deleted or\n"
	  "marked, and a running relay is not disturbed",
	  .task = true },
	{ 0 },
};

static const struct options_program options_program = {
	.name = "counterfoil-relay",
	.program = CONF_RELAY,
	.summary = "Publishes the rows of the outbox table to Kafka.",
	.notes = "SIGTERM and SIGINT stop it within general.drain_timeout, a second one at once. "
		 "Exit\n"
		 "codes: 0 ended as asked; 1 ended at once, or a row would be dead; 2 the options; "
		 "69\n"
		 "http.relay cannot be listened on, or no database; 78 the configuration, or a\n"
		 "table that does not fit it.",
	.own = own_options,
};

struct program {
	struct loop *loop;
	struct log *log;
	struct relay *relay;
	bool asked_to_stop;
	enum exit_code code;
};

static void on_stopped(void *arg)
{
	struct program *program = arg;
	loop_stop(program->loop);
}

static void on_stop_signal(void *arg)
{
	struct program *program = arg;
	if (!program->asked_to_stop) {
		program->asked_to_stop = true;
		relay_stop(program->relay);
		return;
	}
	log_warn(program->log, "stopped at once by a second signal");
	program->code = EXIT_ERROR;
	loop_stop(program->loop);
}

/* Whoever sends it wants another configuration, and not the end. */
static void on_hangup(void *arg)
{
	const struct program *program = arg;
	log_warn(program->log, MAIN_READ_ONCE);
}

static enum exit_code run(const struct conf *conf, struct log *log)
{
	struct program program = { .log = log, .code = EXIT_OK };
	struct err err;
	(void)signal(SIGPIPE, SIG_IGN);
	program.loop = loop_new();
	if (!relay_new(program.loop, log, conf, on_stopped, &program, &err, &program.relay)) {
		log_error(log, "cannot start", LOG_TEXT("text", err.text));
		loop_free(program.loop);
		return EXIT_CONFIG;
	}
	struct loop_signal *term = loop_signal_new(program.loop, SIGTERM, on_stop_signal, &program);
	struct loop_signal *interrupt =
		loop_signal_new(program.loop, SIGINT, on_stop_signal, &program);
	struct loop_signal *hangup = loop_signal_new(program.loop, SIGHUP, on_hangup, &program);
	log_info(log, "starting", LOG_TEXT("version", COUNTERFOIL_VERSION),
		 LOG_TEXT("config", conf->path),
		 LOG_TEXT("environment", conf->general.environment));
	if (!*conf->general.environment)
		log_warn(log, INSTALLATION_NO_ENVIRONMENT);
	if (relay_listen(program.relay, &err)) {
		loop_run(program.loop);
	} else {
		log_error(log, "cannot start", LOG_TEXT("text", err.text),
			  LOG_TEXT("remedy", "give each process a port of its own: http.relay, or "
					     "COUNTERFOIL_HTTP_RELAY=127.0.0.1:0 for a free one"));
		program.code = EXIT_UNAVAILABLE;
	}
	relay_free(program.relay);
	loop_signal_free(term);
	loop_signal_free(interrupt);
	loop_signal_free(hangup);
	loop_free(program.loop);
	return program.code;
}

static enum exit_code start(const struct conf *conf)
{
	struct log *log = log_new(options_program.name, conf->log.level, conf->log.format);
	enum exit_code code = run(conf, log);
	log_free(log);
	return code;
}

/* --- the configuration --------------------------------------------------------------------------
 */

/* Settings that are wrong by themselves are said one by one, then whether they fit each other. */
static void check_kafka(const struct conf *conf, struct buf *faults)
{
	size_t before = faults->length;
	char place[1024];
	struct err err;
	kafka_conf_check(conf, faults);
	if (faults->length == before && !producer_check(conf, &err))
		buf_addf(faults, "%s: %s\n", conf_place(conf, "kafka", place, sizeof(place)),
			 err.text);
}

/* To run is to check, and then to go on. */
static enum exit_code check_and_start(const struct options *options, const struct conf *conf)
{
	static const struct buf no_warnings;
	BUF_AUTO struct buf faults = { 0 };
	pg_conf_check(conf, CONF_RELAY, &faults);
	check_kafka(conf, &faults);
	if (options->task == OPTIONS_CHECK_CONFIG) {
		enum exit_code code = options_say_checked(options, &faults, &no_warnings);
		bool ask = code == EXIT_OK && options->connect;
		return ask ? connect_relay(conf, options->strict) : code;
	}
	if (faults.length) {
		fputs(buf_text(&faults), stderr);
		return EXIT_CONFIG;
	}
	return start(conf);
}

int main(int argc, char **argv)
{
	struct options options;
	struct conf *conf;
	enum exit_code code;
	if (!options_read(&options_program, argc, argv, &options, &code))
		return code;
	if (!options_load(&options, &conf))
		return EXIT_CONFIG;
	if (options.task == OPTIONS_PRINT_CONFIG)
		code = options_print_config(&options, conf);
	else if (options.task == OPTIONS_OWN)
		code = dry_run(conf);
	else
		code = check_and_start(&options, conf);
	conf_free(conf);
	return options_end(&options_program, code);
}
