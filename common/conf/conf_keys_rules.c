/* The keys of targets, tenants, effects and profiles. */
#include "conf.h"
#include "conf/conf_rows.h"

static const struct conf_key breaker_keys[] = {
	KEY_AS("failures", conf_target, breaker.failures, CONF_INT, "10",
	       "opens after so many requests in a row that did not reach it; 0: not for that",
	       RANGE(0, 10000)),
	KEY_AS("ratio", conf_target, breaker.ratio, CONF_INT, "50",
	       "and when so many per cent of the last 100, of 20 at least, were answered 5xx or "
	       "not in time; 0: not for that",
	       RANGE(0, 100)),
	KEY_AS("open", conf_target, breaker.open, CONF_DURATION, "30s",
	       "nothing is sent for so long; then one request tries whether it is well again",
	       RANGE(USEC_MS, USEC_DAY)),
};
static const struct conf_table breaker_table = TABLE(breaker_keys);

static const struct conf_key target_keys[] = {
	KEY(conf_target, name, CONF_TEXT, NULL,
	    "its identity: keys that were recorded for it find it by this name", REQUIRED),
	KEY(conf_target, alias, CONF_TEXTS, NULL,
	    "former names of it, the oldest first, which must stay here: its keys go on being "
	    "recorded under the first of them, and what was recorded under any is found"),
	KEY(conf_target, url, CONF_TEXT, NULL,
	    "http:// or https://, host, and where there is one a path that all requests begin "
	    "with; "
	    "or smtp:// or smtps://, host, and the name we go by there",
	    REQUIRED),
	KEY(conf_target, profile, CONF_TEXT, NULL,
	    "how it treats an idempotency key: a shipped profile, as \"stripe-v1\", or one of "
	    "profiles",
	    REQUIRED),
	KEY(conf_target, auth, CONF_TEXT, "",
	    "value of the Authorization header, with ${secret} in it: the first line of "
	    "secret_file; of mail \"NAME:${secret}\""),
	KEY(conf_target, secret_file, CONF_TEXT, "",
	    "file whose first line is the secret; of a target with profile \"standard-webhooks\" "
	    "what signs, \"whsec_...\""),
	KEY(conf_target, headers, CONF_PAIRS, NULL,
	    "headers of every request, (\"name\", \"value\") each; one of the same name in an "
	    "effect "
	    "wins",
	    .headers = true),
	KEY(conf_target, connect_timeout, CONF_DURATION, "3s", "to be connected, TLS included",
	    RANGE(USEC_MS, 10 * USEC_MIN)),
	KEY(conf_target, timeout, CONF_DURATION, "30s",
	    "for the whole request; longer than the slowest good answer takes",
	    RANGE(USEC_MS, USEC_DAY)),
	KEY(conf_target, concurrency, CONF_INT, "20", "requests in flight to it, for each process",
	    RANGE(1, 10000)),
	KEY(conf_target, rate, CONF_RATE, "none",
	    "requests to it, all processes together, each of which takes its share; or \"none\"",
	    .never = "none"),
	GROUP("breaker", breaker_table, "when it is left alone for a while"),
	KEY(conf_target, ca_file, CONF_TEXT, "",
	    "certificates to trust, PEM; \"\": those of the system"),
	KEY(conf_target, cert_file, CONF_TEXT, "", "our own certificate, PEM"),
	KEY(conf_target, key_file, CONF_TEXT, "", "and its key"),
	KEY(conf_target, provider_id, CONF_TEXT, "/id",
	    "JSON pointer to the provider's own id in an answer"),
	KEY(conf_target, lookup, CONF_TEXT, "",
	    "address where a person looks a key up at the provider, with ${key} in it; shown "
	    "beside the key",
	    RANGE(0, 2048), LATER),
	KEY(conf_target, from, CONF_TEXT, "", "of mail, and required there: template of the sender",
	    RANGE(0, 2048)),
	KEY(conf_target, to, CONF_TEXT, "",
	    "of mail, and required there: template of the one recipient", RANGE(0, 2048)),
	KEY(conf_target, subject, CONF_TEXT, "",
	    "of mail, and required there: template; the request's body is the text",
	    RANGE(0, 2048)),
};
const struct conf_table conf_target_table = TABLE(target_keys);

static const struct conf_key tenant_keys[] = {
	KEY(conf_tenant, name, CONF_TEXT, NULL, "the tenant, as an effect's tenant makes it",
	    REQUIRED, RANGE(1, EFFECT_TENANT_MAX)),
	KEY(conf_tenant, weight, CONF_INT, "1",
	    "its share of the requests to a target, beside the others that wait; those that are "
	    "not listed have 1",
	    RANGE(1, 1000)),
	KEY(conf_tenant, cap, CONF_INT, "0",
	    "most of its requests in flight to one target, for each process; 0: no limit of its "
	    "own",
	    RANGE(0, 10000)),
};
const struct conf_table conf_tenant_table = TABLE(tenant_keys);

