/* Compiles the targets and effects of the configuration, and says everything that is wrong with
 * them. What conf_load() has checked already is not checked again. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "emit.h"
#include "escape.h"
#include "mem.h"
#include "outcome/life.h"
#include "rules_code.h"
#include "webhook.h"

#define DEFAULT_CONTENT_TYPE "application/json"
#define MAIL_CONTENT_TYPE    "text/plain"
#define FIXED_TEMPLATES      11 /* of an effect, beside those of query and headers */

struct checker {
	struct rules *rules;
	bool redacted; /* no secret is read */
	struct buf *faults;
	struct buf *warnings;
	const char *list; /* "effects" */
	size_t index;
};

/* --- saying it --- */

__attribute__((format(printf, 4, 5))) static void say(const struct checker *checker,
						      struct buf *out, const char *key,
						      const char *format, ...)
{
	char path[160], place[1024];
	struct err text;
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text.text, sizeof(text.text), format, args);
	va_end(args);
	(void)snprintf(path, sizeof(path), "%s[%zu].%s", checker->list, checker->index, key);
	buf_addf(out, "%s: %s\n", conf_place(checker->rules->conf, path, place, sizeof(place)),
		 text.text);
}

#define FAULT(checker, key, ...) say((checker), (checker)->faults, (key), __VA_ARGS__)
#define WARN(checker, key, ...)  say((checker), (checker)->warnings, (key), __VA_ARGS__)

static struct template_code *compile(const struct checker *checker, const char *key,
				     const char *text, enum template_context context)
{
	struct template_code *template = NULL;
	struct err err;

	if (!template_compile(text, context, checker->rules->pointers, &err, &template))
		FAULT(checker, key, "%s", err.text);
	return template;
}

/* --- targets --- */

static bool read_secret(const struct checker *checker, const char *path, struct err *err,
			char **secret_r)
{
	if (!checker->redacted)
		return conf_read_secret(path, err, secret_r);
	*secret_r = mem_text(RULES_REDACTED);
	return true;
}

static void authorize(const struct checker *checker, struct target *target,
		      const struct template_code *template)
{
	struct template_input input = { 0 };
	struct buf value = { 0 };
	struct err err;
	char *secret = NULL;

	if (template_uses(template, SOURCE_SECRET)) {
		if (!*target->conf->secret_file) {
			FAULT(checker, "auth",
			      "${secret} is the first line of a file: name it in "
			      "secret_file");
			return;
		}
		if (!read_secret(checker, target->conf->secret_file, &err, &secret)) {
			FAULT(checker, "secret_file", "%s", err.text);
			return;
		}
	}
	input.secret = secret;
	if (template_render(template, &input, &err, &value))
		target->authorization = buf_take(&value);
	else
		FAULT(checker, "auth", "%s", err.text);
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
	buf_done(&value);
}

static void check_auth(const struct checker *checker, struct target *target)
{
	if (*target->conf->auth) {
		struct template_code *template =
			compile(checker, "auth", target->conf->auth, TEMPLATE_SECRET);
		if (template)
			authorize(checker, target, template);
		template_free(template);
	} else if (*target->conf->secret_file) {
		WARN(checker, "secret_file",
		     "is read by nobody: auth is empty; write for example "
		     "auth = \"Bearer ${secret}\"");
	}
}

/* Shown only, nothing is signed. */
static void read_signing_keys(const struct checker *checker, struct target *target)
{
	struct err err;
	char *secrets = NULL;

	if (checker->redacted)
		return;
	if (!conf_read_secret(target->conf->secret_file, &err, &secrets) ||
	    !webhook_keys_read(secrets, &err, &target->signing))
		FAULT(checker, "secret_file", "%s", err.text);
	if (secrets)
		explicit_bzero(secrets, strlen(secrets));
	free(secrets);
}

static void check_header_name(const struct checker *checker, const char *key, const char *name)
{
	if (!strcasecmp(name, "Host"))
		FAULT(checker, key, "the header Host cannot be set: it is made from the url");
}

/* Its templates are compiled with each effect, whose pointers they read; what is wrong with them is
 * said once. */
static void check_mail_target(const struct checker *checker, const struct target *target)
{
	const struct conf_target *conf = target->conf;
	const char *colon = strchr(conf->auth, ':');

	template_free(compile(checker, "from", conf->from, TEMPLATE_HEADER));
	template_free(compile(checker, "to", conf->to, TEMPLATE_HEADER));
	template_free(compile(checker, "subject", conf->subject, TEMPLATE_HEADER));
	if (colon && strcmp(colon, ":${secret}") != 0)
		FAULT(checker, "auth",
		      "a user's name with a \":\" in it cannot be told from the password");
}

