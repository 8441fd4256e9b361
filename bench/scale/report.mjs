// Writes the scale section of docs/benchmarks.md and its plots. Keeps the last result of each case in
// docs/benchmarks/scale.json, so that one case can be measured again alone. Every row names its run.
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PAGE, PLOTS, writeSection } from '../page.mjs'
import { CASES } from './cases.mjs'

export async function writeReport(measured, { page = PAGE, folder = PLOTS } = {}) {
  await mkdir(folder, { recursive: true })
  const file = join(folder, 'scale.json')
  const kept = { ...(await readJson(file)), ...Object.fromEntries(measured.map(withoutPlots)) }
  for (const { plots = {} } of measured)
    for (const [name, svg] of Object.entries(plots)) await writeFile(join(folder, `${name}.svg`), svg)
  await writeFile(file, `${JSON.stringify(kept, null, 2)}\n`)
  await writeSection('scale', section(kept), page)
}

function withoutPlots({ name, plots = {}, ...result }) {
  const titles = Object.entries(plots).map(([plot, svg]) => [plot, /<title>(.*)<\/title>/.exec(svg)?.[1] ?? plot])
  return [name, { ...result, plots: Object.fromEntries(titles) }]
}

function section(kept) {
  const names = Object.keys(CASES).filter((name) => kept[name] !== undefined)
  const runs = [...new Set(names.map((name) => kept[name].run))]
  const rows = names.flatMap((name) => {
    const { figures, run, reduced } = kept[name]
    return figures.map(
      ({ figure, bound, measured, ok }) =>
        `| ${figure} | ${bound} | ${measured} | ${ok ? 'yes' : 'no'}${reduced ? ', at a reduced size' : ''} | ${runs.indexOf(run) + 1} |`,
    )
  })
  return [
    '## How cost grows',
    '',
    'Written by `npm run bench:scale`. Buffers and times of a function are those that EXPLAIN reports inside the server; a buffer is a page of 8 kB.',
    '',
    ...runs.map((run, n) => `${n + 1}. ${run}`),
    '',
    '| case | bound | measured | met | run |',
    '| --- | --- | --- | --- | ---: |',
    ...rows,
    '',
    ...names.flatMap((name) =>
      Object.entries(kept[name].plots).map(([plot, title]) => `![${title}](benchmarks/${plot}.svg)\n`),
    ),
  ].join('\n')
}

async function readJson(file) {
  try {
    return JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    if (error.code === 'ENOENT') return {}
    throw error
  }
}
