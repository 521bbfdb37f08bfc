/* How a row of the tables of keys is written. */
#ifndef COMMON_CONF_ROWS_H
#define COMMON_CONF_ROWS_H

#include "conf/conf_keys.h"

#define KEY_AS(name_, owner_, field_, type_, fallback_, meaning_, ...)                             \
	{                                                                                          \
		.name = (name_), .type = (type_), .offset = offsetof(struct owner_, field_),       \
		.fallback = (fallback_), .meaning = (meaning_), ##__VA_ARGS__                      \
	}
#define KEY(owner_, field_, ...) KEY_AS(#field_, owner_, field_, __VA_ARGS__)
#define RANGE(low_, high_)       .low = (low_), .high = (high_)
#define GROUP(name_, table_, meaning_, ...)                                                        \
	{                                                                                          \
		.name = (name_), .type = CONF_GROUP, .meaning = (meaning_), .group = &(table_),    \
		##__VA_ARGS__                                                                      \
	}
#define TABLE(keys_)                                                                               \
	{                                                                                          \
		.keys = (keys_), .count = sizeof(keys_) / sizeof((keys_)[0])                       \
	}
#define REQUIRED  .required = true
#define NOT_EMPTY RANGE(1, 4096)
#define LATER     .later = true

#endif
