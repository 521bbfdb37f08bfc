/* Every statement of the orders to intake. Those that write for an order are guarded by its owner.
 */
#ifndef LEDGER_SQL_INTAKE_ORDERS_H
#define LEDGER_SQL_INTAKE_ORDERS_H

#define SYNC_COMMIT "(SELECT set_config('synchronous_commit', 'on', true)) = 'on'"

/* --- how far an order is ------------------------------------------------------------------------
 */

/* $1 order, $2 owner; added to the figures: $3 done, $4 failed, $5 skipped; $6 cursor, which was
 * $7. It goes last in the transaction in which that was done. Where it touches no row all of that
 * is undone: the order was paused or cancelled, or lost, or is further than we know. */
#define ORDER_STEP                                                                                 \
	"UPDATE counterfoil.operation o SET done = o.done + $3, failed = o.failed + $4,"           \
	"   skipped = o.skipped + $5, cursor = $6"                                                 \
	" WHERE o.id = $1 AND o.owner = $2 AND o.state = 'running'"                                \
	"   AND coalesce(o.cursor, '') = $7 AND " SYNC_COMMIT

static const char SQL_ORDER_STEP[] = ORDER_STEP;

/* $8 topic, $9 partitions, $10 from where on each was read: what was forgotten of that meanwhile
 * would have been recorded as if it were new. Whoever forgets a key moves the reach with it. */
static const char SQL_ORDER_STEP_READ[] =
	ORDER_STEP " AND NOT EXISTS (SELECT FROM counterfoil.reach r"
		   "   JOIN unnest($9, $10) n(partition, first) USING (partition)"
		   "   WHERE r.topic = $8 AND r.since > n.first)";

/* --- poison -------------------------------------------------------------------------------------
 */

enum poison_column {
	POISON_ID,
	POISON_TOPIC,
	POISON_PARTITION,
	POISON_OFFSET,
	POISON_KEY_COLUMN,
	POISON_VALUE,
	POISON_HEADERS,
	POISON_SENT_AT,
	POISON_CUT,
	POISON_ERROR,
};

/* Of the rows that `which` finds, behind $1, at most $2, as long as they are together below $3
 * bytes; the first whatever its size. */
#define POISON_PAGE(which)                                                                         \
	"WITH page AS MATERIALIZED (SELECT p.* FROM counterfoil.poison p"                          \
	"   WHERE p.settled_at IS NULL AND p.id > $1 AND " which " ORDER BY p.id LIMIT $2),"       \
	" sized AS (SELECT p.*, sum(coalesce(octet_length(p.value), 0)) OVER (ORDER BY p.id)"      \
	"     - coalesce(octet_length(p.value), 0) AS before FROM page p)"                         \
	" SELECT id, topic, partition, \"offset\", key, value, headers, sent_at,"                  \
	"   size > coalesce(octet_length(value), 0), error FROM sized WHERE before <= $3 ORDER "   \
	"BY id"

/* $4 topic, $5 the last one */
static const char SQL_POISON_OF_TOPIC[] = POISON_PAGE("p.topic = $4 AND p.id <= $5");
/* $4 ids */
static const char SQL_POISON_OF_IDS[] = POISON_PAGE("p.id = ANY ($4)");

/* $1 order: its params */
static const char SQL_ORDER_IDS[] =
	"SELECT ARRAY(SELECT i::bigint FROM counterfoil.operation o,"
	"   jsonb_array_elements_text(o.params -> 'ids') i WHERE o.id = $1 ORDER BY 1)";

/* --- positions ----------------------------------------------------------------------------------
 */

/* $1 topic: what has been taken in, and from where on the ledger knows keys. */
static const char SQL_TAKEN_IN[] =
	"SELECT i.partition, i.next_offset, coalesce(r.since, 0)"
	" FROM counterfoil.intake_position i LEFT JOIN counterfoil.reach r USING (topic, partition)"
	" WHERE i.topic = $1 AND i.next_offset > 0 ORDER BY 1";

/* $1 order, $2 owner, $3 total, $4 cursor */
static const char SQL_ORDER_BEGUN[] =
	"UPDATE counterfoil.operation o SET total = $3, cursor = $4"
	" WHERE o.id = $1 AND o.owner = $2 AND o.state = 'running' AND " SYNC_COMMIT;

/* $1 order, $2 owner, $3 total, as it turned out to be */
static const char SQL_ORDER_TOTAL[] =
	"UPDATE counterfoil.operation o SET total = $3"
	" WHERE o.id = $1 AND o.owner = $2 AND o.state = 'running' AND " SYNC_COMMIT;

/* $1 topic, $2 partitions. A statement of its own: the next one sees what was forgotten before,
 * and whoever forgets keys waits until it sees where positions have gone. */
static const char SQL_REWIND_LOCK[] =
	"SELECT FROM counterfoil.intake_position i WHERE i.topic = $1 AND i.partition = ANY ($2)"
	" ORDER BY i.topic, i.partition FOR UPDATE";

/* $1 order, $2 owner, $3 cursor: that it is done; $4 topic, $5 partitions, $6 where to, $7 even
 * where keys are not known. Only back, so that nothing is skipped; with the order's mark, so that
 * it happens once. A consumer that reads on meanwhile finds its position gone and reads it anew. */
static const char SQL_REWIND[] =
	"WITH n AS MATERIALIZED (SELECT * FROM unnest($5, $6) n(partition, next)),"
	" held AS MATERIALIZED (SELECT i.topic, i.partition, i.next_offset"
	"   FROM counterfoil.intake_position i WHERE i.topic = $4 AND i.partition = ANY ($5)"
	"   ORDER BY i.topic, i.partition FOR UPDATE),"
	" marked AS (UPDATE counterfoil.operation o SET cursor = $3, total = cardinality($5),"
	"   done = cardinality($5) WHERE o.id = $1 AND o.owner = "
	"$2"
	"   AND o.state = 'running' AND o.cursor IS NULL AND (SELECT count(*) FROM held) > 0"
	"   AND ($7 OR NOT EXISTS (SELECT FROM counterfoil.reach r JOIN n USING (partition)"
	"     WHERE r.topic = $4 AND r.since > n.next))"
	"   AND " SYNC_COMMIT " RETURNING o.id),"
	" moved AS (UPDATE counterfoil.intake_position i SET next_offset = n.next"
	"   FROM held JOIN n USING (partition) WHERE i.topic = held.topic"
	"   AND i.partition = held.partition AND n.next < held.next_offset"
	"   AND EXISTS (SELECT FROM marked) RETURNING held.next_offset - n.next AS back)"
	" SELECT EXISTS (SELECT FROM marked), count(*), coalesce(sum(back), 0)::bigint FROM moved";

#endif
