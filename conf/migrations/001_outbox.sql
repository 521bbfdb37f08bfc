-- oldest program: 1
-- The outbox, the ways to write to it, permanent dedupe at the source, and the relay's lease.

CREATE SCHEMA counterfoil;

CREATE TABLE counterfoil.migration (
  version        int PRIMARY KEY,
  name           text NOT NULL,
  oldest_program int NOT NULL,           -- programs older than this refuse to run
  applied_at     timestamptz NOT NULL DEFAULT clock_timestamp());

-- UUID v7: 48 bits of milliseconds, the version, 12 bits below the millisecond, 62 random bits.
-- Time-ordered ids keep the unique indexes of outbox and ledger append-only.
CREATE FUNCTION counterfoil.uuid7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
  SELECT encode(
    overlay(
      overlay(uuid_send(gen_random_uuid())
        placing substring(int8send((us / 1000)) from 3) from 1 for 6)
      placing substring(int2send((28672 + ((us % 1000) * 4096 / 1000))::int2) from 1) from 7 for 2),
    'hex')::uuid
  FROM (SELECT (extract(epoch from clock_timestamp()) * 1000000)::bigint us) t
$$;

-- A row exists = it is unpublished. No cursor is kept anywhere.
CREATE TABLE counterfoil.outbox (
  id           bigint GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
  event_id     uuid NOT NULL UNIQUE DEFAULT counterfoil.uuid7(),
  topic        text NOT NULL CHECK (topic <> ''),
  type         text NOT NULL CHECK (type <> ''),
  ordering_key text,                     -- NULL and '' both mean none
  partition    int CHECK (partition >= 0),
  message_key  bytea,                    -- NULL: as configured; a dead letter carries the original's
  payload      bytea,                    -- NULL: a tombstone; empty: an empty value
  headers      jsonb CHECK (jsonb_typeof(headers) = 'object'),
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp());

-- Who may publish and delete: a relay, by the database's clock. Every DELETE carries the token.
CREATE TABLE counterfoil.lease (
  name  text COLLATE "C" PRIMARY KEY,
  owner text NOT NULL,
  token bigint NOT NULL,
  until timestamptz NOT NULL,
  length interval NOT NULL DEFAULT '15s');  -- ends later than that from now: the clock jumped, it is void

CREATE TABLE counterfoil.once (
  scope       text COLLATE "C" NOT NULL,
  key         text COLLATE "C" NOT NULL,
  fingerprint text,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at  timestamptz NOT NULL,
  PRIMARY KEY (scope, key));
CREATE INDEX once_expiry ON counterfoil.once (expires_at);

CREATE TYPE counterfoil.emitted AS (id bigint, event_id uuid, created boolean);

-- emit: one event, in the caller's transaction. The same event_id while unpublished is a no-op that
-- says created = false; with other content it is an error. payload stands before every parameter
-- that has a default, else a call without it would be ambiguous between the overloads.
CREATE FUNCTION counterfoil.emit(topic text, type text, payload bytea, ordering_key text DEFAULT NULL,
   headers jsonb DEFAULT NULL, event_id uuid DEFAULT NULL, idempotency_key text DEFAULT NULL,
   lock boolean DEFAULT false, partition int DEFAULT NULL)
RETURNS counterfoil.emitted
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
#variable_conflict use_column
DECLARE
  e uuid := coalesce(emit.event_id, counterfoil.uuid7());
  k text := nullif(emit.ordering_key, '');
  h jsonb := emit.headers;
  o counterfoil.outbox;
  made bigint;
