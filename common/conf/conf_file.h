/* Whole files: the configuration, properties, secrets. */
#ifndef COMMON_CONF_FILE_H
#define COMMON_CONF_FILE_H

#include <stddef.h>

#include "buf.h"
#include "err.h"

/* Appends the file's bytes. A directory, or more than `max` bytes, is an error; the text says what
 * is wrong with the file, without its name. */
MUST_USE bool conf_file_read(const char *path, size_t max, struct err *err, struct buf *out);

#endif
