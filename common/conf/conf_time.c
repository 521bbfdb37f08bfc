/* RFC 3339, section 5.6. A leap second is refused: no clock of ours could show it; and so is what
 * is not of the years 1970 to 9999 in UTC, for it could not be written again. */
#include "conf/conf_time.h"

#include <string.h>
#include <time.h>

#define TIME_END (253402300800 * USEC_SEC) /* the year 10000 */

/* Exactly `digits` digits, within the bounds; moves the text on. */
static bool number(const char **text, int digits, int low, int high, int *number_r)
{
	int value = 0;
	for (int i = 0; i < digits; i++) {
		char c = (*text)[i];
		if (c < '0' || c > '9')
			return false;
		value = value * 10 + (c - '0');
	}
	*text += digits;
	*number_r = value;
	return value >= low && value <= high;
}

static bool skip(const char **text, const char *any)
{
	if (!**text || !strchr(any, **text))
		return false;
	(*text)++;
	return true;
}

static bool fraction(const char **text, usec_t *usec_r)
{
	usec_t unit = USEC_SEC;
	usec_t value = 0;
	const char *start = *text;
	for (; **text >= '0' && **text <= '9'; (*text)++) {
		unit /= 10;
		value += (**text - '0') * unit; /* below a microsecond: nothing */
	}
	*usec_r = value;
	return *text > start;
}

static bool zone(const char **text, usec_t *east_r)
{
	int hours, minutes;
	bool west = **text == '-';
	*east_r = 0;
	if (skip(text, "Zz"))
		return true;
	if (!skip(text, "+-") || !number(text, 2, 0, 23, &hours) || !skip(text, ":") ||
	    !number(text, 2, 0, 59, &minutes))
		return false;
	*east_r = (west ? -1 : 1) * (hours * USEC_HOUR + minutes * USEC_MIN);
	return true;
}

bool conf_time_parse(const char *text, usec_t *wall_r)
{
	struct tm tm = { 0 };
	usec_t part = 0;
	usec_t east;
	if (!number(&text, 4, 1970, 9999, &tm.tm_year) || !skip(&text, "-") ||
	    !number(&text, 2, 1, 12, &tm.tm_mon) || !skip(&text, "-") ||
	    !number(&text, 2, 1, 31, &tm.tm_mday) || !skip(&text, "Tt ") ||
	    !number(&text, 2, 0, 23, &tm.tm_hour) || !skip(&text, ":") ||
	    !number(&text, 2, 0, 59, &tm.tm_min) || !skip(&text, ":") ||
	    !number(&text, 2, 0, 59, &tm.tm_sec))
		return false;
	if (skip(&text, ".") && !fraction(&text, &part))
		return false;
	if (!zone(&text, &east) || *text)
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	int day = tm.tm_mday;
	time_t seconds = timegm(&tm);
	if (tm.tm_mday != day)
		return false; /* the 30th of February became a day of March */
	usec_t wall = (usec_t)seconds * USEC_SEC + part - east;
	if (wall < 0 || wall >= TIME_END)
		return false;
	*wall_r = wall;
	return true;
}
