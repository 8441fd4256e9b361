import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { schemaFolder } from './schemaFolder.js'

export interface Release {
  /** The package's version. */
  readonly version: string
  readonly schemaLevel: number
}

/**
 * Raised by one with a change to `schema/` that must not be undone by deploying an older release over it. The version
 * alone would do between releases; the level also keeps apart two builds of one version.
 */
const SCHEMA_LEVEL = 1

export function readRelease(): Release {
  const manifest: unknown = JSON.parse(readFileSync(join(dirname(schemaFolder()), 'package.json'), 'utf8'))
  const version = typeof manifest === 'object' && manifest !== null && 'version' in manifest ? manifest.version : ''
  return { version: String(version), schemaLevel: SCHEMA_LEVEL }
}

/** Whether the one must not be replaced by the other. Pre-releases of a version count as that version. */
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
