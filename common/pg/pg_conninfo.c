/* From our settings to libpq's parameters. What the user's conninfo sets stands; we add what keeps
 * a long-lived connection honest, and the password from its file. */
#include "pg/pg_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "mem.h"

enum { ADDED_MAX = 16 };

/* Notices within a minute that the other end is gone: seconds, and milliseconds for the last one.
 */
static const struct {
	const char *name;
	const char *value;
} defaults[] = {
	{ "target_session_attrs", "read-write" }, { "keepalives_idle", "30" },
	{ "keepalives_interval", "10" },          { "keepalives_count", "3" },
	{ "tcp_user_timeout", "30000" },
};

bool pg_conninfo_check(const char *conninfo, struct err *err)
{
	char *text = NULL;
	PQconninfoOption *options = PQconninfoParse(conninfo, &text);
	bool good = options != NULL;
	PQconninfoFree(options);
	if (!good && (strstr(conninfo, "://") || strcasestr(conninfo, "password"))) {
		/* libpq quotes what it could not read, and a password may stand there */
		err_set(err, "conninfo: neither a libpq connection string nor a URI");
	} else if (!good) {
		char line[256];
		pg_one_line(text ? text : "out of memory", line, sizeof(line));
		err_set(err, "conninfo: %s", line);
	}
	PQfreemem(text);
	return good;
}

static void put(struct pg_conninfo *conninfo, const char *name, char *value)
{
	conninfo->names[conninfo->count] = name;
	conninfo->values[conninfo->count] = value;
	conninfo->count++;
}

void pg_conninfo_done(struct pg_conninfo *conninfo)
{
	for (size_t i = 0; i < conninfo->count; i++) {
		explicit_bzero(conninfo->values[i], strlen(conninfo->values[i]));
		free(conninfo->values[i]);
	}
	free(conninfo->values);
	free(conninfo->names);
	*conninfo = (struct pg_conninfo){ 0 };
}

static const PQconninfoOption *find(const PQconninfoOption *options, const char *name)
{
	for (; options->keyword; options++)
		if (strcmp(options->keyword, name) == 0)
			return options;
	return NULL;
}

/* What the connection string says, else the environment; NULL when neither does. */
static const char *given(const PQconninfoOption *options, const char *name)
{
	const PQconninfoOption *option = find(options, name);
	if (!option)
		return NULL;
	return option->val ? option->val : option->envvar ? getenv(option->envvar) : NULL;
}

/* "a,b,c" by 1 is "b,c,a": libpq tries in order, and a host that swallows packets is given up only
 * by our clock, for all of the list at once. */
static char *rotated(const char *list, unsigned by)
{
	size_t items = 1;
	for (const char *c = list; *c; c++)
		items += *c == ',';
	const char *middle = list;
	for (size_t i = by % items; i > 0; i--)
		middle = strchr(middle, ',') + 1;
	struct buf text = { 0 };
	buf_add_text(&text, middle);
	if (middle > list) {
		buf_add_char(&text, ',');
		buf_add(&text, list, (size_t)(middle - list) - 1);
	}
	return buf_take(&text);
}

static bool is_host_list(const char *name)
{
	return strcmp(name, "host") == 0 || strcmp(name, "hostaddr") == 0 ||
	       strcmp(name, "port") == 0;
}

/* A service file stands between the string and the environment, and only libpq reads it. */
static bool has_service(const PQconninfoOption *options)
{
	return given(options, "service") != NULL;
}

static void put_given(struct pg_conninfo *conninfo, const PQconninfoOption *options,
		      unsigned rotation)
{
	for (const PQconninfoOption *option = options; option->keyword; option++) {
		const char *value = option->val;
		if (is_host_list(option->keyword)) {
			if (!value && !has_service(options))
				value = given(options, option->keyword);
			if (value)
				put(conninfo, option->keyword, rotated(value, rotation));
		} else if (value && strcmp(option->keyword, "options") != 0) {
			put(conninfo, option->keyword, mem_text(value));
		}
	}
}

/* Ours first: of two settings of one name the later holds, so the user's word is the last. */
static void put_options(struct pg_conninfo *conninfo, const PQconninfoOption *options,
			const struct pg_settings *settings, bool ask)
{
	const char *theirs = given(options, "options");
	struct buf text = { 0 };
	if (ask && settings->statement_timeout > 0)
		buf_addf(&text, "-c statement_timeout=%lld ",
			 (long long)(settings->statement_timeout / USEC_MS));
	if (ask && settings->read_only)
		buf_add_text(&text, "-c default_transaction_read_only=on ");
	if (ask && settings->options)
		buf_addf(&text, "%s ", settings->options);
	if (theirs)
		buf_add_text(&text, theirs);
	if (text.length)
		put(conninfo, "options", buf_take(&text));
	buf_done(&text);
}

/* What is read-only by our own option is none to "read-write": ask for the same server otherwise.
 */
static void put_read_only(struct pg_conninfo *conninfo, const PQconninfoOption *options)
{
	const char *wanted = given(options, "target_session_attrs");
	if (!wanted || strcmp(wanted, "read-write") == 0)
		put(conninfo, "target_session_attrs", mem_text("primary"));
}

static void put_defaults(struct pg_conninfo *conninfo, const PQconninfoOption *options)
{
	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		if (find(options, defaults[i].name) && !given(options, defaults[i].name))
			put(conninfo, defaults[i].name, mem_text(defaults[i].value));
}

static char *whole_seconds(usec_t usec)
{
	struct buf text = { 0 };
	buf_addf(&text, "%lld", (long long)((usec + USEC_SEC - 1) / USEC_SEC));
	return buf_take(&text);
}

bool pg_conninfo_make(const struct pg_settings *settings, const struct pg_attempt *attempt,
		      struct err *err, struct pg_conninfo *conninfo_r)
{
	char *password = NULL;
	if (!pg_conninfo_check(settings->conninfo, err))
		return false;
	if (settings->password_file && *settings->password_file &&
	    !conf_read_secret(settings->password_file, err, &password))
		return err_prefix(err, "password_file");
	PQconninfoOption *options = PQconninfoParse(settings->conninfo, NULL);
	if (!options)
		abort();
	size_t known = 0;
	while (options[known].keyword)
		known++;
	struct pg_conninfo made = { .names = mem_zero((known + ADDED_MAX) * sizeof(char *)),
				    .values = mem_zero((known + ADDED_MAX) * sizeof(char *)) };
	put_given(&made, options, attempt->rotation);
	put_options(&made, options, settings, attempt->ask_options);
	put_defaults(&made, options);
	if (settings->read_only)
		put_read_only(&made, options);
	if (password)
		put(&made, "password", password);
	put(&made, "fallback_application_name", mem_text(settings->program));
	put(&made, "client_encoding", mem_text("UTF8"));
	if (attempt->wait)
		put(&made, "connect_timeout", whole_seconds(settings->connect_timeout));
	PQconninfoFree(options);
	*conninfo_r = made;
	return true;
}

bool pg_option_refused(const PGconn *conn)
{
	return strstr(PQerrorMessage(conn), "unsupported startup parameter") != NULL;
}
