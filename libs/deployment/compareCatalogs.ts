import type { Catalog, Properties, PropertyValue } from './catalog.js'
import type { Finding } from './findings.js'
import { ALL_ROLES, OWNER_ROLE } from './roles.js'

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

/** Returns whether the object belongs to a missing or unexpected relation. One finding for the relation is enough. */
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

/** Difference between the schema of this release and the live one. */
interface Change {
  readonly kind: string
  readonly name: string
  readonly change: 'missing' | 'unexpected' | 'changed'
  /** Changed property; undefined if the whole object is missing or unexpected. */
  readonly property?: string
}

/** Returns the remedy for a change. For some changes, the remedy first says to find out who made the change. */
function remedyFor({ kind, name, change, property }: Change): string {
  if (property === 'owner') return `Find out who changed the owner; then ALTER … OWNER TO ${OWNER_ROLE}.`
  if (kind === 'grants') return change === 'missing' ? DEPLOY : unexpectedGrant(name)
  if (kind === 'roles') return 'Find out who changed the role; then change it back with ALTER ROLE, GRANT or REVOKE.'
  if (kind === 'default_privileges')
    return change === 'missing' ? DEPLOY : 'Revoke it: ALTER DEFAULT PRIVILEGES … REVOKE.'
  if (change === 'unexpected' && property === undefined) {
    return 'Find out who created it and what for; then move it to another schema, or drop it.'
  }
  if (kind === 'indexes' && change === 'changed') return `Drop the index, then: ${REAPPLY}`
  if (REPAIRED_BY_REAPPLY.has(kind) || (kind === 'relations' && property === 'definition')) return REAPPLY
  if (property === 'comment') return REAPPLY
  if (kind === 'relations' && property === undefined) {
    return `${REAPPLY}. It recreates a view, but only an empty table: restore the rows from your backup.`
  }
  return `Repair it manually as ${OWNER_ROLE}: schema/snapshot.sql has its definition.`
}

const DEPLOY = 'symphony deploy'
const REAPPLY = 'symphony deploy --reapply'

/**
 * Kinds that `symphony deploy --reapply` repairs, because their files use CREATE OR REPLACE or, for a missing index,
 * CREATE INDEX IF NOT EXISTS.
 */
const REPAIRED_BY_REAPPLY = new Set(['functions', 'triggers', 'indexes'])

/**
 * Returns the remedy for an unexpected grant. A deployment revokes such a grant only from our roles and from PUBLIC.
 */
function unexpectedGrant(name: string): string {
  if (name.endsWith('taken from its owner')) return 'Grant it again with GRANT.'
  const grantee = / to (\S+)(?: with grant option)?$/.exec(name)?.[1] ?? ''
  return grantee === 'PUBLIC' || ALL_ROLES.includes(grantee) ? DEPLOY : 'Revoke it with REVOKE.'
}

interface Outdated {
  readonly functions: readonly string[]
  readonly views: readonly string[]
}

/**
 * Finds objects that must be dropped before the files are applied. CREATE OR REPLACE cannot change the result or the
 * parameter names of a function, nor remove a column of a view. Objects that the release no longer has are dropped too:
 * an old function would stay callable and could make calls ambiguous. All others are replaced in place, without effect
 * on running workers.
 */
export function findOutdated(live: Catalog, release: Catalog): Outdated {
  const views = objectsOf(live, 'relations').filter(([, { type }]) => type === 'view')
  return {
    functions: objectsOf(live, 'functions')
      .filter(([name, found]) => isOutdatedFunction(found, release.get('functions')?.get(name)))
      .map(([name]) => name),
    views: views.map(([name]) => name).filter((name) => isOutdatedView(name, live, release)),
  }
}

function isOutdatedFunction(found: Properties, wanted: Properties | undefined): boolean {
  return ['type', 'arguments', 'result'].some((property) => found[property] !== wanted?.[property])
}

function isOutdatedView(view: string, live: Catalog, release: Catalog): boolean {
  if (release.get('relations')?.get(view)?.['type'] !== 'view') return true
  return objectsOf(live, 'columns')
    .filter(([name]) => name.startsWith(`${view}.`))
    .some(([name, { type }]) => release.get('columns')?.get(name)?.['type'] !== type)
}

function objectsOf(catalog: Catalog, kind: string): readonly (readonly [string, Properties])[] {
  return [...(catalog.get(kind) ?? [])]
}
