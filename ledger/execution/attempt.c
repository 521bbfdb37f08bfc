/* Attempts. Whatever an attempt comes to, it leaves through conclude(), which makes its result.
 *
 *   claimed --its claim is its marker--> sending --answer--> concluded
 *      \--at_most_once--> marking --set--> sending
 *                            \--not set, too late, taken back--> concluded, nothing sent */
#include "attempt.h"

#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "mem.h"
#include "rules/profile.h"
#include "rules/webhook.h"
#include "sending/bodies.h"
#include "sending/mail_start.h"
#include "utf8.h"

#define METHOD_MAX    15
#define REFUSED_AGAIN USEC_SEC       /* a key whose marker was refused is claimed again no sooner */
#define SHADOW_AGAIN  (5 * USEC_MIN) /* nor one that is real, while nothing is sent */

/* A copy of a claim_request, for an attempt that cannot send at once. */
struct kept_request {
	char *url, *headers, *body;
	size_t body_length;
};

struct attempt {
	struct attempt *prev, *next;
	struct attempts *attempts;
	const struct target *target;
	size_t tenant; /* see struct claim */
	struct key key;
	int64_t bytes;   /* of its body */
	usec_t asked_at; /* boot clock at the sending of the claim */
	usec_t started;  /* the same clock */
	bool probe;
	char method[METHOD_MAX + 1];
	char *provider_key;
	char *key_header;                  /* what stands before the key */
	const struct predicate *predicate; /* of a 2xx; NULL: each means yes */
	bool emits;
	char *emit_fault;          /* NULL: none */
	usec_t until;              /* no byte leaves later; the same clock */
	struct mark *mark;         /* while the marker is being set */
	struct kept_request *kept; /* the same */
	struct http_transfer *transfer;
	struct smtp_transfer *mail; /* instead */
};

struct attempts {
	const struct conf *conf;
	const struct rules *rules;
	const struct claim_plan *plans;
	struct targets *targets;
	struct markers *markers;
	struct results *results;
	struct meter *meter;
	struct attempts_events events;
	struct loop *loop;
	struct http *http;
	struct bodies *bodies;
	struct attempt *first;
	size_t count;
	int64_t bytes;
};

/* --- the list of what runs --- */

static void add(struct attempts *attempts, struct attempt *attempt)
{
	attempt->next = attempts->first;
	if (attempt->next)
		attempt->next->prev = attempt;
	attempts->first = attempt;
	attempts->count++;
	attempts->bytes += attempt->bytes;
}

static void take_out(struct attempts *attempts, struct attempt *attempt)
{
	if (attempt->prev)
		attempt->prev->next = attempt->next;
	else
		attempts->first = attempt->next;
	if (attempt->next)
		attempt->next->prev = attempt->prev;
	attempts->count--;
	attempts->bytes -= attempt->bytes;
}

/* --- from an answer to a result --- */

/* The database's wall clock: that of the claim, and what has passed here since its sending. It is
 * never behind, so that no window seems longer than it is. */
static usec_t database_time(const struct attempt *attempt, usec_t boot)
{
	return attempt->key.since + (boot - attempt->asked_at);
}

static uint64_t draw(void)
{
	uint64_t random;
	arc4random_buf(&random, sizeof(random));
	return random;
}

/* More may have been read than is kept. */
static void take_answer(struct result *result, const struct attempt *attempt,
			const struct http_answer *answer)
{
	const struct attempts *attempts = attempt->attempts;
	const size_t most = (size_t)attempts->conf->ledger.response_keep;
	const size_t length = answer->body_length < most ? answer->body_length : most;
	result->status = answer->status;
	result->curl_code = answer->curl_code;
	result->took = answer->took;
	result->truncated = answer->truncated || length < answer->body_length;
	buf_add(&result->head, answer->head, answer->head_length);
	buf_add(&result->body, answer->body, length);
	if (answer->error[0] && utf8_valid(answer->error, strlen(answer->error)))
		result->error = mem_text(answer->error);
	if (result->outcome == OUTCOME_APPLIED)
		result->provider_id = bodies_provider_id(attempts->bodies, attempt->target, answer);
}

