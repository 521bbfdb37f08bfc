/* counterfoil-relay: options, configuration, signals. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "conf.h"
#include "log.h"
#include "loop.h"
#include "main.h"
#include "relay.h"
#include "version.h"

#define DEFAULT_CONFIG "/etc/counterfoil/counterfoil.conf"

static const char usage[] =
	"usage: counterfoil-relay [--config FILE]\n"
	"\n"
	"Publishes the rows of the outbox table to Kafka.\n"
	"\n"
	"  -c, --config FILE  the configuration; else $COUNTERFOIL_CONFIG,\n"
	"                     else " DEFAULT_CONFIG "\n"
	"      --version      print the version and end\n"
	"      --help         print this and end\n"
	"\n"
	"SIGTERM and SIGINT stop it within general.drain_timeout, a second one at once.\n";

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
	log_info(log, "starting", LOG_TEXT("version", COUNTERFOIL_VERSION),
		 LOG_TEXT("config", conf->path),
		 LOG_TEXT("environment", conf->general.environment));
	loop_run(program.loop);
	relay_free(program.relay);
	loop_signal_free(term);
	loop_signal_free(interrupt);
	loop_free(program.loop);
	return program.code;
}

static enum exit_code start(const char *path)
{
	struct buf faults = { 0 };
	struct conf *conf;
	if (!conf_load(path, CONF_RELAY, &faults, &conf)) {
		fputs(buf_text(&faults), stderr);
		buf_done(&faults);
		return EXIT_CONFIG;
	}
	struct log *log = log_new("counterfoil-relay", conf->log.level, conf->log.format);
	enum exit_code code = run(conf, log);
	log_free(log);
	conf_free(conf);
	buf_done(&faults);
	return code;
}

int main(int argc, char **argv)
{
	enum { OPTION_VERSION = 256, OPTION_HELP };
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "version", no_argument, NULL, OPTION_VERSION },
		{ "help", no_argument, NULL, OPTION_HELP },
		{ NULL, 0, NULL, 0 },
	};
	const char *path = getenv("COUNTERFOIL_CONFIG");
	int option;
	while ((option = getopt_long(argc, argv, "c:", options, NULL)) != -1) {
		switch (option) {
		case 'c':
			path = optarg;
			break;
		case OPTION_VERSION:
			puts("counterfoil-relay " COUNTERFOIL_VERSION);
			return EXIT_OK;
		case OPTION_HELP:
			fputs(usage, stdout);
			return EXIT_OK;
		default:
			fputs(usage, stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "counterfoil-relay: unexpected argument \"%s\"\n", argv[optind]);
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	return start(path && *path ? path : DEFAULT_CONFIG);
}
