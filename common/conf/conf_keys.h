/* The tables of keys: they drive parsing, defaults, the environment and the documents. */
#ifndef COMMON_CONF_KEYS_H
#define COMMON_CONF_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum conf_type {
	CONF_BOOL,      /* bool */
	CONF_INT,       /* int64_t */
	CONF_TEXT,      /* char * */
	CONF_DURATION,  /* usec_t */
	CONF_SIZE,      /* int64_t, bytes */
	CONF_WORD,      /* an enum */
	CONF_START,     /* ledger.start: enum conf_start, and the time beside it */
	CONF_PAIRS,     /* struct conf_pairs */
	CONF_TEXTS,     /* struct conf_texts */
	CONF_RATE,      /* struct conf_rate */
	CONF_PREDICATE, /* struct conf_predicate */
	CONF_STATUSES,  /* struct conf_texts of HTTP statuses */
	CONF_POINTERS,  /* struct conf_texts of JSON pointers */
	CONF_GROUP,     /* keys of the same struct, one name deeper */
};

struct conf_word {
	const char *name; /* NULL ends the list */
	int value;
};

struct conf_table;

struct conf_key {
	const char *name;
	enum conf_type type;
	bool required; /* by the program that uses the section */
	size_t offset; /* in the struct of the section */
	/* As it stands in the environment, or in a file between its quotes. NULL: none; a text is
	 * then "", a list empty, a number 0. */
	const char *fallback;
	const char *meaning;
	int64_t low, high; /* bounds of a number, of a duration, of a size, of a text's length */
	const struct conf_word *words;
	const char *never; /* the word for USEC_NEVER, for no rate, or NULL */
	const struct conf_table *group;
	bool headers; /* pairs that are headers: some carry a secret */
	/* Read and checked, but nothing is done with it yet: anything but its default is refused,
	 * and no document shows it. Of a group: all keys in it. */
	bool later;
};

struct conf_table {
	const struct conf_key *keys;
	size_t count;
};

/* A section is one group, or (item_size > 0) a list of groups: then the pointer stands at `offset`
 * and the number of items at `count_offset`. */
struct conf_section {
	const char *name;
	const struct conf_table *table;
	size_t offset;
	size_t count_offset;
	size_t item_size;
	bool later; /* a list that must be empty, as a key that comes later */
};

extern const struct conf_table conf_target_table;
extern const struct conf_table conf_tenant_table;
extern const struct conf_table conf_effect_table;
extern const struct conf_table conf_profile_table;

extern const struct conf_section conf_sections[];
extern const size_t conf_section_count;

/* "duration", "size", ...: as the reference of keys names it. */
const char *conf_type_name(enum conf_type type);

#endif
