// How long the status takes with a million rows in the ledger: `npm run bench:status [rows]`. Loads them as superuser into a
// server of its own, reads each status view and the whole of /metrics many times, and prints medians and the worst.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { deploy } from 'symphony-pg/deployment'
import { startEmbedded } from 'symphony-pg/embedded'
import { fillLedger, fillQueue } from './fill.mjs'

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

async function fill(client) {
  const startedMs = performance.now()
  await client.query('SET search_path = symphony')
  await fillLedger(client, { payments: ROWS })
  await fillQueue(client, { count: PENDING, prefix: 'waiting' })
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
