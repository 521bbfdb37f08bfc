/* Walks libconfig's tree by the tables of keys. Nothing stops at the first fault. */
#include "conf/conf_read.h"

#include <ctype.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_forms.h"
#include "conf/conf_keys.h"
#include "conf/conf_near.h"
#include "conf/conf_value.h"
#include "mem.h"

struct reader {
	struct conf_places *places;
	struct conf_faults *faults;
};

const char *conf_path(char *buffer, const char *base, const char *name)
{
	(void)snprintf(buffer, CONF_PATH_MAX, "%.140s%s%.100s", base, *base ? "." : "", name);
	return buffer;
}

const char *conf_path_item(char *buffer, const char *base, size_t index)
{
	(void)snprintf(buffer, CONF_PATH_MAX, "%.200s[%zu]", base, index);
	return buffer;
}

static void *at(void *base, size_t offset)
{
	return (char *)base + offset;
}

/* --- defaults and freeing ----------------------------------------------------------------------
 */

static void pairs_free(struct conf_pairs *pairs)
{
	for (size_t i = 0; i < pairs->count; i++) {
		free(pairs->items[i].name);
		free(pairs->items[i].value);
	}
	free(pairs->items);
	*pairs = (struct conf_pairs){ 0 };
}

static void texts_free(struct conf_texts *texts)
{
	for (size_t i = 0; i < texts->count; i++)
		free(texts->items[i]);
	free(texts->items);
	*texts = (struct conf_texts){ 0 };
}

static void table_defaults(const struct conf_table *table, void *base)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct conf_key *key = &table->keys[i];
		struct err err;
		if (key->type == CONF_GROUP)
			table_defaults(key->group, base);
		else if (key->type == CONF_TEXT)
			*(char **)at(base, key->offset) =
				mem_text(key->fallback ? key->fallback : "");
		else if (key->fallback && !conf_value_parse(key, key->fallback, &err, base))
			abort(); /* a default that its own row refuses */
	}
}

static bool is_texts(enum conf_type type)
{
	return type == CONF_TEXTS || type == CONF_STATUSES || type == CONF_POINTERS;
}

static void table_free(const struct conf_table *table, void *base)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct conf_key *key = &table->keys[i];
		if (key->type == CONF_GROUP)
			table_free(key->group, base);
		else if (key->type == CONF_TEXT)
			free(*(char **)at(base, key->offset));
		else if (key->type == CONF_PAIRS)
			pairs_free(at(base, key->offset));
		else if (key->type == CONF_PREDICATE)
			conf_predicate_done(at(base, key->offset));
		else if (is_texts(key->type))
			texts_free(at(base, key->offset));
	}
}

static size_t *list_count(const struct conf_section *section, struct conf *conf)
{
	return at(conf, section->count_offset);
}

static void *list_item(const struct conf_section *section, struct conf *conf, size_t index)
{
	char *items = *(char **)at(conf, section->offset);
	return items + index * section->item_size;
}

void conf_read_defaults(struct conf *conf)
{
	for (size_t i = 0; i < conf_section_count; i++)
		if (!conf_sections[i].item_size)
			table_defaults(conf_sections[i].table, at(conf, conf_sections[i].offset));
}

void conf_read_pattern(struct conf *conf)
{
	conf_read_defaults(conf);
	for (size_t i = 0; i < conf_section_count; i++) {
		const struct conf_section *section = &conf_sections[i];
		if (!section->item_size)
			continue;
		*(void **)at(conf, section->offset) = mem_zero(section->item_size);
		*list_count(section, conf) = 1;
		table_defaults(section->table, list_item(section, conf, 0));
	}
}

void conf_read_free(struct conf *conf)
{
	for (size_t i = 0; i < conf_section_count; i++) {
		const struct conf_section *section = &conf_sections[i];
		if (!section->item_size) {
			table_free(section->table, at(conf, section->offset));
			continue;
		}
		for (size_t k = 0; k < *list_count(section, conf); k++)
			table_free(section->table, list_item(section, conf, k));
		free(*(void **)at(conf, section->offset));
	}
}

/* --- the file ----------------------------------------------------------------------------------
 */

static void place(struct reader *reader, const char *path, const config_setting_t *setting)
{
	conf_places_add(reader->places, path, config_setting_source_line(setting), NULL);
}

