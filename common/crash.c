/* Kills the process where the environment says. Compiled into test builds alone (CRASH=1). */
#include "crash.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct crash {
	bool read;
	char name[64];      /* "": none */
	unsigned long left; /* passings until it happens */
};

static void read_wish(struct crash *crash)
{
	const char *wish = getenv("COUNTERFOIL_CRASH");
	crash->read = true;
	crash->left = 1;
	if (!wish)
		return;
	(void)snprintf(crash->name, sizeof(crash->name), "%s", wish);
	char *colon = strchr(crash->name, ':');
	if (!colon)
		return;
	*colon = '\0';
	crash->left = strtoul(colon + 1, NULL, 10);
}

/* Called by the thread of the loop only. The wish is read once, at the first point. */
void crash_passed(const char *name)
{
	static struct crash crash;
	if (!crash.read)
		read_wish(&crash);
	if (strcmp(name, crash.name) != 0 || --crash.left > 0)
		return;
	(void)fprintf(stderr, "crash point %s\n", name);
	(void)raise(SIGKILL);
}
