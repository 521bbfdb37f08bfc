/* Renders one event by one rule.
 *
 * The key comes first: without it there is no row, and the message is poison. Once there is a key,
 * whatever fails is recorded under it: the draft is dead, with the reason. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "emit.h"
#include "escape.h"
#include "fingerprint.h"
#include "mail.h"
#include "moment.h"
#include "profile.h"
#include "rules_code.h"
#include "wire.h"

struct drafting {
	struct draft *draft;
	const struct rule_code *code;
	const struct template_input *input;
};

/* --- the key --- */

static bool make_key(struct draft *draft, const struct template_input *input, struct err *err)
{
	const struct rule_code *code = draft->rule->code;

	if (!template_render(code->key, input, err, &draft->key))
		return err_prefix(err, "key");
	if (!draft->key.length)
		return err_set(err, "key: is empty");
	if (draft->key.length > EFFECT_KEY_MAX)
		return err_set(err, "key: %zu bytes long; at most %d are kept", draft->key.length,
			       EFFECT_KEY_MAX);
	if (code->tenant && !template_render(code->tenant, input, err, &draft->tenant))
		return err_prefix(err, "tenant");
	if (draft->tenant.length > EFFECT_TENANT_MAX)
		return err_set(err, "tenant: %zu bytes long; at most %d are kept",
			       draft->tenant.length, EFFECT_TENANT_MAX);
	return true;
}

/* Encoded they could do no harm; but a name that holds them is no name, and is not sent. */
static bool check_line_breaks(const struct drafting *drafting, struct err *err)
{
	const struct rule_code *code = drafting->code;
	const char *place = template_line_break(code->key, drafting->input);

	if (place)
		return err_set(err, "key: %.200s holds CR, LF or NUL", place);
	place = code->tenant ? template_line_break(code->tenant, drafting->input) : NULL;
	if (place)
		return err_set(err, "tenant: %.200s holds CR, LF or NUL", place);
	return true;
}

/* --- the request --- */

static bool make_url(const struct drafting *drafting, struct err *err)
{
	const struct rule_code *code = drafting->code;
	struct buf *url = &drafting->draft->url;
	size_t path;

	buf_add_text(url, drafting->draft->rule->target->base);
	if (!code->path)
		return true; /* mail */
	path = url->length;
	if (!template_render(code->path, drafting->input, err, url))
		return err_prefix(err, "request.path");
	if (path_has_dots(url->data + path))
		return err_set(err, "request.path: a segment is \".\" or \"..\", which leads "
				    "somewhere else");
	for (size_t i = 0; i < code->query.count; i++) {
		buf_addf(url, "%c%s=", i ? '&' : '?', code->query.items[i].name);
		if (!template_render(code->query.items[i].value, drafting->input, err, url))
			return err_prefix(err, "request.query[%zu]", i);
	}
	if (url->length > RULES_URL_MAX)
		return err_set(err, "the URL is %zu bytes long; at most %d are sent", url->length,
			       RULES_URL_MAX);
	return true;
}

/* What is sent one at a time: by the configured words, and in mode natural all that goes to one
 * URL, for a late older PUT would undo a newer one. What is too long to be kept is told by its
 * hash. */
static bool make_serial_key(const struct drafting *drafting, struct err *err)
{
	const struct draft *draft = drafting->draft;
	struct buf *serial = &drafting->draft->serial_key;

	if (draft->rule->conf->mode == EFFECT_NATURAL)
		buf_add(serial, draft->url.data, draft->url.length);
	else if (drafting->code->serial &&
		 !template_render(drafting->code->serial, drafting->input, err, serial))
		return err_prefix(err, "serialize_by");
	if (serial->length > EFFECT_SERIAL_MAX)
		hashed_key(serial);
	return true;
}

/* Empty: there is nothing to wait for. */
static bool make_not_before(const struct drafting *drafting, struct err *err)
{
	struct buf text BUF_AUTO = { 0 };

	if (!drafting->code->not_before)
		return true;
	if (!template_render(drafting->code->not_before, drafting->input, err, &text))
		return err_prefix(err, "not_before");
	if (text.length > 0 && !moment_read(text.data, text.length, &drafting->draft->not_before))
		return err_set(err,
			       "not_before: \"%.100s\" is no time: RFC 3339, or seconds or "
			       "milliseconds since 1970",
			       text.data);
	return true;
}

