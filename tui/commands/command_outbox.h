/* `counterfoil outbox`: what waits to be published, and the rows that cannot be. */
#ifndef COUNTERFOIL_COMMAND_OUTBOX_H
#define COUNTERFOIL_COMMAND_OUTBOX_H

#include "commands/command.h"

enum exit_code outbox_run(const char *config_path, int argc, char **argv);

/* --- its parts, argv[0] being the word that names each ------------------------------------------
 */

enum exit_code outbox_dead_run(const char *config_path, int argc, char **argv);
enum exit_code outbox_parked_run(const char *config_path, int argc, char **argv);
enum exit_code outbox_show_run(const char *config_path, int argc, char **argv);
enum exit_code outbox_requeue_run(const char *config_path, int argc, char **argv);
enum exit_code outbox_discard_run(const char *config_path, int argc, char **argv);

#endif
