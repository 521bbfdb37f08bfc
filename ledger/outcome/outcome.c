/* The outcome table. Whatever is not listed says nothing of what happened: it never becomes a
 * certainty by default. */
#include "outcome.h"

#include <stdio.h>
#include <string.h>

#include "retry.h"

/* The generic meaning of a status; the first row that holds it counts. */
static const struct {
	int from, to;
	enum outcome outcome;
} statuses[] = {
	{ 200, 299, OUTCOME_APPLIED },
	{ 302, 303, OUTCOME_SERVER_ERROR }, /* what a request that was carried out may answer */
	{ 300, 399, OUTCOME_REFUSED },
	{ 401, 401, OUTCOME_CREDENTIALS },
	{ 403, 403, OUTCOME_FORBIDDEN },
	{ 408, 408, OUTCOME_SERVER_ERROR },
	{ 421, 421, OUTCOME_TRY_LATER },
	{ 425, 425, OUTCOME_TRY_LATER },
	{ 429, 429, OUTCOME_THROTTLED },
	{ 400, 499, OUTCOME_REFUSED },
	{ 501, 501, OUTCOME_REFUSED },
	{ 505, 505, OUTCOME_REFUSED },
	{ 502, 502, OUTCOME_NO_ANSWER }, /* a gateway speaks of its own failure */
	{ 504, 504, OUTCOME_NO_ANSWER },
	{ 500, 599, OUTCOME_SERVER_ERROR },
};

/* Refusals that come from behind the provider's store of keys, so that they would have been another
 * answer if an earlier send with the key had been applied. 409 is none of them: it may mean that an
 * earlier send is being worked on. Any other status (404, 403, 413 ...) may
 * as well come from a proxy or a router that has never seen a key. */
static const int key_refusals[] = { 400, 402, 410, 412, 422, 424 };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *outcome_name(enum outcome outcome)
{
	static const char *const names[] = {
#define X(symbol, name, meaning) [OUTCOME_##symbol] = (name),
		OUTCOMES(X)
#undef X
	};
	return (size_t)outcome < COUNT(names) ? names[outcome] : "";
}

static bool is_success(int status)
{
	return status >= 200 && status <= 299;
}

static bool listed(const struct conf_texts *texts, int status)
{
	char text[16];
	snprintf(text, sizeof(text), "%d", status);
	for (size_t i = 0; i < texts->count; i++) {
		if (!strcmp(texts->items[i], text))
			return true;
	}
	return false;
}

static enum outcome outcome_of_status(int status)
{
	for (size_t i = 0; i < COUNT(statuses); i++) {
		if (status >= statuses[i].from && status <= statuses[i].to)
			return statuses[i].outcome;
	}
	return OUTCOME_NO_ANSWER;
}

/* A stored answer is about the key, whatever its status says of the target: sending again brings it
 * back. A stored 4xx other than 408 is a refusal; a stored 5xx says nothing new, ever. */
static enum outcome outcome_of_stored(int status, enum outcome outcome)
{
	switch (outcome) {
	case OUTCOME_CREDENTIALS:
	case OUTCOME_FORBIDDEN:
	case OUTCOME_THROTTLED:
	case OUTCOME_TRY_LATER:
	case OUTCOME_NO_ANSWER:
		return status < 500 ? OUTCOME_REFUSED : OUTCOME_SERVER_ERROR;
	case OUTCOME_APPLIED:
	case OUTCOME_NOT_SENT:
	case OUTCOME_ABORTED:
	case OUTCOME_SERVER_ERROR:
	case OUTCOME_IN_PROGRESS:
	case OUTCOME_REFUSED:
	case OUTCOME_MISMATCH:
	case OUTCOME_LOST:
	case OUTCOME_UNRENDERED:
	case OUTCOME_UNREADABLE:
	case OUTCOME_SHADOW:
	case OUTCOME_COUNT:
		break;
	}
	return outcome;
}

/* A 2xx by what its body says to the effect's own question. */
static enum outcome outcome_of_body(enum body_says says)
{
	switch (says) {
	case BODY_UNASKED:
	case BODY_YES:
		break;
	case BODY_NO:
		return OUTCOME_REFUSED;
	case BODY_UNREADABLE:
		return OUTCOME_UNREADABLE;
	}
	return OUTCOME_APPLIED;
}

/* The profile's own words come before the generic meaning, and before both that the answer is an
 * old one. */
static enum outcome outcome_of_answer(const struct answer *answer, bool stored,
				      const struct conf_profile *profile, const char *method,
				      enum effect_mode mode)
{
	const int status = answer->status;
	if (is_success(status) && answer->says != BODY_UNASKED)
		return outcome_of_body(answer->says);
	if (stored)
		return outcome_of_stored(status, outcome_of_status(status));
	if (listed(&profile->in_progress, status))
		return OUTCOME_IN_PROGRESS;
	if (listed(&profile->mismatch, status))
		return OUTCOME_MISMATCH;
	if (status == 304 && !strcmp(method, "PUT"))
		return OUTCOME_APPLIED;
	if ((status == 404 || status == 410) && mode == EFFECT_NATURAL && !strcmp(method, "DELETE"))
		return OUTCOME_APPLIED; /* what was to be gone is gone */
	if (status == 503 && profile->safe_503)
		return OUTCOME_TRY_LATER;
	return outcome_of_status(status);
}

