/* What may stand in a URL, in a connection string, as a name of a header or of a topic. Pure. */
#ifndef COMMON_CONF_NET_H
#define COMMON_CONF_NET_H

#include "err.h"

/* A target's URL: http, https, smtp or smtps, a host, no user, query, fragment or dot segment. */
MUST_USE bool conf_url_check(const char *url, struct err *err);
bool conf_url_is_mail(const char *url); /* smtp or smtps */

/* A libpq connection string or URI holds no secret. Nothing of it is shown. What is wrong with it
 * otherwise is libpq's to say. */
MUST_USE bool conf_conninfo_check(const char *conninfo, struct err *err);

/* A header that the user may set, and a value without control characters. */
MUST_USE bool conf_header_check(const char *name, const char *value, struct err *err);
MUST_USE bool conf_header_name_check(const char *name, struct err *err);
MUST_USE bool conf_header_value_check(const char *value, struct err *err);

/* Where to listen: HOST:PORT, with an address in brackets as in "[::1]:9464"; port 0 is any. */
MUST_USE bool conf_listen_check(const char *address, struct err *err);

MUST_USE bool conf_topic_check(const char *topic, struct err *err);

#endif
