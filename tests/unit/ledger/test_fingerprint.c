/* Fingerprints and digests: what stands in databases and at providers must never change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rules/fingerprint.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static void fingerprints_see_every_border(void **state)
{
	(void)state;
	static const struct fingerprint_part parts[][3] = {
		{ { "ab", 2 }, { "c", 1 }, { "", 0 } }, { { "a", 1 }, { "bc", 2 }, { "", 0 } },
		{ { "", 0 }, { "abc", 3 }, { "", 0 } }, { { "abc", 3 }, { NULL, 0 }, { "", 0 } },
		{ { "", 0 }, { "", 0 }, { "abc", 3 } }, { { "", 0 }, { "", 0 }, { "abd", 3 } },
	};
	uint8_t prints[LENGTH(parts)][EFFECT_FINGERPRINT_SIZE], again[EFFECT_FINGERPRINT_SIZE];

	for (size_t i = 0; i < LENGTH(parts); i++) {
		fingerprint_of(parts[i], 3, prints[i]);
		fingerprint_of(parts[i], 3, again);
		assert_memory_equal(prints[i], again, sizeof(again));
		for (size_t j = 0; j < i; j++)
			assert_memory_not_equal(prints[i], prints[j], sizeof(again));
	}
	/* It stands in databases: XXH3-128 over 8-byte lengths and bytes, for ever. */
	static const uint8_t golden[] = { 0x20, 0xd0, 0x6d, 0x5c, 0x51, 0xd2, 0xab, 0x81,
					  0x6c, 0x24, 0x75, 0xca, 0xd0, 0x9b, 0x28, 0x78 };
	assert_memory_equal(prints[0], golden, sizeof(golden));
}

static void sha256_is_the_standard_one(void **state)
{
	(void)state;
	char hex[SHA256_HEX_SIZE];

	sha256_hex("abc", 3, hex);
	assert_string_equal(hex,
			    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	sha256_hex(NULL, 0, hex);
	assert_string_equal(hex,
			    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fingerprints_see_every_border),
		cmocka_unit_test(sha256_is_the_standard_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
