/* The orders about one key that take no choice: cancel, dead-letter, take-over, note, erase. */
#ifndef COUNTERFOIL_COMMAND_KEY_H
#define COUNTERFOIL_COMMAND_KEY_H

#include "commands/command.h"

enum exit_code cancel_run(const char *config_path, int argc, char **argv);
enum exit_code dead_letter_run(const char *config_path, int argc, char **argv);
enum exit_code take_over_run(const char *config_path, int argc, char **argv);
enum exit_code note_run(const char *config_path, int argc, char **argv);
enum exit_code erase_run(const char *config_path, int argc, char **argv);

#endif
