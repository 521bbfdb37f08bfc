/* counterfoil-ledger: options, configuration, and the exit code. */
#include "main.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"
#include "ledger.h"
#include "log.h"
#include "rules.h"
#include "version.h"

#define PROGRAM "counterfoil-ledger"

static const char usage[] =
	"Usage: " PROGRAM " [--config FILE]\n"
	"Consumes events from Kafka, records their effects in PostgreSQL, and performs each once.\n"
	"\n"
	"  -c, --config FILE  the configuration; otherwise $" MAIN_CONFIG_VARIABLE ",\n"
	"                     otherwise " MAIN_CONFIG_FILE "\n"
	"  -V, --version      print the version and exit\n"
	"  -h, --help         print this and exit\n"
	"\n"
	"SIGTERM and SIGINT finish what is under way, within general.drain_timeout; a second one "
	"ends\n"
	"at once. Exit codes: 0 ended as asked, 69 the schema was replaced by one that does not\n"
	"fit, 78 the configuration.\n";

enum option_step { OPTIONS_RUN, OPTIONS_DONE, OPTIONS_WRONG };

static enum option_step read_options(int argc, char **argv, const char **config_r)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "c:Vh", options, NULL)) != -1) {
		switch (option) {
		case 'c':
			*config_r = optarg;
			break;
		case 'V':
			puts(PROGRAM " " COUNTERFOIL_VERSION);
			return OPTIONS_DONE;
		case 'h':
			fputs(usage, stdout);
			return OPTIONS_DONE;
		default:
			fputs(usage, stderr);
			return OPTIONS_WRONG;
		}
	}
	if (optind < argc) {
		fprintf(stderr, PROGRAM ": unexpected argument: %s\n", argv[optind]);
		return OPTIONS_WRONG;
	}
	return OPTIONS_RUN;
}

static const char *default_config(void)
{
	const char *path = getenv(MAIN_CONFIG_VARIABLE);

	return path && path[0] != '\0' ? path : MAIN_CONFIG_FILE;
}

static void log_lines(struct log *log, const char *message, const struct buf *lines)
{
	struct buf copy BUF_AUTO = { 0 };
	char *rest = NULL;

	buf_add_text(&copy, buf_text(lines));
	for (char *line = strtok_r(copy.data, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		log_warn(log, message, LOG_TEXT("detail", line));
}

static int run(const struct conf *conf, struct rules *rules, const struct buf *warnings)
{
	struct log *log = log_new(PROGRAM, conf->log.level, conf->log.format);
	struct ledger *ledger;
	int exit_code;

	log_lines(log, "configuration", warnings);
	log_info(log, "starting", LOG_TEXT("version", COUNTERFOIL_VERSION),
		 LOG_TEXT("instance", conf->general.instance), LOG_INT("pid", getpid()));
	ledger = ledger_new(log, conf, rules);
	exit_code = ledger_run(ledger);
	if (exit_code == EXIT_ERROR)
		_exit(exit_code); /* at once: nothing is put away */
	ledger_free(ledger);
	log_info(log, "stopped", LOG_INT("exit_code", exit_code));
	log_free(log);
	return exit_code;
}

static int configure_and_run(const char *path)
{
	struct buf faults BUF_AUTO = { 0 }, warnings BUF_AUTO = { 0 };
	struct conf *conf;
	struct rules *rules;
	int exit_code = EXIT_CONFIG;

	if (!conf_load(path, CONF_LEDGER, &faults, &conf)) {
		fputs(buf_text(&faults), stderr);
		return exit_code;
	}
	if (rules_new(conf, &faults, &warnings, &rules)) {
		exit_code = run(conf, rules, &warnings);
		rules_free(rules);
	} else {
		fputs(buf_text(&faults), stderr);
	}
	conf_free(conf);
	return exit_code;
}

int main(int argc, char **argv)
{
	const char *config = default_config();

	signal(SIGPIPE, SIG_IGN);
	switch (read_options(argc, argv, &config)) {
	case OPTIONS_RUN:
		return configure_and_run(config);
	case OPTIONS_DONE:
		return EXIT_OK;
	case OPTIONS_WRONG:
		return EXIT_USAGE;
	}
}
