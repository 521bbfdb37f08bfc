-- oldest program: 2
-- What an operator may order of one key, beyond a replay: a new provider key, a decision about what
-- is uncertain, a cancel, a note, an early take-over, the erasure of what is personal.

-- What of a key's last answer is known to be stored at its provider: the same key only brings it back,
-- until its window is over.
ALTER TABLE counterfoil.effect_state ADD COLUMN stored boolean NOT NULL DEFAULT false;

-- --- audit ------------------------------------------------------------------------------------------

-- An order that is not about a key (a hold, a pause, a bulk order) says what it is about: "target
-- payments", "operation 42".
ALTER TABLE counterfoil.audit
  ADD COLUMN subject text COLLATE "C",
  ALTER COLUMN effect_id DROP NOT NULL,
  ALTER COLUMN idempotency_key DROP NOT NULL,
  ALTER COLUMN target DROP NOT NULL,
  ALTER COLUMN tenant DROP NOT NULL,
  ALTER COLUMN from_state DROP NOT NULL,
  ALTER COLUMN to_state DROP NOT NULL,
  ALTER COLUMN before DROP NOT NULL,
  DROP CONSTRAINT audit_check,
  ADD CONSTRAINT audit_of_something CHECK (subject IS NOT NULL OR about IS NOT NULL
    OR (effect_id, idempotency_key, target, tenant, from_state, to_state, before) IS NOT NULL);
