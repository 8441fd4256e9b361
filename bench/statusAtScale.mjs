// Measures the status queries with a million rows in the ledger: `npm run bench:status [rows]`. Fills its own server, then reads each
// status view, and over HTTP /metrics and /v1/status of an API process. Prints the median and the maximum of each.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { deploy } from '../dist/libs/deployment/index.js'
import { startEmbedded } from '@symphony-pg/embedded'
import { fillLedger, fillQueue } from './fill.mjs'
import { temporaryFolder } from './folder.mjs'

const ROWS = Number(process.argv[2] ?? 1_000_000)
const PENDING = 1_000
const READS = 50
const TOKEN = 'bench'

const folder = await temporaryFolder('symphony-status-')
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
  await measureOverHttp(server.url)
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

/** Measures over HTTP, with an API process that has no other client. */
async function measureOverHttp(url) {
  const port = '27420'
  const program = fileURLToPath(new URL('../bin/symphony', import.meta.url))
  const api = spawn(process.execPath, [program, 'api', '--port', port, '--log-level', 'warn'], {
    env: { DATABASE_URL: url, SYMPHONY_ACCESS_TOKEN: TOKEN },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(api, 'exit')
  try {
    await Promise.race([once(api.stdout, 'data'), ended])
    const read = async (path, word) => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { authorization: `Bearer ${TOKEN}` } })
      if (!(await response.text()).includes(word)) throw new Error(`${path} answers ${response.status} without ${word}`)
    }
    await measure('/metrics', () => read('/metrics', 'outbox_pending_depth'))
    await measure('/v1/status, cached', () => read('/v1/status', 'pendingCount'))
    // The API caches an answer for 800 ms, so each of these requests reads the database.
    await measure('/v1/status', () => read('/v1/status', 'pendingCount'), { reads: 20, pauseMs: 900 })
  } finally {
    api.kill('SIGTERM')
    await ended
  }
}

async function measure(name, read, { reads = READS, pauseMs = 0 } = {}) {
  const times = []
  for (let n = 0; n <= reads; n++) {
    if (pauseMs > 0) await sleep(pauseMs)
    const startedMs = performance.now()
    await read()
    // The first call is a warm-up.
    if (n > 0) times.push(performance.now() - startedMs)
  }
  times.sort((a, b) => a - b)
  print(`${name}: median ${times[reads / 2].toFixed(1)} ms, worst ${times.at(-1).toFixed(1)} ms of ${reads}`)
}

function print(line) {
  process.stdout.write(`${line}\n`)
}
