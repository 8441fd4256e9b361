import type { Catalog, PropertyValue } from '../../libs/deployment/catalog.js'
import { condense, type ManifestValue } from '../../libs/deployment/manifest.js'

/** Returns the text of `schema/manifest.json`, one object per line for readable diffs. */
export function manifestText(catalogs: ReadonlyMap<number, Catalog>): string {
  const versions = [...catalogs].map(([version, catalog]) => [version, condense(catalog)] as const)
  const kinds = namesOf(versions.map(([, catalog]) => catalog))
  const sections = kinds.map((kind) => {
    const objects = versions.map(([version, catalog]) => [version, catalog.get(kind) ?? new Map()] as const)
    const lines = namesOf(objects.map(([, map]) => map)).map(
      (name) => `    ${JSON.stringify(name)}: ${JSON.stringify(merge(objects.map(([v, map]) => [v, map.get(name)])))}`,
    )
    return `  ${JSON.stringify(kind)}: {\n${lines.join(',\n')}\n  }`
  })
  return `{\n${sections.join(',\n')}\n}\n`
}

type PropertiesByVersion = readonly (readonly [number, Readonly<Record<string, PropertyValue>>])[]

function merge(byVersion: PropertiesByVersion): Record<string, ManifestValue> {
  if (byVersion.some(([, properties]) => properties === undefined)) {
    throw new Error('an object exists only on some versions of PostgreSQL, which the manifest cannot express')
  }
  const properties = [...new Set(byVersion.flatMap(([, object]) => Object.keys(object)))].toSorted()
  return Object.fromEntries(
    properties.map((property) => [property, mergeValue(byVersion.map(([v, object]) => [v, object[property]!]))]),
  )
}

function mergeValue(byVersion: readonly (readonly [number, PropertyValue])[]): ManifestValue {
  const changes = byVersion.filter(([, value], at) => at === 0 || !isSame(value, byVersion[at - 1]![1]))
  return changes.length === 1 ? changes[0]![1] : { since: Object.fromEntries(changes) }
}

function isSame(one: PropertyValue, other: PropertyValue): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

function namesOf(maps: readonly ReadonlyMap<string, unknown>[]): readonly string[] {
  return [...new Set(maps.flatMap((map) => [...map.keys()]))].toSorted()
}
