/* Compiles templates. Everything that can be known of a template without an event is refused here,
 * when the configuration is read, and not at the first event. */
#include "template.h"

#include <stdlib.h>
#include <string.h>

#include "escape.h"
#include "mem.h"
#include "template_part.h"
#include "utf8.h"

#define KNOWN                                                                                      \
	"${/json/pointer}, ${type}, ${topic}, ${event_id}, ${subject}, ${header:NAME} and "        \
	"${sha256:/a,/b}"

struct compiler {
	struct template_code *template;
	struct json_paths *pointers;
	struct err *err;
	const char *text;
	size_t at; /* of the '$' in hand */
	struct buf literal;
	bool quoted;  /* inside a JSON string */
	bool escaped; /* just behind a backslash in it */
};

static bool fail(const struct compiler *compiler, const char *what)
{
	return err_set(compiler->err, "at character %zu: %s", compiler->at + 1, what);
}

/* --- literals --- */

/* NULL, or why the template's own character may not stand in this context. */
static const char *literal_fault(enum template_context context, unsigned char c)
{
	bool control = c < 0x20 || c == 0x7f;
	bool visible = c > 0x20 && c < 0x7f;

	switch (context) {
	case TEMPLATE_TENANT:
		if (c == ':')
			return "':' divides the tenant from the key; use another character";
		__attribute__((fallthrough));
	case TEMPLATE_KEY:
		if (c == '~')
			return "'~' is kept for the keys of replays; use another character";
		return control ? "a control character cannot stand in a key" : NULL;
	case TEMPLATE_PATH:
		if (c == '?' || c == '#')
			return "'?' and '#' cannot stand in a path; parameters belong in query";
		return !visible || strchr("\"<>\\^`{|}", c)
			       ? "this character must be percent-encoded in a path, as in %20"
			       : NULL;
	case TEMPLATE_FORM:
		return visible ? NULL
			       : "this character must be percent-encoded in a form, as in %20";
	case TEMPLATE_HEADER:
	case TEMPLATE_SECRET:
		return control && c != '\t' ? "a control character cannot stand in a header" : NULL;
	case TEMPLATE_QUERY:
	case TEMPLATE_JSON:
	case TEMPLATE_EMIT:
	case TEMPLATE_TEXT:
		return NULL;
	}
	return NULL;
}

static bool escape_fault(const struct compiler *compiler)
{
	const char *p = compiler->text + compiler->at;

	return compiler->template->context == TEMPLATE_PATH && *p == '%' &&
	       !(p[1] && strchr("0123456789abcdefABCDEF", p[1]) && p[2] &&
		 strchr("0123456789abcdefABCDEF", p[2]));
}

static bool is_json(enum template_context context)
{
	return context == TEMPLATE_JSON || context == TEMPLATE_EMIT;
}

/* Follows the quotes of a JSON template, so that each place knows where it stands. */
static void follow_quotes(struct compiler *compiler, char c)
{
	if (compiler->escaped)
		compiler->escaped = false;
	else if (compiler->quoted && c == '\\')
		compiler->escaped = true;
	else if (c == '"')
		compiler->quoted = !compiler->quoted;
}

static bool literal_add(struct compiler *compiler, char c)
{
	const char *fault = literal_fault(compiler->template->context, (unsigned char)c);

	if (fault)
		return fail(compiler, fault);
	if (escape_fault(compiler))
		return fail(compiler, "'%' must be followed by two hexadecimal digits; write %25 "
				      "for the character itself");
	follow_quotes(compiler, c);
	if (compiler->template->context == TEMPLATE_QUERY)
		escape_url(&compiler->literal, &c, 1);
	else
		buf_add_char(&compiler->literal, c);
	return true;
}

static struct template_part *part_add(struct template_code *template, enum template_source source)
{
	template->parts =
		mem_grow(template->parts, template->part_count + 1, sizeof(*template->parts));
	struct template_part *part = &template->parts[template->part_count++];
	*part = (struct template_part){ .source = source, .first = template->pointer_count };
	return part;
}

static void literal_end(struct compiler *compiler)
{
	if (!compiler->literal.length)
		return;
	struct template_part *part = part_add(compiler->template, SOURCE_LITERAL);
	part->length = compiler->literal.length;
	part->text = buf_take(&compiler->literal);
}

/* --- places --- */

static bool pointer_add(struct compiler *compiler, const char *pointer)
{
	struct template_code *template = compiler->template;
	size_t index;

	if (!json_paths_add(compiler->pointers, pointer, compiler->err, &index))
		return err_prefix(compiler->err, "at character %zu", compiler->at + 1);
	template->pointers = mem_grow(template->pointers, template->pointer_count + 1,
				      sizeof(*template->pointers));
	template->pointers[template->pointer_count++] =
		(struct template_pointer){ mem_text(pointer), index };
	template->parts[template->part_count - 1].count++;
	return true;
}

