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
CREATE INDEX outbox_dead_state ON counterfoil.outbox_dead (parked, died_at);

-- After a relay that did not stop cleanly: the rows that were in flight, perhaps. They run in smaller
-- and smaller companies; one that was alone at three crashes is given up.
CREATE TABLE counterfoil.suspect (
  source     text COLLATE "C" PRIMARY KEY,
  first      bigint NOT NULL,              -- ids, both included
  last       bigint NOT NULL,
  crashes    int NOT NULL,                 -- in this range, one after the other
  alone      int NOT NULL DEFAULT 0,       -- of these, with a range of one row
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