static bool is_list(const config_setting_t *setting)
{
	return config_setting_is_list(setting) || config_setting_is_array(setting);
}

static size_t list_length(const config_setting_t *setting)
{
	return (size_t)config_setting_length(setting);
}

static bool read_pair(struct reader *reader, const config_setting_t *setting, const char *path,
		      struct conf_pairs *pairs)
{
	const char *name, *value;
	struct err err;
	if (!is_list(setting) || list_length(setting) != 2) {
		conf_fault(reader->faults, path, "is not a pair; write (\"name\", \"value\")");
		return false;
	}
	if (!conf_value_text(config_setting_get_elem(setting, 0), &err, &name)) {
		conf_fault(reader->faults, path, "the name %s", err.text);
		return false;
	}
	if (!conf_value_text(config_setting_get_elem(setting, 1), &err, &value)) {
		conf_fault(reader->faults, path, "the value of \"%s\" %s", name, err.text);
		return false;
	}
	pairs->items = mem_grow(pairs->items, pairs->count + 1, sizeof(*pairs->items));
	pairs->items[pairs->count++] =
		(struct conf_pair){ .name = mem_text(name), .value = mem_text(value) };
	return true;
}

static void read_pairs(struct reader *reader, const struct conf_key *key,
		       const config_setting_t *setting, const char *path, void *base)
{
	char item[CONF_PATH_MAX];
	struct err err;
	if (!is_list(setting)) {
		(void)conf_value_mismatch(key, setting, &err);
		conf_fault(reader->faults, path, "%s", err.text);
		return;
	}
	for (unsigned i = 0; i < list_length(setting); i++) {
		const config_setting_t *pair = config_setting_get_elem(setting, i);
		place(reader, conf_path_item(item, path, i), pair);
		(void)read_pair(reader, pair, item, at(base, key->offset));
	}
}

static void read_text(struct reader *reader, const struct conf_key *key,
		      const config_setting_t *setting, const char *path, struct conf_texts *texts)
{
	struct err err;
	char status[4];
	const char *text = status;
	bool ok = key->type == CONF_STATUSES ? conf_value_status(setting, &err, status)
					     : conf_value_text(setting, &err, &text);
	if (ok && !*text)
		ok = err_set(&err, "must not be empty");
	if (ok && key->type == CONF_POINTERS)
		ok = conf_pointer_check(text, &err);
	if (!ok) {
		conf_fault(reader->faults, path, "%s", err.text);
		return;
	}
	texts->items = mem_grow(texts->items, texts->count + 1, sizeof(*texts->items));
	texts->items[texts->count++] = mem_text(text);
}

static void read_texts(struct reader *reader, const struct conf_key *key,
		       const config_setting_t *setting, const char *path, void *base)
{
	char item[CONF_PATH_MAX];
	struct err err;
	struct conf_texts *texts = at(base, key->offset);
	if (config_setting_is_group(setting)) {
		(void)conf_value_mismatch(key, setting, &err);
		conf_fault(reader->faults, path, "%s", err.text);
		return;
	}
	if (!is_list(setting)) {
		read_text(reader, key, setting, path, texts);
		return;
	}
	for (unsigned i = 0; i < list_length(setting); i++) {
		const config_setting_t *element = config_setting_get_elem(setting, i);
		place(reader, conf_path_item(item, path, i), element);
		read_text(reader, key, element, item, texts);
	}
}

static void unknown_key(struct reader *reader, const struct conf_table *table, const char *path,
			const char *name)
{
	struct conf_near near;
	conf_near_init(&near, name);
	for (size_t i = 0; i < table->count; i++)
		if (!table->keys[i].later)
			conf_near_try(&near, table->keys[i].name);
	const char *best = conf_near_best(&near);
	if (best)
		conf_fault(reader->faults, path, "unknown key; did you mean \"%s\"?", best);
	else
		conf_fault(reader->faults, path, "unknown key");
}

static const struct conf_key *find_key(const struct conf_table *table, const char *name)
{
	for (size_t i = 0; i < table->count; i++)
		if (strcmp(table->keys[i].name, name) == 0)
			return &table->keys[i];
	return NULL;
}

static void read_group(struct reader *reader, const struct conf_table *table,
		       const config_setting_t *group, const char *path, void *base);

