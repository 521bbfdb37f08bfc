/* Requests that are taken back, and many at a time. */
#include "http_world.h"

#include <sys/resource.h>

static void cancelled_before_sending(void **state)
{
	struct world *world = *state;
	char url[256];
	struct told told = { 0 };
	struct http_request request = plain_request("POST", url_of(world, "/ok", url, sizeof(url)));
	start(world, &told, &request);
	http_cancel(told.transfer);
	assert_int_equal(told.calls, 1);
	assert_int_equal(told.end, TRANSFER_ABORTED);
	assert_string_equal(told.transport, "aborted");
	/* and one that was refused, before it could say so */
	static const char *const bad[] = { "X: a\nb", NULL };
	request.headers = bad;
	told_clear(&told);
	start(world, &told, &request);
	http_cancel(told.transfer);
	assert_int_equal(told.end, TRANSFER_ABORTED);
	assert_int_equal(world->server->requests, 0);
	told_clear(&told);
}

static void cancel_it(void *arg)
{
	struct told *told = arg;
	if (told->transfer)
		http_cancel(told->transfer);
}

static void cancelled_after_sending(void **state)
{
	struct world *world = *state;
	char url[256];
	struct told told = { 0 };
	const struct http_request request =
		plain_request("POST", url_of(world, "/hang", url, sizeof(url)));
	world->server->on_request = cancel_it;
	world->server->arg = &told;
	start(world, &told, &request);
	finish(world);
	assert_int_equal(told.calls, 1);
	assert_int_equal(told.end, TRANSFER_CUT);
	assert_string_equal(told.transport, "aborted");
	assert_int_equal(world->server->requests, 1);
	world->server->on_request = NULL;
	post(world, "/ok", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 200);
	told_clear(&told);
}

struct turns {
	struct loop_timer *timer;
	struct told *told;
	int left;
};

static void on_turn(void *arg)
{
	struct turns *turns = arg;
	if (turns->left-- > 0)
		loop_timer_set(turns->timer, USEC_MS);
	else
		cancel_it(turns->told);
}

static void begin_turns(void *arg)
{
	struct turns *turns = arg;
	loop_timer_set(turns->timer, 0);
}

/* An answer that is there is not thrown away. */
static void cancelled_in_the_body(void **state)
{
	struct world *world = *state;
	char url[256];
	struct told told = { 0 };
	struct turns turns = { .told = &told, .left = 20 };
	turns.timer = loop_timer_new(world->loop, on_turn, &turns);
	const struct http_request request =
		plain_request("POST", url_of(world, "/body-hang", url, sizeof(url)));
	world->server->on_request = begin_turns;
	world->server->arg = &turns;
	start(world, &told, &request);
	finish(world);
	assert_int_equal(told.end, TRANSFER_DONE);
	assert_int_equal(told.status, 201);
	assert_true(told.truncated);
	loop_timer_free(turns.timer);
	told_clear(&told);
}

static void start_the_next(struct told *told)
{
	char url[256];
	const struct http_request request =
		plain_request("GET", url_of(told->world, "/ok", url, sizeof(url)));
	if (told->next)
		start(told->world, told->next, &request);
}

/* From inside done(), and on the connection that has just become free. */
static void one_starts_the_next(void **state)
{
	struct world *world = *state;
	struct told told[50] = { 0 };
	for (int i = 0; i < 50; i++) {
		told[i].then = start_the_next;
		told[i].next = i < 49 ? &told[i + 1] : NULL;
	}
	told[0].world = world;
	start_the_next(&(struct told){ .world = world, .next = &told[0] });
	finish(world);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(told[i].calls, 1);
		assert_int_equal(told[i].status, 200);
		told_clear(&told[i]);
	}
	assert_int_equal(world->server->accepted, 1);
}

static void cancel_the_next(struct told *told)
{
	cancel_it(told->next);
}

/* Many end in one turn of the loop; each takes another back, which may have ended as well. */
static void one_cancels_another(void **state)
{
	struct world *world = *state;
	struct told told[40] = { 0 };
	char url[256];
	const struct http_request request =
		plain_request("POST", url_of(world, "/all", url, sizeof(url)));
	world->server->at_once = 40;
	for (int i = 0; i < 40; i++) {
		told[i].then = cancel_the_next;
		told[i].next = &told[39 - i];
		start(world, &told[i], &request);
	}
	finish(world);
	for (int i = 0; i < 40; i++) {
		assert_int_equal(told[i].calls, 1);
		assert_true(told[i].end == TRANSFER_DONE || told[i].end == TRANSFER_CUT);
		told_clear(&told[i]);
	}
	assert_int_equal(world->server->requests, 40);
}

static int many(void)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur > 2200 ? 1000 : (int)(limit.rlim_cur - 200) / 2;
}

/* All in flight at the same time: the server answers none before it has them all. */
static void a_thousand_at_once(void **state)
{
	struct world *world = *state;
	const int count = many();
	struct told *told = mem_zero((size_t)count * sizeof(*told));
	char url[256];
	const struct http_request request =
		plain_request("POST", url_of(world, "/all", url, sizeof(url)));
	world->server->at_once = count;
	for (int i = 0; i < count; i++)
		start(world, &told[i], &request);
	finish(world);
	for (int i = 0; i < count; i++) {
		assert_int_equal(told[i].calls, 1);
		assert_int_equal(told[i].end, TRANSFER_DONE);
		assert_int_equal(told[i].status, 200);
		told_clear(&told[i]);
	}
	assert_int_equal(world->server->requests, count);
	free(told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cancelled_before_sending), TEST(cancelled_after_sending),
		TEST(cancelled_in_the_body),    TEST(one_starts_the_next),
		TEST(one_cancels_another),      TEST(a_thousand_at_once),
	};
	return cmocka_run_group_tests(tests, begin, NULL);
}
