import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { expect, test } from 'vitest'
import { markdownPage } from '../support/markdownPage.js'
import { entryPoints, FOLDER } from '../../scripts/apiReport.mjs'

const points = entryPoints()

/** Maximum number of names that each entry point may export. */
const NAMES_MAX: Readonly<Record<string, number>> = {
  'symphony-pg': 87,
  'symphony-pg/rails': 18,
  'symphony-pg/testing': 15,
  'symphony-pg/admin': 24,
  'symphony-pg/platform': 16,
  'symphony-pg/sql': 18,
  'symphony-pg/server': 14,
  '@symphony-pg/embedded': 6,
}

test('the two packages have 8 entry points', () => {
  expect(points.map(({ specifier }) => specifier).toSorted()).toEqual(Object.keys(NAMES_MAX).toSorted())
  expect(points).toHaveLength(8)
})

test('no entry point exports more names than its limit, and all together export at most 220', () => {
  const grown = points.filter(({ specifier, names }) => names.length > (NAMES_MAX[specifier] ?? 0))
  // If this fails, add a member or an option instead of a new name, or lower another limit.
  expect(grown.map(({ specifier, names }) => `${specifier} exports ${names.length}`)).toEqual([])
  expect(points.reduce((sum, { names }) => sum + names.length, 0)).toBeLessThanOrEqual(220)
})

test('the API reports match the exports of every entry point', async () => {
  const expected = Object.fromEntries(points.map(({ file, text }) => [file, text]))
  const found: Record<string, string> = {}
  for (const file of await readdir(FOLDER)) found[file] = await readFile(join(FOLDER, file), 'utf8')
  // After a failure, run `npm run api` and review the difference as a user would.
  expect(found).toEqual(expected)
})

test('docs/reference/package.md links the API report of every entry point', async () => {
  const page = markdownPage('docs/reference/package.md')
  const linked = [...page.matchAll(/^\| \[`([^`]+)`\]\(api\/([^)]+)\) \|/gm)].map(([, specifier, file]) => [
    specifier,
    file,
  ])
  expect(Object.fromEntries(linked)).toEqual(Object.fromEntries(points.map(({ specifier, file }) => [specifier, file])))
})

test('pages, examples and test workspaces import only exported names', async () => {
  const namesOf = new Map(points.map(({ specifier, names }) => [specifier, new Set(names)]))
  const root = join(import.meta.dirname, '..', '..')
  const readers = ['README.md', 'docs', 'examples', 'tests/workspaces'].map((path) => join(root, path))
  const wrong: string[] = []
  for (const file of (await Promise.all(readers.map(textFilesIn))).flat()) {
    const text = await readFile(file, 'utf8')
    for (const [, list = '', specifier = ''] of text.matchAll(IMPORTS)) {
      const imported = list.split(',').map((part) =>
        part
          .trim()
          .replace(/^type /, '')
          .replace(/ as .*/, ''),
      )
      for (const name of imported.filter((one) => one !== '')) {
        if (namesOf.get(specifier)?.has(name) !== true) wrong.push(`${relative(root, file)}: ${name} of ${specifier}`)
      }
    }
  }
  expect(wrong).toEqual([])
})

const IMPORTS = /import (?:type )?\{([^}]*)\} from '((?:symphony-pg|@symphony-pg\/)[^']*)'/g

/** Lists pages and programs below a path. Skips API reports, and installed packages, which link back to this folder. */
async function textFilesIn(path: string): Promise<string[]> {
  if (/\.(?:md|m?[jt]s)$/.test(path)) return [path]
  const entries = await readdir(path, { withFileTypes: true })
  const found = entries
    .filter(({ name }) => name !== 'node_modules' && join(path, name) !== FOLDER)
    .filter((entry) => entry.isDirectory() || /\.(?:md|m?[jt]s)$/.test(entry.name))
    .map(({ name }) => textFilesIn(join(path, name)))
  return (await Promise.all(found)).flat()
}
