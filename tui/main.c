/* counterfoil: the console, and its commands. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "commands/command_adopt.h"
#include "commands/command_again.h"
#include "commands/command_conflicts.h"
#include "commands/command_find.h"
#include "commands/command_hold.h"
#include "commands/command_key.h"
#include "commands/command_list.h"
#include "commands/command_ops.h"
#include "commands/command_outbox.h"
#include "commands/command_pause.h"
#include "commands/command_poison.h"
#include "commands/command_replay.h"
#include "commands/command_resolve.h"
#include "commands/command_show.h"
#include "commands/command_targets.h"
#include "commands/command_unmatched.h"
#include "commands/migrate.h"
#include "console.h"
#include "version.h"
#include "words/clean.h"

static const struct command commands[] = {
	{ "list", "keys of a state", list_run },
	{ "show", "one key in full", show_run },
	{ "find", "keys by key, subject, event, provider's id or place in a topic", find_run },
	{ "outbox", "what waits to be published; rows that cannot be, put back or discarded",
	  outbox_run },
	{ "replay", "run a key again, or a waiting one now", replay_run },
	{ "resolve", "decide whether what is uncertain has happened", resolve_run },
	{ "cancel", "take back for good what waits to be sent", cancel_run },
	{ "dead-letter", "give up what waits to be sent", dead_letter_run },
	{ "take-over", "take a stale key from its ledger now", take_over_run },
	{ "note", "keep a remark with a key", note_run },
	{ "erase", "forget what is personal in a key that has ended", erase_run },
	{ "pause", "send nothing of a tenant, an effect or at all; what is paused", pause_run },
	{ "resume", "send again what was paused", resume_run },
	{ "ops", "orders about many keys: how far they are, pause, resume, cancel", ops_run },
	{ "targets", "what is sent to each target, or why not", targets_run },
	{ "hold", "send nothing to a target any more", hold_run },
	{ "release", "send to it again", release_run },
	{ "poison", "messages that could not be taken in: replayed, discarded", poison_run },
	{ "conflicts", "events whose key stands for something else: seen, settled", conflicts_run },
	{ "unmatched", "events that no effect asks for", unmatched_run },
	{ "redeliver", "have events read again, and see that all are known", redeliver_run },
	{ "rewind", "where intake stands; have it go back", rewind_run },
	{ "adopt", "make a restored or copied database this environment's", adopt_run },
	{ "migrate", "bring the database's schema up to date, print it, or tell its state",
	  migrate_run },
};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static void print_usage(FILE *out)
{
	fputs("usage: counterfoil [--config FILE] [COMMAND [OPTION ...]]\n"
	      "Without a command: the console, on a terminal.\n"
	      "  --config FILE  the configuration; default $" MAIN_CONFIG_VARIABLE
	      ", else " MAIN_CONFIG_FILE "\n"
	      "  --version      print the version\n"
	      "  --help         print this; COMMAND --help tells of a command\n"
	      "commands:\n",
	      out);
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(out, "  %-13s  %s\n", commands[i].name, commands[i].summary);
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static const char *default_config(void)
{
	const char *path = getenv(MAIN_CONFIG_VARIABLE);
	return path && *path ? path : MAIN_CONFIG_FILE;
}

static enum exit_code run_command(const char *config_path, int argc, char **argv)
{
	if (argc == 0)
		return console_run(config_path);
	const struct command *command = find(argv[0]);
	if (command)
		return command->run(config_path, argc, argv);
	fprintf(stderr, "counterfoil: there is no command \"%s\"\n", argv[0]);
	print_usage(stderr);
	return EXIT_USAGE;
}

static enum exit_code run(int argc, char **argv)
{
	enum { CONFIG = 1, VERSION, HELP };
	static const struct option options[] = { { "config", required_argument, NULL, CONFIG },
						 { "version", no_argument, NULL, VERSION },
						 { "help", no_argument, NULL, HELP },
						 { 0 } };
	const char *config_path = default_config();
	int option;
	/* "+": the first word is the command; what follows is its own, --config too */
	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		switch (option) {
		case CONFIG:
			config_path = optarg;
			break;
		case VERSION:
			puts("counterfoil " COUNTERFOIL_VERSION);
			return EXIT_OK;
		case HELP:
			print_usage(stdout);
			return EXIT_OK;
		default:
			print_usage(stderr);
			return EXIT_USAGE;
		}
	}
	return run_command(config_path, argc - optind, argv + optind);
}

int main(int argc, char **argv)
{
	clean_locale();
	enum exit_code code = run(argc, argv);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		perror("counterfoil: standard output");
		return EXIT_ERROR;
	}
	return code;
}
