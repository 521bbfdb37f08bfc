/* What the brokers say to a configuration, for --check-config --connect: whether they are reached
 * and log us in, and how the topics are that we write. */
#ifndef COUNTERFOIL_KAFKA_CONNECT_H
#define COUNTERFOIL_KAFKA_CONNECT_H

#include <stddef.h>

#include "conf.h"
#include "findings.h"

enum kafka_connect_use {
	KAFKA_CONNECT_READS,
	KAFKA_CONNECT_WRITES,
};

struct kafka_connect {
	const struct conf_kafka *kafka;
	enum kafka_connect_use use;
	enum conf_message_key key; /* of what is written */
	const char *const *topics;
	size_t topic_count;
};

/* Within about ten seconds, whatever the brokers do. */
void kafka_connect(struct findings *findings, const struct kafka_connect *question);

#endif
