/* What the commands have in common. */
#include "commands/call.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/sql_console.h"
#include "schema.h"
#include "utf8.h"
#include "version.h"
#include "words/clean.h"
#include "words/writer.h"

struct pg_settings call_settings(const struct conf *conf)
{
	return (struct pg_settings){
		.conninfo = conf->postgres.conninfo,
		.password_file = conf->postgres.password_file,
		.program = "counterfoil",
		.connect_timeout = conf->postgres.connect_timeout,
		.statement_timeout = conf->console.statement_timeout,
		.options = SQL_OPTIONS,
		.read_only = true,
	};
}

/* --- errors --- */

static const char *code_word(enum exit_code code)
{
	switch (code) {
	case EXIT_OK:
	case EXIT_ERROR:
		break;
	case EXIT_USAGE:
		return "usage";
	case EXIT_PARTLY:
		return "partly";
	case EXIT_NOT_FOUND:
		return "not_found";
	case EXIT_CONFLICT:
		return "conflict";
	case EXIT_UNAVAILABLE:
		return "unavailable";
	case EXIT_PERMISSION:
		return "permission";
	case EXIT_CONFIG:
		return "configuration";
	case EXIT_INTERRUPTED:
		return "interrupted";
	}
	return "error";
}

static void say_json(enum exit_code code, const char *text)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	size_t length = strlen(text);
	while (length && text[length - 1] == '\n')
		length--;
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "error", code_word(code));
	writer_bytes(&writer, "message", text, length);
	writer_int(&writer, "exit", code);
	writer_close(&writer, '}');
	fprintf(stderr, "%s\n", buf_text(&out));
}

/* Line by line, for a list of faults is one text. */
static void say_words(const char *prefix, const char *text)
{
	while (*text) {
		BUF_AUTO struct buf line = { 0 };
		size_t length = strcspn(text, "\n");
		clean_add(&line, text, length);
		fprintf(stderr, "%s%s\n", prefix, buf_text(&line));
		text += length + (text[length] == '\n');
	}
}

static enum exit_code say(const struct call *call, enum exit_code code, const char *prefix,
			  const char *text)
{
	if (call->json)
		say_json(code, text);
	else
		say_words(prefix, text);
	return code;
}

enum exit_code call_error(const struct call *call, enum exit_code code, const char *format, ...)
{
	char text[1024];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return say(call, code, "counterfoil: ", text);
}

enum exit_code call_wrong(const struct call *call, const char *format, ...)
{
	char text[512];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	say(call, EXIT_USAGE, "counterfoil: ", text);
	if (!call->json)
		fputs(call->usage, stderr);
	return EXIT_USAGE;
}

enum exit_code call_failed(const struct call *call)
{
	const char *state = call->sqlstate;
	bool gone = !*state || strncmp(state, "08", 2) == 0 || strncmp(state, "57P", 3) == 0;
	enum exit_code code = strcmp(state, "42501") == 0 ? EXIT_PERMISSION
			      : gone                      ? EXIT_UNAVAILABLE
							  : EXIT_ERROR;
	return call_error(call, code, "%s: %s", pg_session_name(call->session), call->err.text);
}

/* --- options --- */

enum {
	OPTION_CONFIG = 1,
	OPTION_JSON,
	OPTION_HELP,
	OPTION_JSONL,
	OPTION_LIMIT,
	OPTION_TARGET,
	OPTION_TENANT,
	OPTION_YES,
	OPTION_REASON,
	OPTION_DRY_RUN,
	OPTION_SOURCE,
	OPTION_TOPIC,
	OPTION_KEY,
	OPTION_ALL,
	OPTION_EXPECT,
	OPTION_NEW_KEY,
	OPTION_FORCE,
	OPTION_HAPPENED,
	OPTION_DID_NOT_HAPPEN,
	OPTION_PROVIDER_ID,
	OPTION_EFFECT,
	OPTION_LAST,
	OPTION_FROM,
	OPTION_TO,
	OPTION_PARTITION,
	OPTION_APPLY
};

