/* `counterfoil resolve`: a person decides what became of an uncertain key. */
#ifndef COUNTERFOIL_COMMAND_RESOLVE_H
#define COUNTERFOIL_COMMAND_RESOLVE_H

#include "commands/command.h"

enum exit_code resolve_run(const char *config_path, int argc, char **argv);

#endif
