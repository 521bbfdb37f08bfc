/* counterfoil-relay --dry-run: what would be published, of what waits now. Nothing is sent, deleted
 * or marked, and no lease is taken: it works beside a running relay. */
#ifndef COUNTERFOIL_RELAY_DRY_RUN_H
#define COUNTERFOIL_RELAY_DRY_RUN_H

#include "conf.h"
#include "main.h"

/* A line for each row, by id, and one of totals, on standard output. EXIT_OK: every row would be
 * published. EXIT_ERROR: some would not, as their lines say, or the database refused a statement.
 * EXIT_CONFIG, EXIT_UNAVAILABLE: the table does not fit, or could not be asked; standard error says
 * why. */
enum exit_code dry_run(const struct conf *conf);

#endif
