-- oldest program: 2
-- What the ledger needs to tell an event from another one at the same place: a topic that is deleted
-- and made anew uses its offsets again.

ALTER TABLE counterfoil.conflict DROP CONSTRAINT conflict_pkey,
  ADD PRIMARY KEY (topic, partition, "offset", effect, event_id);
