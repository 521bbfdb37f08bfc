-- oldest program: 2
-- Orders about many keys, or that need Kafka: rows that a ledger carries out. A draft is the preview:
-- its items are the selection, frozen with the epoch that each key had.

CREATE TABLE counterfoil.operation (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  operation   uuid NOT NULL UNIQUE,         -- made where it is confirmed: asking again is the same order
  kind        text COLLATE "C" NOT NULL,    -- replay, resolve, redeliver, rewind, poison
  state       text COLLATE "C" NOT NULL DEFAULT 'draft'
    CHECK (state IN ('draft', 'queued', 'running', 'paused', 'done', 'stopped', 'cancelled', 'failed')),
  params      jsonb NOT NULL,               -- of the kind: selection, topic, new state ...
  rate        double precision,             -- keys a second; NULL: as the target's rate lets
  canary      boolean NOT NULL DEFAULT false, -- one first, the others when it is completed
  stop_after  bigint,                       -- failures; NULL: never
  total       bigint NOT NULL DEFAULT 0,
  done        bigint NOT NULL DEFAULT 0,
  failed      bigint NOT NULL DEFAULT 0,
  skipped     bigint NOT NULL DEFAULT 0,    -- changed since, or refused
  cursor      text,                         -- where its kind goes on after a restart
  detail      text NOT NULL DEFAULT '',     -- why it stopped or failed, what came of it
  who         text NOT NULL DEFAULT session_user,
  claims      jsonb NOT NULL DEFAULT '{}',
  reason      text,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  started_at  timestamptz,
  ended_at    timestamptz,
  owner       bigint,                       -- instance.id of the ledger that carries it out
  until       timestamptz);                 -- the owner's lease on it
CREATE INDEX operation_open ON counterfoil.operation (kind, id) WHERE state IN ('queued', 'running', 'paused');
CREATE INDEX operation_draft ON counterfoil.operation (created_at) WHERE state = 'draft';
CREATE INDEX operation_ended ON counterfoil.operation (ended_at) WHERE ended_at IS NOT NULL;

-- A key of the selection, as it was then. Its result: NULL: not yet; ordered: it runs again; done,
-- failed (dead or uncertain again), skipped (changed since, or refused).
CREATE TABLE counterfoil.operation_item (
  operation_id bigint NOT NULL,
  effect_id    bigint NOT NULL,
  epoch        int NOT NULL,
  state        counterfoil.state NOT NULL,
  target       text COLLATE "C" NOT NULL,
  error_class  text COLLATE "C" NOT NULL,
  window_open  boolean,                     -- of an uncertain key: its provider still knows it, and no other of it
  result       text COLLATE "C",
  detail       text,
  at           timestamptz,
  PRIMARY KEY (operation_id, effect_id));
CREATE INDEX operation_item_left ON counterfoil.operation_item (operation_id, target, effect_id) WHERE result IS NULL;
CREATE INDEX operation_item_ordered ON counterfoil.operation_item (operation_id, target, effect_id) WHERE result = 'ordered';

-- --- orders about many keys: the draft ----------------------------------------------------------------

-- A draft without items. params: select, an object of states (a list), error, target, tenant, effect,
-- topic, key_prefix, older_than; of a resolve also happened. The same operation asked for again is
-- the same draft.
CREATE FUNCTION counterfoil.bulk_draft(operation uuid, kind text, params jsonb, reason text, claims jsonb)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
#variable_conflict use_column
DECLARE
  o counterfoil.operation;
  chosen jsonb := bulk_draft.params -> 'select';
  allowed jsonb := CASE bulk_draft.kind WHEN 'replay' THEN '["dead", "uncertain", "retry_wait", "pending"]'
    WHEN 'resolve' THEN '["uncertain"]' END;
