/* counterfoil cancel, dead-letter, take-over, note and erase */
#include "commands/command_key.h"

#include "commands/key_order.h"

#define OPTIONS                                                                                    \
	"  --target T     of several targets' keys\n"                                              \
	"  --tenant T     of several tenants' keys\n"                                              \
	"  --yes          do it\n"                                                                 \
	"  --dry-run      only say what would come of it\n"                                        \
	"  --json         say it as JSON\n"
#define REASON "  --reason TEXT  for the audit\n"

static const char cancel_usage[] =
	"usage: counterfoil cancel KEY|ID --yes --reason TEXT [OPTION ...]\n"
	"Takes back for good what waits to be sent. What may have happened already\n"
	"becomes uncertain instead. Ends with 5 when the key was neither waiting nor\n"
	"cancelled.\n" OPTIONS REASON;

static const char dead_letter_usage[] =
	"usage: counterfoil dead-letter KEY|ID --yes --reason TEXT [OPTION ...]\n"
	"Gives up what waits to be sent: it is dead, and can be replayed. What may have\n"
	"happened already becomes uncertain instead. A ledger sends its dead letter, as\n"
	"of any dead key. Ends with 5 when the key was neither waiting nor dead.\n" OPTIONS REASON;

static const char take_over_usage[] =
	"usage: counterfoil take-over KEY|ID --yes [--reason TEXT] [OPTION ...]\n"
	"Takes a stale key from its ledger now. It is due at once, with the same key; one\n"
	"of at_most_once that may have been sent becomes uncertain. Ends with 5 when the\n"
	"key was not stale.\n" OPTIONS REASON;

static const char note_usage[] = "usage: counterfoil note KEY|ID --yes --reason TEXT [OPTION ...]\n"
				 "Keeps a remark with the key, in whatever state it is.\n" OPTIONS
				 "  --reason TEXT  the remark\n";

static const char erase_usage[] =
	"usage: counterfoil erase KEY|ID --yes --reason TEXT [OPTION ...]\n"
	"Forgets what may be personal in a key that has ended: request, answers, the\n"
	"event's content, its subject. The key, its state and the provider's id stay, so\n"
	"that a repetition is known as one. Not reached: what stands in Kafka or waits in\n"
	"the outbox, reasons and notes. Ends with 5 when the key has not ended.\n"
	"  --key KEY      the key, instead of the first word\n" OPTIONS REASON;

static enum exit_code run(struct call *call, unsigned options, enum order_kind kind, int argc,
			  char **argv)
{
	enum exit_code code = EXIT_ERROR;
	if (!call_read(call, CALL_WHICH | CALL_ORDER | options, argc, argv, &code))
		return code;
	if (call->key && call->word)
		return call_wrong(call, "%s: one key too many, \"%s\"", call->name, call->word);
	if (call->key)
		call->word = call->key;
	return key_order_run(call, kind);
}

enum exit_code cancel_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "cancel", .usage = cancel_usage, .config_path = config_path };
	return run(&call, 0, ORDER_CANCEL, argc, argv);
}

enum exit_code dead_letter_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "dead-letter",
			     .usage = dead_letter_usage,
			     .config_path = config_path };
	return run(&call, 0, ORDER_GIVE_UP, argc, argv);
}

enum exit_code take_over_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "take-over",
			     .usage = take_over_usage,
			     .config_path = config_path };
	return run(&call, 0, ORDER_TAKE_OVER, argc, argv);
}

enum exit_code note_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "note", .usage = note_usage, .config_path = config_path };
	return run(&call, 0, ORDER_NOTE, argc, argv);
}

enum exit_code erase_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "erase", .usage = erase_usage, .config_path = config_path };
	return run(&call, CALL_KEY, ORDER_ERASE, argc, argv);
}