static bool compile_sha256(struct compiler *compiler, char *list)
{
	part_add(compiler->template, SOURCE_SHA256);
	for (char *next; list; list = next) {
		next = strchr(list, ',');
		if (next)
			*next++ = '\0';
		if (*list != '/')
			return fail(compiler, "sha256 takes JSON pointers, as in ${sha256:/a,/b}");
		if (!pointer_add(compiler, list))
			return false;
	}
	return true;
}

static bool compile_header(struct compiler *compiler, const char *name)
{
	if (!*name || !utf8_printable(name, strlen(name)))
		return fail(compiler, "a header needs its name, as in ${header:tenant}");
	if (compiler->template->context == TEMPLATE_KEY && !strcmp(name, "ce_time"))
		return fail(compiler, "a key made of the clock is another one each time the same "
				      "operation is announced; use what identifies the operation");
	part_add(compiler->template, SOURCE_HEADER)->text = mem_text(name);
	return true;
}

static bool compile_unknown(struct compiler *compiler, const char *name)
{
	static const char *const fickle[] = { "offset", "partition", "now",    "time",
					      "date",   "timestamp", "random", "uuid" };

	for (size_t i = 0; i < sizeof(fickle) / sizeof(fickle[0]); i++)
		if (!strcmp(name, fickle[i]))
			return err_set(compiler->err,
				       "at character %zu: ${%s} does not exist: offsets, the clock "
				       "and chance differ when the same event comes again; known "
				       "are " KNOWN,
				       compiler->at + 1, name);
	if (!strcmp(name, "secret"))
		return fail(compiler, "${secret} exists only in a target's auth");
	if (!strcmp(name, "provider_id"))
		return fail(compiler, "${provider_id} exists only in emit.payload: nobody knows it "
				      "before the answer");
	return err_set(compiler->err, "at character %zu: ${%.80s} is not known; known are " KNOWN,
		       compiler->at + 1, name);
}

static bool compile_name(struct compiler *compiler, char *name)
{
	static const struct {
		const char *name;
		enum template_source source;
	} names[] = {
		{ "type", SOURCE_TYPE },
		{ "topic", SOURCE_TOPIC },
		{ "event_id", SOURCE_EVENT_ID },
		{ "subject", SOURCE_SUBJECT },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(name, names[i].name)) {
			part_add(compiler->template, names[i].source);
			return true;
		}
	}
	if (*name == '/') {
		part_add(compiler->template, SOURCE_POINTER);
		return pointer_add(compiler, name);
	}
	if (!strncmp(name, "header:", strlen("header:")))
		return compile_header(compiler, name + strlen("header:"));
	if (!strncmp(name, "sha256:", strlen("sha256:")))
		return compile_sha256(compiler, name + strlen("sha256:"));
	return compile_unknown(compiler, name);
}

static bool compile_secret(struct compiler *compiler, const char *name)
{
	if (strcmp(name, "secret") != 0)
		return fail(compiler, "auth can use only ${secret}, the first line of secret_file");
	part_add(compiler->template, SOURCE_SECRET);
	return true;
}

/* A default is the template's own text; outside of quotes it is written as JSON. */
static bool fallback_check(struct compiler *compiler, const struct template_part *part)
{
	struct json_paths *none = json_paths_new();
	struct buf storage BUF_AUTO = { 0 };
	enum template_context context = compiler->template->context;
	bool ok = true;

	if (part->source == SOURCE_PROVIDER_ID)
		ok = fail(compiler, "this place takes no default: without an id it is null, and "
				    "inside quotes empty");
	else if (part->source == SOURCE_SHA256 || part->source == SOURCE_SECRET)
		ok = fail(compiler, "this place takes no default");
	else if ((context == TEMPLATE_HEADER || context == TEMPLATE_KEY ||
		  context == TEMPLATE_TENANT) &&
		 !header_value_valid(part->fallback, strlen(part->fallback)))
		ok = fail(compiler, "the default holds a control character");
	else if (is_json(context) && !part->quoted &&
		 !json_read(none, part->fallback, strlen(part->fallback), NULL, &storage, NULL))
		ok = fail(compiler, "outside of quotes a default is JSON: 0, null or \"text\"");
	json_paths_free(none);
	return ok;
}

