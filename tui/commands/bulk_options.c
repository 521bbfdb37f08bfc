/* Options of bulk orders. */
#include "commands/bulk_options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/lists.h"
#include "utf8.h"
#include "words/writer.h"

#define STOP_AFTER 25 /* unless it is said */

enum {
	OPTION_ALL = 1,
	OPTION_CANARY,
	OPTION_CONFIG,
	OPTION_DID_NOT_HAPPEN,
	OPTION_DRY_RUN,
	OPTION_EFFECT,
	OPTION_ERROR,
	OPTION_EXPECT,
	OPTION_HAPPENED,
	OPTION_HELP,
	OPTION_JSON,
	OPTION_KEY_PREFIX,
	OPTION_OLDER_THAN,
	OPTION_RATE,
	OPTION_REASON,
	OPTION_STATE,
	OPTION_STOP_AFTER,
	OPTION_TARGET,
	OPTION_TENANT,
	OPTION_TOPIC,
	OPTION_UNCERTAIN,
	OPTION_WAIT,
	OPTION_YES
};

static const struct option known[] = {
	{ "all", no_argument, NULL, OPTION_ALL },
	{ "canary", no_argument, NULL, OPTION_CANARY },
	{ "config", required_argument, NULL, OPTION_CONFIG },
	{ "did-not-happen", no_argument, NULL, OPTION_DID_NOT_HAPPEN },
	{ "dry-run", no_argument, NULL, OPTION_DRY_RUN },
	{ "effect", required_argument, NULL, OPTION_EFFECT },
	{ "error", required_argument, NULL, OPTION_ERROR },
	{ "expect", required_argument, NULL, OPTION_EXPECT },
	{ "happened", no_argument, NULL, OPTION_HAPPENED },
	{ "help", no_argument, NULL, OPTION_HELP },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "key-prefix", required_argument, NULL, OPTION_KEY_PREFIX },
	{ "older-than", required_argument, NULL, OPTION_OLDER_THAN },
	{ "rate", required_argument, NULL, OPTION_RATE },
	{ "reason", required_argument, NULL, OPTION_REASON },
	{ "state", required_argument, NULL, OPTION_STATE },
	{ "stop-after", required_argument, NULL, OPTION_STOP_AFTER },
	{ "target", required_argument, NULL, OPTION_TARGET },
	{ "tenant", required_argument, NULL, OPTION_TENANT },
	{ "topic", required_argument, NULL, OPTION_TOPIC },
	{ "uncertain", no_argument, NULL, OPTION_UNCERTAIN },
	{ "wait", no_argument, NULL, OPTION_WAIT },
	{ "yes", no_argument, NULL, OPTION_YES },
	{ 0 },
};

struct reading {
	struct call *call;
	struct bulk_options *options;
};

/* --- values --- */

static bool add_state(struct bulk_options *options, const char *name)
{
	enum list list;
	if (!list_parse(name, &list) || options->state_count == BULK_STATES_MAX)
		return false;
	for (size_t i = 0; i < options->state_count; i++)
		if (strcmp(options->states[i], list_name(list)) == 0)
			return true;
	options->states[options->state_count++] = list_name(list);
	return true;
}

/* "20/s", "600/m", "100/h" */
static bool read_rate(const char *text, double *rate_r)
{
	static const struct {
		const char *unit;
		double seconds;
	} units[] = { { "/s", 1 }, { "/m", 60 }, { "/h", 3600 } };
	char *end;
	const long keys = strtol(text, &end, 10);
	if (*text < '0' || *text > '9' || keys < 1 || keys > 1000000)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(end, units[i].unit) == 0) {
			*rate_r = (double)keys / units[i].seconds;
			return true;
		}
	return false;
}

static bool take_text(const char **text_r, const char *argument)
{
	*text_r = argument;
	return utf8_valid(argument, strlen(argument));
}

/* --- options --- */

static bool take_selection(struct bulk_options *options, int option, const char *argument)
{
	switch (option) {
	case OPTION_STATE:
		return add_state(options, argument);
	case OPTION_UNCERTAIN:
		return add_state(options, "uncertain");
	case OPTION_ERROR:
		return take_text(&options->error, argument);
	case OPTION_TARGET:
		return take_text(&options->target, argument);
	case OPTION_TENANT:
		return take_text(&options->tenant, argument);
	case OPTION_EFFECT:
		return take_text(&options->effect, argument);
	case OPTION_TOPIC:
		return take_text(&options->topic, argument);
	case OPTION_KEY_PREFIX:
		return take_text(&options->key_prefix, argument);
	case OPTION_OLDER_THAN:
		return usec_parse(argument, NULL, &options->older_than);
	default:
		return false;
	}
}

static bool take_pace(struct bulk_options *options, int option, const char *argument)
{
	switch (option) {
	case OPTION_RATE:
		return read_rate(argument, &options->rate);
	case OPTION_STOP_AFTER:
		return call_count(argument, 0, &options->stop_after);
	case OPTION_CANARY:
		return options->canary = true;
	case OPTION_WAIT:
		return options->wait = true;
	case OPTION_HAPPENED:
		return options->happened = true;
	case OPTION_DID_NOT_HAPPEN:
		return options->did_not_happen = true;
	default:
		return take_selection(options, option, argument);
	}
}