static const struct {
	struct option option;
	unsigned of; /* 0: of every command */
} all_options[] = {
	{ { "config", required_argument, NULL, OPTION_CONFIG }, 0 },
	{ { "json", no_argument, NULL, OPTION_JSON }, 0 },
	{ { "help", no_argument, NULL, OPTION_HELP }, 0 },
	{ { "jsonl", no_argument, NULL, OPTION_JSONL }, CALL_JSONL },
	{ { "limit", required_argument, NULL, OPTION_LIMIT }, CALL_LIMIT },
	{ { "target", required_argument, NULL, OPTION_TARGET }, CALL_WHICH | CALL_TARGET },
	{ { "tenant", required_argument, NULL, OPTION_TENANT }, CALL_WHICH },
	{ { "yes", no_argument, NULL, OPTION_YES }, CALL_ORDER },
	{ { "reason", required_argument, NULL, OPTION_REASON }, CALL_ORDER },
	{ { "dry-run", no_argument, NULL, OPTION_DRY_RUN }, CALL_ORDER },
	{ { "source", required_argument, NULL, OPTION_SOURCE }, CALL_SOURCE },
	{ { "topic", required_argument, NULL, OPTION_TOPIC }, CALL_TOPIC },
	{ { "key", required_argument, NULL, OPTION_KEY }, CALL_TOPIC | CALL_KEY },
	{ { "all", no_argument, NULL, OPTION_ALL }, CALL_BULK },
	{ { "expect", required_argument, NULL, OPTION_EXPECT }, CALL_BULK },
	{ { "new-key", no_argument, NULL, OPTION_NEW_KEY }, CALL_NEW_KEY },
	{ { "force", no_argument, NULL, OPTION_FORCE }, CALL_NEW_KEY | CALL_FORCE },
	{ { "happened", no_argument, NULL, OPTION_HAPPENED }, CALL_DECISION },
	{ { "did-not-happen", no_argument, NULL, OPTION_DID_NOT_HAPPEN }, CALL_DECISION },
	{ { "provider-id", required_argument, NULL, OPTION_PROVIDER_ID }, CALL_DECISION },
	{ { "effect", required_argument, NULL, OPTION_EFFECT }, CALL_EFFECT },
	{ { "last", required_argument, NULL, OPTION_LAST }, CALL_AGAIN },
	{ { "from", required_argument, NULL, OPTION_FROM }, CALL_AGAIN },
	{ { "to", required_argument, NULL, OPTION_TO }, CALL_AGAIN },
	{ { "partition", required_argument, NULL, OPTION_PARTITION }, CALL_AGAIN },
	{ { "apply", no_argument, NULL, OPTION_APPLY }, CALL_AGAIN },
};
enum { OPTION_COUNT = sizeof(all_options) / sizeof(all_options[0]) };

static bool take_option(struct call *call, int option, const char *argument)
{
	switch (option) {
	case OPTION_CONFIG:
		call->config_path = argument;
		return true;
	case OPTION_JSON:
		return call->json = true;
	case OPTION_HELP:
		return call->help = true;
	case OPTION_JSONL:
		return call->json = call->jsonl = true;
	case OPTION_LIMIT:
		return call_count(argument, 1, &call->limit);
	case OPTION_TARGET:
		call->target = argument;
		return true;
	case OPTION_TENANT:
		call->tenant = argument;
		return true;
	case OPTION_YES:
		return call->yes = true;
	case OPTION_REASON:
		call->reason = argument;
		return true;
	case OPTION_DRY_RUN:
		return call->dry_run = true;
	case OPTION_SOURCE:
		call->source = argument;
		return true;
	case OPTION_TOPIC:
		call->topic = argument;
		return true;
	case OPTION_KEY:
		call->key = argument;
		return true;
	case OPTION_ALL:
		return call->all = true;
	case OPTION_EXPECT:
		return call_count(argument, 0, &call->expect);
	case OPTION_NEW_KEY:
		return call->new_key = true;
	case OPTION_FORCE:
		return call->force = true;
	case OPTION_HAPPENED:
		return call->happened = true;
	case OPTION_DID_NOT_HAPPEN:
		return call->did_not_happen = true;
	case OPTION_PROVIDER_ID:
		call->provider_id = argument;
		return true;
	case OPTION_LAST:
		return call_count(argument, 1, &call->last);
	case OPTION_FROM:
		call->from = argument;
		return true;
	case OPTION_TO:
		call->to = argument;
		return true;
	case OPTION_PARTITION:
		return call_number(argument, &call->partition);
	case OPTION_APPLY:
		return call->apply = true;
	case OPTION_EFFECT:
		call->effect = argument;
		return true;
	default:
		return false;
	}
}

static bool is_text(const char *text)
{
	return !text || utf8_valid(text, strlen(text));
}

static bool is_all_text(const struct call *call)
{
	const char *const texts[] = { call->word,   call->target, call->tenant, call->reason,
				      call->source, call->topic,  call->key,    call->provider_id,
				      call->effect, call->from,   call->to };
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!is_text(texts[i]))
			return false;
	return true;
}

static void take_words(struct call *call, unsigned options, int argc, char **argv)
{
	call->words = argv + optind;
	call->word_count = argc - optind;
	if (optind < argc)
		call->word = argv[optind++];
	if (options & CALL_WORDS)
		optind = argc;
}

