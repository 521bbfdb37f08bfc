-- oldest program: 1
-- The ledger: a key is two rows. effect is written once at intake, so that its indexes are paid
-- once; effect_state is moved at every step and kept narrow. All key-like text is COLLATE "C".
-- No foreign keys on the hot path. owner = instance.id.

CREATE TYPE counterfoil.state AS ENUM
  ('pending', 'in_flight', 'retry_wait', 'completed', 'uncertain', 'dead', 'cancelled', 'pruned');

-- A process and its lease: one renewal a heartbeat instead of one a row. A restart is a new row.
CREATE TABLE counterfoil.instance (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  program    text NOT NULL,
  name       text NOT NULL,              -- instance/boot8/pid
  version    text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  until      timestamptz NOT NULL);
CREATE INDEX instance_until ON counterfoil.instance (program, until);

-- The truth about what was consumed; the offset committed to Kafka is for displays only.
-- next_offset -2: not begun, from the beginning.
CREATE TABLE counterfoil.intake_position (
  topic       text COLLATE "C",
  partition   int,
  next_offset bigint NOT NULL,
  PRIMARY KEY (topic, partition));

CREATE TABLE counterfoil.effect (
  id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  target          text COLLATE "C" NOT NULL,
  tenant          text COLLATE "C" NOT NULL DEFAULT '',
  idempotency_key text COLLATE "C" NOT NULL,
  effect          text COLLATE "C" NOT NULL,
  mode            text NOT NULL,
  provider_key    text COLLATE "C" NOT NULL,
  fingerprint     bytea NOT NULL,
  event_hash      bytea NOT NULL,
  topic           text COLLATE "C" NOT NULL,
  partition       int NOT NULL,
  "offset"        bigint NOT NULL,
  event_id        text COLLATE "C" NOT NULL,
  event_type      text NOT NULL DEFAULT '',
  subject         text COLLATE "C",
  serial_key      text COLLATE "C",
  not_after       timestamptz,
  created_at      timestamptz NOT NULL DEFAULT now());
CREATE UNIQUE INDEX effect_key ON counterfoil.effect (idempotency_key, target, tenant);
CREATE INDEX effect_subject ON counterfoil.effect (subject, id);
CREATE INDEX effect_event ON counterfoil.effect (event_id);
CREATE INDEX effect_source ON counterfoil.effect USING brin (topic, partition, "offset");

CREATE TABLE counterfoil.effect_state (
  id             bigint PRIMARY KEY,
  target         text COLLATE "C" NOT NULL,
  tenant         text COLLATE "C" NOT NULL,
  state          counterfoil.state NOT NULL DEFAULT 'pending',
  serial_key     text COLLATE "C",
  epoch          int NOT NULL DEFAULT 0,     -- rises at each claim, take-over and order of an operator
  owner          bigint,
  deadline       timestamptz,                -- of this claim; never renewed
  tries          int NOT NULL DEFAULT 0,     -- numbers the attempts
  attempts       int NOT NULL DEFAULT 0,     -- the budget: sends not answered by a throttle, and take-overs after sending
  throttled      int NOT NULL DEFAULT 0,
  stalled        int NOT NULL DEFAULT 0,     -- answers "in progress" and replays of a stored error
  takeovers      int NOT NULL DEFAULT 0,
  unknown_sends  int NOT NULL DEFAULT 0,     -- may have left, without an answer that says applied or not
  unknown_before int NOT NULL DEFAULT 0,     -- the same, under earlier provider keys
  key_no         int NOT NULL DEFAULT 0,     -- of the provider key: base~rN
  replays        int NOT NULL DEFAULT 0,
  first_sent_at  timestamptz,                -- earliest send that may have left: the window counts from it
  sent_at        timestamptz,
  window_until   timestamptz,                -- NULL: never sent, or endless
  due_at         timestamptz NOT NULL DEFAULT now(),
  waiting        boolean NOT NULL DEFAULT false,
  outcome        text,
  http_status    int,
  curl_code      int,
  provider_id    text,
  error_class    text COLLATE "C" NOT NULL DEFAULT '',
  emit_failed    boolean NOT NULL DEFAULT false,
  state_since    timestamptz NOT NULL DEFAULT now(),
  completed_at   timestamptz,
  resolution     text,
  CONSTRAINT finished_is_certain CHECK (state NOT IN ('dead', 'cancelled') OR unknown_sends + unknown_before = 0),
  CONSTRAINT unknown_is_counted CHECK (unknown_sends >= 0 AND unknown_before >= 0),
  CONSTRAINT owner_in_flight CHECK ((state = 'in_flight') = (owner IS NOT NULL)));
CREATE INDEX effect_state_due ON counterfoil.effect_state (target, tenant, due_at, id)
  WHERE state IN ('pending', 'retry_wait') AND NOT waiting;
