/* librdkafka's settings from ours, its log in ours, its queue on our loop. */
#include "kafka.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "conf/conf_properties.h"
#include "mem.h"

/* --- settings -----------------------------------------------------------------------------------
 */

/* librdkafka calls this from threads of its own. log_write() writes one line with one call and
 * changes nothing, so it may be called from any of them. */
static void write_line(struct log *log, const rd_kafka_t *client, int level, const char *facility,
		       const char *text)
{
	/* by syslog's: what the library calls an error, it goes on trying to mend itself; what does
	 * not mend is said by the part that meets it */
	static const enum log_level levels[] = { LOG_ERROR, LOG_ERROR, LOG_ERROR, LOG_WARN,
						 LOG_WARN,  LOG_INFO,  LOG_INFO,  LOG_DEBUG };
	log_write(log, level >= 0 && level < 8 ? levels[level] : LOG_DEBUG, "librdkafka",
		  LOG_FIELDS(LOG_TEXT("client", rd_kafka_name(client)),
			     LOG_TEXT("facility", facility), LOG_TEXT("detail", text)));
}

static void log_of_opaque(const rd_kafka_t *client, int level, const char *facility,
			  const char *text)
{
	write_line(rd_kafka_opaque(client), client, level, facility, text);
}

static void log_of_owner(const rd_kafka_t *client, int level, const char *facility,
			 const char *text)
{
	struct log *const *first = rd_kafka_opaque(client);
	write_line(*first, client, level, facility, text);
}

void kafka_conf_set_owner(rd_kafka_conf_t *conf, void *owner)
{
	rd_kafka_conf_set_log_cb(conf, log_of_owner);
	rd_kafka_conf_set_opaque(conf, owner);
}

bool kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value, struct err *err)
{
	char why[512];
	if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) != RD_KAFKA_CONF_OK)
		return err_set(err, "Kafka property %s: %s", name, why);
	return true;
}

static bool set_users(rd_kafka_conf_t *conf, const char *name, const char *value, struct err *err)
{
	const char *why = properties_owned(name);
	if (why)
		return err_set(err, "Kafka property %s cannot be set: %s", name, why);
	return kafka_conf_set(conf, name, value, err);
}

static bool apply_list(rd_kafka_conf_t *conf, const struct conf_pairs *pairs, struct err *err)
{
	for (size_t i = 0; i < pairs->count; i++)
		if (!set_users(conf, pairs->items[i].name, pairs->items[i].value, err))
			return err_prefix(err, "kafka.properties[%zu]", i);
	return true;
}

static bool apply_file(rd_kafka_conf_t *conf, const char *path, struct err *err)
{
	struct properties properties;
	if (!*path)
		return true;
	if (!properties_read(path, err, &properties))
		return err_prefix(err, "kafka.properties_file");
	bool ok = true;
	for (size_t i = 0; ok && i < properties.count; i++) {
		const struct property *property = &properties.items[i];
		ok = set_users(conf, property->name, property->value, err) ||
		     err_prefix(err, "%s:%u", path, property->line);
	}
	properties_done(&properties);
	return ok;
}

static bool apply_password(rd_kafka_conf_t *conf, const char *path, struct err *err)
{
	char *password;
	if (!*path)
		return true;
	if (!conf_read_secret(path, err, &password))
		return false;
	bool ok = kafka_conf_set(conf, "sasl.password", password, err);
	free(password);
	return ok;
}

bool kafka_conf_new(const struct conf_kafka *kafka, struct log *log, struct err *err,
		    rd_kafka_conf_t **conf_r)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	bool ok = apply_list(conf, &kafka->properties, err) &&
		  apply_file(conf, kafka->properties_file, err) &&
		  (apply_password(conf, kafka->password_file, err) ||
		   err_prefix(err, "kafka.password_file"));
	if (!ok) {
		rd_kafka_conf_destroy(conf);
		return false;
	}
	rd_kafka_conf_set_log_cb(conf, log_of_opaque);
	rd_kafka_conf_set_opaque(conf, log);
	*conf_r = conf;
	return true;
}

bool kafka_message_max(const struct conf_kafka *kafka, struct err *err, int64_t *bytes_r)
{
	char text[32] = "";
	size_t size = sizeof(text);
	rd_kafka_conf_t *conf;
	if (!kafka_conf_new(kafka, NULL, err, &conf))
		return false;
	rd_kafka_conf_res_t known = rd_kafka_conf_get(conf, "message.max.bytes", text, &size);
	rd_kafka_conf_destroy(conf);
	if (known != RD_KAFKA_CONF_OK)
		return err_set(err, "librdkafka does not say what message.max.bytes is");
	*bytes_r = strtoll(text, NULL, 10);
	return true;
}

/* --- checks without a server --------------------------------------------------------------------
 */

static void add_fault(const struct conf *conf, const char *key, const struct err *err,
		      struct buf *faults)
{
	char place[1024];
	buf_addf(faults, "%s: %s\n", conf_place(conf, key, place, sizeof(place)), err->text);
}

static void check_list(const struct conf *conf, rd_kafka_conf_t *scratch, struct buf *faults)
{
	const struct conf_pairs *pairs = &conf->kafka.properties;
	char key[64];
	struct err err;
	for (size_t i = 0; i < pairs->count; i++) {
		(void)snprintf(key, sizeof(key), "kafka.properties[%zu]", i);
		if (!set_users(scratch, pairs->items[i].name, pairs->items[i].value, &err))
			add_fault(conf, key, &err, faults);
	}
}