static const struct conf_word quotings[] = {
	{ "raw", CONF_QUOTING_RAW },
	{ "string", CONF_QUOTING_STRING },
	{ 0 },
};
static const struct conf_word stores_words[] = {
	{ "none", CONF_STORES_NONE },
	{ "2xx", CONF_STORES_2XX },
	{ "all", CONF_STORES_ALL },
	{ 0 },
};

static const struct conf_key profile_keys[] = {
	KEY(conf_profile, name, CONF_TEXT, NULL, "what a target's profile names", REQUIRED),
	KEY(conf_profile, header, CONF_TEXT, "Idempotency-Key",
	    "header that carries the key; \"\": none is sent"),
	KEY(conf_profile, quoting, CONF_WORD, "raw",
	    "the key as it is, or as a quoted string with \" around it", .words = quotings),
	KEY(conf_profile, max_length, CONF_INT, "255",
	    "longest key that the provider takes; a longer one is replaced by a hash of it",
	    RANGE(51, 1024)),
	KEY(conf_profile, characters, CONF_TEXT, "",
	    "characters that a key may hold, as in \"a-zA-Z0-9_-\"; \"\": all visible ASCII",
	    RANGE(0, 256)),
	KEY(conf_profile, window, CONF_DURATION, "0s",
	    "the provider knows a key for so long after its first use, or \"forever\"; \"0s\": it "
	    "does not honour keys, and idempotent effects are refused",
	    RANGE(0, 100 * 365 * USEC_DAY), .never = "forever"),
	KEY_AS("stores_errors", conf_profile, stores, CONF_WORD, "none",
	       "which answers it keeps for a key and gives again: none, those that succeeded, all",
	       .words = stores_words),
	KEY(conf_profile, in_progress, CONF_STATUSES, NULL,
	    "statuses that mean: still working on this key, as in (409)"),
	KEY(conf_profile, mismatch, CONF_STATUSES, NULL,
	    "statuses that mean: this key came before with other content, as in (422)"),
	KEY(conf_profile, safe_503, CONF_BOOL, "false",
	    "503 is the provider's promise that nothing was done"),
};
const struct conf_table conf_profile_table = TABLE(profile_keys);

static const struct conf_key on_keys[] = {
	KEY(conf_effect, topic, CONF_TEXT, NULL, "Kafka topic", REQUIRED),
	KEY_AS("type", conf_effect, types, CONF_TEXTS, NULL,
	       "event type, or a list of them; exact, no wildcards; none: every type"),
};
static const struct conf_table on_table = TABLE(on_keys);

static const struct conf_word methods[] = {
	{ "GET", 0 }, { "POST", 1 }, { "PUT", 2 }, { "PATCH", 3 }, { "DELETE", 4 }, { 0 },
};

static const struct conf_key request_keys[] = {
	KEY(conf_effect, method, CONF_TEXT, "POST", "HTTP method", .words = methods),
	KEY(conf_effect, path, CONF_TEXT, "/", "template, appended to the target's url", NOT_EMPTY),
	KEY(conf_effect, query, CONF_PAIRS, NULL,
	    "parameters, (\"name\", \"template\") each, escaped as they are appended"),
	KEY(conf_effect, headers, CONF_PAIRS, NULL, "headers, (\"name\", \"template\") each",
	    .headers = true),
	KEY(conf_effect, content_type, CONF_TEXT, "",
	    "of the body, which decides how values are escaped in it; \"\": the event's own, or "
	    "application/json where there is a body"),
	KEY(conf_effect, body, CONF_TEXT, NULL,
	    "template; without it the event's payload is sent, byte for byte"),
};
static const struct conf_table request_table = TABLE(request_keys);

static const struct conf_word strategies[] = {
	{ "none", CONF_RETRY_NONE },
	{ "fixed", CONF_RETRY_FIXED },
	{ "exponential", CONF_RETRY_EXPONENTIAL },
	{ 0 },
};

static const struct conf_key retry_keys[] = {
	KEY_AS("strategy", conf_effect, retry.strategy, CONF_WORD, "exponential",
	       "pauses between attempts", .words = strategies),
	KEY_AS("first", conf_effect, retry.first, CONF_DURATION, "2s",
	       "the fixed pause, or the greatest first one", RANGE(USEC_MS, 30 * USEC_DAY)),
	KEY_AS("max", conf_effect, retry.max, CONF_DURATION, "10m",
	       "pauses double up to this, each drawn at random below its limit",
	       RANGE(USEC_MS, 30 * USEC_DAY)),
	KEY_AS("attempts", conf_effect, retry.attempts, CONF_INT, "12", "sends, the first included",
	       RANGE(1, 10000)),
};
static const struct conf_table retry_table = TABLE(retry_keys);

