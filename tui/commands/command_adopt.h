/* `counterfoil adopt`: a restored or copied database is made that of this server and environment.
 */
#ifndef COUNTERFOIL_COMMAND_ADOPT_H
#define COUNTERFOIL_COMMAND_ADOPT_H

#include "commands/command.h"

enum exit_code adopt_run(const char *config_path, int argc, char **argv);

#endif
