/* The text that Prometheus reads: names, escapes, numbers, buckets. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "metrics.h"

/* Writes all of it, and frees it. */
static void check_text(struct metrics *metrics, const char *expected)
{
	struct buf out BUF_AUTO = { 0 };
	metrics_write(metrics, &out);
	assert_string_equal(buf_text(&out), expected);
	metrics_free(metrics);
}

static void each_metric_has_its_help_type_and_series(void **state)
{
	(void)state;
	struct metrics *metrics = metrics_new();
	struct metric *gaps = metrics_gauge(metrics, "gaps", "How many gaps.", NULL, NULL);
	struct metric *sent = metrics_counter(metrics, "sent_total", "Sent.", "topic", NULL);
	struct metric *moved = metrics_counter(metrics, "moved_total", "Moved.", "from", "to");
	series_set(metric_series(gaps, NULL, NULL), 3);
	series_add(metric_series(sent, "orders", NULL), 2);
	(void)metric_series(sent, "mails", NULL);
	series_add(metric_series(moved, "a", "b"), 1);
	check_text(metrics, "# HELP counterfoil_gaps How many gaps.\n"
			    "# TYPE counterfoil_gaps gauge\n"
			    "counterfoil_gaps 3\n"
			    "# HELP counterfoil_sent_total Sent.\n"
			    "# TYPE counterfoil_sent_total counter\n"
			    "counterfoil_sent_total{topic=\"orders\"} 2\n"
			    "counterfoil_sent_total{topic=\"mails\"} 0\n"
			    "# HELP counterfoil_moved_total Moved.\n"
			    "# TYPE counterfoil_moved_total counter\n"
			    "counterfoil_moved_total{from=\"a\",to=\"b\"} 1\n");
}

static void values_and_help_are_escaped(void **state)
{
	(void)state;
	struct metrics *metrics = metrics_new();
	struct metric *odd =
		metrics_gauge(metrics, "odd", "A \"quote\", a \\ and\na line.", "name", NULL);
	(void)metric_series(odd, "a\"b\\c\nd\xc3\xa9", NULL);
	(void)metric_series(odd, "", NULL);
	check_text(metrics, "# HELP counterfoil_odd A \"quote\", a \\\\ and\\na line.\n"
			    "# TYPE counterfoil_odd gauge\n"
			    "counterfoil_odd{name=\"a\\\"b\\\\c\\nd\xc3\xa9\"} 0\n"
			    "counterfoil_odd{name=\"\"} 0\n");
}

