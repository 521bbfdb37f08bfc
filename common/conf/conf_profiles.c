/* Shipped profiles, as data: what a provider promises about an idempotency key. */
#include "conf/conf_profiles.h"

#include <string.h>

#include "mem.h"

#define STATUSES_MAX 4

static const struct shipped {
	const char *name;
	const char *header;
	enum conf_quoting quoting;
	int64_t max_length;
	usec_t window;
	enum conf_stores stores;
	const char *in_progress[STATUSES_MAX];
	const char *mismatch[STATUSES_MAX];
	bool safe_503;
	const char *characters;
	enum conf_protocol protocol;
} shipped_profiles[] = {
	/* https://docs.stripe.com/api/idempotent_requests: keys up to 255 characters, kept for at
	 * least 24 hours, with the first answer whatever it was, a 500 too; 409 while a request
	 * with the key is running. A key with other parameters is answered 400, as any other bad
	 * request is: the status alone does not tell them apart, and both are a final no to this
	 * request, so no status is listed as a mismatch. Nothing is promised for 503. */
	{ .name = "stripe-v1",
	  .header = "Idempotency-Key",
	  .quoting = CONF_QUOTING_RAW,
	  .max_length = 255,
	  .window = 24 * USEC_HOUR,
	  .stores = CONF_STORES_ALL,
	  .in_progress = { "409" } },
	/* draft-ietf-httpapi-idempotency-key-header: a string in quotes; 409 while a request with
	 * the key is running, 422 for a key with other content; the first answer again, an error
	 * too. How long a key is known is left to the provider, who publishes it: this is what is
	 * customary, and another window is a profile of the user's. */
	{ .name = "ietf-draft",
	  .header = "Idempotency-Key",
	  .quoting = CONF_QUOTING_STRING,
	  .max_length = 255,
	  .window = 24 * USEC_HOUR,
	  .stores = CONF_STORES_ALL,
	  .in_progress = { "409" },
	  .mismatch = { "422" } },
	/* https://www.standardwebhooks.com: a receiver knows a message by its id, and expects it
	 * again for days when it did not answer 2xx; the schedule that is recommended there ends
	 * after 76 hours. How long it remembers ids is its own affair, so this window is what a
	 * sender may ask for, and not what every receiver keeps. The id is signed with dots around
	 * it and must not hold one. */
	{ .name = "standard-webhooks",
	  .header = "webhook-id",
	  .quoting = CONF_QUOTING_RAW,
	  .max_length = 255,
	  .window = 7 * USEC_DAY,
	  .stores = CONF_STORES_NONE,
	  .characters = "!--/-~",
	  .protocol = CONF_PROTOCOL_WEBHOOK },
	/* Mail: the key becomes the Message-ID, by which people and some servers find a second
	 * copy; no server promises to refuse one. With all characters escaped and a host behind
	 * it, it still fits a line of 998. */
	{ .name = "smtp",
	  .header = "Message-ID",
	  .quoting = CONF_QUOTING_RAW,
	  .max_length = 255,
	  .window = 0,
	  .stores = CONF_STORES_NONE,
	  .protocol = CONF_PROTOCOL_MAIL },
	/* A provider that gives no promise. The key is sent, so that it can be found in the
	 * provider's log; nothing relies on it, and without a window no effect can be idempotent.
	 */
	{ .name = "plain",
	  .header = "Idempotency-Key",
	  .quoting = CONF_QUOTING_RAW,
	  .max_length = 255,
	  .window = 0,
	  .stores = CONF_STORES_NONE },
};
#define SHIPPED (sizeof(shipped_profiles) / sizeof(shipped_profiles[0]))

size_t conf_profiles_shipped(void)
{
	return SHIPPED;
}

static struct conf_texts texts(const char *const *items)
{
	struct conf_texts copy = { 0 };
	while (copy.count < STATUSES_MAX && items[copy.count]) {
		copy.items = mem_grow(copy.items, copy.count + 1, sizeof(*copy.items));
		copy.items[copy.count] = mem_text(items[copy.count]);
		copy.count++;
	}
	return copy;
}

void conf_profiles_add(struct conf *conf)
{
	conf->profiles =
		mem_grow(conf->profiles, SHIPPED + conf->profile_count, sizeof(*conf->profiles));
	memmove(conf->profiles + SHIPPED, conf->profiles,
		conf->profile_count * sizeof(*conf->profiles));
	conf->profile_count += SHIPPED;
	for (size_t i = 0; i < SHIPPED; i++) {
		const struct shipped *from = &shipped_profiles[i];
		conf->profiles[i] = (struct conf_profile){
			.name = mem_text(from->name),
			.header = mem_text(from->header),
			.quoting = from->quoting,
			.max_length = from->max_length,
			.characters = mem_text(from->characters ? from->characters : ""),
			.window = from->window,
			.stores = from->stores,
			.in_progress = texts(from->in_progress),
			.mismatch = texts(from->mismatch),
			.safe_503 = from->safe_503,
			.protocol = from->protocol,
		};
	}
}

const struct conf_profile *conf_profile_find(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->profile_count; i++)
		if (strcmp(conf->profiles[i].name, name) == 0)
			return &conf->profiles[i];
	return NULL;
}
