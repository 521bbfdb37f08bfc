/* The profiles that come with the program. */
#ifndef COMMON_CONF_PROFILES_H
#define COMMON_CONF_PROFILES_H

#include "conf.h"

size_t conf_profiles_shipped(void);
/* Puts them before the user's. */
void conf_profiles_add(struct conf *conf);

#endif
