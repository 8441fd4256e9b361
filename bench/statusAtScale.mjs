// How long the status takes with a million rows in the ledger: `npm run bench:status [rows]`. Loads them as superuser into a
// server of its own, reads each status view and the whole of /metrics many times, and prints medians and the worst.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { deploy } from 'symphony-pg/deployment'
import { startEmbedded } from 'symphony-pg/embedded'

const ROWS = Number(process.argv[2] ?? 1_000_000)
const PENDING = 1_000
const LOOKS = 50
const TOKEN = 'bench'

const folder = await mkdtemp(join(tmpdir(), 'symphony-status-'))
const server = await startEmbedded({ dataDir: join(folder, 'server') })
try {
  await deploy({ url: server.url })
  const client = new Client({ connectionString: server.url })
  await client.connect()
  try {
    await fill(client)
    const views = ['outbox', 'inbox', 'scheduler', 'lease'].map((name) => `supervisor_${name}_status`)
    for (const view of views) await measure(view, () => client.query(`SELECT * FROM symphony.${view}`))
  } finally {
    await client.end()
  }
  await measureMetrics(server.url)
} finally {
  await server.stop()
  await rm(folder, { recursive: true })
}

/** Ended payments with their whole past, in batches, so that a small machine bears it. Hashes are of the right length only. */
async function fill(client) {
  const startedMs = performance.now()
  await client.query(`SET synchronous_commit = off; SET search_path = symphony`)
  const size = 100_000
  for (let from = 1; from <= ROWS; from += size) {
    const to = Math.min(ROWS, from + size - 1)
    await client.query(
      `WITH item AS (
         INSERT INTO payment_outbox_identities
           (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, rail_type, content_hash, row_hash)
         SELECT uuid_v7(), 'i-' || n, 'k', 'p-' || n % 500, n, 'rail', sha256('x'), sha256('y') FROM generate_series($1::int, $2::int) n
         RETURNING *
       )
       INSERT INTO payment_outbox_attempts
         (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, attempt_no,
           state, claimed_at, completed_at, rail_reference, latency_ms, worker_id, lease_token, prev_hash, row_hash)
       SELECT uuid_v7(), i.outbox_id, i.instruction_id, i.participant_id, i.sequence_id, i.idempotency_key, i.rail_type,
         '{"amount": "12.50", "currency": "EUR"}', 1,
         (CASE WHEN i.sequence_id % 100 = 0 THEN 'FAILED' ELSE 'DISPATCHED' END)::outbox_attempt_state,
         now(), now(), 'r', 20, 'w', gen_random_uuid(), i.row_hash, sha256('z')
       FROM item i`,
      [from, to],
    )
  }
  // As the functions would have left them: totals of two hours by the minute, and the tail not folded yet.
  await client.query(
    `INSERT INTO outbox_attempt_totals (minute, dispatched, failed)
     SELECT date_trunc('minute', now()) - n * interval '1 minute', $1::int / 121 * 0.99, $1::int / 121 * 0.01 FROM generate_series(0, 120) n`,
    [ROWS],
  )
  await client.query(
    `INSERT INTO outbox_attempt_tallies (recorded_at, dispatched) SELECT now(), 1 FROM generate_series(1, 5000)`,
  )
  await client.query(
    `SELECT count(*) FROM enqueue_payment_outbox_batch(
       (SELECT array_agg('q-' || n) FROM generate_series(1, ${PENDING}) n), array_fill('p'::text, ARRAY[${PENDING}]),
       array_fill('k'::text, ARRAY[${PENDING}]), array_fill('rail'::text, ARRAY[${PENDING}]), array_fill('{}'::jsonb, ARRAY[${PENDING}]))`,
  )
  await client.query('VACUUM ANALYZE')
  print(`${ROWS} rows of the ledger loaded in ${Math.round((performance.now() - startedMs) / 1_000)} s`)
}

/** Over HTTP, as Prometheus does, from a worker-less process that serves the page. */
async function measureMetrics(url) {
  const { openDatabase } = await import('symphony-pg')
  const { createHttpServer, MetricsPage } = await import('symphony-pg/http')
  const { Metrics } = await import('symphony-pg/observability')
  const { readSystemStatus } = await import('../dist/libs/cli/readSystemStatus.js')
  const { pino } = await import('pino')
  const database = openDatabase({ url })
  const metrics = new MetricsPage(new Metrics({ version: 'bench' }).registry, () => readSystemStatus(database))
  const http = createHttpServer({
    log: pino({ level: 'silent' }),
    accessToken: TOKEN,
    isReady: async () => true,
    metrics,
  })
  const address = await http.listen({ host: '127.0.0.1', port: 0 })
  await measure('/metrics', async () => {
    const response = await fetch(`${address}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } })
    if (!(await response.text()).includes('outbox_pending_depth')) throw new Error('the gauges are missing')
  })
  await http.close()
  await database.close()
}

async function measure(name, look) {
  const times = []
  for (let n = 0; n <= LOOKS; n++) {
    const startedMs = performance.now()
    await look()
    // The first one warms up.
    if (n > 0) times.push(performance.now() - startedMs)
  }
  times.sort((a, b) => a - b)
  print(`${name}: median ${times[LOOKS / 2].toFixed(1)} ms, worst ${times.at(-1).toFixed(1)} ms of ${LOOKS}`)
}

function print(line) {
  process.stdout.write(`${line}\n`)
}
