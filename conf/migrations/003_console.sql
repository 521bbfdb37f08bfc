-- oldest program: 1
-- What an operator may do to a key: functions that check state and epoch, make the change and write
-- the audit row, all in one transaction. No program writes a table of the ledger on an operator's
-- behalf in any other way.

-- Append-only: nobody is granted UPDATE or DELETE. An operation is one decision of one person; its
-- id is made where it is confirmed, so that asking again never acts twice.
CREATE TABLE counterfoil.audit (
  id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at              timestamptz NOT NULL DEFAULT clock_timestamp(),
  operation       uuid NOT NULL UNIQUE,
  who             text NOT NULL DEFAULT session_user,
  claims          jsonb NOT NULL,          -- what the client says of itself: user, host, address
  action          text NOT NULL,
  effect_id       bigint NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  target          text COLLATE "C" NOT NULL,
  tenant          text COLLATE "C" NOT NULL,
  result          text NOT NULL,           -- as in counterfoil.verdict
  detail          text NOT NULL,
  reason          text,
  from_state      counterfoil.state NOT NULL,
  to_state        counterfoil.state NOT NULL,
  before          jsonb NOT NULL,          -- the row of effect_state
  after           jsonb);                  -- NULL: it was not changed
CREATE INDEX audit_effect ON counterfoil.audit (effect_id, id);
REVOKE ALL ON counterfoil.audit FROM PUBLIC;

-- result: done; already (there was nothing to do); changed (the key is no longer as it was shown);
-- refused (detail says why); missing.
CREATE TYPE counterfoil.verdict AS (
  result text, action text, detail text, from_state counterfoil.state, to_state counterfoil.state);

-- What a replay would come to. Reads only.
CREATE FUNCTION counterfoil.judge_replay(s counterfoil.effect_state) RETURNS counterfoil.verdict
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  over timestamptz := (SELECT e.not_after FROM counterfoil.effect e WHERE e.id = s.id);
  v counterfoil.verdict := ('refused', 'replay', '', s.state, s.state);
BEGIN
  IF s.state IN ('pending', 'retry_wait') THEN v.action := 'run now'; END IF;
  CASE
    WHEN s.state = 'completed' THEN
      v.result := 'already';
      v.detail := 'already completed: nothing is sent again';
    WHEN s.state = 'uncertain' THEN
      v.detail := 'it may have happened: decide that before it is sent again';
    WHEN s.state = 'in_flight' THEN
      v.detail := 'an attempt is running';
    WHEN s.state = 'cancelled' THEN
      v.detail := 'it was cancelled';
    WHEN s.state = 'pruned' THEN
      v.detail := 'it finished long ago: only its key is kept';
    WHEN over <= now() THEN
      v.detail := 'its not_after has passed: it would be given up again';
    WHEN NOT EXISTS (SELECT FROM counterfoil.effect_request r WHERE r.id = s.id AND r.method IS NOT NULL) THEN
      v.detail := 'its request was never rendered: there is nothing to send';
    WHEN s.state = 'dead' THEN
      v.result := 'done';
      v.detail := 'it runs again with the same key';
      v.to_state := 'pending';
    WHEN s.waiting THEN
      v.detail := 'it waits behind an older key of the same serial key';
    WHEN s.due_at <= now() THEN
      v.result := 'already';
      v.detail := 'it is due already';
    ELSE
      v.result := 'done';
      v.detail := 'it is due now';
  END CASE;
  RETURN v;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.judge_replay FROM PUBLIC;

-- Runs a dead key again with the same idempotency key, or a waiting one at once. The same operation
-- asked for again gets its first answer. A dry run needs no operation and writes nothing.
--
-- A dead key has no send unaccounted for, so that its provider's window may begin anew, but only
-- once the provider has forgotten the key for certain: the ledger knows the margin for that, this
-- function waits for the window twice over instead. Otherwise the old window stands.
CREATE FUNCTION counterfoil.replay(effect_id bigint, expected_epoch int, expected_state text,
   operation uuid, reason text, claims jsonb, dry_run boolean DEFAULT false)
RETURNS counterfoil.verdict
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
#variable_conflict use_column
DECLARE
  s counterfoil.effect_state;
  n counterfoil.effect_state;
  a counterfoil.audit;
  v counterfoil.verdict;
BEGIN
  IF replay.dry_run THEN
    SELECT * INTO s FROM counterfoil.effect_state x WHERE x.id = replay.effect_id;
  ELSE
    PERFORM set_config('synchronous_commit', 'on', true);
    SELECT * INTO s FROM counterfoil.effect_state x WHERE x.id = replay.effect_id FOR UPDATE;
  END IF;
  IF NOT FOUND THEN
    RETURN ('missing', 'replay', 'there is no such key', NULL, NULL)::counterfoil.verdict;
  END IF;
  -- behind the lock: whoever asked first has committed
  SELECT * INTO a FROM counterfoil.audit x WHERE x.operation = replay.operation;
  IF FOUND THEN
    IF a.effect_id <> replay.effect_id THEN
      RAISE EXCEPTION 'operation % was about another key', replay.operation USING ERRCODE = '23505';
    END IF;
    RETURN (a.result, a.action, a.detail, a.from_state, a.to_state)::counterfoil.verdict;
  END IF;
  v := counterfoil.judge_replay(s);
  IF (s.epoch, s.state::text) IS DISTINCT FROM (replay.expected_epoch, replay.expected_state) THEN
    v := ('changed', CASE WHEN replay.expected_state IN ('pending', 'retry_wait') THEN 'run now'
      ELSE 'replay' END, CASE WHEN s.state::text = replay.expected_state
      THEN 'it has moved since, and is ' || replace(s.state::text, '_', ' ') || ' again'
      ELSE 'it is ' || replace(s.state::text, '_', ' ') || ' by now' END, s.state, s.state);
  END IF;
  IF replay.dry_run THEN RETURN v; END IF;
  IF v.result = 'done' AND s.state = 'dead' THEN
    UPDATE counterfoil.effect_state x SET state = 'pending', epoch = x.epoch + 1, attempts = 0,
      throttled = 0, stalled = 0, replays = x.replays + 1, due_at = now(), waiting = false,
      outcome = NULL, http_status = NULL, curl_code = NULL, error_class = '', state_since = now(),
      first_sent_at = CASE WHEN f.forgotten THEN NULL ELSE x.first_sent_at END,
      window_until = CASE WHEN f.forgotten THEN NULL ELSE x.window_until END
    FROM (SELECT coalesce(s.state_since + 2 * (s.window_until - s.first_sent_at) <= now(), false)
      AS forgotten) f
    WHERE x.id = s.id RETURNING x.* INTO n;
  ELSIF v.result = 'done' THEN
    UPDATE counterfoil.effect_state x SET epoch = x.epoch + 1, due_at = now()
    WHERE x.id = s.id RETURNING x.* INTO n;
  END IF;
  INSERT INTO counterfoil.audit (operation, claims, action, effect_id, idempotency_key, target,
    tenant, result, detail, reason, from_state, to_state, before, after)
  SELECT replay.operation, coalesce(replay.claims, '{}'), v.action, e.id, e.idempotency_key,
    e.target, e.tenant, v.result, v.detail, nullif(replay.reason, ''), v.from_state, v.to_state,
    to_jsonb(s), CASE WHEN v.result = 'done' THEN to_jsonb(n) END
  FROM counterfoil.effect e WHERE e.id = s.id;
  RETURN v;
END $f$;
REVOKE ALL ON FUNCTION counterfoil.replay FROM PUBLIC;
