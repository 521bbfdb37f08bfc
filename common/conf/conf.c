/* One file, all its faults, one struct. */
#include "conf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf_check.h"
#include "conf/conf_later.h"
#include "conf/conf_places.h"
#include "conf/conf_profiles.h"
#include "conf/conf_read.h"
#include "mem.h"

void conf_free(struct conf *conf)
{
	if (!conf)
		return;
	conf_read_free(conf);
	if (conf->places)
		conf_places_done(conf->places);
	free(conf->places);
	free(conf->path);
	free(conf);
}

static void default_instance(struct conf *conf, enum conf_program program)
{
	static const char *const names[] = {
		[CONF_RELAY] = "relay", [CONF_LEDGER] = "ledger", [CONF_CONSOLE] = "console"
	};
	char host[256] = "";
	if (*conf->general.instance)
		return;
	if (gethostname(host, sizeof(host) - 1) != 0 || !*host)
		(void)snprintf(host, sizeof(host), "localhost");
	BUF_AUTO struct buf name = { 0 };
	buf_addf(&name, "%s-%s", host, names[program]);
	free(conf->general.instance);
	conf->general.instance = buf_take(&name);
}

static const char *own_conninfo(const struct conf *conf, enum conf_program program)
{
	const char *own[] = { [CONF_RELAY] = conf->relay.conninfo,
			      [CONF_LEDGER] = conf->ledger.conninfo,
			      [CONF_CONSOLE] = conf->console.conninfo };
	return own[program];
}

static void choose_conninfo(struct conf *conf, enum conf_program program)
{
	const char *key = conf_conninfo_key(conf, program);
	if (strcmp(key, "postgres.conninfo") == 0)
		return;
	free(conf->postgres.conninfo);
	conf->postgres.conninfo = mem_text(own_conninfo(conf, program));
	conf_places_copy(conf->places, key, "postgres.conninfo");
}

/* A body of "" is one. */
static void note_bodies(struct conf *conf)
{
	char item[CONF_PATH_MAX], path[CONF_PATH_MAX];
	for (size_t i = 0; i < conf->effect_count; i++) {
		conf_path(path, conf_path_item(item, "effects", i), "request.body");
		conf->effects[i].has_body = conf_places_find(conf->places, path) != NULL;
	}
}

static bool read_text(struct conf *conf, struct buf *faults)
{
	struct err err;
	if (conf_text_read(&conf->places->text, conf->path, &err))
		return true;
	bool missing = access(conf->path, F_OK) != 0 && errno == ENOENT;
	buf_addf(faults, "%s%s\n", err.text, missing ? "; name another file with --config" : "");
	return false;
}

static void load(struct conf *conf, const struct conf_source *source, struct conf_faults *faults)
{
	enum conf_program program = source->program;
	conf_read_defaults(conf);
	conf_read_file(conf, faults);
	conf_read_environment(conf, faults);
	for (size_t i = 0; i < source->flag_count; i++)
		conf_read_flag(conf, &source->flags[i], faults);
	if (conf_places_find(conf->places, ""))
		return; /* there is no tree, so nothing of it is missing */
	if (program == CONF_LEDGER)
		conf_read_required(conf, faults);
	conf_later_check(conf, faults);
	conf_profiles_add(conf);
	conf_check_sections(conf, source, faults);
	conf_check_rules(conf, source, faults);
	note_bodies(conf);
	default_instance(conf, program);
	choose_conninfo(conf, program);
}

bool conf_load_from(const struct conf_source *source, struct buf *faults, struct conf **conf_r)
{
	struct conf *conf = mem_zero(sizeof(*conf));
	conf->path = mem_text(source->path);
	conf->places = mem_zero(sizeof(*conf->places));
	conf->places->path = mem_text(source->path);
	struct conf_faults found = { .places = conf->places };
	bool ok = read_text(conf, faults);
	if (ok)
		load(conf, source, &found);
	if (found.count)
		ok = false;
	conf_faults_print(&found, faults);
	conf_faults_done(&found);
	if (!ok) {
		conf_free(conf);
		return false;
	}
	*conf_r = conf;
	return true;
}

bool conf_load(const char *path, enum conf_program program, struct buf *faults,
	       struct conf **conf_r)
{
	const struct conf_source source = { .path = path, .program = program };
	return conf_load_from(&source, faults, conf_r);
}

const char *conf_conninfo_key(const struct conf *conf, enum conf_program program)
{
	static const char *const keys[] = { [CONF_RELAY] = "relay.conninfo",
					    [CONF_LEDGER] = "ledger.conninfo",
					    [CONF_CONSOLE] = "console.conninfo" };
	return *own_conninfo(conf, program) ? keys[program] : "postgres.conninfo";
}
