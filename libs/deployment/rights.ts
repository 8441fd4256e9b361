import {
  createLogin,
  createRole,
  createSchema,
  dedicateDatabase,
  giveSchemaToOwner,
  grantAdmin,
  grantToLogin,
  lendOwner,
  returnOwner,
  type LoginStatement,
  type ServerFacts,
} from './db.js'
import { DeploymentError } from './errors.js'
import { OWNER_ROLE } from './roles.js'

export interface Wishes {
  readonly schema: string
  readonly rolesOnly: boolean
  readonly dedicatedDatabase: boolean
  readonly logins: readonly LoginStatement[]
}

/** Stops before anything is tried, with the SQL that somebody with more rights has to run first. */
export function requireRights(facts: ServerFacts, wishes: Wishes): void {
  const statements = missingStatements(facts, wishes)
  if (statements.length === 0) return
  const afterwards = statements.includes(lendOwner(facts.login, facts.version))
    ? `\nAfter the deployment:\n${returnOwner(facts.login)}`
    : ''
  throw new DeploymentError(
    'DEPLOYMENT_RIGHTS_MISSING',
    `The login ${facts.login} may not do all that a deployment to ${facts.database} needs.`,
    {
      remedy: `Have a DBA run this in the database ${facts.database}, then deploy again:\n${statements.join('\n')}${afterwards}`,
    },
  )
}

function missingStatements(facts: ServerFacts, wishes: Wishes): string[] {
  const { schema, rolesOnly, dedicatedDatabase, logins } = wishes
  if (facts.isSuperuser) return []
  return [
    ...(facts.mayCreateRoles ? [] : facts.missingRoles.map(createRole)),
    ...(rolesOnly ? [] : missingForSchema(facts, schema)),
    ...(rolesOnly || facts.mayActAsOwner || mayGrant(facts, OWNER_ROLE) ? [] : [lendOwner(facts.login, facts.version)]),
    ...(dedicatedDatabase && !facts.ownsDatabase ? [dedicateDatabase(facts.database)] : []),
    ...missingForLogins(facts, logins),
  ]
}

function missingForSchema({ schemaOwner, ownsSchema, mayCreateSchemas }: ServerFacts, schema: string): string[] {
  if (schemaOwner === OWNER_ROLE) return []
  if (schemaOwner === undefined) return mayCreateSchemas ? [] : [createSchema(schema)]
  // PostgreSQL asks for both before it lets a schema change its owner.
  return ownsSchema && mayCreateSchemas ? [] : [giveSchemaToOwner(schema)]
}

/** Who creates the logins must be able to grant their roles: a GRANT to a login that does not exist yet would fail. */
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

/** CREATEROLE grants only roles that it may administer. */
const ADMIN_SINCE = 16

/** A role that is still missing will be the login's own creation. */
function mayGrant({ missingRoles, ungrantableRoles, mayCreateRoles }: ServerFacts, role: string): boolean {
  return missingRoles.includes(role) ? mayCreateRoles : !ungrantableRoles.includes(role)
}
