/* What intake sets in the meter. */
#include "intake_meter.h"

void intake_meter_recorded(struct meter *meter, const struct batch *batch, size_t from, size_t to,
			   const struct record_counts *counts)
{
	meter_moved(meter, METER_NEW, EFFECT_PENDING, (uint64_t)(counts->effects - counts->dead));
	meter_moved(meter, METER_NEW, EFFECT_DEAD, (uint64_t)counts->dead);
	series_add(meter->conflicts, (uint64_t)counts->conflicts);
	series_add(meter->poison, (uint64_t)counts->poison);
	for (int64_t i = 0; i < counts->duplicates; i++)
		meter_duplicate(meter, batch->rows[counts->duplicate_rows[i]].rule->conf);
	for (size_t m = from; m < to; m++)
		if (batch->messages[m].unmatched)
			meter_unmatched(meter, batch->messages[m].event.source.topic);
}

static void measure_lag(struct meter *meter, const struct consumer *consumer,
			const struct position *position)
{
	const struct partition partition = { .topic = position->topic,
					     .partition = position->partition };
	int64_t oldest = consumer_oldest(consumer, &partition);
	int64_t end = consumer_end(consumer, &partition);
	int64_t next = position->next > oldest ? position->next : oldest;

	if (position->known && end >= 0)
		meter_lag(meter, position->topic, position->partition, end > next ? end - next : 0);
}

void intake_meter_lag(struct meter *meter, const struct consumer *consumer,
		      const struct positions *positions)
{
	metric_clear(meter->lag);
	for (size_t i = 0; i < positions->count; i++)
		measure_lag(meter, consumer, &positions->items[i]);
}
