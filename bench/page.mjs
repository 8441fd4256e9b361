// Writes docs/benchmarks.md, which has one section per command. Each command replaces only its own section.
import { spawnSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

export const PAGE = fileURLToPath(new URL('../docs/benchmarks.md', import.meta.url))
export const PLOTS = fileURLToPath(new URL('../docs/benchmarks/', import.meta.url))

/** The page shows medians of at most so many runs. */
const RUNS = 3

/** Folders of the measured code. */
const SOURCES = [':/libs', ':/schema', ':/embedded', ':/bench']

/** Sections in the order of the page. */
const SECTIONS = ['peers', 'scale']

export async function writeSection(name, text, page = PAGE) {
  const written = await readFile(page, 'utf8').catch((error) => {
    if (error.code === 'ENOENT') return ''
    throw error
  })
  const sections = SECTIONS.map((each) => (each === name ? bordered(each, text) : keptSection(written, each)))
  await writeFile(page, `# Benchmarks\n\n${sections.filter((section) => section !== '').join('\n\n')}\n`)
}

/** Returns a file of earlier runs; an empty object if there is none. */
export async function readRuns(file) {
  try {
    return JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    if (error.code === 'ENOENT') return {}
    throw error
  }
}

/** Adds a run to the earlier ones with the same conditions, and keeps the latest. */
export function latestRuns(earlier, run, conditionsOf) {
  return [...earlier.filter((each) => conditionsOf(each) === conditionsOf(run)), run].slice(-RUNS)
}

/** Returns the minute and the commit of the checkout, to distinguish runs of one day. */
export function runId() {
  const commit = git('rev-parse', '--short=8', 'HEAD').stdout?.trim() || 'unknown'
  const isChanged = git('diff', '--quiet', 'HEAD', '--', ...SOURCES).status === 1
  const time = new Date().toISOString().slice(0, 16).replace('T', ' ')
  return `${time} UTC, commit ${commit}${isChanged ? ' with uncommitted changes' : ''}`
}

function git(...words) {
  return spawnSync('git', words, { cwd: dirname(PAGE), encoding: 'utf8' })
}

/** Describes the machine for the page. */
export function machine() {
  const memoryGib = Math.round(totalmem() / 2 ** 30)
  return `${cpus().length} cores (${cpus()[0].model.trim()}), ${memoryGib} GiB · Node.js ${process.versions.node}`
}

function bordered(name, text) {
  return `${begin(name)}\n${text.trim()}\n${end(name)}`
}

function keptSection(page, name) {
  const from = page.indexOf(begin(name))
  const to = page.indexOf(end(name))
  return from === -1 || to < from ? '' : page.slice(from, to + end(name).length)
}

function begin(name) {
  return `<!-- begin ${name}: generated, see bench/ -->`
}

function end(name) {
  return `<!-- end ${name} -->`
}
