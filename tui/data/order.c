/* Orders. */
#include "data/order.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "data/sql_console.h"
#include "version.h"
#include "words/writer.h"

/* RFC 9562, version 4. */
void order_operation(char *text)
{
	unsigned char b[16];
	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		abort();
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	(void)snprintf(text, ORDER_OPERATION,
		       "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		       b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
		       b[13], b[14], b[15]);
}

const struct order_form *order_form(enum order_kind kind)
{
	static const struct order_form forms[] = {
#define X(symbol, sql, title, button, done, reason)                                                \
	[ORDER_##symbol] = { (sql), (title), (button), (done), (reason) },
		ORDER_KINDS(X)
#undef X
	};
	return &forms[kind];
}

void order_init(struct order *order, enum order_kind kind, int64_t id, int32_t epoch,
		const char *state)
{
	*order = (struct order){ .kind = kind, .id = id, .epoch = epoch };
	(void)snprintf(order->state, sizeof(order->state), "%s", state);
	order_operation(order->operation);
}

static void add_claim(struct writer *writer, const char *name, const char *text)
{
	if (text && *text)
		writer_bytes(writer, name, text, strlen(text));
}

void order_claims(struct buf *out)
{
	struct writer writer = { .out = out };
	const struct passwd *user = getpwuid(getuid());
	const char *from = getenv("SSH_CONNECTION");
	char host[65] = "", address[64] = "";
	if (gethostname(host, sizeof(host) - 1) != 0)
		host[0] = '\0';
	(void)snprintf(address, sizeof(address), "%.*s", from ? (int)strcspn(from, " ") : 0,
		       from ? from : "");
	writer_open(&writer, NULL, '{');
	add_claim(&writer, "user", user ? user->pw_name : NULL);
	add_claim(&writer, "sudo_user", getenv("SUDO_USER"));
	add_claim(&writer, "host", host);
	add_claim(&writer, "address", address);
	add_claim(&writer, "program", "counterfoil " COUNTERFOIL_VERSION);
	writer_close(&writer, '}');
}

void order_params(const struct order *order, const char *provider_id, const char *reason,
		  bool dry_run, struct pg_params *params)
{
	BUF_AUTO struct buf claims = { 0 };
	order_claims(&claims);
	pg_add_int8(params, order->id);
	pg_add_int4(params, order->epoch);
	pg_add_text(params, order->state);
	pg_add_text(params, order->operation);
	pg_add_text(params, *reason ? reason : NULL);
	pg_add_text(params, buf_text(&claims));
	pg_add_bool(params, dry_run);
	pg_add_text(params, provider_id && *provider_id ? provider_id : NULL);
}

enum order_result order_result(const PGresult *verdict)
{
	static const char *const words[] = {
		[ORDER_DONE] = "done",
		[ORDER_ALREADY] = "already",
		[ORDER_CHANGED] = "changed",
		[ORDER_REFUSED] = "refused",
	};
	const char *result = pg_get_text(verdict, 0, VERDICT_RESULT);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(result, words[i]) == 0)
			return (enum order_result)i;
	return ORDER_MISSING;
}
