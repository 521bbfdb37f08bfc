/* The registry, and the text that Prometheus reads. Values are doubles, as they are there. */
#include "metrics.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

#define LABELS 2

/* Upper bounds of a histogram's buckets. */
static const struct bound {
	usec_t limit;
	const char *text; /* in seconds */
} bounds[] = {
	{ USEC_MS, "0.001" },     { 2500, "0.0025" },        { 5 * USEC_MS, "0.005" },
	{ 10 * USEC_MS, "0.01" }, { 25 * USEC_MS, "0.025" }, { 50 * USEC_MS, "0.05" },
	{ 100 * USEC_MS, "0.1" }, { 250 * USEC_MS, "0.25" }, { 500 * USEC_MS, "0.5" },
	{ USEC_SEC, "1" },        { 2500 * USEC_MS, "2.5" }, { 5 * USEC_SEC, "5" },
	{ 10 * USEC_SEC, "10" },  { 30 * USEC_SEC, "30" },   { USEC_MIN, "60" },
};
#define BOUNDS (sizeof(bounds) / sizeof(bounds[0]))

enum metric_type { TYPE_COUNTER, TYPE_GAUGE, TYPE_HISTOGRAM };

struct series {
	struct series *next;
	char *values[LABELS];
	double value;      /* a histogram's: the sum, in seconds */
	uint64_t *buckets; /* of a histogram: each bucket's own, and those above all bounds */
};

struct metric {
	struct metric *next;
	enum metric_type type;
	const char *name;
	const char *help;
	const char *labels[LABELS];
	struct series *first;
	struct series **end;
};

struct metrics {
	struct metric *first;
	struct metric **end;
};

/* --- making --- */

struct metrics *metrics_new(void)
{
	struct metrics *metrics = mem_zero(sizeof(*metrics));
	metrics->end = &metrics->first;
	return metrics;
}

static struct metric *add(struct metrics *metrics, const struct metric *like)
{
	struct metric *metric = mem_zero(sizeof(*metric));
	*metric = *like;
	metric->end = &metric->first;
	*metrics->end = metric;
	metrics->end = &metric->next;
	return metric;
}

struct metric *metrics_counter(struct metrics *metrics, const char *name, const char *help,
			       const char *label, const char *label2)
{
	const struct metric like = {
		.type = TYPE_COUNTER, .name = name, .help = help, .labels = { label, label2 }
	};
	return add(metrics, &like);
}

struct metric *metrics_gauge(struct metrics *metrics, const char *name, const char *help,
			     const char *label, const char *label2)
{
	const struct metric like = {
		.type = TYPE_GAUGE, .name = name, .help = help, .labels = { label, label2 }
	};
	return add(metrics, &like);
}

struct metric *metrics_histogram(struct metrics *metrics, const char *name, const char *help,
				 const char *label)
{
	const struct metric like = {
		.type = TYPE_HISTOGRAM, .name = name, .help = help, .labels = { label }
	};
	return add(metrics, &like);
}

struct series *metric_series(struct metric *metric, const char *value, const char *value2)
{
	struct series *series = mem_zero(sizeof(*series));
	series->values[0] = mem_text(value);
	series->values[1] = mem_text(value2);
	if (metric->type == TYPE_HISTOGRAM)
		series->buckets = mem_zero((BOUNDS + 1) * sizeof(*series->buckets));
	*metric->end = series;
	metric->end = &series->next;
	return series;
}

void metric_clear(struct metric *metric)
{
	while (metric->first) {
		struct series *series = metric->first;
		metric->first = series->next;
		for (size_t i = 0; i < LABELS; i++)
			free(series->values[i]);
		free(series->buckets);
		free(series);
	}
	metric->end = &metric->first;
}

void metrics_free(struct metrics *metrics)
{
	if (!metrics)
		return;
	while (metrics->first) {
		struct metric *metric = metrics->first;
		metrics->first = metric->next;
		metric_clear(metric);
		free(metric);
	}
	free(metrics);
}