/* Sent again with the same key, inside its window, it would only come back. */
static bool is_stored_error(const struct verdict *verdict)
{
	if (verdict->outcome == OUTCOME_APPLIED)
		return false;
	return verdict->settles_key || verdict->replayed || verdict->outcome == OUTCOME_MISMATCH;
}

/* What follows from the end of a key. What a shadow would emit could start what is real. */
static void take_events(struct result *result, struct attempt *attempt)
{
	const enum effect_state state = result->step.state;
	result->has_letter = state == EFFECT_DEAD;
	if (result->has_letter)
		key_letter(&result->key, attempt->attempts->rules, &result->letter);
	if (state != EFFECT_COMPLETED || result->outcome == OUTCOME_SHADOW)
		return;
	result->emit_fault = attempt->emit_fault;
	attempt->emit_fault = NULL;
	result->has_emit = attempt->emits && !result->emit_fault;
	if (result->has_emit)
		key_emit_id(&result->key, result->emit_id);
}

/* answer NULL: nothing was tried. */
static struct result *make_result(struct attempt *attempt, const struct verdict *verdict,
				  const struct life_step *step, const struct http_answer *answer)
{
	struct result *result = result_new();
	result->key = attempt->key;
	attempt->key = (struct key){ 0 };
	result->target = attempt->target->conf->name;
	result->outcome = verdict->outcome;
	result->stored = is_stored_error(verdict);
	result->step = *step;
	memcpy(result->error_class, verdict->error_class, sizeof(result->error_class));
	result->started = result->key.since + (attempt->started - attempt->asked_at);
	result->provider_key = attempt->provider_key;
	attempt->provider_key = NULL;
	if (answer)
		take_answer(result, attempt, answer);
	take_events(result, attempt);
	return result;
}

/* A target that throttles is left alone for as long as the key waits. */
static void pause_target(const struct attempt *attempt, const struct verdict *verdict,
			 const struct life_step *step, usec_t now)
{
	usec_t length = verdict->retry_after;
	if (verdict->outcome != OUTCOME_THROTTLED)
		return;
	if (step->state == EFFECT_RETRY_WAIT && length == 0)
		length = step->due_at - now;
	targets_pause(attempt->attempts->targets, attempt->target->index, length);
}

static void kept_free(struct kept_request *kept)
{
	if (!kept)
		return;
	free(kept->url);
	free(kept->headers);
	free(kept->body);
	free(kept);
}

static void attempt_free(struct attempt *attempt)
{
	kept_free(attempt->kept);
	key_done(&attempt->key);
	free(attempt->provider_key);
	free(attempt->key_header);
	free(attempt->emit_fault);
	free(attempt);
}

static void conclude(struct attempt *attempt, struct verdict *verdict,
		     const struct http_answer *answer)
{
	struct attempts *attempts = attempt->attempts;
	const struct target *target = attempt->target;
	const size_t tenant = attempt->tenant;
	const usec_t now = database_time(attempt, usec_boot());
	struct life_policy policy;
	struct life_step step;
	const struct target_answer seen = { .target = target->index,
					    .key = attempt->key.id,
					    .probe = attempt->probe,
					    .started = attempt->started };
	targets_judge(attempts->targets, &seen, verdict);
	key_policy(&attempt->key, attempts->rules, target->profile,
		   attempts->plans[target->index].margin, &policy);
	life_result(&attempt->key.life, &policy, verdict, now, draw(), &step);
	pause_target(attempt, verdict, &step, now);
	series_add(attempts->meter->attempts[target->index][verdict->outcome], 1);
	if (answer)
		series_observe(attempts->meter->attempt_seconds[target->index], answer->took);
	results_add(attempts->results, make_result(attempt, verdict, &step, answer));
	attempt_free(attempt);
	attempts->events.ended(attempts->events.arg, target, tenant);
}

