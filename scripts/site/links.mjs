// Finds dead links in the Markdown of the repository and in the built site. Does not check links to other hosts,
// because a test must not depend on the network.
import { readdir, readFile, stat } from 'node:fs/promises'
import { join, posix, relative } from 'node:path'
import { headingsOf, targetsOf, tokensOf } from './markdown.mjs'

/** Folders with generated or installed files. */
const NOT_OURS = new Set(['node_modules', 'dist', 'site', 'release', 'coverage', '.git', '.symphony'])

/** Returns the dead links in the repository's Markdown, each as `file: link (reason)`. */
export async function deadLinksOfRepository(root) {
  const files = await markdownFiles(root)
  const dead = []
  const anchorsByFile = new Map()
  for (const file of files) {
    const text = await readFile(join(root, file), 'utf8')
    for (const target of targetsOf(tokensOf(text))) {
      const missing = await missingInRepository(root, file, target, anchorsByFile)
      if (missing !== undefined) dead.push(`${file}: ${target} (${missing})`)
    }
  }
  return { files, dead }
}

async function missingInRepository(root, file, target, anchorsByFile) {
  if (isElsewhere(target)) return undefined
  const [path = '', anchor] = target.split('#').map(decodeURIComponent)
  const wanted = path === '' ? file : posix.join(posix.dirname(file), path)
  if (wanted.startsWith('..')) return 'outside of the repository'
  if (!(await exists(join(root, wanted)))) return 'no such file'
  if (anchor === undefined) return undefined
  if (!wanted.endsWith('.md')) return 'no page with headings'
  if (!anchorsByFile.has(wanted)) {
    const headings = headingsOf(tokensOf(await readFile(join(root, wanted), 'utf8')))
    anchorsByFile.set(wanted, new Set(headings.map((heading) => heading.anchor)))
  }
  return anchorsByFile.get(wanted).has(anchor) ? undefined : 'no such heading'
}

/** Returns the dead links of the built site, and the missing files that its pages load. */
export async function deadLinksOfSite(folder) {
  const pages = new Map()
  for (const name of await readdir(folder, { recursive: true })) {
    if (name.endsWith('.html')) pages.set(posix.normalize(name), await readFile(join(folder, name), 'utf8'))
  }
  const dead = []
  for (const [page, html] of pages) {
    for (const [, target] of html.matchAll(/ (?:href|src)="([^"]*)"/g)) {
      const missing = await missingInSite(folder, page, target, pages)
      if (missing !== undefined) dead.push(`${page}: ${target} (${missing})`)
    }
  }
  return { pages: [...pages.keys()], dead }
}

async function missingInSite(folder, page, target, pages) {
  if (isElsewhere(target)) return undefined
  const [path = '', anchor] = target.split('#').map(decodeURIComponent)
  const wanted = path === '' ? page : posix.join(posix.dirname(page), path)
  if (!(await exists(join(folder, wanted)))) return 'no such file'
  if (anchor === undefined) return undefined
  return pages.get(wanted)?.includes(` id="${anchor}"`) ? undefined : 'no such anchor'
}

async function markdownFiles(root, folder = root) {
  const files = []
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory() && !NOT_OURS.has(entry.name)) files.push(...(await markdownFiles(root, path)))
    else if (entry.isFile() && entry.name.endsWith('.md')) files.push(relative(root, path).replaceAll('\\', '/'))
  }
  return files
}

function isElsewhere(target) {
  return /^(?:https?|mailto):/.test(target)
}

async function exists(path) {
  return stat(path).then(
    () => true,
    () => false,
  )
}
