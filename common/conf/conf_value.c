/* The typed wrapper around libconfig's settings. libconfig's own getters convert and truncate in
 * silence, and a wrong type looks to them like a missing key; so the type is looked at first. */
#include "conf/conf_value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "conf/conf_forms.h"
#include "conf/conf_quoted.h"
#include "conf/conf_time.h"
#include "mem.h"
#include "utf8.h"

static const struct size_unit {
	const char *name;
	int64_t bytes;
} size_units[] = {
	{ "GiB", (int64_t)1 << 30 },
	{ "MiB", (int64_t)1 << 20 },
	{ "KiB", (int64_t)1 << 10 },
	{ "B", 1 },
};
#define SIZE_UNITS (sizeof(size_units) / sizeof(size_units[0]))

static void *field(const struct conf_key *key, void *base)
{
	return (char *)base + key->offset;
}

static bool check_utf8(const char *text, struct err *err)
{
	size_t length = strlen(text);
	size_t span = utf8_span(text, length);
	if (span < length)
		return err_set(err, "byte %zu of the text is not UTF-8", span + 1);
	return true;
}

static void words(struct buf *out, const struct conf_key *key)
{
	for (const struct conf_word *word = key->words; word->name; word++)
		buf_addf(out, "%s\"%s\"", word == key->words ? "" : ", ", word->name);
}

static bool find_word(const struct conf_key *key, const char *text, struct err *err, int *value_r)
{
	for (const struct conf_word *word = key->words; word->name; word++) {
		if (strcmp(word->name, text) == 0) {
			*value_r = word->value;
			return true;
		}
	}
	BUF_AUTO struct buf shown = { 0 };
	BUF_AUTO struct buf known = { 0 };
	words(&known, key);
	return err_set(err, "%s is not one of %s", conf_quoted(&shown, text), buf_text(&known));
}

static bool set_word(const struct conf_key *key, const char *text, struct err *err, void *base)
{
	int value = 0;
	if (!find_word(key, text, err, &value))
		return false;
	memcpy(field(key, base), &value, sizeof(value));
	return true;
}

static bool set_text(const struct conf_key *key, const char *text, struct err *err, void *base)
{
	char **slot = field(key, base);
	int ignored;
	size_t length = strlen(text);
	if (!check_utf8(text, err) || (key->words && !find_word(key, text, err, &ignored)))
		return false;
	if (key->low > 0 && length < (size_t)key->low)
		return err_set(err, "must not be empty");
	if (key->high > 0 && length > (size_t)key->high)
		return err_set(err, "is longer than %" PRId64 " bytes", key->high);
	free(*slot);
	*slot = mem_text(text);
	return true;
}

static bool set_bool(const struct conf_key *key, const char *text, struct err *err, void *base)
{
	bool yes = strcmp(text, "true") == 0;
	if (!yes && strcmp(text, "false") != 0) {
		BUF_AUTO struct buf shown = { 0 };
		return err_set(err, "%s is not true or false", conf_quoted(&shown, text));
	}
	*(bool *)field(key, base) = yes;
	return true;
}

static bool set_int(const struct conf_key *key, int64_t number, struct err *err, void *base)
{
	if (number < key->low || number > key->high)
		return err_set(err, "%" PRId64 " is outside of %" PRId64 " to %" PRId64, number,
			       key->low, key->high);
	*(int64_t *)field(key, base) = number;
	return true;
}

static bool parse_int(const struct conf_key *key, const char *text, struct err *err, void *base)
{
	char *end;
	errno = 0;
	long long number = strtoll(text, &end, 10);
	if (errno || *end || !strchr("-0123456789", text[0]) || end == text) {
		BUF_AUTO struct buf shown = { 0 };
		return err_set(err, "%s is not a whole number", conf_quoted(&shown, text));
	}
	return set_int(key, number, err, base);
}

static bool set_duration(const struct conf_key *key, const char *text, struct err *err, void *base)
{
	usec_t *slot = field(key, base);
	char low[32], high[32];
	usec_t usec;
	if (key->never && strcmp(text, key->never) == 0) {
		*slot = USEC_NEVER;
		return true;
	}
	if (!usec_parse(text, NULL, &usec)) {
		BUF_AUTO struct buf shown = { 0 };
		conf_quoted(&shown, text);
		return key->never ? err_set(err,
					    "%s is not a duration; write for example \"30s\", or "
					    "\"%s\"",
					    shown.data, key->never)
				  : err_set(err, "%s is not a duration; write for example \"30s\"",
					    shown.data);
	}
	if (usec < key->low || usec > key->high)
		return err_set(err, "\"%s\" is outside of \"%s\" to \"%s\"", text,
			       usec_format(key->low, low, sizeof(low)),
			       usec_format(key->high, high, sizeof(high)));
	*slot = usec;
	return true;
}