/* Nothing was sent. */
static void give_back(struct attempt *attempt, usec_t pause)
{
	struct verdict verdict = { .outcome = OUTCOME_ABORTED,
				   .unsent = true,
				   .retry_after = pause,
				   .error_class = "aborted" };
	conclude(attempt, &verdict, NULL);
}

/* Nothing is to be sent of its effect, now: but it was taken in for real, so that only sending it
 * may end it. It waits for the end of the shadow, or for a person. */
static void wait_for_light(struct attempt *attempt)
{
	struct verdict verdict = { .outcome = OUTCOME_ABORTED,
				   .unsent = true,
				   .retry_after = SHADOW_AGAIN,
				   .error_class = "shadow is on" };
	conclude(attempt, &verdict, NULL);
}

static void end_shadow(struct attempt *attempt)
{
	struct verdict verdict = { .outcome = OUTCOME_SHADOW, .unsent = true };
	conclude(attempt, &verdict, NULL);
}

static void on_answer(void *arg, const struct http_answer *answer)
{
	struct attempt *attempt = arg;
	const struct answer seen = {
		.end = answer->end,
		.status = answer->status,
		.replayed = answer->replayed,
		.retry_after = answer->retry_after,
		.date = answer->date,
		.says = predicate_ask(attempt->predicate, answer->body, answer->body_length,
				      !answer->truncated),
	};
	struct verdict verdict;
	crash_point("transfer.answered");
	take_out(attempt->attempts, attempt);
	outcome_of(&seen, attempt->target->profile, attempt->method, attempt->key.life.mode,
		   answer->transport, database_time(attempt, usec_boot()), &verdict);
	conclude(attempt, &verdict, answer);
}

/* --- the request --- */

/* The lines of a request, each with a line end: the recorded ones, the key, the secret or what it
 * signs. The time that is signed is the one that is recorded of the attempt. */
static void add_lines(const struct attempt *attempt, const struct claim_request *request,
		      struct buf *lines)
{
	const struct target *target = attempt->target;
	buf_add_text(lines, request->headers ? request->headers : "");
	if (key_line(attempt->key_header, request->provider_key, lines))
		buf_add_char(lines, '\n');
	if (target_authorization(target, lines))
		buf_add_char(lines, '\n');
	if (target->signing)
		webhook_sign(target->signing, request->provider_key,
			     database_time(attempt, attempt->started), request->body,
			     request->body_length, lines);
}

/* An array of the lines, ended by NULL; the line ends in `lines` become NULs. */
static const char **split_lines(struct buf *lines)
{
	size_t count = 0;
	const char **list = mem_grow(NULL, 1, sizeof(*list));
	char *at = lines->data, *end;
	for (; at && *at && (end = strchr(at, '\n')); at = end + 1) {
		*end = '\0';
		list = mem_grow(list, count + 2, sizeof(*list));
		list[count++] = at;
	}
	list[count] = NULL;
	return list;
}

/* A predicate is to see the whole of an answer that is not unusually large. */
static size_t answer_max(const struct attempt *attempt)
{
	const size_t keep = (size_t)attempt->attempts->conf->ledger.response_keep;
	return attempt->predicate && keep < PREDICATE_READ ? PREDICATE_READ : keep;
}

static void on_mail_answer(void *arg, const struct smtp_answer *answer)
{
	struct attempt *attempt = arg;
	const struct http_answer seen = { .status = answer->reply,
					  .curl_code = answer->curl_code,
					  .error = answer->error,
					  .head = "",
					  .body = answer->text,
					  .body_length = answer->text_length,
					  .truncated = answer->truncated,
					  .took = answer->took };
	struct verdict verdict;
	crash_point("mail.answered");
	take_out(attempt->attempts, attempt);
	outcome_of_mail(answer->end, answer->reply, answer->class, &verdict);
	conclude(attempt, &verdict, &seen);
}

