import type { Catalog, Properties, PropertyValue } from './catalog.js'
import type { Finding } from './findings.js'
import { remedyFor, type Change } from './remedies.js'

/** Every way in which the catalog found differs from the one expected. */
export function compareCatalogs(expected: Catalog, found: Catalog): readonly Finding[] {
  const kinds = new Set([...expected.keys(), ...found.keys()])
  return [...kinds].toSorted().flatMap((kind) => compareKind(kind, expected, found))
}

function compareKind(kind: string, expected: Catalog, found: Catalog): Finding[] {
  const own = expected.get(kind) ?? new Map<string, Properties>()
  const live = found.get(kind) ?? new Map<string, Properties>()
  const names = [...new Set([...own.keys(), ...live.keys()])].toSorted()
  return names
    .filter((name) => !isPartOfMissing(kind, name, expected, found))
    .flatMap((name) => compareObject({ kind, name }, own.get(name), live.get(name)))
}

/** A table that is missing, or should not be there, says it all: its columns and indexes need no lines of their own. */
function isPartOfMissing(kind: string, name: string, expected: Catalog, found: Catalog): boolean {
  if (!PARTS_OF_RELATIONS.has(kind)) return false
  const relation = name.slice(0, name.indexOf('.'))
  return expected.get('relations')?.has(relation) !== found.get('relations')?.has(relation)
}

const PARTS_OF_RELATIONS = new Set(['columns', 'constraints', 'indexes', 'triggers', 'rules', 'policies'])

interface ObjectName {
  readonly kind: string
  readonly name: string
}

function compareObject(object: ObjectName, own: Properties | undefined, live: Properties | undefined): Finding[] {
  if (own === undefined && live === undefined) return []
  if (live === undefined) return [drift({ ...object, change: 'missing' }, 'present', 'missing')]
  if (own === undefined) return [drift({ ...object, change: 'unexpected' }, 'nothing', 'present')]
  const properties = [...new Set([...Object.keys(own), ...Object.keys(live)])].toSorted()
  return properties.flatMap((property) => compareProperty(object, property, own[property], live[property]))
}

function compareProperty(
  object: ObjectName,
  property: string,
  own: PropertyValue | undefined,
  live: PropertyValue | undefined,
): Finding[] {
  if (isList(own) || isList(live)) {
    const [ownEntries, liveEntries] = [entriesOf(own), entriesOf(live)]
    const missing = ownEntries.filter((entry) => !liveEntries.includes(entry))
    const unexpected = liveEntries.filter((entry) => !ownEntries.includes(entry))
    return [
      ...missing.map((entry) => drift({ ...object, change: 'missing', property }, entry, 'missing')),
      ...unexpected.map((entry) => drift({ ...object, change: 'unexpected', property }, 'nothing', entry)),
    ]
  }
  if (own === live) return []
  return [drift({ ...object, change: 'changed', property }, textOf(own), textOf(live))]
}

function drift(change: Change, expected: string, found: string): Finding {
  const { kind, name, property } = change
  const words = [singular(kind), property, change.change].filter((word) => word !== undefined)
  return {
    severity: 'drift',
    code: words.map((word) => word.replaceAll(/(?=[A-Z])/g, '_').toUpperCase()).join('_'),
    object: [singular(kind).replaceAll('_', ' '), name, ...(property === undefined ? [] : [`(${property})`])].join(' '),
    expected,
    found,
    remedy: remedyFor(change),
  }
}

function singular(kind: string): string {
  return SINGULAR[kind] ?? kind.replace(/s$/, '')
}

const SINGULAR: Readonly<Record<string, string>> = { indexes: 'index', policies: 'policy' }

function isList(value: PropertyValue | undefined): value is readonly string[] {
  return Array.isArray(value)
}

function entriesOf(value: PropertyValue | undefined): readonly string[] {
  return isList(value) ? value : []
}

function textOf(value: PropertyValue | undefined): string {
  return value === undefined ? 'none' : String(value)
}
