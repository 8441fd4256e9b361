// `npm run bench` measures Symphony and its peers on one PostgreSQL (fsync on) and one Node.js, interleaved, and takes
// the median of several rounds. Peers also run with an idempotency key, because Symphony always has one.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { startEmbedded } from '@symphony-pg/embedded'
import { startContender } from './contenderProcess.mjs'
import { floorPerSecond } from './floor.mjs'
import { temporaryFolder } from './folder.mjs'
import { GOALS, goalText, isMet, writeReport } from './report.mjs'
import { quantile } from './statistics.mjs'
import { rounded, summarise } from './summary.mjs'

const pg = createRequire(import.meta.url)('pg')
const PEERS = fileURLToPath(new URL('peers/', import.meta.url))
const FIGURES = ['enqueueBatch', 'drain', 'enqueue', 'latency', 'sustained', 'floor']
/** The only figures that are measured for a peer with an idempotency key. */
const KEYED_FIGURES = new Set(['enqueueBatch', 'drain'])
const DEBIAN = '/usr/lib/postgresql'

const USAGE = `Usage: npm run bench -- [options]
  --rounds N     number of rounds (default 3)
  --items N      items of each drain and batch enqueue (default 100000)
  --sustained S  seconds of enqueue and drain together, measured only in the first round (default 300); 0 omits it
  --only A,B     some of drain, enqueue, enqueueBatch, latency, sustained, floor
  --samples N    latency samples (default 300)
  --debian       measures each round also on Debian's newest installed PostgreSQL, which is built with -O2
  --without-peers
                 measures only Symphony; installs nothing and does not write the page
  --json         the last line is one JSON object with \`ratios\`, \`medians\` and \`cpu\` (microseconds per item)
  --no-write     does not write docs/benchmarks.md; neither does a run with --only
  --help         prints this text`

const { given, settings } = optionsOrExit()
const OURS = { name: 'symphony', module: new URL('symphony.mjs', import.meta.url) }
const CONTENDERS = given['without-peers'] ? [OURS] : [OURS, ...peers()]

let databases = 0
const folder = await temporaryFolder('symphony-bench-')
const servers = []
try {
  servers.push(await startServer('server'))
  if (given.debian) servers.push(await startServer('debian', debianBinaries()))
  const measured = await measure()
  const [main, debian] = servers.map(({ version }, n) => ({ version, ...summarise(measured.rounds[n], CONTENDERS) }))
  if (given.write && given.only === undefined && CONTENDERS.length > 1) {
    await writeReport({ main, debian, settings, contenders: measured.about })
  }
  if (given.json) print(JSON.stringify({ ...main, ...(debian === undefined ? {} : { debian }) }))
  else print([main, ...(debian === undefined ? [] : [debian])].map(table).join('\n\n'))
} finally {
  for (const { stop } of servers) await stop()
  await rm(folder, { recursive: true, force: true })
}

async function startServer(name, binaries) {
  const server = await startEmbedded({ dataDir: join(folder, name), binaries })
  return { url: server.url, stop: server.stop, version: await serverVersion(server.url) }
}

/** Returns the folder of the newest PostgreSQL from Debian's packages. */
function debianBinaries() {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).map(Number) : []
  const newest = Math.max(...versions.filter((version) => existsSync(join(DEBIAN, String(version), 'bin', 'postgres'))))
  if (newest === -Infinity) {
    throw new Error(`--debian: no server under ${DEBIAN}. Install one with: apt-get install postgresql`)
  }
  return join(DEBIAN, String(newest))
}

/** Runs all contenders in each round, each time in another order, so that noise of the machine affects all of them. */
async function measure() {
  const results = { about: {}, rounds: servers.map(() => []) }
  for (let round = 0; round < settings.rounds; round++) {
    for (const [n, server] of servers.entries()) {
      print(`round ${round + 1}, PostgreSQL ${server.version}`)
      // Measures the sustained load once, on the first server, because it takes long.
      const figures = settings.figures.filter((figure) => figure !== 'sustained' || (round === 0 && n === 0))
      results.rounds[n].push(await measureRound(server.url, round, figures, results.about))
    }
  }
  return results
}

