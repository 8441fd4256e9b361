import {
  createLogin,
  createRole,
  createSchema,
  dedicateDatabase,
  giveSchemaToOwner,
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

function missingStatements(facts: ServerFacts, { schema, dedicatedDatabase, logins }: Wishes): string[] {
  if (facts.isSuperuser) return []
  const statements: string[] = []
  if (!facts.mayCreateRoles) statements.push(...facts.missingRoles.map(createRole))
  if (facts.schemaOwner === undefined && !facts.mayCreateSchemas) statements.push(createSchema(schema))
  if (
    facts.schemaOwner !== undefined &&
    facts.schemaOwner !== OWNER_ROLE &&
    !(facts.ownsSchema && facts.mayCreateSchemas)
  ) {
    statements.push(giveSchemaToOwner(schema))
  }
  if (!facts.mayActAsOwner && !facts.mayLendOwner) statements.push(lendOwner(facts.login, facts.version))
  if (dedicatedDatabase && !facts.ownsDatabase) statements.push(dedicateDatabase(facts.database))
  if (!facts.mayCreateRoles) {
    for (const login of logins) {
      if (!facts.existingLogins.includes(login.name)) statements.push(createLogin(login, 'choose one'))
      statements.push(grantToLogin(login, facts.version))
    }
  }
  return statements
}
