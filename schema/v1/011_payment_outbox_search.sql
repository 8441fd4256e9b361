-- Projections of the sealed ledger: a search table and counts over time. Workers fill them after sealing
-- (project_ledger_block), so that no enqueue, claim or completion writes here. rebuild_ledger_projection fills them
-- again from the first block. The functions are in schema/functions/outbox/projection.sql.

CREATE TABLE IF NOT EXISTS ledger_projection (
  singleton boolean PRIMARY KEY DEFAULT true,
  last_block bigint NOT NULL DEFAULT 0,
  projected_to timestamptz,
  hashed_block bigint NOT NULL DEFAULT 0,
  hash_key text,
  CONSTRAINT ledger_projection_is_one_row CHECK (singleton)
);
INSERT INTO ledger_projection DEFAULT VALUES ON CONFLICT DO NOTHING;
COMMENT ON TABLE ledger_projection IS
  'Position of the projection: one row, changed in the same transaction as the projected tables.';
COMMENT ON COLUMN ledger_projection.last_block IS 'Last block whose rows are projected; 0 before the first.';
COMMENT ON COLUMN ledger_projection.projected_to IS 'Time at which last_block was sealed; null before the first block.';
COMMENT ON COLUMN ledger_projection.hashed_block IS 'Last block whose destinations are hashed; 0 before the first.';
COMMENT ON COLUMN ledger_projection.hash_key IS
  'Name of the key that hashed the destinations, derived from the key; null before the first hash.';

-- The columns of ids sort by bytes, so that a range of an index finds a prefix in every database.
CREATE TABLE IF NOT EXISTS payment_search (
  outbox_id uuid PRIMARY KEY,
  is_message boolean NOT NULL,
  instruction_id text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  participant_id text COLLATE "C" NOT NULL,
  rail_type text COLLATE "C" NOT NULL,
  state text NOT NULL,
  error_code text,
  rail_reference text COLLATE "C",
  returned boolean NOT NULL,
  amount numeric,
  currency text COLLATE "C",
  CONSTRAINT payment_search_known_state CHECK (state IN ('PENDING', 'HELD', 'DISPATCHED', 'FAILED', 'CANCELLED')),
  CONSTRAINT payment_search_amount_has_currency CHECK (amount IS NULL OR currency IS NOT NULL)
)
WITH (fillfactor = 85);
COMMENT ON TABLE payment_search IS
  'One row per item, for lists and search. A few seconds behind the ledger, which alone is authoritative.';
COMMENT ON COLUMN payment_search.state IS
  'State at the last projection of the item. CANCELLED is a FAILED item that was cancelled.';
COMMENT ON COLUMN payment_search.rail_reference IS 'Reference of the rail in the latest attempt.';
COMMENT ON COLUMN payment_search.amount IS
  'Amount in the payload; null if it is unreadable, or if the field class of amount or currency is not public.';

CREATE TABLE IF NOT EXISTS payment_search_destinations (
  destination_hmac bytea NOT NULL,
  outbox_id uuid NOT NULL,
  PRIMARY KEY (destination_hmac, outbox_id),
  CONSTRAINT payment_search_destinations_is_sha256 CHECK (octet_length(destination_hmac) = 32)
);
COMMENT ON TABLE payment_search_destinations IS
  'HMAC-SHA-256 of the destinations of payments, with a key that only the API has. Encrypted and forbidden '
  'destinations are left out.';

-- The row with an empty participant counts all participants of the rail.
CREATE TABLE IF NOT EXISTS outbox_series (
  grain text NOT NULL,
  participant_id text COLLATE "C" NOT NULL,
  starts_at timestamptz NOT NULL,
  rail_type text COLLATE "C" NOT NULL,
  is_message boolean NOT NULL,
  enqueued bigint NOT NULL,
  dispatched bigint NOT NULL,
  failed bigint NOT NULL,
  cancelled bigint NOT NULL,
  retried bigint NOT NULL,
  unknown bigint NOT NULL,
  held bigint NOT NULL,
  returned bigint NOT NULL,
  PRIMARY KEY (grain, participant_id, starts_at, rail_type, is_message),
  CONSTRAINT outbox_series_known_grain CHECK (grain IN ('minute', 'hour', 'day'))
)
WITH (fillfactor = 70);
COMMENT ON TABLE outbox_series IS
  'Numbers of ledger rows per minute, hour and day (UTC), by rail, participant and kind.';
