/* What is in flight of each partition: its lane. Only those exist that hold something. Pure. */
#ifndef COUNTERFOIL_RELAY_LANES_H
#define COUNTERFOIL_RELAY_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "usec.h"

struct lane {
	uint64_t key;
	size_t rows;
	uint64_t bytes;
	usec_t moved; /* its last report, or when it was no longer empty */
	const struct topic *topic;
};

struct topic;
struct lanes;

struct lanes *lanes_new(size_t rows); /* at most so many are in flight */
void lanes_free(struct lanes *lanes);

/* A row goes in, or comes out. */
void lanes_in(struct lanes *lanes, uint64_t key, const struct topic *topic, uint32_t bytes,
	      usec_t now);
void lanes_out(struct lanes *lanes, uint64_t key, uint32_t bytes);
void lanes_moved(struct lanes *lanes, uint64_t key, usec_t now);

const struct lane *lanes_find(const struct lanes *lanes, uint64_t key); /* NULL: it is empty */
const struct lane *lanes_all(const struct lanes *lanes, size_t *count_r);

#endif
