/* `counterfoil migrate`: brings the schema up to what this program knows, or prints or tells it. */
#ifndef COUNTERFOIL_MIGRATE_H
#define COUNTERFOIL_MIGRATE_H

#include "commands/command.h"

enum exit_code migrate_run(const char *config_path, int argc, char **argv);

#endif
