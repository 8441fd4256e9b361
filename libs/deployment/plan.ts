import {
  createLogin,
  createSchema,
  dedicateDatabase,
  DROP_LEGACY,
  enterSchemaAsOwner,
  giveSchemaToOwner,
  grantToLogin,
  INSTALLER_SETTINGS,
  LEAVE_SCHEMA,
  lendOwner,
  LOCK_TABLES,
  recordDeployment,
  returnOwner,
  setActorGateway,
  type LoginStatement,
  type ServerFacts,
  type Step,
} from './db.js'
import type { Release } from './release.js'
import { OWNER_ROLE } from './roles.js'
import { inOrder, type SchemaFile, type SchemaFiles } from './schemaFiles.js'

export interface Login extends LoginStatement {
  /** The stored form of the password, for a login that is to be created; undefined for one that exists. */
  readonly secret: string | undefined
}

/** From the beginning of the transaction to the point where the owner holds the schema's lock. */
export function openingSteps(facts: ServerFacts, schema: string, { cluster }: SchemaFiles): readonly Step[] {
  return [
    { title: 'settings of this transaction', sql: INSTALLER_SETTINGS },
    ...cluster.map(fileStep),
    ...(borrowsOwner(facts) ? [{ title: 'lend the owner role', sql: lendOwner(facts.login, facts.version) }] : []),
    ...schemaSteps(facts, schema),
    { title: 'as the owner, in the schema', sql: enterSchemaAsOwner(schema) },
  ]
}

/** The roles and the logins alone. The restored row of settings names the gateways. */
export function roleSteps(facts: ServerFacts, { cluster }: SchemaFiles, logins: readonly Login[]): readonly Step[] {
  return [
    { title: 'settings of this transaction', sql: INSTALLER_SETTINGS },
    ...cluster.map(fileStep),
    ...logins.map((login) => loginStep(login, facts.version)),
  ]
}

export interface Changes {
  readonly dropLegacy: boolean
  /** Tables and migrations that were never applied. */
  readonly tables: readonly SchemaFile[]
  /** Statements that drop what CREATE OR REPLACE cannot replace. */
  readonly dropOutdated: string
}

/** Everything that is new or has changed, and the record of it. */
export function fileSteps(files: SchemaFiles, release: Release, changes: Changes): readonly Step[] {
  const { dropLegacy, tables, dropOutdated } = changes
  return [
    ...(dropLegacy ? [{ title: 'drop what the outbox before this one left', sql: DROP_LEGACY }] : []),
    { title: 'the lock of every table there is', sql: LOCK_TABLES },
    ...(dropOutdated === '' ? [] : [{ title: 'drop what cannot be replaced in place', sql: dropOutdated }]),
    ...tables.map(fileStep),
    ...files.repeatable.map(fileStep),
    { title: 'the record of this deployment', sql: recordDeployment(release, inOrder(files)) },
    fileStep(files.privileges),
  ]
}

/** Nothing has changed: the rights are said again, which takes back what was granted by hand to one of our roles. */
export function healingSteps({ privileges }: SchemaFiles): readonly Step[] {
  return [fileStep(privileges)]
}

/** What the owner says of logins, and then as the login again. */
export function closingSteps(
  facts: ServerFacts,
  { dedicatedDatabase, logins }: { readonly dedicatedDatabase: boolean; readonly logins: readonly Login[] },
): readonly Step[] {
  return [
    ...logins
      .filter(({ gateway }) => gateway !== undefined)
      .map((login) => ({ title: `${login.name} acts for people`, sql: setActorGateway(login) })),
    { title: 'as the login again', sql: LEAVE_SCHEMA },
    ...(borrowsOwner(facts) ? [{ title: 'return the owner role', sql: returnOwner(facts.login) }] : []),
    ...(dedicatedDatabase ? [{ title: 'a database for Symphony alone', sql: dedicateDatabase(facts.database) }] : []),
    ...logins.map((login) => loginStep(login, facts.version)),
  ]
}

export function borrowsOwner({ mayActAsOwner }: ServerFacts): boolean {
  return !mayActAsOwner
}

function schemaSteps({ schemaOwner }: ServerFacts, schema: string): readonly Step[] {
  if (schemaOwner === OWNER_ROLE) return []
  if (schemaOwner === undefined) return [{ title: 'the schema', sql: createSchema(schema) }]
  return [{ title: 'the schema becomes ours', sql: giveSchemaToOwner(schema) }]
}

function fileStep({ name, sql }: SchemaFile): Step {
  return { title: `schema/${name}`, sql }
}

function loginStep(login: Login, version: number): Step {
  const creation = login.secret === undefined ? [] : [createLogin(login, login.secret)]
  return { title: `the login ${login.name}`, sql: [...creation, grantToLogin(login, version)].join('\n') }
}
