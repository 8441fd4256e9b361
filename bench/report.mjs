// Writes the peers section of docs/benchmarks.md and its plot, and defines the goals. The section shows the medians of
// the latest runs, which docs/benchmarks/peers.json keeps.
import { readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { latestRuns, machine, PAGE, PLOTS, readRuns, runId, writeSection } from './page.mjs'
import { barPlot } from './plot.mjs'
import { combined, median } from './statistics.mjs'

const FIGURES = {
  drain: 'drain a backlog: claim → no-op rail → recorded, items/s',
  enqueue: 'enqueue one at a time, 16 in flight, items/s',
  enqueueBatch: 'enqueue in batches of 1,000, items/s',
}
const RATIOS = {
  drain: 'drain a backlog ÷ the faster peer',
  enqueue: 'enqueue one at a time ÷ the faster peer',
  enqueueBatch: 'enqueue in batches ÷ the faster peer',
  enqueueBatchKeyed: 'enqueue in batches ÷ the faster pg-boss with a key',
  latencyP50: 'commit → handler start, p50 ÷ the faster peer',
  latencyP99: 'commit → handler start, p99 ÷ the faster peer',
  sustained: 'enqueue and drain together ÷ the faster peer',
  floor: 'drain a backlog ÷ the floor',
}

/** Node.js that Symphony declares. No run records it: runs with other data about a contender are not comparable. */
const { engines } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))

/** Goals for the ratios, the CPU per payment in microseconds and the worker's memory in MiB. The floor has no goal. */
export const GOALS = {
  drain: { least: 1.25 },
  enqueue: { least: 1.5 },
  enqueueBatch: { least: 0.65 },
  enqueueBatchKeyed: { least: 1 },
  latencyP50: { most: 1 },
  latencyP99: { most: 1 },
  sustained: { least: 0.9 },
  cpuServer: { most: 77 },
  cpuNode: { most: 40 },
  memory: { most: 150 },
}

export function goalText(name) {
  const { least, most } = GOALS[name]
  return least === undefined ? `≤ ${most}` : `≥ ${least}`
}

export function isMet(name, value) {
  const { least = -Infinity, most = Infinity } = GOALS[name]
  return value >= least && value <= most
}

/** Writes the section and its plot. `debian` is the summary for Debian's server, if measured. */
export async function writeReport({ main, debian, settings, contenders }, { page = PAGE, folder = PLOTS } = {}) {
  await mkdir(folder, { recursive: true })
  const file = join(folder, 'peers.json')
  const servers = [main, debian].filter((server) => server !== undefined).map(withoutRounds)
  const run = { run: runId(), machine: machine(), items: settings.items, rounds: settings.rounds, contenders, servers }
  const runs = latestRuns((await readRuns(file)).runs ?? [], run, conditionsOf)
  await writeFile(file, `${JSON.stringify({ runs }, null, 2)}\n`)
  const summaries = servers.map((_, n) => overRuns(runs.map((each) => each.servers[n])))
  await writeFile(join(folder, 'peers.svg'), plot(summaries[0].medians))
  await writeSection('peers', section(summaries, runs), page)
}

function withoutRounds({ version, ratios, medians, cpu }) {
  return { version, ratios, medians, cpu }
}

/** Returns what comparable runs have in common: machine, servers, contenders, sizes and figures. */
function conditionsOf({ machine: computer, items, rounds, contenders, servers }) {
  const figures = servers.map(({ version, medians }) => [version, Object.keys(medians)])
  return JSON.stringify([computer, items, rounds, contenders, figures])
}

/** Returns the medians over the runs, and under `spread` the least and the greatest of each value. */
function overRuns(summaries) {
  const values = summaries.map(({ ratios, medians, cpu }) => ({ ratios, medians, cpu }))
  return {
    version: summaries[0].version,
    ...combined(values, median),
    spread: combined(values, (each) => [Math.min(...each), Math.max(...each)]),
  }
}

function section(servers, runs) {
  const { items, rounds, contenders, machine: computer } = runs.at(-1)
  const versions = servers.map(({ version }) => `PostgreSQL ${version}`)
  const rates = ['items/s', 'server µs', 'Node.js µs']
  return [
    '## Compared with the peers',
    '',
    'Written by `npm run bench -- --debian`. Symphony and the peers run on one PostgreSQL with `fsync` and `synchronous_commit` on, and on one Node.js.',
    `Each contender has its own process and database. Contenders run in turn; a run takes medians of ${rounds} rounds.`,
    'The page shows the medians of its runs, with the least and the greatest result in brackets.',
    'Before a drain, VACUUM ANALYZE runs in the database of each contender.',
    'Symphony keeps the full ledger, fencing tokens and roles; the peers keep no ledger.',
    'The peers run on the same Node.js as Symphony, also where they declare a newer one ([decision](internals/decisions/tests.md#benchmarks-same-nodejs-for-peers)).',
    ...(servers.length > 1
      ? ['"Enqueue and drain together" and its memory are measured on the first server only.']
      : []),
    '',
    `${computer} · ${versions.join(' and ')} · ${items.toLocaleString('en')} items`,
    '',
    ...runs.map(({ run }, n) => `${n + 1}. ${run}`),
    '',
    '| contender | release | declares Node.js | setting |',
    '| --- | --- | --- | --- |',
    ...Object.entries(contenders).map(
      ([name, { version, engine, setting }]) => `| ${name} | ${version} | ${engine ?? engines.node} | ${setting} |`,
    ),
    '',
    '### Goals',
    '',
    ...head("Symphony's result", 'goal', ...versions),
    ...goalRows(servers),
    '',
    'Batch enqueue cannot reach the rate of a queue without keys: Symphony writes two tables, eight index entries and the sequence number of the participant.',
    '',
    '### Rates and CPU per item',
    '',
    'Server is the CPU time of all client backends of the contender (`/proc/PID/schedstat`), without the session that seals the ledger. Node.js is the CPU time of its process (`process.cpuUsage()`).',
    ...(servers.every(({ cpu }) => hasServerCpu(cpu))
      ? []
      : ['This system has no schedstat, so the server’s columns are empty.']),
    '',
    ...head('figure', 'contender', ...versions.flatMap((version) => rates.map((rate) => `${rate}, ${version}`))),
    ...rateRows(servers),
    '',
    '### Latency, both at once, the floor',
    '',
    ...head('figure', 'contender', ...versions),
    ...otherRows(servers),
    '',
    '![Items per second of each contender](benchmarks/peers.svg)',
    '',
  ].join('\n')
}

