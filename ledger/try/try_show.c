/* What the rules make of an event, as a person reads it. The lines of a request are those that
 * attempt.c sends. */
#include "try_show.h"

#include <openssl/evp.h>
#include <string.h>

#include "intake/dead_letter.h"
#include "json.h"
#include "mem.h"
#include "rules/emit.h"
#include "rules/mail.h"
#include "rules/profile.h"
#include "rules/webhook.h"

#define INDENT      "    "
#define BASE64_LINE 57 /* bytes that fill a line of 76 characters */

struct showing {
	const struct event_source *source;
	struct buf *out;
	bool any;  /* an effect was shown */
	bool good; /* nothing is dead, poison or unmatched */
};

/* --- text --- */

void try_put_text(struct buf *out, const char *text, size_t length)
{
	if (utf8_printable(text, length)) {
		buf_add(out, text, length);
		return;
	}
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c >= 0x20 && c < 0x7f)
			buf_add_char(out, text[i]);
		else
			buf_addf(out, "\\x%02x", (unsigned)c);
	}
}

static void put_field(struct buf *out, const char *name, const char *text, size_t length)
{
	buf_addf(out, INDENT "%-14s", name);
	try_put_text(out, text, length);
	buf_add_char(out, '\n');
}

static void put_buf(struct buf *out, const char *name, const struct buf *text)
{
	put_field(out, name, buf_text(text), text->length);
}

static void put_hex(struct buf *out, const char *name, const uint8_t *bytes, size_t count)
{
	buf_addf(out, INDENT "%-14s", name);
	for (size_t i = 0; i < count; i++)
		buf_addf(out, "%02x", (unsigned)bytes[i]);
	buf_add_char(out, '\n');
}

/* --- the request --- */

static void put_line(struct buf *out, const char *line, size_t length)
{
	buf_add_text(out, INDENT INDENT);
	try_put_text(out, line, length);
	buf_add_char(out, '\n');
}

static void put_header(struct buf *out, const char *line, size_t length)
{
	struct buf shown BUF_AUTO = { 0 };

	buf_add(&shown, line, (size_t)(strchr(line, ':') - line));
	if (!conf_header_is_secret(shown.data)) {
		put_line(out, line, length);
		return;
	}
	buf_add_text(&shown, ": " RULES_REDACTED);
	put_line(out, shown.data, shown.length);
}

static void put_message_id(struct buf *out, const struct draft *draft)
{
	struct buf sender BUF_AUTO = { 0 }, line BUF_AUTO = { 0 };

	mail_sender(buf_text(&draft->headers), &sender);
	buf_add_text(&line, "Message-ID: ");
	mail_message_id(buf_text(&draft->provider_key), buf_text(&sender), &line);
	put_line(out, line.data, line.length);
}

static void put_headers(struct buf *out, const struct draft *draft)
{
	const struct target *target = draft->rule->target;
	struct buf header BUF_AUTO = { 0 }, line BUF_AUTO = { 0 };
	const char *end, *at = buf_text(&draft->headers);

	for (; (end = strchr(at, '\n')); at = end + 1)
		put_header(out, at, (size_t)(end - at));
	if (target_is_mail(target)) {
		put_message_id(out, draft);
		return;
	}
	key_header(target->profile, &header);
	if (key_line(buf_text(&header), buf_text(&draft->provider_key), &line))
		put_line(out, line.data, line.length);
	buf_clear(&line);
	if (target_authorization(target, &line))
		put_line(out, line.data, line.length);
	if (target->profile->protocol == CONF_PROTOCOL_WEBHOOK)
		buf_add_text(out, INDENT INDENT WEBHOOK_TIMESTAMP
			     ": [when it is sent]\n" INDENT INDENT WEBHOOK_SIGNATURE
			     ": " RULES_REDACTED "\n");
}

static size_t until_blank(const char *data, size_t length)
{
	size_t at = 0;

	while (at < length && data[at] != '\n' && data[at] != '\t' && data[at] != '\r')
		at++;
	return at;
}

/* Lines that a terminal shows as they are: a '\r' by itself would begin the line anew. */
static bool is_plain(const char *data, size_t length)
{
	for (size_t at = 0; at < length; at++) {
		size_t span = until_blank(data + at, length - at);
		if (!utf8_printable(data + at, span))
			return false;
		at += span;
		if (at < length && data[at] == '\r' && (at + 1 == length || data[at + 1] != '\n'))
			return false;
	}
	return true;
}

