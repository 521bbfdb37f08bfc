/* How the ledger's connections are made. */
#include "database.h"

struct pg_settings database_settings(const struct conf *conf, const struct meter *meter)
{
	const struct conf_postgres *postgres = &conf->postgres;
	return (struct pg_settings){
		.conninfo = postgres->conninfo,
		.password_file = postgres->password_file,
		.program = "counterfoil-ledger",
		.connect_timeout = postgres->connect_timeout,
		.statement_timeout = postgres->statement_timeout,
		.reconnects = meter->db_reconnects,
	};
}

struct pg_settings database_busy_settings(const struct conf *conf, const struct meter *meter)
{
	struct pg_settings settings = database_settings(conf, meter);
	settings.named = true;
	settings.options = DATABASE_BUSY_OPTIONS;
	return settings;
}
