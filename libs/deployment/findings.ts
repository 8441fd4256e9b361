import type { Transaction } from '../db/index.js'
import { restoreRemedy } from './deploymentErrors.js'
import { readDeploymentRecord, type ServerEnvironment } from './reads.js'
import { isNewer, readRelease } from './release.js'
import { OWNER_ROLE } from './roles.js'
import { inOrder, readSchemaFiles } from './schemaFiles.js'

export interface Finding {
  /**
   * `drift`: the database differs from the schema of this release. `damage`: the data breaks an invariant. `note`: a
   * setting that an operator may have chosen. `drift` and `damage` make the examination fail.
   */
  readonly severity: 'drift' | 'damage' | 'note'
  /** Code for programs: `INDEX_MISSING`. */
  readonly code: string
  /** Object: `index payment_outbox_pending.ix_pending_claimable`. */
  readonly object: string
  readonly expected: string
  readonly found: string
  /** Instruction for the operator, with the command. */
  readonly remedy: string
}

/** Newest major version of PostgreSQL that the tests of this release run on. */
const VERSION_TESTED_MAX = 18

/**
 * Returns findings about the login, the server and the database. All are notes, because an operator may have chosen the
 * state on purpose.
 */
export function environmentFindings(around: ServerEnvironment): readonly Finding[] {
  return [
    ...note(around.loginIsSuperuser, {
      code: 'LOGIN_IS_SUPERUSER',
      object: `login ${around.login}`,
      expected: 'a login that is not a superuser',
      found: 'a superuser',
      remedy: 'Run workers and applications as logins of their own: symphony deploy --create-login NAME=ROLE',
    }),
    ...around.publicPrivileges.flatMap((privilege) =>
      note(true, {
        code: `DATABASE_PUBLIC_${privilege}`,
        object: 'database',
        expected: 'nothing for PUBLIC but CONNECT',
        found: `${privilege} for PUBLIC`,
        remedy: 'If this database serves Symphony alone: symphony deploy --dedicated-database',
      }),
    ),
    ...around.ownerGranters.flatMap((role) =>
      note(true, {
        code: 'OWNER_GRANTABLE',
        object: `role ${role}`,
        expected: `no role that can grant ${OWNER_ROLE}`,
        found: `${role} can grant it, also to itself`,
        remedy: 'The deploying login needs this. Use other logins for workers and applications.',
      }),
    ),
    ...around.dataWriters.flatMap((login) =>
      note(true, {
        code: 'LOGIN_WRITES_ALL_DATA',
        object: `login ${login}`,
        expected: 'no login that may write the tables of Symphony',
        found: 'a member of pg_write_all_data',
        remedy: 'Revoke that membership, or trust this login with the ledger.',
      }),
    ),
    ...note(around.fsync !== 'on' || around.fullPageWrites !== 'on', {
      code: 'SERVER_NOT_DURABLE',
      object: 'server',
      expected: 'fsync on, full_page_writes on',
      found: `fsync ${around.fsync}, full_page_writes ${around.fullPageWrites}`,
      remedy: 'Switch both on: a crash of the machine could lose payments that were committed.',
    }),
    ...note(around.isStandby, {
      code: 'SERVER_IS_STANDBY',
      object: 'server',
      expected: 'a primary',
      found: 'a standby',
      remedy: 'Point DATABASE_URL at the primary: a standby can be examined, but accepts no writes.',
    }),
    ...note(around.version > VERSION_TESTED_MAX, {
      code: 'SERVER_VERSION_UNTESTED',
      object: 'server',
      expected: `PostgreSQL 15 to ${VERSION_TESTED_MAX}`,
      found: `PostgreSQL ${around.version}`,
      remedy: 'Look for a newer release of Symphony.',
    }),
  ]
}

function note(applies: boolean, finding: Omit<Finding, 'severity'>): readonly Finding[] {
  return applies ? [{ severity: 'note', ...finding }] : []
}

/** Returns a finding if another release deployed the schema. Returns none if the role may not read the record. */
export async function releaseFindings(tx: Transaction): Promise<readonly Finding[]> {
  const record = await readDeploymentRecord(tx, tx.schema)
  if (record === 'unreadable') return []
  const release = readRelease()
  if (record === 'none') return [differentRelease(release.version, 'no record of a deployment', DEPLOY)]
  if (inOrder(readSchemaFiles()).every(({ name, sha256 }) => record.checksums.get(name) === sha256)) return []
  const remedy = isNewer(record, release) ? `Use release ${record.version} of Symphony, or a newer one.` : DEPLOY
  return [differentRelease(release.version, `release ${record.version} with other files`, remedy)]
}

/** Returns one finding for a dump restored without the roles, instead of one per object. */
export function restoreFindings({ restoredAs }: ServerEnvironment, schema: string): readonly Finding[] {
  if (restoredAs === null) return []
  return [
    {
      severity: 'drift',
      code: 'RESTORED_WITHOUT_ROLES',
      object: `schema ${schema}`,
      expected: `objects of ${OWNER_ROLE}`,
      found: `objects of ${restoredAs}: a dump was restored while the roles were missing`,
      remedy: restoreRemedy(schema),
    },
  ]
}

const DEPLOY = 'symphony deploy'

function differentRelease(expected: string, found: string, remedy: string): Finding {
  return {
    severity: 'drift',
    code: 'DEPLOYED_BY_ANOTHER_RELEASE',
    object: 'symphony_deployments',
    expected: `the files of release ${expected}`,
    found,
    remedy,
  }
}
