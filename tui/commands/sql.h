/* The SQL of `counterfoil migrate`. */
#ifndef COUNTERFOIL_TUI_SQL_H
#define COUNTERFOIL_TUI_SQL_H

/* Any other character set could not hold the texts that the applications send. */
#define SQL_REQUIRE_SERVER                                                                         \
	"DO $$ BEGIN\n"                                                                            \
	"  IF current_setting('server_version_num')::int < 130000 THEN\n"                          \
	"    RAISE EXCEPTION 'the server is PostgreSQL %, and Counterfoil needs 13 or later',\n"   \
	"      current_setting('server_version');\n"                                               \
	"  END IF;\n"                                                                              \
	"  IF current_setting('server_encoding') <> 'UTF8' THEN\n"                                 \
	"    RAISE EXCEPTION 'its encoding is %, and Counterfoil needs UTF8',\n"                   \
	"      current_setting('server_encoding')\n"                                               \
	"      USING HINT = 'CREATE DATABASE ... ENCODING ''UTF8'' TEMPLATE template0';\n"         \
	"  END IF;\n"                                                                              \
	"END $$"

/* One migration at a time, whoever else may be at it. */
#define SQL_LOCK "SELECT pg_advisory_xact_lock(hashtextextended('counterfoil.migrate', 0))"

/* READ COMMITTED, whatever is the default: what was applied while we waited for the lock is seen.
 */
#define SQL_BEGIN                                                                                  \
	"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = "         \
	"on; " SQL_LOCK

/* Not to_regclass(): after the wait for the lock it would answer from a stale cache. */
#define SQL_HAS_TABLE                                                                              \
	"SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n"          \
	" ON n.oid = c.relnamespace WHERE n.nspname = 'counterfoil' AND c.relname = 'migration')"

#define SQL_APPLIED                                                                                \
	"SELECT version, name, oldest_program,"                                                    \
	" to_char(applied_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS \"UTC\"')"                 \
	" FROM counterfoil.migration ORDER BY version"

#define SQL_RECORD                                                                                 \
	"INSERT INTO counterfoil.migration (version, name, oldest_program) VALUES ($1, $2, $3)"

#endif