static bool parse_size(const char *text, int64_t *bytes_r)
{
	char *end;
	errno = 0;
	long long number = text[0] >= '0' && text[0] <= '9' ? strtoll(text, &end, 10) : -1;
	if (number < 0 || errno)
		return false;
	for (size_t i = 0; i < SIZE_UNITS; i++) {
		if (strcmp(end, size_units[i].name) != 0)
			continue;
		if (number > INT64_MAX / size_units[i].bytes)
			return false;
		*bytes_r = number * size_units[i].bytes;
		return true;
	}
	return false;
}

const char *conf_value_size(int64_t bytes, char *buffer, size_t size)
{
	size_t unit = 0;
	while (bytes == 0 ? unit < SIZE_UNITS - 1 : bytes % size_units[unit].bytes != 0)
		unit++;
	(void)snprintf(buffer, size, "%" PRId64 "%s", bytes / size_units[unit].bytes,
		       size_units[unit].name);
	return buffer;
}

static bool set_size(const struct conf_key *key, const char *text, struct err *err, void *base)
{
	int64_t bytes;
	char low[32], high[32];
	BUF_AUTO struct buf shown = { 0 };
	if (!parse_size(text, &bytes))
		return err_set(err,
			       "%s is not a size; write for example \"16MiB\" (B, KiB, MiB, GiB)",
			       conf_quoted(&shown, text));
	if (bytes < key->low || bytes > key->high)
		return err_set(err, "%s is outside of \"%s\" to \"%s\"", conf_quoted(&shown, text),
			       conf_value_size(key->low, low, sizeof(low)),
			       conf_value_size(key->high, high, sizeof(high)));
	*(int64_t *)field(key, base) = bytes;
	return true;
}

static bool set_start(const char *text, struct err *err, struct conf_ledger *ledger)
{
	usec_t time = 0;
	if (!*text) {
		ledger->start = CONF_START_UNSET;
	} else if (strcmp(text, "earliest") == 0) {
		ledger->start = CONF_START_EARLIEST;
	} else if (strcmp(text, "latest") == 0) {
		ledger->start = CONF_START_LATEST;
	} else if (conf_time_parse(text, &time)) {
		ledger->start = CONF_START_TIME;
	} else {
		BUF_AUTO struct buf shown = { 0 };
		return err_set(err,
			       "%s is not \"earliest\", \"latest\" or a time such as "
			       "\"2026-01-31T00:00:00Z\"",
			       conf_quoted(&shown, text));
	}
	ledger->start_time = time;
	return true;
}

static bool set_rate(const struct conf_key *key, const char *text, struct err *err, void *base)
{
	struct conf_rate *slot = field(key, base);
	if (key->never && strcmp(text, key->never) == 0) {
		*slot = (struct conf_rate){ 0 };
		return true;
	}
	return conf_rate_parse(text, err, slot);
}

static bool set_predicate(const struct conf_key *key, const char *text, struct err *err, void *base)
{
	struct conf_predicate *slot = field(key, base);
	struct conf_predicate predicate;
	if (!check_utf8(text, err) || !conf_predicate_parse(text, err, &predicate))
		return false;
	conf_predicate_done(slot);
	*slot = predicate;
	return true;
}

bool conf_value_scalar(enum conf_type type)
{
	return type != CONF_PAIRS && type != CONF_TEXTS && type != CONF_STATUSES &&
	       type != CONF_POINTERS && type != CONF_GROUP;
}

