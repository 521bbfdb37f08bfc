/* Reads by pages, as a relay without gaps would, and encodes what it reads. */
#include "dry_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "buf.h"
#include "json.h"
#include "kafka.h"
#include "pg.h"
#include "pg_session.h"
#include "publishing/encode.h"
#include "source/row.h"
#include "source/source.h"
#include "source/source_check.h"
#include "utf8.h"

#define BY_KEY (-1)

struct dry_run {
	const struct conf *conf;
	struct source *source;
	struct encoder *encoder;
	struct pg_session *session;
	int64_t size_limit;
	int64_t after;
	uint64_t rows;
	uint64_t dead;
	uint64_t bytes;
	struct buf line;
};

static enum exit_code fail(enum exit_code code, const char *text)
{
	(void)fprintf(stderr, "counterfoil-relay: %s\n", text);
	return code;
}

/* --- one row --- */

static bool is_wanted(const struct conf_texts *topics, struct row_bytes name)
{
	for (size_t i = 0; i < topics->count; i++)
		if (strlen(topics->items[i]) == name.length &&
		    memcmp(topics->items[i], name.data, name.length) == 0)
			return true;
	return topics->count == 0;
}

static size_t varint_length(size_t value)
{
	size_t length = 1;
	for (value <<= 1; value > 127; value >>= 7)
		length++;
	return length;
}

/* As librdkafka counts a message against message.max.bytes. */
static int64_t message_bytes(const struct encode_message *message)
{
	size_t bytes = message->key.length + message->value.length;
	for (size_t i = 0; i < message->header_count; i++) {
		const struct encode_header *header = &message->headers[i];
		bytes += varint_length(header->name.length) + header->name.length +
			 varint_length(header->value.length) + header->value.length;
	}
	return (int64_t)bytes;
}

static bool judge_size(const struct dry_run *run, int64_t bytes, struct err *err)
{
	if (bytes <= run->size_limit)
		return true;
	return err_set(err, "%" PRId64 " bytes, more than message.max.bytes = %" PRId64, bytes,
		       run->size_limit);
}

/* The checks that a relay makes before it sends a row. */
static bool judge(const struct dry_run *run, const struct row *row, struct encode_message *message,
		  struct err *err)
{
	if (!encode_topic(row->topic, err))
		return false;
	if (!is_wanted(&run->conf->relay.topics, row->topic))
		return err_set(err, "the topic is not among relay.topics");
	if (!row->event_id)
		return err_set(err, "it has no event id");
	if (!row->fetched)
		return judge_size(run, row->size, err);
	encode_row(run->encoder, row, message);
	if (message->fault)
		return err_set(err, "%s", message->fault);
	return judge_size(run, message_bytes(message), err);
}

/* Text in quotes; of what is none, the bytes. */
static void add_shown(struct buf *out, struct row_bytes bytes)
{
	if (!utf8_printable(bytes.data, bytes.length)) {
		buf_add_text(out, "\\x");
		for (size_t i = 0; i < bytes.length; i++)
			buf_addf(out, "%02x", (unsigned)(unsigned char)bytes.data[i]);
		return;
	}
	buf_add_char(out, '"');
	json_escape(out, bytes.data, bytes.length);
	buf_add_char(out, '"');
}

static void add_key(struct buf *out, struct row_bytes key)
{
	buf_add_text(out, " key=");
	if (key.data)
		add_shown(out, key);
	else
		buf_add_text(out, "none");
}

static void add_partition(struct buf *out, int32_t partition)
{
	if (partition == BY_KEY)
		buf_add_text(out, " partition=\"by key\"");
	else
		buf_addf(out, " partition=%" PRId32, partition);
}

static void say_row(struct dry_run *run, const struct row *row,
		    const struct encode_message *message, const char *why)
{
	char event_id[ENCODE_UUID_TEXT];
	struct buf *line = &run->line;
	buf_clear(line);
	buf_addf(line, "id=%" PRId64 " event_id=%s topic=", row->id,
		 row->event_id ? encode_uuid(row->event_id, event_id) : "none");
	add_shown(line, row->topic);
	add_key(line, message->key);
	add_partition(line, row->partition);
	buf_addf(line, " bytes=%" PRId64 " headers=%zu verdict=", row->size, message->header_count);
	if (why)
		add_shown(line, (struct row_bytes){ .data = why, .length = strlen(why) });
	else
		buf_add_text(line, "ok");
	(void)puts(line->data);
}

