/* Fairness among tenants: whose turn it is, against a simulated table; weights, caps. */
#include "execution/fairness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TENANTS  8
#define FOREVER  1000000
#define WALK_MAX 1000

/* --- what a claim does, on a table of counts
 * ------------------------------------------------------
 */

struct table {
	const char *names[TENANTS]; /* in their order */
	int64_t due[TENANTS];
	int64_t weights[TENANTS];
	int64_t got[TENANTS]; /* in all */
	size_t count;
	size_t claims;
};

static int64_t weight_of(const struct table *table, const struct turn *turn, size_t i)
{
	const bool begun = turn->credit > 0 && strcmp(table->names[i], buf_text(&turn->first)) == 0;
	return begun ? turn->credit : table->weights[i];
}

/* all: every tenant was looked at */
static int64_t share_of(int64_t rows, int64_t weight, int64_t sum, bool all)
{
	const int64_t share = (rows * weight + sum - 1) / sum;
	return all && share > weight ? share : weight;
}

/* As SQL_CLAIM: tenants from `first` on until more than `rows` of them are live, or `most` were
 * looked at; then their shares, in their order, until there are `rows`. */
static struct claim_walk walk_table(struct table *table, const struct turn *turn, int64_t rows,
				    size_t most)
{
	struct claim_walk walk = { .ended = true };
	size_t walked[TENANTS], count = 0;
	int64_t live = 0, sum = 0, left = rows;
	for (size_t i = 0; i < table->count; i++) {
		if (strcmp(table->names[i], buf_text(&turn->first)) < 0)
			continue;
		if (count == most || live > rows) {
			walk.ended = false;
			break;
		}
		walked[count++] = i;
		walk.walked = table->names[i];
		live += table->due[i] > 0;
		sum += table->due[i] > 0 ? weight_of(table, turn, i) : 0;
	}
	const bool all = walk.ended && turn->first.length == 0;
	for (size_t k = 0; k < count && left > 0; k++) {
		const size_t i = walked[k];
		const int64_t weight = weight_of(table, turn, i);
		const int64_t share = table->due[i] ? share_of(rows, weight, sum, all) : 0;
		int64_t got = share < table->due[i] ? share : table->due[i];
		got = got < left ? got : left;
		if (got == 0)
			continue;
		walk.more |= got == share;
		walk.served = table->names[i];
		walk.got = got;
		walk.weight = weight;
		table->due[i] -= got;
		table->got[i] += got;
		left -= got;
	}
	walk.cut = left == 0;
	table->claims++;
	return walk;
}

/* Fills `slots`, as a lane does: it goes on while it is told to. */
static void fill(struct table *table, struct turn *turn, int64_t slots, size_t most)
{
	bool again = true;
	while (again && slots > 0) {
		int64_t before = 0, after = 0;
		for (size_t i = 0; i < table->count; i++)
			before += table->got[i];
		const struct claim_walk walk = walk_table(table, turn, slots, most);
		again = turn_next(turn, &walk);
		for (size_t i = 0; i < table->count; i++)
			after += table->got[i];
		slots -= after - before;
	}
}

/* --- tables --------------------------------------------------------------------------------------
 */

struct scene {
	const char *what;
	int64_t due[TENANTS], weights[TENANTS];
	size_t count;
	int64_t slots;
	int rounds;
	int64_t got[TENANTS]; /* at the end */
	size_t claims;        /* 0: any number */
};

static const struct scene scenes[] = {
	{ "nobody", { 0 }, { 1 }, 1, 5, 1, { 0 }, 1 },
	{ "one", { 7 }, { 1 }, 1, 5, 2, { 7 }, 0 },
	{ "one, one slot: a claim a key", { FOREVER }, { 1 }, 1, 1, 10, { 10 }, 10 },
	{ "one, many slots", { FOREVER }, { 1 }, 1, 50, 10, { 500 }, 10 },
	{ "in turn", { FOREVER, FOREVER }, { 1, 1 }, 2, 1, 10, { 5, 5 }, 0 },
	{ "in turn, two slots", { FOREVER, FOREVER }, { 1, 1 }, 2, 2, 10, { 10, 10 }, 10 },
	{ "a single key", { FOREVER, 1 }, { 1, 1 }, 2, 1, 2, { 1, 1 }, 0 },
	{ "a single key, behind", { 1, FOREVER }, { 1, 1 }, 2, 1, 2, { 1, 1 }, 0 },
	{ "what is left over", { 100, 1, 1 }, { 1, 1, 1 }, 3, 50, 1, { 48, 1, 1 }, 0 },
	{ "weights, one slot", { FOREVER, FOREVER }, { 3, 1 }, 2, 1, 40, { 30, 10 }, 0 },
	{ "weights, two slots", { FOREVER, FOREVER }, { 3, 1 }, 2, 2, 40, { 60, 20 }, 0 },
	{ "weights, many slots", { FOREVER, FOREVER }, { 3, 1 }, 2, 40, 10, { 300, 100 }, 0 },
	{ "a weight that is not used up", { 1, FOREVER }, { 9, 1 }, 2, 1, 10, { 1, 9 }, 0 },
};

