// Measures the floor: the minimum cost of an item on this server. Three plain statements inside the server lease 500
// items, insert them into the ledger and delete them. They use the product's tables and indexes, without checks, tokens
// or round trips.
import { createRequire } from 'node:module'
import { deploy } from '../dist/libs/deployment/index.js'

const pg = createRequire(import.meta.url)('pg')

export async function floorPerSecond(url, count) {
  await deploy({ url })
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query('SET search_path = symphony')
    await client.query(FILL, [count])
    await client.query('VACUUM ANALYZE payment_outbox_pending')
    await client.query(PROCEDURE)
    const startedMs = performance.now()
    await client.query('CALL drain_bare(500)')
    return count / ((performance.now() - startedMs) / 1_000)
  } finally {
    await client.end()
  }
}

const FILL = `
INSERT INTO payment_outbox_pending (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload)
SELECT uuid_v7(), 'i-' || n, 'p-' || n % 1000, n, 'k-' || n, 'noop',
  jsonb_build_object('n', n, 'amountMinor', '100', 'currency', 'EUR', 'to', 'a no-op')
FROM generate_series(1, $1::int) n`
const PROCEDURE = `
CREATE PROCEDURE drain_bare(p_batch integer) LANGUAGE plpgsql AS $$
DECLARE
  v_ids uuid[];
BEGIN
  LOOP
    WITH leased AS (
      UPDATE payment_outbox_pending
      SET claimed_by = 'floor', lease_token = gen_random_uuid(), claimed_at = clock_timestamp(),
        lease_expires_at = clock_timestamp() + interval '60 s'
      WHERE outbox_id = ANY (ARRAY(
        SELECT outbox_id FROM payment_outbox_pending
        WHERE rail_type = 'noop' AND NOT is_message AND lease_token IS NULL AND hold_reason IS NULL AND NOT blocked AND next_attempt_at <= clock_timestamp()
        ORDER BY rail_type, is_message, next_attempt_at, created_at, sequence_id LIMIT p_batch FOR UPDATE SKIP LOCKED))
      RETURNING outbox_id
    ) SELECT array_agg(outbox_id) INTO v_ids FROM leased;
    COMMIT;
    EXIT WHEN v_ids IS NULL;
    INSERT INTO payment_outbox_attempts
      (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, attempt_no, state,
        claimed_at, completed_at, rail_reference, worker_id, lease_token, action, outcome_unknown)
    SELECT uuid_v7(), outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, 1, 'DISPATCHED',
      claimed_at, clock_timestamp(), outbox_id::text, claimed_by, lease_token, 'sent', false
    FROM payment_outbox_pending WHERE outbox_id = ANY (v_ids);
    DELETE FROM payment_outbox_pending WHERE outbox_id = ANY (v_ids);
    COMMIT;
  END LOOP;
END $$`
