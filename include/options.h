/* The command line of the services: the options that relay and ledger share, each one's own beside
 * them, and what --check-config and --print-config say. */
#ifndef COUNTERFOIL_OPTIONS_H
#define COUNTERFOIL_OPTIONS_H

#include "buf.h"
#include "conf.h"
#include "err.h"
#include "main.h"

#define OPTIONS_OWN_MAX   8
#define OPTIONS_FLAGS_MAX 2

/* What is done once the configuration is loaded. */
enum options_task { OPTIONS_RUN, OPTIONS_CHECK_CONFIG, OPTIONS_PRINT_CONFIG, OPTIONS_OWN };

/* An option of one program alone. */
struct options_own {
	const char *name;     /* "topic" */
	const char *argument; /* as the help calls it, "TOPIC"; NULL: takes none */
	const char *meaning;  /* may be of several lines */
	bool task;            /* done instead of running */
	bool files;           /* a task that the arguments are for */
};

struct options_program {
	const char *name; /* "counterfoil-ledger" */
	enum conf_program program;
	const char *summary;           /* lines that say what it does */
	const char *notes;             /* lines at the end of the help */
	const struct options_own *own; /* ended by one without a name */
};

struct options {
	const struct options_program *program;
	const char *config; /* the file */
	enum options_task task;
	bool strict;
	bool connect; /* with --check-config: ask the servers too */
	struct conf_flag flags[OPTIONS_FLAGS_MAX];
	size_t flag_count;
	const char
		*own[OPTIONS_OWN_MAX]; /* by row: NULL: not given; "" of one without an argument */
	const char *const *arguments;  /* behind the options */
	size_t argument_count;
};

/* False: the program ends with *code_r; what there is to say was said. */
MUST_USE bool options_read(const struct options_program *program, int argc, char **argv,
			   struct options *options_r, enum exit_code *code_r);
/* Says what is wrong with the options, and the usage. */
enum exit_code options_wrong(const struct options_program *program, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Loads the configuration for the task; one that only shows something opens no file but its own.
 * False: the faults were printed, and the program ends with EXIT_CONFIG. */
MUST_USE bool options_load(const struct options *options, struct conf **conf_r);

/* --check-config: lists faults and warnings, one a line, and judges. */
enum exit_code options_say_checked(const struct options *options, const struct buf *faults,
				   const struct buf *warnings);
/* --print-config. */
enum exit_code options_print_config(const struct options *options, const struct conf *conf);

/* At the program's end: the code, unless what was printed did not arrive. */
enum exit_code options_end(const struct options_program *program, enum exit_code code);

#endif