async function measureRound(serverUrl, round, wanted, about) {
  const order = CONTENDERS.map((_, n) => CONTENDERS[(n + round) % CONTENDERS.length])
  const running = []
  const figures = {}
  try {
    for (const contender of order) {
      const url = await freshDatabase(serverUrl)
      const started = await startContender(contender, url)
      running.push({ contender, url, ...started })
      about[contender.name] ??= { ...(await started.ask('about')), engine: contender.engine }
    }
    for (const [n, figure] of wanted.entries()) {
      if (figure === 'floor') {
        figures.floor = { floor: await floorPerSecond(await freshDatabase(serverUrl), settings.items) }
      } else {
        figures[figure] = {}
        for (const { contender, url, ask } of running) {
          if (takesPart(contender, figure)) figures[figure][contender.name] = await run(figure, url, ask)
        }
      }
      print(`  ${figure}: ${lineOf(figures[figure])}`)
      // Ends contenders that no later figure needs, because the connections of all could reach max_connections.
      const later = wanted.slice(n + 1)
      for (const { contender, end } of running) {
        if (!later.some((each) => takesPart(contender, each))) await end()
      }
    }
  } finally {
    for (const { end } of running) await end()
  }
  return figures
}

function takesPart({ key }, figure) {
  return key === undefined || KEYED_FIGURES.has(figure)
}

async function run(figure, url, ask) {
  const { items, sustainedSeconds } = settings
  switch (figure) {
    case 'enqueueBatch': {
      const rate = await ask('enqueueBatch', { count: items, size: 1_000 })
      // Empties the queue for the next measurement.
      if (!settings.figures.includes('drain')) await ask('drain', { count: items })
      return rate
    }
    case 'drain':
      if (!settings.figures.includes('enqueueBatch')) await ask('enqueueBatch', { count: items, size: 1_000 })
      await settle(url)
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
      return ask('sustained', { seconds: sustainedSeconds })
  }
}

async function serverVersion(url) {
  const { rows } = await execute(url, 'SHOW server_version')
  return rows[0].server_version
}

/**
 * Does for each contender what autovacuum does in time. Otherwise the rate of a drain depends on whether autovacuum has
 * analysed the new backlog: 8,000 or 20,000 items per second of one peer.
 */
function settle(url) {
  return execute(url, 'VACUUM ANALYZE', 'CHECKPOINT')
}

/** Runs statements one after the other and returns the last result. */
async function execute(url, ...statements) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  let result
  for (const statement of statements) result = await client.query(statement)
  await client.end()
  return result
}