static const char *const names[TENANTS] = { "", "a", "aa", "b", "c", "d", "e", "f" };

static struct table table_of(const struct scene *scene)
{
	struct table table = { .count = scene->count };
	memcpy(table.names, names, sizeof(names));
	memcpy(table.due, scene->due, sizeof(table.due));
	memcpy(table.weights, scene->weights, sizeof(table.weights));
	return table;
}

static void shares_are_fair(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		const struct scene *scene = &scenes[i];
		struct table table = table_of(scene);
		struct turn turn = { 0 };
		for (int round = 0; round < scene->rounds; round++)
			fill(&table, &turn, scene->slots, WALK_MAX);
		for (size_t k = 0; k < scene->count; k++)
			if (table.got[k] != scene->got[k])
				fail_msg("%s: tenant %zu got %lld", scene->what, k,
					 (long long)table.got[k]);
		if (scene->claims && table.claims != scene->claims)
			fail_msg("%s: %zu claims", scene->what, table.claims);
		turn_done(&turn);
	}
}

/* --- whatever the numbers are --------------------------------------------------------------------
 */

static uint32_t draw(uint32_t *seed, uint32_t below)
{
	*seed = *seed * 1664525 + 1013904223;
	return (*seed >> 8) % below;
}

/* Tenants that always have due keys get them by their weights, however many slots there are; no
 * more tenants than that need to be looked at at a time. */
static void nobody_is_forgotten(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 300; seed++) {
		uint32_t random = seed;
		struct table table = { .count = 1 + draw(&random, TENANTS) };
		const int64_t slots = 1 + draw(&random, 12);
		const size_t most = (size_t)slots + draw(&random, 4);
		struct turn turn = { 0 };
		int64_t all = 0, sum = 0;
		memcpy(table.names, names, sizeof(names));
		for (size_t i = 0; i < table.count; i++) {
			table.due[i] = FOREVER;
			table.weights[i] = 1 + draw(&random, 4);
			sum += table.weights[i];
		}
		for (int round = 0; round < 600; round++)
			fill(&table, &turn, slots, most);
		for (size_t i = 0; i < table.count; i++)
			all += table.got[i];
		for (size_t i = 0; i < table.count; i++) {
			const double fair = (double)(all * table.weights[i]) / (double)sum;
			if ((double)table.got[i] < 0.5 * fair - 12)
				fail_msg("seed %u: %lld of %.0f", seed, (long long)table.got[i],
					 fair);
		}
		turn_done(&turn);
	}
}

/* Once a tenant has a due key, it has it in flight before any other tenant had twice its turn. */
static void a_single_key_waits_for_one_round(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 300; seed++) {
		uint32_t random = seed;
		struct table table = { .count = 2 + draw(&random, TENANTS - 1) };
		const size_t single = draw(&random, (uint32_t)table.count);
		struct turn turn = { 0 };
		size_t rounds = 0;
		memcpy(table.names, names, sizeof(names));
		for (size_t i = 0; i < table.count; i++) {
			table.due[i] = i == single ? 0 : FOREVER;
			table.weights[i] = 1;
		}
		for (uint32_t i = draw(&random, 20); i > 0; i--)
			fill(&table, &turn, 1, WALK_MAX);
		table.due[single] = 1;
		while (table.due[single] > 0) {
			fill(&table, &turn, 1, WALK_MAX);
			assert_true(++rounds <= table.count);
		}
		turn_done(&turn);
	}
}

/* --- the floor -----------------------------------------------------------------------------------
 */

#define BOOT (1000 * USEC_SEC)

static void see(struct turn *turn, usec_t floor)
{
	const struct claim_walk walk = { .ended = true, .floor = floor };
	(void)turn_next(turn, &walk);
}

