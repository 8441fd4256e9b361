import { requireKnownOptions } from '../core/index.js'
import {
  DatabaseError,
  openLoginDatabase,
  type DatabaseOptions,
  type LoginDatabase,
  type Transaction,
} from '../db/index.js'
import { readCatalog } from './catalog.js'
import { compareCatalogs } from './compareCatalogs.js'
import { becomeAuditor, setExaminedItems, useSchema } from './db.js'
import { DeploymentError } from './errors.js'
import { environmentFindings, type Finding, releaseFindings, restoreFindings } from './findings.js'
import { condense, readManifest } from './manifest.js'
import { readServerEnvironment, type ServerEnvironment } from './reads.js'
import { readSqlQueries, type SqlQuery } from './schemaFiles.js'
import { RUNTIME_ROLES } from './roles.js'

export interface DoctorOptions extends Pick<DatabaseOptions, 'url' | 'schema' | 'tls'> {
  /** Whether to check every item instead of the newest ones. @default false */
  readonly full?: boolean
}

export interface Diagnosis {
  /** True if every finding is a `note`. */
  readonly ok: boolean
  readonly schema: string
  readonly findings: readonly Finding[]
}

/** Statement timeout of the doctor. Counting a large ledger takes minutes and blocks no other transaction. */
const STATEMENT_TIMEOUT_MS = 1_800_000

/** Number of newest items that the checks examine without `full`. */
const ITEMS_EXAMINED = 10_000

/**
 * Compares a live database with the objects of this release, and its data with the invariants. Reads only. The login
 * must be a member of `symphony_auditor`, or a superuser.
 */
export async function doctor(options: DoctorOptions): Promise<Diagnosis> {
  requireKnownOptions(options, ['url', 'schema', 'tls', 'full'])
  const { url, schema, tls, full = false } = options
  const database = openLoginDatabase({
    url,
    applicationName: 'symphony doctor',
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    ...(schema === undefined ? {} : { schema }),
    ...(tls === undefined ? {} : { tls }),
  })
  try {
    const findings = await examine(database, full)
    return { ok: findings.every(({ severity }) => severity === 'note'), schema: database.schema, findings }
  } finally {
    await database.close()
  }
}

async function examine(database: LoginDatabase, full: boolean): Promise<readonly Finding[]> {
  const { schema } = database
  const around = await database.transaction('READ ONLY', (tx) => readServerEnvironment(tx, schema))
  if (!around.isDeployed) return [notDeployed(schema)]
  const restored = restoreFindings(around, schema)
  if (restored.length > 0) return restored
  requireAccess(around, schema)
  const drift = await database.transaction('READ ONLY', async (tx) => {
    await becomeAuditor(tx, around)
    return [...(await releaseFindings(tx)), ...(await examineCatalog(tx, around.version))]
  })
  const broken: Finding[] = []
  for (const check of readSqlQueries('checks')) broken.push(...(await runCheck(database, around, check, full)))
  return [...drift, ...broken, ...environmentFindings(around)]
}

function requireAccess(around: ServerEnvironment, schema: string): void {
  const { auditor } = RUNTIME_ROLES
  if (around.loginIsSuperuser) return
  if (!around.mayActAsAuditor) {
    throw new DeploymentError('DOCTOR_ROLE_MISSING', `The login ${around.login} may not act as ${auditor}.`, {
      remedy: 'Use a superuser, or a login that symphony deploy --create-login NAME=auditor has created.',
    })
  }
  if (!around.auditorMayUseSchema) {
    throw new DeploymentError('DOCTOR_ROLE_MISSING', `The role ${auditor} may not use the schema ${schema}.`, {
      remedy: 'Run symphony deploy, which grants it this right.',
    })
  }
}

function notDeployed(schema: string): Finding {
  return {
    severity: 'drift',
    code: 'NOT_DEPLOYED',
    object: `schema ${schema}`,
    expected: 'a deployment of Symphony',
    found: 'none of its tables',
    remedy: 'symphony deploy',
  }
}

async function examineCatalog(tx: Transaction, version: number): Promise<readonly Finding[]> {
  return compareCatalogs(readManifest(version), condense(await readCatalog(tx, tx.schema)))
}

/**
 * Runs a check in its own transaction, because a failing check must not stop the others. A check fails, for example, if
 * its table is missing.
 */
async function runCheck(
  database: LoginDatabase,
  around: ServerEnvironment,
  { name, sql }: SqlQuery,
  full: boolean,
): Promise<readonly Finding[]> {
  try {
    return await database.transaction('READ ONLY', async (tx) => {
      await becomeAuditor(tx, around)
      await tx.query(useSchema(tx.schema))
      await setExaminedItems(tx, full ? undefined : ITEMS_EXAMINED)
      const { rows } = await tx.query<Observation>(sql)
      return rows.map((row) => damage(name, row))
    })
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.disposition !== 'fatal') throw error
    return [damage(name, { object: `schema/checks/${name}.sql`, expected: 'an answer', found: error.message })]
  }
}

type Observation = Pick<Finding, 'object' | 'expected' | 'found'>

function damage(check: string, { object, expected, found }: Observation): Finding {
  return {
    severity: 'damage',
    code: check.toUpperCase(),
    object,
    expected,
    found,
    remedy:
      REMEDIES[check] ??
      `Keep the database as it is and find out what wrote to it; schema/checks/${check}.sql is the failed check.`,
  }
}

/** Remedies of checks for which the default remedy is too general. */
const REMEDIES: Readonly<Record<string, string>> = {
  lease_floor_is_kept:
    'The restore omitted the row of the floor. Restore into an empty database, as docs/operate/dump.md says; or, as ' +
    'symphony_owner, set symphony_lease_floor.fencing_token to the highest fencing token ever issued, or higher.',
  dispatch_is_open:
    'Compare the ledger with the rail’s records as docs/operate/restore.md says, then: symphony freeze lift --reason "…"',
}