static void check_file(const struct conf *conf, rd_kafka_conf_t *scratch, struct buf *faults)
{
	const char *path = conf->kafka.properties_file;
	struct properties properties;
	struct err err;
	if (!*path)
		return;
	if (!properties_read(path, &err, &properties)) {
		add_fault(conf, "kafka.properties_file", &err, faults);
		return;
	}
	for (size_t i = 0; i < properties.count; i++) {
		const struct property *property = &properties.items[i];
		if (!set_users(scratch, property->name, property->value, &err))
			buf_addf(faults, "%s:%u: %s\n", path, property->line, err.text);
	}
	properties_done(&properties);
}

void kafka_conf_check(const struct conf *conf, struct buf *faults)
{
	rd_kafka_conf_t *scratch = rd_kafka_conf_new();
	struct err err;
	check_list(conf, scratch, faults);
	check_file(conf, scratch, faults);
	if (!apply_password(scratch, conf->kafka.password_file, &err))
		add_fault(conf, "kafka.password_file", &err, faults);
	rd_kafka_conf_destroy(scratch);
}

static void log_nothing(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
	(void)client;
	(void)level;
	(void)facility;
	(void)text;
}

static bool setting_is(const rd_kafka_conf_t *conf, const char *name, const char *value)
{
	char text[64];
	size_t size = sizeof(text);
	return rd_kafka_conf_get(conf, name, text, &size) == RD_KAFKA_CONF_OK &&
	       strcasecmp(text, value) == 0;
}

/* With these a client fetches a token or a ticket as soon as it is made. */
static bool logs_in_elsewhere(const rd_kafka_conf_t *conf)
{
	return setting_is(conf, "sasl.mechanism", "GSSAPI") ||
	       setting_is(conf, "sasl.mechanism", "OAUTHBEARER");
}

static void leave_out_login(rd_kafka_conf_t *conf)
{
	const char *without = NULL;
	if (setting_is(conf, "security.protocol", "sasl_ssl"))
		without = "ssl";
	else if (setting_is(conf, "security.protocol", "sasl_plaintext"))
		without = "plaintext";
	if (without && logs_in_elsewhere(conf))
		(void)rd_kafka_conf_set(conf, "security.protocol", without, NULL, 0);
}

bool kafka_client_check(rd_kafka_conf_t *conf, rd_kafka_type_t type, struct err *err)
{
	char why[512];
	rd_kafka_conf_set_log_cb(conf, log_nothing);
	(void)rd_kafka_conf_set(conf, "bootstrap.servers", NULL, NULL, 0);
	leave_out_login(conf);
	rd_kafka_t *client = rd_kafka_new(type, conf, why, sizeof(why));
	if (!client) {
		rd_kafka_conf_destroy(conf);
		return err_set(err, "librdkafka refuses these settings: %s", why);
	}
	rd_kafka_destroy_flags(client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
	return true;
}

/* --- the wake-up --------------------------------------------------------------------------------
 */

struct kafka_wakeup {
	rd_kafka_queue_t *queue;
	struct loop_fd *watch;
	int fd; /* an eventfd that librdkafka's threads write to */
	loop_fn *fn;
	void *arg;
};

static void on_wakeup(void *arg, bool readable, bool writable)
{
	struct kafka_wakeup *wakeup = arg;
	uint64_t count;
	(void)writable;
	if (!readable)
		return;
	if (read(wakeup->fd, &count, sizeof(count)) < 0)
		return; /* read already: nothing new */
	wakeup->fn(wakeup->arg);
}

struct kafka_wakeup *kafka_wakeup_new(struct loop *loop, rd_kafka_queue_t *queue, loop_fn *fn,
				      void *arg)
{
	static const uint64_t one = 1;
	struct kafka_wakeup *wakeup = mem_zero(sizeof(*wakeup));
	wakeup->queue = queue;
	wakeup->fn = fn;
	wakeup->arg = arg;
	wakeup->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (wakeup->fd < 0)
		abort();
	wakeup->watch = loop_fd_new(loop, wakeup->fd, on_wakeup, wakeup);
	loop_fd_want(wakeup->watch, true, false);
	rd_kafka_queue_io_event_enable(queue, wakeup->fd, &one, sizeof(one));
	/* what came before that is not told: the first wake-up is our own */
	if (write(wakeup->fd, &one, sizeof(one)) < 0)
		abort();
	return wakeup;
}

void kafka_wakeup_free(struct kafka_wakeup *wakeup)
{
	if (!wakeup)
		return;
	/* first librdkafka forgets the descriptor, or its threads would write to another's */
	rd_kafka_queue_io_event_enable(wakeup->queue, -1, NULL, 0);
	loop_fd_free(wakeup->watch);
	close(wakeup->fd);
	free(wakeup);
}

/* --- the end ------------------------------------------------------------------------------------
 */

struct end {
	rd_kafka_t *client;
	int flags;
};

static void *destroy(void *arg)
{
	struct end *end = arg;
	rd_kafka_destroy_flags(end->client, end->flags);
	free(end);
	return NULL;
}

/* Whoever is left behind must not hold up anybody: it has no part in the process any more. */
static bool join(pthread_t thread, usec_t timeout)
{
	struct timespec until;
	if (clock_gettime(CLOCK_MONOTONIC, &until) < 0)
		abort();
	until.tv_sec += timeout / USEC_SEC;
	if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) == 0)
		return true;
	pthread_detach(thread);
	return false;
}

bool kafka_destroy(rd_kafka_t *client, int flags)
{
	struct end *end = mem_zero(sizeof(*end));
	pthread_t thread;
	end->client = client;
	end->flags = flags;
	rd_kafka_set_log_level(client, -1); /* the log may end before the client does */
	if (pthread_create(&thread, NULL, destroy, end) == 0)
		return join(thread, KAFKA_DESTROY_TIMEOUT);
	(void)destroy(end);
	return true;
}