/* The configured type, else the event's, else JSON; none where there is no body. */
static bool make_content_type(const struct drafting *drafting, struct err *err)
{
	const struct event *event = drafting->input->event;
	const char *type = drafting->code->content_type;
	struct buf *headers = &drafting->draft->headers;
	bool value = !drafting->code->body && event->source.value;

	if (*type) {
		buf_addf(headers, "Content-Type: %s\n", type);
	} else if (value && event->content_type_length) {
		if (!header_value_valid(event->content_type, event->content_type_length))
			return err_set(err, "the event's header content-type holds CR, LF, NUL or "
					    "another control character");
		buf_add_text(headers, "Content-Type: ");
		buf_add(headers, event->content_type, event->content_type_length);
		buf_add_char(headers, '\n');
	} else if (value) {
		buf_add_text(headers, "Content-Type: application/json\n");
	}
	if (headers->length > RULES_HEADER_MAX)
		return err_set(err, "the event's header content-type is longer than %d bytes",
			       RULES_HEADER_MAX);
	return true;
}

static bool make_mail_header(const struct drafting *drafting, const char *name,
			     const struct template_code *template, struct err *err)
{
	struct buf value BUF_AUTO = { 0 };

	if (!template_render(template, drafting->input, err, &value))
		return err_prefix(err, "%s", name);
	if (value.length > RULES_HEADER_MAX)
		return err_set(err, "%s: %zu bytes long; at most %d are sent", name, value.length,
			       RULES_HEADER_MAX);
	buf_addf(&drafting->draft->headers, "%s: %s\n", name, buf_text(&value));
	return true;
}

static bool make_mail_headers(const struct drafting *drafting, struct err *err)
{
	const struct rule_mail *mail = &drafting->code->mail;

	return make_mail_header(drafting, "From", mail->from, err) &&
	       make_mail_header(drafting, "To", mail->to, err) &&
	       make_mail_header(drafting, "Subject", mail->subject, err);
}

static bool make_headers(const struct drafting *drafting, struct err *err)
{
	const struct rule_pairs *pairs = &drafting->code->headers;
	struct buf *headers = &drafting->draft->headers;
	struct buf value BUF_AUTO = { 0 };

	if (target_is_mail(drafting->draft->rule->target))
		return make_mail_headers(drafting, err);
	if (!make_content_type(drafting, err))
		return false;
	buf_add(headers, buf_text(&drafting->code->target_headers),
		drafting->code->target_headers.length);
	for (size_t i = 0; i < pairs->count; i++) {
		buf_clear(&value);
		if (!template_render(pairs->items[i].value, drafting->input, err, &value))
			return err_prefix(err, "request.headers[%zu]", i);
		if (value.length > RULES_HEADER_MAX)
			return err_set(err,
				       "request.headers[%zu]: %zu bytes long; at most %d are sent",
				       i, value.length, RULES_HEADER_MAX);
		if (value.length)
			buf_addf(headers, "%s: %s\n", pairs->items[i].name, value.data);
	}
	return true;
}

static bool make_body(const struct drafting *drafting, struct err *err)
{
	struct draft *draft = drafting->draft;
	const struct event_source *source = &drafting->input->event->source;
	size_t length = source->value_length;

	draft->body_is_value = !drafting->code->body;
	if (drafting->code->body) {
		if (!template_render(drafting->code->body, drafting->input, err, &draft->body))
			return err_prefix(err, "request.body");
		length = draft->body.length;
	}
	if (length > RULES_BODY_MAX)
		return err_set(err, "the body is %zu bytes long; at most %d are sent", length,
			       RULES_BODY_MAX);
	return true;
}

/* What is recorded can be sent: it is made into a message once here, for nothing but its faults. */
static bool check_mail(const struct drafting *drafting, struct err *err)
{
	const struct draft *draft = drafting->draft;
	struct mail mail = { 0 };

	if (!target_is_mail(draft->rule->target))
		return true;
	const bool good =
		mail_compose(buf_text(&draft->headers), buf_text(&draft->body), draft->body.length,
			     buf_text(&draft->provider_key), 0, err, &mail);
	mail_done(&mail);
	return good;
}

