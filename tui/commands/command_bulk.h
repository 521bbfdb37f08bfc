/* `counterfoil replay --all` and `counterfoil resolve --all`: orders about many keys. */
#ifndef COUNTERFOIL_COMMAND_BULK_H
#define COUNTERFOIL_COMMAND_BULK_H

#include "commands/bulk_options.h"
#include "commands/command.h"

enum exit_code bulk_replay_run(const char *config_path, int argc, char **argv);
enum exit_code bulk_resolve_run(const char *config_path, int argc, char **argv);

#endif
