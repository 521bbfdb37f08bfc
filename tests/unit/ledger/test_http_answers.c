/* What is an answer, and what is kept of it. */
#include "http_world.h"

/* Complete headers are an answer, whatever becomes of the body. */
static void a_spoilt_body_is_an_answer(void **state)
{
	struct world *world = *state;
	static const struct {
		const char *path;
		int status;
		const char *body;
	} rows[] = {
		{ "/body-cut", 200, "half" },
		{ "/body-hang", 201, "half" },
		{ "/chunk-broken", 200, "" },
	};
	struct told told = { 0 };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		post(world, rows[i].path, 300 * USEC_MS, &told);
		assert_int_equal(told.end, TRANSFER_DONE);
		assert_int_equal(told.status, rows[i].status);
		assert_true(told.truncated);
		assert_string_equal(told.transport, "");
		assert_string_equal(buf_text(&told.body), rows[i].body);
	}
	assert_int_equal(world->server->requests, 3);
	told_clear(&told);
}

/* Ten gigabytes: what is kept is kept, the rest is never read, and the connection is gone. */
static void a_huge_body_is_cut(void **state)
{
	struct world *world = *state;
	static const char *const paths[] = { "/huge-length", "/huge-chunked", "/huge-until-close" };
	struct told told = { 0 };
	for (size_t i = 0; i < 3; i++) {
		post(world, paths[i], 30 * USEC_SEC, &told);
		assert_int_equal(told.end, TRANSFER_DONE);
		assert_int_equal(told.status, 200);
		assert_true(told.truncated);
		assert_int_equal(told.body.length, ANSWER_MAX);
	}
	assert_true(world->server->sent < (size_t)64 * 1024 * 1024);
	assert_int_equal(world->server->accepted, 3);
	post(world, "/ok", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 200);
	told_clear(&told);
}

static void the_cap_is_exact(void **state)
{
	struct world *world = *state;
	char url[256];
	struct told told = { 0 };
	struct http_request request = plain_request("GET", url_of(world, "/ok", url, sizeof(url)));
	for (size_t cap = 0; cap <= 3; cap++) {
		request.answer_max = cap;
		told_clear(&told);
		start(world, &told, &request);
		finish(world);
		assert_int_equal(told.end, TRANSFER_DONE);
		assert_int_equal(told.truncated, cap < 2);
		assert_int_equal(told.body.length, cap < 2 ? cap : 2);
	}
	told_clear(&told);
}

static void headers_are_read(void **state)
{
	struct world *world = *state;
	struct told told = { 0 };
	post(world, "/later", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 503);
	assert_string_equal(told.retry_after, "120");
	assert_string_equal(told.date, "Sun, 06 Nov 1994 08:49:37 GMT");
	assert_true(told.replayed);
	assert_false(told.truncated);
	post(world, "/ok", 30 * USEC_SEC, &told);
	assert_string_equal(told.retry_after, "-");
	assert_false(told.replayed);
	told_clear(&told);
}

static void interim_answers_and_trailers_are_not_the_answer(void **state)
{
	struct world *world = *state;
	struct told told = { 0 };
	post(world, "/interim", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 200);
	assert_string_equal(told.retry_after, "-");
	assert_string_equal(buf_text(&told.head), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
	post(world, "/trailers", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 200);
	assert_string_equal(buf_text(&told.body), "ok");
	assert_string_equal(told.retry_after, "-");
	assert_false(told.replayed);
	post(world, "/empty-body", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 204);
	assert_false(told.truncated);
	assert_int_equal(world->server->accepted, 1);
	told_clear(&told);
}

/* L24: neither the key nor the secret travels. */
static void redirects_are_not_followed(void **state)
{
	struct world *world = *state;
	struct told told = { 0 };
	post(world, "/redirect", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 307);
	assert_int_equal(world->server->requests, 1);
	told_clear(&told);
}

static void a_417_is_not_sent_again(void **state)
{
	struct world *world = *state;
	char url[256];
	char *body = mem_zero(2 * 1024 * 1024); /* large enough for libcurl to wish for an Expect */
	struct told told = { 0 };
	struct http_request request =
		plain_request("POST", url_of(world, "/417", url, sizeof(url)));
	request.body = body;
	request.body_length = 2 * 1024 * 1024;
	start(world, &told, &request);
	free(body);
	finish(world);
	assert_int_equal(told.end, TRANSFER_DONE);
	assert_int_equal(told.status, 417);
	assert_int_equal(world->server->requests, 1);
	assert_null(strcasestr(buf_text(&world->server->last), "expect"));
	told_clear(&told);
}

static void some_answers_ask_for_a_fresh_connection(void **state)
{
	struct world *world = *state;
	struct told told = { 0 };
	post(world, "/421", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 421);
	post(world, "/425", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 425);
	post(world, "/ok", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 200);
	assert_int_equal(world->server->accepted, 3);
	told_clear(&told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_spoilt_body_is_an_answer),
		TEST(a_huge_body_is_cut),
		TEST(the_cap_is_exact),
		TEST(headers_are_read),
		TEST(interim_answers_and_trailers_are_not_the_answer),
		TEST(redirects_are_not_followed),
		TEST(a_417_is_not_sent_again),
		TEST(some_answers_ask_for_a_fresh_connection),
	};
	return cmocka_run_group_tests(tests, begin, NULL);
}
