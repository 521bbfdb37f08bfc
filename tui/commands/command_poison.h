/* `counterfoil poison`: messages that could not be turned into effects. */
#ifndef COUNTERFOIL_COMMAND_POISON_H
#define COUNTERFOIL_COMMAND_POISON_H

#include "commands/command.h"

enum exit_code poison_run(const char *config_path, int argc, char **argv);

/* Of them, argv[0] being the word: replay and discard. */
enum exit_code poison_replay_run(const char *config_path, int argc, char **argv);
enum exit_code poison_discard_run(const char *config_path, int argc, char **argv);

#endif
