// Reads the mutants that `npm run mutants` applies: tests/mutants/*.json.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..')
const folder = join(root, 'tests', 'mutants')

/**
 * @typedef {object} Mutant
 * @property {string} bug short description of the bug, which also names the mutant
 * @property {string} kind kind of mistake, by which the page is sorted
 * @property {string} file file to change
 * @property {string} find text that occurs in the file exactly once
 * @property {string} replace replacement of that text
 * @property {string} test spec file that must catch the mutant
 * @property {string} [id] scenario of the specification; if given, one of its tests must catch the mutant
 */

/** @returns {Mutant[]} in the order of the run: SQL first, because changed TypeScript must be built */
export function readMutants() {
  const files = readdirSync(folder).filter((name) => name.endsWith('.json'))
  /** @type {Mutant[]} */
  const mutants = files.toSorted().flatMap((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')))
  return mutants.toSorted((one, other) => Number(isBuilt(one)) - Number(isBuilt(other)))
}

/** @param {Mutant} mutant */
export function isBuilt({ file }) {
  return file.startsWith('libs/')
}

/**
 * Returns the reason why a mutant no longer applies to the code; undefined if it applies.
 * @param {Mutant} mutant
 */
export function staleness({ file, find, replace, test }) {
  const missing = [file, test].find((name) => !existsSync(join(root, name)))
  if (missing !== undefined) return `there is no ${missing}`
  if (find === replace) return 'it changes nothing'
  const found = readFileSync(join(root, file), 'utf8').split(find).length - 1
  return found === 1 ? undefined : `its text is there ${found} times, not once`
}
