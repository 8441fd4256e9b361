// Writes the scale section of docs/benchmarks.md and its plots. Keeps the latest runs of each case in
// docs/benchmarks/scale.json, so that one case can be measured again alone. Every row names its runs.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { latestRuns, PAGE, PLOTS, readRuns, writeSection } from '../page.mjs'
import { CASES } from './cases.mjs'

export async function writeReport(measured, { page = PAGE, folder = PLOTS } = {}) {
  await mkdir(folder, { recursive: true })
  const file = join(folder, 'scale.json')
  const kept = await readRuns(file)
  for (const result of measured)
    kept[result.name] = latestRuns(kept[result.name] ?? [], withTitles(result), conditionsOf)
  for (const { plots = {} } of measured)
    for (const [name, svg] of Object.entries(plots)) await writeFile(join(folder, `${name}.svg`), svg)
  await writeFile(file, `${JSON.stringify(kept, null, 2)}\n`)
  await writeSection('scale', section(kept), page)
}

/** Returns what comparable runs have in common: machine, server, size and figures. */
function conditionsOf({ machine, reduced, figures }) {
  return JSON.stringify([machine, reduced, figures.map(({ figure, bound }) => [figure, bound])])
}

/** Keeps the titles of the plots instead of the plots. */
function withTitles({ run, machine, reduced, figures, plots = {} }) {
  const titles = Object.entries(plots).map(([plot, svg]) => [plot, /<title>(.*)<\/title>/.exec(svg)?.[1] ?? plot])
  return { run, machine, reduced, figures, plots: Object.fromEntries(titles) }
}

function section(kept) {
  const names = Object.keys(CASES).filter((name) => kept[name] !== undefined)
  // Begins with the time, so this is the order of time.
  const all = [...new Set(names.flatMap((name) => kept[name].map(titleOf)))].toSorted((one, other) =>
    one.localeCompare(other),
  )
  const rows = names.flatMap((name) => {
    const runs = kept[name]
    const numbers = runs.map((run) => all.indexOf(titleOf(run)) + 1).join(', ')
    return runs[0].figures.map(({ figure, bound }, n) => {
      const { measured, ok, spread } = medianOf(runs.map(({ figures }) => figures[n]))
      const met = `${ok ? 'yes' : 'no'}${runs[0].reduced ? ', at a reduced size' : ''}`
      return `| ${figure} | ${bound} | ${measured} | ${spread} | ${met} | ${numbers} |`
    })
  })
  return [
    '## How cost grows',
    '',
    'Written by `npm run bench:scale`. Buffers and times of a function are those that EXPLAIN reports inside the server; a buffer is a page of 8 kB.',
    'Each row shows the median of its runs and their spread.',
    '',
    ...all.map((run, n) => `${n + 1}. ${run}`),
    '',
    '| case | bound | measured | spread | met | runs |',
    '| --- | --- | --- | --- | --- | --- |',
    ...rows,
    '',
    ...names.flatMap((name) =>
      Object.entries(kept[name].at(-1).plots).map(([plot, title]) => `![${title}](benchmarks/${plot}.svg)\n`),
    ),
  ].join('\n')
}

function titleOf({ run, machine }) {
  return `${run} · ${machine}`
}

/** Returns the figure with the median number, and the least and the greatest number of all runs. */
function medianOf(figures) {
  const sorted = figures.toSorted((left, right) => numberOf(left) - numberOf(right))
  const [least, most] = [sorted[0], sorted.at(-1)].map(({ measured }) => measured.split(' ')[0])
  const spread = figures.length === 1 || Number.isNaN(numberOf(sorted[0])) ? '' : `${least} to ${most}`
  return { ...sorted[Math.floor(sorted.length / 2)], spread }
}

/** Returns the number at the start of the text; NaN for "none". */
function numberOf({ measured }) {
  return Number.parseFloat(measured.replaceAll(',', ''))
}
