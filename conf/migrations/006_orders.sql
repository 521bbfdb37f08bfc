-- oldest program: 2
-- What an operator may order of one key, beyond a replay: a new provider key, a decision about what
-- is uncertain, a cancel, a note, an early take-over, the erasure of what is personal.

-- What of a key's last answer is known to be stored at its provider: the same key only brings it back,
-- until its window is over.
ALTER TABLE counterfoil.effect_state ADD COLUMN stored boolean NOT NULL DEFAULT false;

-- --- audit ------------------------------------------------------------------------------------------

-- Some orders change nothing that stood there before.
ALTER TABLE counterfoil.audit ALTER COLUMN before DROP NOT NULL;

-- --- keys of a key ------------------------------------------------------------------------------------

-- The greatest N of the provider keys base~rN that were ever given out, to the key itself and to what
-- was made of it by force. It outlives them all: a provider may know any of them.
CREATE TABLE counterfoil.key_number (
  target       text COLLATE "C",
  provider_key text COLLATE "C",
  last         int NOT NULL DEFAULT 1 CHECK (last < 1000000), -- eight characters are kept free for ~rN
  PRIMARY KEY (target, provider_key));

-- What a completed key was replayed as, by force: the key that it is made of, the first of them all.
ALTER TABLE counterfoil.effect ADD COLUMN replay_of bigint;
CREATE INDEX effect_replay_of ON counterfoil.effect (replay_of) WHERE replay_of IS NOT NULL;

-- An id that a person gave to a key that was uncertain is found like one that came with an answer.
CREATE INDEX effect_state_signed ON counterfoil.effect_state (provider_id)
  WHERE resolution IS NOT NULL AND provider_id IS NOT NULL;

-- --- what all orders have in common --------------------------------------------------------------------
--
-- hold_key, first_answer, moved, judge_..., the change, keep_order: whoever gives an order goes this
-- way. Nothing of it is granted to anybody.

DROP FUNCTION counterfoil.replay(bigint, int, text, uuid, text, jsonb, boolean);
DROP FUNCTION counterfoil.judge_replay(counterfoil.effect_state);

-- The key as it is, and for whoever writes as it stays until he has. id NULL: there is none.
CREATE FUNCTION counterfoil.hold_key(effect_id bigint, writes boolean)
RETURNS counterfoil.effect_state
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  s counterfoil.effect_state;
BEGIN
  IF hold_key.writes THEN
    PERFORM set_config('synchronous_commit', 'on', true);
    SELECT * INTO s FROM counterfoil.effect_state x WHERE x.id = hold_key.effect_id FOR UPDATE;
  ELSE
    SELECT * INTO s FROM counterfoil.effect_state x WHERE x.id = hold_key.effect_id;
  END IF;
  RETURN s;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.hold_key FROM PUBLIC;

-- What was answered to this operation before, or that there is no such key; else NULL. Behind the
-- lock, so that whoever asked first has committed.
CREATE FUNCTION counterfoil.first_answer(s counterfoil.effect_state, action text, effect_id bigint,
   operation uuid)
RETURNS counterfoil.verdict
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
#variable_conflict use_column
DECLARE
  a counterfoil.audit;
BEGIN
  IF s.id IS NULL THEN
    RETURN ('missing', first_answer.action, 'there is no such key', NULL, NULL)::counterfoil.verdict;
  END IF;
  SELECT * INTO a FROM counterfoil.audit x WHERE x.operation = first_answer.operation;
  IF NOT FOUND THEN RETURN NULL; END IF;
  IF a.effect_id IS DISTINCT FROM first_answer.effect_id THEN
    RAISE EXCEPTION 'operation % was about another key', first_answer.operation
      USING ERRCODE = '23505';
  END IF;
  RETURN (a.result, a.action, a.detail, a.from_state, a.to_state)::counterfoil.verdict;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.first_answer FROM PUBLIC;

-- Whether the key is no longer as it was shown to whoever gives the order; NULL: it still is. Of what is
-- completed the epoch rises with a forced replay only.
CREATE FUNCTION counterfoil.moved(s counterfoil.effect_state, action text, expected_epoch int,
   expected_state text)
