/* What /readyz says of the checks, and how the age of what waits is judged. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "health.h"
#include "mem.h"

#define LIMIT (60 * USEC_SEC)
#define NOW   (1000 * USEC_SEC)

/* A service with one check. */
struct service {
	struct loop *loop;
	struct loop_timer *look;
	struct metrics *metrics;
	struct series *measured;
	struct health *health;
	struct health_wait wait;
	bool other; /* is good */
	int fd;
	struct buf got;
};

static void on_check(void *arg, struct health_report *report)
{
	const struct service *service = arg;
	health_say(report, "other", service->other, "says \"%s\"", service->other ? "yes" : "no");
	health_say_progress(report, &service->wait, "row", LIMIT, NOW);
}

static void on_measure(void *arg)
{
	const struct service *service = arg;
	series_set(service->measured, 5);
}

static void on_look(void *arg)
{
	struct service *service = arg;
	char data[4096];
	ssize_t got;
	while ((got = recv(service->fd, data, sizeof(data), MSG_DONTWAIT)) > 0)
		buf_add(&service->got, data, (size_t)got);
	if (got == 0)
		loop_stop(service->loop);
	else
		loop_timer_set(service->look, USEC_MS);
}

static int make(void **state)
{
	struct service *service = mem_zero(sizeof(*service));
	const struct health_events events = { on_check, on_measure, service };
	struct err err;
	service->loop = loop_new();
	service->look = loop_timer_new(service->loop, on_look, service);
	service->metrics = metrics_new();
	service->measured =
		metric_series(metrics_gauge(service->metrics, "n", "N.", NULL, NULL), NULL, NULL);
	service->other = true;
	if (!health_new(service->loop, "127.0.0.1:0", service->metrics, &events, &err,
			&service->health))
		fail_msg("%s", err.text);
	*state = service;
	return 0;
}

static int drop(void **state)
{
	struct service *service = *state;
	health_free(service->health);
	metrics_free(service->metrics);
	loop_timer_free(service->look);
	loop_free(service->loop);
	buf_done(&service->got);
	free(service);
	return 0;
}

/* The status, and the body behind it: "200 ok\n". */
static const char *ask(struct service *service, const char *path)
{
	const char *port = strrchr(health_address(service->health), ':') + 1;
	const struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)strtol(port, NULL, 10)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	char request[128];
	int length = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\n\r\n", path);
	service->fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(service->fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(send(service->fd, request, (size_t)length, 0), length);
	buf_clear(&service->got);
	loop_timer_set(service->look, 0);
	loop_run(service->loop);
	(void)close(service->fd);
	char *body = strstr(service->got.data, "\r\n\r\n");
	assert_non_null(body);
	memmove(service->got.data, service->got.data + strlen("HTTP/1.1 "), 4);
	memmove(service->got.data + 4, body + 4, strlen(body + 4) + 1);
	return service->got.data;
}

static void checks_are_listed(void **state)
{
	struct service *service = *state;
	service->wait = (struct health_wait){ .seen_at = NOW };
	assert_string_equal(ask(service, "/readyz"),
			    "200 {\"ready\":true,\"failed\":[],\"checks\":["
			    "{\"check\":\"other\",\"ok\":true,\"detail\":\"says \\\"yes\\\"\"},"
			    "{\"check\":\"progress\",\"ok\":true,\"detail\":\"no row is waiting\"}"
			    "]}\n");
	service->other = false;
	service->wait.age = LIMIT + 1500 * USEC_MS;
	assert_string_equal(
		ask(service, "/readyz"),
		"503 {\"ready\":false,\"failed\":[\"other\",\"progress\"],\"checks\":["
		"{\"check\":\"other\",\"ok\":false,\"detail\":\"says \\\"no\\\"\"},"
		"{\"check\":\"progress\",\"ok\":false,\"detail\":\"the oldest row waits "
		"for 61.5 s, the limit is 60.0 s\"}]}\n");
}

static void progress_is_an_age_that_is_known(void **state)
{
	struct service *service = *state;
	static const struct {
		struct health_wait wait;
		const char *status;
		const char *detail;
	} cases[] = {
		{ { 0, 0 }, "503", "\"not known yet\"" },
		{ { NOW, 0 }, "200", "\"no row is waiting\"" },
		{ { NOW, LIMIT }, "200", "waits for 60.0 s" },
		{ { NOW, LIMIT + 1 }, "503", "waits for 60.0 s" },
		{ { NOW - LIMIT, USEC_SEC }, "200", "waits for 1.0 s" },
		{ { NOW - 105 * USEC_SEC, 0 }, "200", "\"no row is waiting\"" },
		{ { NOW - 106 * USEC_SEC, 0 }, "503", "\"not known for 106 s\"" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		service->wait = cases[i].wait;
		const char *got = ask(service, "/readyz");
		assert_memory_equal(got, cases[i].status, 3);
		if (!strstr(got, cases[i].detail))
			fail_msg("case %zu: %s", i, got);
	}
}

static void looks_take_a_small_part_of_the_time(void **state)
{
	(void)state;
	assert_int_equal(health_look_again(LIMIT, 0), 5 * USEC_SEC);
	assert_int_equal(health_look_again(2 * USEC_SEC, USEC_MS), USEC_SEC);
	assert_int_equal(health_look_again(LIMIT, 500 * USEC_MS), 10 * USEC_SEC);
	assert_int_equal(health_look_again(LIMIT, USEC_HOUR), 30 * USEC_SEC);
	assert_int_equal(health_look_again(LIMIT, INT64_MAX / 2), 30 * USEC_SEC);
}

static void numbers_are_set_when_they_are_asked_for(void **state)
{
	struct service *service = *state;
	assert_string_equal(ask(service, "/metrics"), "200 # HELP counterfoil_n N.\n"
						      "# TYPE counterfoil_n gauge\n"
						      "counterfoil_n 5\n");
	assert_string_equal(ask(service, "/livez"), "200 ok\n");
	assert_string_equal(ask(service, "/"), "404 404 Not Found\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(checks_are_listed, make, drop),
		cmocka_unit_test_setup_teardown(progress_is_an_age_that_is_known, make, drop),
		cmocka_unit_test(looks_take_a_small_part_of_the_time),
		cmocka_unit_test_setup_teardown(numbers_are_set_when_they_are_asked_for, make,
						drop),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