COMMENT ON COLUMN outbox_series.participant_id IS 'Participant; empty for the sum of all participants.';
COMMENT ON COLUMN outbox_series.failed IS 'FAILED items without cancelled ones.';
COMMENT ON COLUMN outbox_series.retried IS 'Attempts that a retry follows: RETRYABLE and ZOMBIE_REQUEUE.';
COMMENT ON COLUMN outbox_series.unknown IS 'Attempts among retried that left the outcome unknown.';
COMMENT ON COLUMN outbox_series.held IS 'Holds placed.';
COMMENT ON COLUMN outbox_series.returned IS 'Returns recorded.';

CREATE TABLE IF NOT EXISTS outbox_attempt_series (
  grain text NOT NULL,
  rail_type text COLLATE "C" NOT NULL,
  starts_at timestamptz NOT NULL,
  error_code text COLLATE "C" NOT NULL,
  latency_to_ms integer NOT NULL,
  attempts bigint NOT NULL,
  PRIMARY KEY (grain, rail_type, starts_at, error_code, latency_to_ms),
  CONSTRAINT outbox_attempt_series_known_grain CHECK (grain IN ('minute', 'hour', 'day'))
)
WITH (fillfactor = 70);
COMMENT ON TABLE outbox_attempt_series IS
  'Numbers of attempts per minute, hour and day (UTC), by rail, error code and range of latency.';
COMMENT ON COLUMN outbox_attempt_series.error_code IS 'Error code; empty without one.';
COMMENT ON COLUMN outbox_attempt_series.latency_to_ms IS
  'Upper end of the range of the rail''s latency, see latency_range; 0 if the latency was not measured.';

CREATE TABLE IF NOT EXISTS outbox_worker_series (
  starts_at timestamptz NOT NULL,
  rail_type text COLLATE "C" NOT NULL,
  worker_id text COLLATE "C" NOT NULL,
  dispatched bigint NOT NULL,
  failed bigint NOT NULL,
  retried bigint NOT NULL,
  PRIMARY KEY (starts_at, rail_type, worker_id)
)
WITH (fillfactor = 70);
COMMENT ON TABLE outbox_worker_series IS
  'Numbers of attempts per five minutes (UTC), by rail and worker, without decisions and cancellations.';
COMMENT ON COLUMN outbox_worker_series.retried IS
  'Attempts that a retry follows: RETRYABLE, and ZOMBIE_REQUEUE of the worker whose lease expired.';

CREATE INDEX IF NOT EXISTS ix_payment_search_by_state ON payment_search (is_message, state, outbox_id);
COMMENT ON INDEX ix_payment_search_by_state IS 'Lists: items in a state, newest first. One entry per item.';
CREATE INDEX IF NOT EXISTS ix_payment_search_by_rail ON payment_search (is_message, rail_type, outbox_id);
COMMENT ON INDEX ix_payment_search_by_rail IS 'Lists: items of a rail, newest first. One entry per item.';
CREATE INDEX IF NOT EXISTS ix_payment_search_by_participant ON payment_search (participant_id, outbox_id);
COMMENT ON INDEX ix_payment_search_by_participant IS
  'Lists: items of a participant, newest first. One entry per item.';
CREATE INDEX IF NOT EXISTS ix_payment_search_by_instruction ON payment_search (instruction_id);
COMMENT ON INDEX ix_payment_search_by_instruction IS 'Search by the beginning of an instruction. One entry per item.';
CREATE INDEX IF NOT EXISTS ix_payment_search_by_key ON payment_search (idempotency_key);
COMMENT ON INDEX ix_payment_search_by_key IS 'Search by the beginning of an idempotency key. One entry per item.';
CREATE INDEX IF NOT EXISTS ix_payment_search_by_reference ON payment_search (rail_reference)
  WHERE rail_reference IS NOT NULL;
COMMENT ON INDEX ix_payment_search_by_reference IS
  'Search by the beginning of a rail''s reference. One entry per item with a reference.';
CREATE INDEX IF NOT EXISTS ix_payment_search_by_amount ON payment_search (currency, amount, outbox_id)
  WHERE amount IS NOT NULL;
COMMENT ON INDEX ix_payment_search_by_amount IS
  'Lists: payments by amount. One entry per payment with a public amount.';
CREATE INDEX IF NOT EXISTS ix_payment_search_destinations_by_item ON payment_search_destinations (outbox_id);
COMMENT ON INDEX ix_payment_search_destinations_by_item IS 'Retention: rows past their retention. One entry per row.';
CREATE INDEX IF NOT EXISTS ix_outbox_series_by_time ON outbox_series (grain, starts_at);
COMMENT ON INDEX ix_outbox_series_by_time IS 'Retention: rows past their retention. One entry per row.';
CREATE INDEX IF NOT EXISTS ix_outbox_attempt_series_by_time ON outbox_attempt_series (grain, starts_at);
COMMENT ON INDEX ix_outbox_attempt_series_by_time IS 'Retention: rows past their retention. One entry per row.';
