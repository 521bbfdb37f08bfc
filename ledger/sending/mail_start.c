/* From a recorded request of mail to its transfer. */
#include "mail_start.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "rules/mail.h"

static struct smtp_transfer *start(struct loop *loop, const struct mail_order *order,
				   const struct mail *mail, smtp_done_fn *done, void *arg)
{
	const struct conf_target *conf = order->target->conf;
	const usec_t left = order->until - usec_boot();
	/* "NAME:PASSWORD", the name without a colon */
	char *user = mem_text(order->target->authorization ? order->target->authorization : "");
	const size_t size = strlen(user);
	char *colon = strchr(user, ':');
	if (colon)
		*colon++ = '\0';
	const struct smtp_request request = {
		.url = order->request->url,
		.user = user,
		.password = colon ? colon : "",
		.from = buf_text(&mail->from),
		.to = buf_text(&mail->to),
		.message = buf_text(&mail->message),
		.length = mail->message.length,
		.connect_timeout = conf->connect_timeout < left ? conf->connect_timeout : left,
		.timeout = conf->timeout,
		.send_before = order->until,
		.answer_max = order->answer_max,
		.ca_file = conf->ca_file,
		.cert_file = conf->cert_file,
		.key_file = conf->key_file,
	};
	struct smtp_transfer *transfer = smtp_start(loop, &request, done, arg);
	explicit_bzero(user, size);
	free(user);
	return transfer;
}

bool mail_start(struct loop *loop, const struct mail_order *order, smtp_done_fn *done, void *arg,
		struct smtp_transfer **transfer_r)
{
	const struct claim_request *request = order->request;
	struct mail mail = { 0 };
	struct err err;
	const bool good = mail_compose(request->headers ? request->headers : "",
				       request->body ? request->body : "", request->body_length,
				       request->provider_key, order->wall, &err, &mail);
	if (good)
		*transfer_r = start(loop, order, &mail, done, arg);
	mail_done(&mail);
	return good;
}
