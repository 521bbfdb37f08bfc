/* The consumer's settings: ours where the user chose nothing, and none that librdkafka refuses
 * beside the user's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "intake/consumer_private.h"
#include "mem.h"

static char group[] = "charges", nothing[] = "";

struct setting {
	const char *name, *value;
};

static const struct setting no_setting;

/* With one setting of the user's, librdkafka takes them all, and one of them is as expected. */
static void assert_setting(struct setting users, struct setting expected)
{
	struct conf_pair pair = { .name = mem_text(users.name), .value = mem_text(users.value) };
	struct conf conf = { .ledger.group = group,
			     .kafka = { .properties = { .items = &pair, .count = !!users.name },
					.properties_file = nothing,
					.password_file = nothing } };
	char value[64];
	size_t size = sizeof(value);
	struct err err;
	rd_kafka_conf_t *settings = consumer_settings(&conf, false, NULL, &err);

	assert_non_null(settings);
	assert_int_equal(rd_kafka_conf_get(settings, expected.name, value, &size),
			 RD_KAFKA_CONF_OK);
	assert_string_equal(value, expected.value);
	rd_kafka_conf_destroy(settings);
	assert_true(consumer_check(&conf, &err));
	free(pair.name);
	free(pair.value);
}

static void little_is_fetched_at_a_time(void **state)
{
	(void)state;
	assert_setting(no_setting, (struct setting){ "fetch.max.bytes", "262144" });
}

/* The client would not begin: it fetches no less than its largest message. */
static void messages_may_be_larger_than_what_we_fetch(void **state)
{
	(void)state;
	const struct setting large = { "message.max.bytes", "20000000" };

	assert_setting(large, large);
}

static void the_users_fetches_stand(void **state)
{
	(void)state;
	const struct setting fetch = { "fetch.max.bytes", "4000000" };

	assert_setting(fetch, fetch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(little_is_fetched_at_a_time),
		cmocka_unit_test(messages_may_be_larger_than_what_we_fetch),
		cmocka_unit_test(the_users_fetches_stand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
