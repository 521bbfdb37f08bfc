/* Options by a table for getopt_long(), which drives the help too. */
#include "options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "version.h"

#define NAME_COLUMN 28 /* of the help, where meanings begin */

enum {
	OPTION_CONFIG = 'c',
	OPTION_VERSION = 'V',
	OPTION_HELP = 'h',
	OPTION_CHECK_CONFIG = 256,
	OPTION_CONNECT,
	OPTION_STRICT,
	OPTION_PRINT_CONFIG,
	OPTION_LOG_LEVEL,
	OPTION_LOG_FORMAT,
	OPTION_OWN, /* and on: the program's own, by row */
};

static const struct shared_option {
	int code; /* a letter: it is a short option too */
	const char *name;
	const char *argument;
	const char *meaning;
} shared_options[] = {
	{ OPTION_CONFIG, "config", "FILE",
	  "the configuration; else $" MAIN_CONFIG_VARIABLE ",\nelse " MAIN_CONFIG_FILE },
	{ OPTION_CHECK_CONFIG, "check-config", NULL,
	  "check the configuration, say what is wrong, and end;\nno server is contacted" },
	{ OPTION_CONNECT, "connect", NULL,
	  "with --check-config: and ask the servers what would be\nin the way; nothing is "
	  "changed" },
	{ OPTION_STRICT, "strict", NULL, "with --check-config: a warning is a fault" },
	{ OPTION_PRINT_CONFIG, "print-config", NULL,
	  "print the configuration as it applies, and where each\nvalue comes from, and end" },
	{ OPTION_LOG_LEVEL, "log-level", "LEVEL", "error, warn, info or debug" },
	{ OPTION_LOG_FORMAT, "log-format", "FORMAT", "logfmt or json" },
	{ OPTION_VERSION, "version", NULL, "print the version, and end" },
	{ OPTION_HELP, "help", NULL, "print this, and end" },
};
#define SHARED_COUNT (sizeof(shared_options) / sizeof(shared_options[0]))

/* --- the help ----------------------------------------------------------------------------------
 */

static void print_option(FILE *out, int code, const char *name, const char *argument,
			 const char *meaning)
{
	BUF_AUTO struct buf line = { 0 };
	if (code < OPTION_CHECK_CONFIG)
		buf_addf(&line, "  -%c, --%s", code, name);
	else
		buf_addf(&line, "      --%s", name);
	if (argument)
		buf_addf(&line, " %s", argument);
	const char *head = buf_text(&line);
	for (const char *at = meaning;; at++) {
		size_t length = strcspn(at, "\n");
		fprintf(out, "%-*s%.*s\n", NAME_COLUMN, head, (int)length, at);
		head = "";
		at += length;
		if (!*at)
			return;
	}
}

static const char *files_of(const struct options_program *program)
{
	for (const struct options_own *own = program->own; own->name; own++)
		if (own->files)
			return " [FILE ...]";
	return "";
}

static void print_usage(const struct options_program *program, FILE *out)
{
	fprintf(out, "usage: %s [--config FILE] [OPTION ...]%s\n", program->name,
		files_of(program));
}

static void print_help(const struct options_program *program)
{
	print_usage(program, stdout);
	printf("\n%s\n\n", program->summary);
	for (size_t i = 0; i < SHARED_COUNT; i++)
		print_option(stdout, shared_options[i].code, shared_options[i].name,
			     shared_options[i].argument, shared_options[i].meaning);
	for (const struct options_own *own = program->own; own->name; own++)
		print_option(stdout, OPTION_OWN, own->name, own->argument, own->meaning);
	printf("\n%s\n", program->notes);
}

enum exit_code options_wrong(const struct options_program *program, const char *format, ...)
{
	va_list args;
	fprintf(stderr, "%s: ", program->name);
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	print_usage(program, stderr);
	return EXIT_USAGE;
}

/* --- reading -----------------------------------------------------------------------------------
 */

static void list_options(const struct options_program *program, struct option *list)
{
	size_t count = 0;
	for (size_t i = 0; i < SHARED_COUNT; i++)
		list[count++] = (struct option){
			.name = shared_options[i].name,
			.has_arg = shared_options[i].argument ? required_argument : no_argument,
			.val = shared_options[i].code,
		};
	for (int i = 0; i < OPTIONS_OWN_MAX && program->own[i].name; i++)
		list[count++] = (struct option){
			.name = program->own[i].name,
			.has_arg = program->own[i].argument ? required_argument : no_argument,
			.val = OPTION_OWN + i,
		};
}

static bool take_task(struct options *options, enum options_task task, enum exit_code *code_r)
{
	if (options->task != OPTIONS_RUN && options->task != task) {
		*code_r = options_wrong(options->program, "one task at a time");
		return false;
	}
	options->task = task;
	return true;
}

static bool take_flag(struct options *options, const char *option, const char *key,
		      enum exit_code *code_r)
{
	const struct conf_flag flag = { .option = option, .key = key, .value = optarg };
	size_t at = 0;
	struct err err;
	if (!conf_flag_check(&flag, &err)) {
		*code_r = options_wrong(options->program, "%s: %s", option, err.text);
		return false;
	}
	while (at < options->flag_count && strcmp(options->flags[at].key, key) != 0)
		at++;
	options->flags[at] = flag;
	if (at == options->flag_count)
		options->flag_count++;
	return true;
}

