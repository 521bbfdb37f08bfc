-- oldest program: 2
-- What the relay keeps beside the outbox: rows that could not be published, suspects of a crash,
-- what it reports of itself; and whose database this is.

-- --- whose database this is -------------------------------------------------------------------------

-- One row. A restored or copied database has another system identifier, a copy of the files another
-- environment: relay and ledger then refuse to run until `counterfoil adopt`.
CREATE TABLE counterfoil.installation (
  one               boolean PRIMARY KEY DEFAULT true CHECK (one),
  system_identifier text NOT NULL,
  environment       text NOT NULL DEFAULT '',  -- '': the first program that has one writes it here
  adopted_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  adopted_by        text NOT NULL DEFAULT session_user);
INSERT INTO counterfoil.installation (system_identifier)
  SELECT system_identifier::text FROM pg_control_system();

-- What a program compares at each new connection; one row always, NULL where nothing is recorded. An
-- installation without an environment takes that of the first program that has one: of two, the one
-- that waits for the other's lock finds it taken. It changes nothing else, and a copy not at all.
CREATE FUNCTION counterfoil.check_installation(environment text, OUT system_identifier text,
  OUT recorded_identifier text, OUT recorded_environment text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $f$
#variable_conflict use_column
BEGIN
  check_installation.system_identifier := (SELECT c.system_identifier::text FROM pg_control_system() c);
  SELECT i.system_identifier, i.environment
  INTO check_installation.recorded_identifier, check_installation.recorded_environment
  FROM counterfoil.installation i;
  IF check_installation.recorded_environment = '' AND check_installation.environment <> '' THEN
    UPDATE counterfoil.installation i SET environment = check_installation.environment
    WHERE i.environment = '' AND i.system_identifier = check_installation.system_identifier
      AND set_config('synchronous_commit', 'on', true) = 'on';
    SELECT i.system_identifier, i.environment
    INTO check_installation.recorded_identifier, check_installation.recorded_environment
    FROM counterfoil.installation i;
  END IF;
END $f$;

-- --- outboxes ---------------------------------------------------------------------------------------

-- The tables that relays publish. The generation rises when rows are put back: every poll returns it,
-- and a relay that sees another one than before reads the whole table again before it goes on.
CREATE TABLE counterfoil.outbox_source (
  name            text COLLATE "C" PRIMARY KEY,  -- 'counterfoil.outbox', 'public.outboxevent'
  generation      bigint NOT NULL DEFAULT 1,
  relation        text NOT NULL,                 -- quoted, as in a statement
  id_column       text NOT NULL,                 -- names, not quoted
  event_id_column text NOT NULL,
  mark_column     text);                         -- NULL: published rows are deleted
INSERT INTO counterfoil.outbox_source (name, relation, id_column, event_id_column)
  VALUES ('counterfoil.outbox', 'counterfoil.outbox', 'id', 'event_id');

-- Rows that no broker will take (dead), and rows of the same ordering key behind them (parked), which
-- wait until the dead one is put back or discarded. They left the outbox in the transaction that
-- brought them here. No retention touches them.
CREATE TABLE counterfoil.outbox_dead (
  source       text COLLATE "C" NOT NULL REFERENCES counterfoil.outbox_source (name),
  row_id       bigint NOT NULL,            -- its id in the outbox: the order in which it goes back
  event_id     uuid NOT NULL,
  parked       boolean NOT NULL,
  order_hash   bigint,                     -- of topic and ordering key; NULL: no ordering key
  topic        text,
  type         text,
  ordering_key text,
  partition    int,
  message_key  bytea,
  payload      bytea,
  headers      jsonb,
  created_at   timestamptz,
  row          text,                       -- of a mapped table: the whole row, to be cast back
  size         bigint NOT NULL,            -- bytes of all that it carries
  reason       text NOT NULL,              -- of a parked row: which row it waits for
  died_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  owner        text NOT NULL,              -- the relay that gave it up
  PRIMARY KEY (source, row_id, event_id));
CREATE INDEX outbox_dead_key ON counterfoil.outbox_dead (source, order_hash, row_id) WHERE order_hash IS NOT NULL;
CREATE INDEX outbox_dead_state ON counterfoil.outbox_dead (source, parked, died_at, row_id);

-- After a relay that did not stop cleanly: the rows that were in flight, perhaps. They run in smaller
-- and smaller companies; one that was alone at three crashes is given up.
CREATE TABLE counterfoil.suspect (
  source     text COLLATE "C" PRIMARY KEY,
  first      bigint NOT NULL,              -- ids, both included
  last       bigint NOT NULL,
  crashes    int NOT NULL,                 -- in this range, one after the other
  alone      int NOT NULL DEFAULT 0,       -- of these, while its one row was alone in flight
  alone_now  boolean NOT NULL DEFAULT false, -- it is, and not for long: a crash now is one of them
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp());

-- --- what relays say of themselves --------------------------------------------------------------------

-- Written every two seconds, for displays; whoever was not seen for a minute is gone.
CREATE TABLE counterfoil.relay (
  owner       text COLLATE "C" PRIMARY KEY,
  name        text NOT NULL,               -- general.instance
  source      text COLLATE "C" NOT NULL,
  role        text NOT NULL,               -- owner, standby, draining, suspects
  version     text NOT NULL,
  started_at  timestamptz NOT NULL,
  seen_at     timestamptz NOT NULL,
  backlog     bigint,                      -- rows that wait, counted up to 10000; NULL: not known
  oldest      interval,                    -- age of the oldest; NULL: not known, or none
  in_flight   bigint NOT NULL,
  batch       bigint NOT NULL,             -- rows of the last poll that found any
  published   bigint NOT NULL,             -- since its start
  rate        real NOT NULL,               -- rows a second, lately
  latency_p50 interval,                    -- from fetch to acknowledgement, lately
  latency_p99 interval,
  violations  bigint NOT NULL,             -- rows met behind a later row of their ordering key
  blocked     bigint NOT NULL);            -- topics

CREATE TABLE counterfoil.relay_topic (
  source       text COLLATE "C" NOT NULL,
  topic        text COLLATE "C" NOT NULL,
  pending      bigint NOT NULL,            -- among the first 10000 rows that wait
  oldest       interval,
  rate         real NOT NULL,
  published    bigint NOT NULL,
  state        text NOT NULL,              -- open, blocked, probing, catching up
  reason       text,                       -- of the last trouble
  since        timestamptz,                -- that it is not open
  seen_at      timestamptz NOT NULL,
  PRIMARY KEY (source, topic));

-- --- the audit also knows what is no key --------------------------------------------------------------

ALTER TABLE counterfoil.audit
  ALTER COLUMN effect_id DROP NOT NULL, ALTER COLUMN idempotency_key DROP NOT NULL,
  ALTER COLUMN target DROP NOT NULL, ALTER COLUMN tenant DROP NOT NULL,
  ALTER COLUMN from_state DROP NOT NULL, ALTER COLUMN to_state DROP NOT NULL,
  ADD COLUMN about text,                   -- 'outbox counterfoil.outbox', 'installation'; NULL: a key
  ADD CHECK ((about IS NULL) = (effect_id IS NOT NULL));

-- --- a copy is adopted ---------------------------------------------------------------------------------

-- Makes the database that of this server and environment. The rest of what is expected is what the
-- operator was shown: adopted is only what was seen. The same operation asked for again gets its
-- first answer. result: done; already (there was nothing to do); changed; refused.
CREATE FUNCTION counterfoil.adopt(environment text, server text, recorded_identifier text,
   recorded_environment text, operation uuid, reason text, claims jsonb,
   OUT result text, OUT detail text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
#variable_conflict use_column
DECLARE
  here text := (SELECT c.system_identifier::text FROM pg_control_system() c);
  i counterfoil.installation;
  n counterfoil.installation;
BEGIN
  PERFORM set_config('synchronous_commit', 'on', true);
  LOCK TABLE counterfoil.installation IN SHARE ROW EXCLUSIVE MODE;  -- it may have no row to lock
  SELECT * INTO i FROM counterfoil.installation;
  SELECT a.result, a.detail INTO adopt.result, adopt.detail
  FROM counterfoil.audit a WHERE a.operation = adopt.operation;
  IF FOUND THEN
    RETURN;
  ELSIF here <> adopt.server THEN
    adopt.result := 'changed';
    adopt.detail := 'this is another server by now';
  ELSIF i.system_identifier = here AND i.environment = adopt.environment THEN
    adopt.result := 'already';
    adopt.detail := 'it belongs to this server and environment';
  ELSIF (i.system_identifier, i.environment)
      IS DISTINCT FROM (adopt.recorded_identifier, adopt.recorded_environment) THEN
    adopt.result := 'changed';
    adopt.detail := 'somebody else has adopted it meanwhile';
  ELSIF adopt.environment = '' AND i.environment <> '' THEN
    adopt.result := 'refused';
    adopt.detail := format('it belongs to environment "%s": a new one must be named', i.environment);
  END IF;
  IF adopt.result IS NOT NULL THEN RETURN; END IF;
  adopt.result := 'done';
  adopt.detail := 'it belongs to this server and environment now';
  INSERT INTO counterfoil.installation AS x (system_identifier, environment)
    VALUES (here, adopt.environment)
    ON CONFLICT (one) DO UPDATE SET system_identifier = here, environment = adopt.environment,
      adopted_at = clock_timestamp(), adopted_by = session_user
    RETURNING x.* INTO n;
  INSERT INTO counterfoil.audit (operation, claims, action, about, result, detail, reason, before, after)
    VALUES (adopt.operation, coalesce(adopt.claims, '{}'), 'adopt', 'installation', adopt.result,
      adopt.detail, nullif(adopt.reason, ''), coalesce(to_jsonb(i), '{}'), to_jsonb(n));
END $f$;
REVOKE ALL ON FUNCTION counterfoil.adopt FROM PUBLIC;

-- --- dead rows are put back, or dropped ---------------------------------------------------------------

-- A row of the answer, one for each dead or parked row that was asked for. result: done; already
-- (there was nothing to do); refused (detail says why); missing. behind: parked rows that go back
-- with it, told once a key.
CREATE TYPE counterfoil.outbox_verdict AS (
  row_id bigint, event_id uuid, result text, detail text, behind bigint);

-- One event's content, whenever it was written.
CREATE FUNCTION counterfoil.outbox_own_content(d counterfoil.outbox_dead, o counterfoil.outbox)
RETURNS boolean LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$f$ SELECT (d.topic, d.type, nullif(d.ordering_key, ''), d.partition, d.message_key, d.payload, d.headers)
   IS NOT DISTINCT FROM
   (o.topic, o.type, nullif(o.ordering_key, ''), o.partition, o.message_key, o.payload, o.headers) $f$;
REVOKE ALL ON FUNCTION counterfoil.outbox_own_content FROM PUBLIC;

-- What it would come to. Reads only. What a mapped table may still object to, it says when a row is
-- put into it.
CREATE FUNCTION counterfoil.judge_outbox(action text, source text, row_ids bigint[])
RETURNS SETOF counterfoil.outbox_verdict
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  WITH asked AS (SELECT DISTINCT unnest($3) AS id),
  own AS (SELECT $1 = 'requeue' AND $2 = 'counterfoil.outbox' AS requeue),
  found AS (
    SELECT a.id, d.row_id, d.event_id, d.parked, d.order_hash, o.id AS twin,
      o.id IS NOT NULL AND NOT counterfoil.outbox_own_content(d, o) AS clash,
      row_number() OVER (PARTITION BY d.order_hash ORDER BY d.row_id, d.event_id) = 1 AS first
    FROM asked a CROSS JOIN own
    LEFT JOIN counterfoil.outbox_dead d ON d.source = $2 AND d.row_id = a.id
    LEFT JOIN counterfoil.outbox o ON own.requeue AND o.event_id = d.event_id),
  keys AS (  -- what else there is of their keys
    SELECT k.order_hash, min(x.row_id) FILTER (WHERE NOT x.parked) AS dead, count(*) FILTER (WHERE x.parked) AS parked
    FROM (SELECT DISTINCT order_hash FROM found WHERE order_hash IS NOT NULL) k
    JOIN counterfoil.outbox_dead x ON x.source = $2 AND x.order_hash = k.order_hash
    LEFT JOIN asked a ON a.id = x.row_id
    WHERE a.id IS NULL GROUP BY 1),
  judged AS (
    SELECT f.*, k.dead, coalesce(k.parked, 0) AS waiting,
      CASE WHEN f.first AND k.dead IS NULL THEN coalesce(k.parked, 0) ELSE 0 END AS behind,
      CASE
        WHEN f.row_id IS NULL AND own.requeue AND EXISTS (SELECT FROM counterfoil.outbox x WHERE x.id = f.id)
          THEN 'already'
        WHEN f.row_id IS NULL THEN 'missing'
        WHEN $1 = 'requeue' AND f.parked AND k.dead IS NOT NULL THEN 'refused'
        WHEN f.clash OR bool_or(f.clash) OVER (PARTITION BY f.order_hash) AND f.order_hash IS NOT NULL THEN 'refused'
        ELSE 'done' END AS result
    FROM found f CROSS JOIN own LEFT JOIN keys k ON k.order_hash = f.order_hash)
  SELECT j.id, j.event_id, j.result,
    CASE
      WHEN j.result = 'already' THEN 'it is in the outbox'
      WHEN j.result = 'missing' THEN 'there is no such dead row'
      WHEN j.clash THEN
        format('its event is in the outbox again with other content, as row %s: only one can be sent', j.twin)
      WHEN j.result = 'refused' AND j.parked AND j.dead IS NOT NULL THEN
        format('it waits behind row %s, which is dead: settle that one', j.dead)
      WHEN j.result = 'refused' THEN 'another row of its key cannot go back: settle that one'
      WHEN j.twin IS NOT NULL THEN format('its event is in the outbox already, as row %s: only the copy is dropped', j.twin)
      WHEN $1 = 'requeue' THEN 'it goes back to the outbox'
      ELSE 'it is dropped for good' END
    || CASE
      WHEN j.result <> 'done' THEN ''
      WHEN j.dead IS NOT NULL AND j.waiting > 0 THEN
        format('; what is parked waits for row %s of its key, which is dead too', j.dead)
      WHEN j.behind = 1 THEN '; 1 row parked behind it goes back'
      WHEN j.behind > 1 THEN format('; %s rows parked behind it go back', j.behind)
      ELSE '' END,
    CASE WHEN j.result = 'done' THEN j.behind ELSE 0 END
  FROM judged j ORDER BY j.id, j.event_id
$f$;
REVOKE ALL ON FUNCTION counterfoil.judge_outbox FROM PUBLIC;

-- One row back into our own outbox, under its old id unless that belongs to another event by now (or
-- would be given to one: the sequence is behind it). Returns the id that it has; NULL: it is there
-- already with the same content, and is left as it is.
CREATE FUNCTION counterfoil.put_back_own(d counterfoil.outbox_dead, fresh boolean) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  o counterfoil.outbox;
  at_id bigint;
  other boolean := put_back_own.fresh OR d.row_id > (SELECT s.last_value FROM counterfoil.outbox_id_seq s);
BEGIN
  LOOP
    IF other THEN
      INSERT INTO counterfoil.outbox AS x (event_id, topic, type, ordering_key, partition, message_key,
        payload, headers, created_at)
      VALUES (d.event_id, d.topic, d.type, d.ordering_key, d.partition, d.message_key, d.payload,
        d.headers, d.created_at)
      ON CONFLICT DO NOTHING RETURNING x.id INTO at_id;
    ELSE
      INSERT INTO counterfoil.outbox AS x (id, event_id, topic, type, ordering_key, partition, message_key,
        payload, headers, created_at)
      OVERRIDING SYSTEM VALUE
      VALUES (d.row_id, d.event_id, d.topic, d.type, d.ordering_key, d.partition, d.message_key, d.payload,
        d.headers, d.created_at)
      ON CONFLICT DO NOTHING RETURNING x.id INTO at_id;
    END IF;
    IF FOUND THEN RETURN at_id; END IF;
    SELECT * INTO o FROM counterfoil.outbox x WHERE x.event_id = d.event_id;
    IF FOUND THEN
      IF counterfoil.outbox_own_content(d, o) THEN RETURN NULL; END IF;
      RAISE EXCEPTION 'the event of row % is in the outbox again with other content, as row %: only one can be sent',
        d.row_id, o.id USING ERRCODE = 'unique_violation';
    END IF;
    other := other OR EXISTS (SELECT FROM counterfoil.outbox x WHERE x.id = d.row_id);
    -- else published and deleted between the statements: insert again
  END LOOP;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.put_back_own FROM PUBLIC;

-- The same of a mapped table, whose row is text to be cast back. A row that was only marked as
-- published stands there still: its mark is taken away.
CREATE FUNCTION counterfoil.put_back_mapped(s counterfoil.outbox_source, d counterfoil.outbox_dead, fresh boolean)
RETURNS bigint LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  rel regclass := s.relation::regclass;
  columns text[] := ARRAY(SELECT a.attname FROM pg_attribute a WHERE a.attrelid = rel AND a.attnum > 0
    AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum);
  others text[] := array_remove(columns, s.id_column);
  names text;
  at_id bigint;
  event uuid;
  none constant uuid := '00000000-0000-0000-0000-000000000000';  -- of a row that had no event id
  same boolean;
BEGIN
  IF s.mark_column IS NOT NULL THEN
    EXECUTE format('UPDATE %1$s o SET %2$I = %3$s WHERE o.%4$I = $1 AND coalesce(o.%5$I, %6$L) = $2 RETURNING o.%4$I',
      rel, s.mark_column,
      (SELECT CASE a.atttypid WHEN 'boolean'::regtype THEN 'false' ELSE 'NULL' END FROM pg_attribute a
       WHERE a.attrelid = rel AND a.attname = s.mark_column), s.id_column, s.event_id_column, none)
    INTO at_id USING d.row_id, d.event_id;
    IF at_id IS NOT NULL THEN RETURN at_id; END IF;
  END IF;
  FOR i IN 1..2 LOOP
    SELECT string_agg(quote_ident(c), ', ') INTO names
    FROM unnest(CASE WHEN put_back_mapped.fresh OR i = 2 THEN others ELSE columns END) c;
    EXECUTE format('INSERT INTO %1$s AS o (%2$s) OVERRIDING SYSTEM VALUE SELECT %2$s FROM (SELECT ($1::%1$s).*) r'
      ' ON CONFLICT DO NOTHING RETURNING o.%3$I', rel, names, s.id_column) INTO at_id USING d.row;
    IF at_id IS NOT NULL THEN RETURN at_id; END IF;
    EXECUTE format('SELECT o.%2$I, coalesce(o.%3$I, %6$L), ROW(%4$s)::text = ROW(%5$s)::text FROM %1$s o, (SELECT ($1::%1$s).*) r'
      ' WHERE o.%3$I = r.%3$I OR o.%2$I = r.%2$I ORDER BY o.%3$I IS NOT DISTINCT FROM r.%3$I DESC LIMIT 1',
      rel, s.id_column, s.event_id_column,
      (SELECT string_agg('o.' || quote_ident(c), ', ') FROM unnest(others) c),
      (SELECT string_agg('r.' || quote_ident(c), ', ') FROM unnest(others) c), none)
    INTO at_id, event, same USING d.row;
    IF event = d.event_id AND same THEN RETURN NULL; END IF;
    IF event = d.event_id THEN
      RAISE EXCEPTION 'the event of row % is in the table again with other content, as row %: only one can be sent',
        d.row_id, at_id USING ERRCODE = 'unique_violation';
    END IF;
    -- else another event has its id: once more, without it
  END LOOP;
  RAISE EXCEPTION 'row % would have a value that another row of the table has', d.row_id
    USING ERRCODE = 'unique_violation';
END $f$;
REVOKE ALL ON FUNCTION counterfoil.put_back_mapped FROM PUBLIC;

-- The dead and parked rows of one key that were asked for, and all that is parked behind them when
-- no dead row of the key is left: together, or none of them. Returns the ids of those that have
-- another one now, and null for copies of what is there already.
CREATE FUNCTION counterfoil.settle_key(action text, s counterfoil.outbox_source, row_ids bigint[], hash bigint)
RETURNS jsonb LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  d counterfoil.outbox_dead;
  at_id bigint;
  fresh boolean := false;
  moved jsonb := '{}';
BEGIN
  IF settle_key.action = 'discard' THEN
    DELETE FROM counterfoil.outbox_dead x WHERE x.source = s.name AND x.row_id = ANY (settle_key.row_ids)
      AND x.order_hash IS NOT DISTINCT FROM settle_key.hash;
  END IF;
  FOR d IN
    SELECT * FROM counterfoil.outbox_dead x WHERE x.source = s.name AND x.row_id = ANY (settle_key.row_ids)
      AND x.order_hash IS NOT DISTINCT FROM settle_key.hash
    UNION ALL
    SELECT * FROM counterfoil.outbox_dead x WHERE x.source = s.name AND x.order_hash = settle_key.hash
      AND x.parked AND x.row_id <> ALL (settle_key.row_ids)
      AND NOT EXISTS (SELECT FROM counterfoil.outbox_dead y WHERE y.source = s.name
        AND y.order_hash = settle_key.hash AND NOT y.parked AND y.row_id <> ALL (settle_key.row_ids))
    ORDER BY row_id, died_at
  LOOP
    IF s.name = 'counterfoil.outbox' THEN
      at_id := counterfoil.put_back_own(d, fresh);
    ELSE
      at_id := counterfoil.put_back_mapped(s, d, fresh);
    END IF;
    IF at_id IS DISTINCT FROM d.row_id THEN
      moved := moved || jsonb_build_object(d.row_id || ' ' || d.event_id, at_id);
      fresh := fresh OR at_id IS NOT NULL;  -- what is behind it stays behind it
    END IF;
    DELETE FROM counterfoil.outbox_dead x
    WHERE x.source = d.source AND x.row_id = d.row_id AND x.event_id = d.event_id;
  END LOOP;
  RETURN moved;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.settle_key FROM PUBLIC;

-- The order that must hold against a relay, which buries rows in one statement under a shared lock
-- on the row of outbox_source and only at the generation that it knows: this takes that lock first
-- and keeps it to the commit, so that a later statement sees every row buried before, and none is
-- buried at the old generation behind it.
CREATE FUNCTION counterfoil.settle_outbox(action text, source text, row_ids bigint[], operation uuid,
   reason text, claims jsonb, dry_run boolean)
RETURNS SETOF counterfoil.outbox_verdict
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  s counterfoil.outbox_source;
  a counterfoil.audit;
  v counterfoil.outbox_verdict;
  answer counterfoil.outbox_verdict[] := '{}';
  judged counterfoil.outbox_verdict[];
  key record;
  moved jsonb;
  place text;
  refusal text;
  before jsonb;
BEGIN
  IF coalesce(cardinality(settle_outbox.row_ids), 0) NOT BETWEEN 1 AND 10000 OR array_position(settle_outbox.row_ids, NULL) > 0 THEN
    RAISE EXCEPTION 'between 1 and 10000 rows at a time' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF settle_outbox.dry_run THEN
    RETURN QUERY SELECT * FROM counterfoil.judge_outbox(settle_outbox.action, settle_outbox.source, settle_outbox.row_ids);
    RETURN;
  END IF;
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'this needs READ COMMITTED: rows may be buried while it waits for its lock'
      USING ERRCODE = 'active_sql_transaction';
  END IF;
  PERFORM set_config('synchronous_commit', 'on', true);
  SELECT * INTO s FROM counterfoil.outbox_source x WHERE x.name = settle_outbox.source FOR NO KEY UPDATE;
  -- behind the lock: whoever asked first has committed
  SELECT * INTO a FROM counterfoil.audit x WHERE x.operation = settle_outbox.operation;
  IF FOUND THEN
    IF (a.about, a.action, a.before -> 'asked') IS DISTINCT FROM
       ('outbox ' || settle_outbox.source, settle_outbox.action, to_jsonb(settle_outbox.row_ids)) THEN
      RAISE EXCEPTION 'operation % was about something else', settle_outbox.operation USING ERRCODE = '23505';
    END IF;
    RETURN QUERY SELECT * FROM jsonb_populate_recordset(NULL::counterfoil.outbox_verdict, a.after);
    RETURN;
  END IF;
  judged := ARRAY(SELECT j FROM counterfoil.judge_outbox(settle_outbox.action, settle_outbox.source, settle_outbox.row_ids) j);
  IF (SELECT bool_and(j.result = 'missing') FROM unnest(judged) j) THEN
    RETURN QUERY SELECT * FROM unnest(judged);
    RETURN;
  END IF;
  before := jsonb_build_object('asked', settle_outbox.row_ids, 'rows', (
    SELECT jsonb_agg(to_jsonb(d) - '{source,message_key,payload,headers,row}'::text[] ORDER BY d.row_id, d.event_id)
    FROM counterfoil.outbox_dead d WHERE d.source = s.name AND d.row_id = ANY (settle_outbox.row_ids)));
  FOR key IN
    SELECT d.order_hash, array_agg(j ORDER BY d.row_id, d.event_id) AS verdicts, array_agg(d.row_id) AS ids
    FROM unnest(judged) j
    JOIN counterfoil.outbox_dead d ON d.source = s.name AND d.row_id = j.row_id AND d.event_id = j.event_id
    WHERE j.result = 'done'
    GROUP BY d.order_hash, CASE WHEN d.order_hash IS NULL THEN d.row_id END
  LOOP
    refusal := NULL;
    BEGIN
      moved := counterfoil.settle_key(settle_outbox.action, s, key.ids, key.order_hash);
    EXCEPTION WHEN integrity_constraint_violation OR data_exception OR raise_exception
      OR cannot_coerce OR datatype_mismatch OR undefined_column OR undefined_table THEN
      refusal := SQLERRM;
    END;
    FOREACH v IN ARRAY key.verdicts::counterfoil.outbox_verdict[] LOOP
      place := v.row_id || ' ' || v.event_id;
      IF refusal IS NOT NULL THEN
        v.result := 'refused';
        v.detail := refusal;
        v.behind := 0;
      ELSIF jsonb_typeof(moved -> place) = 'null' AND s.name <> 'counterfoil.outbox' THEN
        v.detail := 'its event is in the table already: only the copy is dropped';
      ELSIF moved ->> place IS NOT NULL THEN
        v.detail := v.detail || format('; its id is %s now, another event has the old one', moved ->> place);
      END IF;
      answer := answer || v;
    END LOOP;
  END LOOP;
  answer := ARRAY(SELECT x FROM (SELECT * FROM unnest(answer) UNION ALL
    SELECT * FROM unnest(judged) j WHERE j.result <> 'done') x ORDER BY x.row_id, x.event_id);
  UPDATE counterfoil.outbox_source x SET generation = x.generation + 1
  WHERE x.name = s.name AND EXISTS (SELECT FROM unnest(answer) y WHERE y.result = 'done');
  INSERT INTO counterfoil.audit (about, operation, claims, action, result, detail, reason, before, after)
  SELECT 'outbox ' || s.name, settle_outbox.operation, coalesce(settle_outbox.claims, '{}'), settle_outbox.action,
    CASE WHEN count(DISTINCT y.result) = 1 THEN min(y.result) ELSE 'partly' END,
    CASE WHEN count(*) = 1 THEN min(y.detail)
      ELSE format('%s rows: %s done', count(*), count(*) FILTER (WHERE y.result = 'done')) END,
    nullif(settle_outbox.reason, ''), before, jsonb_agg(y)
  FROM unnest(answer) y;
  RETURN QUERY SELECT * FROM unnest(answer);
END $f$;
REVOKE ALL ON FUNCTION counterfoil.settle_outbox FROM PUBLIC;

-- Puts dead rows back, and with the last dead row of a key what is parked behind it. The same operation
-- asked for again gets its first answer. A dry run needs no operation and writes nothing.
CREATE FUNCTION counterfoil.outbox_requeue(source text, row_ids bigint[], operation uuid, reason text,
   claims jsonb, dry_run boolean DEFAULT false)
RETURNS SETOF counterfoil.outbox_verdict
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$f$ SELECT * FROM counterfoil.settle_outbox('requeue', $1, $2, $3, $4, $5, $6) $f$;
REVOKE ALL ON FUNCTION counterfoil.outbox_requeue FROM PUBLIC;

-- Drops rows for good: the audit keeps what they were, not what they carried. What is parked behind
-- them goes back. Nothing else deletes from outbox_dead.
CREATE FUNCTION counterfoil.outbox_discard(source text, row_ids bigint[], operation uuid, reason text,
   claims jsonb, dry_run boolean DEFAULT false)
RETURNS SETOF counterfoil.outbox_verdict
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$f$ SELECT * FROM counterfoil.settle_outbox('discard', $1, $2, $3, $4, $5, $6) $f$;
REVOKE ALL ON FUNCTION counterfoil.outbox_discard FROM PUBLIC;