RETURNS counterfoil.verdict
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT ('changed', action, CASE WHEN (s.state::text, expected_state) = ('completed', 'completed')
      THEN 'it was replayed by force since'
      WHEN s.state::text = expected_state
      THEN 'it has moved since, and is ' || replace(s.state::text, '_', ' ') || ' again'
      ELSE 'it is ' || replace(s.state::text, '_', ' ') || ' by now' END,
    s.state, s.state)::counterfoil.verdict
  WHERE (s.epoch, s.state::text) IS DISTINCT FROM (expected_epoch, expected_state)
$f$;
REVOKE ALL ON FUNCTION counterfoil.moved FROM PUBLIC;

-- The audit of an order. n is the row as it is now; a serial key may be personal, and is left out.
CREATE FUNCTION counterfoil.keep_order(s counterfoil.effect_state, n counterfoil.effect_state,
   v counterfoil.verdict, operation uuid, reason text, claims jsonb)
RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $f$
  INSERT INTO counterfoil.audit (operation, claims, action, effect_id, idempotency_key, target,
    tenant, result, detail, reason, from_state, to_state, before, after)
  SELECT operation, coalesce(claims, '{}'), v.action, e.id, e.idempotency_key, e.target, e.tenant,
    v.result, v.detail, nullif(reason, ''), v.from_state, v.to_state, to_jsonb(s) - 'serial_key',
    CASE WHEN n.id IS NOT NULL THEN to_jsonb(n) - 'serial_key' END
  FROM counterfoil.effect e WHERE e.id = s.id
$f$;
REVOKE ALL ON FUNCTION counterfoil.keep_order FROM PUBLIC;

-- A key that is out of the way frees the next of its serial key. What is locked is not waited for: the
-- ledger's sweep frees it.
CREATE FUNCTION counterfoil.free_follower(s counterfoil.effect_state)
RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $f$
  UPDATE counterfoil.effect_state f SET waiting = false
  FROM (SELECT l.id FROM counterfoil.effect_state l WHERE l.waiting AND l.id = (
      SELECT q.id FROM counterfoil.effect_state q WHERE q.target = s.target
        AND q.tenant = s.tenant AND q.serial_key = s.serial_key AND q.serial_key IS NOT NULL
        AND q.state IN ('pending', 'retry_wait', 'in_flight', 'uncertain') AND q.id <> s.id
      ORDER BY q.id LIMIT 1) FOR UPDATE SKIP LOCKED) h
  WHERE f.id = h.id
$f$;
REVOKE ALL ON FUNCTION counterfoil.free_follower FROM PUBLIC;

-- Its owner's lease has run out, or its own deadline: as the ledger sees it.
CREATE FUNCTION counterfoil.is_stale(s counterfoil.effect_state)
RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT s.state = 'in_flight' AND (s.deadline < now() OR NOT EXISTS (
    SELECT FROM counterfoil.instance i
    WHERE i.id = s.owner AND i.program = 'ledger' AND i.until > now()))
$f$;
REVOKE ALL ON FUNCTION counterfoil.is_stale FROM PUBLIC;

-- --- replay -------------------------------------------------------------------------------------------

-- Whether the same key may be sent again by a person's order, of a key that is dead or uncertain.
CREATE FUNCTION counterfoil.judge_same_key(s counterfoil.effect_state, e counterfoil.effect)
RETURNS counterfoil.verdict
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  v counterfoil.verdict := ('refused', 'replay', '', s.state, s.state);
BEGIN
  IF s.state = 'dead' AND s.stored AND (s.window_until IS NULL OR s.window_until > now()) THEN
    v.detail := 'its provider has stored this error for the key, and would only repeat it'
      || coalesce(' until ' || counterfoil.in_words(s.window_until), '')
      || ': replay it with a new key';
    RETURN v;
  ELSIF s.state = 'uncertain' AND e.mode = 'at_most_once' AND NOT e.resend THEN
    v.detail := 'sent again it may happen twice: that is for a replay with a new key';
    RETURN v;
  ELSIF s.state = 'uncertain' AND s.unknown_before > 0 AND s.unknown_sends = 0 THEN
    v.detail := 'it may have happened under an earlier key, and not under this one: '
      || 'sent again it may happen twice, and that is for a replay with a new key';
    RETURN v;
  ELSIF s.state = 'uncertain' AND s.window_until <= now() THEN
    v.detail := 'its provider has forgotten the key since '
      || counterfoil.in_words(s.window_until) || ': it would execute again as if new';
    RETURN v;
  END IF;
  v.result := 'done';
  v.to_state := 'pending';
  v.detail := 'it runs again with the same key';
  IF s.state = 'uncertain' AND s.window_until IS NOT NULL THEN
    v.detail := v.detail || ', which its provider knows until '
      || counterfoil.in_words(s.window_until);
  END IF;
  IF s.unknown_before > 0 THEN
    v.detail := v.detail || '; it may have happened under an earlier key as well';
  END IF;
  IF s.state = 'dead' AND s.serial_key IS NOT NULL THEN
    v.detail := v.detail || '; younger ones of its serial key may have run since';
  END IF;
  RETURN v;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.judge_same_key FROM PUBLIC;