bool call_read(struct call *call, unsigned options, int argc, char **argv, enum exit_code *code_r)
{
	struct option known[OPTION_COUNT + 1] = { 0 };
	int count = 0, option;
	for (size_t i = 0; i < OPTION_COUNT; i++)
		if (!all_options[i].of || (all_options[i].of & options))
			known[count++] = all_options[i].option;
	call->expect = -1;
	call->partition = -1;
	optind = 0; /* begins afresh behind the command's name */
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", known, NULL)) != -1)
		if (!take_option(call, option, optarg)) {
			*code_r = call_wrong(call, "%s: what is %s?", call->name,
					     argv[optind > 1 ? optind - 1 : 0]);
			return false;
		}
	take_words(call, options, argc, argv);
	if (call->help) {
		fputs(call->usage, stdout);
		*code_r = EXIT_OK;
		return false;
	}
	if (optind < argc) {
		*code_r =
			call_wrong(call, "%s: one word too many, \"%s\"", call->name, argv[optind]);
		return false;
	}
	if (!is_all_text(call)) {
		*code_r = call_wrong(call, "%s: the arguments are not UTF-8", call->name);
		return false;
	}
	return true;
}

/* --- the database --- */

static bool check_schema(struct call *call, enum exit_code *code_r)
{
	PG_RESULT_AUTO PGresult *result = NULL;
	struct pg_error error = { .kind = PG_REFUSED };
	struct err err;
	bool read = call_query(call, schema_check_sql, NULL, &result);
	if (!read && !*call->sqlstate) {
		*code_r = call_failed(call);
		return false;
	}
	memcpy(error.sqlstate, call->sqlstate, sizeof(error.sqlstate));
	(void)snprintf(error.text, sizeof(error.text), "%.500s", call->err.text);
	if (schema_check_for(COUNTERFOIL_CONSOLE_SCHEMA, result, read ? NULL : &error, &err))
		return true;
	*code_r = call_error(call,
			     strcmp(call->sqlstate, "42501") == 0 ? EXIT_PERMISSION : EXIT_CONFIG,
			     "%s: %s", pg_session_name(call->session), err.text);
	return false;
}

bool call_open(struct call *call, enum exit_code *code_r)
{
	BUF_AUTO struct buf faults = { 0 };
	if (!conf_load(call->config_path, CONF_CONSOLE, &faults, &call->conf)) {
		*code_r = say(call, EXIT_CONFIG, "", buf_text(&faults));
		return false;
	}
	struct pg_settings settings = call_settings(call->conf);
	if (call->patient)
		settings.statement_timeout = 0;
	if (!pg_session_open(&settings, &call->err, &call->session)) {
		*code_r = call_error(call, EXIT_UNAVAILABLE, "%s", call->err.text);
		return false;
	}
	return check_schema(call, code_r);
}

void call_close(struct call *call)
{
	pg_session_free(call->session);
	conf_free(call->conf);
}

bool call_query(struct call *call, const char *sql, const struct pg_params *params,
		PGresult **result_r)
{
	call->sqlstate[0] = '\0';
	return pg_session_query(call->session, sql, params, &call->err, call->sqlstate, result_r);
}

/* --- which key --- */

bool call_count(const char *text, int64_t least, int64_t *count_r)
{
	int64_t count = 0;
	if (*text < '0' || *text > '9')
		return false;
	for (; *text; text++) {
		if (*text == ',')
			continue;
		if (*text < '0' || *text > '9' || count > 100000000)
			return false;
		count = count * 10 + (*text - '0');
	}
	if (count < least)
		return false;
	*count_r = count;
	return true;
}

bool call_number(const char *text, int64_t *number_r)
{
	char *end;
	errno = 0;
	long long number = strtoll(text, &end, 10);
	if (errno || *end || end == text || *text < '0' || *text > '9')
		return false;
	*number_r = number;
	return true;
}

static enum exit_code say_several(const struct call *call, const PGresult *found)
{
	BUF_AUTO struct buf text = { 0 };
	buf_addf(&text,
		 "%d keys of this name; say which one with --target and --tenant:", pg_rows(found));
	for (int row = 0; row < pg_rows(found); row++)
		buf_addf(&text, " --target '%s' --tenant '%s'%s", pg_get_text(found, row, 1),
			 pg_get_text(found, row, 2), row + 1 < pg_rows(found) ? "," : "");
	return call_error(call, EXIT_CONFLICT, "%s", buf_text(&text));
}

bool call_find_key(struct call *call, int64_t *id_r, enum exit_code *code_r)
{
	PG_RESULT_AUTO PGresult *found = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_text(&params, call->word);
	pg_add_text(&params, call->target);
	pg_add_text(&params, call->tenant);
	if (!call_query(call, SQL_NAMED, &params, &found)) {
		*code_r = call_failed(call);
		return false;
	}
	if (pg_rows(found) == 1) {
		*id_r = pg_get_int8(found, 0, 0);
		return true;
	}
	if (pg_rows(found) == 0 && call_number(call->word, id_r))
		return true;
	*code_r = pg_rows(found) ? say_several(call, found)
				 : call_error(call, EXIT_NOT_FOUND, "there is no key \"%.512s\"",
					      call->word);
	return false;
}
