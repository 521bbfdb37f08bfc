-- oldest program: 2
-- What the ledger needs to tell an event from another one at the same place: a topic that is deleted
-- and made anew uses its offsets again.

ALTER TABLE counterfoil.conflict DROP CONSTRAINT conflict_pkey,
  ADD PRIMARY KEY (topic, partition, "offset", effect, event_id);

-- --- expiry -----------------------------------------------------------------------------------------

-- One row: whoever owns it walks over the finished keys, from cursor on, until the next rest.
CREATE TABLE counterfoil.expiry (
  one     boolean PRIMARY KEY DEFAULT true CHECK (one),
  cursor  bigint NOT NULL DEFAULT 0,
  owner   bigint NOT NULL DEFAULT 0,         -- a random number of the process
  until   timestamptz NOT NULL DEFAULT clock_timestamp(),
  next_at timestamptz NOT NULL DEFAULT clock_timestamp());
INSERT INTO counterfoil.expiry DEFAULT VALUES;

CREATE INDEX poison_settled ON counterfoil.poison (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX unmatched_minute ON counterfoil.unmatched (minute);

-- The only way to delete from the audit: the oldest rows first, none younger than a day. Ids rise
-- with time. Returns how many went.
CREATE FUNCTION counterfoil.forget_audit(keep interval, rows bigint) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
  WITH gone AS (DELETE FROM counterfoil.audit a USING (
      SELECT o.id FROM (SELECT x.id, x.at FROM counterfoil.audit x ORDER BY x.id LIMIT $2) o
      WHERE o.at < clock_timestamp() - greatest($1, interval '1 day')) d
    WHERE a.id = d.id RETURNING a.id)
  SELECT count(*) FROM gone
$f$;
REVOKE ALL ON FUNCTION counterfoil.forget_audit FROM PUBLIC;

-- --- modes ------------------------------------------------------------------------------------------

-- Of an effect of mode at_most_once: a second time is fine, so what is not known to have happened is
-- sent again (on_uncertain).
ALTER TABLE counterfoil.effect ADD COLUMN resend boolean NOT NULL DEFAULT false;

-- --- what follows from a completion -----------------------------------------------------------------

-- A person signed for it: its event is still to be emitted, by a ledger.
ALTER TABLE counterfoil.effect_state ADD COLUMN emit_due boolean NOT NULL DEFAULT false;
CREATE INDEX effect_state_emit ON counterfoil.effect_state (id) WHERE emit_due;

-- --- times --------------------------------------------------------------------------------------------

-- A time in a verdict's words.
CREATE FUNCTION counterfoil.in_words(at timestamptz)
RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')
$f$;
REVOKE ALL ON FUNCTION counterfoil.in_words FROM PUBLIC;

-- --- kill switches ------------------------------------------------------------------------------------

-- What may not be claimed until somebody resumes it. (A target is held in target_state.)
CREATE TABLE counterfoil.pause (
  scope  text COLLATE "C" NOT NULL CHECK (scope IN ('everything', 'effect', 'tenant')),
  name   text COLLATE "C" NOT NULL DEFAULT '',  -- of the effect or the tenant
  who    text NOT NULL DEFAULT session_user,
  reason text,
  since  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (scope, name));

-- The paused effect for which a claim has put the key aside: it is `waiting`, outside of the due
-- index, so that nobody walks it again and again. The sweep takes it back once the effect is resumed.
ALTER TABLE counterfoil.effect_state ADD COLUMN aside text COLLATE "C";
CREATE INDEX effect_state_aside ON counterfoil.effect_state (aside, due_at, id) WHERE aside IS NOT NULL;
-- Keys that wait, put aside or behind another of their serial key, in the order of effect_state_due:
-- for whoever looks for them. (With the state, so that no statement of the ledger is tempted by it.)
CREATE INDEX effect_state_waiting ON counterfoil.effect_state (target, tenant, due_at, id)
  WHERE state IN ('pending', 'retry_wait') AND waiting;

-- Taken over twice, and without an answer since: it may be what ends its ledgers, and runs alone.
CREATE INDEX effect_state_alone ON counterfoil.effect_state (target, due_at, id)
  WHERE takeovers >= 2 AND outcome = 'lost' AND state IN ('pending', 'retry_wait') AND NOT waiting;

-- Pauses, or resumes, one thing. The same operation asked for again gets its first answer. A dry run
-- needs no operation and writes nothing.
CREATE FUNCTION counterfoil.pause(action text, scope text, name text, operation uuid, reason text,
   claims jsonb, dry_run boolean DEFAULT false)
RETURNS counterfoil.verdict
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
#variable_conflict use_column
DECLARE
  what text := pause.scope || CASE WHEN pause.name = '' AND pause.scope = 'everything' THEN ''
    ELSE ' ' || pause.name END;
  a counterfoil.audit;
  p counterfoil.pause;
  v counterfoil.verdict := ('done', pause.action, '', NULL, NULL);
  paused boolean;
BEGIN
  IF pause.action NOT IN ('pause', 'resume') OR pause.scope NOT IN ('everything', 'effect', 'tenant')
    OR (pause.scope = 'everything') <> (pause.name = '') AND pause.scope <> 'tenant' THEN
    RAISE EXCEPTION 'pause or resume what?' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF NOT pause.dry_run THEN
    PERFORM set_config('synchronous_commit', 'on', true);
    -- the pauses are few: orders about them come one after the other
    LOCK TABLE counterfoil.pause IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO a FROM counterfoil.audit x WHERE x.operation = pause.operation;
    IF FOUND THEN
      IF (a.action, a.about) IS DISTINCT FROM (pause.action, what) THEN
        RAISE EXCEPTION 'operation % was about something else', pause.operation USING ERRCODE = '23505';
      END IF;
      RETURN (a.result, a.action, a.detail, NULL, NULL)::counterfoil.verdict;
    END IF;
  END IF;
  SELECT * INTO p FROM counterfoil.pause x WHERE x.scope = pause.scope AND x.name = pause.name;
  paused := FOUND;
  IF paused = (pause.action = 'pause') THEN
    v.result := 'already';
    v.detail := CASE WHEN paused THEN format('it has been paused since %s, by %s', counterfoil.in_words(p.since), p.who)
      ELSE 'it is not paused' END;
  ELSIF paused THEN
    v.detail := 'its keys are sent again';
  ELSE
    v.detail := 'no key of it is sent; what is in flight ends';
  END IF;
  IF pause.dry_run THEN RETURN v; END IF;
  IF v.result = 'done' AND paused THEN
    DELETE FROM counterfoil.pause x WHERE x.scope = pause.scope AND x.name = pause.name;
  ELSIF v.result = 'done' THEN
    INSERT INTO counterfoil.pause (scope, name, reason)
    VALUES (pause.scope, pause.name, nullif(pause.reason, '')) RETURNING * INTO p;
  END IF;
  INSERT INTO counterfoil.audit (operation, claims, action, about, result, detail, reason, before, after)
  VALUES (pause.operation, coalesce(pause.claims, '{}'), pause.action, what, v.result, v.detail,
    nullif(pause.reason, ''), CASE WHEN paused THEN to_jsonb(p) END,
    CASE WHEN v.result = 'done' AND NOT paused THEN to_jsonb(p) END);
  RETURN v;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.pause FROM PUBLIC;

-- Holds a target, or releases it: nothing is sent to one that is held, until a person releases it.
-- `names` are those that one target has or had, first the one under which its keys are recorded: that
-- is held, and all are released. A release lifts whatever holds it back: a hold, its own or a
-- person's, an open breaker, a pause, that it is gone. A name that nobody has seen is refused, unless
-- the client knows it: a slip in an incident must not pass for a hold. The same operation asked for
-- again gets its first answer. A dry run needs no operation and writes nothing.
CREATE FUNCTION counterfoil.hold_target(action text, names text[], known boolean, operation uuid,
   reason text, claims jsonb, dry_run boolean DEFAULT false)
RETURNS counterfoil.verdict
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
#variable_conflict use_column
DECLARE
  what text := 'target ' || hold_target.names[1];
  -- 'system' is the ledgers' own word, and what it holds they may open again
  who text := CASE session_user WHEN 'system' THEN '"system"' ELSE session_user END
    || coalesce(' (' || (hold_target.claims ->> 'user') || ')', '');
  a counterfoil.audit;
  t counterfoil.target_state;
  v counterfoil.verdict := ('done', hold_target.action, '', NULL, NULL);
  lifted text;
  before jsonb;
BEGIN
  IF hold_target.action NOT IN ('hold', 'release') OR nullif(hold_target.names[1], '') IS NULL THEN
    RAISE EXCEPTION 'hold or release which target?' USING ERRCODE = '22023';
  END IF;
  IF NOT hold_target.dry_run THEN
    PERFORM set_config('synchronous_commit', 'on', true);
    -- a target that nothing was ever written of has no row to lock
    PERFORM pg_advisory_xact_lock(1129270862, hashtext(hold_target.names[1]));
    SELECT * INTO a FROM counterfoil.audit x WHERE x.operation = hold_target.operation;
    IF FOUND THEN
      IF (a.action, a.about) IS DISTINCT FROM (hold_target.action, what) THEN
        RAISE EXCEPTION 'operation % was about something else', hold_target.operation USING ERRCODE = '23505';
      END IF;
      RETURN (a.result, a.action, a.detail, NULL, NULL)::counterfoil.verdict;
    END IF;
    PERFORM FROM counterfoil.target_state x WHERE x.target = ANY (hold_target.names)
    ORDER BY x.target FOR UPDATE;
  END IF;
  SELECT jsonb_agg(to_jsonb(x) ORDER BY x.target), string_agg(y.lifted, ', ' ORDER BY x.target)
  INTO before, lifted
  FROM counterfoil.target_state x, LATERAL (SELECT nullif(concat_ws(', ',
      CASE WHEN x.held THEN format('held by %s: %s', x.held_by, coalesce(x.hold_reason, 'no reason was given')) END,
      CASE WHEN x.breaker_until IS NOT NULL THEN 'with its breaker open' END,
      CASE WHEN x.paused_until > now() THEN 'paused until ' || counterfoil.in_words(x.paused_until) END), '') AS lifted) y
  WHERE x.target = ANY (hold_target.names);
  SELECT * INTO t FROM counterfoil.target_state x
  WHERE x.target = ANY (hold_target.names) AND x.held AND x.held_by <> 'system' LIMIT 1;
  IF before IS NULL AND NOT hold_target.known AND NOT EXISTS (SELECT FROM counterfoil.effect_state s
      WHERE s.state IN ('pending', 'retry_wait') AND NOT s.waiting AND s.target = ANY (hold_target.names)) THEN
    v.result := 'missing';
    v.detail := 'no target of this name has been seen';
    RETURN v;
  ELSIF hold_target.action = 'hold' AND t.held THEN
    v.result := 'already';
    v.detail := format('%s has held it since %s: %s', t.held_by, counterfoil.in_words(t.held_since),
      coalesce(t.hold_reason, 'no reason was given'));
  ELSIF hold_target.action = 'hold' THEN
    v.detail := 'nothing is sent to it until it is released; what is in flight ends';
  ELSIF lifted IS NULL THEN
    v.result := 'already';
    v.detail := 'nothing holds it back';
  ELSE
    v.detail := 'its keys are sent again; it was ' || lifted;
  END IF;
  IF hold_target.dry_run THEN RETURN v; END IF;
  IF v.result = 'done' AND hold_target.action = 'hold' THEN
    INSERT INTO counterfoil.target_state AS x (target, held, hold_reason, held_by, held_since)
    VALUES (hold_target.names[1], true, nullif(hold_target.reason, ''), who, now())
    ON CONFLICT (target) DO UPDATE SET held = true, hold_reason = excluded.hold_reason,
      held_by = excluded.held_by, held_since = excluded.held_since, probe_at = NULL,
      changed_at = clock_timestamp();
  ELSIF v.result = 'done' THEN
    UPDATE counterfoil.target_state x SET held = false, hold_reason = NULL, held_by = NULL, held_since = NULL,
      probe_at = NULL, paused_until = NULL, breaker_until = NULL, changed_at = clock_timestamp()
    WHERE x.target = ANY (hold_target.names);
  END IF;
  INSERT INTO counterfoil.audit (operation, claims, action, about, result, detail, reason, before, after)
  VALUES (hold_target.operation, coalesce(hold_target.claims, '{}'), hold_target.action, what, v.result,
    v.detail, nullif(hold_target.reason, ''), before, CASE WHEN v.result = 'done' THEN
      (SELECT jsonb_agg(to_jsonb(x) ORDER BY x.target) FROM counterfoil.target_state x
       WHERE x.target = ANY (hold_target.names)) END);
  RETURN v;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.hold_target FROM PUBLIC;

-- --- what was decided when the event was taken in ---------------------------------------------------

-- Taken in while nothing was to be sent: it never is, whatever is configured later.
ALTER TABLE counterfoil.effect ADD COLUMN shadow boolean NOT NULL DEFAULT false;
-- What stands before the provider key in its header, as in 'Idempotency-Key: ', with a quote behind it
-- where the key is a quoted string; '': none is sent. A key that was sent in another header is another
-- key to its provider. NULL: as its target's profile says.
ALTER TABLE counterfoil.effect_request ADD COLUMN key_header text;

-- --- one effect of an event, once ---------------------------------------------------------------------

-- An event that comes again after its key template was changed must not become another effect. 0, or
-- a number made of its ce_source, where the event brings its own id; else a number of its own.
ALTER TABLE counterfoil.effect
  ADD COLUMN event_no bigint NOT NULL DEFAULT nextval('counterfoil.effect_id_seq');
DROP INDEX counterfoil.effect_event;
CREATE UNIQUE INDEX effect_event ON counterfoil.effect (event_id, effect, event_no);

-- --- positions ----------------------------------------------------------------------------------------

-- A topic that was not there when a ledger first asked for it: with ledger.start = "latest" it begins
-- with what is not older than that.
CREATE TABLE counterfoil.topic_awaited (
  topic text COLLATE "C" PRIMARY KEY,
  since timestamptz NOT NULL DEFAULT clock_timestamp());

-- From this offset on the keys of all events are in the ledger: what is before was never taken in, or
-- its keys have gone. No row: from the beginning.
CREATE TABLE counterfoil.reach (
  topic     text COLLATE "C",
  partition int,
  since     bigint NOT NULL,
  PRIMARY KEY (topic, partition));

-- --- poison -------------------------------------------------------------------------------------------

ALTER TABLE counterfoil.poison ADD COLUMN settlement text COLLATE "C"
  CHECK (settlement IN ('replayed', 'discarded', 'redelivered'));

-- Settles open poison without any effect. The same operation asked for again does nothing more. Of
-- rows that were settled meanwhile it says so: already discarded, or refused, for they were replayed.
CREATE FUNCTION counterfoil.discard_poison(ids bigint[], operation uuid, reason text, claims jsonb,
   dry_run boolean DEFAULT false)
RETURNS TABLE (id bigint, result text, detail text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
#variable_conflict use_column
DECLARE
  open bigint[];
  topics text;
BEGIN
  IF nullif(discard_poison.reason, '') IS NULL AND NOT discard_poison.dry_run THEN
    RAISE EXCEPTION 'a reason must be given' USING ERRCODE = '22023';
  END IF;
  IF EXISTS (SELECT FROM counterfoil.audit a WHERE a.operation = discard_poison.operation) THEN
    RETURN QUERY SELECT p.id, CASE WHEN p.settlement = 'discarded' THEN 'done' ELSE 'refused' END,
      coalesce(p.settlement, 'still open')
      FROM counterfoil.poison p WHERE p.id = ANY (discard_poison.ids) ORDER BY p.id;
    RETURN;
  END IF;
  IF NOT discard_poison.dry_run THEN
    PERFORM set_config('synchronous_commit', 'on', true);
    PERFORM FROM counterfoil.poison p WHERE p.id = ANY (discard_poison.ids) ORDER BY p.id FOR UPDATE;
  END IF;
  SELECT array_agg(p.id ORDER BY p.id), string_agg(DISTINCT p.topic, ', ') INTO open, topics
    FROM counterfoil.poison p WHERE p.id = ANY (discard_poison.ids) AND p.settled_at IS NULL;
  IF open IS NOT NULL AND NOT discard_poison.dry_run THEN
    UPDATE counterfoil.poison p SET settled_at = now(), settlement = 'discarded' WHERE p.id = ANY (open);
    INSERT INTO counterfoil.audit (operation, claims, action, result, detail, reason, about, after)
    VALUES (discard_poison.operation, coalesce(discard_poison.claims, '{}'), 'discard poison', 'done',
      cardinality(open) || ' settled without effect', discard_poison.reason, 'poison of ' || topics,
      jsonb_build_object('ids', to_jsonb(open)));
  END IF;
  RETURN QUERY SELECT n.id,
      CASE WHEN p.id IS NULL THEN 'missing' WHEN n.id = ANY (open) THEN 'done'
        WHEN p.settlement = 'discarded' THEN 'already' ELSE 'refused' END,
      CASE WHEN p.id IS NULL THEN 'there is no such poison'
        WHEN n.id = ANY (open) THEN 'settled without effect'
        ELSE 'was settled before: ' || coalesce(p.settlement, 'unknown how') END
    FROM (SELECT DISTINCT unnest(discard_poison.ids) AS id) n
    LEFT JOIN counterfoil.poison p ON p.id = n.id ORDER BY 1;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.discard_poison FROM PUBLIC;

-- --- orders to intake -----------------------------------------------------------------------------------

-- Queues an order that a ledger carries out: 'poison' (params: topic and upto, or ids), 'redeliver'
-- (topic; last, or from and to in ms; apply), 'rewind' (topic, to, force). Gives its number; the same
-- operation asked for again gives the same.
CREATE FUNCTION counterfoil.order_intake(kind text, params jsonb, operation uuid, reason text, claims jsonb)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
#variable_conflict use_column
DECLARE
  number bigint;
BEGIN
  IF order_intake.kind NOT IN ('poison', 'redeliver', 'rewind') THEN
    RAISE EXCEPTION 'there is no order to intake of kind %', order_intake.kind USING ERRCODE = '22023';
  END IF;
  IF nullif(order_intake.reason, '') IS NULL THEN
    RAISE EXCEPTION 'a reason must be given' USING ERRCODE = '22023';
  END IF;
  PERFORM set_config('synchronous_commit', 'on', true);
  INSERT INTO counterfoil.operation (operation, kind, state, params, reason, claims)
  VALUES (order_intake.operation, order_intake.kind, 'queued', order_intake.params, order_intake.reason,
    coalesce(order_intake.claims, '{}'))
  ON CONFLICT (operation) DO NOTHING RETURNING id INTO number;
  IF number IS NULL THEN
    RETURN (SELECT o.id FROM counterfoil.operation o WHERE o.operation = order_intake.operation);
  END IF;
  INSERT INTO counterfoil.audit (operation, claims, action, result, detail, reason, about, after)
  VALUES (order_intake.operation, coalesce(order_intake.claims, '{}'), order_intake.kind, 'done', 'queued',
    order_intake.reason, 'operation ' || number, order_intake.params);
  RETURN number;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.order_intake FROM PUBLIC;