static void numbers_keep_their_digits(void **state)
{
	(void)state;
	static const struct {
		double value;
		const char *text;
	} cases[] = {
		{ 0, "0" },
		{ 9007199254740991, "9007199254740991" },
		{ 1e300, "1e+300" },
		{ -2, "-2" },
		{ 0.1, "0.1" },
		{ 12.345678, "12.345678" },
		{ 123456789.000001, "123456789.000001" },
		{ NAN, "NaN" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct metrics *metrics = metrics_new();
		struct buf expected BUF_AUTO = { 0 };
		series_set(metric_series(metrics_gauge(metrics, "n", "N.", NULL, NULL), NULL, NULL),
			   cases[i].value);
		buf_addf(&expected,
			 "# HELP counterfoil_n N.\n# TYPE counterfoil_n gauge\n"
			 "counterfoil_n %s\n",
			 cases[i].text);
		check_text(metrics, buf_text(&expected));
	}
}

static void times_are_in_seconds(void **state)
{
	(void)state;
	struct metrics *metrics = metrics_new();
	struct metric *age = metrics_gauge(metrics, "age", "Age.", "of", NULL);
	series_set_usec(metric_series(age, "known", NULL), 1500 * USEC_MS);
	series_set_usec(metric_series(age, "unknown", NULL), USEC_NEVER);
	check_text(metrics, "# HELP counterfoil_age Age.\n"
			    "# TYPE counterfoil_age gauge\n"
			    "counterfoil_age{of=\"known\"} 1.5\n"
			    "counterfoil_age{of=\"unknown\"} NaN\n");
}

/* A bucket counts what is at most its bound, and all of the buckets below it. */
static void buckets_add_up(void **state)
{
	(void)state;
	struct metrics *metrics = metrics_new();
	struct metric *took = metrics_histogram(metrics, "took_seconds", "Took.", "target");
	struct series *series = metric_series(took, "bank", NULL);
	series_observe(series, 0);
	series_observe(series, USEC_MS);
	series_observe(series, USEC_MS + 1);
	series_observe(series, 60 * USEC_SEC);
	series_observe(series, USEC_HOUR);
	check_text(metrics, "# HELP counterfoil_took_seconds Took.\n"
			    "# TYPE counterfoil_took_seconds histogram\n"
			    "counterfoil_took_seconds_bucket{target=\"bank\",le=\"0.001\"} 2\n"
			    "counterfoil_took_seconds_bucket{target=\"bank\",le=\"0.0025\"} 3\n"
			    "counterfoil_took_seconds_bucket{target=\"bank\",le=\"0.005\"} 3\n"
			    "counterfoil_took_seconds_bucket{target=\"bank\",le=\"0.01\"} 3\n"
			    "counterfoil_took_seconds_bucket{target=\"bank\",le=\"0.025\"} 3\n"
			    "counterfoil_took_seconds_bucket{target=\"bank\",le=\"0.05\"} 3\n"
			    "counterfoil_took_seconds_bucket{target=\"bank\",le=\"0.1\"} 3\n"
			    "counterfoil_took_seconds_bucket{target=\"bank\",le=\"0.25\"} 3\n"
			    "counterfoil_took_seconds_bucket{target=\"bank\",le=\"0.5\"} 3\n"
			    "counterfoil_took_seconds_bucket{target=\"bank\",le=\"1\"} 3\n"
			    "counterfoil_took_seconds_bucket{target=\"bank\",le=\"2.5\"} 3\n"
			    "counterfoil_took_seconds_bucket{target=\"bank\",le=\"5\"} 3\n"
			    "counterfoil_took_seconds_bucket{target=\"bank\",le=\"10\"} 3\n"
			    "counterfoil_took_seconds_bucket{target=\"bank\",le=\"30\"} 3\n"
			    "counterfoil_took_seconds_bucket{target=\"bank\",le=\"60\"} 4\n"
			    "counterfoil_took_seconds_bucket{target=\"bank\",le=\"+Inf\"} 5\n"
			    "counterfoil_took_seconds_sum{target=\"bank\"} 3660.002001\n"
			    "counterfoil_took_seconds_count{target=\"bank\"} 5\n");
}

static void series_may_go_and_come_again(void **state)
{
	(void)state;
	struct metrics *metrics = metrics_new();
	struct metric *lag = metrics_gauge(metrics, "lag", "Lag.", "topic", "partition");
	series_set(metric_series(lag, "t", "0"), 7);
	series_set(metric_series(lag, "t", "1"), 8);
	metric_clear(lag);
	series_set(metric_series(lag, "t", "1"), 9);
	check_text(metrics, "# HELP counterfoil_lag Lag.\n"
			    "# TYPE counterfoil_lag gauge\n"
			    "counterfoil_lag{topic=\"t\",partition=\"1\"} 9\n");
}

static void nobody_counts(void **state)
{
	(void)state;
	series_add(NULL, 1);
	series_set(NULL, 1);
	series_set_usec(NULL, 1);
	series_observe(NULL, 1);
	metrics_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_metric_has_its_help_type_and_series),
		cmocka_unit_test(values_and_help_are_escaped),
		cmocka_unit_test(numbers_keep_their_digits),
		cmocka_unit_test(times_are_in_seconds),
		cmocka_unit_test(buckets_add_up),
		cmocka_unit_test(series_may_go_and_come_again),
		cmocka_unit_test(nobody_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