static void a_walk_begins_at_the_floor(void **state)
{
	(void)state;
	struct turn turn = { 0 };
	assert_int_equal(turn_floor(&turn, BOOT), 0);
	see(&turn, 5);
	assert_int_equal(turn_floor(&turn, BOOT + 1), 5);
	see(&turn, 7);
	assert_int_equal(turn_floor(&turn, BOOT + 2), 7);
	see(&turn, 6); /* what came back is in sight again */
	assert_int_equal(turn_floor(&turn, BOOT + 3), 6);
	turn_done(&turn);
}

/* Not for ever: a second after the last that began without it another one does. */
static void now_and_then_it_looks_at_all(void **state)
{
	(void)state;
	struct turn turn = { 0 };
	assert_int_equal(turn_floor(&turn, BOOT), 0);
	see(&turn, 5);
	assert_int_equal(turn_floor(&turn, BOOT + USEC_SEC - 1), 5);
	assert_int_equal(turn_floor(&turn, BOOT + USEC_SEC), 0);
	assert_int_equal(turn_floor(&turn, BOOT + USEC_SEC + 1), 5);
	turn_done(&turn);
}

/* A claim that is on its way has not seen them. */
static void old_keys_are_looked_for_at_once(void **state)
{
	(void)state;
	struct turn turn = { 0 };
	assert_int_equal(turn_floor(&turn, BOOT), 0);
	see(&turn, 5);
	assert_int_equal(turn_floor(&turn, BOOT + 1), 5);
	turn_look_at_all(&turn);
	see(&turn, 5);
	assert_int_equal(turn_floor(&turn, BOOT + 2), 0);
	see(&turn, 5);
	assert_int_equal(turn_floor(&turn, BOOT + 3), 5);
	turn_done(&turn);
}

/* It is that of the first tenant of all. */
static void others_have_no_floor(void **state)
{
	(void)state;
	struct turn turn = { 0 };
	assert_int_equal(turn_floor(&turn, BOOT), 0);
	const struct claim_walk cut = {
		.cut = true, .served = "", .got = 1, .weight = 1, .walked = "a", .floor = 5
	};
	assert_false(turn_next(&turn, &cut));
	assert_int_equal(turn_floor(&turn, BOOT + 1), 0);
	const struct claim_walk end = { .ended = true, .walked = "a", .floor = 9 };
	assert_true(turn_next(&turn, &end));
	assert_int_equal(turn_floor(&turn, BOOT + 2), 5);
	turn_done(&turn);
}

/* --- the tenants of the configuration ------------------------------------------------------------
 */

static void caps_are_counted(void **state)
{
	(void)state;
	char b[] = "b", a[] = "a", none[] = "";
	struct conf_tenant list[] = { { b, 1, 2 }, { a, 5, 0 }, { none, 1, 0 } };
	const struct conf conf = { .tenants = list, .tenant_count = 3 };
	struct tenants *tenants = tenants_new(&conf);
	const size_t capped = tenants_find(tenants, "b");
	assert_true(tenants_capped(tenants));
	assert_int_equal(tenants_find(tenants, "c"), TENANT_OTHER);
	assert_int_equal(tenants_share(tenants, tenants_find(tenants, "a")).weight, 5);
	assert_int_equal(tenants_share(tenants, tenants_find(tenants, "")).room, USEC_NEVER);
	assert_int_equal(tenants_share(tenants, capped).room, 2);
	for (int64_t room = 1; room >= -1; room--) {
		tenants_take(tenants, capped);
		assert_int_equal(tenants_share(tenants, capped).room, room > 0 ? room : 0);
	}
	for (int64_t i = 0; i < 3; i++)
		tenants_put(tenants, capped);
	assert_int_equal(tenants_share(tenants, capped).room, 2);
	tenants_take(tenants, TENANT_OTHER);
	tenants_put(tenants, TENANT_OTHER);
	tenants_free(tenants);
}

static void without_tenants_nothing_is_counted(void **state)
{
	(void)state;
	const struct conf conf = { 0 };
	struct tenants *tenants = tenants_new(&conf);
	assert_false(tenants_capped(tenants));
	assert_int_equal(tenants_count(tenants), 0);
	assert_int_equal(tenants_find(tenants, ""), TENANT_OTHER);
	tenants_free(tenants);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_fair),
		cmocka_unit_test(nobody_is_forgotten),
		cmocka_unit_test(a_single_key_waits_for_one_round),
		cmocka_unit_test(a_walk_begins_at_the_floor),
		cmocka_unit_test(now_and_then_it_looks_at_all),
		cmocka_unit_test(old_keys_are_looked_for_at_once),
		cmocka_unit_test(others_have_no_floor),
		cmocka_unit_test(caps_are_counted),
		cmocka_unit_test(without_tenants_nothing_is_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
