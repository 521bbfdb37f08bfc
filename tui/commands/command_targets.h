/* counterfoil targets */
#ifndef COUNTERFOIL_COMMAND_TARGETS_H
#define COUNTERFOIL_COMMAND_TARGETS_H

#include "main.h"

enum exit_code targets_run(const char *config_path, int argc, char **argv);

#endif
