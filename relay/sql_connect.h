/* What --check-config --connect asks of our own outbox. */
#ifndef COUNTERFOIL_RELAY_SQL_CONNECT_H
#define COUNTERFOIL_RELAY_SQL_CONNECT_H

static const char sql_identity_cache[] =
	"SELECT q.seqcache FROM pg_sequence q JOIN pg_depend d ON d.objid = q.seqrelid"
	" AND d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass"
	" AND d.deptype = 'i' JOIN pg_attribute a ON a.attrelid = d.refobjid"
	" AND a.attnum = d.refobjsubid"
	" WHERE a.attrelid = 'counterfoil.outbox'::regclass AND a.attname = 'id'";

#endif
