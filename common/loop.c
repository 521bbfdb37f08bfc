/* The event loop over libevent. */
#include "loop.h"

#include <event2/event.h>
#include <stdlib.h>

#include "mem.h"

struct loop {
	struct event_base *base;
};

struct loop_timer {
	struct event *event;
	loop_fn *fn;
	void *arg;
};

struct loop_fd {
	struct event *event;
	struct loop *loop;
	int fd;
	short wanted;
	loop_fd_fn *fn;
	void *arg;
};

struct loop_signal {
	struct event *event;
	loop_fn *fn;
	void *arg;
};

struct loop *loop_new(void)
{
	struct loop *loop = mem_zero(sizeof(*loop));
	struct event_config *config = event_config_new();
	if (!config)
		abort();
	/* timers of a millisecond and less are our bread: no coarse clock */
	event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
	loop->base = event_base_new_with_config(config);
	event_config_free(config);
	if (!loop->base)
		abort();
	return loop;
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	event_base_free(loop->base);
	free(loop);
}

void loop_run(struct loop *loop)
{
	event_base_loop(loop->base, EVLOOP_NO_EXIT_ON_EMPTY);
}

void loop_stop(struct loop *loop)
{
	event_base_loopbreak(loop->base);
}

struct event_base *loop_base(struct loop *loop)
{
	return loop->base;
}

static struct event *event_make(struct loop *loop, int fd, short what, event_callback_fn fn,
				void *arg)
{
	struct event *event = event_new(loop->base, fd, what, fn, arg);
	if (!event)
		abort();
	return event;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	struct loop_timer *timer = arg;
	timer->fn(timer->arg);
}

struct loop_timer *loop_timer_new(struct loop *loop, loop_fn *fn, void *arg)
{
	struct loop_timer *timer = mem_zero(sizeof(*timer));
	timer->fn = fn;
	timer->arg = arg;
	timer->event = event_make(loop, -1, 0, on_timer, timer);
	return timer;
}

void loop_timer_free(struct loop_timer *timer)
{
	if (!timer)
		return;
	event_free(timer->event);
	free(timer);
}

void loop_timer_set(struct loop_timer *timer, usec_t delay)
{
	if (delay < 0)
		delay = 0;
	const struct timeval time = { .tv_sec = (time_t)(delay / USEC_SEC),
				      .tv_usec = (suseconds_t)(delay % USEC_SEC) };
	if (event_add(timer->event, &time) != 0)
		abort();
}

void loop_timer_cancel(struct loop_timer *timer)
{
	event_del(timer->event);
}

bool loop_timer_pending(const struct loop_timer *timer)
{
	return event_pending(timer->event, EV_TIMEOUT, NULL) != 0;
}

static void on_fd(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	struct loop_fd *watch = arg;
	watch->fn(watch->arg, what & EV_READ, what & EV_WRITE);
}

struct loop_fd *loop_fd_new(struct loop *loop, int fd, loop_fd_fn *fn, void *arg)
{
	struct loop_fd *watch = mem_zero(sizeof(*watch));
	watch->loop = loop;
	watch->fd = fd;
	watch->fn = fn;
	watch->arg = arg;
	watch->event = event_make(loop, fd, EV_PERSIST, on_fd, watch);
	return watch;
}

void loop_fd_free(struct loop_fd *watch)
{
	if (!watch)
		return;
	event_free(watch->event);
	free(watch);
}

void loop_fd_want(struct loop_fd *watch, bool readable, bool writable)
{
	short wanted = (short)((readable ? EV_READ : 0) | (writable ? EV_WRITE : 0));
	if (wanted == watch->wanted)
		return;
	event_del(watch->event);
	watch->wanted = wanted;
	if (!wanted)
		return;
	if (event_assign(watch->event, watch->loop->base, watch->fd, (short)(wanted | EV_PERSIST),
			 on_fd, watch) != 0 ||
	    event_add(watch->event, NULL) != 0)
		abort();
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
	(void)number;
	(void)what;
	struct loop_signal *signal = arg;
	signal->fn(signal->arg);
}

struct loop_signal *loop_signal_new(struct loop *loop, int number, loop_fn *fn, void *arg)
{
	struct loop_signal *signal = mem_zero(sizeof(*signal));
	signal->fn = fn;
	signal->arg = arg;
	signal->event = event_make(loop, number, EV_SIGNAL | EV_PERSIST, on_signal, signal);
	if (event_add(signal->event, NULL) != 0)
		abort();
	return signal;
}

void loop_signal_free(struct loop_signal *signal)
{
	if (!signal)
		return;
	event_free(signal->event);
	free(signal);
}
