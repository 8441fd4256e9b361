// Builds the site: one HTML file per page, a table of contents by reader and a search index. Links are relative, so
// that the site works from a disk and under any path of a server.
import { cp, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { headingsOf, tokensOf } from './markdown.mjs'
import { pageHtml } from './page.mjs'
import { renderPage } from './render.mjs'
import { searchEntries } from './searchEntries.mjs'
import { addressOf, imageAddress, SECTIONS } from './sections.mjs'

const ASSETS = join(dirname(fileURLToPath(import.meta.url)), 'assets')

export async function buildSite({ root, out, sections = SECTIONS }) {
  const contents = await withEveryPage(root, sections)
  const pages = await readPages(root, contents)
  await rm(out, { recursive: true, force: true })
  await mkdir(out, { recursive: true })
  await cp(ASSETS, out, { recursive: true })
  const listed = contents.map(({ title, pages: files }) => ({ title, pages: files.map((file) => pages.get(file)) }))
  const images = new Set()
  const index = []
  for (const page of pages.values()) {
    const { html, shown } = renderPage(page, pages)
    for (const image of shown) images.add(image)
    index.push(...searchEntries(page))
    await writeInto(out, page.address, pageHtml({ page, contents: listed, html }))
  }
  for (const image of images) await copyInto(out, root, image)
  // The index is a script, because a page opened from a disk can load scripts but cannot fetch JSON.
  await writeInto(out, 'search-index.js', `window.symphonyIndex=${JSON.stringify(index)}\n`)
  return { pages: pages.size, bytes: await sizeOf(out) }
}

async function readPages(root, sections) {
  const pages = new Map()
  for (const { title: section, pages: files } of sections) {
    for (const file of files) {
      const text = await readFile(join(root, file), 'utf8')
      const tokens = tokensOf(text)
      const headings = headingsOf(tokens)
      pages.set(file, { file, section, address: addressOf(file), tokens, headings, title: titleOf(file, headings) })
    }
  }
  return pages
}

function titleOf(file, headings) {
  const [first] = headings
  if (first?.depth !== 1) throw new Error(`${file} does not begin with a heading`)
  return first.text
}

/** Adds the other pages of each section's folders. Throws if a page of docs/ is in no section. */
async function withEveryPage(root, sections) {
  const files = (await readdir(join(root, 'docs'), { recursive: true })).map(
    (name) => `docs/${name.replaceAll('\\', '/')}`,
  )
  const named = new Set(sections.flatMap(({ pages }) => pages))
  const further = files.filter((file) => file.endsWith('.md') && !named.has(file)).toSorted()
  const lost = further.filter((file) => !sections.some(({ folders }) => folders.includes(dirname(file))))
  if (lost.length > 0) throw new Error(`in no section of scripts/site/sections.mjs: ${lost.join(', ')}`)
  return sections.map(({ title, folders, pages }) => ({
    title,
    pages: [...pages, ...further.filter((file) => folders.includes(dirname(file)))],
  }))
}

async function copyInto(out, root, image) {
  const target = join(out, imageAddress(image))
  await mkdir(dirname(target), { recursive: true })
  await cp(join(root, image), target)
}

async function writeInto(out, address, text) {
  const file = join(out, address)
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, text)
}

async function sizeOf(folder) {
  let bytes = 0
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) bytes += (await stat(join(entry.parentPath, entry.name))).size
  }
  return bytes
}