BEGIN
  IF emit.idempotency_key IS NOT NULL THEN
    h := coalesce(h, '{}') || jsonb_build_object('cf-idempotency-key', emit.idempotency_key);
  END IF;
  IF emit.lock AND k IS NOT NULL THEN
    PERFORM pg_advisory_xact_lock(hashtextextended(k, 4711));
  END IF;
  LOOP
    INSERT INTO counterfoil.outbox AS x (event_id, topic, type, ordering_key, partition, payload, headers)
    VALUES (e, emit.topic, emit.type, k, emit.partition, emit.payload, h)
    ON CONFLICT (event_id) DO NOTHING RETURNING x.id INTO made;
    IF FOUND THEN RETURN (made, e, true)::counterfoil.emitted; END IF;
    SELECT * INTO o FROM counterfoil.outbox x WHERE x.event_id = e;
    IF FOUND THEN
      IF (o.topic, o.type, o.ordering_key, o.partition, o.payload, o.headers)
         IS DISTINCT FROM (emit.topic, emit.type, k, emit.partition, emit.payload, h) THEN
        RAISE EXCEPTION 'event % is already in the outbox with other content', e
          USING ERRCODE = '23505', HINT = 'An event_id names one event: use a new one, or the same content.';
      END IF;
      RETURN (o.id, e, false)::counterfoil.emitted;
    END IF;
    -- published and deleted between the two statements: insert again
  END LOOP;
END $f$;

-- Text is what a literal and an untyped parameter resolve to: the exact bytes, no escapes of bytea.
CREATE FUNCTION counterfoil.emit(topic text, type text, payload text, ordering_key text DEFAULT NULL,
   headers jsonb DEFAULT NULL, event_id uuid DEFAULT NULL, idempotency_key text DEFAULT NULL,
   lock boolean DEFAULT false, partition int DEFAULT NULL)
RETURNS counterfoil.emitted LANGUAGE sql VOLATILE AS
$f$ SELECT counterfoil.emit($1, $2, convert_to($3, 'UTF8'), $4, $5, $6, $7, $8, $9) $f$;

CREATE FUNCTION counterfoil.emit(topic text, type text, payload json, ordering_key text DEFAULT NULL,
   headers jsonb DEFAULT NULL, event_id uuid DEFAULT NULL, idempotency_key text DEFAULT NULL,
   lock boolean DEFAULT false, partition int DEFAULT NULL)
RETURNS counterfoil.emitted LANGUAGE sql VOLATILE AS
$f$ SELECT counterfoil.emit($1, $2, convert_to($3::text, 'UTF8'), $4, $5, $6, $7, $8, $9) $f$;

CREATE FUNCTION counterfoil.emit(topic text, type text, payload jsonb, ordering_key text DEFAULT NULL,
   headers jsonb DEFAULT NULL, event_id uuid DEFAULT NULL, idempotency_key text DEFAULT NULL,
   lock boolean DEFAULT false, partition int DEFAULT NULL)
RETURNS counterfoil.emitted LANGUAGE sql VOLATILE AS
$f$ SELECT counterfoil.emit($1, $2, convert_to($3::text, 'UTF8'), $4, $5, $6, $7, $8, $9) $f$;

-- once: true for the first caller of (scope, key), whose row commits with its work or not at all;
-- false when it was done before; an error when it was done before with another fingerprint.
CREATE FUNCTION counterfoil.once(scope text, key text, fingerprint text DEFAULT NULL,
   keep interval DEFAULT '30 days') RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
#variable_conflict use_column
DECLARE
  f text;
BEGIN
  LOOP
    INSERT INTO counterfoil.once AS o (scope, key, fingerprint, expires_at)
    VALUES (once.scope, once.key, once.fingerprint, clock_timestamp() + once.keep)
    ON CONFLICT (scope, key) DO UPDATE
      SET fingerprint = excluded.fingerprint, created_at = clock_timestamp(), expires_at = excluded.expires_at
      WHERE o.expires_at <= clock_timestamp();
    IF FOUND THEN RETURN true; END IF;
    SELECT o.fingerprint INTO f FROM counterfoil.once o WHERE o.scope = once.scope AND o.key = once.key;
    IF FOUND THEN
      IF f IS DISTINCT FROM once.fingerprint THEN
        RAISE EXCEPTION 'once(%, %): done before with another fingerprint', once.scope, once.key
          USING ERRCODE = '23505';
      END IF;
      RETURN false;
    END IF;
  END LOOP;
END $f$;
