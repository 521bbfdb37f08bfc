/* Time in microseconds: clocks, durations and RFC 3339. */
#include "usec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct unit {
	const char *name;
	usec_t usec;
} units[] = {
	/* longest first: usec_format() takes the first that divides */
	{ "y", 365 * USEC_DAY }, { "d", USEC_DAY }, { "h", USEC_HOUR }, { "m", USEC_MIN },
	{ "s", USEC_SEC },       { "ms", USEC_MS }, { "us", 1 },
};

static usec_t clock_read(clockid_t clock)
{
	struct timespec time;
	if (clock_gettime(clock, &time) != 0)
		abort();
	return (usec_t)time.tv_sec * USEC_SEC + time.tv_nsec / 1000;
}

usec_t usec_boot(void)
{
	return clock_read(CLOCK_BOOTTIME);
}

usec_t usec_wall(void)
{
	return clock_read(CLOCK_REALTIME);
}

bool usec_parse(const char *text, struct err *err, usec_t *usec_r)
{
	char *end;
	errno = 0;
	long long number = text[0] >= '0' && text[0] <= '9' ? strtoll(text, &end, 10) : -1;
	if (number < 0 || errno)
		return err_set(err, "\"%.40s\" is not a duration; write for example \"30s\"", text);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].name) != 0)
			continue;
		if (number > 100 * 365 * USEC_DAY / units[i].usec)
			return err_set(err, "\"%.40s\" is longer than 100 years", text);
		*usec_r = number * units[i].usec;
		return true;
	}
	return err_set(
		err, "\"%.40s\" is not a duration; a number is followed by us, ms, s, m, h, d or y",
		text);
}

const char *usec_format(usec_t usec, char *buffer, size_t size)
{
	const struct unit *unit = units;
	if (usec == 0)
		unit = &units[4];
	else
		while (usec % unit->usec != 0)
			unit++;
	(void)snprintf(buffer, size, "%" PRId64 "%s", usec / unit->usec, unit->name);
	return buffer;
}

const char *usec_rfc3339(usec_t wall, char *buffer, size_t size)
{
	usec_t fraction = wall % USEC_SEC;
	if (fraction < 0)
		fraction += USEC_SEC;
	time_t seconds = (time_t)((wall - fraction) / USEC_SEC);
	struct tm tm;
	if (!gmtime_r(&seconds, &tm))
		memset(&tm, 0, sizeof(tm));
	(void)snprintf(buffer, size, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", tm.tm_year + 1900,
		       tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)fraction);
	return buffer;
}