static void put_lines(struct buf *out, const char *data, size_t length)
{
	const char *end = data + length;

	while (data < end) {
		const char *stop = memchr(data, '\n', (size_t)(end - data));
		stop = stop ? stop : end;
		buf_add_text(out, INDENT INDENT);
		buf_add(out, data, (size_t)(stop - data));
		buf_add_char(out, '\n');
		data = stop + 1;
	}
}

static void put_base64(struct buf *out, const char *data, size_t length)
{
	unsigned char line[BASE64_LINE / 3 * 4 + 1];

	for (size_t at = 0; at < length; at += BASE64_LINE) {
		size_t part = length - at < BASE64_LINE ? length - at : BASE64_LINE;
		EVP_EncodeBlock(line, (const unsigned char *)data + at, (int)part);
		buf_addf(out, INDENT INDENT "%s\n", (const char *)line);
	}
}

static void put_body(struct buf *out, const char *data, size_t length)
{
	bool plain = is_plain(data, length);

	if (!length)
		return;
	buf_addf(out, INDENT "%-14s%zu bytes%s\n", "body", length, plain ? "" : ", as base64");
	if (plain)
		put_lines(out, data, length);
	else
		put_base64(out, data, length);
}

static void put_request(const struct showing *showing, const struct draft *draft)
{
	const struct event_source *source = showing->source;

	buf_addf(showing->out, INDENT "request\n" INDENT INDENT "%s ", rule_method(draft->rule));
	try_put_text(showing->out, buf_text(&draft->url), draft->url.length);
	buf_add_char(showing->out, '\n');
	put_headers(showing->out, draft);
	if (draft->body_is_value)
		put_body(showing->out, source->value ? source->value : "", source->value_length);
	else
		put_body(showing->out, buf_text(&draft->body), draft->body.length);
}

static void put_death(const struct showing *showing, const struct draft *draft)
{
	struct buf topic BUF_AUTO = { 0 };

	dead_letter_topic(draft->rule->conf, showing->source->topic, &topic);
	put_field(showing->out, "dead", draft->why, strlen(draft->why));
	buf_addf(showing->out, INDENT "%-14snothing is sent; a dead letter goes to the topic ", "");
	try_put_text(showing->out, topic.data, topic.length);
	buf_add_char(showing->out, '\n');
}

/* --- what follows --- */

/* The payload as it is kept, with the provider's id where it will stand. */
static void put_payload(struct buf *out, const char *payload, size_t length)
{
	struct buf shown BUF_AUTO = { 0 };

	for (size_t i = 0; i < length; i++) {
		if (payload[i] == TEMPLATE_ID_QUOTED || payload[i] == TEMPLATE_ID_BARE)
			buf_add_text(&shown, "${provider_id}");
		else
			buf_add_char(&shown, payload[i]);
	}
	put_lines(out, buf_text(&shown), shown.length);
}

static void put_event_after(struct buf *out, const struct buf *emit)
{
	static const char *const pointers[] = { "/topic", "/type", "/key", "/payload" };
	enum { TOPIC, TYPE, KEY, PAYLOAD, COUNT };
	struct json_paths *paths = json_paths_new();
	struct buf storage BUF_AUTO = { 0 };
	struct json_value values[COUNT];
	size_t index;
	bool read = true;

	for (size_t i = 0; i < COUNT; i++)
		read = json_paths_add(paths, pointers[i], NULL, &index) && read;
	if (read && json_read(paths, emit->data, emit->length, NULL, &storage, values)) {
		buf_addf(out, INDENT "%-14stopic ", "emits");
		try_put_text(out, values[TOPIC].text, values[TOPIC].length);
		buf_add_text(out, ", type ");
		try_put_text(out, values[TYPE].text, values[TYPE].length);
		if (values[KEY].type != JSON_MISSING) {
			buf_add_text(out, ", ordering key ");
			try_put_text(out, values[KEY].text, values[KEY].length);
		}
		buf_add_char(out, '\n');
		put_payload(out, values[PAYLOAD].text, values[PAYLOAD].length);
	}
	json_paths_free(paths);
}

static void put_emit(const struct showing *showing, const struct draft *draft)
{
	const struct buf *emit = &draft->emit;

	if (!emit->length || draft->rule->shadow)
		return;
	if (emit->data[0] == *EMIT_FAULT)
		put_field(showing->out, "emits nothing", emit->data + 1, emit->length - 1);
	else
		put_event_after(showing->out, emit);
}

