/* `counterfoil redeliver` and `counterfoil rewind`: events that were taken in are read again. */
#ifndef COUNTERFOIL_COMMAND_AGAIN_H
#define COUNTERFOIL_COMMAND_AGAIN_H

#include "commands/command.h"

enum exit_code redeliver_run(const char *config_path, int argc, char **argv);
enum exit_code rewind_run(const char *config_path, int argc, char **argv);

#endif