CREATE FUNCTION counterfoil.judge_new_key(s counterfoil.effect_state, e counterfoil.effect)
RETURNS counterfoil.verdict
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  v counterfoil.verdict := ('refused', 'new key', '', s.state, s.state);
BEGIN
  IF s.state IN ('pending', 'retry_wait') THEN
    v.detail := 'it is still to be sent: a new key is for what has ended';
  ELSIF e.shadow THEN
    v.detail := 'it is a shadow: nothing of it is ever sent';
  ELSIF s.state = 'completed' THEN
    v.result := 'done';
    v.action := 'force';
    v.detail := 'a new effect is made, with a key of its own: it happens a second time' || coalesce((
      SELECT '; it was replayed by force before, as ' || o.idempotency_key FROM counterfoil.effect o
      WHERE o.replay_of = coalesce(e.replay_of, e.id) AND o.id > e.id ORDER BY o.id DESC LIMIT 1), '');
  ELSIF e.mode = 'natural' THEN
    v.detail := 'its request is the same whatever the key: replay it as it is';
  ELSE
    v.result := 'done';
    v.to_state := 'pending';
    v.detail := 'it runs again with a new key' || CASE WHEN s.state = 'uncertain'
      THEN ': if it has happened, it happens twice' ELSE '' END;
  END IF;
  RETURN v;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.judge_new_key FROM PUBLIC;

-- Of what waits: at once.
CREATE FUNCTION counterfoil.judge_run_now(s counterfoil.effect_state)
RETURNS counterfoil.verdict
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  IF s.aside IS NOT NULL THEN
    RETURN ('refused', 'run now', 'effect ' || s.aside || ' is paused', s.state,
      s.state)::counterfoil.verdict;
  ELSIF s.waiting THEN
    RETURN ('refused', 'run now', 'it waits behind an older key of the same serial key', s.state,
      s.state)::counterfoil.verdict;
  ELSIF s.due_at <= now() THEN
    RETURN ('already', 'run now', 'it is due already', s.state, s.state)::counterfoil.verdict;
  END IF;
  RETURN ('done', 'run now', 'it is due now', s.state, s.state)::counterfoil.verdict;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.judge_run_now FROM PUBLIC;

-- The states that nothing is sent from; NULL: it is another.
CREATE FUNCTION counterfoil.judge_settled(s counterfoil.effect_state, new_key boolean)
RETURNS counterfoil.verdict
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  v counterfoil.verdict := ('refused', 'replay', NULL, s.state, s.state);
BEGIN
  IF s.state = 'in_flight' THEN
    v.detail := CASE WHEN counterfoil.is_stale(s)
      THEN 'its attempt is stale: take it over' ELSE 'an attempt is running' END;
  ELSIF s.state = 'cancelled' THEN
    v.detail := 'it was cancelled';
  ELSIF s.state = 'pruned' THEN
    v.detail := 'it finished long ago: only its key is kept';
  ELSIF s.state = 'completed' AND NOT new_key THEN
    v.result := 'already';
    v.detail := 'already completed'
      || coalesce(' at ' || counterfoil.in_words(s.completed_at), '')
      || CASE WHEN s.outcome = 'shadow' THEN ', as a shadow'
           WHEN s.resolution IS NOT NULL THEN ', as a person said'
           ELSE coalesce(', http ' || nullif(s.http_status, 0), '') END
      || coalesce(', the provider''s id is ' || s.provider_id, '') || ': nothing is sent again';
  ELSE
    RETURN NULL;
  END IF;
  RETURN v;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.judge_settled FROM PUBLIC;

