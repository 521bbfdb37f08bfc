/* Bulk orders: dead keys that run again, uncertain ones that are decided, each once, under a rate.
 */
#ifndef LEDGER_BULK_H
#define LEDGER_BULK_H

#include "conf.h"
#include "log.h"
#include "loop.h"
#include "meter.h"
#include "pg.h"

struct bulk;

/* pg is the caller's and is freed first. Nothing is done before bulk_owner(). */
struct bulk *bulk_new(struct loop *loop, struct log *log, struct pg *pg, const struct conf *conf,
		      struct meter *meter);
void bulk_free(struct bulk *bulk);                 /* NULL is fine */
void bulk_owner(struct bulk *bulk, int64_t owner); /* the instance's id; 0: no lease */
void bulk_stop(struct bulk *bulk);

#endif
