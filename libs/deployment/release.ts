import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { readSchemaFiles, schemaFolder } from './schemaFiles.js'

export interface Release {
  readonly version: string
  /**
   * Level of the schema: 1 plus the number of migrations. A release with a lower level must not be deployed over
   * migrated tables.
   */
  readonly schemaLevel: number
}

export function readRelease(): Release {
  const manifest: unknown = JSON.parse(readFileSync(join(dirname(schemaFolder()), 'package.json'), 'utf8'))
  const version = typeof manifest === 'object' && manifest !== null && 'version' in manifest ? manifest.version : ''
  const migrations = readSchemaFiles().tables.filter(({ name }) => name.startsWith('migrations/'))
  return { version: String(version), schemaLevel: 1 + migrations.length }
}

/**
 * Returns whether `one` is newer than `other`, so that `other` must not replace it. Ignores the suffix of a
 * pre-release: 1.2.0-rc.1 counts as 1.2.0.
 */
export function isNewer(one: Release, other: Release): boolean {
  if (one.schemaLevel !== other.schemaLevel) return one.schemaLevel > other.schemaLevel
  const [left, right] = [numbersOf(one.version), numbersOf(other.version)]
  const difference = left.findIndex((number, index) => number !== right[index])
  return difference !== -1 && left[difference]! > right[difference]!
}

function numbersOf(version: string): readonly number[] {
  const [, ...numbers] = /^(\d+)\.(\d+)\.(\d+)/.exec(version) ?? []
  return numbers.map(Number)
}
