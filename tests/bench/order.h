/* The events of the benches: orders, each made different by its number. backlog.py makes the same
 * in SQL. */
#ifndef COUNTERFOIL_BENCH_ORDER_H
#define COUNTERFOIL_BENCH_ORDER_H

#include <endian.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "buf.h"

#define ORDER_TYPE       "order.placed"
#define ORDER_NOTE_LEAST 127
#define ORDER_NOTE_SPAN  80

static inline int64_t order_cents(int64_t n)
{
	return 100 + n % 90000;
}

/* 4 of 8 bits are noise, as in the base64 and the ids that fill real payloads. */
static inline void order_note(struct buf *out, int64_t n)
{
	char hex[17];
	int64_t length = ORDER_NOTE_LEAST + n % ORDER_NOTE_SPAN;
	for (uint64_t i = 0; length > 0; i++, length -= 16) {
		(void)snprintf(hex, sizeof(hex), "%016" PRIx64,
			       XXH3_64bits_withSeed(&n, sizeof(n), i));
		buf_add(out, hex, length < 16 ? (size_t)length : 16);
	}
}

static inline void order_payload(struct buf *out, int64_t n)
{
	buf_addf(out,
		 "{\"order_id\":%" PRId64 ",\"customer_id\":\"customer-%" PRId64
		 "\",\"total_cents\":%" PRId64 ",\"currency\":\"usd\",\"note\":\"",
		 n, n % 997, order_cents(n));
	order_note(out, n);
	buf_add_text(out, "\"}");
}

/* What the ledger of the bench makes of it. */
static inline void order_body(struct buf *out, int64_t n)
{
	buf_addf(out, "amount=%" PRId64 "&currency=usd&customer=customer-%" PRId64, order_cents(n),
		 n % 997);
}

/* Rising with time, as uuid7() makes them. */
static inline void order_event_id(unsigned char id[16], int64_t n)
{
	const uint64_t high = htobe64(UINT64_C(0x0190000000007000) + ((uint64_t)n << 16));
	const uint64_t low = XXH3_64bits(&n, sizeof(n));
	memcpy(id, &high, sizeof(high));
	memcpy(id + sizeof(high), &low, sizeof(low));
}

#endif