-- What a replay would come to. Reads only.
CREATE FUNCTION counterfoil.judge_replay(s counterfoil.effect_state, new_key boolean)
RETURNS counterfoil.verdict
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  e counterfoil.effect;
  r counterfoil.effect_request;
  v counterfoil.verdict := counterfoil.judge_settled(s, new_key);
BEGIN
  IF v.result IS NOT NULL THEN RETURN v; END IF;
  SELECT * INTO e FROM counterfoil.effect x WHERE x.id = s.id;
  SELECT * INTO r FROM counterfoil.effect_request x WHERE x.id = s.id;
  v := CASE WHEN new_key THEN counterfoil.judge_new_key(s, e)
    WHEN s.state IN ('dead', 'uncertain') THEN counterfoil.judge_same_key(s, e)
    ELSE counterfoil.judge_run_now(s) END;
  IF v.result <> 'done' THEN RETURN v; END IF;
  IF r.id IS NULL THEN
    v.detail := 'its request is not kept any more: there is nothing to send';
  ELSIF r.method IS NULL THEN
    v.detail := 'its request was never rendered: there is nothing to send';
  ELSIF e.not_after <= now() AND s.state <> 'completed' THEN
    v.detail := 'its not_after has passed: it would be given up again';
  ELSE
    RETURN v;
  END IF;
  v.result := 'refused';
  v.to_state := s.state;
  RETURN v;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.judge_replay FROM PUBLIC;

-- The next N of a provider key. Whoever asks at the same time waits, and gets another.
CREATE FUNCTION counterfoil.next_key_number(target text, provider_key text)
RETURNS int
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $f$
  INSERT INTO counterfoil.key_number AS k (target, provider_key) VALUES (target, provider_key)
  ON CONFLICT ON CONSTRAINT key_number_pkey DO UPDATE SET last = k.last + 1 RETURNING last
$f$;
REVOKE ALL ON FUNCTION counterfoil.next_key_number FROM PUBLIC;

-- From dead or uncertain. The same key keeps its unknown sends and its window. A dead key has no send
-- unaccounted for, so that its provider's window may begin anew, but only once the provider has
-- forgotten the key for certain: the ledger knows the margin for that, this function waits for the
-- window twice over instead. A new key has a window of its own; what is unknown of the earlier ones
-- keeps it from ever being dead.
CREATE FUNCTION counterfoil.run_again(s counterfoil.effect_state, new_key boolean)
RETURNS counterfoil.effect_state
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  n counterfoil.effect_state := s;
  forgotten boolean := s.unknown_sends = 0
    AND coalesce(s.state_since + 2 * (s.window_until - s.first_sent_at) <= now(), false);
BEGIN
  IF new_key THEN
    SELECT counterfoil.next_key_number(e.target, e.provider_key) INTO n.key_no
      FROM counterfoil.effect e WHERE e.id = s.id;
    n.unknown_before := s.unknown_before + s.unknown_sends;
    n.unknown_sends := 0;
    n.sent_at := NULL;
  END IF;
  IF new_key OR forgotten THEN
    n.first_sent_at := NULL;
    n.window_until := NULL;
  END IF;
  UPDATE counterfoil.effect_state x SET state = 'pending', epoch = x.epoch + 1, attempts = 0,
    throttled = 0, stalled = 0, replays = x.replays + 1, due_at = now(), waiting = false,
    outcome = NULL, http_status = NULL, curl_code = NULL, error_class = '', state_since = now(),
    stored = false, resolution = NULL, emit_due = false, key_no = n.key_no, unknown_before = n.unknown_before,
    unknown_sends = n.unknown_sends, sent_at = n.sent_at, first_sent_at = n.first_sent_at,
    window_until = n.window_until
  WHERE x.id = s.id RETURNING x.* INTO n;
  RETURN n;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.run_again FROM PUBLIC;

-- Of a completed key, which stays completed: a new effect beside it, K~rN, with a copy of its request.
-- Whoever forces it knows what time it is: not_after is not copied. Returns the new key.
CREATE FUNCTION counterfoil.run_beside(s counterfoil.effect_state)
RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  e counterfoil.effect;
  r counterfoil.effect_request;
  n int;