static void look_at(struct dry_run *run, const PGresult *result, int number)
{
	struct encode_message message = { 0 };
	struct row row;
	struct err err;
	row_read(result, number, &row);
	bool fits = judge(run, &row, &message, &err);
	run->rows++;
	run->dead += !fits;
	run->bytes += (uint64_t)row.size;
	run->after = row.id;
	say_row(run, &row, &message, fits ? NULL : err.text);
}

/* --- all rows --- */

static void add_parameters(const struct dry_run *run, struct pg_params *params)
{
	PG_ARRAY_AUTO struct pg_array none, no_topics;
	pg_array_init(&none, PG_INT8);
	pg_array_init(&no_topics, PG_TEXT);
	pg_add_int8(params, run->after);
	pg_add_array(params, &none);
	pg_add_array(params, &none);
	pg_add_int4(params, (int32_t)run->conf->relay.batch);
	pg_add_int8(params, run->conf->relay.batch_bytes);
	pg_add_int8(params, run->size_limit);
	pg_add_array(params, &no_topics);
	pg_add_bool(params, false);
	pg_add_text(params, run->source->name);
}

/* *more_r: the page was full. What is written meanwhile is not waited for. */
static bool look_at_page(struct dry_run *run, struct err *err, bool *more_r)
{
	const struct conf_relay *conf = &run->conf->relay;
	size_t weight = 0;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	PG_RESULT_AUTO PGresult *result = NULL;
	add_parameters(run, &params);
	if (!pg_session_query(run->session, run->source->page, &params, err, NULL, &result))
		return false;
	int rows = row_count(result);
	for (int i = 0; i < rows; i++) {
		look_at(run, result, i);
		weight += row_weight(result, i);
	}
	*more_r = rows >= conf->batch || (int64_t)weight >= conf->batch_bytes;
	return true;
}

static enum exit_code look_at_all(struct dry_run *run)
{
	struct err err;
	bool more = true;
	run->after = INT64_MIN;
	while (more)
		if (!look_at_page(run, &err, &more))
			return fail(EXIT_ERROR, err.text);
	(void)printf("rows=%" PRIu64 " ok=%" PRIu64 " dead=%" PRIu64 " bytes=%" PRIu64 "\n",
		     run->rows, run->rows - run->dead, run->dead, run->bytes);
	return run->dead ? EXIT_ERROR : EXIT_OK;
}

/* --- before that --- */

static enum exit_code check_source(struct dry_run *run)
{
	struct source_check *check = source_check_new(&run->conf->relay, run->source, false);
	struct err err;
	bool fits = source_check_run(check, run->session, &err);
	if (*source_check_text(check))
		(void)fail(EXIT_CONFIG, source_check_text(check));
	source_check_free(check);
	return fits ? look_at_all(run) : EXIT_CONFIG;
}

static enum exit_code open_session(struct dry_run *run)
{
	const struct conf *conf = run->conf;
	const struct pg_settings settings = {
		.conninfo = conf->postgres.conninfo,
		.password_file = conf->postgres.password_file,
		.program = "counterfoil-relay",
		.connect_timeout = conf->postgres.connect_timeout,
		.statement_timeout = conf->postgres.statement_timeout,
		.read_only = true,
	};
	struct err err;
	if (!pg_session_open(&settings, &err, &run->session))
		return fail(EXIT_UNAVAILABLE, err.text);
	enum exit_code code = check_source(run);
	pg_session_free(run->session);
	return code;
}

enum exit_code dry_run(const struct conf *conf)
{
	struct dry_run run = { .conf = conf };
	struct err err;
	if (!kafka_message_max(&conf->kafka, &err, &run.size_limit))
		return fail(EXIT_CONFIG, err.text);
	run.source = source_new(&conf->relay);
	run.encoder = encoder_new(&conf->relay);
	enum exit_code code = open_session(&run);
	encoder_free(run.encoder);
	source_free(run.source);
	buf_done(&run.line);
	return code;
}
