/* The configuration for a command. */
#include "commands/command.h"

#include <stdio.h>

bool command_config(const char *path, struct conf **conf_r)
{
	BUF_AUTO struct buf faults = { 0 };
	if (conf_load(path, CONF_CONSOLE, &faults, conf_r))
		return true;
	fputs(buf_text(&faults), stderr);
	return false;
}
