/* The configured effects, compiled, and their way to the events: a route for each topic and type.
 */
#include "rules.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "rules_code.h"
#include "webhook.h"

/* --- routes --- */

static bool lists(const struct conf_effect *effect, const char *type)
{
	if (!effect->types.count)
		return true;
	for (size_t i = 0; type && i < effect->types.count; i++)
		if (!strcmp(effect->types.items[i], type))
			return true;
	return false;
}

static bool same_type(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static struct route *find_route(const struct rules *rules, const char *topic, const char *type)
{
	for (size_t i = 0; i < rules->route_count; i++) {
		struct route *route = &rules->routes[i];
		if (!strcmp(route->topic, topic) && same_type(route->type, type))
			return route;
	}
	return NULL;
}

/* The pointers were accepted when their template was compiled, so adding them cannot fail here. */
static void add_pointers(struct route *route, const struct template_code *template)
{
	const char *pointer;
	size_t global, local;

	for (size_t i = 0; (pointer = template_pointer(template, i, &global)); i++) {
		if (!json_paths_add(route->paths, pointer, NULL, &local))
			abort();
		route->pointers[local] = global;
	}
}

static void add_rule(struct route *route, const struct rule *rule)
{
	const struct rule_code *code = rule->code;

	route->rules[route->count++] = rule;
	for (size_t i = 0; i < rule_template_count(code); i++) {
		const struct template_code *template = rule_template(code, i);
		if (template)
			add_pointers(route, template);
	}
}

static void add_route(struct rules *rules, const char *topic, const char *type)
{
	size_t pointers = json_paths_count(rules->pointers);

	if (find_route(rules, topic, type))
		return;
	rules->routes = mem_grow(rules->routes, rules->route_count + 1, sizeof(*rules->routes));
	struct route *route = &rules->routes[rules->route_count++];
	*route = (struct route){
		.topic = topic,
		.type = type,
		.rules = mem_zero(rules->rule_count * sizeof(*route->rules)),
		.paths = json_paths_new(),
		.values = mem_zero(pointers * sizeof(*route->values)),
		.pointers = mem_zero(pointers * sizeof(*route->pointers)),
	};
	for (size_t i = 0; i < rules->rule_count; i++) {
		const struct rule *rule = &rules->rules[i];
		if (!strcmp(rule->conf->topic, topic) && lists(rule->conf, type))
			add_rule(route, rule);
	}
}

static void add_topic(struct rules *rules, const char *topic)
{
	for (size_t i = 0; i < rules->topic_count; i++)
		if (!strcmp(rules->topics[i], topic))
			return;
	rules->topics = mem_grow(rules->topics, rules->topic_count + 1, sizeof(*rules->topics));
	rules->topics[rules->topic_count++] = topic;
}

static void add_routes(struct rules *rules)
{
	for (size_t i = 0; i < rules->rule_count; i++) {
		const struct conf_effect *effect = rules->rules[i].conf;
		add_topic(rules, effect->topic);
		if (!effect->types.count)
			add_route(rules, effect->topic, NULL);
		for (size_t k = 0; k < effect->types.count; k++)
			add_route(rules, effect->topic, effect->types.items[k]);
	}
	rules->values = mem_zero(json_paths_count(rules->pointers) * sizeof(*rules->values));
}

/* --- the life of the rules --- */

static void pairs_done(struct rule_pairs *pairs)
{
	for (size_t i = 0; i < pairs->count; i++) {
		free(pairs->items[i].name);
		template_free(pairs->items[i].value);
	}
	free(pairs->items);
}

static void code_done(struct rule_code *code)
{
	template_free(code->key);
	template_free(code->tenant);
	template_free(code->serial);
	template_free(code->not_before);
	template_free(code->path);
	template_free(code->mail.from);
	template_free(code->mail.to);
	template_free(code->mail.subject);
	template_free(code->body);
	template_free(code->emit.key);
	template_free(code->emit.payload);
	pairs_done(&code->query);
	pairs_done(&code->headers);
	buf_done(&code->target_headers);
}

static void target_done(struct target *target)
{
	free(target->base);
	if (target->authorization)
		explicit_bzero(target->authorization, strlen(target->authorization));
	free(target->authorization);
	webhook_keys_free(target->signing);
}

static void route_done(struct route *route)
{
	free(route->rules);
	json_paths_free(route->paths);
	free(route->values);
	free(route->pointers);
}

static bool make(const struct conf *conf, bool redacted, struct buf *faults, struct buf *warnings,
		 struct rules **rules_r)
{
	struct rules *rules = mem_zero(sizeof(*rules));
	size_t before = faults->length;

	rules->conf = conf;
	rules->pointers = json_paths_new();
	rules_compile(rules, redacted, faults, warnings);
	if (faults->length != before) {
		rules_free(rules);
		return false;
	}
	add_routes(rules);
	*rules_r = rules;
	return true;
}

bool rules_new(const struct conf *conf, struct buf *faults, struct buf *warnings,
	       struct rules **rules_r)
{
	return make(conf, false, faults, warnings, rules_r);
}

bool rules_new_redacted(const struct conf *conf, struct buf *faults, struct buf *warnings,
			struct rules **rules_r)
{
	return make(conf, true, faults, warnings, rules_r);
}

void rules_free(struct rules *rules)
{
	if (!rules)
		return;
	for (size_t i = 0; i < rules->route_count; i++)
		route_done(&rules->routes[i]);
	for (size_t i = 0; i < rules->rule_count; i++)
		code_done(&rules->codes[i]);
	for (size_t i = 0; i < rules->target_count; i++)
		target_done(&rules->targets[i]);
	json_paths_free(rules->pointers);
	buf_done(&rules->storage);
	draft_done(&rules->draft);
	free(rules->routes);
	free(rules->topics);
	free(rules->rules);
	free(rules->codes);
	free(rules->targets);
	free(rules->values);
	free(rules);
}

const char *target_name(const struct target *target, size_t index)
{
	const struct conf_texts *alias = &target->conf->alias;

	if (index < alias->count)
		return alias->items[index];
	return index == alias->count ? target->conf->name : NULL;
}

bool target_is_called(const struct target *target, const char *name)
{
	const char *own;

	for (size_t i = 0; (own = target_name(target, i)); i++)
		if (!strcmp(own, name))
			return true;
	return false;
}

bool target_is_mail(const struct target *target)
{
	return target->profile->protocol == CONF_PROTOCOL_MAIL;
}

const char *rule_method(const struct rule *rule)
{
	return target_is_mail(rule->target) ? RULES_MAIL : rule->conf->method;
}

size_t rules_target_count(const struct rules *rules)
{
	return rules->target_count;
}

const struct target *rules_target(const struct rules *rules, size_t index)
{
	return &rules->targets[index];
}

const struct target *rules_target_called(const struct rules *rules, const char *name)
{
	for (size_t i = 0; i < rules->target_count; i++)
		if (target_is_called(&rules->targets[i], name))
			return &rules->targets[i];
	return NULL;
}

const struct rule *rules_find(const struct rules *rules, const char *effect, size_t length)
{
	for (size_t i = 0; i < rules->rule_count; i++) {
		const char *name = rules->rules[i].conf->name;
		if (strlen(name) == length && !memcmp(name, effect, length))
			return &rules->rules[i];
	}
	return NULL;
}

size_t rules_topic_count(const struct rules *rules)
{
	return rules->topic_count;
}

const char *rules_topic(const struct rules *rules, size_t index)
{
	return rules->topics[index];
}

/* --- applying them --- */

/* Fills rules->values for the event. A tombstone holds nothing. */
static bool read_value(struct rules *rules, struct route *route, const struct event *event,
		       struct err *err)
{
	const struct event_source *source = &event->source;
	size_t count = json_paths_count(route->paths);

	for (size_t i = 0; i < json_paths_count(rules->pointers); i++)
		rules->values[i] = (struct json_value){ JSON_MISSING, "", 0 };
	if (!count || !source->value)
		return true;
	if (!json_read(route->paths, source->value, source->value_length, err, &rules->storage,
		       route->values))
		return err_prefix(err, "the value cannot be read as JSON");
	for (size_t i = 0; i < count; i++)
		rules->values[route->pointers[i]] = route->values[i];
	return true;
}

/* Keeps the reasons of all rules that made no key. */
static void add_reason(struct err *why, bool first, const struct rule *rule, const char *reason)
{
	struct err before = { "" };

	if (!first)
		before = *why;
	err_set(why, "%s%seffect \"%s\": %s", before.text, first ? "" : "; ", rule->conf->name,
		reason);
}

enum rules_verdict rules_apply(struct rules *rules, const struct event *event, usec_t now,
			       struct err *why, rules_draft_fn *fn, void *arg)
{
	struct route *route = find_route(rules, event->source.topic, event->type);
	struct template_input input = { .event = event, .values = rules->values };
	enum rules_verdict verdict = RULES_UNMATCHED;
	struct err unread, reason;

	if (!route)
		route = find_route(rules, event->source.topic, NULL);
	if (!route)
		return RULES_UNMATCHED;
	bool readable = read_value(rules, route, event, &unread);
	for (size_t i = 0; i < route->count; i++) {
		const struct rule *rule = route->rules[i];
		if (!event->source.value && !rule->conf->tombstone)
			continue;
		bool blind = rule->code->needs_value && !readable;
		if (!blind && draft_make(&rules->draft, rule, &input, now, &reason)) {
			fn(arg, &rules->draft);
			verdict = verdict == RULES_POISON ? RULES_POISON : RULES_MATCHED;
			continue;
		}
		add_reason(why, verdict != RULES_POISON, rule, blind ? unread.text : reason.text);
		verdict = RULES_POISON;
	}
	return verdict;
}
