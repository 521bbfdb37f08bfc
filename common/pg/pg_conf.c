/* Faults of a configuration that would otherwise show at the first connection. */
#include "pg_conf.h"

#include <stdlib.h>
#include <string.h>

#include "pg.h"

static void add_fault(const struct conf *conf, const char *key, const struct err *err,
		      struct buf *faults)
{
	char place[1024];
	buf_addf(faults, "%s: %s\n", conf_place(conf, key, place, sizeof(place)), err->text);
}

void pg_conf_check(const struct conf *conf, enum conf_program program, struct buf *faults)
{
	const struct conf_postgres *postgres = &conf->postgres;
	struct err err;
	char *password;
	if (!pg_conninfo_check(postgres->conninfo, &err))
		add_fault(conf, conf_conninfo_key(conf, program), &err, faults);
	if (!*postgres->password_file)
		return;
	if (!conf_read_secret(postgres->password_file, &err, &password)) {
		add_fault(conf, "postgres.password_file", &err, faults);
		return;
	}
	explicit_bzero(password, strlen(password));
	free(password);
}
