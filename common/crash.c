/* Kills the process where the environment says. Compiled into test builds alone (CRASH=1). */
#include "crash.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct crash {
	bool read;
	char name[64];       /* "": none */
	unsigned long left;  /* passings until it happens */
	const char *content; /* of what passes; NULL: any */
};

static void read_wish(struct crash *crash)
{
	const char *wish = getenv("COUNTERFOIL_CRASH");
	crash->read = true;
	crash->left = 1;
	if (!wish)
		return;
	(void)snprintf(crash->name, sizeof(crash->name), "%s", wish);
	char *mark = strpbrk(crash->name, ":=");
	if (!mark)
		return;
	if (*mark == '=')
		crash->content = mark + 1;
	else
		crash->left = strtoul(mark + 1, NULL, 10);
	*mark = '\0';
}

static bool is_meant(const struct crash *crash, const char *name, const void *data, size_t size)
{
	if (strcmp(name, crash->name) != 0)
		return false;
	return !crash->content ||
	       (data && memmem(data, size, crash->content, strlen(crash->content)));
}

/* Called by the thread of the loop only. The wish is read once, at the first point. */
void crash_passed(const char *name, const void *data, size_t size)
{
	static struct crash crash;
	if (!crash.read)
		read_wish(&crash);
	if (!is_meant(&crash, name, data, size) || --crash.left > 0)
		return;
	(void)fprintf(stderr, "crash point %s\n", name);
	(void)raise(SIGKILL);
}
