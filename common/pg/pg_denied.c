/* What to do when the server denies a right (42501). It names the object, in the language of its
 * messages, and neither schema nor right: both stand in the statement. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "pg/pg_private.h"

#define NAME_SIZE 160

/* Where the statement names the object. */
struct mention {
	const char *begin; /* in the statement, with its schema */
	const char *end;
	char schema[NAME_SIZE];
};

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_'; /* and no other quotes of messages */
}

/* The quotes of a quoted name are not part of it. */
static bool is_quote(char c)
{
	return c == '"';
}

/* The schema before the dot at `dot`. */
static bool read_schema(const char *sql, const char *dot, struct mention *mention)
{
	const char *end = dot, *begin;
	if (end > sql && is_quote(end[-1]))
		end--;
	for (begin = end; begin > sql && is_name(begin[-1]);)
		begin--;
	const size_t length = (size_t)(end - begin);
	if (length == 0 || length >= sizeof(mention->schema))
		return false;
	memcpy(mention->schema, begin, length);
	mention->schema[length] = '\0';
	mention->begin = begin > sql && is_quote(begin[-1]) ? begin - 1 : begin;
	return true;
}

static bool is_behind(const char *sql, const char *at, const char *words)
{
	const size_t length = strlen(words);
	return at >= sql + length && strncmp(at - length, words, length) == 0;
}

/* And not the column of an alias. */
static bool is_object(const char *sql, const struct mention *mention)
{
	static const char *const before[] = { "FROM ", "JOIN ", "INTO ", "UPDATE ", "USING " };
	if (*mention->end == '(' || strcmp(mention->schema, "counterfoil") == 0)
		return true;
	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
		if (is_behind(sql, mention->begin, before[i]))
			return true;
	return false;
}

/* From `from` on; False: it is not named there with a schema. */
static bool find_mention(const char *sql, const char *from, const char *name, size_t length,
			 struct mention *mention_r)
{
	const char *at = from;
	for (; (at = strstr(at, name)); at++) {
		const char *end = at + length, *dot = at;
		if (at > sql && is_quote(at[-1]))
			dot--;
		if (is_quote(*end))
			end++;
		if (dot == sql || dot[-1] != '.' || is_name(*end) ||
		    !read_schema(sql, dot - 1, mention_r))
			continue;
		mention_r->end = end;
		if (is_object(sql, mention_r))
			return true;
	}
	return false;
}

/* --- which rights --- */

enum { DOES_SELECT = 1, DOES_INSERT = 2, DOES_UPDATE = 4, DOES_DELETE = 8 };

static bool begins(const char *at, const char *words)
{
	return strncmp(at, words, strlen(words)) == 0;
}

/* Is a word said from here to the end of the parenthesis, or to the next change of a table? */
static bool is_said(const char *at, const char *word)
{
	int depth = 0;
	for (; *at && depth >= 0; at++) {
		if (depth == 0 && begins(at, word))
			return true;
		if (begins(at, "INSERT INTO ") || begins(at, "DELETE FROM "))
			return false;
		depth += (*at == '(') - (*at == ')');
	}
	return false;
}

/* `table` is where its schema begins. */
static unsigned use_of(const char *sql, const char *table, const char *end)
{
	if (is_behind(sql, table, "INSERT INTO ")) {
		const bool reads = is_said(end, "RETURNING") || is_said(end, "ON CONFLICT (");
		const bool changes = is_said(end, "DO UPDATE");
		return DOES_INSERT | (reads || changes ? DOES_SELECT : 0) |
		       (changes ? DOES_UPDATE : 0);
	}
	if (is_behind(sql, table, "DELETE FROM "))
		return DOES_DELETE | DOES_SELECT;
	if (is_behind(sql, table, "UPDATE ") || is_said(end, "FOR UPDATE") ||
	    is_said(end, "FOR SHARE") || is_said(end, "FOR KEY SHARE") ||
	    is_said(end, "FOR NO KEY UPDATE"))
		return DOES_UPDATE | DOES_SELECT;
	return DOES_SELECT;
}

/* All that the statement does with the table: which of it was denied is not said. */
static unsigned uses_of(const char *sql, const char *name, size_t length)
{
	struct mention mention;
	unsigned uses = 0;
	const char *from = sql;
	while (find_mention(sql, from, name, length, &mention)) {
		uses |= use_of(sql, mention.begin, mention.end);
		from = mention.end;
	}
	return uses;
}

static void name_uses(unsigned uses, char *text, size_t size)
{
	(void)snprintf(text, size, "%s%s%s%s", uses & DOES_SELECT ? ", SELECT" : "",
		       uses & DOES_INSERT ? ", INSERT" : "", uses & DOES_UPDATE ? ", UPDATE" : "",
		       uses & DOES_DELETE ? ", DELETE" : "");
}

/* --- the remedy --- */

static bool is_schema(const char *sql, const char *name, size_t length)
{
	for (const char *at = sql; (at = strstr(at, name)); at++) {
		const char *end = at + length + (is_quote(at[length]) ? 1 : 0);
		if (*end == '.' && (at == sql || !is_name(at[-1])))
			return true;
	}
	return false;
}

static bool name_grant(const char *sql, const char *name, char *grant, size_t size)
{
	struct mention mention;
	const size_t length = strlen(name);
	char uses[64];
	if (!find_mention(sql, sql, name, length, &mention)) {
		(void)snprintf(grant, size, "USAGE ON SCHEMA %s", name);
		return is_schema(sql, name, length);
	}
	if (*mention.end == '(') {
		(void)snprintf(grant, size, "EXECUTE ON FUNCTION %s.%s", mention.schema, name);
	} else if (is_behind(sql, mention.begin, "nextval('")) {
		(void)snprintf(grant, size, "USAGE ON SEQUENCE %s.%s", mention.schema, name);
	} else {
		name_uses(uses_of(sql, name, length), uses, sizeof(uses));
		(void)snprintf(grant, size, "%s ON %s.%s", uses + 2, mention.schema, name);
	}
	return true;
}

/* The last word of the text before `end`. */
static const char *last_word(const char *text, const char *end, char *word, size_t size)
{
	const char *begin;
	while (end > text && !is_name(end[-1]))
		end--;
	for (begin = end; begin > text && is_name(begin[-1]);)
		begin--;
	(void)snprintf(word, size, "%.*s", (int)(end - begin), begin);
	return begin;
}

bool pg_denied_remedy(const char *text, const char *sql, const char *role, char *remedy,
		      size_t size)
{
	char word[NAME_SIZE], grant[3 * NAME_SIZE];
	const char *at = text + strlen(text);
	if (strstr(sql, "CREATE ")) /* migrating is for another role */
		return false;
	while (at > text) {
		at = last_word(text, at, word, sizeof(word));
		if (!*word || !name_grant(sql, word, grant, sizeof(grant)))
			continue;
		(void)snprintf(remedy, size, "GRANT %s TO \"%s\"", grant, role);
		return true;
	}
	return false;
}
