/* What intake sets in the meter. */
#ifndef LEDGER_INTAKE_METER_H
#define LEDGER_INTAKE_METER_H

#include "batch.h"
#include "consumer.h"
#include "meter.h"
#include "positions.h"
#include "record.h"

/* Messages [from, to) were recorded. */
void intake_meter_recorded(struct meter *meter, const struct batch *batch, size_t from, size_t to,
			   const struct record_counts *counts);
void intake_meter_lag(struct meter *meter, const struct consumer *consumer,
		      const struct positions *positions);

#endif
