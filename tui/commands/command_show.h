/* `counterfoil show`: one key in full. */
#ifndef COUNTERFOIL_COMMAND_SHOW_H
#define COUNTERFOIL_COMMAND_SHOW_H

#include "commands/command.h"

enum exit_code show_run(const char *config_path, int argc, char **argv);

#endif
