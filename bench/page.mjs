// Writes docs/benchmarks.md, which has one section per command. Each command replaces only its own section.
import { readFile, writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'

export const PAGE = fileURLToPath(new URL('../docs/benchmarks.md', import.meta.url))
export const PLOTS = fileURLToPath(new URL('../docs/benchmarks/', import.meta.url))

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
