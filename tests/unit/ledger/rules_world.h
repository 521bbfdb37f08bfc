/* A configuration of targets and effects, compiled, and one event applied to it. */
#ifndef TEST_RULES_WORLD_H
#define TEST_RULES_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "rules/rules.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define HEADER(name_, value_)                                                                      \
	{                                                                                          \
		(name_), (value_), sizeof(value_) - 1                                              \
	}
#define NOW (1700000000 * USEC_SEC)

#define DRAFTS_MAX 4

struct world {
	struct conf *conf;
	struct rules *rules;
	struct buf faults;
	struct buf warnings;
};

/* What rules_apply() handed out, copied. */
struct applied {
	size_t count;
	struct {
		char effect[48], key[600], tenant[200], provider_key[600], serial_key[600];
		char url[9000], headers[2000];
		char body[4000], why[512], emit[4000];
		bool dead, body_is_value;
		uint8_t fingerprint[EFFECT_FINGERPRINT_SIZE];
		usec_t not_after, delay, not_before;
	} drafts[DRAFTS_MAX];
	struct err why;
};

static inline void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* Loads a configuration of these targets and effects, and compiles it. */
static inline bool load(struct world *world, const char *targets, const char *profiles,
			const char *effects)
{
	char path[] = "/tmp/counterfoil-rules-XXXXXX";
	struct buf text BUF_AUTO = { 0 };
	int fd = mkstemp(path);

	*world = (struct world){ 0 };
	assert_true(fd >= 0);
	close(fd);
	buf_addf(&text,
		 "kafka = { properties = ( (\"bootstrap.servers\", \"localhost:1\") ); };\n"
		 "ledger = { start = \"earliest\"; };\n"
		 "profiles = ( %s );\ntargets = ( %s );\neffects = ( %s );\n",
		 profiles, targets, effects);
	write_file(path, text.data);
	bool loaded = conf_load(path, CONF_LEDGER, &world->faults, &world->conf);
	unlink(path);
	if (!loaded)
		fail_msg("%s", world->faults.data);
	return rules_new(world->conf, &world->faults, &world->warnings, &world->rules);
}

static inline void unload(struct world *world)
{
	rules_free(world->rules);
	conf_free(world->conf);
	buf_done(&world->faults);
	buf_done(&world->warnings);
}

static inline void copy_text(char *to, size_t size, const struct buf *from)
{
	assert_true(from->length < size);
	memcpy(to, buf_text(from), from->length + 1);
}

static inline void take(void *arg, const struct draft *draft)
{
	struct applied *applied = arg;
	size_t i = applied->count++;

	assert_true(i < DRAFTS_MAX);
	(void)snprintf(applied->drafts[i].effect, sizeof(applied->drafts[i].effect), "%s",
		       draft->rule->conf->name);
	copy_text(applied->drafts[i].key, sizeof(applied->drafts[i].key), &draft->key);
	copy_text(applied->drafts[i].tenant, sizeof(applied->drafts[i].tenant), &draft->tenant);
	copy_text(applied->drafts[i].provider_key, sizeof(applied->drafts[i].provider_key),
		  &draft->provider_key);
	copy_text(applied->drafts[i].serial_key, sizeof(applied->drafts[i].serial_key),
		  &draft->serial_key);
	copy_text(applied->drafts[i].url, sizeof(applied->drafts[i].url), &draft->url);
	copy_text(applied->drafts[i].headers, sizeof(applied->drafts[i].headers), &draft->headers);
	copy_text(applied->drafts[i].body, sizeof(applied->drafts[i].body), &draft->body);
	copy_text(applied->drafts[i].emit, sizeof(applied->drafts[i].emit), &draft->emit);
	memcpy(applied->drafts[i].why, draft->why, sizeof(draft->why));
	memcpy(applied->drafts[i].fingerprint, draft->fingerprint, EFFECT_FINGERPRINT_SIZE);
	applied->drafts[i].dead = draft->dead;
	applied->drafts[i].body_is_value = draft->body_is_value;
	applied->drafts[i].not_after = draft->not_after;
	applied->drafts[i].not_before = draft->not_before;
	applied->drafts[i].delay = draft->delay;
}

static inline enum rules_verdict apply(struct world *world, const struct event_source *source,
				       struct applied *applied)
{
	struct event event;

	memset(applied, 0, sizeof(*applied));
	assert_true(event_decode(source, NULL, &event));
	return rules_apply(world->rules, &event, NOW, &applied->why, take, applied);
}

/* An event of the topic "orders" and the type "placed". */
static inline struct event_source placed(const char *value)
{
	static const struct event_header headers[] = { HEADER("ce_id", "e1"),
						       HEADER("ce_type", "placed") };
	return (struct event_source){
		.topic = "orders",
		.partition = 0,
		.offset = 1,
		.value = value,
		.value_length = value ? strlen(value) : 0,
		.headers = headers,
		.header_count = LENGTH(headers),
		.sent_at = USEC_NEVER,
	};
}

#define PAYMENTS                                                                                   \
	"{ name = \"payments\"; url = \"https://pay.test/api/\"; profile = \"stripe-v1\";\n"       \
	"  headers = ( (\"Stripe-Version\", \"2023\"), (\"X-Own\", \"target\") ); }"
#define ON   "on = { topic = \"orders\"; type = \"placed\"; }; retention = \"forever\"; "
#define FORM "application/x-www-form-urlencoded"

#define EFFECT(name, on, rest)                                                                     \
	"{ name = \"" name "\"; on = { " on " }; retention = \"forever\"; target = \"payments\"; " \
	"key = \"" name ":${event_id}\"; " rest " }"

#endif
