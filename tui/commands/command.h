/* What the commands of `counterfoil` share: how one is called, and how it reads the configuration.
 */
#ifndef COUNTERFOIL_COMMAND_H
#define COUNTERFOIL_COMMAND_H

#include "conf.h"
#include "main.h"

/* argv[0] is the command's name. */
typedef enum exit_code command_fn(const char *config_path, int argc, char **argv);

struct command {
	const char *name;
	const char *summary;
	command_fn *run;
};

/* False: every fault has been told on stderr; the command ends with EXIT_CONFIG. */
MUST_USE bool command_config(const char *path, struct conf **conf_r);

#endif
