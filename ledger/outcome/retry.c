/* Backoff and Retry-After. Dates are read by hand: strptime() depends on the locale, and timegm()
 * accepts days that do not exist. */
#include "retry.h"

#include <string.h>

/* --- backoff -------------------------------------------------------------------------------- */

static usec_t exponential(const struct conf_retry *retry, int32_t attempts)
{
	const int32_t doublings = attempts > 1 ? attempts - 1 : 0;
	if (doublings > 62 || retry->first > retry->max >> doublings)
		return retry->max;
	return retry->first << doublings;
}

usec_t retry_delay(const struct conf_retry *retry, int32_t attempts, uint64_t random)
{
	switch (retry->strategy) {
	case CONF_RETRY_NONE:
		return 0;
	case CONF_RETRY_FIXED:
		return retry->first;
	case CONF_RETRY_EXPONENTIAL:
		return (usec_t)(random % ((uint64_t)exponential(retry, attempts) + 1));
	}
	return 0;
}

/* --- Retry-After ---------------------------------------------------------------------------- */

/* What is left to read of a header's value. Each taker moves on only when it has found its part. */
struct cursor {
	const char *at;
};

struct civil {
	int year, month, day; /* month from 1 */
	int hour, minute, second;
};

static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
				      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
static const char *const weekdays[] = { "Monday", "Tuesday",  "Wednesday", "Thursday",
					"Friday", "Saturday", "Sunday" };
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool take(struct cursor *cursor, const char *text)
{
	const size_t length = strlen(text);
	if (strncmp(cursor->at, text, length) != 0)
		return false;
	cursor->at += length;
	return true;
}

static bool take_number(struct cursor *cursor, int digits, int *number_r)
{
	int number = 0;
	for (int i = 0; i < digits; i++) {
		const char c = cursor->at[i];
		if (c < '0' || c > '9')
			return false;
		number = number * 10 + (c - '0');
	}
	cursor->at += digits;
	*number_r = number;
	return true;
}

static bool take_month(struct cursor *cursor, int *month_r)
{
	for (size_t i = 0; i < COUNT(months); i++) {
		if (!take(cursor, months[i]))
			continue;
		*month_r = (int)i + 1;
		return true;
	}
	return false;
}

/* The whole name, or its first three letters. */
static bool take_weekday(struct cursor *cursor)
{
	for (size_t i = 0; i < COUNT(weekdays); i++) {
		if (take(cursor, weekdays[i]))
			return true;
	}
	for (size_t i = 0; i < COUNT(weekdays); i++) {
		if (strncmp(cursor->at, weekdays[i], 3) != 0)
			continue;
		cursor->at += 3;
		return true;
	}
	return false;
}

static bool take_clock(struct cursor *cursor, struct civil *civil)
{
	return take_number(cursor, 2, &civil->hour) && take(cursor, ":") &&
	       take_number(cursor, 2, &civil->minute) && take(cursor, ":") &&
	       take_number(cursor, 2, &civil->second);
}

/* Sun, 06 Nov 1994 08:49:37 GMT */
static bool take_fixdate(struct cursor cursor, struct civil *civil)
{
	return take_number(&cursor, 2, &civil->day) && take(&cursor, " ") &&
	       take_month(&cursor, &civil->month) && take(&cursor, " ") &&
	       take_number(&cursor, 4, &civil->year) && take(&cursor, " ") &&
	       take_clock(&cursor, civil) && take(&cursor, " GMT") && !*cursor.at;
}

/* Sunday, 06-Nov-94 08:49:37 GMT. The century is left open. */
static bool take_rfc850(struct cursor cursor, struct civil *civil)
{
	return take_number(&cursor, 2, &civil->day) && take(&cursor, "-") &&
	       take_month(&cursor, &civil->month) && take(&cursor, "-") &&
	       take_number(&cursor, 2, &civil->year) && take(&cursor, " ") &&
	       take_clock(&cursor, civil) && take(&cursor, " GMT") && !*cursor.at;
}

/* Sun Nov  6 08:49:37 1994 */
static bool take_asctime(struct cursor cursor, struct civil *civil)
{
	return take_month(&cursor, &civil->month) && take(&cursor, " ") &&
	       (take(&cursor, " ") ? take_number(&cursor, 1, &civil->day)
				   : take_number(&cursor, 2, &civil->day)) &&
	       take(&cursor, " ") && take_clock(&cursor, civil) && take(&cursor, " ") &&
	       take_number(&cursor, 4, &civil->year) && !*cursor.at;
}

static bool leap(int year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static bool exists(const struct civil *civil)
{
	static const int lengths[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	const int days = lengths[civil->month - 1] + (civil->month == 2 && leap(civil->year));
	return civil->day >= 1 && civil->day <= days && civil->hour <= 23 && civil->minute <= 59 &&
	       civil->second <= 60;
}

/* Days since 1970 in the Gregorian calendar; the year is taken to begin in March, so that the leap
 * day is its last. */
static int64_t days_since_1970(const struct civil *civil)
{
	const int64_t year = civil->year - (civil->month <= 2);
	const int64_t month = (civil->month + 9) % 12;
	const int64_t day = (153 * month + 2) / 5 + civil->day - 1;
	return year * 365 + year / 4 - year / 100 + year / 400 + day - 719468;
}

static usec_t to_wall(const struct civil *civil)
{
	const int64_t clock = civil->hour * 3600 + civil->minute * 60 + civil->second;
	return (days_since_1970(civil) * 86400 + clock) * USEC_SEC;
}

/* A year of two digits that seems more than 50 years ahead is of the past century. */
static void settle_century(struct civil *civil, usec_t now_wall)
{
	const int now_year = (int)(1970 + now_wall / (USEC_DAY * 365));
	civil->year += now_year / 100 * 100;
	if (civil->year > now_year + 50)
		civil->year -= 100;
}

static bool parse_date(const char *text, usec_t now_wall, usec_t *wall_r)
{
	struct cursor cursor = { .at = text };
	struct civil civil = { 0 };
	if (!take_weekday(&cursor))
		return false;
	if (take(&cursor, ", ")) {
		if (!take_fixdate(cursor, &civil)) {
			if (!take_rfc850(cursor, &civil))
				return false;
			settle_century(&civil, now_wall);
		}
	} else if (!take(&cursor, " ") || !take_asctime(cursor, &civil)) {
		return false;
	}
	if (!exists(&civil))
		return false;
	*wall_r = to_wall(&civil);
	return true;
}

static bool parse_seconds(const char *text, usec_t *delay_r)
{
	usec_t seconds = 0;
	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		if (seconds <= RETRY_AFTER_MAX / USEC_SEC)
			seconds = seconds * 10 + (*text - '0');
	}
	*delay_r = seconds * USEC_SEC;
	return true;
}

usec_t retry_after_parse(const char *value, const char *date, usec_t now_wall)
{
	usec_t delay, until, base;
	if (!value)
		return 0;
	if (!parse_seconds(value, &delay)) {
		if (!parse_date(value, now_wall, &until))
			return 0;
		if (!date || !parse_date(date, now_wall, &base))
			base = now_wall;
		delay = until - base;
	}
	if (delay < 0)
		return 0;
	return delay < RETRY_AFTER_MAX ? delay : RETRY_AFTER_MAX;
}
