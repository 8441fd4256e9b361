import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Catalog, Properties, PropertyValue } from './catalog.js'
import { schemaFolder } from './schemaFiles.js'

/**
 * Value in `schema/manifest.json`, which is generated from fresh installs. If the value differs between versions of
 * PostgreSQL, `since` has one entry for each version in which it changed.
 */
export type ManifestValue = PropertyValue | { readonly since: Readonly<Record<string, PropertyValue>> }

type Manifest = Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, ManifestValue>>>>>>

/** Returns the catalog that a server of this version should have. */
export function readManifest(version: number): Catalog {
  const manifest: Manifest = JSON.parse(readFileSync(join(schemaFolder(), 'manifest.json'), 'utf8'))
  return mapCatalog(
    new Map(Object.entries(manifest).map(([kind, objects]) => [kind, new Map(Object.entries(objects))])),
    (value) => valueFor(version, value),
  )
}

/**
 * Replaces function bodies and view definitions by their hashes, as in the manifest. `schema/snapshot.sql` has the
 * texts.
 */
export function condense(catalog: Catalog): Catalog {
  return mapCatalog(catalog, (value, kind, property) =>
    typeof value === 'string' && PROGRAMS.has(`${kind}.${property}`) ? digestOf(value) : value,
  )
}

const PROGRAMS = new Set(['functions.body', 'relations.definition'])

function digestOf(text: string): string {
  return `sha256 ${createHash('sha256').update(text).digest('hex')}`
}

function valueFor(version: number, value: ManifestValue): PropertyValue {
  if (typeof value !== 'object' || !('since' in value)) return value
  const known = Object.entries(value.since).toSorted(([left], [right]) => Number(left) - Number(right))
  const [first] = known
  return (known.findLast(([since]) => Number(since) <= version) ?? first!)[1]
}

function mapCatalog<V>(
  catalog: ReadonlyMap<string, ReadonlyMap<string, Readonly<Record<string, V>>>>,
  map: (value: V, kind: string, property: string) => PropertyValue,
): Catalog {
  return new Map(
    [...catalog].map(([kind, objects]) => [
      kind,
      new Map(
        [...objects].map(([name, properties]): [string, Properties] => [
          name,
          Object.fromEntries(
            Object.entries(properties).map(([property, value]) => [property, map(value, kind, property)]),
          ),
        ]),
      ),
    ]),
  )
}