static void compile_target(const struct checker *checker, struct target *target)
{
	const struct conf_target *conf = target->conf;
	size_t length = strlen(conf->url);
	char key[64];

	while (length && conf->url[length - 1] == '/')
		length--;
	target->base = mem_text_n(conf->url, length);
	if (target_is_mail(target))
		check_mail_target(checker, target);
	if (target->profile->protocol == CONF_PROTOCOL_WEBHOOK)
		read_signing_keys(checker, target);
	else
		check_auth(checker, target);
	for (size_t i = 0; i < conf->headers.count; i++) {
		(void)snprintf(key, sizeof(key), "headers[%zu]", i);
		check_header_name(checker, key, conf->headers.items[i].name);
		if (strstr(conf->headers.items[i].value, "${"))
			FAULT(checker, key,
			      "a target's headers are sent as they are written; a "
			      "template belongs in request.headers of an effect");
	}
}

/* --- effects --- */

/* What a key is made of decides whether two events share one. */
static void lint_key(const struct checker *checker, const struct template_code *key)
{
	bool event_id = template_uses(key, SOURCE_EVENT_ID);
	bool other = template_uses(key, SOURCE_POINTER) || template_uses(key, SOURCE_SHA256) ||
		     template_uses(key, SOURCE_HEADER) || template_uses(key, SOURCE_SUBJECT);

	if (!event_id && !other)
		FAULT(checker, "key",
		      "is the same for every event, so only the first would be "
		      "performed; use what identifies the operation, as in "
		      "order:${/order_id}:charge");
	else if (!other)
		WARN(checker, "key",
		     "${event_id} alone: an operation that is announced twice, "
		     "under two event ids, is performed twice; use what "
		     "identifies the operation if there is something");
	if (template_has_default(key))
		WARN(checker, "key",
		     "all events for which a default is used share one key, and "
		     "only the first of them is performed");
}

static void check_window(const struct checker *checker, const struct rule *rule)
{
	const struct conf_profile *profile = rule->target->profile;
	const struct conf_target *target = rule->target->conf;
	char window[32], margin[32];

	if (rule->conf->mode != EFFECT_IDEMPOTENT)
		return;
	usec_t least = life_margin(&rule->conf->retry, target->connect_timeout, target->timeout,
				   profile->window) +
		       checker->rules->conf->ledger.lease;
	if (profile->window != USEC_NEVER && profile->window <= least)
		FAULT(checker, "mode",
		      "the window of profile \"%s\", %s, leaves no time to repeat a request: the "
		      "greatest pause, the timeouts, ledger.lease and a tenth of the window are "
		      "%s; "
		      "lower retry.max or the target's timeout",
		      profile->name, usec_format(profile->window, window, sizeof(window)),
		      usec_format(least, margin, sizeof(margin)));
}

static void compile_path(const struct checker *checker, struct rule_code *code, const char *path)
{
	struct buf sample BUF_AUTO = { 0 };

	if (*path != '/') {
		FAULT(checker, "request.path", "must begin with \"/\"");
		return;
	}
	code->path = compile(checker, "request.path", path, TEMPLATE_PATH);
	if (!code->path)
		return;
	template_sample(code->path, &sample);
	if (path_has_dots(buf_text(&sample)))
		FAULT(checker, "request.path",
		      "holds a segment \".\" or \"..\"; write the path "
		      "that is meant");
}

static void compile_pairs(const struct checker *checker, const char *list,
			  const struct conf_pairs *from, enum template_context context,
			  struct rule_pairs *pairs)
{
	char key[64];

	pairs->items = mem_zero(from->count * sizeof(*pairs->items));
	for (size_t i = 0; i < from->count; i++) {
		const struct conf_pair *pair = &from->items[i];
		struct buf name = { 0 };
		(void)snprintf(key, sizeof(key), "%s[%zu]", list, i);
		if (context == TEMPLATE_QUERY) {
			escape_url(&name, pair->name, strlen(pair->name));
		} else {
			check_header_name(checker, key, pair->name);
			buf_add_text(&name, pair->name);
		}
		pairs->items[pairs->count++] = (struct rule_pair){
			.name = buf_take(&name),
			.value = compile(checker, key, pair->value, context),
		};
	}
}

