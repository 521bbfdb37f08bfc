/* From the file and the environment into struct conf, by the tables. */
#ifndef COMMON_CONF_READ_H
#define COMMON_CONF_READ_H

#include "conf.h"
#include "conf/conf_places.h"

/* Every key gets its default. */
void conf_read_defaults(struct conf *conf);
/* So does every key of one item of each list. */
void conf_read_pattern(struct conf *conf);
/* What cannot be read, and what no table knows, is added to the faults. */
void conf_read_file(struct conf *conf, struct conf_faults *faults);
void conf_read_environment(struct conf *conf, struct conf_faults *faults);
void conf_read_flag(struct conf *conf, const struct conf_flag *flag, struct conf_faults *faults);
/* Keys that must be there: of every item of a list. */
void conf_read_required(const struct conf *conf, struct conf_faults *faults);
/* Frees all that the tables know. */
void conf_read_free(struct conf *conf);

/* "targets[3].request.method"; the buffer is the caller's. */
#define CONF_PATH_MAX 256
const char *conf_path(char *buffer, const char *base, const char *name);
const char *conf_path_item(char *buffer, const char *base, size_t index);

#endif