static void send_mail(struct attempt *attempt, const struct claim_request *request)
{
	struct attempts *attempts = attempt->attempts;
	const struct mail_order order = {
		.target = attempt->target,
		.request = request,
		.wall = database_time(attempt, attempt->started),
		.until = attempt->until,
		.answer_max = (size_t)attempts->conf->ledger.response_keep,
	};
	struct verdict verdict = { .outcome = OUTCOME_UNRENDERED,
				   .unsent = true,
				   .error_class = "unrendered" };
	if (mail_start(attempts->loop, &order, on_mail_answer, attempt, &attempt->mail))
		return;
	take_out(attempts, attempt);
	conclude(attempt, &verdict, NULL);
}

/* A process that was stopped for longer than its lease must not send when it goes on: libcurl looks
 * at its timeouts before it sends on a new connection. */
static void send(struct attempt *attempt, const struct claim_request *request)
{
	struct attempts *attempts = attempt->attempts;
	attempt->started = usec_boot();
	if (target_is_mail(attempt->target))
		return send_mail(attempt, request);
	const usec_t left = attempt->until - attempt->started;
	const struct conf_target *conf = attempt->target->conf;
	struct buf lines BUF_AUTO = { 0 };
	add_lines(attempt, request, &lines);
	const char **list = split_lines(&lines);
	const struct http_request http = {
		.method = attempt->method,
		.url = request->url,
		.headers = list,
		.body = request->body,
		.body_length = request->body_length,
		.connect_timeout = conf->connect_timeout < left ? conf->connect_timeout : left,
		.timeout = conf->timeout,
		.send_before = attempt->until,
		.answer_max = answer_max(attempt),
		.ca_file = conf->ca_file,
		.cert_file = conf->cert_file,
		.key_file = conf->key_file,
	};
	attempt->transfer = http_start(attempts->http, &http, on_answer, attempt);
	free(list);
	if (lines.data)
		explicit_bzero(lines.data, lines.length);
}

/* --- the marker --- */

static struct kept_request *keep(const struct claim_request *request)
{
	struct kept_request *kept = mem_zero(sizeof(*kept));
	kept->url = mem_text(request->url);
	kept->headers = mem_text(request->headers);
	if (request->body)
		kept->body = mem_text_n(request->body, request->body_length);
	kept->body_length = request->body_length;
	return kept;
}

static void send_kept(struct attempt *attempt)
{
	struct kept_request *kept = attempt->kept;
	const struct claim_request request = { .provider_key = attempt->provider_key,
					       .method = attempt->method,
					       .url = kept->url,
					       .headers = kept->headers,
					       .body = kept->body,
					       .body_length = kept->body_length };
	attempt->kept = NULL;
	send(attempt, &request);
	kept_free(kept);
}

static void on_marked(void *arg, enum mark_end end)
{
	struct attempt *attempt = arg;
	attempt->mark = NULL;
	if (end == MARK_SET && usec_boot() < attempt->until)
		return send_kept(attempt);
	take_out(attempt->attempts, attempt);
	give_back(attempt, end == MARK_REFUSED ? REFUSED_AGAIN : 0);
}

/* From here on the marker counts as set, for nobody can know whether it is. That it was not is seen
 * where a result of nothing sent is recorded. */
static void ask_for_marker(struct attempt *attempt, const struct claim_request *request)
{
	attempt->kept = keep(request);
	attempt->mark = marker_ask(attempt->attempts->markers, &attempt->key, on_marked, attempt);
	attempt->key.life.sent = true;
	attempt->key.life.unknown_sends++;
}

/* What was taken in by an older version says nothing of it. */
static char *take_key_header(const struct attempt *attempt, const struct claim_request *request)
{
	struct buf header = { 0 };
	if (request->key_header)
		return mem_text(request->key_header);
	key_header(attempt->target->profile, &header);
	buf_add_text(&header, "");
	return buf_take(&header);
}

