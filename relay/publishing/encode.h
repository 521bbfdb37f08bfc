/* From a row to a message: key, value, headers, and the hash that chooses the partition. Pure; the
 * same row always gives the same bytes. */
#ifndef COUNTERFOIL_RELAY_ENCODE_H
#define COUNTERFOIL_RELAY_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"
#include "err.h"
#include "source/row.h"

struct encode_header {
	struct row_bytes name;
	struct row_bytes value;
};

/* Borrows from the row and from the encoder: valid until the next row is encoded. */
struct encode_message {
	struct row_bytes key;   /* data NULL: none */
	struct row_bytes value; /* data NULL: a tombstone */
	const struct encode_header *headers;
	size_t header_count;
	size_t dropped;    /* headers that a message cannot carry: null, reserved, badly named */
	const char *fault; /* why no message can be made of the row, or NULL */
	uint32_t hash;
};

struct encoder;

struct encoder *encoder_new(const struct conf_relay *conf); /* borrowed */
void encoder_free(struct encoder *encoder);

void encode_row(struct encoder *encoder, const struct row *row, struct encode_message *message_r);

/* Would a broker take a topic of this name? If not, err says what is wrong with it. */
MUST_USE bool encode_topic(struct row_bytes topic, struct err *err);

/* A uuid as text, 36 characters and a NUL; returns the text. */
#define ENCODE_UUID_TEXT 37
const char *encode_uuid(const unsigned char *uuid, char *text);

#endif
