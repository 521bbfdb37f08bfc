/* PostgreSQL on the loop: one connection in pipeline mode, reconnecting for ever with backoff.
 *
 * Every statement is sent unnamed (but see `named`) with its own Sync: its own snapshot and,
 * outside BEGIN, its own transaction. No session state, no SET: it works through a pooler in
 * transaction mode. Parameters and results travel in binary.
 *
 * Ownership: the callback of a statement runs exactly once, in the order of sending, also when the
 * connection is lost or freed. The result is borrowed for the length of the callback. */
#ifndef COUNTERFOIL_PG_H
#define COUNTERFOIL_PG_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"
#include "log.h"
#include "loop.h"
#include "metrics.h"
#include "usec.h"

struct pg;

/* A statement has succeeded when its Sync was answered, not before: outside BEGIN it is committed
 * only then. A COMMIT that the server turned into ROLLBACK is PG_REFUSED. An error that ends the
 * connection (severity FATAL) is PG_LOST: a pooler says so of a server that died meanwhile. */
enum pg_error_kind {
	PG_REFUSED, /* the server answered with an error: the statement changed nothing */
	PG_LOST,   /* sent, and the connection went before the answer: it may have been committed */
	PG_UNSENT, /* never sent: it changed nothing */
};

struct pg_error {
	enum pg_error_kind kind;
	char sqlstate[6]; /* "" when there is none */
	char text[512];
};

/* error is NULL on success, result is NULL on failure. */
typedef void pg_done_fn(void *arg, const PGresult *result, const struct pg_error *error);

/* How to connect; every text is borrowed and must outlive the connection. */
struct pg_settings {
	const char *conninfo; /* libpq string or URI; PG* variables and service files fill in */
	const char *password_file; /* its first line; "" or NULL: none */
	const char *program;       /* application_name */
	usec_t connect_timeout;
	usec_t statement_timeout;  /* asked of the server where no pooler refuses it, and watched
				      here */
	const char *options;       /* more of that kind, "-c jit=off -c ..."; NULL: none */
	struct series *reconnects; /* counts each connection but the first; NULL: nobody does */
	bool named; /* what is sent often is prepared under a name, where no pooler stands between;
		     * the text of a statement must then stay at its place, unchanged, from its
		     * first use to the end of the connection */
	bool read_only; /* transactions are, unless BEGIN says otherwise; asked for likewise */
};

/* up: connected to a server that takes writes; statements may be sent. down: the connection is
 * gone; the callbacks of its statements have run. An attempt to connect that failed is reported
 * through down() as well: when its reason is a new one, and then once a minute. Both run from the
 * loop, never inside pg_send(). */
struct pg_events {
	void (*up)(void *arg);
	void (*down)(void *arg, const char *reason);
	void *arg;
};

struct pg *pg_new(
	struct loop *loop, struct log *log, const struct pg_settings *settings,
	const struct pg_events *events); /* starts to connect on the next turn of the loop */
void pg_free(struct pg *pg); /* waiting callbacks run first, with PG_LOST or PG_UNSENT; no down() */

/* Can libpq read it? The error never repeats what might be a password. */
MUST_USE bool pg_conninfo_check(const char *conninfo, struct err *err);

bool pg_up(const struct pg *pg);
const char *pg_host(const struct pg *pg); /* or a socket's directory; "" while not connected */
size_t pg_queued(const struct pg *pg);    /* statements without an answer yet */
void pg_reset(struct pg *pg, const char *reason); /* drop this connection and make a new one */

struct pg_params;

/* Queues a statement. When not connected its callback runs, with PG_UNSENT, from the loop: wait for
 * up() before trying again. The parameters (NULL: none) are copied; `sql` is borrowed until the
 * callback has run. */
void pg_send(struct pg *pg, const char *sql, const struct pg_params *params, pg_done_fn *done,
	     void *arg);

/* --- parameters, in binary -------------------------------------------------------------------- */

#define PG_PARAMS_MAX 48

