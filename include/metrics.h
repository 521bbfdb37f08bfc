/* Numbers of a program for Prometheus: counters, gauges and histograms, each with its series. A
 * series is made once and kept by whoever counts; counting is an addition.
 *
 * Label values come from closed lists only: never a key, an owner or an error text. */
#ifndef COUNTERFOIL_METRICS_H
#define COUNTERFOIL_METRICS_H

#include <stdint.h>

#include "buf.h"
#include "usec.h"

#define METRICS_PREFIX "counterfoil_"

struct metrics; /* all of a program's, in the order in which they were made */
struct metric;  /* one name, with its series */
struct series;  /* one line of it; a histogram's: its buckets, sum and count */

struct metrics *metrics_new(void);
void metrics_free(struct metrics *metrics); /* with all metrics and series; NULL is fine */

/* Names and help are literals; the prefix is put before the name. label, label2: names of labels,
 * NULL: none. A histogram is one of seconds, with the same bounds for all. */
struct metric *metrics_counter(struct metrics *metrics, const char *name, const char *help,
			       const char *label, const char *label2);
struct metric *metrics_gauge(struct metrics *metrics, const char *name, const char *help,
			     const char *label, const char *label2);
struct metric *metrics_histogram(struct metrics *metrics, const char *name, const char *help,
				 const char *label);

/* A new series, at 0; the values are copied, NULL where the metric has no such label. Two of the
 * same values would be one too many. */
struct series *metric_series(struct metric *metric, const char *value, const char *value2);
/* Of a metric whose series come and go: frees them all. */
void metric_clear(struct metric *metric);

/* NULL is fine for all: then nobody counts. */
void series_add(struct series *series, uint64_t count);
void series_set(struct series *series, double value);        /* NAN: not known */
void series_set_usec(struct series *series, usec_t value);   /* in seconds; USEC_NEVER: not known */
void series_observe(struct series *series, usec_t duration); /* of a histogram */

/* Appends all of it in Prometheus' text format 0.0.4. */
#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
void metrics_write(const struct metrics *metrics, struct buf *out);

#endif