/* A provider that says "stored" of an answer that its profile does not let it store is not
 * believed. */
static bool is_stored(const struct answer *answer, const struct conf_profile *profile)
{
	switch (profile->stores) {
	case CONF_STORES_NONE:
		return false;
	case CONF_STORES_2XX:
		return answer->replayed && is_success(answer->status);
	case CONF_STORES_ALL:
		return answer->replayed;
	}
	return false;
}

static bool refuses_key(int status)
{
	for (size_t i = 0; i < COUNT(key_refusals); i++) {
		if (key_refusals[i] == status)
			return true;
	}
	return false;
}

/* Whether the answer speaks for every send made with the key. A 5xx never does: not even a stored
 * one says whether the request was applied. Nor does a 2xx whose body says no, unless it is a
 * stored one: it may mean that an earlier send is being worked on. */
static bool settles_key(enum outcome outcome, int status, bool stored,
			const struct conf_profile *profile, enum effect_mode mode)
{
	if (mode == EFFECT_NATURAL)
		return outcome == OUTCOME_APPLIED; /* the others did the very same */
	if (mode != EFFECT_IDEMPOTENT)
		return false;
	if (outcome == OUTCOME_APPLIED)
		return profile->stores != CONF_STORES_NONE;
	if (outcome == OUTCOME_REFUSED)
		return stored || (profile->stores == CONF_STORES_ALL && refuses_key(status));
	return false;
}

static enum outcome outcome_of_end(enum transfer_end end)
{
	switch (end) {
	case TRANSFER_NOT_SENT:
		return OUTCOME_NOT_SENT;
	case TRANSFER_CERTIFICATE:
		return OUTCOME_CREDENTIALS;
	case TRANSFER_ABORTED:
		return OUTCOME_ABORTED;
	case TRANSFER_DONE:
	case TRANSFER_CUT:
		break;
	}
	return OUTCOME_NO_ANSWER;
}

static void describe(struct verdict *verdict, int status)
{
	char *const class = verdict->error_class;
	const size_t size = sizeof(verdict->error_class);
	if (verdict->outcome == OUTCOME_APPLIED)
		class[0] = '\0';
	else if (verdict->outcome == OUTCOME_UNREADABLE)
		snprintf(class, size, "success unknown");
	else if (is_success(status) && verdict->outcome == OUTCOME_REFUSED)
		snprintf(class, size, "no success");
	else if (verdict->outcome == OUTCOME_IN_PROGRESS)
		snprintf(class, size, "in progress");
	else if (verdict->outcome == OUTCOME_MISMATCH)
		snprintf(class, size, "key mismatch");
	else
		snprintf(class, size, "http %d", status);
}

void outcome_of(const struct answer *answer, const struct conf_profile *profile, const char *method,
		enum effect_mode mode, const char *transport, usec_t now_wall,
		struct verdict *verdict_r)
{
	struct verdict verdict = { 0 };
	if (answer->end == TRANSFER_DONE) {
		const int status = answer->status;
		verdict.status = status;
		verdict.replayed = is_stored(answer, profile);
		verdict.outcome =
			outcome_of_answer(answer, verdict.replayed, profile, method, mode);
		verdict.settles_key =
			settles_key(verdict.outcome, status, verdict.replayed, profile, mode);
		verdict.retry_after =
			retry_after_parse(answer->retry_after, answer->date, now_wall);
		describe(&verdict, status);
	} else {
		verdict.outcome = outcome_of_end(answer->end);
		verdict.unsent = answer->end != TRANSFER_CUT;
		snprintf(verdict.error_class, sizeof(verdict.error_class), "%s", transport);
	}
	*verdict_r = verdict;
}

/* --- mail --- */

static enum outcome outcome_of_smtp_end(enum smtp_end end)
{
	switch (end) {
	case SMTP_ACCEPTED:
		return OUTCOME_APPLIED;
	case SMTP_REFUSED:
		return OUTCOME_REFUSED;
	case SMTP_LATER:
		return OUTCOME_TRY_LATER;
	case SMTP_NOT_SENT:
		return OUTCOME_NOT_SENT;
	case SMTP_CREDENTIALS:
		return OUTCOME_CREDENTIALS;
	case SMTP_ABORTED:
		return OUTCOME_ABORTED;
	case SMTP_UNKNOWN:
		break;
	}
	return OUTCOME_NO_ANSWER;
}

void outcome_of_mail(enum smtp_end end, int reply, const char *class, struct verdict *verdict_r)
{
	struct verdict verdict = {
		.outcome = outcome_of_smtp_end(end),
		.unsent = end == SMTP_NOT_SENT || end == SMTP_CREDENTIALS || end == SMTP_ABORTED,
	};
	const size_t size = sizeof(verdict.error_class);
	if (reply && verdict.outcome != OUTCOME_APPLIED)
		snprintf(verdict.error_class, size, "smtp %d", reply);
	else
		snprintf(verdict.error_class, size, "%s", class);
	*verdict_r = verdict;
}
