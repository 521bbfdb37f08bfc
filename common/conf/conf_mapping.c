/* How a mapped table and the topic of its rows are written. */
#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "mem.h"

#define LEGAL "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* --- the table ---------------------------------------------------------------------------------
 */

/* "..." with "" for a quote; *text goes behind it. */
static bool take_quoted(const char **text, struct err *err, struct buf *part)
{
	const char *from = *text + 1;
	for (;;) {
		size_t plain = strcspn(from, "\"");
		buf_add(part, from, plain);
		from += plain;
		if (!*from)
			return err_set(err, "a \" is not closed");
		if (from[1] != '"')
			break;
		buf_add_char(part, '"');
		from += 2;
	}
	*text = from + 1;
	return true;
}

static bool take_part(const char **text, struct err *err, struct buf *part)
{
	if (**text == '"')
		return take_quoted(text, err, part);
	size_t length = strcspn(*text, ".\"");
	buf_add(part, *text, length);
	*text += length;
	return true;
}

static bool split(const char *text, struct err *err, struct buf *schema, struct buf *table)
{
	if (!take_part(&text, err, schema))
		return false;
	if (*text++ != '.')
		return err_set(err, "has no schema; write SCHEMA.TABLE, as in \"public.events\"");
	if (!take_part(&text, err, table))
		return false;
	if (*text || !schema->length || !table->length)
		return err_set(err, "is not SCHEMA.TABLE; a part with a dot or a quote in it "
				    "stands in quotes, as in \"public.\\\"a.b\\\"\"");
	return true;
}

bool conf_table_split(const char *text, struct err *err, char **schema_r, char **table_r)
{
	BUF_AUTO struct buf schema = { 0 };
	BUF_AUTO struct buf table = { 0 };
	if (!split(text, err, &schema, &table))
		return false;
	*schema_r = buf_take(&schema);
	*table_r = buf_take(&table);
	return true;
}

bool conf_table_is_own(const struct conf_relay *relay)
{
	char *schema, *table;
	if (!conf_table_split(relay->table, NULL, &schema, &table))
		return false;
	bool own = strcmp(schema, "counterfoil") == 0 && strcmp(table, "outbox") == 0;
	free(schema);
	free(table);
	return own;
}

/* --- the topic ---------------------------------------------------------------------------------
 */

static bool take_column(const char **rest, struct err *err, struct conf_piece *piece_r)
{
	const char *name = *rest + 2;
	size_t length = strcspn(name, "}");
	if (name[length] != '}')
		return err_set(err, "\"${\" is not closed by a \"}\"");
	if (length == 0)
		return err_set(err, "\"${}\" names no column");
	*piece_r = (struct conf_piece){ .column = true, .text = name, .length = length };
	*rest = name + length + 1;
	return true;
}

bool conf_topic_piece(const char **rest, struct err *err, struct conf_piece *piece_r)
{
	if (err)
		err->text[0] = '\0';
	if (!**rest)
		return false;
	if (strncmp(*rest, "${", 2) == 0)
		return take_column(rest, err, piece_r);
	size_t length = strspn(*rest, LEGAL);
	if (length == 0)
		return err_set(err,
			       "holds what no topic's name may hold; between columns, written "
			       "${name}, there may be letters, digits, \".\", \"_\" and \"-\"");
	*piece_r = (struct conf_piece){ .text = *rest, .length = length };
	*rest += length;
	return true;
}
