/* Moments as events write them. */
#include "moment.h"

#include <string.h>
#include <time.h>

#define SECONDS_MAX      ((int64_t)100000000000) /* the year 5138; in milliseconds, 1973 */
#define MILLISECONDS_MAX (SECONDS_MAX * 1000)

/* --- RFC 3339 --- */

struct scan {
	const char *text;
	const char *end;
};

static bool take(struct scan *scan, char c)
{
	if (scan->text == scan->end || *scan->text != c)
		return false;
	scan->text++;
	return true;
}

/* Exactly `digits` digits, as a number of at most `max`. */
static bool take_number(struct scan *scan, int digits, int max, int *number_r)
{
	int number = 0;

	for (int i = 0; i < digits; i++) {
		if (scan->text == scan->end || *scan->text < '0' || *scan->text > '9')
			return false;
		number = number * 10 + (*scan->text++ - '0');
	}
	if (number > max)
		return false;
	*number_r = number;
	return true;
}

/* ".123456789": what is finer than a microsecond is cut. */
static bool take_fraction(struct scan *scan, usec_t *usec_r)
{
	usec_t unit = USEC_SEC, usec = 0;
	const char *begin = scan->text;

	for (; scan->text < scan->end && *scan->text >= '0' && *scan->text <= '9'; scan->text++) {
		unit /= 10;
		usec += unit * (*scan->text - '0');
	}
	*usec_r = usec;
	return scan->text > begin;
}

static bool take_zone(struct scan *scan, usec_t *offset_r)
{
	int hours, minutes;

	if (take(scan, 'Z') || take(scan, 'z')) {
		*offset_r = 0;
		return true;
	}
	bool west = take(scan, '-');
	if (!west && !take(scan, '+'))
		return false;
	if (!take_number(scan, 2, 23, &hours) || !take(scan, ':') ||
	    !take_number(scan, 2, 59, &minutes))
		return false;
	*offset_r = (hours * USEC_HOUR + minutes * USEC_MIN) * (west ? -1 : 1);
	return true;
}

static bool take_date(struct scan *scan, struct tm *tm)
{
	if (!take_number(scan, 4, 9999, &tm->tm_year) || !take(scan, '-') ||
	    !take_number(scan, 2, 12, &tm->tm_mon) || !take(scan, '-') ||
	    !take_number(scan, 2, 31, &tm->tm_mday))
		return false;
	tm->tm_year -= 1900;
	tm->tm_mon -= 1;
	return tm->tm_mon >= 0 && tm->tm_mday >= 1;
}

static bool take_clock(struct scan *scan, struct tm *tm)
{
	return take_number(scan, 2, 23, &tm->tm_hour) && take(scan, ':') &&
	       take_number(scan, 2, 59, &tm->tm_min) && take(scan, ':') &&
	       take_number(scan, 2, 60, &tm->tm_sec);
}

bool moment_parse(const char *text, size_t length, usec_t *wall_r)
{
	struct scan scan = { text, text + length };
	struct tm tm = { 0 };
	usec_t fraction = 0, offset;

	if (!take_date(&scan, &tm) || (!take(&scan, 'T') && !take(&scan, 't')) ||
	    !take_clock(&scan, &tm))
		return false;
	if (take(&scan, '.') && !take_fraction(&scan, &fraction))
		return false;
	if (!take_zone(&scan, &offset) || scan.text != scan.end)
		return false;
	int day = tm.tm_mday;
	usec_t seconds = tm.tm_sec; /* a leap second is none of the calendar's business */
	tm.tm_sec = 0;
	usec_t minute = (usec_t)timegm(&tm) * USEC_SEC;
	if (tm.tm_mday != day) /* 31 April */
		return false;
	*wall_r = minute + seconds * USEC_SEC + fraction - offset;
	return true;
}

/* --- seconds or milliseconds since 1970 --- */

static bool take_count(const char *text, size_t length, usec_t *wall_r)
{
	int64_t count = 0;

	if (length == 0 || strspn(text, "0123456789") != length)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (count >= MILLISECONDS_MAX)
			return false;
		count = count * 10 + (text[i] - '0');
	}
	if (count >= MILLISECONDS_MAX)
		return false;
	*wall_r = count < SECONDS_MAX ? count * USEC_SEC : count * USEC_MS;
	return true;
}

bool moment_read(const char *text, size_t length, usec_t *wall_r)
{
	return take_count(text, length, wall_r) || moment_parse(text, length, wall_r);
}
