// The bugs that `npm run mutants` plants: tests/mutants/*.json.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..')
const folder = join(root, 'tests', 'mutants')

/**
 * @typedef {object} Mutant
 * @property {string} bug what is wrong with the code afterwards, in a few words; names the mutant
 * @property {string} kind what sort of mistake it is; the report is ordered by it
 * @property {string} file where it is planted
 * @property {string} find a text that is in the file exactly once
 * @property {string} replace what takes its place
 * @property {string} test the spec that must notice
 * @property {string} [id] a scenario of the specification: then it must be one of its tests that notices
 */

/** @returns {Mutant[]} in the order in which they are planted: SQL first, because changed TypeScript has to be built */
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
 * What keeps a mutant from being planted, if anything: a bug that is not there any more proves nothing.
 * @param {Mutant} mutant
 */
export function staleness({ file, find, replace, test }) {
  const missing = [file, test].find((name) => !existsSync(join(root, name)))
  if (missing !== undefined) return `there is no ${missing}`
  if (find === replace) return 'it changes nothing'
  const found = readFileSync(join(root, file), 'utf8').split(find).length - 1
  return found === 1 ? undefined : `its text is there ${found} times, not once`
}
