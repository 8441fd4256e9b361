// Measures one claim inside the server: pages and milliseconds of the function, and sequential scans.
import { median, quantile } from '../statistics.mjs'

const LARGE_TABLES = [
  'payment_outbox_pending',
  'payment_outbox_identities',
  'payment_outbox_attempts',
  'payment_outbox_events',
]
const WARM_UP = 3

/**
 * Repeats a claim on one connection. By default rolls each claim back, so that all claims see the same queue. With
 * `moving`, commits each claim, so that the next one passes the dead rows of earlier ones, as in a drain.
 */
export async function claimCost(client, { batch, rails = null, calls, moving = false }) {
  // The first claim after a server start begins an epoch. Without this commit, each rolled-back claim would begin it
  // again.
  await client.query(`SELECT FROM claim_outbox_batch(1, 'bench', 1, ARRAY['served-by-none'])`)
  const measured = []
  const scanned = new Set()
  for (let call = 0; call < WARM_UP + calls; call++) {
    await client.query('BEGIN')
    const cost = await explain(
      client,
      `SELECT * FROM claim_outbox_batch(${batch}, 'bench', 600, ${rails === null ? 'NULL' : `ARRAY['${rails.join(`', '`)}']`})`,
    )
    for (const table of await sequentiallyScanned(client)) scanned.add(table)
    await client.query(moving ? 'COMMIT' : 'ROLLBACK')
    if (cost.rows !== batch) throw new Error(`expected a claim of ${batch} items, got ${cost.rows}`)
    if (call >= WARM_UP) measured.push(cost)
  }
  return {
    buffers: median(measured.map((cost) => cost.buffers)),
    ms: median(measured.map((cost) => cost.ms)),
    msP99: quantile(
      measured.map((cost) => cost.ms),
      0.99,
    ),
    scanned: [...scanned],
  }
}

/** Executes a statement once. Returns the pages hit or read, the rows, and the time inside the server. */
export async function explain(client, sql, values = []) {
  const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ${sql}`, values)
  const [{ Plan: plan, 'Execution Time': ms }] = rows[0]['QUERY PLAN']
  return { ms, rows: plan['Actual Rows'], buffers: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'] }
}

/** Returns the large tables that this transaction scanned sequentially, by PostgreSQL's counters. */
async function sequentiallyScanned(client) {
  const { rows } = await client.query(
    'SELECT relname FROM pg_stat_xact_user_tables WHERE seq_scan > 0 AND relname = ANY ($1)',
    [LARGE_TABLES],
  )
  return rows.map(({ relname }) => relname)
}
