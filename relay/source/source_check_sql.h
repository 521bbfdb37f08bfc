/* What the catalog is asked about a table before it is published. */
#ifndef COUNTERFOIL_RELAY_SOURCE_CHECK_SQL_H
#define COUNTERFOIL_RELAY_SOURCE_CHECK_SQL_H

/* $1 schema, $2 table. One row: the kind of relation (NULL: there is none); may we use the schema,
 * read, delete, update some column; who we are; do policies hide rows from us. */
static const char check_table[] =
	"SELECT c.relkind::text, has_schema_privilege(n.oid, 'USAGE'),"
	" has_any_column_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'DELETE'),"
	" has_any_column_privilege(c.oid, 'UPDATE'), current_user::text, row_security_active(c.oid)"
	" FROM (VALUES (1)) one LEFT JOIN pg_namespace n ON n.nspname = $1"
	" LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = $2"
	"  AND c.relkind IN ('r', 'p', 'v', 'm', 'f')";

/* $1 schema, $2 table, $3 columns. A row for each, in that order: is it there; its type, that of a
 * domain's values, in short and as it is written; is it generated; may we read it. */
static const char check_columns[] =
	"SELECT a.attname IS NOT NULL, b.typname::text, format_type(a.atttypid, a.atttypmod),"
	" a.attgenerated <> '', has_column_privilege(a.attrelid, a.attnum, 'SELECT')"
	" FROM unnest($3) WITH ORDINALITY u(name, n)"
	" LEFT JOIN (SELECT a.* FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
	"   JOIN pg_namespace s ON s.oid = c.relnamespace"
	"   WHERE s.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped) a"
	"  ON a.attname = u.name"
	" LEFT JOIN pg_type t ON t.oid = a.atttypid"
	" LEFT JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END"
	" ORDER BY u.n";

/* $1 schema, $2 table, $3 column. The sequence that the column draws from by itself, as an identity
 * or by its default: its name, cache and step. No row: there is none. */
static const char check_sequence[] =
	"SELECT d.seq::regclass::text, q.seqcache, q.seqincrement FROM pg_sequence q JOIN ("
	"  SELECT i.objid AS seq FROM pg_depend i JOIN pg_attribute a"
	"   ON a.attrelid = i.refobjid AND a.attnum = i.refobjsubid"
	"   JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace s ON s.oid = c.relnamespace"
	"   WHERE i.deptype = 'i' AND i.classid = 'pg_class'::regclass"
	"   AND i.refclassid = 'pg_class'::regclass"
	"   AND s.nspname = $1 AND c.relname = $2 AND a.attname = $3"
	"  UNION SELECT i.refobjid FROM pg_attrdef f JOIN pg_depend i"
	"   ON i.classid = 'pg_attrdef'::regclass AND i.objid = f.oid"
	"   AND i.refclassid = 'pg_class'::regclass"
	"   JOIN pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum"
	"   JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace s ON s.oid = c.relnamespace"
	"   WHERE s.nspname = $1 AND c.relname = $2 AND a.attname = $3) d ON d.seq = q.seqrelid";

/* $1 schema, $2 table, $3 column. The indexes that can give the rows in its order: the condition of
 * each that holds but a part of the rows, else NULL. */
static const char check_indexes[] =
	"SELECT pg_get_expr(i.indpred, i.indrelid) FROM pg_index i"
	" JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam"
	" JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace s ON s.oid = c.relnamespace"
	" JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]"
	" WHERE s.nspname = $1 AND c.relname = $2 AND a.attname = $3 AND m.amname = 'btree'"
	" AND i.indisvalid";

/* Around the question for the plan, each a statement of its own: the settings end with it. */
static const char check_begin[] = "BEGIN";
static const char check_planner[] =
	"SELECT set_config('enable_seqscan', 'off', true),"
	" set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)";
static const char check_rollback[] = "ROLLBACK";

#endif
