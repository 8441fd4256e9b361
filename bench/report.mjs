// The section of docs/benchmarks.md about the peers, and its plot, from one run. Every number in it comes from here; nothing is
// typed in by hand.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { machine, PLOTS, writeSection } from './page.mjs'
import { barPlot } from './plot.mjs'

const FIGURES = {
  drain: { title: 'drain a backlog: claim → no-op rail → recorded', unit: 'items/s', bar: '≥ 1.25', ratio: 'drain' },
  enqueue: { title: 'enqueue one at a time, 16 in flight', unit: 'items/s', bar: '≥ 1.25', ratio: 'enqueue' },
  enqueueBatch: { title: 'enqueue in batches of 1,000', unit: 'items/s', bar: '≥ 1.0', ratio: 'enqueueBatch' },
}
const BARS = {
  drain: '≥ 1.25',
  enqueue: '≥ 1.25',
  enqueueBatch: '≥ 1.0',
  latencyP50: '≤ 1.0',
  latencyP99: '≤ 1.0',
  sustained: '≥ 1.25',
  floor: '≥ 0.6',
}

export async function writeReport({ ratios, medians, settings, contenders, serverVersion }) {
  await mkdir(PLOTS, { recursive: true })
  await writeFile(join(PLOTS, 'peers.svg'), plot(medians))
  await writeSection('peers', section({ ratios, medians, settings, contenders, serverVersion }))
}

function section({ ratios, medians, settings, contenders, serverVersion }) {
  const names = Object.keys(contenders)
  const lines = [
    '## Beside the peers',
    '',
    'Written by `npm run bench`: ours and the peers side by side on one PostgreSQL with `fsync` and `synchronous_commit` on, each in a process and a database of its own,',
    `interleaved, medians of ${settings.rounds} rounds. Ours keeps the full ledger with its hash chain, fencing tokens and roles; the peers keep no ledger.`,
    '',
    `${new Date().toISOString().slice(0, 10)} · ${machine()} · PostgreSQL ${serverVersion} · ${settings.items.toLocaleString('en')} items`,
    '',
    '| contender | release | Node.js | setting |',
    '| --- | --- | --- | --- |',
    ...names.map(
      (name) => `| ${name} | ${contenders[name].version} | ${contenders[name].node} | ${contenders[name].setting} |`,
    ),
    '',
    'Both peers need a newer Node.js than ours does, and get it.',
    '',
    `| figure | ${names.join(' | ')} | ours ÷ the faster peer | goal |`,
    `| --- |${names.map(() => ' ---: |').join('')} ---: | ---: |`,
    ...rows({ ratios, medians, names }),
    '',
    '![Items per second of each contender](benchmarks/peers.svg)',
    '',
  ]
  return lines.join('\n')
}

function rows({ ratios, medians, names }) {
  const lines = []
  const row = (title, values, ratio) =>
    lines.push(`| ${title} | ${values.join(' | ')} | ${ratios[ratio] ?? ''} | ${BARS[ratio]} |`)
  for (const [figure, { title, unit }] of Object.entries(FIGURES)) {
    if (medians[figure])
      row(
        `${title}, ${unit}`,
        names.map((name) => whole(medians[figure][name])),
        figure,
      )
  }
  if (medians.latency) {
    for (const part of ['p50', 'p99']) {
      const values = names.map((name) => medians.latency[name][part].toFixed(2))
      row(`commit → handler start on an idle system, ${part}, ms`, values, `latency${part.toUpperCase()}`)
    }
  }
  if (medians.sustained?.symphony) {
    row(
      'enqueue and drain together, items/s',
      names.map((name) => whole(medians.sustained[name].rate)),
      'sustained',
    )
    lines.push(
      `| resident memory meanwhile, MiB | ${names.map((name) => medians.sustained[name].rssMiB).join(' | ')} | | ours ≤ 150 |`,
    )
  }
  if (medians.floor) {
    lines.push(
      `| the floor: three bare statements inside the server, items/s | ${whole(medians.floor.floor)} | ${names
        .slice(1)
        .map(() => '')
        .join(' | ')} | ${ratios.floor ?? ''} | ≥ 0.6 of it |`,
    )
  }
  return lines
}

function plot(medians) {
  const figures = Object.entries(FIGURES).filter(([figure]) => medians[figure])
  return barPlot({
    title: 'Items per second of each contender',
    groups: figures.map(([figure, { title, unit }]) => ({
      title: `${title}, ${unit}`,
      bars: Object.entries(medians[figure]).map(([name, value]) => ({ name, value, ours: name === 'symphony' })),
    })),
  })
}

function whole(value) {
  return Math.round(value).toLocaleString('en')
}
