/* A library to be preloaded: the wall clock of its process is wrong by as many seconds as the eight
 * bytes of $WRONG_CLOCK say, which may change at any time. Clocks that count from the boot are
 * right. (libfaketime does not know the C11 condition variables that librdkafka waits with.) */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

typedef int clock_gettime_fn(clockid_t clock, struct timespec *now);
typedef int cnd_timedwait_fn(cnd_t *condition, mtx_t *mutex, const struct timespec *until);

static clock_gettime_fn *real_clock_gettime;
static cnd_timedwait_fn *real_cnd_timedwait;
static const volatile int64_t *offset;

__attribute__((constructor)) static void begin(void)
{
	static const int64_t none;
	const char *path = getenv("WRONG_CLOCK");
	int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *map =
		file < 0 ? MAP_FAILED : mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, file, 0);
	if (path && map == MAP_FAILED)
		abort();
	offset = path ? map : &none;
	if (file >= 0)
		(void)close(file);
	*(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	*(void **)&real_cnd_timedwait = dlsym(RTLD_NEXT, "cnd_timedwait");
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (!offset)
		begin(); /* another library's constructor was first */
	int status = real_clock_gettime(clock, now);
	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
		now->tv_sec += *offset;
	return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec precise;
	(void)zone;
	(void)clock_gettime(CLOCK_REALTIME, &precise);
	now->tv_sec = precise.tv_sec;
	now->tv_usec = precise.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *now)
{
	struct timespec precise;
	(void)clock_gettime(CLOCK_REALTIME_COARSE, &precise);
	if (now)
		*now = precise.tv_sec;
	return precise.tv_sec;
}

int timespec_get(struct timespec *now, int base)
{
	(void)clock_gettime(CLOCK_REALTIME, now);
	return base;
}

/* The kernel waits by the right clock. */
int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex,
		  const struct timespec *restrict until)
{
	struct timespec right = *until;
	right.tv_sec -= *offset;
	return real_cnd_timedwait(condition, mutex, &right);
}
