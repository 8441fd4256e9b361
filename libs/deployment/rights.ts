import {
  createLogin,
  createRole,
  createSchema,
  dedicateDatabase,
  giveSchemaToOwner,
  grantAdmin,
  grantToLogin,
  grantOwnerToLogin,
  revokeOwnerFromLogin,
} from './db.js'
import { DeploymentError } from './errors.js'
import type { LoginStatement } from './logins.js'
import type { ServerFacts } from './reads.js'
import { OWNER_ROLE } from './roles.js'

interface RequestedRights {
  readonly schema: string
  readonly rolesOnly: boolean
  readonly dedicatedDatabase: boolean
  readonly logins: readonly LoginStatement[]
}

/** Throws before any change if rights are missing. The remedy is the SQL that a DBA runs first. */
export function requireRights(facts: ServerFacts, requested: RequestedRights): void {
  const statements = missingStatements(facts, requested)
  if (statements.length === 0) return
  const afterwards = statements.includes(grantOwnerToLogin(facts.login, facts.version))
    ? `\nAfter the deployment:\n${revokeOwnerFromLogin(facts.login)}`
    : ''
  throw new DeploymentError(
    'DEPLOYMENT_RIGHTS_MISSING',
    `The login ${facts.login} lacks rights that a deployment to ${facts.database} needs.`,
    {
      remedy: `Have a DBA run this in the database ${facts.database}, then deploy again:\n${statements.join('\n')}${afterwards}`,
    },
  )
}

function missingStatements(facts: ServerFacts, requested: RequestedRights): string[] {
  const { schema, rolesOnly, dedicatedDatabase, logins } = requested
  if (facts.isSuperuser) return []
  return [
    ...(facts.mayCreateRoles ? [] : facts.missingRoles.map(createRole)),
    ...(rolesOnly ? [] : missingForSchema(facts, schema)),
    ...(rolesOnly || facts.mayActAsOwner || mayGrant(facts, OWNER_ROLE)
      ? []
      : [grantOwnerToLogin(facts.login, facts.version)]),
    ...(dedicatedDatabase && !facts.ownsDatabase ? [dedicateDatabase(facts.database)] : []),
    ...missingForLogins(facts, logins),
  ]
}

function missingForSchema({ schemaOwner, ownsSchema, mayCreateSchemas }: ServerFacts, schema: string): string[] {
  if (schemaOwner === OWNER_ROLE) return []
  if (schemaOwner === undefined) return mayCreateSchemas ? [] : [createSchema(schema)]
  // To change the owner of a schema, a login must own the schema and have CREATE on the database.
  return ownsSchema && mayCreateSchemas ? [] : [giveSchemaToOwner(schema)]
}

/** Returns statements for a DBA if the login cannot create the requested logins or grant their roles. */
function missingForLogins(facts: ServerFacts, logins: readonly LoginStatement[]): string[] {
  const ungrantable = [...new Set(logins.flatMap(({ roles }) => roles).filter((role) => !mayGrant(facts, role)))]
  if (facts.mayCreateRoles && facts.version >= ADMIN_SINCE) {
    return ungrantable.length === 0 ? [] : [grantAdmin(facts.login, ungrantable)]
  }
  return logins.flatMap((login) => [
    ...(facts.existingLogins.includes(login.name) || facts.mayCreateRoles ? [] : [createLogin(login, 'choose one')]),
    ...(login.roles.some((role) => ungrantable.includes(role)) ? [grantToLogin(login, facts.version)] : []),
  ])
}

/** First version in which a login with CREATEROLE can grant only roles that it administers. */
const ADMIN_SINCE = 16

/**
 * Returns whether the login may grant the role. If the role is missing, the deployment creates it, and its creator may
 * grant it.
 */
function mayGrant({ missingRoles, ungrantableRoles, mayCreateRoles }: ServerFacts, role: string): boolean {
  return missingRoles.includes(role) ? mayCreateRoles : !ungrantableRoles.includes(role)
}
