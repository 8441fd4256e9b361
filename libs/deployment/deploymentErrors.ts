import { dropSchema } from './db.js'
import type { LoginStatement } from './logins.js'
import { DeploymentError } from './errors.js'
import type { NamedObject } from './reads.js'
import type { Release } from './release.js'
import { OWNER_ROLE } from './roles.js'

/** Errors of a deployment, each with its remedy. */

export function legacyObjectsError(schema: string, objects: readonly NamedObject[]): DeploymentError {
  return new DeploymentError(
    'DEPLOYMENT_LEGACY_OBJECTS',
    `The schema ${schema} contains objects of Symphony's earlier design: ${list(objects)}.`,
    { remedy: 'Save their contents, then deploy with --drop-legacy, which drops them.' },
  )
}

export function foreignObjectsError(schema: string, objects: readonly NamedObject[]): DeploymentError {
  return new DeploymentError(
    'DEPLOYMENT_FOREIGN_OBJECTS',
    `The schema ${schema} contains objects that do not belong to ${OWNER_ROLE}: ${list(objects)}.`,
    {
      remedy: `Choose an empty schema. If an object belongs to Symphony, change its owner back: ALTER … OWNER TO ${OWNER_ROLE}.`,
    },
  )
}

/**
 * Returns whether these foreign objects have the names of our tables. Then a dump was restored while our roles were
 * missing.
 */
export function isRestoredWithoutRoles(foreign: readonly NamedObject[]): boolean {
  return ['payment_outbox_attempts', 'symphony_deployments'].every((table) =>
    foreign.some(({ type, identity }) => type === 'table' && identity.endsWith(`.${table}`)),
  )
}

export function restoredWithoutRolesError(schema: string): DeploymentError {
  return new DeploymentError(
    'RESTORED_WITHOUT_ROLES',
    `The schema ${schema} comes from a dump that was restored while the roles of Symphony were missing.`,
    { remedy: restoreRemedy(schema) },
  )
}

export function restoreRemedy(schema: string): string {
  return `${dropSchema(schema)}, run symphony deploy --roles-only, and restore the dump again (docs/operate/dump.md).`
}

export function newerDatabaseError(schema: string, found: Release, own: Release): DeploymentError {
  return new DeploymentError(
    'DEPLOYMENT_NEWER_DATABASE',
    `The schema ${schema} was deployed by release ${found.version} (level ${found.schemaLevel}); ` +
      `this is ${own.version} (level ${own.schemaLevel}), which would undo it.`,
    { remedy: 'Deploy with that release or a newer one.' },
  )
}

/**
 * Error for a changed file of a table. Such a file never changes after its release, because every change of a table is
 * a separate migration file.
 */
export function tablesDifferError(schema: string, files: readonly { readonly name: string }[]): DeploymentError {
  return new DeploymentError(
    'DEPLOYMENT_TABLES_DIFFER',
    `The tables of the schema ${schema} were created by other versions of: ${files.map(({ name }) => name).join(', ')}.`,
    {
      remedy:
        'An unreleased build deployed them. Continue with that build, or deploy into an empty database or another schema (--schema).',
    },
  )
}

export function notDeployedError(schema: string): DeploymentError {
  return new DeploymentError('NOT_DEPLOYED', `The schema ${schema} contains no deployment of Symphony.`, {
    remedy: 'Run symphony deploy, or name the schema of the deployment: --schema.',
  })
}

export function serverIsStandbyError(database: string): DeploymentError {
  return new DeploymentError(
    'DEPLOYMENT_SERVER_UNFIT',
    `The server of ${database} is a standby and accepts no writes.`,
    {
      remedy: 'Point DATABASE_URL at the primary.',
    },
  )
}

export function schemaAccessError(schema: string): DeploymentError {
  return new DeploymentError('DOCTOR_ROLE_MISSING', `This login has no role that may use the schema ${schema}.`, {
    remedy: 'Make it a member of the role it works in: symphony deploy --create-login NAME=ROLE',
  })
}

export function lockConflictError(attempts: number, cause: unknown): DeploymentError {
  return new DeploymentError(
    'DEPLOYMENT_BLOCKED',
    `Other transactions held conflicting locks in each of ${attempts} attempts. Nothing was changed.`,
    {
      cause,
      remedy: 'Find the long-running transaction in pg_stat_activity, end it, and deploy again.',
    },
  )
}

export function ownerNotRevokedError(login: string): DeploymentError {
  return new DeploymentError(
    'DEPLOYMENT_WITHOUT_EFFECT',
    `The role ${OWNER_ROLE} could not be revoked from the login ${login}.`,
    {
      remedy: `Ask a superuser to find out how ${login} became a member of ${OWNER_ROLE}.`,
    },
  )
}

export function databaseNotDedicatedError(database: string): DeploymentError {
  return new DeploymentError('DEPLOYMENT_WITHOUT_EFFECT', `PUBLIC still has TEMP or CREATE in ${database}.`, {
    remedy: `Deploy as the owner of the database ${database}, or as a superuser.`,
  })
}

export function loginMismatchError({ name, inherits }: LoginStatement): DeploymentError {
  return new DeploymentError(
    'DEPLOYMENT_LOGIN_MISMATCH',
    `The role ${name} exists but is not the requested login: one that can log in and ` +
      `${inherits ? 'has the rights of its role at all times' : 'has the rights of its roles only when it switches to them'}.`,
    { remedy: `Choose another name, or change it: ALTER ROLE … LOGIN ${inherits ? 'INHERIT' : 'NOINHERIT'}.` },
  )
}

function list(objects: readonly NamedObject[]): string {
  return objects.map(({ type, identity, owner }) => `${type} ${identity} of ${owner}`).join(', ')
}