static bool compile_inside(struct compiler *compiler, char *name)
{
	if (compiler->template->context == TEMPLATE_SECRET)
		return compile_secret(compiler, name);
	if (!*name)
		return fail(compiler, "${} names nothing; write for example ${/order_id}");
	if (compiler->template->context == TEMPLATE_EMIT && !strcmp(name, "provider_id")) {
		part_add(compiler->template, SOURCE_PROVIDER_ID);
		return true;
	}
	return compile_name(compiler, name);
}

/* The place "${...}" of that length. */
static bool compile_place(struct compiler *compiler, const char *place, size_t length)
{
	struct template_code *template = compiler->template;
	char *name = mem_text_n(place + 2, length - 3);
	char *fallback = strchr(name, '|');

	if (fallback)
		*fallback++ = '\0';
	literal_end(compiler);
	size_t parts = template->part_count;
	bool ok = compile_inside(compiler, name);
	if (template->part_count > parts) {
		struct template_part *part = &template->parts[parts];
		part->place = mem_text_n(place, length);
		part->quoted = compiler->quoted;
		part->fallback = mem_text(fallback);
		ok = ok && (!fallback || fallback_check(compiler, part));
	}
	free(name);
	return ok;
}

/* --- the whole --- */

/* What a JSON template gives must be JSON whatever the places hold. */
static bool json_check(const struct compiler *compiler)
{
	struct json_paths *none = json_paths_new();
	struct buf sample BUF_AUTO = { 0 }, storage BUF_AUTO = { 0 };
	struct err why;

	template_sample(compiler->template, &sample);
	bool ok = json_read(none, buf_text(&sample), sample.length, &why, &storage, NULL);
	json_paths_free(none);
	if (!ok)
		err_set(compiler->err, "with its places filled this is no JSON: %s", why.text);
	return ok;
}

/* One character or one place; moves on behind it. */
static bool compile_step(struct compiler *compiler)
{
	const char *p = compiler->text + compiler->at;

	if (*p != '$' || p[1] == '$') {
		if (!literal_add(compiler, *p))
			return false;
		compiler->at += *p == '$' ? 2 : 1;
		return true;
	}
	if (p[1] != '{')
		return fail(compiler,
			    "a single '$'; write $$ for a dollar sign, ${...} for a value");
	const char *end = strchr(p, '}');
	if (!end)
		return fail(compiler, "\"${\" is never closed; add a '}'");
	size_t length = (size_t)(end + 1 - p);
	if (!compile_place(compiler, p, length))
		return false;
	compiler->at += length;
	return true;
}

static bool compile_all(struct compiler *compiler)
{
	size_t length = strlen(compiler->text);

	compiler->at = utf8_span(compiler->text, length);
	if (compiler->at != length)
		return fail(compiler, "not UTF-8");
	for (compiler->at = 0; compiler->at < length;)
		if (!compile_step(compiler))
			return false;
	literal_end(compiler);
	return !is_json(compiler->template->context) || json_check(compiler);
}

bool template_compile(const char *text, enum template_context context, struct json_paths *pointers,
		      struct err *err, struct template_code **template_r)
{
	struct compiler compiler = {
		.template = mem_zero(sizeof(*compiler.template)),
		.pointers = pointers,
		.err = err,
		.text = text,
	};

	compiler.template->context = context;
	bool ok = compile_all(&compiler);
	buf_done(&compiler.literal);
	if (ok)
		*template_r = compiler.template;
	else
		template_free(compiler.template);
	return ok;
}

void template_free(struct template_code *template)
{
	if (!template)
		return;
	for (size_t i = 0; i < template->part_count; i++) {
		free(template->parts[i].text);
		free(template->parts[i].place);
		free(template->parts[i].fallback);
	}
	for (size_t i = 0; i < template->pointer_count; i++)
		free(template->pointers[i].text);
	free(template->parts);
	free(template->pointers);
	free(template);
}

bool template_uses(const struct template_code *template, enum template_source source)
{
	for (size_t i = 0; i < template->part_count; i++)
		if (template->parts[i].source == source)
			return true;
	return false;
}

bool template_has_default(const struct template_code *template)
{
	for (size_t i = 0; i < template->part_count; i++)
		if (template->parts[i].fallback)
			return true;
	return false;
}

void template_sample(const struct template_code *template, struct buf *out)
{
	for (size_t i = 0; i < template->part_count; i++) {
		const struct template_part *part = &template->parts[i];
		bool bare = is_json(template->context) && !part->quoted;
		if (part->source == SOURCE_LITERAL)
			buf_add(out, part->text, part->length);
		else
			buf_add_text(out, bare ? "null" : "x");
	}
}

const char *template_pointer(const struct template_code *template, size_t at, size_t *index_r)
{
	if (at >= template->pointer_count)
		return NULL;
	*index_r = template->pointers[at].index;
	return template->pointers[at].text;
}
