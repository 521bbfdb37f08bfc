/* counterfoil poison replay and discard */
#include <stdio.h>
#include <string.h>

#include "commands/call.h"
#include "commands/command_poison.h"
#include "commands/settling.h"
#include "data/intake_order.h"
#include "data/sql_intake.h"
#include "words/writer.h"

enum { IDS_MAX = 100000 }; /* of one operation */

static const char usage[] =
	"usage: counterfoil poison replay|discard ID...|--topic T --yes --reason TEXT [--expect "
	"N]\n"
	"                                         [--dry-run] [--json] [--config FILE]\n"
	"replay: a ledger takes them in as if they came now from where they were, with the\n"
	"configuration as it is now; what is still poison stays open, with its new reason. Of "
	"those "
	"that\n"
	"were too large to be kept whole nothing is done: counterfoil redeliver reads them again.\n"
	"discard: they are settled without any effect. Both stand in the audit. What was settled "
	"so\n"
	"before is left as it is. Ends with 4 when none is there, with 5 when all were settled "
	"otherwise.\n"
	"  --topic T      all open ones of the topic\n"
	"  --expect N     only if there are so many\n"
	"  --yes          do it\n"
	"  --dry-run      only say how many there are\n"
	"  --reason TEXT  for the audit\n";

struct choice {
	struct call *call;
	struct pg_array ids;
	int64_t last;
};

/* --- which --- */

static bool read_ids(struct choice *choice, enum exit_code *code_r)
{
	struct call *call = choice->call;
	for (int i = 0; i < call->word_count; i++) {
		int64_t id = 0;
		if (!call_number(call->words[i], &id)) {
			*code_r = call_wrong(call, "%s: what is \"%.64s\"? They have numbers",
					     call->name, call->words[i]);
			return false;
		}
		pg_array_int8(&choice->ids, id);
	}
	return true;
}

static bool find_ids(struct choice *choice, enum exit_code *code_r)
{
	PG_RESULT_AUTO PGresult *rows = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_text(&params, choice->call->topic);
	pg_add_int8(&params, IDS_MAX);
	if (!call_query(choice->call, SQL_POISON_IDS, &params, &rows)) {
		*code_r = call_failed(choice->call);
		return false;
	}
	for (int row = 0; row < pg_rows(rows); row++) {
		choice->last = pg_get_int8(rows, row, 0);
		pg_array_int8(&choice->ids, choice->last);
	}
	return true;
}

static bool choose(struct choice *choice, enum exit_code *code_r)
{
	struct call *call = choice->call;
	if (call->topic && !find_ids(choice, code_r))
		return false;
	if (call->expect >= 0 && choice->ids.count != call->expect)
		*code_r = call_error(call, EXIT_CONFLICT, "%d, and not the %lld expected",
				     choice->ids.count, (long long)call->expect);
	else if (choice->ids.count == 0)
		*code_r = call_error(call, EXIT_NOT_FOUND, "no poison of this topic is open");
	else
		return true;
	return false;
}

/* --- replay --- */

/* Of a topic the last one is told: what turns to poison later is not taken along. */
static void replay_params(const struct choice *choice, struct buf *out)
{
	const struct call *call = choice->call;
	struct writer writer = { .out = out };
	int64_t id = 0;
	writer_open(&writer, NULL, '{');
	if (call->topic) {
		writer_text(&writer, "topic", call->topic);
		writer_int(&writer, "upto", choice->last);
	} else {
		writer_open(&writer, "ids", '[');
		for (int i = 0; i < call->word_count; i++)
			if (call_number(call->words[i], &id))
				writer_int(&writer, NULL, id);
		writer_close(&writer, ']');
	}
	writer_close(&writer, '}');
}

/* There is nothing for a ledger to do: none is there, or open. */
static enum exit_code none_open(const struct call *call, const PGresult *counts)
{
	if (!pg_get_int8(counts, 0, POISON_KNOWN))
		return call_error(call, EXIT_NOT_FOUND, "there is no such poison");
	if (pg_get_int8(counts, 0, POISON_REPLAYED) < pg_get_int8(counts, 0, POISON_KNOWN))
		return call_error(call, EXIT_CONFLICT, "settled before, and not by a replay");
	puts(call->json ? "{\"result\":\"already\"}" : "replayed already");
	return EXIT_OK;
}

static enum exit_code replay(struct choice *choice)
{
	BUF_AUTO struct buf params = { 0 };
	PG_RESULT_AUTO PGresult *counts = NULL;
	PG_PARAMS_AUTO struct pg_params ids = { 0 };
	pg_add_array(&ids, &choice->ids);
	if (!call_query(choice->call, SQL_POISON_COUNTS, &ids, &counts))
		return call_failed(choice->call);
	const int64_t open = pg_get_int8(counts, 0, POISON_OPEN);
	if (!open)
		return none_open(choice->call, counts);
	if (choice->call->dry_run) {
		printf("%lld would be replayed\n", (long long)open);
		return EXIT_OK;
	}
	replay_params(choice, &params);
	return intake_order(choice->call, "poison", buf_text(&params));
}

/* --- discard --- */

static enum exit_code discard(struct choice *choice)
{
	static const struct settling settling = { SQL_POISON_DISCARD, "discarded" };
	return settling_do(choice->call, &choice->ids, &settling);
}

/* --- the commands --- */

static enum exit_code order(struct call *call, int argc, char **argv,
			    enum exit_code (*give)(struct choice *))
{
	struct choice choice = { .call = call };
	enum exit_code code = EXIT_ERROR;
	if (!call_read(call, CALL_WORDS | CALL_TOPIC | CALL_BULK | CALL_ORDER, argc, argv, &code))
		return code;
	if ((call->topic != NULL) == (call->word_count > 0))
		return call_wrong(call, "%s: say which, by their numbers or --topic", call->name);
	if (!intake_order_fits(call, &code))
		return code;
	pg_array_init(&choice.ids, PG_INT8);
	if (read_ids(&choice, &code) && call_open(call, &code) && choose(&choice, &code))
		code = give(&choice);
	pg_array_done(&choice.ids);
	call_close(call);
	return code;
}

enum exit_code poison_replay_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "poison replay", .usage = usage, .config_path = config_path };
	return order(&call, argc, argv, replay);
}

enum exit_code poison_discard_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "poison discard", .usage = usage, .config_path = config_path };
	return order(&call, argc, argv, discard);
}