/* The target's headers that the effect does not set itself. */
static void inherit_headers(const struct rule *rule, struct rule_code *code)
{
	const struct conf_pairs *from = &rule->target->conf->headers;

	for (size_t i = 0; i < from->count; i++) {
		bool own = false;
		for (size_t k = 0; k < code->headers.count && !own; k++)
			own = !strcasecmp(code->headers.items[k].name, from->items[i].name);
		if (!own && *from->items[i].value)
			buf_addf(&code->target_headers, "%s: %s\n", from->items[i].name,
				 from->items[i].value);
	}
}

static enum template_context body_context(const char *content_type)
{
	static const char form[] = "application/x-www-form-urlencoded", suffix[] = "+json";
	size_t length = strcspn(content_type, "; \t");

	if (length == sizeof(form) - 1 && !strncasecmp(content_type, form, length))
		return TEMPLATE_FORM;
	if (length == strlen(DEFAULT_CONTENT_TYPE) &&
	    !strncasecmp(content_type, DEFAULT_CONTENT_TYPE, length))
		return TEMPLATE_JSON;
	if (length >= sizeof(suffix) - 1 &&
	    !strncasecmp(content_type + length - (sizeof(suffix) - 1), suffix, sizeof(suffix) - 1))
		return TEMPLATE_JSON;
	return TEMPLATE_TEXT;
}

static void compile_body(const struct checker *checker, struct rule_code *code,
			 const struct conf_effect *effect)
{
	code->content_type = effect->content_type;
	if (strstr(effect->content_type, "${"))
		FAULT(checker, "request.content_type", "is sent as it is written, not a template");
	if (!effect->has_body) {
		if (!strcmp(effect->method, "GET") || !strcmp(effect->method, "DELETE"))
			WARN(checker, "request.method",
			     "without request.body a %s carries the "
			     "event's value; write body = \"\" for none",
			     effect->method);
		return;
	}
	if (*effect->body && !*code->content_type)
		code->content_type = DEFAULT_CONTENT_TYPE;
	code->body = compile(checker, "request.body", effect->body,
			     *effect->body ? body_context(code->content_type) : TEMPLATE_TEXT);
}

static void compile_mail(const struct checker *checker, const struct rule *rule,
			 struct rule_code *code)
{
	const struct conf_target *target = rule->target->conf;
	const struct conf_effect *effect = rule->conf;
	struct json_paths *pointers = checker->rules->pointers;
	struct rule_mail *mail = &code->mail;

	code->content_type = "";
	if (*effect->content_type && strcasecmp(effect->content_type, MAIL_CONTENT_TYPE) != 0)
		FAULT(checker, "request.content_type",
		      "mail is sent as \"" MAIL_CONTENT_TYPE "\", in UTF-8");
	if (effect->has_body)
		code->body = compile(checker, "request.body", effect->body, TEMPLATE_TEXT);
	else
		FAULT(checker, "request.body", "is required for mail: it is the text");
	(void)(template_compile(target->from, TEMPLATE_HEADER, pointers, NULL, &mail->from) &&
	       template_compile(target->to, TEMPLATE_HEADER, pointers, NULL, &mail->to) &&
	       template_compile(target->subject, TEMPLATE_HEADER, pointers, NULL, &mail->subject));
}

static void compile_http(const struct checker *checker, const struct rule *rule,
			 struct rule_code *code)
{
	const struct conf_effect *effect = rule->conf;

	compile_path(checker, code, effect->path);
	compile_pairs(checker, "request.query", &effect->query, TEMPLATE_QUERY, &code->query);
	compile_pairs(checker, "request.headers", &effect->headers, TEMPLATE_HEADER,
		      &code->headers);
	inherit_headers(rule, code);
	compile_body(checker, code, effect);
}

/* Would its own event lead to it? */
static bool leads_to_itself(const struct conf_effect *effect)
{
	if (strcmp(effect->emit.topic, effect->topic) != 0)
		return false;
	for (size_t i = 0; i < effect->types.count; i++)
		if (!strcmp(effect->types.items[i], effect->emit.type))
			return true;
	return effect->types.count == 0;
}

static void compile_emit(const struct checker *checker, const struct conf_effect *effect,
			 struct rule_code *code)
{
	const struct conf_emit *emit = &effect->emit;

