/* The soft limit is often 1024, and as many requests may be in flight by default. */
#include "descriptors.h"

#include <sys/resource.h>

#include "sending/http_multi.h"

#define OWN 128 /* PostgreSQL, Kafka's brokers, health, files */

void descriptors_raise(const struct conf *conf, struct log *log)
{
	const rlim_t wanted = (rlim_t)conf->ledger.in_flight + HTTP_RESTING_MAX + OWN;
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur < wanted)
		log_warn(log,
			 "too few files may be open: raise LimitNOFILE, or lower ledger.in_flight",
			 LOG_INT("wanted", (int64_t)wanted),
			 LOG_INT("allowed", (int64_t)limit.rlim_max));
}
