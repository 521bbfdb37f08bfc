/* The configuration as a file again, by the tables of keys. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "conf/conf_forms.h"
#include "conf/conf_keys.h"
#include "conf/conf_places.h"
#include "conf/conf_profiles.h"
#include "conf/conf_read.h"
#include "conf/conf_value.h"
#include "json.h"

#define INDENT         4
#define COMMENT_COLUMN 52
#define NOT_SHOWN      "[redacted]"

struct printer {
	const struct conf *conf;
	struct buf *out;
	size_t line; /* where the present one begins */
	int depth;
};

static const void *at(const void *base, size_t offset)
{
	return (const char *)base + offset;
}

/* --- lines -------------------------------------------------------------------------------------
 */

static void begin_line(struct printer *printer)
{
	printer->line = printer->out->length;
	for (int i = 0; i < printer->depth * INDENT; i++)
		buf_add_char(printer->out, ' ');
}

static void end_line(struct printer *printer)
{
	buf_add_char(printer->out, '\n');
}

static void begin_comment(struct printer *printer)
{
	buf_add_char(printer->out, ' ');
	while (printer->out->length - printer->line < COMMENT_COLUMN)
		buf_add_char(printer->out, ' ');
	buf_add_text(printer->out, "# ");
}

static void put_origin(struct printer *printer, const char *path)
{
	const struct conf_places *places = printer->conf->places;
	const struct conf_place *place = conf_places_find(places, path);
	unsigned line;
	begin_comment(printer);
	if (!place) {
		buf_add_text(printer->out, "default");
	} else if (place->variable) {
		buf_add_text(printer->out, place->variable);
	} else {
		const char *file = conf_text_place(&places->text, place->line, &line);
		json_escape(printer->out, file,
			    strlen(file)); /* a line end would end the comment */
		buf_addf(printer->out, ":%u", line);
	}
	end_line(printer);
}

/* --- values ------------------------------------------------------------------------------------
 */

/* C1 controls, which a terminal would obey, are two bytes: c2 80 to c2 9f. */
static bool is_control(const char *c)
{
	unsigned char byte = (unsigned char)*c, next = (unsigned char)c[1];
	return byte < 0x20 || byte == 0x7f || (byte == 0xc2 && next >= 0x80 && next < 0xa0);
}

static void put_text(struct buf *out, const char *text)
{
	buf_add_char(out, '"');
	for (const char *c = text; *c; c++) {
		if (*c == '"' || *c == '\\')
			buf_addf(out, "\\%c", *c);
		else if (is_control(c))
			buf_addf(out, "\\x%02x", (unsigned)(unsigned char)*c);
		else
			buf_add_char(out, *c);
	}
	buf_add_char(out, '"');
}

static void put_duration(struct buf *out, const struct conf_key *key, usec_t usec)
{
	char text[32];
	put_text(out, usec == USEC_NEVER && key->never ? key->never
						       : usec_format(usec, text, sizeof(text)));
}

static void put_word(struct buf *out, const struct conf_key *key, const void *field)
{
	const struct conf_word *word = key->words;
	int value;
	memcpy(&value, field, sizeof(value));
	while (word->name && word->value != value)
		word++;
	put_text(out, word->name ? word->name : "");
}

static void put_rate(struct buf *out, const struct conf_key *key, const struct conf_rate *rate)
{
	BUF_AUTO struct buf text = { 0 };
	conf_rate_format(rate, &text);
	put_text(out, rate->events || !key->never ? text.data : key->never);
}

static void put_predicate(struct buf *out, const struct conf_predicate *predicate)
{
	BUF_AUTO struct buf text = { 0 };
	conf_predicate_format(predicate, &text);
	put_text(out, buf_text(&text));
}

static void put_start(struct buf *out, const struct conf_ledger *ledger)
{
	char time[32];
	switch (ledger->start) {
	case CONF_START_UNSET:
		put_text(out, "");
		break;
	case CONF_START_EARLIEST:
		put_text(out, "earliest");
		break;
	case CONF_START_LATEST:
		put_text(out, "latest");
		break;
	case CONF_START_TIME:
		put_text(out, usec_rfc3339(ledger->start_time, time, sizeof(time)));
		break;
	}
}

static void put_texts(struct buf *out, const struct conf_texts *texts, bool quoted)
{
	buf_add_char(out, '(');
	for (size_t i = 0; i < texts->count; i++) {
		buf_add_text(out, i ? ", " : "");
		if (quoted)
			put_text(out, texts->items[i]);
		else
			buf_add_text(out, texts->items[i]);
	}
	buf_add_char(out, ')');
}