static bool take_own(struct options *options, int row, enum exit_code *code_r)
{
	const struct options_own *own = &options->program->own[row];
	options->own[row] = own->argument ? optarg : "";
	return !own->task || take_task(options, OPTIONS_OWN, code_r);
}

static bool take_option(struct options *options, int option, enum exit_code *code_r)
{
	switch (option) {
	case OPTION_CONFIG:
		options->config = optarg;
		return true;
	case OPTION_CHECK_CONFIG:
		return take_task(options, OPTIONS_CHECK_CONFIG, code_r);
	case OPTION_CONNECT:
		options->connect = true;
		return true;
	case OPTION_STRICT:
		options->strict = true;
		return true;
	case OPTION_PRINT_CONFIG:
		return take_task(options, OPTIONS_PRINT_CONFIG, code_r);
	case OPTION_LOG_LEVEL:
		return take_flag(options, "--log-level", "log.level", code_r);
	case OPTION_LOG_FORMAT:
		return take_flag(options, "--log-format", "log.format", code_r);
	case OPTION_VERSION:
		printf("%s " COUNTERFOIL_VERSION "\n", options->program->name);
		*code_r = options_end(options->program, EXIT_OK);
		return false;
	case OPTION_HELP:
		print_help(options->program);
		*code_r = options_end(options->program, EXIT_OK);
		return false;
	case '?': /* getopt_long() has said what is wrong */
		print_usage(options->program, stderr);
		*code_r = EXIT_USAGE;
		return false;
	default:
		return take_own(options, option - OPTION_OWN, code_r);
	}
}

static bool takes_files(const struct options *options)
{
	for (int i = 0; i < OPTIONS_OWN_MAX && options->program->own[i].name; i++)
		if (options->own[i] && options->program->own[i].files)
			return true;
	return false;
}

/* What single options cannot show. */
static bool check_together(const struct options *options, enum exit_code *code_r)
{
	const struct options_program *program = options->program;
	if (options->strict && options->task != OPTIONS_CHECK_CONFIG)
		*code_r = options_wrong(program, "--strict goes with --check-config");
	else if (options->connect && options->task != OPTIONS_CHECK_CONFIG)
		*code_r = options_wrong(program, "--connect goes with --check-config");
	else if (options->argument_count && !takes_files(options))
		*code_r = options_wrong(program, "unexpected argument: %s", options->arguments[0]);
	else if (!*options->config)
		*code_r = options_wrong(program, "--config: the name is empty");
	else
		return true;
	return false;
}

static const char *default_config(void)
{
	const char *path = getenv(MAIN_CONFIG_VARIABLE);
	return path && *path ? path : MAIN_CONFIG_FILE;
}

bool options_read(const struct options_program *program, int argc, char **argv,
		  struct options *options_r, enum exit_code *code_r)
{
	struct option list[SHARED_COUNT + OPTIONS_OWN_MAX + 1] = { 0 };
	struct options options = { .program = program, .config = default_config() };
	int option;
	list_options(program, list);
	while ((option = getopt_long(argc, argv, "c:Vh", list, NULL)) != -1)
		if (!take_option(&options, option, code_r))
			return false;
	options.arguments = (const char *const *)argv + optind;
	options.argument_count = (size_t)(argc - optind);
	if (!check_together(&options, code_r))
		return false;
	*options_r = options;
	return true;
}

/* --- the configuration -------------------------------------------------------------------------
 */

bool options_load(const struct options *options, struct conf **conf_r)
{
	const struct conf_source source = {
		.path = options->config,
		.program = options->program->program,
		.flags = options->flags,
		.flag_count = options->flag_count,
		.closed = options->task == OPTIONS_PRINT_CONFIG || options->task == OPTIONS_OWN,
	};
	BUF_AUTO struct buf faults = { 0 };
	if (conf_load_from(&source, &faults, conf_r))
		return true;
	fputs(buf_text(&faults), stderr);
	return false;
}

static void print_warnings(const struct buf *warnings)
{
	const char *line = buf_text(warnings);
	for (size_t length; *line; line += length + 1) {
		length = strcspn(line, "\n");
		fprintf(stderr, "warning: %.*s\n", (int)length, line);
		if (!line[length])
			return;
	}
}

enum exit_code options_say_checked(const struct options *options, const struct buf *faults,
				   const struct buf *warnings)
{
	fputs(buf_text(faults), stderr);
	print_warnings(warnings);
	if (faults->length || (options->strict && warnings->length))
		return EXIT_CONFIG;
	printf("configuration ok: %s\n", options->config);
	return EXIT_OK;
}

enum exit_code options_print_config(const struct options *options, const struct conf *conf)
{
	BUF_AUTO struct buf text = { 0 };
	buf_addf(&text, "# %s " COUNTERFOIL_VERSION ", ", options->program->name);
	json_escape(&text, conf->path, strlen(conf->path)); /* no line end, which would end it */
	buf_add_text(&text, ": what applies, and where each value comes from.\n\n");
	conf_print(conf, &text);
	(void)fwrite(text.data, 1, text.length, stdout);
	return EXIT_OK;
}

enum exit_code options_end(const struct options_program *program, enum exit_code code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	fprintf(stderr, "%s: standard output: %m\n", program->name);
	return code == EXIT_OK ? EXIT_ERROR : code;
}
