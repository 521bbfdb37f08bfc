/* Orders to intake. */
#include "data/intake_order.h"

#include "data/operation.h"
#include "data/order.h"
#include "data/sql_intake.h"

bool intake_order_fits(const struct call *call, enum exit_code *code_r)
{
	if (!call->yes && !call->dry_run)
		*code_r = call_wrong(call, "%s changes something: say --yes", call->name);
	else if (!call->dry_run && (!call->reason || !*call->reason))
		*code_r = call_wrong(call, "%s: say why, with --reason", call->name);
	else
		return true;
	return false;
}

enum exit_code intake_order(struct call *call, const char *kind, const char *params)
{
	PG_RESULT_AUTO PGresult *answer = NULL;
	PG_PARAMS_AUTO struct pg_params values = { 0 };
	BUF_AUTO struct buf claims = { 0 };
	char operation[ORDER_OPERATION];
	if (call->conf->console.read_only)
		return call_error(call, EXIT_PERMISSION,
				  "console.read_only is set: nothing is changed");
	order_claims(&claims);
	order_operation(operation);
	pg_add_text(&values, kind);
	pg_add_text(&values, params);
	pg_add_text(&values, operation);
	pg_add_text(&values, call->reason);
	pg_add_text(&values, buf_text(&claims));
	call->sqlstate[0] = '\0';
	if (!pg_session_script(call->session, SQL_BEGIN_ORDER, &call->err, call->sqlstate) ||
	    !call_query(call, SQL_ORDER_INTAKE, &values, &answer) ||
	    !pg_session_script(call->session, "COMMIT", &call->err, call->sqlstate))
		return call_failed(call);
	return operation_follow(call, pg_get_int8(answer, 0, 0));
}