static void read_key(struct reader *reader, const struct conf_key *key,
		     const config_setting_t *setting, const char *path, void *base)
{
	struct err err;
	bool ok = true;
	if (key->type == CONF_PAIRS)
		read_pairs(reader, key, setting, path, base);
	else if (is_texts(key->type))
		read_texts(reader, key, setting, path, base);
	else if (key->type != CONF_GROUP)
		ok = conf_value_read(key, setting, &err, base);
	else if (config_setting_is_group(setting))
		read_group(reader, key->group, setting, path, base);
	else
		ok = conf_value_mismatch(key, setting, &err);
	if (!ok)
		conf_fault(reader->faults, path, "%s", err.text);
}

static void read_group(struct reader *reader, const struct conf_table *table,
		       const config_setting_t *group, const char *path, void *base)
{
	char child[CONF_PATH_MAX];
	for (unsigned i = 0; i < list_length(group); i++) {
		const config_setting_t *setting = config_setting_get_elem(group, i);
		const char *name = config_setting_name(setting);
		const struct conf_key *key = find_key(table, name);
		place(reader, conf_path(child, path, name), setting);
		if (key)
			read_key(reader, key, setting, child, base);
		else
			unknown_key(reader, table, child, name);
	}
}

static void read_list(struct reader *reader, const struct conf_section *section,
		      const config_setting_t *list, struct conf *conf)
{
	char path[CONF_PATH_MAX];
	size_t *count = list_count(section, conf);
	void **items = at(conf, section->offset);
	if (!is_list(list)) {
		conf_fault(reader->faults, section->name,
			   "is not a list; write %s = ( { ... }, { ... } );", section->name);
		return;
	}
	size_t length = list_length(list);
	*items = mem_zero(length * section->item_size);
	for (unsigned i = 0; i < length; i++) {
		const config_setting_t *group = config_setting_get_elem(list, i);
		place(reader, conf_path_item(path, section->name, i), group);
		if (!config_setting_is_group(group)) {
			conf_fault(reader->faults, path, "is not a group; write { key = value; }");
			return; /* the items behind it would be counted wrong */
		}
		void *item = list_item(section, conf, (*count)++);
		table_defaults(section->table, item);
		read_group(reader, section->table, group, path, item);
	}
}

static const struct conf_section *find_section(const char *name)
{
	for (size_t i = 0; i < conf_section_count; i++)
		if (strcmp(conf_sections[i].name, name) == 0)
			return &conf_sections[i];
	return NULL;
}

static void unknown_section(struct reader *reader, const char *name)
{
	struct conf_near near;
	conf_near_init(&near, name);
	for (size_t i = 0; i < conf_section_count; i++)
		if (!conf_sections[i].later)
			conf_near_try(&near, conf_sections[i].name);
	const char *best = conf_near_best(&near);
	if (best)
		conf_fault(reader->faults, name, "unknown section; did you mean \"%s\"?", best);
	else
		conf_fault(reader->faults, name, "unknown section");
}

static void read_section(struct reader *reader, const config_setting_t *setting, struct conf *conf)
{
	const char *name = config_setting_name(setting);
	const struct conf_section *section = find_section(name);
	place(reader, name, setting);
	if (!section)
		unknown_section(reader, name);
	else if (section->item_size)
		read_list(reader, section, setting, conf);
	else if (config_setting_is_group(setting))
		read_group(reader, section->table, setting, name, at(conf, section->offset));
	else
		conf_fault(reader->faults, name, "is not a group; write %s = { key = value; };",
			   name);
}

static void syntax_fault(struct reader *reader, const config_t *config)
{
	const char *text = config_error_text(config);
	unsigned line = (unsigned)config_error_line(config);
	unsigned last = conf_text_last_line(&reader->places->text);
	conf_places_add(reader->places, "", line < last ? line : last, NULL);
	if (strcmp(text, "duplicate setting name") == 0)
		conf_fault(reader->faults, "", "a key or section of this line was set before");
	else
		conf_fault(reader->faults, "",
			   "%s: on this line or just before it a quote, a bracket or a \"=\" is "
			   "missing, or something stands that is no part of a configuration",
			   text);
}