/* --- counting --- */

void series_add(struct series *series, uint64_t count)
{
	if (series)
		series->value += (double)count;
}

void series_set(struct series *series, double value)
{
	if (series)
		series->value = value;
}

static double seconds(usec_t usec)
{
	return (double)usec / (double)USEC_SEC;
}

void series_set_usec(struct series *series, usec_t value)
{
	series_set(series, value == USEC_NEVER ? (double)NAN : seconds(value));
}

void series_observe(struct series *series, usec_t duration)
{
	size_t at = 0;
	if (!series)
		return;
	while (at < BOUNDS && duration > bounds[at].limit)
		at++;
	series->buckets[at]++;
	series->value += seconds(duration);
}

/* --- writing --- */

/* A whole number as one; any other with the digits that microseconds need. */
static void write_value(struct buf *out, double value)
{
	if (isnan(value))
		buf_add_text(out, "NaN");
	else if (value == floor(value) && fabs(value) < 9007199254740992.0)
		buf_addf(out, "%.0f", value);
	else
		buf_addf(out, "%.15g", value);
}

static void write_escaped(struct buf *out, const char *text, bool quotes)
{
	for (; *text; text++) {
		if (*text == '\n')
			buf_add_text(out, "\\n");
		else if (*text == '\\' || (quotes && *text == '"'))
			buf_addf(out, "\\%c", *text);
		else
			buf_add_char(out, *text);
	}
}

static void write_label(struct buf *out, char before, const char *name, const char *value)
{
	buf_addf(out, "%c%s=\"", before, name);
	write_escaped(out, value, true);
	buf_add_char(out, '"');
}

/* NAME_SUFFIX{LABELS,le="BOUND"}; bound NULL: without. */
static void write_name(struct buf *out, const struct metric *metric, const struct series *series,
		       const char *suffix, const char *bound)
{
	char before = '{';
	buf_addf(out, METRICS_PREFIX "%s%s", metric->name, suffix);
	for (size_t i = 0; i < LABELS; i++) {
		if (!metric->labels[i])
			continue;
		write_label(out, before, metric->labels[i], series->values[i]);
		before = ',';
	}
	if (bound) {
		write_label(out, before, "le", bound);
		before = ',';
	}
	buf_add_text(out, before == ',' ? "} " : " ");
}

static void write_histogram(struct buf *out, const struct metric *metric,
			    const struct series *series)
{
	uint64_t count = 0;
	for (size_t i = 0; i <= BOUNDS; i++) {
		count += series->buckets[i];
		write_name(out, metric, series, "_bucket", i < BOUNDS ? bounds[i].text : "+Inf");
		buf_addf(out, "%llu\n", (unsigned long long)count);
	}
	write_name(out, metric, series, "_sum", NULL);
	write_value(out, series->value);
	buf_add_char(out, '\n');
	write_name(out, metric, series, "_count", NULL);
	buf_addf(out, "%llu\n", (unsigned long long)count);
}

static void write_metric(struct buf *out, const struct metric *metric)
{
	static const char *const types[] = { "counter", "gauge", "histogram" };
	buf_addf(out, "# HELP " METRICS_PREFIX "%s ", metric->name);
	write_escaped(out, metric->help, false);
	buf_addf(out, "\n# TYPE " METRICS_PREFIX "%s %s\n", metric->name, types[metric->type]);
	for (const struct series *series = metric->first; series; series = series->next) {
		if (metric->type == TYPE_HISTOGRAM) {
			write_histogram(out, metric, series);
			continue;
		}
		write_name(out, metric, series, "", NULL);
		write_value(out, series->value);
		buf_add_char(out, '\n');
	}
}

void metrics_write(const struct metrics *metrics, struct buf *out)
{
	for (const struct metric *metric = metrics->first; metric; metric = metric->next)
		write_metric(out, metric);
}
