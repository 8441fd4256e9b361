// Writes the peers section of docs/benchmarks.md and its plot, and defines the goals.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { machine, PAGE, PLOTS, writeSection } from './page.mjs'
import { barPlot } from './plot.mjs'

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
  await writeFile(join(folder, 'peers.svg'), plot(main.medians))
  const servers = debian === undefined ? [main] : [main, debian]
  await writeSection('peers', section({ servers, settings, contenders }), page)
}

function section({ servers, settings, contenders }) {
  const versions = servers.map(({ version }) => `PostgreSQL ${version}`)
  const rates = ['items/s', 'server µs', 'Node.js µs']
  return [
    '## Compared with the peers',
    '',
    'Written by `npm run bench -- --debian`. Symphony and the peers run on one PostgreSQL with `fsync` and `synchronous_commit` on, and on one Node.js.',
    `Each contender has its own process and database. Contenders run in turn; results are medians of ${settings.rounds} rounds.`,
    'Symphony keeps the full ledger, fencing tokens and roles; the peers keep no ledger.',
    '',
    `${new Date().toISOString().slice(0, 10)} · ${machine()} · ${versions.join(' and ')} · ${settings.items.toLocaleString('en')} items`,
    '',
    '| contender | release | declares Node.js | setting |',
    '| --- | --- | --- | --- |',
    ...Object.entries(contenders).map(
      ([name, { version, engine, setting }]) => `| ${name} | ${version} | ${engine ?? ''} | ${setting} |`,
    ),
    '',
    '### Goals',
    '',
    ...head("Symphony's result", 'goal', ...versions),
    ...goalRows(servers),
    '',
    'Batch enqueue cannot reach the rate of a queue without keys: Symphony writes two tables, five index entries and the sequence number of the participant.',
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
  const payment = (part) => servers.map(({ cpu }) => cpu.payment?.symphony[part])
  return [
    ...Object.entries(RATIOS).flatMap(([name, title]) =>
      goalRow(
        title,
        GOALS[name] && name,
        servers.map(({ ratios }) => ratios[name]),
      ),
    ),
    ...goalRow('CPU per payment in the server, enqueue in batches + drain, µs', 'cpuServer', payment('server')),
    ...goalRow('CPU per payment in Node.js, enqueue in batches + drain, µs', 'cpuNode', payment('node')),
    ...goalRow(
      'resident memory during enqueue and drain together, MiB',
      'memory',
      servers.map(({ medians }) => medians.sustained?.symphony.rssMiB),
    ),
  ]
}

function goalRow(title, goal, values) {
  if (values.every((value) => value === undefined)) return []
  const cells = values.map((value) => {
    if (value === undefined || goal === undefined) return value ?? ''
    return `${value}, ${isMet(goal, value) ? 'met' : 'missed'}`
  })
  return [`| ${title} | ${goal === undefined ? '' : goalText(goal)} | ${cells.join(' | ')} |`]
}

function rateRows(servers) {
  return Object.entries(FIGURES).flatMap(([figure, title]) =>
    Object.keys(servers[0].medians[figure] ?? {}).map((name) => {
      const cells = servers.flatMap(({ medians, cpu }) => {
        const { server, node } = cpu[figure][name]
        return [whole(medians[figure][name]), server ?? '', node]
      })
      return `| ${title.replace(', items/s', '')} | ${name} | ${cells.join(' | ')} |`
    }),
  )
}

function otherRows(servers) {
  const [{ medians: first }] = servers
  const rows = (figure, title, textOf) =>
    Object.keys(first[figure] ?? {}).map(
      (name) =>
        `| ${title} | ${name} | ${servers.map(({ medians }) => cellOf(medians[figure]?.[name], textOf)).join(' | ')} |`,
    )
  return [
    ...rows('latency', 'commit → handler start on an idle system, p50, ms', ({ p50 }) => p50.toFixed(2)),
    ...rows('latency', 'commit → handler start on an idle system, p99, ms', ({ p99 }) => p99.toFixed(2)),
    ...rows('sustained', 'enqueue and drain together, items/s', ({ rate }) => whole(rate)),
    ...rows('sustained', 'resident memory during it, MiB', ({ rssMiB }) => rssMiB),
    ...rows('floor', 'three bare statements inside the server, items/s', whole),
  ]
}

function cellOf(value, textOf) {
  return value === undefined ? '' : textOf(value)
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
