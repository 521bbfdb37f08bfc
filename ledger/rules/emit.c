/* Renders what an effect emits. */
#include "emit.h"

#include <string.h>

#include "utf8.h"
#include "wire.h"

/* message.max.bytes of librdkafka is 1,000,000; the rest is for the provider's id, and for the
 * headers that the relay adds. */
#define EMIT_MAX     (1000000 - 30000)
#define CONTENT_TYPE "application/json"

/* --- the chain --- */

/* What cannot be read is as good as the longest chain: only we write this header. */
static int hops_of(const struct event *event)
{
	const struct event_header *header = event_header_find(&event->source, WIRE_HOPS);
	int hops = 0;

	if (!header)
		return 0;
	if (!header->value || !header->length || header->length > 2)
		return EMIT_HOPS_MAX;
	for (size_t i = 0; i < header->length; i++) {
		if (header->value[i] < '0' || header->value[i] > '9')
			return EMIT_HOPS_MAX;
		hops = hops * 10 + (header->value[i] - '0');
	}
	return hops;
}

static bool check_chain(int hops, struct err *err)
{
	return hops < EMIT_HOPS_MAX ||
	       err_set(err,
		       "its event is the end of a chain of %d, each emitted for the one "
		       "before: the longest that is let go on",
		       EMIT_HOPS_MAX);
}

/* --- the parts --- */

static void add_text(struct buf *json, const char *name, const char *text, size_t length)
{
	buf_addf(json, "\"%s\":\"", name);
	json_escape(json, text, length);
	buf_add_char(json, '"');
}

/* An ordering key is a header and a message key, and text in the database. */
static bool check_key(const char *key, size_t length, struct err *err)
{
	if (length > EVENT_SUBJECT_MAX)
		return err_set(err, "emit.ordering_key: %zu bytes long; at most %d are kept",
			       length, EVENT_SUBJECT_MAX);
	return utf8_valid(key, length) || err_set(err, "emit.ordering_key: is not UTF-8");
}

static bool add_key(const struct rule *rule, const struct template_input *input, struct err *err,
		    struct buf *json)
{
	const struct event *event = input->event;
	struct buf key BUF_AUTO = { 0 };

	if (!rule->code->emit.key)
		buf_add(&key, event->subject, event->subject_length);
	else if (!template_render(rule->code->emit.key, input, err, &key))
		return err_prefix(err, "emit.ordering_key");
	if (!check_key(buf_text(&key), key.length, err))
		return false;
	if (key.length) {
		add_text(json, "key", key.data, key.length);
		buf_add_char(json, ',');
	}
	return true;
}

static void add_headers(const struct event *event, int hops, struct buf *json)
{
	const struct event_header *trace = event_trace(event);

	buf_addf(json,
		 "\"headers\":{\"" WIRE_CONTENT_TYPE "\":\"" CONTENT_TYPE "\",\"" WIRE_HOPS
		 "\":\"%d\"",
		 hops);
	if (trace) {
		buf_add_char(json, ',');
		add_text(json, WIRE_TRACEPARENT, trace->value, trace->length);
	}
	buf_add_text(json, "},");
}

static bool add_payload(const struct rule *rule, const struct template_input *input,
			struct err *err, struct buf *json)
{
	struct buf payload BUF_AUTO = { 0 };

	if (!template_render(rule->code->emit.payload, input, err, &payload))
		return err_prefix(err, "emit.payload");
	if (payload.length > EMIT_MAX)
		return err_set(err, "emit.payload: %zu bytes long; at most %d are emitted",
			       payload.length, EMIT_MAX);
	add_text(json, "payload", payload.data, payload.length);
	return true;
}

static bool render(const struct rule *rule, const struct template_input *input, struct err *err,
		   struct buf *json)
{
	const struct conf_emit *conf = &rule->conf->emit;
	const int hops = hops_of(input->event);

	if (!check_chain(hops, err))
		return false;
	buf_add_char(json, '{');
	add_text(json, "topic", conf->topic, strlen(conf->topic));
	buf_add_char(json, ',');
	add_text(json, "type", conf->type, strlen(conf->type));
	buf_add_char(json, ',');
	if (!add_key(rule, input, err, json))
		return false;
	add_headers(input->event, hops + 1, json);
	if (!add_payload(rule, input, err, json))
		return false;
	buf_add_char(json, '}');
	return true;
}

void emit_make(const struct rule *rule, const struct template_input *input, struct buf *out)
{
	struct err err;

	if (!rule->code->emit.payload || render(rule, input, &err, out))
		return;
	buf_clear(out);
	buf_addf(out, EMIT_FAULT "%s", err.text);
	if (!utf8_valid(out->data, out->length)) /* it was cut inside a character */
		out->data[out->length = utf8_span(out->data, out->length)] = '\0';
}
