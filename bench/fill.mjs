// Inserts millions of rows, in the same state as the SQL functions would leave them. Needs a superuser. Each function
// takes a client whose search_path starts with the deployment's schema.

/** Rows per statement, to limit the memory of the server. */
const ROWS_AT_ONCE = 100_000
const PAYLOAD = `'{"amount": "12.50", "currency": "EUR", "destination": "DE89370400440532013000"}'::jsonb`

/** Additional columns of a queue row in each state, as SQL expressions over the item i. */
export const WAITING = {
  due: {},
  leased: {
    claimed_by: `'another'`,
    lease_token: 'gen_random_uuid()',
    claimed_at: 'now()',
    lease_expires_at: `now() + interval '1 day'`,
  },
  held: { hold_reason: `'to be looked at'`, held_by: `'ann'`, held_at: 'now()' },
  blocked: { ordered: 'true', blocked: 'true' },
  future: { next_attempt_at: `now() + interval '1 day'` },
}

/**
 * Inserts pending items with identities and sequence numbers, by default over a thousand participants. Names start with
 * `prefix`, so that two fills do not collide.
 */
export async function fillQueue(
  client,
  { count, prefix, rail = 'bank', columns = WAITING.due, perParticipant = count / 1_000, olderBy = '0 s' },
) {
  const own = { ordered: 'false', next_attempt_at: 'i.created_at', ...columns }
  const names = Object.keys(own)
  const participants = Math.min(count, Math.ceil(count / perParticipant))
  await insertMany(client, ['payment_outbox_identities', 'payment_outbox_pending'], count, async (from, to) => {
    await client.query(
      `WITH numbered AS MATERIALIZED (
         SELECT uuid_v7() AS outbox_id, $3 || '-' || md5(n::text) AS instruction_id, 'key' AS idempotency_key,
           $3 || '-p-' || 1 + (n - 1) % $4::int AS participant_id, 1 + (n - 1) / $4::int AS sequence_id, $5::text AS rail_type,
           clock_timestamp() - $6::interval AS created_at, ${PAYLOAD} AS payload, ${own.ordered} AS ordered, n
         FROM generate_series($1::int, $2::int) n
       ), item AS MATERIALIZED (${withContentHash('numbered')}), identified AS (${INSERT_IDENTITIES})
       INSERT INTO payment_outbox_pending
         (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, created_at,
           ${names.join(', ')})
       SELECT i.outbox_id, i.instruction_id, i.participant_id, i.sequence_id, i.idempotency_key, i.rail_type, i.payload,
         i.created_at, ${names.map((name) => own[name]).join(', ')}
       FROM item i`,
      [from, to, prefix, participants, rail, olderBy],
    )
  })
  await takeNumbers(client, prefix, participants, count)
}

/**
 * Inserts terminal payments with an identity, one attempt and their totals, one in a hundred FAILED. `perTransaction`
 * limits the payments per transaction: slower, but gives realistic blocks. `onTransaction` runs after each transaction.
 */
export async function fillLedger(
  client,
  { payments, prefix = 'ended', perTransaction, onTransaction = async () => {} },
) {
  const participants = Math.min(1_000, payments)
  const tables = ['payment_outbox_identities', 'payment_outbox_attempts']
  const insert = (from, to) =>
    client.query(
      `WITH numbered AS MATERIALIZED (
         SELECT uuid_v7() AS outbox_id, $3 || '-' || md5(n::text) AS instruction_id, 'key' AS idempotency_key,
           $3 || '-p-' || 1 + (n - 1) % $4::int AS participant_id, 1 + (n - 1) / $4::int AS sequence_id, 'bank' AS rail_type,
           clock_timestamp() AS created_at, ${PAYLOAD} AS payload, false AS ordered, n
         FROM generate_series($1::int, $2::int) n
       ), item AS MATERIALIZED (${withContentHash('numbered')}), identified AS (${INSERT_IDENTITIES}),
       ended AS MATERIALIZED (
         SELECT i.*, uuid_v7() AS attempt_id, gen_random_uuid() AS lease_token, 'TX-' || md5(i.outbox_id::text) AS rail_reference,
           (CASE WHEN i.n % 100 = 0 THEN 'FAILED' ELSE 'DISPATCHED' END)::outbox_attempt_state AS state
         FROM item i
       )
       INSERT INTO payment_outbox_attempts
         (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, attempt_no,
           state, claimed_at, completed_at, rail_reference, latency_ms, worker_id, lease_token, created_at, action,
           outcome_unknown)
       SELECT e.attempt_id, e.outbox_id, e.instruction_id, e.participant_id, e.sequence_id, e.idempotency_key, e.rail_type,
         e.payload, 1, e.state, e.created_at, e.created_at, e.rail_reference, 20, 'worker', e.lease_token, e.created_at,
         'sent', false
       FROM ended e`,
      [from, to, prefix, participants],
    )
  if (perTransaction === undefined) {
    await insertMany(client, tables, payments, insert)
  } else {
    await client.query('SET synchronous_commit = off')
    for (let from = 1; from <= payments; from += perTransaction) {
      await insert(from, Math.min(payments, from + perTransaction - 1))
      await onTransaction()
    }
  }
  await takeNumbers(client, prefix, participants, payments)
  // Inserts totals per minute of two hours, and tallies that are not yet added to them.
  await client.query(
    `INSERT INTO outbox_attempt_totals (minute, dispatched, failed)
     SELECT date_trunc('minute', now()) - n * interval '1 minute', $1::int / 121 * 0.99, $1::int / 121 * 0.01
     FROM generate_series(0, 120) n ON CONFLICT DO NOTHING`,
    [payments],
  )
  await client.query(
    `INSERT INTO outbox_attempt_tallies (recorded_at, dispatched) SELECT now(), 1 FROM generate_series(1, 5000)`,
  )
  // Vacuums, as autovacuum does with old rows.
  await client.query(`VACUUM (FREEZE, ANALYZE) ${tables.join(', ')}, participant_outbox_sequences`)
}