BEGIN
  IF allowed IS NULL THEN
    RAISE EXCEPTION 'there is no bulk order "%"', bulk_draft.kind USING ERRCODE = '22023';
  ELSIF jsonb_typeof(chosen) IS DISTINCT FROM 'object' OR jsonb_typeof(chosen -> 'states') IS DISTINCT FROM 'array'
      OR jsonb_array_length(chosen -> 'states') = 0 OR NOT chosen -> 'states' <@ allowed THEN
    RAISE EXCEPTION 'the states of keys to % are of %', bulk_draft.kind, allowed USING ERRCODE = '22023';
  ELSIF EXISTS (SELECT FROM jsonb_each(chosen) c WHERE c.key <> 'states' AND (jsonb_typeof(c.value) <> 'string'
      OR c.key NOT IN ('error', 'target', 'tenant', 'effect', 'topic', 'key_prefix', 'older_than'))) THEN
    RAISE EXCEPTION 'keys are not selected by that' USING ERRCODE = '22023';
  ELSIF (bulk_draft.kind = 'resolve') <> coalesce(jsonb_typeof(bulk_draft.params -> 'happened') = 'boolean', false) THEN
    RAISE EXCEPTION 'a resolve, and nothing else, says whether it happened' USING ERRCODE = '22023';
  END IF;
  PERFORM (chosen ->> 'older_than')::interval;
  PERFORM set_config('synchronous_commit', 'on', true);
  INSERT INTO counterfoil.operation (operation, kind, params, reason, claims)
    VALUES (bulk_draft.operation, bulk_draft.kind, bulk_draft.params, nullif(bulk_draft.reason, ''),
      coalesce(bulk_draft.claims, '{}'))
    ON CONFLICT (operation) DO NOTHING;
  SELECT * INTO STRICT o FROM counterfoil.operation x WHERE x.operation = bulk_draft.operation;
  IF (o.kind, o.params) IS DISTINCT FROM (bulk_draft.kind, bulk_draft.params) THEN
    RAISE EXCEPTION 'operation % was about something else', bulk_draft.operation USING ERRCODE = '23505';
  END IF;
  RETURN o.id;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.bulk_draft FROM PUBLIC;

