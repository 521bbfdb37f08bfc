/* The event contract: what the relay puts on a Kafka message and the ledger reads from it.
 * Source: CloudEvents 1.0.2, Kafka binding, binary mode; the cf- names are ours. */
#ifndef COUNTERFOIL_WIRE_H
#define COUNTERFOIL_WIRE_H

#define WIRE_CE_PREFIX      "ce_" /* reserved: a row's own headers may not begin with it */
#define WIRE_CE_ID          "ce_id"
#define WIRE_CE_SOURCE      "ce_source"
#define WIRE_CE_TYPE        "ce_type"
#define WIRE_CE_SPECVERSION "ce_specversion"
#define WIRE_CE_TIME        "ce_time"
#define WIRE_CE_SUBJECT     "ce_subject" /* the ordering key */
#define WIRE_CONTENT_TYPE   "content-type"
#define WIRE_DEBEZIUM_ID    "id"
#define WIRE_DEBEZIUM_TYPE  "eventType"
#define WIRE_TRACEPARENT    "traceparent"

/* Made when the command was accepted, by emit(idempotency_key => ...). */
#define WIRE_IDEMPOTENCY_KEY "cf-idempotency-key"
/* On a dead letter: the id of the event that died, so that publishing it again meets the same row.
 */
#define WIRE_EVENT_ID "cf-event-id"
#define WIRE_HOPS     "cf-hops"
/* Why and where an event died; a constant number of headers, replaced and not added at each death.
 */
#define WIRE_DEAD_REASON   "cf-dead-reason"
#define WIRE_DEAD_EFFECT   "cf-dead-effect"
#define WIRE_DEAD_ATTEMPTS "cf-dead-attempts"
#define WIRE_DEAD_ORIGIN   "cf-dead-origin" /* topic/partition/offset */
#define WIRE_VALUE_OMITTED "cf-value-omitted"

#define WIRE_HEADER_NAME_MAX 249

/* Namespace of the UUIDv5 names "EFFECT-ID/REPLAY/emit|dead" and
 * "TOPIC/PARTITION/OFFSET/EFFECT/EVENT-ID".
 */
#define WIRE_NAMESPACE "6f1c2a52-7f0b-5e37-9d4e-3b0a6c1d9e84"

#endif