static bool take_option(struct reading *reading, int option, const char *argument)
{
	struct call *call = reading->call;
	switch (option) {
	case OPTION_ALL:
		return call->all = true;
	case OPTION_CONFIG:
		call->config_path = argument;
		return true;
	case OPTION_DRY_RUN:
		return call->dry_run = true;
	case OPTION_EXPECT:
		return call_count(argument, 0, &call->expect);
	case OPTION_HELP:
		return call->help = true;
	case OPTION_JSON:
		return call->json = true;
	case OPTION_REASON:
		return take_text(&call->reason, argument);
	case OPTION_YES:
		return call->yes = true;
	default:
		return take_pace(reading->options, option, argument);
	}
}

/* --- what single options cannot show --- */

static bool has_state(const struct bulk_options *options, const char *state)
{
	for (size_t i = 0; i < options->state_count; i++)
		if (strcmp(options->states[i], state) == 0)
			return true;
	return false;
}

static const char *what_is_wrong_of_replay(const struct bulk_options *options)
{
	if (options->happened || options->did_not_happen)
		return "whether it happened is said to resolve";
	if (!options->state_count)
		return "say of which state: --state dead, retry_wait or pending, or --uncertain";
	for (size_t i = 0; i < options->state_count; i++) {
		const char *state = options->states[i];
		if (strcmp(state, "dead") != 0 && strcmp(state, "uncertain") != 0 &&
		    strcmp(state, "retry_wait") != 0 && strcmp(state, "pending") != 0)
			return "keys of that state cannot be replayed";
	}
	return NULL;
}

static const char *what_is_wrong_of_resolve(const struct bulk_options *options)
{
	if (options->happened == options->did_not_happen)
		return "say --happened, or --did-not-happen";
	if (options->state_count > 1 || (options->state_count && !has_state(options, "uncertain")))
		return "only uncertain keys are decided";
	if (options->canary)
		return "--canary goes with replay";
	return NULL;
}

/* NULL: nothing. */
static const char *what_is_wrong(const struct call *call, const struct bulk_options *options)
{
	const char *wrong = strcmp(call->name, "replay") == 0 ? what_is_wrong_of_replay(options)
							      : what_is_wrong_of_resolve(options);
	if (wrong || call->dry_run)
		return wrong;
	if (!call->yes)
		return "this changes something: say --yes, or --dry-run";
	if (!call->reason || !*call->reason)
		return "say --reason, for the audit";
	if (call->expect < 0)
		return "--all needs --expect, the number of keys that --dry-run tells";
	return NULL;
}

/* --- publics --- */

bool bulk_asked(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--all") == 0)
			return true;
	return false;
}

bool bulk_options_read(struct call *call, int argc, char **argv, struct bulk_options *options_r,
		       enum exit_code *code_r)
{
	const bool replay = strcmp(call->name, "replay") == 0;
	struct bulk_options options = { .stop_after = replay ? STOP_AFTER : 0 };
	struct reading reading = { .call = call, .options = &options };
	int option;
	call->expect = -1;
	optind = 0; /* begins afresh behind the command's name */
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", known, NULL)) != -1)
		if (!take_option(&reading, option, optarg)) {
			*code_r = call_wrong(call, "%s --all: what is %s?", call->name,
					     argv[optind > 1 ? optind - 1 : 0]);
			return false;
		}
	if (call->help) {
		fputs(call->usage, stdout);
		*code_r = EXIT_OK;
		return false;
	}
	const char *wrong =
		optind < argc ? "either a key, or --all" : what_is_wrong(call, &options);
	if (wrong) {
		*code_r = call_wrong(call, "%s: %s", call->name, wrong);
		return false;
	}
	if (!replay && !options.state_count)
		options.states[options.state_count++] = "uncertain";
	*options_r = options;
	return true;
}

static void add_clause(struct writer *writer, const char *name, const char *value)
{
	if (value)
		writer_text(writer, name, value);
}

void bulk_options_params(const struct bulk_options *options, struct buf *out)
{
	struct writer writer = { .out = out };
	writer_open(&writer, NULL, '{');
	writer_open(&writer, "select", '{');
	writer_open(&writer, "states", '[');
	for (size_t i = 0; i < options->state_count; i++)
		writer_text(&writer, NULL, options->states[i]);
	writer_close(&writer, ']');
	add_clause(&writer, "error", options->error);
	add_clause(&writer, "target", options->target);
	add_clause(&writer, "tenant", options->tenant);
	add_clause(&writer, "effect", options->effect);
	add_clause(&writer, "topic", options->topic);
	add_clause(&writer, "key_prefix", options->key_prefix);
	if (options->older_than > 0) {
		char text[64];
		(void)snprintf(text, sizeof(text), "%lld microseconds",
			       (long long)options->older_than);
		writer_text(&writer, "older_than", text);
	}
	writer_close(&writer, '}');
	if (options->happened || options->did_not_happen)
		writer_bool(&writer, "happened", options->happened);
	writer_close(&writer, '}');
}