static const struct conf_key emit_keys[] = {
	KEY_AS("topic", conf_effect, emit.topic, CONF_TEXT, "",
	       "once the effect is completed, an event of this topic is put into our own outbox"),
	KEY_AS("type", conf_effect, emit.type, CONF_TEXT, "", "its type"),
	KEY_AS("ordering_key", conf_effect, emit.ordering_key, CONF_TEXT, "",
	       "template of its ordering key; \"\": that of the event"),
	KEY_AS("payload", conf_effect, emit.payload, CONF_TEXT, "",
	       "template of its payload, in JSON; ${provider_id} in it is the provider's own id, "
	       "or null"),
};
static const struct conf_table emit_table = TABLE(emit_keys);

static const struct conf_word uncertain_words[] = {
	{ "hold", CONF_UNCERTAIN_HOLD },
	{ "resend", CONF_UNCERTAIN_RESEND },
	{ 0 },
};

static const struct conf_word effect_modes[] = {
#define X(symbol, name, meaning) { name, EFFECT_##symbol },
	EFFECT_MODES(X)
#undef X
		{ 0 },
};

static const struct conf_key effect_keys[] = {
	KEY(conf_effect, name, CONF_TEXT, NULL, "its identity, together with the key", REQUIRED),
	GROUP("on", on_table, "the events that lead to it"),
	KEY(conf_effect, target, CONF_TEXT, NULL, "name of one of targets", REQUIRED),
	KEY(conf_effect, mode, CONF_WORD, "idempotent",
	    "idempotent: resent with the same key inside the profile's window; at_most_once: never "
	    "resent once it may have left; natural: PUT or DELETE of a fixed URL, resent freely "
	    "and "
	    "one at a time",
	    .words = effect_modes),
	KEY(conf_effect, key, CONF_TEXT, NULL,
	    "template of the idempotency key, made from what is the same whenever the same "
	    "operation is asked for",
	    REQUIRED, NOT_EMPTY),
	KEY(conf_effect, tenant, CONF_TEXT, "",
	    "template; keys of different tenants never meet, neither here nor at the provider"),
	KEY(conf_effect, serialize_by, CONF_TEXT, "",
	    "template; of the keys of a target and tenant with the same value one is sent at a "
	    "time, the oldest first, and a failing one holds up those behind it; \"\": no order",
	    RANGE(0, 4096)),
	GROUP("request", request_table, "what is sent"),
	KEY(conf_effect, success, CONF_PREDICATE, "",
	    "which answer of 2xx means yes: JSON pointer, \" = \" or \" != \", and the text, as in "
	    "\"/status = ok\"; another is a refusal, and one whose body does not say it, or is cut "
	    "or longer than 1 MiB, is no answer; \"\": every one means yes"),
	GROUP("retry", retry_table, "when it is sent again"),
	KEY(conf_effect, on_uncertain, CONF_WORD, "hold",
	    "of at_most_once, when nobody knows whether it was done. hold: a person decides; "
	    "resend: it is sent again, for what may rarely happen twice",
	    .words = uncertain_words),
	KEY(conf_effect, retention, CONF_DURATION, NULL,
	    "a finished key is remembered for so long, or \"forever\": afterwards the same event "
	    "would be performed again",
	    REQUIRED, RANGE(USEC_SEC, 100 * 365 * USEC_DAY), .never = "forever"),
	KEY(conf_effect, not_after, CONF_DURATION, "none",
	    "age of the event at which a key that was never sent is given up, or \"none\"",
	    RANGE(USEC_MS, 100 * 365 * USEC_DAY), .never = "none"),
	KEY(conf_effect, delay, CONF_DURATION, "0s", "the first send is held back for so long",
	    RANGE(0, 365 * USEC_DAY)),
	KEY(conf_effect, not_before, CONF_TEXT, "",
	    "template of the earliest time of the first send: RFC 3339, or seconds or milliseconds "
	    "since 1970; what is past, or empty for an event: now",
	    RANGE(0, 4096)),
	KEY(conf_effect, shadow, CONF_BOOL, "false", "as ledger.shadow, for this effect"),
	KEY(conf_effect, tombstone, CONF_BOOL, "false", "events without a payload match too"),
	KEY(conf_effect, dead_letter_topic, CONF_TEXT, "",
	    "where an event goes whose effect is given up; \"\": TOPIC.dlq"),
	GROUP("emit", emit_table, "the event that follows"),
	KEY(conf_effect, redact, CONF_POINTERS, NULL,
	    "JSON pointers to what people are not shown of payload, request and answer: not in the "
	    "console, in copies, exports and the audit; stored it is",
	    LATER),
};
const struct conf_table conf_effect_table = TABLE(effect_keys);
