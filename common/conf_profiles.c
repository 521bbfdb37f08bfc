/* Shipped profiles, as data: what a provider promises about an idempotency key. */
#include "conf_profiles.h"

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
			.characters = mem_text(""),
			.window = from->window,
			.stores = from->stores,
			.in_progress = texts(from->in_progress),
			.mismatch = texts(from->mismatch),
			.safe_503 = from->safe_503,
		};
	}
}
