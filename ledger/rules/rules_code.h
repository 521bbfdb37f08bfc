/* The inside of the compiled rules. */
#ifndef LEDGER_RULES_CODE_H
#define LEDGER_RULES_CODE_H

#include "rules.h"
#include "template.h"

struct rule_pair {
	char *name; /* of a query parameter: already encoded */
	struct template_code *value;
};

struct rule_pairs {
	struct rule_pair *items;
	size_t count;
};

/* Of mail; NULL else. */
struct rule_mail {
	struct template_code *from, *to, *subject;
};

/* Of the event that follows. */
struct rule_emit {
	struct template_code *key;     /* NULL: that of the event */
	struct template_code *payload; /* NULL: nothing is emitted */
};

struct rule_code {
	struct template_code *key;
	struct template_code *tenant;     /* NULL: none */
	struct template_code *serial;     /* NULL: none */
	struct template_code *not_before; /* NULL: none */
	struct template_code *path;       /* NULL: mail */
	struct rule_mail mail;
	struct template_code
		*body; /* NULL: the event's value is sent; an empty one sends nothing */
	struct rule_emit emit;
	struct rule_pairs query;
	struct rule_pairs headers;
	const char *content_type;  /* "": the event's own */
	struct buf target_headers; /* "Name: value\n", those which the effect does not set itself */
	bool needs_value;          /* a pointer is used: the event's value must be JSON */
};

/* The rules for one topic and type. */
struct route {
	const char *topic;
	const char *type; /* NULL: every type that has no route of its own */
	const struct rule **rules;
	size_t count;
	struct json_paths *paths;  /* of these rules only: what others read is not judged */
	struct json_value *values; /* by their index in paths */
	size_t *pointers;          /* their index in rules->pointers */
};

struct rules {
	const struct conf *conf;
	struct target *targets;
	size_t target_count;
	struct rule *rules;
	struct rule_code *codes;
	size_t rule_count;
	const char **topics;
	size_t topic_count;
	struct route *routes;
	size_t route_count;
	struct json_paths *pointers; /* of all templates; never read with */
	struct json_value *values;   /* of the event in hand, by index in pointers */
	struct buf storage;
	struct draft draft;
};

/* Fills rules->targets, ->rules and ->codes; says all that is wrong. redacted: opens no secret. */
void rules_compile(struct rules *rules, bool redacted, struct buf *faults, struct buf *warnings);

/* Hands out each template of a rule: NULL behind the last. Some may be NULL before it; see count.
 */
size_t rule_template_count(const struct rule_code *code);
const struct template_code *rule_template(const struct rule_code *code, size_t at);

/* Fills the draft. False: no key can be made, and the text says why. */
MUST_USE bool draft_make(struct draft *draft, const struct rule *rule,
			 const struct template_input *input, usec_t now, struct err *err);

#endif
