// Requests lists, filters, searches and charts of the API one at a time, with a million pending items and a large
// ledger.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { fillQueue, fillSearch } from '../../fill.mjs'
import { quantile } from '../../statistics.mjs'

const TOKEN = 'bench'
const BOUND_MS = 200
const DAY_MS = 86_400_000

export async function lists({ filledLedger, sizes, calls, print }) {
  const rows = sizes([10_000_000], [2_000]).at(-1)
  const pending = sizes([1_000_000], [2_000]).at(-1)
  const { database, filler, executor } = await filledLedger(rows)
  await fillQueue(filler, { count: pending, prefix: 'listed' })
  await filler.query(
    `UPDATE payment_outbox_pending SET hold_reason = 'REVIEW', held_by = 'bench', held_at = now() WHERE sequence_id % 997 = 0`,
  )
  const example = await fillSearch(filler)
  await executor.query(`SELECT heartbeat_outbox_worker('worker')`)
  const measured = await withApi(database.url, async (read) => {
    const times = []
    for (const path of pathsOf(example)) times.push({ path, p95: await measure(() => read(path), calls) })
    return times.toSorted((left, right) => right.p95 - left.p95)
  })
  for (const { path, p95 } of measured) print(`${p95.toFixed(1)} ms p95 ${path}`)
  const [slowest] = measured
  const size = `${pending.toLocaleString('en')} pending items and ${rows.toLocaleString('en')} payments in the ledger`
  return {
    figures: [
      {
        figure: `the slowest of ${measured.length} lists, filters, searches and charts of the API with ${size}, p95`,
        bound: `≤ ${BOUND_MS} ms`,
        measured: `${slowest.p95.toFixed(1)} ms (${slowest.path.split('?')[0]})`,
        ok: slowest.p95 <= BOUND_MS,
      },
    ],
  }
}

function pathsOf({ outboxId, instructionId, participantId, reference, from, to }) {
  const range = `from=${from}&to=${to}`
  const states = ['DUE', 'SCHEDULED', 'BLOCKED', 'LEASED', 'EXPIRED', 'HELD', 'DISPATCHED', 'FAILED'].map(
    (state) => `/v1/outbox?state=${state}`,
  )
  const periods = [DAY_MS / 24, DAY_MS, 7 * DAY_MS, 30 * DAY_MS].flatMap((ms) => {
    const period = `from=${new Date(Date.parse(to) - ms).toISOString()}&to=${to}`
    const charts = ['/v1/series?', '/v1/series?rail=bank&', `/v1/series?participant=${participantId}&`]
    return [...charts, '/v1/series/rails?', '/v1/series/latency?rail=bank&'].map((chart) => chart + period)
  })
  return [
    '/v1/status',
    '/metrics',
    '/v1/outbox',
    ...states,
    '/v1/outbox?sort=oldest',
    '/v1/outbox?rail=bank',
    `/v1/outbox?participant=${participantId}`,
    `/v1/outbox?state=DISPATCHED&rail=bank&${range}`,
    `/v1/outbox?${range}`,
    '/v1/outbox?currency=EUR&amountMin=100&amountMax=101',
    '/v1/outbox?currency=EUR&sort=smallest',
    `/v1/outbox?q=${instructionId.slice(0, 12)}`,
    `/v1/outbox?q=${reference.slice(0, 12)}`,
    `/v1/outbox?q=${outboxId.slice(0, 13)}`,
    `/v1/outbox?q=${participantId}`,
    '/v1/outbox/counts',
    `/v1/outbox/counts?${range}`,
    `/v1/outbox/counts?participant=${participantId}`,
    `/v1/outbox/${outboxId}`,
    '/v1/dlq',
    `/v1/dlq?${range}`,
    '/v1/holds',
    '/v1/workers',
    '/v1/rails',
    ...periods,
  ]
}

async function measure(read, calls) {
  const times = []
  for (let call = 0; call <= calls / 4; call++) {
    const startedMs = performance.now()
    await read()
    // The first call is a warm-up.
    if (call > 0) times.push(performance.now() - startedMs)
  }
  return quantile(times, 0.95)
}

/** Starts an API process without other clients, and passes the body a function that requests a path. */
async function withApi(url, body) {
  const port = '27420'
  const program = fileURLToPath(new URL('../../../bin/symphony', import.meta.url))
  const api = spawn(process.execPath, [program, 'api', '--port', port, '--log-level', 'warn'], {
    env: { DATABASE_URL: url, SYMPHONY_ACCESS_TOKEN: TOKEN },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(api, 'exit')
  try {
    await Promise.race([once(api.stdout, 'data'), ended])
    return await body(async (path) => {
      for (;;) {
        const response = await fetch(`http://127.0.0.1:${port}${path}`, {
          headers: { authorization: `Bearer ${TOKEN}` },
        })
        const text = await response.text()
        if (response.ok) return
        // 429: more requests than the limit per second.
        if (response.status !== 429) throw new Error(`${path} answers ${response.status}: ${text}`)
        await sleep(1_000)
      }
    })
  } finally {
    api.kill('SIGTERM')
    await ended
  }
}