static struct attempt *attempt_new(struct attempts *attempts, const struct claim *claim,
				   struct key *key, const struct claim_request *request)
{
	struct attempt *attempt = mem_zero(sizeof(*attempt));
	attempt->attempts = attempts;
	attempt->target = claim->target;
	attempt->tenant = claim->tenant;
	attempt->key = *key;
	*key = (struct key){ 0 };
	attempt->asked_at = claim->asked_at;
	attempt->started = usec_boot();
	attempt->probe = claim->probe;
	attempt->provider_key = mem_text(request->provider_key);
	attempt->key_header = take_key_header(attempt, request);
	attempt->emits = request->emits;
	attempt->emit_fault = mem_text(request->emit_fault);
	return attempt;
}

/* False: the attempt has ended. */
static bool may_be_sent(struct attempt *attempt, const struct claim_request *request)
{
	const struct attempts *attempts = attempt->attempts;
	const char *effect = attempt->key.effect;
	const struct rule *rule = rules_find(attempts->rules, effect, strlen(effect));
	if (request->shadow)
		end_shadow(attempt);
	else if (rule ? rule->shadow : attempts->conf->ledger.shadow)
		wait_for_light(attempt);
	else
		return true;
	return false;
}

/* --- the public face --- */

void attempts_start(struct attempts *attempts, const struct claim *claim, struct key *key,
		    const struct claim_request *request, usec_t until)
{
	struct attempt *attempt = attempt_new(attempts, claim, key, request);
	if (!may_be_sent(attempt, request))
		return;
	if (!request->method || !request->url || strlen(request->method) > METHOD_MAX) {
		struct verdict verdict = { .outcome = OUTCOME_UNRENDERED,
					   .unsent = true,
					   .error_class = "unrendered" };
		conclude(attempt, &verdict, NULL);
		return;
	}
	memcpy(attempt->method, request->method, strlen(request->method) + 1);
	attempt->predicate = bodies_predicate(attempts->bodies, attempt->key.effect);
	attempt->until = until;
	attempt->bytes = (int64_t)request->body_length;
	add(attempts, attempt);
	if (attempt->key.life.sent)
		send(attempt, request);
	else
		ask_for_marker(attempt, request);
}

void attempts_put_back(struct attempts *attempts, const struct claim *claim, struct key *key,
		       const struct claim_request *request)
{
	give_back(attempt_new(attempts, claim, key, request), 0);
}

static void take_back(struct attempt *attempt)
{
	if (attempt->mail)
		return smtp_cancel(attempt->mail);
	if (!attempt->mark)
		return http_cancel(attempt->transfer);
	marker_forget(attempt->mark);
	take_out(attempt->attempts, attempt);
	give_back(attempt, 0);
}

void attempts_take_back(struct attempts *attempts)
{
	for (struct attempt *attempt = attempts->first, *next; attempt; attempt = next) {
		next = attempt->next; /* nothing but this one ends */
		take_back(attempt);
	}
}

size_t attempts_count(const struct attempts *attempts)
{
	return attempts->count;
}

int64_t attempts_bytes(const struct attempts *attempts)
{
	return attempts->bytes;
}

void attempts_ids(const struct attempts *attempts, struct pg_array *ids)
{
	for (const struct attempt *a = attempts->first; a; a = a->next)
		pg_array_int8(ids, a->key.id);
}

struct attempts *attempts_new(struct loop *loop, const struct conf *conf, const struct rules *rules,
			      const struct claim_plan *plans, struct targets *targets,
			      struct markers *markers, struct results *results, struct meter *meter,
			      const struct attempts_events *events)
{
	struct attempts *attempts = mem_zero(sizeof(*attempts));
	attempts->conf = conf;
	attempts->rules = rules;
	attempts->plans = plans;
	attempts->targets = targets;
	attempts->markers = markers;
	attempts->results = results;
	attempts->meter = meter;
	attempts->events = *events;
	attempts->loop = loop;
	attempts->http = http_new(loop);
	attempts->bodies = bodies_new(conf, rules);
	return attempts;
}

void attempts_free(struct attempts *attempts)
{
	if (!attempts)
		return;
	attempts_take_back(attempts);
	http_free(attempts->http);
	bodies_free(attempts->bodies);
	free(attempts);
}
