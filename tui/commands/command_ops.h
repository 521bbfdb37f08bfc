/* `counterfoil ops`: what ledgers carry out, and how to stop it. */
#ifndef COUNTERFOIL_COMMAND_OPS_H
#define COUNTERFOIL_COMMAND_OPS_H

#include "commands/command.h"

enum exit_code ops_run(const char *config_path, int argc, char **argv);

#endif
