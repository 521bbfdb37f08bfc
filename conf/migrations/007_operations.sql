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

CREATE TABLE counterfoil.operation_item (
  operation_id bigint NOT NULL,
  effect_id    bigint NOT NULL,
  epoch        int NOT NULL,
  result       text COLLATE "C",            -- NULL: not yet; done, failed, skipped
  detail       text,
  at           timestamptz,
  PRIMARY KEY (operation_id, effect_id));
