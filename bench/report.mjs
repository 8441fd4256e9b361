// docs/benchmarks.md and its plot, from one run. Every number on the page comes from here; nothing is typed in by hand.
import { mkdir, writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'

const PAGE = fileURLToPath(new URL('../docs/benchmarks.md', import.meta.url))
const PLOT = fileURLToPath(new URL('../docs/benchmarks/peers.svg', import.meta.url))

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
  await mkdir(new URL('../docs/benchmarks/', import.meta.url), { recursive: true })
  await writeFile(PLOT, plot(medians))
  await writeFile(PAGE, page({ ratios, medians, settings, contenders, serverVersion }))
}

function page({ ratios, medians, settings, contenders, serverVersion }) {
  const names = Object.keys(contenders)
  const lines = [
    '# Benchmarks',
    '',
    'Written by `npm run bench`: ours and the peers side by side on one PostgreSQL with `fsync` and `synchronous_commit` on, each in a process and a database of its own,',
    `interleaved, medians of ${settings.rounds} rounds. Ours keeps the full ledger with its hash chain, fencing tokens and roles; the peers keep no ledger.`,
    '',
    `${new Date().toISOString().slice(0, 10)} · ${cpus().length} cores (${cpus()[0].model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB · PostgreSQL ${serverVersion} · ${settings.items.toLocaleString('en')} items`,
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

/** Bars, grouped by figure, as text: a reader's theme colours the words. */
function plot(medians) {
  const figures = Object.keys(FIGURES).filter((figure) => medians[figure])
  const bars = figures.flatMap((figure) =>
    Object.entries(medians[figure]).map(([name, value]) => ({ figure, name, value })),
  )
  const most = Math.max(...bars.map(({ value }) => value), 1)
  const shapes = []
  let y = 10
  for (const figure of figures) {
    shapes.push(`<text x="10" y="${y + 14}" font-weight="600">${FIGURES[figure].title}, ${FIGURES[figure].unit}</text>`)
    y += 24
    for (const { name, value } of bars.filter((bar) => bar.figure === figure)) {
      const width = Math.max(1, Math.round((value / most) * 480))
      shapes.push(
        `<text x="120" y="${y + 13}" text-anchor="end">${name}</text>`,
        `<rect x="130" y="${y}" width="${width}" height="18" rx="2" fill="${name === 'symphony' ? '#1f6feb' : '#8b949e'}"/>`,
        `<text x="${136 + width}" y="${y + 13}">${whole(value)}</text>`,
      )
      y += 24
    }
    y += 14
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 ${y}" font-family="system-ui, sans-serif" font-size="13" fill="#6e7781">
<title>Items per second of each contender</title>
${shapes.join('\n')}
</svg>
`
}

function whole(value) {
  return Math.round(value).toLocaleString('en')
}
