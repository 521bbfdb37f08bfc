/* A message as it came from Kafka, with all that its source points to. */
#include <stdlib.h>

#include "consumer_private.h"
#include "mem.h"

struct message {
	rd_kafka_event_t *event; /* owns what the source points to */
	struct event_source source;
	struct event_header headers[];
};

static void read_headers(struct message *message, rd_kafka_headers_t *headers, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const void *value;
		struct event_header *header = &message->headers[i];

		if (rd_kafka_header_get_all(headers, i, &header->name, &value, &header->length))
			return;
		header->value = value;
		message->source.header_count = i + 1;
	}
}

static usec_t sent_at(const rd_kafka_message_t *raw)
{
	rd_kafka_timestamp_type_t type;
	int64_t ms = rd_kafka_message_timestamp(raw, &type);

	if (type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE || ms < 0 || ms > USEC_NEVER / USEC_MS)
		return USEC_NEVER;
	return ms * USEC_MS;
}

struct message *message_new(rd_kafka_event_t *event, const rd_kafka_message_t *raw)
{
	rd_kafka_headers_t *headers = NULL;
	size_t count = 0;
	struct message *message;

	if (rd_kafka_message_headers(raw, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR)
		count = rd_kafka_header_cnt(headers);
	message = mem_zero(sizeof(*message) + count * sizeof(message->headers[0]));
	message->event = event;
	message->source = (struct event_source){
		.topic = rd_kafka_topic_name(raw->rkt),
		.partition = raw->partition,
		.offset = raw->offset,
		.key = raw->key,
		.key_length = raw->key_len,
		.value = raw->payload,
		.value_length = raw->len,
		.headers = message->headers,
		.sent_at = sent_at(raw),
	};
	if (headers)
		read_headers(message, headers, count);
	return message;
}

void message_free(void *handle)
{
	struct message *message = handle;

	rd_kafka_event_destroy(message->event);
	free(message);
}

const struct event_source *message_source(const struct message *message)
{
	return &message->source;
}
