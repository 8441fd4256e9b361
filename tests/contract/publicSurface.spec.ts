import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { entryPoints, FOLDER } from '../../scripts/apiReport.mjs'

const doors = entryPoints()

/** Entry points that stay, with the most names that each may export. */
const NAMES_MAX: Readonly<Record<string, number>> = {
  // 84, and those of the earlier surface until the other entry points disappear.
  'symphony-pg': 120,
  // 16, and those of the earlier surface.
  'symphony-pg/rails': 21,
  'symphony-pg/sql': 18,
  'symphony-pg/server': 14,
  'symphony-pg/admin': 24,
  'symphony-pg/testing': 15,
  'symphony-pg/platform': 16,
  '@symphony-pg/embedded': 6,
}
/** All other entry points: they disappear, so their number and the sum of their names only fall. */
const OLD_ENTRY_POINTS_MAX = 17
const OLD_NAMES_MAX = 808

test('the entry points that stay export no more names than their ceilings', () => {
  const grown = doors.filter(({ specifier, names }) => names.length > (NAMES_MAX[specifier] ?? Infinity))
  // A name more is a decision: fold it into a member or an option, or lower another ceiling.
  expect(grown.map(({ specifier, names }) => `${specifier} exports ${names.length}`)).toEqual([])
})

test('the other entry points and their names become fewer', () => {
  const old = doors.filter(({ specifier }) => NAMES_MAX[specifier] === undefined)
  expect(old.length).toBeLessThanOrEqual(OLD_ENTRY_POINTS_MAX)
  expect(old.reduce((sum, { names }) => sum + names.length, 0)).toBeLessThanOrEqual(OLD_NAMES_MAX)
})

test('the API reports list the exports of every entry point', async () => {
  const expected = Object.fromEntries(doors.map(({ file, text }) => [file, text]))
  const found: Record<string, string> = {}
  for (const file of await readdir(FOLDER)) found[file] = await readFile(join(FOLDER, file), 'utf8')
  // Run `npm run api`, and review the difference as a user would.
  expect(found).toEqual(expected)
})

test('the page about the package links the report of every entry point', async () => {
  const page = await readFile(join(FOLDER, '..', 'package.md'), 'utf8')
  const linked = [...page.matchAll(/^\| \[`([^`]+)`\]\(api\/([^)]+)\) \|/gm)].map(([, specifier, file]) => [
    specifier,
    file,
  ])
  expect(Object.fromEntries(linked)).toEqual(Object.fromEntries(doors.map(({ specifier, file }) => [specifier, file])))
})
