/* The event loop: a thin face over libevent, one a program. Callbacks run on the one thread, one
 * after the other. An object may be freed inside its own callback, never inside one of its
 * caller's. */
#ifndef COUNTERFOIL_LOOP_H
#define COUNTERFOIL_LOOP_H

#include <stdbool.h>

#include "usec.h"

struct event_base;
struct loop;
struct loop_timer;
struct loop_fd;
struct loop_signal;

typedef void loop_fn(void *arg);
typedef void loop_fd_fn(void *arg, bool readable, bool writable);

struct loop *loop_new(void);
void loop_free(struct loop *loop); /* after everything made on it */
void loop_run(struct loop *loop);  /* until loop_stop() */
void loop_stop(struct loop *loop);
struct event_base *loop_base(struct loop *loop);

/* One-shot timers: set again to repeat. Setting a set timer moves it. A delay of 0 fires on the
 * next turn of the loop. */
struct loop_timer *loop_timer_new(struct loop *loop, loop_fn *fn, void *arg);
void loop_timer_free(struct loop_timer *timer); /* NULL is fine */
void loop_timer_set(struct loop_timer *timer, usec_t delay);
void loop_timer_cancel(struct loop_timer *timer);
bool loop_timer_pending(const struct loop_timer *timer);

/* Watches a descriptor, level-triggered and lasting. The descriptor stays the caller's. */
struct loop_fd *loop_fd_new(struct loop *loop, int fd, loop_fd_fn *fn, void *arg);
void loop_fd_free(struct loop_fd *watch); /* before the descriptor is closed; NULL is fine */
void loop_fd_want(struct loop_fd *watch, bool readable, bool writable);

struct loop_signal *loop_signal_new(struct loop *loop, int number, loop_fn *fn, void *arg);
void loop_signal_free(struct loop_signal *signal);

#endif
