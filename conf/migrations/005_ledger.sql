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

-- --- kill switches ------------------------------------------------------------------------------------

-- What may not be claimed until somebody resumes it. (A target is held in target_state.)
CREATE TABLE counterfoil.pause (
  scope  text COLLATE "C" NOT NULL CHECK (scope IN ('everything', 'effect', 'tenant')),
  name   text COLLATE "C" NOT NULL DEFAULT '',  -- of the effect or the tenant
  who    text NOT NULL DEFAULT session_user,
  reason text,
  since  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (scope, name));