struct pg_params {
	int count;
	Oid types[PG_PARAMS_MAX];
	int lengths[PG_PARAMS_MAX];    /* -1: NULL */
	size_t offsets[PG_PARAMS_MAX]; /* into data */
	struct buf data;
};

#define PG_PARAMS_AUTO __attribute__((cleanup(pg_params_done)))

void pg_params_done(struct pg_params *params); /* a zeroed struct is empty and ready */
void pg_params_clear(struct pg_params *params);
void pg_add_bool(struct pg_params *params, bool value);
void pg_add_int4(struct pg_params *params, int32_t value);
void pg_add_int8(struct pg_params *params, int64_t value);
void pg_add_text(struct pg_params *params, const char *text); /* NULL: SQL NULL */
void pg_add_text_n(struct pg_params *params, const char *text, size_t length);
void pg_add_bytea(struct pg_params *params, const void *data, size_t length); /* NULL: SQL NULL */
void pg_add_interval(struct pg_params *params, usec_t usec); /* USEC_NEVER: SQL NULL */
void pg_add_time(struct pg_params *params, usec_t wall);     /* timestamptz; USEC_NEVER: SQL NULL */

/* One column of an unnest(): built row by row, then added as a parameter. */
enum pg_type {
	PG_BOOL,
	PG_INT4,
	PG_INT8,
	PG_TEXT,
	PG_BYTEA,
	PG_UUID,
	PG_INTERVAL,
	PG_TIME,
	PG_JSONB
};

struct pg_array {
	enum pg_type type;
	int32_t count;
	bool has_null;
	struct buf data;
};

#define PG_ARRAY_AUTO __attribute__((cleanup(pg_array_done)))

void pg_array_init(struct pg_array *array, enum pg_type type);
void pg_array_done(struct pg_array *array);
void pg_array_clear(struct pg_array *array);
void pg_array_null(struct pg_array *array);
void pg_array_bool(struct pg_array *array, bool value);
void pg_array_int4(struct pg_array *array, int32_t value);
void pg_array_int8(struct pg_array *array, int64_t value);
void pg_array_text(struct pg_array *array, const char *text);                 /* NULL: SQL NULL */
void pg_array_bytes(struct pg_array *array, const void *data, size_t length); /* text, bytea, uuid
	(16 bytes) or jsonb (its text); NULL: SQL NULL */
void pg_array_usec(struct pg_array *array,
		   usec_t usec); /* interval or time; USEC_NEVER: SQL NULL */
void pg_add_array(struct pg_params *params, const struct pg_array *array);

/* --- results ---------------------------------------------------------------------------------- */

/* The type that a column is read as is the caller's promise; a wrong one aborts. An int4 may be
 * read as int8. SQL NULL reads as false or 0 where no other value is named. */
/* A copy of its rows that outlives the callback, for those that show what they last read; the
 * caller's, freed by pg_drop(). */
PGresult *pg_keep(const PGresult *result);
void pg_drop(PGresult *kept); /* NULL is fine */
int pg_rows(const PGresult *result);
int pg_affected(const PGresult *result); /* rows that the command says it touched */
bool pg_null(const PGresult *result, int row, int column);
bool pg_get_bool(const PGresult *result, int row, int column);
int32_t pg_get_int4(const PGresult *result, int row, int column);
int64_t pg_get_int8(const PGresult *result, int row, int column);
/* Borrowed bytes of text, bytea, uuid, or of jsonb without its version byte; a NUL behind them.
 * NULL, and length 0, for SQL NULL. */
const char *pg_get_bytes(const PGresult *result, int row, int column, size_t *length_r);
const char *pg_get_text(const PGresult *result, int row, int column); /* NULL for SQL NULL */
usec_t pg_get_time(const PGresult *result, int row, int column); /* since 1970; NULL: USEC_NEVER */
/* An array of int8 without NULLs (also from an empty or NULL array: count 0). The caller frees. */
int64_t *pg_get_int8_array(const PGresult *result, int row, int column, size_t *count_r);

#endif
