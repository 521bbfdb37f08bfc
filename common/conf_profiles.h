/* The profiles that come with the program. */
#ifndef COMMON_CONF_PROFILES_H
#define COMMON_CONF_PROFILES_H

#include "conf.h"

size_t conf_profiles_shipped(void);
/* The shipped profile of this name comes later. */
bool conf_profiles_later(const char *name);
/* Puts them before the user's. */
void conf_profiles_add(struct conf *conf);

#endif