BEGIN
  SELECT * INTO STRICT e FROM counterfoil.effect x WHERE x.id = s.id;
  SELECT * INTO STRICT r FROM counterfoil.effect_request x WHERE x.id = s.id;
  n := counterfoil.next_key_number(e.target, e.provider_key);
  IF e.replay_of IS NOT NULL THEN
    e.idempotency_key := regexp_replace(e.idempotency_key, '~r[0-9]+$', '');
  END IF;
  e.idempotency_key := e.idempotency_key || '~r' || n;
  e.replay_of := coalesce(e.replay_of, e.id);
  e.id := nextval('counterfoil.effect_id_seq');
  e.event_no := e.id;
  e.not_after := NULL;
  e.created_at := now();
  r.id := e.id;
  INSERT INTO counterfoil.effect OVERRIDING SYSTEM VALUE VALUES (e.*);
  INSERT INTO counterfoil.effect_request VALUES (r.*);
  INSERT INTO counterfoil.effect_state (id, target, tenant, serial_key, key_no, waiting)
  SELECT e.id, e.target, e.tenant, e.serial_key, n, e.serial_key IS NOT NULL AND EXISTS (
    SELECT FROM counterfoil.effect_state q WHERE q.target = e.target AND q.tenant = e.tenant
      AND q.serial_key = e.serial_key AND q.serial_key IS NOT NULL
      AND q.state IN ('pending', 'retry_wait', 'in_flight', 'uncertain'));
  RETURN e.idempotency_key;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.run_beside FROM PUBLIC;

-- Runs a key again that is dead or uncertain, with the same idempotency key or a new one; a waiting
-- one at once; a completed one a second time beside it, if new_key is asked for. A new key needs a
-- reason. The same operation asked for again gets its first answer. A dry run needs no operation and
-- no reason, and writes nothing.
CREATE FUNCTION counterfoil.replay(effect_id bigint, expected_epoch int, expected_state text,
   operation uuid, reason text, claims jsonb, dry_run boolean DEFAULT false,
   new_key boolean DEFAULT false)
RETURNS counterfoil.verdict
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  s counterfoil.effect_state := counterfoil.hold_key(effect_id, NOT dry_run);
  action text := CASE WHEN new_key THEN 'new key'
    WHEN expected_state IN ('pending', 'retry_wait') THEN 'run now' ELSE 'replay' END;
  v counterfoil.verdict := counterfoil.first_answer(s, action, effect_id, operation);
  n counterfoil.effect_state;
BEGIN
  IF v.result IS NOT NULL THEN RETURN v; END IF;
  v := coalesce(counterfoil.moved(s, action, expected_epoch, expected_state),
    counterfoil.judge_replay(s, new_key));
  IF dry_run THEN RETURN v; END IF;
  IF v.result = 'done' AND new_key AND coalesce(reason, '') = '' THEN
    v := ('refused', v.action, 'a new key needs a reason', s.state, s.state);
  ELSIF v.result = 'done' AND s.state = 'completed' THEN
    v.detail := 'it is sent a second time, as key ' || counterfoil.run_beside(s);
    -- whoever else was shown it as it was must look again
    UPDATE counterfoil.effect_state x SET epoch = x.epoch + 1 WHERE x.id = s.id RETURNING x.* INTO n;
  ELSIF v.result = 'done' AND s.state IN ('dead', 'uncertain') THEN
    n := counterfoil.run_again(s, new_key);
  ELSIF v.result = 'done' THEN
    UPDATE counterfoil.effect_state x SET epoch = x.epoch + 1, due_at = now()
    WHERE x.id = s.id RETURNING x.* INTO n;
  END IF;
  PERFORM counterfoil.keep_order(s, n, v, operation, reason, claims);
  RETURN v;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.replay FROM PUBLIC;

-- --- what is uncertain --------------------------------------------------------------------------------

-- A person has found out whether it happened, and signs for it: completed, and a ledger emits what
-- there is to emit; or dead, with no send unaccounted for, and no dead letter, for somebody has it in
-- hand. Either needs a reason. Every answer that is still to come meets another epoch.
CREATE FUNCTION counterfoil.resolve(effect_id bigint, expected_epoch int, expected_state text,
   operation uuid, happened boolean, provider_id text, reason text, claims jsonb,
   dry_run boolean DEFAULT false)
RETURNS counterfoil.verdict
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  s counterfoil.effect_state := counterfoil.hold_key(effect_id, NOT dry_run);
  action text := CASE WHEN happened THEN 'it happened' ELSE 'it did not happen' END;
  v counterfoil.verdict := counterfoil.first_answer(s, action, effect_id, operation);
  n counterfoil.effect_state;
