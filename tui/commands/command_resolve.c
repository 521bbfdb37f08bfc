/* counterfoil resolve */
#include "commands/command_resolve.h"

#include "commands/command_bulk.h"
#include "commands/key_order.h"

static const char usage[] =
	"usage: counterfoil resolve KEY|ID --happened [--provider-id ID] --yes --reason TEXT\n"
	"       counterfoil resolve KEY|ID --did-not-happen --yes --reason TEXT\n"
	"                           [--target T] [--tenant T] [--dry-run] [--json] [--config "
	"FILE]\n"
	"       counterfoil resolve --all ...       many keys: --all --help tells more\n"
	"Decides what became of an uncertain key, by what you have found out at its provider. "
	"Ends\n"
	"with 5 when the key was not uncertain any more.\n"
	"  --happened          it counts as completed; a ledger then emits what there is to emit\n"
	"  --provider-id ID    what the provider calls it\n"
	"  --did-not-happen    it counts as dead, certainly not applied, and can be replayed. No\n"
	"                      dead letter is sent\n"
	"  --yes               do it\n"
	"  --dry-run           only say what would come of it\n"
	"  --reason TEXT       for the audit\n";

enum exit_code resolve_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "resolve", .usage = usage, .config_path = config_path };
	enum exit_code code = EXIT_ERROR;
	if (bulk_asked(argc, argv))
		return bulk_resolve_run(config_path, argc, argv);
	if (!call_read(&call, CALL_WHICH | CALL_ORDER | CALL_DECISION, argc, argv, &code))
		return code;
	if (call.happened == call.did_not_happen)
		return call_wrong(&call, "resolve: say --happened, or --did-not-happen");
	if (call.provider_id && !call.happened)
		return call_wrong(&call, "resolve: --provider-id goes with --happened");
	return key_order_run(&call, call.happened ? ORDER_HAPPENED : ORDER_NOT_HAPPENED);
}
