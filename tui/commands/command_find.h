/* `counterfoil find`: keys by anything that is known of them. */
#ifndef COUNTERFOIL_COMMAND_FIND_H
#define COUNTERFOIL_COMMAND_FIND_H

#include "commands/command.h"

enum exit_code find_run(const char *config_path, int argc, char **argv);

#endif