static void put_value(struct buf *out, const struct conf_key *key, const void *base)
{
	const void *field = at(base, key->offset);
	char size[32];
	switch (key->type) {
	case CONF_BOOL:
		buf_add_text(out, *(const bool *)field ? "true" : "false");
		break;
	case CONF_INT:
		buf_addf(out, "%" PRId64, *(const int64_t *)field);
		break;
	case CONF_TEXT:
		put_text(out, *(char *const *)field);
		break;
	case CONF_DURATION:
		put_duration(out, key, *(const usec_t *)field);
		break;
	case CONF_SIZE:
		put_text(out, conf_value_size(*(const int64_t *)field, size, sizeof(size)));
		break;
	case CONF_WORD:
		put_word(out, key, field);
		break;
	case CONF_START:
		put_start(out, base);
		break;
	case CONF_RATE:
		put_rate(out, key, field);
		break;
	case CONF_PREDICATE:
		put_predicate(out, field);
		break;
	case CONF_TEXTS:
	case CONF_POINTERS:
		put_texts(out, field, true);
		break;
	case CONF_STATUSES:
		put_texts(out, field, false);
		break;
	case CONF_PAIRS:
	case CONF_GROUP:
		break; /* of more than one line */
	}
}

/* --- keys and sections -------------------------------------------------------------------------
 */

static void put_table(struct printer *printer, const struct conf_table *table, const char *path,
		      const void *base);

static void put_pair(struct printer *printer, const struct conf_pair *pair, bool hidden,
		     const char *separator)
{
	begin_line(printer);
	buf_add_char(printer->out, '(');
	put_text(printer->out, pair->name);
	buf_add_text(printer->out, ", ");
	put_text(printer->out, hidden ? NOT_SHOWN : pair->value);
	buf_addf(printer->out, ")%s", separator);
	if (hidden) {
		begin_comment(printer);
		buf_add_text(printer->out, "not shown: by its name it may be a secret");
	}
	end_line(printer);
}

static void put_pairs(struct printer *printer, const struct conf_key *key, const char *path,
		      const struct conf_pairs *pairs)
{
	buf_addf(printer->out, "%s = (%s", key->name, pairs->count ? "" : ");");
	put_origin(printer, path);
	if (!pairs->count)
		return;
	printer->depth++;
	for (size_t i = 0; i < pairs->count; i++)
		put_pair(printer, &pairs->items[i],
			 key->headers && conf_header_is_secret(pairs->items[i].name),
			 i + 1 < pairs->count ? "," : "");
	printer->depth--;
	begin_line(printer);
	buf_add_text(printer->out, ");\n");
}

static void put_group(struct printer *printer, const char *name, const struct conf_table *table,
		      const char *path, const void *base)
{
	buf_addf(printer->out, "%s%s{\n", name, *name ? " = " : "");
	printer->depth++;
	put_table(printer, table, path, base);
	printer->depth--;
	begin_line(printer);
	buf_add_char(printer->out, '}');
}

static void put_key(struct printer *printer, const struct conf_key *key, const char *path,
		    const void *base)
{
	if (key->later)
		return;
	/* a text without a default: to leave it out says something else than "" */
	if (key->type == CONF_TEXT && !key->fallback &&
	    !conf_places_find(printer->conf->places, path))
		return;
	begin_line(printer);
	if (key->type == CONF_PAIRS) {
		put_pairs(printer, key, path, at(base, key->offset));
	} else if (key->type == CONF_GROUP) {
		put_group(printer, key->name, key->group, path, base);
		buf_add_text(printer->out, ";\n");
	} else {
		buf_addf(printer->out, "%s = ", key->name);
		put_value(printer->out, key, base);
		buf_add_char(printer->out, ';');
		put_origin(printer, path);
	}
}

static void put_table(struct printer *printer, const struct conf_table *table, const char *path,
		      const void *base)
{
	char child[CONF_PATH_MAX];
	for (size_t i = 0; i < table->count; i++)
		put_key(printer, &table->keys[i], conf_path(child, path, table->keys[i].name),
			base);
}

/* Shipped profiles stand before the file's own, and are not the file's to name. */
static void put_list(struct printer *printer, const struct conf_section *section)
{
	const void *conf = printer->conf;
	const char *items = *(char *const *)at(conf, section->offset);
	size_t count = *(const size_t *)at(conf, section->count_offset);
	bool profiles = section->offset == offsetof(struct conf, profiles);
	size_t first = profiles ? conf_profiles_shipped() : 0;
	char path[CONF_PATH_MAX];
	buf_addf(printer->out, "%s = (%s", section->name, count > first ? "" : ");");
	put_origin(printer, section->name);
	for (size_t i = first; i < count; i++) {
		printer->depth++;
		begin_line(printer);
		put_group(printer, "", section->table,
			  conf_path_item(path, section->name, i - first),
			  items + i * section->item_size);
		buf_add_text(printer->out, i + 1 < count ? ",\n" : "\n");
		printer->depth--;
	}
	buf_add_text(printer->out, count > first ? ");\n" : "");
}

void conf_print(const struct conf *conf, struct buf *out)
{
	struct printer printer = { .conf = conf, .out = out };
	for (size_t i = 0; i < conf_section_count; i++) {
		const struct conf_section *section = &conf_sections[i];
		if (section->later)
			continue;
		buf_add_text(out, i ? "\n" : "");
		begin_line(&printer);
		if (section->item_size) {
			put_list(&printer, section);
			continue;
		}
		put_group(&printer, section->name, section->table, section->name,
			  at(conf, section->offset));
		buf_add_text(out, ";\n");
	}
}