CREATE INDEX effect_state_owner ON counterfoil.effect_state (owner, deadline, id) WHERE state = 'in_flight';
CREATE UNIQUE INDEX effect_state_serial ON counterfoil.effect_state (target, tenant, serial_key)
  WHERE state = 'in_flight' AND serial_key IS NOT NULL;
CREATE INDEX effect_state_queue ON counterfoil.effect_state (target, tenant, serial_key, id)
  WHERE serial_key IS NOT NULL AND state IN ('pending', 'retry_wait', 'in_flight', 'uncertain');
CREATE INDEX effect_state_attention ON counterfoil.effect_state (state, state_since, id)
  WHERE state IN ('retry_wait', 'uncertain', 'dead', 'cancelled');
CREATE INDEX effect_state_error ON counterfoil.effect_state (state, error_class, state_since, id)
  WHERE state IN ('retry_wait', 'uncertain', 'dead');
CREATE INDEX effect_state_window ON counterfoil.effect_state (window_until, id) WHERE state = 'uncertain';

-- Frozen at intake. method NULL: the request could not be rendered, the key was born dead.
CREATE TABLE counterfoil.effect_request (
  id            bigint PRIMARY KEY,
  method        text,
  url           text,
  headers       bytea,                   -- "Name: value" lines, each ended by a line feed
  body          bytea,
  event_key     bytea,                   -- of the event, for a dead letter
  event_value   bytea,
  value_is_body boolean NOT NULL DEFAULT false, -- the event's value equals the body and is not kept twice
  event_headers bytea,                   -- a JSON object as text, for a dead letter's headers
  emit          bytea);                  -- rendered at intake

CREATE TABLE counterfoil.attempt (
  effect_id     bigint NOT NULL,
  n             int NOT NULL,            -- effect_state.tries at the claim; 0: born dead
  epoch         int NOT NULL,
  owner         bigint,
  started_at    timestamptz NOT NULL,
  took_us       bigint,
  outcome       text NOT NULL,
  http_status   int,
  curl_code     int,
  error         text,
  provider_id   text,
  provider_key  text,
  response_head bytea,
  response_body bytea,
  truncated     boolean NOT NULL DEFAULT false,
  late          boolean NOT NULL DEFAULT false, -- its claim was no longer in force: evidence only
  recorded_at   timestamptz NOT NULL DEFAULT clock_timestamp());
-- A claim is recorded once by its holder and once by who took it over: a result whose statement is
-- sent again, because its answer was lost, meets its own row.
CREATE UNIQUE INDEX attempt_effect ON counterfoil.attempt (effect_id, n, epoch, (outcome = 'lost'));
CREATE INDEX attempt_provider ON counterfoil.attempt (provider_id) WHERE provider_id IS NOT NULL;

-- The same key with other content. The holder's row is untouched.
CREATE TABLE counterfoil.conflict (
  topic           text COLLATE "C",
  partition       int,
  "offset"        bigint,
  effect          text COLLATE "C",
  idempotency_key text NOT NULL,
  target          text NOT NULL,
  tenant          text NOT NULL,
  holder          bigint NOT NULL,
  event_id        text NOT NULL,
  fingerprint     bytea NOT NULL,
  seen_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (topic, partition, "offset", effect));

-- A message that could not be turned into effects, kept whole.
CREATE TABLE counterfoil.poison (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  topic       text COLLATE "C" NOT NULL,
  partition   int NOT NULL,
  "offset"    bigint NOT NULL,
  hash        bytea NOT NULL,            -- of the whole value
  size        bigint NOT NULL,           -- of the whole value
  key         bytea,
  value       bytea,                     -- cut at ledger.poison_max_bytes
  headers     bytea,                     -- a JSON object as text
  sent_at     timestamptz,               -- the Kafka timestamp
  reason      text COLLATE "C" NOT NULL, -- from a closed list
  error       text NOT NULL,
  seen_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  settled_at  timestamptz);              -- NULL: open
CREATE UNIQUE INDEX poison_source ON counterfoil.poison (topic, partition, "offset", hash);
CREATE INDEX poison_open ON counterfoil.poison (topic, id) WHERE settled_at IS NULL;

-- Events of a subscribed topic that no effect matched, counted by minute.
CREATE TABLE counterfoil.unmatched (
  topic    text COLLATE "C" NOT NULL,
  type     text COLLATE "C" NOT NULL,
  minute   timestamptz NOT NULL,
  instance bigint NOT NULL,
  n        bigint NOT NULL,
  PRIMARY KEY (topic, type, minute, instance));

-- What all processes must know of a target: held by hand or by its answers, paused by a throttle.
CREATE TABLE counterfoil.target_state (
  target        text COLLATE "C" PRIMARY KEY,
  held          boolean NOT NULL DEFAULT false,
  hold_reason   text,
  held_by       text,                    -- 'system' heals by itself
  held_since    timestamptz,
  probe_at      timestamptz,             -- a held target tries one key from then on
  paused_until  timestamptz,
  breaker_until timestamptz,
  changed_at    timestamptz NOT NULL DEFAULT clock_timestamp());
