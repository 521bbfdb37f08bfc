/* Health over HTTP. */
#include "health.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http_server.h"
#include "json.h"
#include "mem.h"

#define LOOK_EVERY (5 * USEC_SEC)
#define LOOK_SHARE 20              /* a look may take so small a part of the time ... */
#define LOOK_MAX   (30 * USEC_SEC) /* ... but is made so often in any case */
#define LOOK_LATE  (45 * USEC_SEC) /* beyond the limit of what is looked for */

struct health {
	const struct metrics *metrics;
	struct health_events events;
	struct http_server *server;
};

struct health_report {
	struct buf failed; /* names, a comma between them */
	struct buf checks;
};

/* --- /readyz --- */

void health_say(struct health_report *report, const char *check, bool good, const char *format, ...)
{
	char detail[768]; /* as much as an error says */
	va_list args;
	va_start(args, format);
	(void)vsnprintf(detail, sizeof(detail), format, args);
	va_end(args);
	if (!good)
		buf_addf(&report->failed, "%s\"%s\"", report->failed.length ? "," : "", check);
	buf_addf(&report->checks, "%s{\"check\":\"%s\",\"ok\":%s,\"detail\":\"",
		 report->checks.length ? "," : "", check, good ? "true" : "false");
	json_escape(&report->checks, detail, strlen(detail));
	buf_add_text(&report->checks, "\"}");
}

usec_t health_look_again(usec_t limit, usec_t took)
{
	usec_t every = limit / 2 < LOOK_EVERY ? limit / 2 : LOOK_EVERY;
	usec_t share = took < LOOK_MAX / LOOK_SHARE ? took * LOOK_SHARE : LOOK_MAX;
	return share > every ? share : every;
}

void health_say_progress(struct health_report *report, const struct health_wait *wait,
			 const char *what, usec_t limit, usec_t now)
{
	static const char check[] = "progress";
	double oldest = (double)wait->age / (double)USEC_SEC;
	if (wait->seen_at == 0)
		health_say(report, check, false, "not known yet");
	else if (now - wait->seen_at > limit + LOOK_LATE)
		health_say(report, check, false, "not known for %lld s",
			   (long long)((now - wait->seen_at) / USEC_SEC));
	else if (wait->age == 0)
		health_say(report, check, true, "no %s is waiting", what);
	else
		health_say(report, check, wait->age <= limit,
			   "the oldest %s waits for %.1f s, the limit is %.1f s", what, oldest,
			   (double)limit / (double)USEC_SEC);
}

static void say_ready(const struct health *health, struct http_reply *reply)
{
	struct health_report report = { 0 };
	health->events.check(health->events.arg, &report);
	bool ready = report.failed.length == 0;
	reply->status = ready ? 200 : 503;
	reply->content_type = "application/json";
	buf_addf(&reply->body, "{\"ready\":%s,\"failed\":[%s],\"checks\":[%s]}\n",
		 ready ? "true" : "false", buf_text(&report.failed), buf_text(&report.checks));
	buf_done(&report.failed);
	buf_done(&report.checks);
}

/* --- /metrics --- */

static void say_metrics(const struct health *health, struct http_reply *reply)
{
	health->events.measure(health->events.arg);
	reply->content_type = METRICS_CONTENT_TYPE;
	metrics_write(health->metrics, &reply->body);
}

/* --- the whole --- */

static bool serve(void *arg, const char *path, struct http_reply *reply)
{
	const struct health *health = arg;
	if (strcmp(path, "/livez") == 0)
		buf_add_text(&reply->body, "ok\n");
	else if (strcmp(path, "/readyz") == 0)
		say_ready(health, reply);
	else if (strcmp(path, "/metrics") == 0)
		say_metrics(health, reply);
	else
		return false;
	return true;
}

bool health_new(struct loop *loop, const char *address, const struct metrics *metrics,
		const struct health_events *events, struct err *err, struct health **health_r)
{
	struct health *health = mem_zero(sizeof(*health));
	if (!http_server_new(loop, address, serve, health, err, &health->server)) {
		free(health);
		return false;
	}
	health->metrics = metrics;
	health->events = *events;
	*health_r = health;
	return true;
}

void health_free(struct health *health)
{
	if (!health)
		return;
	http_server_free(health->server);
	free(health);
}

const char *health_address(const struct health *health)
{
	return http_server_address(health->server);
}