bool conf_value_parse(const struct conf_key *key, const char *text, struct err *err, void *base)
{
	switch (key->type) {
	case CONF_BOOL:
		return set_bool(key, text, err, base);
	case CONF_INT:
		return parse_int(key, text, err, base);
	case CONF_TEXT:
		return set_text(key, text, err, base);
	case CONF_DURATION:
		return set_duration(key, text, err, base);
	case CONF_SIZE:
		return set_size(key, text, err, base);
	case CONF_WORD:
		return set_word(key, text, err, base);
	case CONF_START:
		return set_start(text, err, base);
	case CONF_RATE:
		return set_rate(key, text, err, base);
	case CONF_PREDICATE:
		return set_predicate(key, text, err, base);
	case CONF_PAIRS:
	case CONF_TEXTS:
	case CONF_STATUSES:
	case CONF_POINTERS:
	case CONF_GROUP:
		break;
	}
	return err_set(err, "cannot be given as text");
}

static bool whole(const config_setting_t *setting)
{
	int type = config_setting_type(setting);
	return type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64;
}

bool conf_value_read(const struct conf_key *key, const config_setting_t *setting, struct err *err,
		     void *base)
{
	if (key->type == CONF_BOOL) {
		if (config_setting_type(setting) != CONFIG_TYPE_BOOL)
			return conf_value_mismatch(key, setting, err);
		*(bool *)field(key, base) = config_setting_get_bool(setting);
		return true;
	}
	if (key->type == CONF_INT) {
		if (!whole(setting))
			return conf_value_mismatch(key, setting, err);
		return set_int(key, config_setting_get_int64(setting), err, base);
	}
	if (config_setting_type(setting) != CONFIG_TYPE_STRING)
		return conf_value_mismatch(key, setting, err);
	return conf_value_parse(key, config_setting_get_string(setting), err, base);
}

bool conf_value_text(const config_setting_t *setting, struct err *err, const char **text_r)
{
	if (config_setting_type(setting) != CONFIG_TYPE_STRING)
		return err_set(err, "is not a text; write it in quotes");
	const char *text = config_setting_get_string(setting);
	if (!check_utf8(text, err))
		return false;
	*text_r = text;
	return true;
}

bool conf_value_status(const config_setting_t *setting, struct err *err, char *status)
{
	struct conf_key key = { .type = CONF_INT, .low = 100, .high = 599 };
	int64_t number = 0;
	bool ok;
	if (config_setting_type(setting) == CONFIG_TYPE_STRING)
		ok = parse_int(&key, config_setting_get_string(setting), err, &number);
	else if (whole(setting))
		ok = set_int(&key, config_setting_get_int64(setting), err, &number);
	else
		ok = err_set(err, "is not an HTTP status such as 409");
	if (ok)
		(void)snprintf(status, 4, "%03d", (int)number);
	return ok;
}

static const char *found(const config_setting_t *setting)
{
	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_GROUP:
		return "a group";
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
	case CONFIG_TYPE_FLOAT:
		return "a number";
	case CONFIG_TYPE_STRING:
		return "a text";
	case CONFIG_TYPE_BOOL:
		return "true or false";
	default:
		return "a list";
	}
}

static const char *wanted(enum conf_type type)
{
	static const char *const wants[] = {
		[CONF_BOOL] = "true or false, without quotes",
		[CONF_INT] = "a whole number, without quotes",
		[CONF_TEXT] = "a text in quotes",
		[CONF_DURATION] = "a duration in quotes, for example \"30s\"",
		[CONF_SIZE] = "a size in quotes, for example \"16MiB\"",
		[CONF_WORD] = "a word in quotes",
		[CONF_START] = "\"earliest\", \"latest\" or a time, in quotes",
		[CONF_PAIRS] = "a list of pairs, ( (\"name\", \"value\"), (\"name\", \"value\") )",
		[CONF_TEXTS] = "a text, or a list of texts, (\"a\", \"b\")",
		[CONF_RATE] = "a rate in quotes, for example \"25/s\"",
		[CONF_PREDICATE] = "a condition in quotes, for example \"/status = ok\"",
		[CONF_POINTERS] = "a JSON pointer, or a list of them, (\"/card\", \"/token\")",
		[CONF_STATUSES] = "a status, or a list of statuses, (409, 425)",
		[CONF_GROUP] = "a group, { key = value; }",
	};
	return wants[type];
}

bool conf_value_mismatch(const struct conf_key *key, const config_setting_t *setting,
			 struct err *err)
{
	BUF_AUTO struct buf known = { 0 };
	if (key->words) {
		buf_add_text(&known, ": ");
		words(&known, key);
	}
	return err_set(err, "is %s; write %s%s", found(setting), wanted(key->type),
		       buf_text(&known));
}
