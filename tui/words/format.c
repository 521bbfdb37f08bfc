/* Figures in words. */
#include "words/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ZONE_SIZE = 8 };

const char *format_age(usec_t age, char *buffer)
{
	if (age == USEC_NEVER) {
		(void)snprintf(buffer, FORMAT_SIZE, "-");
		return buffer;
	}
	int64_t seconds = age > 0 ? age / USEC_SEC : 0;
	int64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
	if (days >= 100)
		(void)snprintf(buffer, FORMAT_SIZE, "%" PRId64 "d", days);
	else if (days)
		(void)snprintf(buffer, FORMAT_SIZE, "%" PRId64 "d %02" PRId64 "h", days,
			       hours % 24);
	else if (hours)
		(void)snprintf(buffer, FORMAT_SIZE, "%" PRId64 "h %02" PRId64 "m", hours,
			       minutes % 60);
	else if (minutes)
		(void)snprintf(buffer, FORMAT_SIZE, "%" PRId64 "m %02" PRId64 "s", minutes,
			       seconds % 60);
	else
		(void)snprintf(buffer, FORMAT_SIZE, "%" PRId64 "s", seconds);
	return buffer;
}

const char *format_took(usec_t took, char *buffer)
{
	if (took == USEC_NEVER || took >= USEC_MIN)
		return format_age(took, buffer);
	if (took < USEC_SEC)
		(void)snprintf(buffer, FORMAT_SIZE, "%" PRId64 " ms",
			       took > 0 ? took / USEC_MS : 0);
	else
		(void)snprintf(buffer, FORMAT_SIZE, took < 10 * USEC_SEC ? "%.2f s" : "%.1f s",
			       (double)took / (double)USEC_SEC);
	return buffer;
}

static struct tm split(usec_t wall, enum conf_zone zone)
{
	struct tm tm = { 0 };
	time_t seconds = (time_t)(wall / USEC_SEC);
	struct tm *done =
		zone == CONF_ZONE_LOCAL ? localtime_r(&seconds, &tm) : gmtime_r(&seconds, &tm);
	if (!done)
		tm = (struct tm){ .tm_mday = 1 };
	return tm;
}

static const char *zone_of(const struct tm *tm, enum conf_zone zone, char *buffer)
{
	if (zone == CONF_ZONE_UTC || !strftime(buffer, ZONE_SIZE, "%Z", tm))
		(void)snprintf(buffer, ZONE_SIZE, "UTC");
	return buffer;
}

static const char *nothing(char *buffer)
{
	(void)snprintf(buffer, FORMAT_SIZE, "-");
	return buffer;
}

const char *format_time(usec_t wall, enum conf_zone zone, char *buffer)
{
	char name[ZONE_SIZE];
	if (wall == USEC_NEVER)
		return nothing(buffer);
	struct tm tm = split(wall, zone);
	size_t length = strftime(buffer, FORMAT_SIZE, "%Y-%m-%d %H:%M:%S ", &tm);
	(void)snprintf(buffer + length, FORMAT_SIZE - length, "%s", zone_of(&tm, zone, name));
	return buffer;
}

const char *format_time_short(usec_t wall, usec_t now, enum conf_zone zone, char *buffer)
{
	if (wall == USEC_NEVER)
		return nothing(buffer);
	struct tm then = split(wall, zone), today = split(now, zone);
	bool this_year = then.tm_year == today.tm_year;
	if (!strftime(buffer, FORMAT_SIZE, this_year ? "%m-%d %H:%M:%S" : "%Y-%m-%d", &then))
		return nothing(buffer);
	return buffer;
}

const char *format_clock(usec_t wall, enum conf_zone zone, char *buffer)
{
	char name[ZONE_SIZE];
	struct tm tm = split(wall, zone);
	(void)snprintf(buffer, FORMAT_SIZE, "%s %02d:%02d:%02d", zone_of(&tm, zone, name),
		       tm.tm_hour, tm.tm_min, tm.tm_sec);
	return buffer;
}

const char *format_count(int64_t count, char *buffer)
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%" PRId64, count < 0 ? 0 : count);
	int at = 0;
	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			buffer[at++] = ',';
		buffer[at++] = digits[i];
	}
	buffer[at] = '\0';
	return buffer;
}

const char *format_about(int64_t count, char *buffer)
{
	if (count < 1000000)
		return format_count(count / 1000 * 1000, buffer);
	(void)snprintf(buffer, FORMAT_SIZE, "%.1f M", (double)count / 1e6);
	return buffer;
}

const char *format_size(int64_t bytes, char *buffer)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
	double size = (double)bytes;
	size_t unit = 0;
	while (size >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		size /= 1024;
		unit++;
	}
	(void)snprintf(buffer, FORMAT_SIZE, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
	return buffer;
}
