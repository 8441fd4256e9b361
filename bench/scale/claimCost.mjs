// What one claim costs, inside the server: pages and milliseconds of the function itself, and whether it read a table from end to end.
import { median, quantile } from '../statistics.mjs'

const LARGE_TABLES = [
  'payment_outbox_pending',
  'payment_outbox_identities',
  'payment_outbox_attempts',
  'payment_outbox_events',
]
const WARM_UP = 3

/**
 * Claims again and again on one connection. Standing: each claim is undone, so that all find the same queue. Moving: each is
 * kept, and the next finds the head further on, over what the others left dead, as in a drain.
 */
export async function claimCost(client, { batch, rails = null, calls, moving = false }) {
  // The first claim of a server's life begins an epoch; where each one is undone, each would.
  await client.query(`SELECT FROM claim_outbox_batch(1, 'bench', 1, ARRAY['served-by-nobody'])`)
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
    if (cost.rows !== batch) throw new Error(`a claim of ${batch} got ${cost.rows}: the queue is not what it should be`)
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

/** One execution of a statement: pages found in memory or read, rows, and how long it took without the way to the client. */
export async function explain(client, sql, values = []) {
  const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ${sql}`, values)
  const [{ Plan: plan, 'Execution Time': ms }] = rows[0]['QUERY PLAN']
  return { ms, rows: plan['Actual Rows'], buffers: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'] }
}

/** By PostgreSQL's own counters of this transaction, which do not depend on a plan. */
async function sequentiallyScanned(client) {
  const { rows } = await client.query(
    'SELECT relname FROM pg_stat_xact_user_tables WHERE seq_scan > 0 AND relname = ANY ($1)',
    [LARGE_TABLES],
  )
  return rows.map(({ relname }) => relname)
}
