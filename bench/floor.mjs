// The floor: the least that moving an item can cost on this server. The same rows, changed by three bare statements (lease,
// insert into a ledger, delete) for 500 at a time inside the server: no checks, no chain, no tokens to compare, no round trips.
import { createRequire } from 'node:module'

const pg = createRequire(import.meta.url)('pg')

export async function floorPerSecond(url, count) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(TABLES)
    await client.query(FILL, [count])
    await client.query('VACUUM ANALYZE bare_pending')
    await client.query(PROCEDURE)
    const startedMs = performance.now()
    await client.query('CALL drain_bare(500)')
    return count / ((performance.now() - startedMs) / 1_000)
  } finally {
    await client.end()
  }
}

const TABLES = `
CREATE TABLE bare_pending (
  outbox_id uuid PRIMARY KEY DEFAULT gen_random_uuid(), instruction_id text, participant_id text, sequence_id bigint,
  idempotency_key text, rail_type text, payload jsonb, next_attempt_at timestamptz DEFAULT now(), created_at timestamptz DEFAULT now(),
  claimed_by text, lease_token uuid, lease_expires_at timestamptz
) WITH (fillfactor = 70);
CREATE INDEX ON bare_pending (next_attempt_at, created_at) WHERE lease_token IS NULL;
CREATE TABLE bare_attempts (
  attempt_id uuid PRIMARY KEY DEFAULT gen_random_uuid(), outbox_id uuid, instruction_id text, participant_id text, sequence_id bigint,
  idempotency_key text, rail_type text, payload jsonb, attempt_no integer, state text, claimed_at timestamptz, completed_at timestamptz,
  rail_reference text, worker_id text, UNIQUE (outbox_id, attempt_no)
)`
const FILL = `
INSERT INTO bare_pending (instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload)
SELECT 'i-' || n, 'p-' || n % 1000, n, 'k-' || n, 'noop', jsonb_build_object('n', n, 'amountMinor', '100', 'currency', 'EUR', 'to', 'a no-op')
FROM generate_series(1, $1::int) n`
const PROCEDURE = `
CREATE PROCEDURE drain_bare(p_batch integer) LANGUAGE plpgsql AS $$
DECLARE
  v_ids uuid[];
BEGIN
  LOOP
    WITH leased AS (
      UPDATE bare_pending SET claimed_by = 'floor', lease_token = gen_random_uuid(), lease_expires_at = clock_timestamp() + interval '60 s'
      WHERE outbox_id = ANY (ARRAY(
        SELECT outbox_id FROM bare_pending WHERE lease_token IS NULL AND next_attempt_at <= clock_timestamp()
        ORDER BY next_attempt_at, created_at LIMIT p_batch FOR UPDATE SKIP LOCKED))
      RETURNING outbox_id
    ) SELECT array_agg(outbox_id) INTO v_ids FROM leased;
    COMMIT;
    EXIT WHEN v_ids IS NULL;
    INSERT INTO bare_attempts (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, attempt_no,
      state, claimed_at, completed_at, rail_reference, worker_id)
    SELECT outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, 1, 'DISPATCHED', clock_timestamp(),
      clock_timestamp(), outbox_id::text, 'floor' FROM bare_pending WHERE outbox_id = ANY (v_ids);
    DELETE FROM bare_pending WHERE outbox_id = ANY (v_ids);
    COMMIT;
  END LOOP;
END $$`
