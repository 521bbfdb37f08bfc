/* counterfoil hold, release: the kill switch of a target. */
#ifndef COUNTERFOIL_COMMAND_HOLD_H
#define COUNTERFOIL_COMMAND_HOLD_H

#include "main.h"

enum exit_code hold_run(const char *config_path, int argc, char **argv);
enum exit_code release_run(const char *config_path, int argc, char **argv);

#endif
