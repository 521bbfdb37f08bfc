/* Partitions as the Java client chooses them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "publishing/partition.h"

/* Of org.apache.kafka.common.utils.UtilsTest.testMurmur2. */
static void the_vectors_of_the_java_client(void **state)
{
	(void)state;
	static const struct {
		const char *key;
		int32_t hash;
	} vectors[] = {
		{ "21", -973932308 },
		{ "foobar", -790332482 },
		{ "a-little-bit-long-string", -985981536 },
		{ "a-little-bit-longer-string", -1486304829 },
		{ "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971 },
		{ "abc", 479470107 },
	};
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const char *key = vectors[i].key;
		assert_int_equal((int32_t)partition_hash(key, strlen(key)), vectors[i].hash);
	}
}

/* Computed with a second implementation, written in another language from the Java source; the
 * hash of the empty key is also among librdkafka's own vectors. */
static void empty_binary_and_non_ascii_keys(void **state)
{
	(void)state;
	static const struct {
		const char *key;
		size_t length;
		uint32_t hash;
	} vectors[] = {
		{ "", 0, 0x106e08d9U },
		{ "\x00", 1, 0x166197bcU },
		{ "\x00\x00\x00\x00", 4, 0x32b89340U },
		{ "\xff", 1, 0xed6f615bU },
		{ "\xff\xfe\xfd", 3, 0x3b85fe24U },
		{ "\x80\x81\x82\x83\x84", 5, 0x9cb89e59U },
		{ "M\xc3\xbcller", 7, 0x95448d7dU },
		{ "\xce\xa9mega-42", 9, 0x1867705bU },
		{ "\xe6\x97\xa5\xe6\x9c\xac", 6, 0xd63a78f3U },
		{ "order-42", 8, 0x1ddefd00U },
		{ "\xfa\xfb\xfc\xfd\xfe\xff\x00\x00\x00", 9, 0x3cfc2923U },
	};
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
		assert_int_equal(partition_hash(vectors[i].key, vectors[i].length),
				 vectors[i].hash);
}

static void partitions_of_12_15_and_32(void **state)
{
	(void)state;
	static const struct {
		const char *key;
		int32_t of_1, of_12, of_15, of_32;
	} vectors[] = {
		{ "", 0, 9, 6, 25 },
		{ "order-42", 0, 0, 9, 0 },
		{ "k1", 0, 5, 2, 9 },
		{ "M\xc3\xbcller", 0, 1, 10, 29 },
		{ "\xe6\x97\xa5\xe6\x9c\xac", 0, 3, 12, 19 },
		{ "a-little-bit-long-string", 0, 8, 2, 0 },
		{ "01a229d4-7239-77ef-806c-0a517ae54bc7", 0, 6, 9, 2 },
	};
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		uint32_t hash = partition_hash(vectors[i].key, strlen(vectors[i].key));
		assert_int_equal(partition_of(hash, 1), vectors[i].of_1);
		assert_int_equal(partition_of(hash, 12), vectors[i].of_12);
		assert_int_equal(partition_of(hash, 15), vectors[i].of_15);
		assert_int_equal(partition_of(hash, 32), vectors[i].of_32);
	}
}

/* toPositive() cuts the sign bit off: the absolute value would be another partition. */
static void negative_hashes_lose_their_sign_bit(void **state)
{
	(void)state;
	assert_int_equal(partition_of(0x80000000U, 7), 0);
	assert_int_equal(partition_of(0xffffffffU, 7), INT32_MAX % 7);
	assert_int_equal(partition_of(0x80000001U, 7), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_vectors_of_the_java_client),
		cmocka_unit_test(empty_binary_and_non_ascii_keys),
		cmocka_unit_test(partitions_of_12_15_and_32),
		cmocka_unit_test(negative_hashes_lose_their_sign_bit),
	};
	return cmocka_run_group_tests_name("partition", tests, NULL, NULL);
}
