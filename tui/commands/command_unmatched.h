/* `counterfoil unmatched`: events of subscribed topics that no effect asks for. */
#ifndef COUNTERFOIL_COMMAND_UNMATCHED_H
#define COUNTERFOIL_COMMAND_UNMATCHED_H

#include "commands/command.h"

enum exit_code unmatched_run(const char *config_path, int argc, char **argv);

#endif