BEGIN
  IF v.result IS NOT NULL THEN RETURN v; END IF;
  v := counterfoil.moved(s, action, expected_epoch, expected_state);
  IF v.result IS NOT NULL THEN
    NULL;
  ELSIF s.state <> 'uncertain' THEN
    v := ('refused', action, 'it is ' || replace(s.state::text, '_', ' ')
      || ': only what is uncertain is decided', s.state, s.state);
  ELSIF NOT dry_run AND coalesce(reason, '') = '' THEN
    v := ('refused', action, 'a decision needs a reason', s.state, s.state);
  ELSIF happened THEN
    v := ('done', action, 'it counts as completed', s.state, 'completed');
  ELSE
    v := ('done', action, 'it counts as not applied, and can be replayed', s.state, 'dead');
  END IF;
  IF dry_run THEN RETURN v; END IF;
  IF v.result = 'done' THEN
    UPDATE counterfoil.effect_state x SET state = v.to_state, epoch = x.epoch + 1,
      resolution = action, state_since = now(),
      completed_at = CASE WHEN happened THEN now() END,
      error_class = CASE WHEN happened THEN '' ELSE x.error_class END,
      provider_id = CASE WHEN happened
        THEN coalesce(nullif(resolve.provider_id, ''), x.provider_id) ELSE x.provider_id END,
      unknown_sends = CASE WHEN happened THEN x.unknown_sends ELSE 0 END,
      unknown_before = CASE WHEN happened THEN x.unknown_before ELSE 0 END,
      emit_due = happened AND EXISTS (SELECT FROM counterfoil.effect_request r
        WHERE r.id = s.id AND r.emit IS NOT NULL)
    WHERE x.id = s.id RETURNING x.* INTO n;
    PERFORM counterfoil.free_follower(s);
  END IF;
  PERFORM counterfoil.keep_order(s, n, v, operation, reason, claims);
  RETURN v;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.resolve FROM PUBLIC;

-- --- what waits ---------------------------------------------------------------------------------------

-- Takes a waiting key out of the way: end_state is cancelled or dead. Both mean certainly not applied:
-- with a send unaccounted for it becomes uncertain instead, and holds up its followers as before.
CREATE FUNCTION counterfoil.withdraw(effect_id bigint, expected_epoch int, expected_state text,
   operation uuid, reason text, claims jsonb, dry_run boolean, action text,
   end_state counterfoil.state)
RETURNS counterfoil.verdict
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  s counterfoil.effect_state := counterfoil.hold_key(effect_id, NOT dry_run);
  v counterfoil.verdict := counterfoil.first_answer(s, action, effect_id, operation);
  n counterfoil.effect_state;
BEGIN
  IF v.result IS NOT NULL THEN RETURN v; END IF;
  v := counterfoil.moved(s, action, expected_epoch, expected_state);
  IF v.result IS NOT NULL THEN
    NULL;
  ELSIF s.state = end_state THEN
    v := ('already', action, 'it is ' || s.state || ' already', s.state, s.state);
  ELSIF s.state NOT IN ('pending', 'retry_wait') THEN
    v := ('refused', action, 'it is ' || replace(s.state::text, '_', ' ')
      || ': only what waits to be sent can be taken back', s.state, s.state);
  ELSIF s.unknown_sends + s.unknown_before > 0 THEN
    v := ('done', action, 'it may have happened already: a decision is needed', s.state,
      'uncertain');
  ELSE
    v := ('done', action, 'it is not sent any more', s.state, end_state);
  END IF;
  IF dry_run THEN RETURN v; END IF;
  IF v.result = 'done' THEN
    UPDATE counterfoil.effect_state x SET state = v.to_state, epoch = x.epoch + 1,
      waiting = false, aside = NULL, state_since = now(),
      outcome = CASE v.to_state WHEN 'dead' THEN 'given_up' ELSE x.outcome END,
      resolution = CASE v.to_state WHEN 'dead' THEN 'given up' END,
      emit_due = v.to_state = 'dead'
    WHERE x.id = s.id RETURNING x.* INTO n;
  END IF;
  IF v.result = 'done' AND v.to_state = end_state THEN
    PERFORM counterfoil.free_follower(s);
  END IF;
  PERFORM counterfoil.keep_order(s, n, v, operation, reason, claims);
  RETURN v;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.withdraw FROM PUBLIC;

