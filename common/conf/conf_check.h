/* What single values cannot show: that they fit each other, and suffice for the program. */
#ifndef COMMON_CONF_CHECK_H
#define COMMON_CONF_CHECK_H

#include "conf.h"
#include "conf/conf_places.h"

/* general, postgres, kafka, relay, ledger. Opens kafka.properties_file, for a program that uses it.
 */
void conf_check_sections(const struct conf *conf, const struct conf_source *source,
			 struct conf_faults *faults);
/* relay: of this table, and of what is published from it. */
void conf_check_relay(const struct conf_relay *relay, struct conf_faults *faults);
/* targets, tenants, effects, profiles. Looks for the TLS files, for the ledger. */
void conf_check_rules(const struct conf *conf, const struct conf_source *source,
		      struct conf_faults *faults);

#endif