	if (!*emit->topic)
		return;
	if (strlen(emit->type) > EVENT_TYPE_MAX)
		FAULT(checker, "emit.type", "is longer than %d bytes", EVENT_TYPE_MAX);
	if (leads_to_itself(effect))
		WARN(checker, "emit",
		     "leads to this very effect again: such a chain ends after %d events",
		     EMIT_HOPS_MAX);
	if (*emit->ordering_key)
		code->emit.key =
			compile(checker, "emit.ordering_key", emit->ordering_key, TEMPLATE_HEADER);
	code->emit.payload = compile(checker, "emit.payload", emit->payload, TEMPLATE_EMIT);
}

static void compile_effect(const struct checker *checker, struct rule *rule, struct rule_code *code)
{
	const struct conf_effect *effect = rule->conf;

	check_window(checker, rule);
	code->key = compile(checker, "key", effect->key, TEMPLATE_KEY);
	if (code->key)
		lint_key(checker, code->key);
	if (*effect->tenant)
		code->tenant = compile(checker, "tenant", effect->tenant, TEMPLATE_TENANT);
	if (*effect->serialize_by)
		code->serial = compile(checker, "serialize_by", effect->serialize_by, TEMPLATE_KEY);
	if (*effect->not_before)
		code->not_before =
			compile(checker, "not_before", effect->not_before, TEMPLATE_TEXT);
	if (target_is_mail(rule->target))
		compile_mail(checker, rule, code);
	else
		compile_http(checker, rule, code);
	compile_emit(checker, effect, code);
	for (size_t i = 0; i < rule_template_count(code); i++) {
		const struct template_code *template = rule_template(code, i);
		size_t index;
		if (template && template_pointer(template, 0, &index))
			code->needs_value = true;
	}
}

size_t rule_template_count(const struct rule_code *code)
{
	return FIXED_TEMPLATES + code->query.count + code->headers.count;
}

const struct template_code *rule_template(const struct rule_code *code, size_t at)
{
	const struct template_code *first[FIXED_TEMPLATES] = {
		code->key,      code->tenant,       code->serial,     code->path,
		code->body,     code->mail.from,    code->mail.to,    code->mail.subject,
		code->emit.key, code->emit.payload, code->not_before,
	};

	if (at < FIXED_TEMPLATES)
		return first[at];
	at -= FIXED_TEMPLATES;
	return at < code->query.count ? code->query.items[at].value
				      : code->headers.items[at - code->query.count].value;
}

static const struct target *find_target(const struct rules *rules, const char *name)
{
	for (size_t i = 0; i < rules->target_count; i++)
		if (!strcmp(rules->targets[i].conf->name, name))
			return &rules->targets[i];
	return NULL;
}

static void compile_targets(struct checker *checker)
{
	struct rules *rules = checker->rules;

	checker->list = "targets";
	rules->targets = mem_zero(rules->conf->target_count * sizeof(*rules->targets));
	for (size_t i = 0; i < rules->conf->target_count; i++) {
		struct target *target = &rules->targets[rules->target_count++];
		checker->index = i;
		target->index = i;
		target->conf = &rules->conf->targets[i];
		target->profile = conf_profile_find(rules->conf, target->conf->profile);
		if (target->profile)
			compile_target(checker, target);
		else
			FAULT(checker, "profile", "there is no profile \"%s\"",
			      target->conf->profile);
	}
}

void rules_compile(struct rules *rules, bool redacted, struct buf *faults, struct buf *warnings)
{
	struct checker checker = {
		.rules = rules, .redacted = redacted, .faults = faults, .warnings = warnings
	};

	compile_targets(&checker);
	checker.list = "effects";
	rules->rules = mem_zero(rules->conf->effect_count * sizeof(*rules->rules));
	rules->codes = mem_zero(rules->conf->effect_count * sizeof(*rules->codes));
	for (size_t i = 0; i < rules->conf->effect_count; i++) {
		struct rule *rule = &rules->rules[rules->rule_count++];
		checker.index = i;
		rule->conf = &rules->conf->effects[i];
		rule->code = &rules->codes[i];
		rule->shadow = rule->conf->shadow || rules->conf->ledger.shadow;
		rule->target = find_target(rules, rule->conf->target);
		if (rule->target && rule->target->profile)
			compile_effect(&checker, rule, &rules->codes[i]);
		else
			FAULT(&checker, "target", "there is no target \"%s\"", rule->conf->target);
	}
}
