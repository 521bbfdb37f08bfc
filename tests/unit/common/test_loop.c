/* Timers, descriptors and signals on the loop. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "loop.h"

struct seen {
	struct loop *loop;
	struct loop_timer *timer;
	struct loop_fd *watch;
	int fd;
	int count;
	int until;
};

static void count_and_stop(void *arg)
{
	struct seen *seen = arg;
	if (++seen->count < seen->until)
		loop_timer_set(seen->timer, 100);
	else
		loop_stop(seen->loop);
}

static void a_timer_fires_once_for_each_set(void **state)
{
	(void)state;
	struct seen seen = { .loop = loop_new(), .until = 5 };
	seen.timer = loop_timer_new(seen.loop, count_and_stop, &seen);
	assert_false(loop_timer_pending(seen.timer));
	loop_timer_set(seen.timer, 50 * USEC_SEC);
	assert_true(loop_timer_pending(seen.timer));
	loop_timer_set(seen.timer, -1); /* moves it; below zero is now */
	loop_run(seen.loop);
	assert_int_equal(seen.count, 5);
	loop_timer_set(seen.timer, 1);
	loop_timer_cancel(seen.timer);
	assert_false(loop_timer_pending(seen.timer));
	loop_timer_free(seen.timer);
	loop_timer_free(NULL);
	loop_free(seen.loop);
}

static void on_ready(void *arg, bool readable, bool writable)
{
	struct seen *seen = arg;
	if (writable) {
		assert_int_equal(write(seen->fd, "x", 1), 1);
		loop_fd_want(seen->watch, false, false);
	}
	if (readable) {
		seen->count++;
		loop_stop(seen->loop);
	}
}

static void a_descriptor_is_watched_as_wanted(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	struct loop *loop = loop_new();
	struct seen writer = { .loop = loop, .fd = ends[1] }, reader = { .loop = loop };
	writer.watch = loop_fd_new(loop, ends[1], on_ready, &writer);
	reader.watch = loop_fd_new(loop, ends[0], on_ready, &reader);
	loop_fd_want(reader.watch, true, false);
	loop_fd_want(writer.watch, false, true);
	loop_run(loop);
	assert_int_equal(reader.count, 1);
	loop_run(loop); /* level-triggered: the byte is still there */
	assert_int_equal(reader.count, 2);
	loop_fd_free(reader.watch);
	loop_fd_free(writer.watch);
	loop_fd_free(NULL);
	loop_free(loop);
	close(ends[0]);
	close(ends[1]);
}

static void a_signal_is_an_event(void **state)
{
	(void)state;
	struct seen seen = { .loop = loop_new(), .until = 1 };
	struct loop_signal *watch = loop_signal_new(seen.loop, SIGUSR1, count_and_stop, &seen);
	assert_int_equal(kill(getpid(), SIGUSR1), 0);
	loop_run(seen.loop);
	assert_int_equal(seen.count, 1);
	loop_signal_free(watch);
	loop_free(seen.loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_timer_fires_once_for_each_set),
		cmocka_unit_test(a_descriptor_is_watched_as_wanted),
		cmocka_unit_test(a_signal_is_an_event),
	};
	return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
