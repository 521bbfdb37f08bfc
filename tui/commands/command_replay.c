/* counterfoil replay */
#include "commands/command_replay.h"

#include "commands/command_bulk.h"
#include "commands/key_order.h"

static const char usage[] =
	"usage: counterfoil replay KEY|ID [--target T] [--tenant T] --yes [--reason TEXT]\n"
	"                          [--new-key [--force]] [--dry-run] [--json] [--config FILE]\n"
	"       counterfoil replay --all ...       many keys: --all --help tells more\n"
	"Runs a dead key again with the same idempotency key, or an uncertain one that its "
	"provider\n"
	"still knows; a waiting one at once. Whatever came of it stands in the audit. Ends with 5\n"
	"when the key was not in a state for it.\n"
	"  --new-key      send it with a new key: what is uncertain may then happen twice. Needs "
	"a\n"
	"                 reason\n"
	"  --force        with --new-key: of a completed key too. It then happens a second time, "
	"as\n"
	"                 an effect of its own, KEY~rN\n"
	"  --yes          do it\n"
	"  --dry-run      only say what would come of it\n"
	"  --reason TEXT  for the audit\n";

enum exit_code replay_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "replay", .usage = usage, .config_path = config_path };
	enum exit_code code = EXIT_ERROR;
	if (bulk_asked(argc, argv))
		return bulk_replay_run(config_path, argc, argv);
	if (!call_read(&call, CALL_WHICH | CALL_ORDER | CALL_NEW_KEY, argc, argv, &code))
		return code;
	if (call.force && !call.new_key)
		return call_wrong(&call, "replay: --force goes with --new-key");
	return key_order_run(&call, call.new_key ? ORDER_NEW_KEY : ORDER_REPLAY);
}
