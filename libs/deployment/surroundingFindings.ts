import type { Surroundings } from './db.js'
import type { Finding } from './findings.js'
import { OWNER_ROLE } from './roles.js'

/** The newest version of PostgreSQL on which this release was proven. */
const VERSION_PROVEN_MAX = 18

/** What is worth knowing about the server and the database, although nobody may have done anything wrong. */
export function surroundingFindings(around: Surroundings): readonly Finding[] {
  return [
    ...mention(around.loginIsSuperuser, {
      code: 'LOGIN_IS_SUPERUSER',
      object: `login ${around.login}`,
      expected: 'a login without special powers',
      found: 'a superuser',
      remedy: 'Run workers and applications as logins of their own: symphony deploy --create-login NAME=ROLE',
    }),
    ...around.publicPrivileges.flatMap((privilege) =>
      mention(true, {
        code: `DATABASE_PUBLIC_${privilege}`,
        object: 'database',
        expected: 'nothing for PUBLIC but CONNECT',
        found: `${privilege} for PUBLIC`,
        remedy: 'If this database serves Symphony alone: symphony deploy --dedicated-database',
      }),
    ),
    ...around.ownerGranters.flatMap((role) =>
      mention(true, {
        code: 'OWNER_GRANTABLE',
        object: `role ${role}`,
        expected: `nobody who can grant ${OWNER_ROLE}`,
        found: `${role} can grant it, to itself too`,
        remedy: 'As the login that deploys it needs this. Keep it apart from the logins of workers and applications.',
      }),
    ),
    ...around.dataWriters.flatMap((login) =>
      mention(true, {
        code: 'LOGIN_WRITES_ALL_DATA',
        object: `login ${login}`,
        expected: 'no login that may write our tables',
        found: 'a member of pg_write_all_data',
        remedy: 'Take that membership away, or trust this login with the ledger.',
      }),
    ),
    ...mention(around.fsync !== 'on' || around.fullPageWrites !== 'on', {
      code: 'SERVER_MAY_FORGET',
      object: 'server',
      expected: 'fsync on, full_page_writes on',
      found: `fsync ${around.fsync}, full_page_writes ${around.fullPageWrites}`,
      remedy: 'Switch both on: a crash of the machine could lose payments that were committed.',
    }),
    ...mention(around.isStandby, {
      code: 'SERVER_IS_STANDBY',
      object: 'server',
      expected: 'a primary',
      found: 'a standby',
      remedy: 'It can be examined, but nothing can be enqueued or claimed here: point DATABASE_URL at the primary.',
    }),
    ...mention(around.version > VERSION_PROVEN_MAX, {
      code: 'SERVER_VERSION_UNPROVEN',
      object: 'server',
      expected: `PostgreSQL 15 to ${VERSION_PROVEN_MAX}`,
      found: `PostgreSQL ${around.version}`,
      remedy: 'Look for a newer release of Symphony.',
    }),
  ]
}

function mention(applies: boolean, finding: Omit<Finding, 'severity'>): readonly Finding[] {
  return applies ? [{ severity: 'mention', ...finding }] : []
}
