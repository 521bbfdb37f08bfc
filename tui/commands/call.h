/* A command that asks the database: its options, its session, its answers and errors. In JSON mode
 * nothing is asked, an error is one JSON object on stderr, and stdout is then empty. */
#ifndef COUNTERFOIL_CALL_H
#define COUNTERFOIL_CALL_H

#include "commands/command.h"
#include "pg_session.h"

/* Which options a command has, beside --config, --json and --help. */
enum call_options {
	CALL_JSONL = 1 << 0,
	CALL_LIMIT = 1 << 1,
	CALL_WHICH = 1 << 2, /* --target --tenant */
	CALL_ORDER = 1 << 3, /* --yes --reason --dry-run */
	CALL_WORDS = 1 << 4, /* any number of words */
	CALL_SOURCE = 1 << 5,
	CALL_TOPIC = 1 << 6, /* --topic --key */
	CALL_BULK = 1 << 7,  /* --all --expect */
	CALL_KEY = 1 << 8,
	CALL_NEW_KEY = 1 << 9,   /* --new-key --force */
	CALL_DECISION = 1 << 10, /* --happened --did-not-happen --provider-id */
	CALL_EFFECT = 1 << 11,
	CALL_TARGET = 1 << 12, /* --target */
	CALL_FORCE = 1 << 13,  /* --force */
	CALL_AGAIN = 1 << 14,  /* --last --from --to --partition --apply */
};

struct call {
	const char *name;  /* of the command */
	const char *usage; /* its help */
	const char *config_path;
	bool json, jsonl;
	bool help;
	bool yes, dry_run;
	int64_t limit; /* 0: not given */
	bool all;
	int64_t expect; /* -1: not given */
	bool patient;   /* what it asks may take longer than a person waits at a screen */
	const char *target, *tenant, *reason; /* NULL: not given */
	const char *source, *topic, *key, *effect;
	bool new_key, force;
	bool happened, did_not_happen;
	const char *provider_id;
	int64_t last, partition; /* 0, -1: not given */
	const char *from, *to;
	bool apply;
	const char *word; /* what it is about; NULL: nothing was said */
	char **words;     /* all of them, with CALL_WORDS */
	int word_count;
	struct conf *conf;
	struct pg_session *session;
	struct err err; /* of the last statement */
	char sqlstate[6];
};

/* Reads the options. False: it ends with *code_r, and what there is to say was said. */
MUST_USE bool call_read(struct call *call, unsigned options, int argc, char **argv,
			enum exit_code *code_r);
/* Configuration, connection, schema. False: as above. */
MUST_USE bool call_open(struct call *call, enum exit_code *code_r);
void call_close(struct call *call);

MUST_USE bool call_query(struct call *call, const char *sql, const struct pg_params *params,
			 PGresult **result_r);

/* Each says it and gives the code to end with. */
enum exit_code call_failed(const struct call *call); /* a statement */
enum exit_code call_wrong(const struct call *call, const char *format, ...)
	__attribute__((format(printf, 2, 3))); /* usage */
enum exit_code call_error(const struct call *call, enum exit_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The one key that call->word names: a key, or an effect's number. False: as above. */
MUST_USE bool call_find_key(struct call *call, int64_t *id_r, enum exit_code *code_r);

/* Figures, of `least` at least; a comma may stand between the thousands. */
MUST_USE bool call_count(const char *text, int64_t least, int64_t *count_r);

/* A number that is not negative, and nothing else. */
MUST_USE bool call_number(const char *text, int64_t *number_r);

/* How the console talks to the database. */
struct pg_settings call_settings(const struct conf *conf);

#endif
