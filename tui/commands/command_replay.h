/* `counterfoil replay`: runs a key again, with the same idempotency key or a new one. */
#ifndef COUNTERFOIL_COMMAND_REPLAY_H
#define COUNTERFOIL_COMMAND_REPLAY_H

#include "commands/command.h"

enum exit_code replay_run(const char *config_path, int argc, char **argv);

#endif
