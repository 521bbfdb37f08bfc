/* Renders compiled templates. */
#include "template.h"

#include <string.h>

#include "escape.h"
#include "fingerprint.h"
#include "template_part.h"
#include "utf8.h"

static struct json_value text_value(const char *text, size_t length)
{
	return (struct json_value){ text ? JSON_STRING : JSON_MISSING, text ? text : "", length };
}

static struct json_value header_value(const struct event *event, const char *name)
{
	const struct event_header *header = event_header_find(&event->source, name);

	return header ? text_value(header->value, header->length) : text_value(NULL, 0);
}

/* What the event holds for a place other than a digest. */
static struct json_value lookup(const struct template_code *template,
				const struct template_part *part,
				const struct template_input *input)
{
	const struct event *event = input->event;

	switch (part->source) {
	case SOURCE_LITERAL:
		return text_value(part->text, part->length);
	case SOURCE_POINTER:
		return input->values[template->pointers[part->first].index];
	case SOURCE_TYPE:
		return text_value(*event->type ? event->type : NULL, strlen(event->type));
	case SOURCE_TOPIC:
		return text_value(event->source.topic, strlen(event->source.topic));
	case SOURCE_EVENT_ID:
		return text_value(event->id, strlen(event->id));
	case SOURCE_SUBJECT:
		return text_value(event->subject, event->subject_length);
	case SOURCE_HEADER:
		return header_value(event, part->text);
	case SOURCE_SECRET:
		return text_value(input->secret, input->secret ? strlen(input->secret) : 0);
	case SOURCE_SHA256:
	case SOURCE_PROVIDER_ID:
		break;
	}
	return text_value(NULL, 0);
}

static bool nothing(const struct json_value *value)
{
	return value->type == JSON_MISSING || value->type == JSON_NULL;
}

static bool fail(const struct template_part *part, struct err *err, const char *what)
{
	return err_set(err, "%.200s %s", part->place, what);
}

static const char *nothing_text(const struct json_value *value)
{
	return value->type == JSON_NULL ? "is null" : "finds nothing";
}

/* --- one value, where it lands --- */

static bool put_json(const struct template_part *part, const struct json_value *value,
		     struct err *err, struct buf *out)
{
	bool raw = !part->quoted && value->type != JSON_STRING;

	if (!utf8_valid(value->text, value->length))
		return fail(part, err, "is not UTF-8, which JSON must be");
	if (raw) {
		buf_add(out, value->text, value->length);
		return true;
	}
	if (!part->quoted)
		buf_add_char(out, '"');
	json_escape(out, value->text, value->length);
	if (!part->quoted)
		buf_add_char(out, '"');
	return true;
}

static bool put_path(const struct template_part *part, const struct json_value *value,
		     struct err *err, struct buf *out)
{
	if (!value->length)
		return fail(part, err, "is empty: the path would lead somewhere else");
	if (!header_value_valid(value->text, value->length))
		return fail(part, err, "holds a control character, which no path may");
	escape_url(out, value->text, value->length);
	return true;
}

static bool put_header(const struct template_part *part, const struct json_value *value,
		       struct err *err, struct buf *out)
{
	if (breaks_line(value->text, value->length))
		return fail(part, err, "holds CR, LF or NUL, which no header may");
	if (!header_value_valid(value->text, value->length))
		return fail(part, err, "holds a control character, which no header may");
	buf_add(out, value->text, value->length);
	return true;
}

static bool put(const struct template_code *template, const struct template_part *part,
		const struct json_value *value, struct err *err, struct buf *out)
{
	if (value->type == JSON_CONTAINER && template->context != TEMPLATE_JSON &&
	    template->context != TEMPLATE_EMIT)
		return fail(part, err, "is an object or array, which only a JSON body can hold");
	switch (template->context) {
	case TEMPLATE_KEY:
	case TEMPLATE_TENANT:
		escape_key(out, value->text, value->length);
		return true;
	case TEMPLATE_PATH:
		return put_path(part, value, err, out);
	case TEMPLATE_QUERY:
		escape_url(out, value->text, value->length);
		return true;
	case TEMPLATE_FORM:
		escape_form(out, value->text, value->length);
		return true;
	case TEMPLATE_JSON:
	case TEMPLATE_EMIT:
		return put_json(part, value, err, out);
	case TEMPLATE_TEXT:
		buf_add(out, value->text, value->length);
		return true;
	case TEMPLATE_HEADER:
	case TEMPLATE_SECRET:
		return put_header(part, value, err, out);
	}
	return false;
}

/* --- parts --- */

static bool put_fallback(const struct template_code *template, const struct template_part *part,
			 struct err *err, struct buf *out)
{
	struct json_value value = text_value(part->fallback, strlen(part->fallback));

	if ((template->context == TEMPLATE_JSON || template->context == TEMPLATE_EMIT) &&
	    !part->quoted)
		value.type = JSON_CONTAINER; /* it is JSON already */
	if (!value.length)
		return true; /* asked for in so many words, in a path too */
	return put(template, part, &value, err, out);
}

/* The values, each with its length before it: "ab" and "c" are not "a" and "bc". */
static bool put_sha256(const struct template_code *template, const struct template_part *part,
		       const struct template_input *input, struct err *err, struct buf *out)
{
	struct buf bytes BUF_AUTO = { 0 };
	char hex[SHA256_HEX_SIZE];
	uint8_t length[8];

	for (size_t i = part->first; i < part->first + part->count; i++) {
		const struct template_pointer *pointer = &template->pointers[i];
		const struct json_value *value = &input->values[pointer->index];
		if (nothing(value))
			return err_set(err, "%.200s: %.200s %s", part->place, pointer->text,
				       nothing_text(value));
		if (value->type == JSON_CONTAINER)
			return fail(part, err, "takes no object or array: its spelling may change");
		length_bytes(value->length, length);
		buf_add(&bytes, length, sizeof(length));
		buf_add(&bytes, value->text, value->length);
	}
	sha256_hex(buf_text(&bytes), bytes.length, hex);
	struct json_value digest = text_value(hex, strlen(hex));
	return put(template, part, &digest, err, out);
}

static bool put_part(const struct template_code *template, const struct template_part *part,
		     const struct template_input *input, struct err *err, struct buf *out)
{
	if (part->source == SOURCE_SHA256)
		return put_sha256(template, part, input, err, out);
	if (part->source == SOURCE_PROVIDER_ID) {
		buf_add_char(out, part->quoted ? TEMPLATE_ID_QUOTED : TEMPLATE_ID_BARE);
		return true;
	}
	struct json_value value = lookup(template, part, input);
	if (part->source == SOURCE_LITERAL) {
		buf_add(out, value.text, value.length);
		return true;
	}
	if (!nothing(&value))
		return put(template, part, &value, err, out);
	if (part->fallback)
		return put_fallback(template, part, err, out);
	return fail(part, err, nothing_text(&value));
}

bool template_render(const struct template_code *template, const struct template_input *input,
		     struct err *err, struct buf *out)
{
	size_t before = out->length;

	for (size_t i = 0; i < template->part_count; i++) {
		if (put_part(template, &template->parts[i], input, err, out))
			continue;
		out->length = before;
		if (out->data)
			out->data[before] = '\0';
		return false;
	}
	return true;
}

const char *template_line_break(const struct template_code *template,
				const struct template_input *input)
{
	for (size_t i = 0; i < template->part_count; i++) {
		const struct template_part *part = &template->parts[i];
		struct json_value value = lookup(template, part, input);
		if (part->source != SOURCE_LITERAL && breaks_line(value.text, value.length))
			return part->place;
	}
	return NULL;
}
