/* What is read in the bodies of answers. */
#include "bodies.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "mem.h"

#define PROVIDER_ID_MAX 255

struct bodies {
	const struct conf *conf;
	const struct rules *rules;
	struct json_paths **provider_ids; /* of each target; NULL: none */
	struct predicate **predicates;    /* of each effect of the configuration; the same */
};

char *bodies_provider_id(const struct bodies *bodies, const struct target *target,
			 const struct http_answer *answer)
{
	const struct json_paths *paths = bodies->provider_ids[target->index];
	struct buf storage BUF_AUTO = { 0 };
	struct json_value value;
	struct err err;
	if (!paths || !json_read(paths, answer->body, answer->body_length, &err, &storage, &value))
		return NULL;
	if ((value.type != JSON_STRING && value.type != JSON_NUMBER) || value.length == 0 ||
	    value.length > PROVIDER_ID_MAX)
		return NULL;
	return mem_text_n(value.text, value.length);
}

const struct predicate *bodies_predicate(const struct bodies *bodies, const char *effect)
{
	const struct rule *rule = rules_find(bodies->rules, effect, strlen(effect));
	return rule ? bodies->predicates[rule->conf - bodies->conf->effects] : NULL;
}

/* A pointer that cannot be read was refused when the configuration was. */
static struct json_paths *provider_id_path(const struct target *target)
{
	struct json_paths *paths;
	struct err err;
	size_t index;
	if (!target->conf->provider_id[0])
		return NULL;
	paths = json_paths_new();
	if (json_paths_add(paths, target->conf->provider_id, &err, &index))
		return paths;
	json_paths_free(paths);
	return NULL;
}

struct bodies *bodies_new(const struct conf *conf, const struct rules *rules)
{
	struct bodies *bodies = mem_zero(sizeof(*bodies));
	const size_t targets = rules_target_count(rules);
	bodies->conf = conf;
	bodies->rules = rules;
	bodies->provider_ids = mem_zero((targets + 1) * sizeof(struct json_paths *));
	for (size_t i = 0; i < targets; i++)
		bodies->provider_ids[i] = provider_id_path(rules_target(rules, i));
	bodies->predicates = mem_zero((conf->effect_count + 1) * sizeof(struct predicate *));
	for (size_t i = 0; i < conf->effect_count; i++)
		bodies->predicates[i] = predicate_new(&conf->effects[i].success);
	return bodies;
}

void bodies_free(struct bodies *bodies)
{
	if (!bodies)
		return;
	for (size_t i = 0; i < rules_target_count(bodies->rules); i++)
		json_paths_free(bodies->provider_ids[i]);
	free(bodies->provider_ids);
	for (size_t i = 0; i < bodies->conf->effect_count; i++)
		predicate_free(bodies->predicates[i]);
	free(bodies->predicates);
	free(bodies);
}