-- For good: a cancelled key is never sent.
CREATE FUNCTION counterfoil.cancel(effect_id bigint, expected_epoch int, expected_state text,
   operation uuid, reason text, claims jsonb, dry_run boolean DEFAULT false)
RETURNS counterfoil.verdict
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
  SELECT counterfoil.withdraw(effect_id, expected_epoch, expected_state, operation, reason, claims,
    dry_run, 'cancel', 'cancelled')
$f$;
REVOKE ALL ON FUNCTION counterfoil.cancel FROM PUBLIC;

-- For now: a dead key can be replayed. A ledger sends its dead letter, as of any other.
CREATE FUNCTION counterfoil.give_up(effect_id bigint, expected_epoch int, expected_state text,
   operation uuid, reason text, claims jsonb, dry_run boolean DEFAULT false)
RETURNS counterfoil.verdict
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
  SELECT counterfoil.withdraw(effect_id, expected_epoch, expected_state, operation, reason, claims,
    dry_run, 'give up', 'dead')
$f$;
REVOKE ALL ON FUNCTION counterfoil.give_up FROM PUBLIC;

-- --- what is stale ------------------------------------------------------------------------------------

-- At once, without waiting for a ledger to come by. As a ledger does it, but for what only its
-- configuration says: the budget of attempts and the margin of the window. Whoever claims the key
-- next goes by those.
CREATE FUNCTION counterfoil.take_over(effect_id bigint, expected_epoch int, expected_state text,
   operation uuid, reason text, claims jsonb, dry_run boolean DEFAULT false)
RETURNS counterfoil.verdict
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  action CONSTANT text := 'take over';
  s counterfoil.effect_state := counterfoil.hold_key(effect_id, NOT dry_run);
  v counterfoil.verdict := counterfoil.first_answer(s, action, effect_id, operation);
  n counterfoil.effect_state;
  once boolean := (SELECT e.mode = 'at_most_once' AND NOT e.resend FROM counterfoil.effect e
    WHERE e.id = s.id);
BEGIN
  IF v.result IS NOT NULL THEN RETURN v; END IF;
  v := counterfoil.moved(s, action, expected_epoch, expected_state);
  IF v.result IS NOT NULL THEN
    NULL;
  ELSIF NOT counterfoil.is_stale(s) THEN
    v := ('refused', action, CASE WHEN s.state = 'in_flight'
      THEN 'its ledger is alive, and has time left to answer'
      ELSE 'only what is in flight is taken over' END, s.state, s.state);
  ELSIF s.unknown_sends = 0 THEN
    v := ('done', action, 'nothing was sent: it is due now', s.state, 'retry_wait');
  ELSIF once THEN
    v := ('done', action, 'it may have been sent, and is never sent again by itself', s.state,
      'uncertain');
  ELSIF s.window_until <= now() THEN
    v := ('done', action, 'it may have been sent, and its provider has forgotten the key', s.state,
      'uncertain');
  ELSE
    v := ('done', action, 'it is due now, with the same key', s.state, 'retry_wait');
  END IF;
  IF dry_run THEN RETURN v; END IF;
  IF v.result = 'done' THEN
    UPDATE counterfoil.effect_state x SET state = v.to_state, epoch = x.epoch + 1, owner = NULL,
      deadline = NULL, takeovers = x.takeovers + 1, outcome = 'lost', http_status = NULL,
      curl_code = NULL, error_class = 'lost', due_at = now(), state_since = now(),
      attempts = x.attempts + (x.sent_at IS NOT NULL)::int
    WHERE x.id = s.id RETURNING x.* INTO n;
    INSERT INTO counterfoil.attempt (effect_id, n, epoch, owner, started_at, outcome)
    VALUES (s.id, s.tries, s.epoch, s.owner, coalesce(s.sent_at, s.state_since), 'lost')
    ON CONFLICT DO NOTHING;
  END IF;
  PERFORM counterfoil.keep_order(s, n, v, operation, reason, claims);
  RETURN v;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.take_over FROM PUBLIC;

-- --- what changes no state ----------------------------------------------------------------------------

-- A remark, kept with the key in whatever state it is.
CREATE FUNCTION counterfoil.note(effect_id bigint, operation uuid, reason text, claims jsonb,
   dry_run boolean DEFAULT false)
