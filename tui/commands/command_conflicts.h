/* `counterfoil conflicts`: events that asked for a key that stands for something else. */
#ifndef COUNTERFOIL_COMMAND_CONFLICTS_H
#define COUNTERFOIL_COMMAND_CONFLICTS_H

#include "commands/command.h"

enum exit_code conflicts_run(const char *config_path, int argc, char **argv);

/* Of them, argv[0] being the word: settle. */
enum exit_code conflicts_settle_run(const char *config_path, int argc, char **argv);

#endif