-- Looks at that many further keys and adds those that were selected: keys that were in such a state
-- when the draft was made. Where it is stands in `cursor`, so that it is called until it says that it
-- has finished. `closed` counts uncertain keys that are left out of a replay, which could do again what
-- was done already: their provider has forgotten them, or will within a tenth of the time that it
-- knows them, or keeps no keys at all.
--
-- The statement is put together from a closed list of clauses, with the state as a literal, so that
-- the planner sees the partial index that has the keys of this state in their order.
CREATE FUNCTION counterfoil.bulk_fill(operation uuid, rows bigint,
   OUT total bigint, OUT closed bigint, OUT finished boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $f$
#variable_conflict use_column
DECLARE
  o counterfoil.operation;
  chosen jsonb;
  at jsonb;       -- n: which of the states; the rest: behind which key of it
  state text;
  due boolean;    -- walked in the order of being due: there is no other of pending keys
  about text;     -- what stands in effect only
  sql text;
  looked bigint;
  added bigint;
BEGIN
  PERFORM set_config('synchronous_commit', 'on', true);
  SELECT * INTO o FROM counterfoil.operation x WHERE x.operation = bulk_fill.operation FOR UPDATE;
  at := coalesce(o.cursor, '{"n": 0, "closed": 0}')::jsonb;
  chosen := o.params -> 'select';
  state := chosen -> 'states' ->> (at ->> 'n')::int;
  bulk_fill.total := coalesce(o.total, 0);
  bulk_fill.closed := (at ->> 'closed')::bigint;
  bulk_fill.finished := o.state IS DISTINCT FROM 'draft' OR state IS NULL;
  IF bulk_fill.finished THEN RETURN; END IF;
  due := state = 'pending';
  about := concat(CASE WHEN chosen ? 'effect' THEN ' AND e.effect = $1 ->> ''effect''' END,
    CASE WHEN chosen ? 'topic' THEN ' AND e.topic = $1 ->> ''topic''' END,
    CASE WHEN chosen ? 'key_prefix' THEN ' AND starts_with(e.idempotency_key, $1 ->> ''key_prefix'')' END);
  sql := concat(
    'WITH page AS MATERIALIZED (SELECT s.id, s.epoch, s.state, s.target, s.tenant, s.error_class,',
    '    s.first_sent_at, s.window_until, s.due_at, s.state_since, s.unknown_before',
    '  FROM counterfoil.effect_state s WHERE ', CASE WHEN due THEN
    's.state IN (''pending'', ''retry_wait'') AND NOT s.waiting AND (s.target, s.tenant, s.due_at, s.id) > '
    '(coalesce($2 ->> ''target'', ''''), coalesce($2 ->> ''tenant'', ''''), '
    'coalesce(($2 ->> ''time'')::timestamptz, ''-infinity''), coalesce(($2 ->> ''id'')::bigint, 0)) '
    'ORDER BY s.target, s.tenant, s.due_at, s.id LIMIT $4),'
    ELSE format('s.state = %L AND (s.state_since, s.id) > '
    '(coalesce(($2 ->> ''time'')::timestamptz, ''-infinity''), coalesce(($2 ->> ''id'')::bigint, 0)) '
    'AND s.state_since <= $3', state)
    || CASE WHEN chosen ? 'error' THEN ' AND s.error_class = $1 ->> ''error''' ELSE '' END
    || ' ORDER BY s.state_since, s.id LIMIT $4),' END,
    ' fit AS MATERIALIZED (SELECT p.*, ', CASE WHEN state = 'uncertain'
    THEN 'p.unknown_before = 0 AND coalesce(p.window_until - (p.window_until - p.first_sent_at) / 10 > now(), (SELECT e.mode <> ''at_most_once'' '
    'OR e.resend FROM counterfoil.effect e WHERE e.id = p.id), false)'
    ELSE 'NULL::boolean' END, ' AS open FROM page p',
    CASE WHEN about <> '' THEN ', LATERAL (SELECT FROM counterfoil.effect e WHERE e.id = p.id' || about || ' OFFSET 0) e' END,
    ' WHERE p.state_since <= $3',
    CASE WHEN due THEN ' AND p.state = ''pending''' END,
    CASE WHEN state IN ('pending', 'retry_wait') THEN ' AND p.due_at > now()' END,
    CASE WHEN due AND chosen ? 'error' THEN ' AND p.error_class = $1 ->> ''error''' END,
    CASE WHEN chosen ? 'target' THEN ' AND p.target = $1 ->> ''target''' END,
    CASE WHEN chosen ? 'tenant' THEN ' AND p.tenant = $1 ->> ''tenant''' END, '),',
    ' item AS (INSERT INTO counterfoil.operation_item (operation_id, effect_id, epoch, state, target,',
    '    error_class, window_open)',
    '  SELECT $5, f.id, f.epoch, f.state, f.target, f.error_class, f.open FROM fit f',
    CASE o.kind WHEN 'replay' THEN ' WHERE f.open IS DISTINCT FROM false' END,
    '  ON CONFLICT DO NOTHING RETURNING effect_id)',
    ' SELECT (SELECT count(*) FROM page), (SELECT count(*) FROM item), jsonb_build_object(''n'', $2 -> ''n'',',
    '  ''closed'', ($2 ->> ''closed'')::bigint + (SELECT count(*) FROM fit WHERE NOT open AND $6)) || coalesce((SELECT',
    CASE WHEN due THEN ' jsonb_build_object(''target'', target, ''tenant'', tenant, ''time'', due_at, ''id'', id)'
    ' FROM page ORDER BY target DESC, tenant DESC, due_at DESC, id DESC LIMIT 1'
    ELSE ' jsonb_build_object(''time'', state_since, ''id'', id) FROM page ORDER BY state_since DESC, id DESC LIMIT 1'
    END, '), ''{}'')');
  EXECUTE sql INTO looked, added, at USING chosen, at,
    o.created_at - coalesce((chosen ->> 'older_than')::interval, '0'), bulk_fill.rows, o.id,
    o.kind = 'replay';
  IF looked < bulk_fill.rows THEN  -- this state's are all there
    at := jsonb_build_object('n', (at ->> 'n')::int + 1, 'closed', at -> 'closed');
  END IF;
  bulk_fill.total := o.total + added;
  bulk_fill.closed := (at ->> 'closed')::bigint;
  bulk_fill.finished := (at ->> 'n')::int = jsonb_array_length(chosen -> 'states');
  IF bulk_fill.total > 1000000 THEN
    RAISE EXCEPTION 'more than 1,000,000 keys: select less at a time' USING ERRCODE = '54000';
  END IF;
  UPDATE counterfoil.operation x SET total = bulk_fill.total, cursor = at::text WHERE x.id = o.id;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.bulk_fill FROM PUBLIC;

-- What the selection is made of. Whether the window of an uncertain key is open: NULL of any other.
CREATE FUNCTION counterfoil.bulk_figures(operation uuid)
RETURNS TABLE (state text, target text, error_class text, window_open boolean, keys bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $f$
  SELECT i.state::text, i.target, i.error_class, i.window_open, count(*)
  FROM counterfoil.operation_item i
  WHERE i.operation_id = (SELECT o.id FROM counterfoil.operation o WHERE o.operation = $1)
  GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4
$f$;
REVOKE ALL ON FUNCTION counterfoil.bulk_figures FROM PUBLIC;

-- The draft becomes an order, if it has as many keys as the operator was shown. result: done; changed
-- (another count: nothing is done); refused; missing. The same operation asked for again gets its
-- first answer.
CREATE FUNCTION counterfoil.bulk_queue(operation uuid, expected bigint, rate double precision,
   canary boolean, stop_after bigint, OUT result text, OUT detail text, OUT id bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
#variable_conflict use_column
DECLARE
  o counterfoil.operation;
BEGIN
  PERFORM set_config('synchronous_commit', 'on', true);
  SELECT * INTO o FROM counterfoil.operation x WHERE x.operation = bulk_queue.operation FOR UPDATE;
  bulk_queue.id := o.id;
  SELECT a.result, a.detail INTO bulk_queue.result, bulk_queue.detail
  FROM counterfoil.audit a WHERE a.operation = bulk_queue.operation;
  IF FOUND THEN RETURN; END IF;
  CASE
    WHEN o.id IS NULL THEN
      bulk_queue.result := 'missing';
      bulk_queue.detail := 'there is no such draft';
    WHEN o.state <> 'draft' THEN
      bulk_queue.result := 'refused';
      bulk_queue.detail := format('it is %s', o.state);
    WHEN o.created_at < clock_timestamp() - interval '1 hour' THEN
      bulk_queue.result := 'refused';
      bulk_queue.detail := 'its keys were selected more than an hour ago: select them anew';
    WHEN (coalesce(o.cursor, '{"n": 0}')::jsonb ->> 'n')::int < jsonb_array_length(o.params #> '{select,states}') THEN
      bulk_queue.result := 'refused';
      bulk_queue.detail := 'its keys are not all selected yet';
    WHEN o.total = 0 THEN
      bulk_queue.result := 'missing';
      bulk_queue.detail := 'there are no such keys';
    WHEN o.total IS DISTINCT FROM bulk_queue.expected THEN
      bulk_queue.result := 'changed';
      bulk_queue.detail := format('%s keys, and not the %s expected', o.total, bulk_queue.expected);
    WHEN bulk_queue.rate <= 0 OR bulk_queue.stop_after < 1 THEN
      RAISE EXCEPTION 'rate and stop_after are above zero, or NULL' USING ERRCODE = '22023';
    ELSE
      bulk_queue.result := 'done';
      bulk_queue.detail := format('%s keys', o.total);
  END CASE;
  IF bulk_queue.result <> 'done' THEN RETURN; END IF;
  UPDATE counterfoil.operation x SET state = 'queued', cursor = NULL, rate = bulk_queue.rate,
    canary = coalesce(bulk_queue.canary, false), stop_after = bulk_queue.stop_after
  WHERE x.id = o.id RETURNING x.* INTO o;
  INSERT INTO counterfoil.audit (operation, claims, action, about, result, detail, reason, before, after)
  VALUES (o.operation, o.claims, 'bulk ' || o.kind, 'operation ' || o.id, bulk_queue.result,
    bulk_queue.detail, o.reason, '{}', to_jsonb(o));
END $f$;
REVOKE ALL ON FUNCTION counterfoil.bulk_queue FROM PUBLIC;

-- --- conflicts: seen and settled --------------------------------------------------------------------------

-- Of the request that came second there are digests only (SHA-256), to tell which part of it differs:
-- what is erased with a key must not stay here. Headers: without the trace. method NULL: it could not be
-- rendered. letter: the event id of its dead letter.
ALTER TABLE counterfoil.conflict
  ADD COLUMN id           bigint GENERATED ALWAYS AS IDENTITY,
  ADD COLUMN method       text,
  ADD COLUMN url_hash     bytea,
  ADD COLUMN headers_hash bytea,
  ADD COLUMN body_hash    bytea,
  ADD COLUMN letter       uuid,
  ADD COLUMN settled_at   timestamptz,     -- NULL: open
  ADD COLUMN settled_by   text,
  ADD COLUMN note         text;            -- what was decided
CREATE UNIQUE INDEX conflict_id ON counterfoil.conflict (id);
CREATE INDEX conflict_open ON counterfoil.conflict (id) WHERE settled_at IS NULL;
CREATE INDEX conflict_topic ON counterfoil.conflict (topic, id) WHERE settled_at IS NULL;
CREATE INDEX conflict_settled ON counterfoil.conflict (settled_at) WHERE settled_at IS NOT NULL;

-- A person has looked, and the first stands: they are open no longer. Nothing is sent, and the key is
-- as it was. The same operation asked for again gets its first answer. Of rows that were settled
-- meanwhile it says so.
CREATE FUNCTION counterfoil.settle_conflicts(ids bigint[], operation uuid, reason text, claims jsonb,
   dry_run boolean DEFAULT false)
RETURNS TABLE (id bigint, result text, detail text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
#variable_conflict use_column
DECLARE
  a counterfoil.audit;
  open bigint[];
  topics text;
BEGIN
  IF nullif(settle_conflicts.reason, '') IS NULL AND NOT settle_conflicts.dry_run THEN
    RAISE EXCEPTION 'a reason must be given' USING ERRCODE = '22023';
  END IF;
  IF NOT settle_conflicts.dry_run THEN
    PERFORM set_config('synchronous_commit', 'on', true);
    PERFORM FROM counterfoil.conflict c WHERE c.id = ANY (settle_conflicts.ids) ORDER BY c.id FOR UPDATE;
    -- behind the lock: whoever asked first has committed
    SELECT * INTO a FROM counterfoil.audit x WHERE x.operation = settle_conflicts.operation;
    IF FOUND AND a.action <> 'settle conflicts' THEN
      RAISE EXCEPTION 'operation % was about something else', settle_conflicts.operation
        USING ERRCODE = '23505';
    ELSIF FOUND THEN
      SELECT array_agg(i::bigint) INTO open FROM jsonb_array_elements_text(a.after -> 'ids') i;
    END IF;
  END IF;
  IF a.id IS NULL THEN
    SELECT array_agg(c.id ORDER BY c.id), string_agg(DISTINCT c.topic, ', ') INTO open, topics
      FROM counterfoil.conflict c WHERE c.id = ANY (settle_conflicts.ids) AND c.settled_at IS NULL;
  END IF;
  IF open IS NOT NULL AND a.id IS NULL AND NOT settle_conflicts.dry_run THEN
    UPDATE counterfoil.conflict c SET settled_at = now(), settled_by = session_user,
      note = settle_conflicts.reason WHERE c.id = ANY (open);
    INSERT INTO counterfoil.audit (operation, claims, action, result, detail, reason, about, after)
    VALUES (settle_conflicts.operation, coalesce(settle_conflicts.claims, '{}'), 'settle conflicts', 'done',
      cardinality(open) || ' settled: the first stands', settle_conflicts.reason, 'conflicts of ' || topics,
      jsonb_build_object('ids', to_jsonb(open)));
  END IF;
  RETURN QUERY SELECT n.id,
      CASE WHEN c.id IS NULL THEN 'missing' WHEN n.id = ANY (open) THEN 'done' ELSE 'already' END,
      CASE WHEN c.id IS NULL THEN 'there is no such conflict'
        WHEN n.id = ANY (open) THEN 'settled: the first stands'
        ELSE format('was settled before, by %s: %s', c.settled_by, c.note) END
    FROM (SELECT DISTINCT unnest(settle_conflicts.ids) AS id) n
    LEFT JOIN LATERAL (SELECT x.id, x.settled_by, x.note FROM counterfoil.conflict x
      WHERE x.id = n.id OFFSET 0) c ON true ORDER BY 1;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.settle_conflicts FROM PUBLIC;

-- --- orders of any kind: pause, resume, cancel ----------------------------------------------------------

-- What is carried out is given up by its ledger, which can write nothing of it any more; what was
-- done stands. result: done; already; refused; missing.
CREATE FUNCTION counterfoil.operation_order(id bigint, action text, operation uuid, reason text, claims jsonb,
   OUT result text, OUT detail text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
#variable_conflict use_column
DECLARE
  o counterfoil.operation;
  n counterfoil.operation;
  a counterfoil.audit;
  becomes text := CASE operation_order.action WHEN 'pause' THEN 'paused' WHEN 'resume' THEN 'queued'
    WHEN 'cancel' THEN 'cancelled' END;
BEGIN
  IF becomes IS NULL THEN
    RAISE EXCEPTION 'an operation cannot be told to "%"', operation_order.action USING ERRCODE = '22023';
  END IF;
  PERFORM set_config('synchronous_commit', 'on', true);
  SELECT * INTO o FROM counterfoil.operation x WHERE x.id = operation_order.id FOR UPDATE;
  IF NOT FOUND THEN
    operation_order.result := 'missing';
    operation_order.detail := 'there is no such operation';
    RETURN;
  END IF;
  SELECT * INTO a FROM counterfoil.audit x WHERE x.operation = operation_order.operation;
  IF FOUND THEN
    IF (a.about, a.action) IS DISTINCT FROM ('operation ' || o.id, operation_order.action) THEN
      RAISE EXCEPTION 'operation % was about something else', operation_order.operation USING ERRCODE = '23505';
    END IF;
    operation_order.result := a.result;
    operation_order.detail := a.detail;
    RETURN;
  END IF;
  IF o.state = becomes OR (o.state = 'running' AND becomes = 'queued') THEN
    operation_order.result := 'already';
    operation_order.detail := format('it is %s', o.state);
  ELSIF o.state IN ('queued', 'running') OR (o.state = 'paused' AND becomes <> 'paused')
      OR (o.state = 'draft' AND becomes = 'cancelled') THEN
    operation_order.result := 'done';
    operation_order.detail := format('%s -> %s', o.state, becomes);
    UPDATE counterfoil.operation x SET state = becomes, owner = NULL, until = NULL,
      ended_at = CASE becomes WHEN 'cancelled' THEN clock_timestamp() END
    WHERE x.id = o.id RETURNING x.* INTO n;
  ELSE
    operation_order.result := 'refused';
    operation_order.detail := format('it is %s', o.state);
  END IF;
  INSERT INTO counterfoil.audit (operation, claims, action, about, result, detail, reason, before, after)
  VALUES (operation_order.operation, coalesce(operation_order.claims, '{}'), operation_order.action,
    'operation ' || o.id, operation_order.result, operation_order.detail, nullif(operation_order.reason, ''),
    to_jsonb(o), CASE operation_order.result WHEN 'done' THEN to_jsonb(n) END);
END $f$;
REVOKE ALL ON FUNCTION counterfoil.operation_order FROM PUBLIC;
