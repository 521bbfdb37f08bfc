/* Checks that items of different lists share. */
#ifndef COMMON_CONF_ITEM_H
#define COMMON_CONF_ITEM_H

#include <stddef.h>

#include "conf.h"
#include "conf/conf_places.h"
#include "conf/conf_read.h"

/* The item in hand. */
struct conf_item {
	const struct conf *conf;
	struct conf_faults *faults;
	const char *list;   /* "targets" */
	size_t index;       /* in the file */
	const char **names; /* of the items before this one */
	size_t name_count;
};

void conf_item_begin(struct conf_item *item, const char *list);
/* "targets[3].url"; the buffer is the caller's, CONF_PATH_MAX bytes. */
const char *conf_item_path(const struct conf_item *item, const char *key, char *buffer);
/* The key stands in the file. */
bool conf_item_says(const struct conf_item *item, const char *key);

#define ITEM_FAULT(item_, key_, ...)                                                               \
	do {                                                                                       \
		char path_[CONF_PATH_MAX];                                                         \
		conf_fault((item_)->faults, conf_item_path((item_), (key_), path_), __VA_ARGS__);  \
	} while (0)

/* Nothing later may have this name. */
void conf_item_keep_name(struct conf_item *item, const char *name);
/* `key` is where the name stands, "name" or "alias[0]". */
void conf_item_check_name(struct conf_item *item, const char *key, const char *name);
void conf_item_check_headers(const struct conf_item *item, const char *key,
			     const struct conf_pairs *headers, const struct conf_profile *profile);

/* One item each. */
void conf_check_profile(struct conf_item *item, const struct conf_profile *profile);
/* `open`: its files must be there. */
void conf_check_target(struct conf_item *item, const struct conf_target *target, bool open);
void conf_check_effect(struct conf_item *item, const struct conf_effect *effect);

#endif
