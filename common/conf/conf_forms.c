/* Rates, JSON pointers, predicates, addresses with a place for the key. */
#include "conf/conf_forms.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conf/conf_quoted.h"
#include "mem.h"
#include "utf8.h"

/* --- rates -------------------------------------------------------------------------------------
 */

#define RATE_DIGITS 7
#define RATE_MAX    1000000

static const struct rate_unit {
	const char *name;
	usec_t period;
} rate_units[] = {
	{ "/s", USEC_SEC },
	{ "/m", USEC_MIN },
	{ "/h", USEC_HOUR },
};
#define RATE_UNITS (sizeof(rate_units) / sizeof(rate_units[0]))

static bool rate_period(const char *unit, usec_t *period_r)
{
	for (size_t i = 0; i < RATE_UNITS; i++) {
		if (strcmp(unit, rate_units[i].name) != 0)
			continue;
		*period_r = rate_units[i].period;
		return true;
	}
	return false;
}

bool conf_rate_parse(const char *text, struct err *err, struct conf_rate *rate_r)
{
	size_t digits = strspn(text, "0123456789");
	BUF_AUTO struct buf shown = { 0 };
	usec_t period;
	conf_quoted(&shown, text);
	if (digits == 0 || !rate_period(text + digits, &period))
		return err_set(err,
			       "%s is not a rate; write for example \"25/s\", \"600/m\" or "
			       "\"100/h\"",
			       shown.data);
	int64_t events = digits > RATE_DIGITS ? RATE_MAX + 1 : strtoll(text, NULL, 10);
	if (events < 1 || events > RATE_MAX)
		return err_set(err, "%s: the number is outside of 1 to %d", shown.data, RATE_MAX);
	*rate_r = (struct conf_rate){ .events = events, .period = period };
	return true;
}

void conf_rate_format(const struct conf_rate *rate, struct buf *out)
{
	size_t unit = 0;
	while (unit < RATE_UNITS - 1 && rate_units[unit].period != rate->period)
		unit++;
	buf_addf(out, "%" PRId64 "%s", rate->events, rate_units[unit].name);
}

/* --- JSON pointers ------------------------------------------------------------------------------
 */

bool conf_pointer_check(const char *pointer, struct err *err)
{
	bool valid = !*pointer || *pointer == '/';
	for (const char *c = pointer; *c && valid; c++)
		valid = *c != '~' || c[1] == '0' || c[1] == '1';
	return valid ||
	       err_set(err, "is not a JSON pointer; write for example \"/id\", with ~1 for "
			    "a \"/\" and ~0 for a \"~\" in a name");
}

/* --- predicates ---------------------------------------------------------------------------------
 */

#define EQUAL     " = "
#define DIFFERENT " != "

/* The first of the two: a name in a pointer may hold single blanks and signs. */
static const char *find_operator(const char *text, bool *equal_r)
{
	const char *equal = strstr(text, EQUAL);
	const char *different = strstr(text, DIFFERENT);
	*equal_r = !different || (equal && equal < different);
	return *equal_r ? equal : different;
}

static bool check_parts(const struct conf_predicate *parts, struct err *err)
{
	const char *text = parts->text;
	size_t length = strlen(text);
	if (!*parts->pointer)
		return err_set(err, "begins with no JSON pointer; write for example "
				    "\"/status = ok\"");
	if (!conf_pointer_check(parts->pointer, err))
		return err_prefix(err, "what stands before the operator");
	if (length == 0)
		return err_set(err, "ends behind the operator; the text is missing, as in "
				    "\"/status = ok\"");
	if (*text == ' ' || text[length - 1] == ' ')
		return err_set(err, "there is more than one blank around the text");
	if (!utf8_printable(text, length))
		return err_set(err, "the text holds a control character");
	return true;
}

static struct conf_predicate split(const char *text, const char *at, bool equal)
{
	return (struct conf_predicate){
		.pointer = mem_text_n(text, (size_t)(at - text)),
		.equal = equal,
		.text = mem_text(at + strlen(equal ? EQUAL : DIFFERENT)),
	};
}

bool conf_predicate_parse(const char *text, struct err *err, struct conf_predicate *predicate_r)
{
	bool equal;
	const char *at = find_operator(text, &equal);
	if (!*text) {
		*predicate_r = (struct conf_predicate){ .pointer = mem_text(""),
							.equal = true,
							.text = mem_text("") };
		return true;
	}
	if (!at)
		return err_set(err, "holds no \"" EQUAL "\" and no \"" DIFFERENT
				    "\"; write JSON pointer, operator and text, with a blank on "
				    "both sides of the operator, as in \"/status = ok\"");
	struct conf_predicate parts = split(text, at, equal);
	if (!check_parts(&parts, err)) {
		conf_predicate_done(&parts);
		return false;
	}
	*predicate_r = parts;
	return true;
}

void conf_predicate_format(const struct conf_predicate *predicate, struct buf *out)
{
	if (*predicate->pointer)
		buf_addf(out, "%s%s%s", predicate->pointer, predicate->equal ? EQUAL : DIFFERENT,
			 predicate->text);
}

void conf_predicate_done(struct conf_predicate *predicate)
{
	free(predicate->pointer);
	free(predicate->text);
	*predicate = (struct conf_predicate){ 0 };
}

/* --- lookups ------------------------------------------------------------------------------------
 */

bool conf_lookup_check(const char *lookup, struct err *err)
{
	static const char key[] = "${key}";
	bool found = false;
	if (strncasecmp(lookup, "https://", 8) != 0 && strncasecmp(lookup, "http://", 7) != 0)
		return err_set(err, "must begin with https:// or http://");
	for (const char *c = lookup; *c; c++) {
		bool place = strncmp(c, "${", 2) == 0;
		if (*c <= ' ' || *c >= 0x7f)
			return err_set(err,
				       "character %zu cannot stand in an address; write it "
				       "percent-encoded",
				       (size_t)(c - lookup) + 1);
		if (place && strncmp(c, key, strlen(key)) != 0)
			return err_set(err, "the only place in it is ${key}");
		found = found || place;
	}
	return found || err_set(err, "has no place for the key; write ${key} where it belongs");
}