function head(...cells) {
  return [`| ${cells.join(' | ')} |`, `|${cells.map((_, n) => (n < 2 ? ' --- |' : ' ---: |')).join('')}`]
}

function goalRows(servers) {
  const valuesOf = (read) => servers.map((server) => ({ value: read(server), spread: read(server.spread) }))
  const payment = (part) => valuesOf(({ cpu }) => cpu.payment?.symphony[part])
  return [
    ...Object.entries(RATIOS).flatMap(([name, title]) =>
      goalRow(
        title,
        GOALS[name] && name,
        valuesOf(({ ratios }) => ratios[name]),
      ),
    ),
    ...goalRow('CPU per payment in the server, enqueue in batches + drain, µs', 'cpuServer', payment('server')),
    ...goalRow('CPU per payment in Node.js, enqueue in batches + drain, µs', 'cpuNode', payment('node')),
    ...goalRow(
      'resident memory during enqueue and drain together, MiB',
      'memory',
      valuesOf(({ medians }) => medians.sustained?.symphony.rssMiB),
    ),
  ]
}

function goalRow(title, goal, cells) {
  if (cells.every(({ value }) => value === undefined)) return []
  const texts = cells.map(({ value, spread }) => {
    if (value === undefined) return ''
    const verdict = goal === undefined ? '' : `, ${isMet(goal, value) ? 'met' : 'missed'}`
    return `${withSpread(value, spread)}${verdict}`
  })
  return [`| ${title} | ${goal === undefined ? '' : goalText(goal)} | ${texts.join(' | ')} |`]
}

function withSpread(value, [least, most], textOf = String) {
  return least === most ? textOf(value) : `${textOf(value)} (${textOf(least)} to ${textOf(most)})`
}

function rateRows(servers) {
  return Object.entries(FIGURES).flatMap(([figure, title]) =>
    Object.keys(servers[0].medians[figure] ?? {}).map((name) => {
      const cells = servers.flatMap(({ medians, cpu, spread }) => {
        const { server, node } = cpu[figure][name]
        return [withSpread(medians[figure][name], spread.medians[figure][name], whole), server ?? '', node]
      })
      return `| ${title.replace(', items/s', '')} | ${name} | ${cells.join(' | ')} |`
    }),
  )
}

function otherRows(servers) {
  const rows = (figure, title, part, textOf) =>
    Object.keys(servers[0].medians[figure] ?? {}).map((name) => {
      const valueOf = ({ medians }) => part.reduce((value, key) => value?.[key], medians[figure]?.[name])
      const cells = servers.map((server) =>
        valueOf(server) === undefined ? '' : withSpread(valueOf(server), valueOf(server.spread), textOf),
      )
      return `| ${title} | ${name} | ${cells.join(' | ')} |`
    })
  return [
    ...rows('latency', 'commit → handler start on an idle system, p50, ms', ['p50'], hundredths),
    ...rows('latency', 'commit → handler start on an idle system, p99, ms', ['p99'], hundredths),
    ...rows('sustained', 'enqueue and drain together, items/s', ['rate'], whole),
    ...rows('sustained', 'resident memory during it, MiB', ['rssMiB'], String),
    ...rows('floor', 'three bare statements inside the server, items/s', [], whole),
  ]
}

function hundredths(ms) {
  return ms.toFixed(2)
}

function hasServerCpu({ drain, enqueue, enqueueBatch }) {
  const figures = [drain, enqueue, enqueueBatch].filter((figure) => figure !== undefined)
  return figures.every((figure) => Object.values(figure).every(({ server }) => server !== undefined))
}

function plot(medians) {
  const figures = Object.entries(FIGURES).filter(([figure]) => medians[figure])
  return barPlot({
    title: 'Items per second of each contender',
    groups: figures.map(([figure, title]) => ({
      title,
      bars: Object.entries(medians[figure]).map(([name, value]) => ({ name, value, ours: name === 'symphony' })),
    })),
  })
}

function whole(value) {
  return Math.round(value).toLocaleString('en')
}