/* --- the event --- */

static void put_mode(struct buf *out, const struct draft *draft)
{
	const struct conf_effect *conf = draft->rule->conf;
	const bool resend = conf->on_uncertain == CONF_UNCERTAIN_RESEND;

	buf_addf(out, INDENT "%-14s%s%s\n", "mode", effect_mode_name(conf->mode),
		 resend ? ", on_uncertain resend" : "");
	if (draft->rule->shadow)
		buf_addf(out, INDENT "%-14srecorded as completed, and never sent\n", "shadow");
	if (draft->serial_key.length)
		put_buf(out, "serialize_by", &draft->serial_key);
}

static void show_draft(void *arg, const struct draft *draft)
{
	struct showing *showing = arg;
	struct buf *out = showing->out;

	showing->any = true;
	buf_addf(out, "  effect %s, target %s\n", draft->rule->conf->name,
		 draft->rule->target->conf->name);
	put_buf(out, "key", &draft->key);
	if (draft->tenant.length)
		put_buf(out, "tenant", &draft->tenant);
	put_buf(out, "provider key", &draft->provider_key);
	put_mode(out, draft);
	put_hex(out, "fingerprint", draft->fingerprint, sizeof(draft->fingerprint));
	if (draft->dead) {
		showing->good = false;
		put_death(showing, draft);
	} else {
		put_request(showing, draft);
		put_emit(showing, draft);
	}
}

static void put_event(struct buf *out, const struct event *event)
{
	buf_add_text(out, "  topic ");
	try_put_text(out, event->source.topic, strlen(event->source.topic));
	if (*event->type) {
		buf_add_text(out, ", type ");
		try_put_text(out, event->type, strlen(event->type));
	}
	buf_add_text(out, ", event id ");
	try_put_text(out, event->id, strlen(event->id));
	buf_add_text(out, event->source.value ? "\n" : ", a tombstone\n");
}

static void say_poison(struct showing *showing, const struct err *why)
{
	struct buf *out = showing->out;

	showing->good = false;
	buf_add_text(out, "  poison: ");
	try_put_text(out, why->text, strlen(why->text));
	buf_addf(out, "\n  the message is kept as poison; %s\n",
		 showing->any ? "the effects above are performed" : "nothing is performed");
}

static void put_effect(struct buf *out, const struct conf_effect *effect)
{
	buf_addf(out, INDENT "effect %s: ", effect->name);
	for (size_t i = 0; i < effect->types.count; i++) {
		buf_add_text(out, i ? ", " : "");
		try_put_text(out, effect->types.items[i], strlen(effect->types.items[i]));
	}
	buf_addf(out, "%s%s\n", effect->types.count ? "" : "any type",
		 effect->tombstone ? ", tombstones too" : "");
}

static void say_unmatched(struct showing *showing, const struct conf *conf)
{
	struct buf *out = showing->out;
	bool any = false;

	showing->good = false;
	for (size_t i = 0; i < conf->effect_count; i++)
		any = any || !strcmp(conf->effects[i].topic, showing->source->topic);
	buf_addf(out, "  unmatched: no effect is for this topic%s\n",
		 any ? " and type; for this topic there are" : "");
	for (size_t i = 0; i < conf->effect_count; i++)
		if (!strcmp(conf->effects[i].topic, showing->source->topic))
			put_effect(out, &conf->effects[i]);
	switch (conf->ledger.unmatched) {
	case CONF_UNMATCHED_PASS:
		buf_add_text(out, "  the message is counted, and passed over\n");
		break;
	case CONF_UNMATCHED_POISON:
		buf_add_text(out, "  the message is kept as poison\n");
		break;
	}
}

bool try_show(struct rules *rules, const struct conf *conf, const struct event_source *source,
	      usec_t now, struct buf *out)
{
	struct showing showing = { .source = source, .out = out, .good = true };
	struct event event;
	struct err why;

	if (!event_decode(source, &why, &event)) {
		say_poison(&showing, &why);
		return false;
	}
	put_event(out, &event);
	switch (rules_apply(rules, &event, now, &why, show_draft, &showing)) {
	case RULES_MATCHED:
		break;
	case RULES_UNMATCHED:
		say_unmatched(&showing, conf);
		break;
	case RULES_POISON:
		say_poison(&showing, &why);
		break;
	}
	return showing.good;
}