void conf_read_file(struct conf *conf, struct conf_faults *faults)
{
	struct reader reader = { .places = conf->places, .faults = faults };
	config_t config;
	config_init(&config);
	if (config_read_string(&config, buf_text(&conf->places->text.text))) {
		const config_setting_t *root = config_root_setting(&config);
		for (unsigned i = 0; i < list_length(root); i++)
			read_section(&reader, config_setting_get_elem(root, i), conf);
	} else {
		syntax_fault(&reader, &config);
	}
	config_destroy(&config);
}

/* --- the environment ---------------------------------------------------------------------------
 */

static void read_variable(struct reader *reader, const struct conf_section *section,
			  const struct conf_key *key, struct conf *conf)
{
	char path[CONF_PATH_MAX];
	BUF_AUTO struct buf name = { 0 };
	struct err err;
	buf_addf(&name, "COUNTERFOIL_%s_%s", section->name, key->name);
	for (char *c = name.data; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	const char *text = getenv(name.data);
	if (!text)
		return;
	conf_places_add(reader->places, conf_path(path, section->name, key->name), 0, name.data);
	if (!conf_value_parse(key, text, &err, at(conf, section->offset)))
		conf_fault(reader->faults, path, "%s", err.text);
}

void conf_read_environment(struct conf *conf, struct conf_faults *faults)
{
	struct reader reader = { .places = conf->places, .faults = faults };
	for (size_t i = 0; i < conf_section_count; i++) {
		const struct conf_section *section = &conf_sections[i];
		for (size_t k = 0; k < section->table->count && !section->item_size; k++)
			if (conf_value_scalar(section->table->keys[k].type))
				read_variable(&reader, section, &section->table->keys[k], conf);
	}
}

/* --- the command line --------------------------------------------------------------------------
 */

/* The row of a key outside of the lists. A flag that names another one is a fault of the program.
 */
static const struct conf_key *find_scalar(const char *path, const struct conf_section **section_r)
{
	for (size_t i = 0; i < conf_section_count; i++) {
		const struct conf_section *section = &conf_sections[i];
		size_t length = strlen(section->name);
		const struct conf_key *key = NULL;
		if (strncmp(path, section->name, length) == 0 && path[length] == '.')
			key = find_key(section->table, path + length + 1);
		if (!key || section->item_size || !conf_value_scalar(key->type))
			continue;
		*section_r = section;
		return key;
	}
	abort();
}

void conf_read_flag(struct conf *conf, const struct conf_flag *flag, struct conf_faults *faults)
{
	const struct conf_section *section;
	const struct conf_key *key = find_scalar(flag->key, &section);
	struct err err;
	conf_places_add(conf->places, flag->key, 0, flag->option);
	if (!conf_value_parse(key, flag->value, &err, at(conf, section->offset)))
		conf_fault(faults, flag->key, "%s", err.text);
}

bool conf_flag_check(const struct conf_flag *flag, struct err *err)
{
	const struct conf_section *section;
	const struct conf_key *key = find_scalar(flag->key, &section);
	struct conf scratch = { 0 };
	bool ok = conf_value_parse(key, flag->value, err, at(&scratch, section->offset));
	if (key->type == CONF_TEXT)
		free(*(char **)at(&scratch, section->offset + key->offset));
	return ok;
}

/* --- what must be there ------------------------------------------------------------------------
 */

static void check_required(const struct conf *conf, const struct conf_table *table,
			   const char *path, struct conf_faults *faults)
{
	char child[CONF_PATH_MAX];
	for (size_t i = 0; i < table->count; i++) {
		const struct conf_key *key = &table->keys[i];
		conf_path(child, path, key->name);
		if (key->type == CONF_GROUP)
			check_required(conf, key->group, child, faults);
		else if (key->required && !conf_places_find(conf->places, child))
			conf_fault(faults, child, "is required: %s", key->meaning);
	}
}

void conf_read_required(const struct conf *conf, struct conf_faults *faults)
{
	char path[CONF_PATH_MAX];
	for (size_t i = 0; i < conf_section_count; i++) {
		const struct conf_section *section = &conf_sections[i];
		if (!section->item_size)
			continue;
		size_t count = *(const size_t *)((const char *)conf + section->count_offset);
		for (size_t k = 0; k < count; k++)
			check_required(conf, section->table, conf_path_item(path, section->name, k),
				       faults);
	}
}