RETURNS counterfoil.verdict
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  s counterfoil.effect_state := counterfoil.hold_key(effect_id, NOT dry_run);
  v counterfoil.verdict := counterfoil.first_answer(s, 'note', effect_id, operation);
BEGIN
  IF v.result IS NOT NULL THEN RETURN v; END IF;
  v := ('done', 'note', 'it is kept with the key', s.state, s.state);
  IF NOT dry_run AND coalesce(reason, '') = '' THEN
    v := ('refused', 'note', 'a note needs words', s.state, s.state);
  END IF;
  IF NOT dry_run THEN
    PERFORM counterfoil.keep_order(s, NULL, v, operation, reason, claims);
  END IF;
  RETURN v;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.note FROM PUBLIC;

-- Forgets what may be personal in a key that has ended: request, answers, the event's content, its
-- subject. The key, its state, what identifies its event and the provider's id stay: a repetition is
-- known as one, and it can still be proved what was done. What stands in Kafka, or waits in the outbox
-- for it, is not reached from here.
CREATE FUNCTION counterfoil.erase(effect_id bigint, expected_epoch int, expected_state text,
   operation uuid, reason text, claims jsonb, dry_run boolean DEFAULT false)
RETURNS counterfoil.verdict
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  action CONSTANT text := 'erase';
  s counterfoil.effect_state := counterfoil.hold_key(effect_id, NOT dry_run);
  v counterfoil.verdict := counterfoil.first_answer(s, action, effect_id, operation);
  others bigint := (SELECT count(*) FROM counterfoil.effect e WHERE e.replay_of = effect_id);
  kept boolean := s.serial_key IS NOT NULL
    OR EXISTS (SELECT FROM counterfoil.effect_request r WHERE r.id = erase.effect_id)
    OR EXISTS (SELECT FROM counterfoil.attempt a WHERE a.effect_id = erase.effect_id
      AND num_nonnulls(a.error, a.response_head, a.response_body) > 0)
    OR EXISTS (SELECT FROM counterfoil.effect e LEFT JOIN counterfoil.poison p ON p.topic = e.topic
      AND p.partition = e.partition AND p."offset" = e."offset" AND p.settled_at IS NOT NULL
      WHERE e.id = erase.effect_id AND (num_nonnulls(e.subject, e.serial_key, p.key, p.value, p.headers) > 0
        OR p.error <> ''));
BEGIN
  IF v.result IS NOT NULL THEN RETURN v; END IF;
  v := counterfoil.moved(s, action, expected_epoch, expected_state);
  IF v.result IS NOT NULL THEN
    NULL;
  ELSIF s.state NOT IN ('completed', 'dead', 'cancelled', 'pruned') THEN
    v := ('refused', action, 'it is ' || replace(s.state::text, '_', ' ')
      || ': it has not ended', s.state, s.state);
  ELSIF s.emit_due THEN
    v := ('refused', action, 'its event is still to be emitted', s.state, s.state);
  ELSIF NOT kept THEN
    v := ('already', action, 'its content is gone already', s.state, s.state);
  ELSIF NOT dry_run AND coalesce(reason, '') = '' THEN
    v := ('refused', action, 'an erasure needs a reason', s.state, s.state);
  ELSE
    v := ('done', action, 'its content is gone, the key stays' || CASE WHEN others > 0
      THEN '; it was replayed by force: those keys have their own copies' ELSE '' END,
      s.state, s.state);
  END IF;
  IF dry_run THEN RETURN v; END IF;
  IF v.result = 'done' THEN
    DELETE FROM counterfoil.effect_request r WHERE r.id = s.id;
    UPDATE counterfoil.attempt a SET error = NULL, response_head = NULL, response_body = NULL
    WHERE a.effect_id = s.id;
    UPDATE counterfoil.poison p SET key = NULL, value = NULL, headers = NULL, error = ''
    FROM counterfoil.effect e WHERE e.id = s.id AND p.topic = e.topic AND p.partition = e.partition
      AND p."offset" = e."offset" AND p.settled_at IS NOT NULL;
    UPDATE counterfoil.effect e SET subject = NULL, serial_key = NULL WHERE e.id = s.id;
    UPDATE counterfoil.effect_state x SET serial_key = NULL WHERE x.id = s.id;
  END IF;
  PERFORM counterfoil.keep_order(s, NULL, v, operation, reason, claims);
  RETURN v;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.erase FROM PUBLIC;
