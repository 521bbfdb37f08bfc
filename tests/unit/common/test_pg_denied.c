/* What is said of a right that is missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "pg/pg_private.h"

#define INTAKE                                                                                     \
	"WITH x AS (SELECT nextval('counterfoil.effect_id_seq') AS id FROM counterfoil.effect e)," \
	" i AS (INSERT INTO counterfoil.effect (id) SELECT id FROM x ON CONFLICT DO NOTHING"       \
	"   RETURNING id), s AS (INSERT INTO counterfoil.effect_state (id) SELECT id FROM i),"     \
	" u AS (INSERT INTO counterfoil.unmatched AS u (n) SELECT 1 ON CONFLICT (topic) DO UPDATE" \
	"   SET n = 2), d AS (DELETE FROM counterfoil.topic_awaited a WHERE a.topic = 't')"        \
	" SELECT counterfoil.forget_audit(1, 2), (SELECT id FROM counterfoil.operation o"          \
	"   WHERE o.id = 1 FOR UPDATE SKIP LOCKED) FROM counterfoil.lease"

static const struct {
	const char *text, *sql, *remedy; /* NULL: none */
} cases[] = {
	{ "permission denied for table effect", INTAKE, "SELECT, INSERT ON counterfoil.effect" },
	{ "permission denied for table effect_state", INTAKE,
	  "INSERT ON counterfoil.effect_state" },
	{ "permission denied for table unmatched", INTAKE,
	  "SELECT, INSERT, UPDATE ON counterfoil.unmatched" },
	{ "permission denied for table topic_awaited", INTAKE,
	  "SELECT, DELETE ON counterfoil.topic_awaited" },
	{ "permission denied for table operation", INTAKE,
	  "SELECT, UPDATE ON counterfoil.operation" },
	{ "permission denied for table lease", INTAKE, "SELECT ON counterfoil.lease" },
	{ "permission denied for sequence effect_id_seq", INTAKE,
	  "USAGE ON SEQUENCE counterfoil.effect_id_seq" },
	{ "permission denied for function forget_audit", INTAKE,
	  "EXECUTE ON FUNCTION counterfoil.forget_audit" },
	{ "permission denied for schema counterfoil", INTAKE, "USAGE ON SCHEMA counterfoil" },
	/* another language */
	{ "keine Berechtigung f\xc3\xbcr Tabelle \xc2\xbb"
	  "lease\xc2\xab",
	  INTAKE, "SELECT ON counterfoil.lease" },
	{ "droit refus\xc3\xa9 pour la table \xc2\xab lease \xc2\xbb", INTAKE,
	  "SELECT ON counterfoil.lease" },
	/* a mapped table */
	{ "permission denied for table outboxevent",
	  "DELETE FROM \"public\".\"outboxevent\" o WHERE o.id = 1",
	  "SELECT, DELETE ON public.outboxevent" },
	{ "permission denied for table outboxevent",
	  "UPDATE public.outboxevent SET published_at = now()",
	  "SELECT, UPDATE ON public.outboxevent" },
	{ "permission denied for schema shop", "SELECT FROM \"shop\".\"box\"",
	  "USAGE ON SCHEMA shop" },
	/* the column of an alias is no table */
	{ "permission denied for table effect",
	  "SELECT k.effect FROM counterfoil.effect_state x, counterfoil.effect k",
	  "SELECT ON counterfoil.effect" },
	{ "permission denied for table effect", "SELECT k.effect FROM counterfoil.known k", NULL },
	/* a part of another name, and what the statement only calls */
	{ "permission denied for table effect", "SELECT FROM counterfoil.effect_state", NULL },
	{ "permission denied for table installation",
	  "SELECT FROM counterfoil.check_installation($1)", NULL },
	{ "permission denied for function pg_control_system",
	  "SELECT FROM counterfoil.check_installation($1)", NULL },
	{ "permission denied for schema counterfoil", "CREATE TABLE counterfoil.x ()", NULL },
	{ "", INTAKE, NULL },
	{ "permission denied", "", NULL },
};

static void the_remedy_is_named(void **state)
{
	char remedy[320], expected[320];
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const bool known = pg_denied_remedy(cases[i].text, cases[i].sql, "Shop", remedy,
						    sizeof(remedy));
		if (!cases[i].remedy) {
			assert_false(known);
			continue;
		}
		if (!known)
			fail_msg("%s", cases[i].text);
		(void)snprintf(expected, sizeof(expected), "GRANT %s TO \"Shop\"", cases[i].remedy);
		assert_string_equal(remedy, expected);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(the_remedy_is_named) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