static void request_fingerprint(const struct drafting *drafting)
{
	struct draft *draft = drafting->draft;
	const struct event_source *source = &drafting->input->event->source;
	const char *method = rule_method(draft->rule);
	struct fingerprint_part parts[] = {
		{ method, strlen(method) },
		{ draft->url.data, draft->url.length },
		{ draft->headers.data, draft->headers.length }, /* the content type is the first */
		{ draft->body_is_value ? source->value : draft->body.data,
		  draft->body_is_value ? source->value_length : draft->body.length },
	};

	fingerprint_of(parts, sizeof(parts) / sizeof(parts[0]), draft->fingerprint);
}

static bool sets_header(const struct draft *draft, const char *name)
{
	const size_t length = strlen(name);
	const char *at = buf_text(&draft->headers), *end;

	for (; (end = strchr(at, '\n')); at = end + 1)
		if (!strncasecmp(at, name, length) && at[length] == ':')
			return true;
	return false;
}

/* Behind the fingerprint: the same request is the same in every trace. */
static void add_trace(const struct drafting *drafting)
{
	struct draft *draft = drafting->draft;
	const struct event_header *trace = event_trace(drafting->input->event);

	if (!trace || target_is_mail(draft->rule->target) || sets_header(draft, WIRE_TRACEPARENT))
		return;
	buf_addf(&draft->headers, WIRE_TRACEPARENT ": %.*s\n", (int)trace->length, trace->value);
}

/* There is no request: two such events are the same if their values are. */
static void die(const struct drafting *drafting, const char *why)
{
	static const char tag[] = "no request";
	struct draft *draft = drafting->draft;
	struct fingerprint_part parts[] = {
		{ tag, sizeof(tag) - 1 },
		{ drafting->input->event->hash, EFFECT_HASH_SIZE },
	};

	draft->dead = true;
	draft->body_is_value = false;
	buf_clear(&draft->url);
	buf_clear(&draft->serial_key);
	buf_clear(&draft->headers);
	buf_clear(&draft->body);
	(void)snprintf(draft->why, sizeof(draft->why), "%.*s", (int)sizeof(draft->why) - 1, why);
	fingerprint_of(parts, sizeof(parts) / sizeof(parts[0]), draft->fingerprint);
}

static usec_t later(usec_t time, usec_t by)
{
	usec_t sum;

	return by == USEC_NEVER || __builtin_add_overflow(time, by, &sum) ? USEC_NEVER : sum;
}

static void draft_reset(struct draft *draft, const struct rule *rule)
{
	buf_clear(&draft->key);
	buf_clear(&draft->tenant);
	buf_clear(&draft->provider_key);
	buf_clear(&draft->url);
	buf_clear(&draft->serial_key);
	buf_clear(&draft->headers);
	buf_clear(&draft->body);
	buf_clear(&draft->emit);
	draft->rule = rule;
	draft->body_is_value = false;
	draft->dead = false;
	draft->why[0] = '\0';
}

void draft_done(struct draft *draft)
{
	buf_done(&draft->key);
	buf_done(&draft->tenant);
	buf_done(&draft->provider_key);
	buf_done(&draft->url);
	buf_done(&draft->serial_key);
	buf_done(&draft->headers);
	buf_done(&draft->body);
	buf_done(&draft->emit);
}

bool draft_make(struct draft *draft, const struct rule *rule, const struct template_input *input,
		usec_t now, struct err *err)
{
	struct drafting drafting = { draft, rule->code, input };
	usec_t time = input->event->time;
	struct err why;

	draft_reset(draft, rule);
	if (!make_key(draft, input, err))
		return false;
	provider_key(rule->target->profile, &draft->tenant, &draft->key, &draft->provider_key);
	draft->delay = rule->conf->delay;
	draft->not_before = USEC_NEVER;
	draft->not_after = later(time == USEC_NEVER ? now : time, rule->conf->not_after);
	if (check_line_breaks(&drafting, &why) && make_url(&drafting, &why) &&
	    make_serial_key(&drafting, &why) && make_headers(&drafting, &why) &&
	    make_body(&drafting, &why) && make_not_before(&drafting, &why) &&
	    check_mail(&drafting, &why)) {
		request_fingerprint(&drafting);
		add_trace(&drafting);
		emit_make(rule, input, &draft->emit);
	} else {
		die(&drafting, why.text);
	}
	return true;
}
