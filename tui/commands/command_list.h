/* `counterfoil list`: keys of a state, the newest first. */
#ifndef COUNTERFOIL_COMMAND_LIST_H
#define COUNTERFOIL_COMMAND_LIST_H

#include "commands/command.h"

enum exit_code list_run(const char *config_path, int argc, char **argv);

#endif
