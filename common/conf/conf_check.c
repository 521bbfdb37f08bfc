/* Checks of the single sections. */
#include "conf/conf_check.h"

#include <stdio.h>
#include <string.h>

#include "conf/conf_net.h"
#include "conf/conf_properties.h"
#include "utf8.h"

static void check_conninfo(const char *key, const char *conninfo, struct conf_faults *faults)
{
	struct err err;
	if (!conf_conninfo_check(conninfo, &err))
		conf_fault(faults, key, "%s", err.text);
}

static void check_shown_name(const char *key, const char *name, struct conf_faults *faults)
{
	if (!utf8_printable(name, strlen(name)))
		conf_fault(faults, key, "holds a control character");
}

static void check_listen(const char *key, const char *address, struct conf_faults *faults)
{
	struct err err;
	if (*address && !conf_listen_check(address, &err))
		conf_fault(faults, key, "%s", err.text);
}

/* True: the property may be set by the user. */
static bool check_property(const char *name, struct err *err)
{
	const char *why = properties_owned(name);
	if (why)
		return err_set(err, "the property %s cannot be set: %s", name, why);
	return true;
}

static bool is_servers(const char *name, const char *value)
{
	return *value && (strcmp(name, "bootstrap.servers") == 0 ||
			  strcmp(name, "metadata.broker.list") == 0);
}

static bool check_properties(const struct conf *conf, struct conf_faults *faults)
{
	bool servers = false;
	char path[64];
	struct err err;
	for (size_t i = 0; i < conf->kafka.properties.count; i++) {
		const struct conf_pair *pair = &conf->kafka.properties.items[i];
		(void)snprintf(path, sizeof(path), "kafka.properties[%zu]", i);
		if (!*pair->name)
			conf_fault(faults, path, "the name is empty");
		else if (!check_property(pair->name, &err))
			conf_fault(faults, path, "%s", err.text);
		else if (properties_secret(pair->name))
			conf_fault(faults, path,
				   "%s is a secret; write it in kafka.properties_file, a password "
				   "in kafka.password_file",
				   pair->name);
		servers = servers || is_servers(pair->name, pair->value);
	}
	return servers;
}

/* True when the servers are named there, or may be. */
static bool check_properties_file(const struct conf *conf, const struct conf_source *source,
				  struct conf_faults *faults)
{
	struct properties properties;
	struct err err;
	bool servers = false;
	if (source->closed)
		return true;
	if (!properties_read(conf->kafka.properties_file, &err, &properties)) {
		conf_fault(faults, "kafka.properties_file", "%s", err.text);
		return true; /* what it would have held is not known */
	}
	for (size_t i = 0; i < properties.count; i++) {
		const struct property *property = &properties.items[i];
		servers = servers || is_servers(property->name, property->value);
		if (!check_property(property->name, &err))
			conf_fault(faults, "kafka.properties_file", "%s:%u: %s",
				   conf->kafka.properties_file, property->line, err.text);
	}
	properties_done(&properties);
	return servers;
}

static void check_kafka(const struct conf *conf, const struct conf_source *source,
			struct conf_faults *faults)
{
	bool servers = check_properties(conf, faults);
	if (source->program == CONF_CONSOLE)
		return;
	if (*conf->kafka.properties_file && check_properties_file(conf, source, faults))
		servers = true;
	if (!servers)
		conf_fault(faults, "kafka.properties",
			   "bootstrap.servers is required, here or in kafka.properties_file; write "
			   "properties = ( (\"bootstrap.servers\", \"HOST:9092\") );");
}

void conf_check_sections(const struct conf *conf, const struct conf_source *source,
			 struct conf_faults *faults)
{
	check_shown_name("general.environment", conf->general.environment, faults);
	check_shown_name("general.instance", conf->general.instance, faults);
	check_conninfo("postgres.conninfo", conf->postgres.conninfo, faults);
	check_conninfo("relay.conninfo", conf->relay.conninfo, faults);
	check_conninfo("ledger.conninfo", conf->ledger.conninfo, faults);
	check_conninfo("console.conninfo", conf->console.conninfo, faults);
	check_kafka(conf, source, faults);
	conf_check_relay(&conf->relay, faults);
	check_listen("http.relay", conf->http.relay, faults);
	check_listen("http.ledger", conf->http.ledger, faults);
	if (conf->ledger.due_low >= conf->ledger.due_high)
		conf_fault(faults, "ledger.due_low", "must be less than ledger.due_high");
	if (source->program == CONF_LEDGER && conf->effect_count == 0)
		conf_fault(faults, "effects", "at least one effect is required");
}