async function freshDatabase(serverUrl) {
  const name = `bench_${(databases += 1)}`
  // Runs a checkpoint now. Otherwise one for the earlier writes could run during the next measurement.
  await execute(serverUrl, `CREATE DATABASE ${name}`, 'CHECKPOINT')
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

function peers() {
  installPeers()
  return [
    { peer: 'graphile-worker', path: 'peers/graphileWorker.mjs', keys: [undefined, 'jobKey'] },
    { peer: 'pg-boss', path: 'peers/pgBoss.mjs', keys: [undefined, 'id', 'singletonKey'] },
  ].flatMap(({ peer, path, keys }) => {
    const { engines } = JSON.parse(readFileSync(join(PEERS, 'node_modules', peer, 'package.json'), 'utf8'))
    return keys.map((key) => ({
      name: key === undefined ? peer : `${peer}, ${key}`,
      peer,
      key,
      module: new URL(path, import.meta.url),
      engine: engines.node,
    }))
  })
}

/** Installs the peers at first use. Their own lockfile keeps them out of Symphony's dependencies. */
function installPeers() {
  if (existsSync(join(PEERS, 'node_modules', 'pg-boss'))) return
  print('installing the peers into bench/peers')
  const { status } = spawnSync('npm', ['ci', '--ignore-scripts', '--no-fund', '--no-audit'], {
    cwd: PEERS,
    stdio: 'inherit',
  })
  if (status !== 0) throw new Error('npm ci in bench/peers failed: see the messages above')
}

function table({ version, ratios, medians, cpu }) {
  const lines = [`PostgreSQL ${version}`]
  for (const [figure, values] of Object.entries(medians)) {
    for (const [name, value] of Object.entries(values)) {
      const used = cpu[figure]?.[name]
      lines.push(
        `${figure.padEnd(14)}${name.padEnd(25)}${textOf(value)}${used === undefined ? '' : `  ${cpuText(used)}`}`,
      )
    }
  }
  if (cpu.payment) {
    lines.push('', `enqueueBatch + drain, CPU of ours: ${cpuText(cpu.payment.symphony)}`)
    lines.push(`  goal: server ${goalText('cpuServer')} µs, Node.js ${goalText('cpuNode')} µs`)
    if (cpu.payment.symphony.server === undefined)
      lines.push('  No CPU time of the server: /proc/PID/schedstat is missing.')
  }
  lines.push('')
  for (const [name, ratio] of Object.entries(ratios)) {
    const goal = GOALS[name] === undefined ? '' : `goal ${goalText(name)}: ${isMet(name, ratio) ? 'met' : 'missed'}`
    lines.push(`${name.padEnd(19)}${String(ratio).padEnd(8)}${goal}`.trimEnd())
  }
  return lines.join('\n')
}

function cpuText({ server, node }) {
  return `${server === undefined ? '' : `server ${server} µs, `}Node.js ${node} µs per item`
}

function textOf(value) {
  return typeof value === 'object' ? JSON.stringify(rounded(value)) : String(Math.round(value))
}

function lineOf(values) {
  return Object.entries(values)
    .map(([name, value]) => `${name} ${textOf(value)}`)
    .join('; ')
}

/** Prints how to call the command if the options are invalid. */
function optionsOrExit() {
  try {
    return readOptions()
  } catch (error) {
    process.stderr.write(`${error.message}\n\n${USAGE}\n`)
    process.exit(2)
  }
}

function readOptions() {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '3' },
      items: { type: 'string', default: '100000' },
      sustained: { type: 'string', default: '300' },
      only: { type: 'string' },
      samples: { type: 'string', default: '300' },
      debian: { type: 'boolean', default: false },
      'without-peers': { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      write: { type: 'boolean', default: true },
      help: { type: 'boolean', default: false },
    },
    allowNegative: true,
  })
  if (values.help) {
    print(USAGE)
    process.exit(0)
  }
  const sizes = {
    rounds: positive('rounds', values.rounds),
    items: positive('items', values.items),
    sustainedSeconds: values.sustained === '0' ? 0 : positive('sustained', values.sustained),
    latencySamples: positive('samples', values.samples),
    figures: values.only === undefined ? FIGURES : inOrder(values.only.split(',').map(knownFigure)),
  }
  if (sizes.sustainedSeconds === 0) sizes.figures = sizes.figures.filter((figure) => figure !== 'sustained')
  return { given: values, settings: sizes }
}

function positive(name, text) {
  const number = Number(text)
  if (!Number.isSafeInteger(number) || number < 1)
    throw new Error(`--${name}: expected a positive whole number, got "${text}"`)
  return number
}

/** Returns the figures in fixed order, because a drain needs the items of a batch enqueue. */
function inOrder(figures) {
  return FIGURES.filter((figure) => figures.includes(figure))
}

function knownFigure(name) {
  if (!FIGURES.includes(name)) throw new Error(`--only: expected some of ${FIGURES.join(', ')}, got "${name}"`)
  return name
}

function print(text) {
  process.stdout.write(`${text}\n`)
}
