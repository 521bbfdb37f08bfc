/* What the three programs have in common at their edge: exit codes (sysexits.h) and where the
 * configuration is found when --config does not say. */
#ifndef COUNTERFOIL_MAIN_H
#define COUNTERFOIL_MAIN_H

enum exit_code {
	EXIT_OK = 0,
	EXIT_ERROR = 1,
	EXIT_USAGE = 2,
	EXIT_PARTLY = 3,
	EXIT_NOT_FOUND = 4,
	EXIT_CONFLICT = 5,
	EXIT_UNAVAILABLE = 69,
	EXIT_PERMISSION = 77,
	EXIT_CONFIG = 78,
	EXIT_INTERRUPTED = 130,
};

#define MAIN_CONFIG_VARIABLE "COUNTERFOIL_CONFIG"
#define MAIN_CONFIG_FILE     "/etc/counterfoil/counterfoil.conf"

/* The answer to SIGHUP. */
#define MAIN_READ_ONCE "the configuration is read at the start only: restart to have it read again"

#endif
