import { ALL_ROLES, OWNER_ROLE } from './roles.js'

/** One difference between what was deployed and what is there. */
export interface Change {
  readonly kind: string
  readonly name: string
  readonly change: 'missing' | 'unexpected' | 'changed'
  /** Undefined if the object as a whole is missing or unexpected. */
  readonly property?: string
}

/** What a deployment mends, and what only a person can decide. */
export function remedyFor({ kind, name, change, property }: Change): string {
  if (property === 'owner') return `Find out who gave it away; then ALTER … OWNER TO ${OWNER_ROLE}.`
  if (kind === 'grants') return change === 'missing' ? DEPLOY : unexpectedGrant(name)
  if (kind === 'roles') return 'Find out who changed the role; then change it back with ALTER ROLE, GRANT or REVOKE.'
  if (kind === 'default_privileges')
    return change === 'missing' ? DEPLOY : 'Take it back: ALTER DEFAULT PRIVILEGES … REVOKE.'
  if (change === 'unexpected' && property === undefined) {
    return 'Find out who created it and what for; then move it to another schema, or drop it.'
  }
  if (kind === 'indexes' && change === 'changed') return `Drop the index, then: ${REAPPLY}`
  if (MENDED_BY_FILES.has(kind) || (kind === 'relations' && property === 'definition')) return REAPPLY
  if (property === 'comment') return REAPPLY
  if (kind === 'relations' && property === undefined) {
    return `${REAPPLY}. It brings back a view, but of a table only an empty one: the rows are in your backup.`
  }
  return `Mend it by hand as ${OWNER_ROLE}: schema/snapshot.sql shows how it was.`
}

const DEPLOY = 'symphony deploy'
const REAPPLY = 'symphony deploy --reapply'

/** Files say CREATE OR REPLACE, or CREATE … IF NOT EXISTS, for these. */
const MENDED_BY_FILES = new Set(['functions', 'triggers', 'indexes'])

/** The file of privileges takes back what our roles and PUBLIC should not have. Others it does not know. */
function unexpectedGrant(name: string): string {
  if (name.endsWith('taken from its owner')) return 'Give it back with GRANT.'
  const grantee = / to (\S+)(?: with grant option)?$/.exec(name)?.[1] ?? ''
  return grantee === 'PUBLIC' || ALL_ROLES.includes(grantee) ? DEPLOY : 'Take it back with REVOKE.'
}
