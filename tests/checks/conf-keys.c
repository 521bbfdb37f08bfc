/* Prints the keys of the tables, or those that a configuration file sets; for conf-documented.
 * Keys that come later are left out.
 *
 *   conf-keys table        | `key` | type | default | meaning |, a row a key, as in conf/KEYS.md
 *   conf-keys keys         key, TAB, default as it is written in a file ("?" when there is none)
 *   conf-keys file FILE    key, TAB, value as it is written in the file ("?" for a list) */
#include <libconfig.h>
#include <stdio.h>
#include <string.h>

#include "conf/conf_keys.h"

typedef void key_fn(const char *path, const struct conf_key *key);

static void each_key(const struct conf_table *table, const char *base, key_fn *fn)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct conf_key *key = &table->keys[i];
		char path[256];
		if (key->later)
			continue;
		(void)snprintf(path, sizeof(path), "%.200s.%s", base, key->name);
		if (key->type == CONF_GROUP)
			each_key(key->group, path, fn);
		else
			fn(path, key);
	}
}

static int quoted(enum conf_type type)
{
	return type != CONF_BOOL && type != CONF_INT;
}

static void print_row(const char *path, const struct conf_key *key)
{
	printf("| `%s` | ", path);
	if (!key->words)
		printf("%s", conf_type_name(key->type));
	for (const struct conf_word *word = key->words; word && word->name; word++)
		printf("%s%s", word == key->words ? "" : ", ", word->name);
	if (key->required)
		printf(" | required | ");
	else if (!key->fallback)
		printf(" | none | ");
	else
		printf(quoted(key->type) ? " | `\"%s\"` | " : " | `%s` | ", key->fallback);
	printf("%s |\n", key->meaning);
}

static void print_key(const char *path, const struct conf_key *key)
{
	if (!key->fallback)
		printf("%s\t?\n", path);
	else
		printf(quoted(key->type) ? "%s\t\"%s\"\n" : "%s\t%s\n", path, key->fallback);
}

static void print_setting(const config_setting_t *setting, const char *path)
{
	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_STRING:
		printf("%s\t\"%s\"\n", path, config_setting_get_string(setting));
		break;
	case CONFIG_TYPE_BOOL:
		printf("%s\t%s\n", path, config_setting_get_bool(setting) ? "true" : "false");
		break;
	case CONFIG_TYPE_INT:
		printf("%s\t%d\n", path, config_setting_get_int(setting));
		break;
	default:
		printf("%s\t?\n", path);
	}
}

/* A list of groups counts as one group, as in the tables: "targets[].url". */
static void walk(const config_setting_t *group, const char *base)
{
	for (int i = 0; i < config_setting_length(group); i++) {
		const config_setting_t *child = config_setting_get_elem(group, (unsigned)i);
		const config_setting_t *first =
			config_setting_is_list(child) ? config_setting_get_elem(child, 0) : NULL;
		int items = first && config_setting_is_group(first);
		char path[256];
		(void)snprintf(path, sizeof(path), "%.200s%s%s%s", base, *base ? "." : "",
			       config_setting_name(child), items ? "[]" : "");
		if (items)
			walk(first, path);
		else if (config_setting_is_group(child))
			walk(child, path);
		else
			print_setting(child, path);
	}
}

static int print_file(const char *path)
{
	config_t config;
	config_init(&config);
	int ok = config_read_file(&config, path);
	if (ok)
		walk(config_root_setting(&config), "");
	else
		fprintf(stderr, "%s:%d: %s\n", path, config_error_line(&config),
			config_error_text(&config));
	config_destroy(&config);
	return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "file") == 0)
		return print_file(argv[2]);
	if (argc != 2)
		return 2;
	for (size_t i = 0; i < conf_section_count; i++) {
		char base[64];
		if (conf_sections[i].later)
			continue;
		(void)snprintf(base, sizeof(base), "%s%s", conf_sections[i].name,
			       conf_sections[i].item_size ? "[]" : "");
		each_key(conf_sections[i].table, base,
			 strcmp(argv[1], "table") == 0 ? print_row : print_key);
	}
	return 0;
}
