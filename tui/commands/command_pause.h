/* `counterfoil pause` and `counterfoil resume`: what is not sent until somebody resumes it. */
#ifndef COUNTERFOIL_COMMAND_PAUSE_H
#define COUNTERFOIL_COMMAND_PAUSE_H

#include "commands/command.h"

command_fn pause_run;
command_fn resume_run;

#endif
