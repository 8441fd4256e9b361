import { DatabaseError, type Transaction } from '../db/index.js'
import {
  createLogin,
  createSchema,
  dedicateDatabase,
  DROP_LEGACY,
  enterSchemaAsOwner,
  giveSchemaToOwner,
  grantOwnerToLogin,
  grantToLogin,
  INSTALLER_SETTINGS,
  LEAVE_SCHEMA,
  LOCK_TABLES,
  recordDeployment,
  revokeOwnerFromLogin,
  setActorGateway,
  type Step,
} from './db.js'
import { DeploymentError } from './errors.js'
import type { LoginStatement } from './logins.js'
import type { ServerFacts } from './reads.js'
import type { Release } from './release.js'
import { OWNER_ROLE } from './roles.js'
import { inOrder, type SchemaFile, type SchemaFiles } from './schemaFiles.js'

export interface Login extends LoginStatement {
  /** Stored form of the password of a new login; null in a dry run, undefined for an existing login. */
  readonly secret: string | null | undefined
}

/** Returns the steps from the start of the transaction until the owner holds the lock of the schema. */
export function openingSteps(facts: ServerFacts, schema: string, { cluster }: SchemaFiles): readonly Step[] {
  return [
    { title: 'settings of this transaction', sql: INSTALLER_SETTINGS },
    ...cluster.map(fileStep),
    ...(needsOwnerGrant(facts)
      ? [{ title: 'grant the owner role', sql: grantOwnerToLogin(facts.login, facts.version) }]
      : []),
    ...schemaSteps(facts, schema),
    { title: 'switch to the owner role and the schema', sql: enterSchemaAsOwner(schema) },
  ]
}

/**
 * Returns the steps for the roles and the logins only. They set no gateways, because the restore that follows brings
 * the row of `symphony_settings` with the gateways.
 */
export function roleSteps(facts: ServerFacts, { cluster }: SchemaFiles, logins: readonly Login[]): readonly Step[] {
  return [
    { title: 'settings of this transaction', sql: INSTALLER_SETTINGS },
    ...cluster.map(fileStep),
    ...logins.map((login) => loginStep(login, facts.version)),
  ]
}

interface Changes {
  readonly dropLegacy: boolean
  /** Files of tables and migrations to apply: those that were never applied, or all with `reapply`. */
  readonly tables: readonly SchemaFile[]
  /** Statements that drop objects which CREATE OR REPLACE cannot replace. */
  readonly dropOutdated: string
}

/**
 * Returns the steps that apply the files of `changes.tables` and all functions, views and privileges, and that record
 * the deployment.
 */
export function fileSteps(files: SchemaFiles, release: Release, changes: Changes): readonly Step[] {
  const { dropLegacy, tables, dropOutdated } = changes
  return [
    ...(dropLegacy ? [{ title: 'removal of objects of the earlier design', sql: DROP_LEGACY }] : []),
    { title: 'lock on all tables', sql: LOCK_TABLES },
    ...(dropOutdated === '' ? [] : [{ title: 'removal of outdated functions and views', sql: dropOutdated }]),
    ...tables.map(fileStep),
    ...files.repeatable.map(fileStep),
    { title: 'the record of this deployment', sql: recordDeployment(release, inOrder(files)) },
    fileStep(files.privileges),
  ]
}

/**
 * Returns the steps of a deployment without changed files. They apply the privileges again, which revokes manual grants
 * to our roles.
 */
export function regrantSteps({ privileges }: SchemaFiles): readonly Step[] {
  return [fileStep(privileges)]
}

/**
 * Returns the steps after the files. The owner role records the gateways. Then the deploying login revokes the owner
 * role from itself, revokes rights of PUBLIC if `dedicatedDatabase` is set, and creates the logins.
 */
export function closingSteps(
  facts: ServerFacts,
  { dedicatedDatabase, logins }: { readonly dedicatedDatabase: boolean; readonly logins: readonly Login[] },
): readonly Step[] {
  return [
    ...logins
      .filter(({ gateway }) => gateway !== undefined)
      .map((login) => ({ title: `the gateway ${login.name}`, sql: setActorGateway(login) })),
    { title: 'switch back to the login', sql: LEAVE_SCHEMA },
    ...(needsOwnerGrant(facts) ? [{ title: 'revoke the owner role', sql: revokeOwnerFromLogin(facts.login) }] : []),
    ...(dedicatedDatabase ? [{ title: 'a database for Symphony alone', sql: dedicateDatabase(facts.database) }] : []),
    ...logins.map((login) => loginStep(login, facts.version)),
  ]
}

export function needsOwnerGrant({ mayActAsOwner }: ServerFacts): boolean {
  return !mayActAsOwner
}

function schemaSteps({ schemaOwner }: ServerFacts, schema: string): readonly Step[] {
  if (schemaOwner === OWNER_ROLE) return []
  if (schemaOwner === undefined) return [{ title: 'the schema', sql: createSchema(schema) }]
  return [{ title: 'transfer of the schema to the owner role', sql: giveSchemaToOwner(schema) }]
}

function fileStep({ name, sql }: SchemaFile): Step {
  return { title: `schema/${name}`, sql }
}

function loginStep(login: Login, version: number): Step {
  const creation = login.secret === undefined ? [] : [createLogin(login, login.secret)]
  return {
    title: `the login ${login.name}`,
    sql: [...creation, grantToLogin(login, version)].join('\n'),
    createsLogin: creation.length > 0,
  }
}

/** Runs the steps in order. An error names the step. */
export async function runSteps(tx: Transaction, steps: readonly Step[]): Promise<void> {
  for (const step of steps) {
    try {
      await tx.query(step.sql)
    } catch (error) {
      throw isConcurrencyError(error, step) ? error : stepFailed(step, error)
    }
  }
}

/**
 * Returns whether concurrent work may have caused the failure: a lock, a deadlock, a connection lost during a step. Two
 * deployments of one cluster may also create or grant the same role at once. PostgreSQL reports that as a unique
 * violation in its catalog, as a duplicate object in the step of a login, or as the internal error "tuple concurrently
 * updated". Without a step, the error is one that `runSteps` did not wrap.
 */
export function isConcurrencyError(error: unknown, step?: Step): boolean {
  if (!(error instanceof DatabaseError) || NO_CONNECTION.has(error.code)) return false
  if (error.disposition === 'retry' || error.code === 'INTERNAL_ERROR') return true
  if (error.sqlstate === DUPLICATE_OBJECT) return step === undefined || step.createsLogin === true
  return error.code === 'UNIQUE_VIOLATION' && error.table?.startsWith('pg_') === true
}

const DUPLICATE_OBJECT = '42710'

/** Codes for a connection that could not be opened. Concurrent work does not cause them. */
const NO_CONNECTION: ReadonlySet<string> = new Set(['CANNOT_CONNECT_NOW', 'CONNECT_FAILED', 'TOO_MANY_CONNECTIONS'])

function stepFailed({ title }: Step, error: unknown): DeploymentError {
  if (error instanceof DatabaseError && error.code === 'FEATURE_NOT_SUPPORTED' && error.hint !== undefined) {
    return new DeploymentError('DEPLOYMENT_SERVER_UNFIT', error.message, { cause: error, remedy: error.hint })
  }
  return new DeploymentError('DEPLOYMENT_FILE_FAILED', `${title} could not be applied. Nothing was changed.`, {
    cause: error,
  })
}
