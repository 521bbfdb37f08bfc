/* The predicate on an answer's body. */
#include "predicate.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "mem.h"

struct predicate {
	const struct conf_predicate *conf;
	struct json_paths *paths;
};

struct predicate *predicate_new(const struct conf_predicate *conf)
{
	struct predicate *predicate;
	size_t index;

	if (!*conf->pointer)
		return NULL;
	predicate = mem_zero(sizeof(*predicate));
	predicate->conf = conf;
	predicate->paths = json_paths_new();
	if (!json_paths_add(predicate->paths, conf->pointer, NULL, &index))
		abort(); /* one that cannot be read was refused when the configuration was */
	return predicate;
}

void predicate_free(struct predicate *predicate)
{
	if (!predicate)
		return;
	json_paths_free(predicate->paths);
	free(predicate);
}

enum body_says predicate_ask(const struct predicate *predicate, const char *body, size_t length,
			     bool whole)
{
	struct buf storage BUF_AUTO = { 0 };
	struct json_value value;
	struct err err;

	if (!predicate)
		return BODY_UNASKED;
	if (!whole || !json_read(predicate->paths, body, length, &err, &storage, &value) ||
	    value.type == JSON_MISSING)
		return BODY_UNREADABLE;
	const char *text = predicate->conf->text;
	const bool same = value.length == strlen(text) && !memcmp(value.text, text, value.length);
	return same == predicate->conf->equal ? BODY_YES : BODY_NO;
}
