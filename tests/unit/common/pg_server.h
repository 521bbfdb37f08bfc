/* A private PostgreSQL for unit tests: a cluster in a temporary directory, reachable by its socket
 * only. The server refuses root: it then runs as postgres. It ends when the test ends. */
#ifndef COUNTERFOIL_TEST_PG_SERVER_H
#define COUNTERFOIL_TEST_PG_SERVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "usec.h"

struct pg_server {
	char bin[256];
	char home[64];
	char conninfo[160];
	char as_server[128]; /* the beginning of a command run as the server's user */
	pid_t pid;
};

static inline bool pg_server_find(struct pg_server *server)
{
	glob_t found = { 0 };
	bool good = glob("/usr/lib/postgresql/*/bin/initdb", 0, NULL, &found) == 0;
	if (good) {
		snprintf(server->bin, sizeof(server->bin), "%s",
			 found.gl_pathv[found.gl_pathc - 1]);
		*strrchr(server->bin, '/') = '\0';
	}
	globfree(&found);
	return good;
}

static inline bool pg_server_run(const char *command)
{
	int status = system(command);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* False, with the reason printed: there is no server here, and its tests are skipped. */
static inline bool pg_server_make(struct pg_server *server)
{
	char command[1024];
	*server = (struct pg_server){ .home = "/tmp/counterfoil-unit.XXXXXX" };
	if (!pg_server_find(server)) {
		printf("skipped: no PostgreSQL server below /usr/lib/postgresql\n");
		return false;
	}
	if (!mkdtemp(server->home))
		abort();
	if (geteuid() == 0)
		snprintf(server->as_server, sizeof(server->as_server),
			 "--reuid=postgres --regid=postgres --init-groups");
	snprintf(command, sizeof(command),
		 "cd / && { [ $(id -u) != 0 ] || chown postgres: %s; } && setpriv %s -- %s/initdb "
		 "-D %s/data "
		 "-U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync >%s.log 2>&1",
		 server->home, server->as_server, server->bin, server->home, server->home);
	if (!pg_server_run(command)) {
		printf("skipped: initdb failed, see %s.log\n", server->home);
		return false;
	}
	snprintf(server->conninfo, sizeof(server->conninfo),
		 "host=%s port=5432 user=postgres dbname=postgres", server->home);
	return true;
}

static inline void pg_server_pause(void)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	nanosleep(&pause, NULL);
}

static inline void pg_server_start(struct pg_server *server)
{
	char command[1024];
	snprintf(command, sizeof(command),
		 "cd / && exec setpriv --pdeathsig INT %s -- %s/postgres -D %s/data -k %s -F "
		 "-c listen_addresses= -c log_min_messages=fatal >>%s.log 2>&1",
		 server->as_server, server->bin, server->home, server->home, server->home);
	server->pid = fork();
	if (server->pid == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	usec_t deadline = usec_boot() + USEC_MIN;
	while (PQping(server->conninfo) != PQPING_OK) {
		if (usec_boot() > deadline)
			abort();
		pg_server_pause();
	}
}

/* SIGTERM waits for the clients, SIGINT disconnects them, SIGQUIT is a crash. */
static inline void pg_server_stop(struct pg_server *server, int how)
{
	if (server->pid <= 0)
		return;
	kill(server->pid, how);
	waitpid(server->pid, NULL, 0);
	server->pid = 0;
}

static inline void pg_server_remove(struct pg_server *server)
{
	char command[256];
	pg_server_stop(server, SIGQUIT);
	snprintf(command, sizeof(command), "rm -rf %s %s.log", server->home, server->home);
	pg_server_run(command);
}

static inline void pg_server_is_missing(void **state)
{
	(void)state;
	skip();
}

/* Instead of the tests; gives main()'s result. */
static inline int pg_server_skip(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(pg_server_is_missing) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
