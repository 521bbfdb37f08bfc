/* `counterfoil replay`: runs a dead key again, or a waiting one at once. */
#ifndef COUNTERFOIL_COMMAND_REPLAY_H
#define COUNTERFOIL_COMMAND_REPLAY_H

#include "command.h"

enum exit_code replay_run(const char *config_path, int argc, char **argv);

#endif
