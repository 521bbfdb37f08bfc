/* One value, from a libconfig setting or from text, checked and stored. */
#ifndef COMMON_CONF_VALUE_H
#define COMMON_CONF_VALUE_H

#include <libconfig.h>

#include "buf.h"
#include "conf/conf_keys.h"
#include "err.h"

/* From text: a default, the environment, the inside of a file's quotes. Scalar types only. The
 * field keeps its old value on failure. */
MUST_USE bool conf_value_parse(const struct conf_key *key, const char *text, struct err *err,
			       void *base);
/* From the file; scalar types only. */
MUST_USE bool conf_value_read(const struct conf_key *key, const config_setting_t *setting,
			      struct err *err, void *base);

/* The text of a setting that must be one. */
MUST_USE bool conf_value_text(const config_setting_t *setting, struct err *err,
			      const char **text_r);
/* An HTTP status, 409 or "409", as text into a buffer of 4 bytes. */
MUST_USE bool conf_value_status(const config_setting_t *setting, struct err *err, char *status);

/* "this is a list; expected a text in quotes": what was found, and what the key wants. */
bool conf_value_mismatch(const struct conf_key *key, const config_setting_t *setting,
			 struct err *err);
/* "16MiB": exact, as it is read again. */
const char *conf_value_size(int64_t bytes, char *buffer, size_t size);
bool conf_value_scalar(enum conf_type type);

#endif