/**
 * Fills the search table and the series of the last 30 days, like the projection of sealed blocks. Returns the names of
 * one item, for searches.
 */
export async function fillSearch(client) {
  await insertMany(client, ['payment_search'], 1, () =>
    client.query(
      `INSERT INTO payment_search (outbox_id, is_message, instruction_id, idempotency_key, participant_id, rail_type, state,
         error_code, rail_reference, returned, amount, currency)
       SELECT i.outbox_id, i.is_message, i.instruction_id, i.idempotency_key, i.participant_id, i.rail_type,
         COALESCE(a.state::text, CASE WHEN p.hold_reason IS NULL THEN 'PENDING' ELSE 'HELD' END), a.error_code, a.rail_reference, false,
         (abs(hashtext(i.instruction_id)) % 10000000) / 100.0, 'EUR'
       FROM payment_outbox_identities i LEFT JOIN payment_outbox_attempts a ON a.outbox_id = i.outbox_id
       LEFT JOIN payment_outbox_pending p ON p.outbox_id = i.outbox_id`,
    ),
  )
  const counts = '10, 9, 1, 0, 1, 0, 0, 0'
  for (const [grain, kept] of Object.entries({ minute: '2 days', hour: '30 days', day: '30 days' })) {
    const starts = `generate_series(date_trunc('${grain}', now() - interval '${kept}', 'UTC'), now(), interval '1 ${grain}')`
    await client.query(
      `INSERT INTO outbox_series SELECT '${grain}', p, s, 'bank', false, ${counts} FROM ${starts} s,
         (SELECT '' AS p UNION ALL SELECT 'ended-p-' || n FROM generate_series(1, 100) n) names`,
    )
    await client.query(
      `INSERT INTO outbox_attempt_series SELECT '${grain}', 'bank', s, e, l, 1 FROM ${starts} s,
         unnest(ARRAY['', 'TIMEOUT', 'AC04']) e, unnest(ARRAY[10, 20, 50, 100, 200, 500]) l`,
    )
  }
  await client.query(
    'VACUUM (FREEZE, ANALYZE) payment_search, outbox_series, outbox_attempt_series, payment_outbox_pending',
  )
  const { rows } = await client.query(
    `SELECT s.outbox_id AS "outboxId", s.instruction_id AS "instructionId", s.participant_id AS "participantId",
       s.rail_reference AS reference
     FROM payment_search s WHERE s.state = 'DISPATCHED' ORDER BY s.outbox_id OFFSET 100 LIMIT 1`,
  )
  const now = new Date()
  const from = new Date(now.getTime() - 86_400_000)
  return { ...rows[0], from: from.toISOString(), to: now.toISOString() }
}

function withContentHash(items) {
  return `SELECT m.*, outbox_content_hash(m.participant_id, m.rail_type, m.payload::text) AS content_hash FROM ${items} m`
}

const INSERT_IDENTITIES = `
  INSERT INTO payment_outbox_identities
    (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, rail_type, ordered, content_hash, created_at)
  SELECT i.outbox_id, i.instruction_id, i.idempotency_key, i.participant_id, i.sequence_id, i.rail_type, i.ordered, i.content_hash,
    i.created_at
  FROM item i`

/** Sets the next sequence number of each participant. */
async function takeNumbers(client, prefix, participants, count) {
  await client.query(
    `INSERT INTO participant_outbox_sequences (participant_id, next_sequence_id)
     SELECT $1 || '-p-' || p, 2 + ($3::int - p) / $2::int FROM generate_series(1, $2::int) p
     ON CONFLICT (participant_id) DO UPDATE SET next_sequence_id = EXCLUDED.next_sequence_id`,
    [prefix, participants, count],
  )
}

/**
 * Inserts in one transaction without triggers, and builds the indexes afterwards, which is several times as fast.
 * Restores the statistics in pg_class, so that a table that was never analysed stays so.
 */
async function insertMany(client, tables, count, insert) {
  const before = await client.query(
    `SELECT c.oid, c.relpages, c.reltuples, c.relallvisible FROM pg_class c
     WHERE c.oid = ANY ($1::regclass[]) OR c.oid IN (SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = ANY ($1::regclass[]))`,
    [tables],
  )
  const setReady = 'UPDATE pg_index SET indisready = $1 WHERE indrelid = ANY ($2::regclass[])'
  await client.query('BEGIN')
  await client.query('SET LOCAL session_replication_role = replica')
  await client.query(setReady, [false, tables])
  for (let from = 1; from <= count; from += ROWS_AT_ONCE) await insert(from, Math.min(count, from + ROWS_AT_ONCE - 1))
  await client.query(setReady, [true, tables])
  await client.query(`SET LOCAL maintenance_work_mem = '512MB'`)
  for (const table of tables) await client.query(`REINDEX TABLE ${table}`)
  await client.query('COMMIT')
  for (const { oid, relpages, reltuples, relallvisible } of before.rows)
    await client.query('UPDATE pg_class SET relpages = $2, reltuples = $3, relallvisible = $4 WHERE oid = $1', [
      oid,
      relpages,
      reltuples,
      relallvisible,
    ])
}
