/* Offsets of a topic, as the brokers say them: where it begins, and what they last said of its
 * ends.
 *
 * What is asked blocks the loop, briefly: librdkafka has no other way to ask for offsets. */
#include <stdlib.h>

#include "consumer_private.h"
#include "mem.h"

#define ASK_TIMEOUT_MS 1000 /* of each question */

static bool watermarks(const struct consumer *consumer, const struct partition *partition,
		       int64_t *low_r, int64_t *high_r)
{
	return rd_kafka_get_watermark_offsets(consumer->client, partition->topic,
					      partition->partition, low_r,
					      high_r) == RD_KAFKA_RESP_ERR_NO_ERROR;
}

int64_t consumer_oldest(const struct consumer *consumer, const struct partition *partition)
{
	int64_t low, high;

	return watermarks(consumer, partition, &low, &high) && low >= 0 ? low : OFFSET_OF_END;
}

int64_t consumer_end(const struct consumer *consumer, const struct partition *partition)
{
	int64_t low, high;

	return watermarks(consumer, partition, &low, &high) && high >= 0 ? high : OFFSET_OF_END;
}

static struct partition *all_partitions(const char *topic, size_t count)
{
	struct partition *partitions = mem_zero((count + 1) * sizeof(*partitions));

	for (size_t i = 0; i < count; i++)
		partitions[i] = (struct partition){ .topic = topic, .partition = (int32_t)i };
	return partitions;
}

static bool count_partitions(struct consumer *consumer, const char *topic, struct err *err,
			     struct topic_offsets *offsets_r)
{
	rd_kafka_topic_t *handle = rd_kafka_topic_new(consumer->client, topic, NULL);
	const struct rd_kafka_metadata *metadata = NULL;
	rd_kafka_resp_err_t code;
	size_t count = 0;

	if (!handle)
		return err_set(err, "topic %s: %s", topic, rd_kafka_err2str(rd_kafka_last_error()));
	code = rd_kafka_metadata(consumer->client, 0, handle, &metadata, ASK_TIMEOUT_MS);
	rd_kafka_topic_destroy(handle);
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR && metadata->topic_cnt == 1) {
		code = metadata->topics[0].err;
		count = (size_t)metadata->topics[0].partition_cnt;
	}
	if (metadata)
		rd_kafka_metadata_destroy(metadata);
	offsets_r->missing = code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
			     code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		return err_set(err, "partitions of topic %s: %s", topic, rd_kafka_err2str(code));
	if (count == 0)
		return err_set(err, "topic %s has no partitions", topic);
	offsets_r->count = count;
	return true;
}

bool consumer_ask_offsets(struct consumer *consumer, int64_t time_ms, struct partition *partitions,
			  size_t count, struct err *err)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count);
	rd_kafka_resp_err_t code;

	for (size_t i = 0; i < count; i++)
		rd_kafka_topic_partition_list_add(list, partitions[i].topic,
						  partitions[i].partition)
			->offset = time_ms;
	code = rd_kafka_offsets_for_times(consumer->client, list, ASK_TIMEOUT_MS);
	for (size_t i = 0; code == RD_KAFKA_RESP_ERR_NO_ERROR && i < count; i++) {
		code = list->elems[i].err;
		partitions[i].offset = list->elems[i].offset;
	}
	rd_kafka_topic_partition_list_destroy(list);
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		return err_set(err, "offsets of topic %s: %s", partitions[0].topic,
			       rd_kafka_err2str(code));
	return true;
}

static bool end_offsets(struct consumer *consumer, struct partition *partitions, size_t count,
			struct err *err)
{
	if (!consumer_ask_offsets(consumer, OFFSET_OF_END, partitions, count, err))
		return false;
	for (size_t i = 0; i < count; i++)
		if (partitions[i].offset < 0)
			return err_set(err, "offsets of topic %s: partition %zu has no end",
				       partitions[i].topic, i);
	return true;
}

/* The end is asked for first: what arrives between the two questions is then read, not skipped. */
static bool time_offsets(struct consumer *consumer, usec_t time, struct partition *partitions,
			 size_t count, struct err *err)
{
	struct partition *found = all_partitions(partitions[0].topic, count);
	bool good = end_offsets(consumer, partitions, count, err) &&
		    consumer_ask_offsets(consumer, time / USEC_MS, found, count, err);

	for (size_t i = 0; good && i < count; i++)
		if (found[i].offset >= 0)
			partitions[i].offset = found[i].offset;
	free(found);
	return good;
}

static bool start_offsets(struct consumer *consumer, enum conf_start start, usec_t start_time,
			  struct partition *partitions, size_t count, struct err *err)
{
	switch (start) {
	case CONF_START_UNSET:
		return err_set(err, "topic %s: ledger.start is not set", partitions[0].topic);
	case CONF_START_EARLIEST:
		for (size_t i = 0; i < count; i++)
			partitions[i].offset = RD_KAFKA_OFFSET_BEGINNING;
		return true;
	case CONF_START_LATEST:
		return end_offsets(consumer, partitions, count, err);
	case CONF_START_TIME:
		break;
	}
	return time_offsets(consumer, start_time, partitions, count, err);
}

bool consumer_start_offsets(struct consumer *consumer, const char *topic, enum conf_start start,
			    usec_t start_time, struct err *err, struct topic_offsets *offsets_r)
{
	struct partition *partitions;
	bool good;

	*offsets_r = (struct topic_offsets){ 0 };
	if (!count_partitions(consumer, topic, err, offsets_r))
		return false;
	partitions = all_partitions(topic, offsets_r->count);
	good = start_offsets(consumer, start, start_time, partitions, offsets_r->count, err);
	if (good)
		offsets_r->items = mem_zero(offsets_r->count * sizeof(*offsets_r->items));
	for (size_t i = 0; good && i < offsets_r->count; i++)
		offsets_r->items[i] = partitions[i].offset;
	free(partitions);
	return good;
}
