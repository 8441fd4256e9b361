import type { ClientBase } from 'pg'
import { InvalidArgumentError } from '../core/index.js'
import { PoolerInTheWayError, RoleError, type DatabaseError } from './errors.js'
import { requiredIdentifier } from './options.js'
import { quoteIdentifier } from './Queryable.js'
import { isServerError } from './serverError.js'
import { toDatabaseError } from './toDatabaseError.js'

/** A role name that can be switched to. SET ROLE takes `none`, even quoted, as "back to the login". */
export function requiredRole(role: unknown): string {
  const name = requiredIdentifier('role', role)
  if (name === 'none') throw new InvalidArgumentError('role', 'expected the name of a role, got none')
  return name
}

interface Identity {
  readonly role: string
  readonly pid: number
}

/** Puts a new connection into its role for good, and makes sure that it is a session of our own. */
export async function enterRole(client: ClientBase, role: string): Promise<void> {
  let identity: Identity | undefined
  try {
    await client.query(`SET ROLE ${quoteIdentifier(role)}`)
    const { rows } = await client.query<Identity>('SELECT current_user AS role, pg_backend_pid() AS pid')
    identity = rows[0]
  } catch (error) {
    throw describeRoleFailure(error, role, await loginOf(client))
  }
  if (identity?.role !== role) {
    throw new RoleError(role, `the connection is in role ${identity?.role} instead of ${role}`, {})
  }
  // A pooler makes up the process id it announces, and may give the next statement to a backend without our role.
  if (identity.pid !== announcedPid(client)) {
    throw new PoolerInTheWayError(
      'a pooler stands between us and the server: the role and settings of a session would not stay with us',
      "open the database with pooler: 'transaction' (and a direct listenUrl), or connect to the server itself",
    )
  }
}

/** What to tell whoever runs a login that cannot act as a role. */
export function describeRoleFailure(error: unknown, role: string, login: string): DatabaseError {
  const sqlstate = isServerError(error) ? error.code : undefined
  if (sqlstate === INSUFFICIENT_PRIVILEGE) {
    return new RoleError(role, `the login ${login} may not act as ${role}`, {
      sqlstate,
      cause: error,
      remedy: `GRANT ${quoteIdentifier(role)} TO ${quoteIdentifier(login)}`,
    })
  }
  if (sqlstate === INVALID_PARAMETER_VALUE) {
    return new RoleError(role, `the role ${role} does not exist`, {
      sqlstate,
      cause: error,
      remedy: 'deploy the schema to this server, which creates its roles',
    })
  }
  return toDatabaseError(error, 'connecting')
}

/** SET ROLE reports a role that does not exist as a bad value of the setting `role`. */
const INVALID_PARAMETER_VALUE = '22023'
const INSUFFICIENT_PRIVILEGE = '42501'

async function loginOf(client: ClientBase): Promise<string> {
  try {
    const { rows } = await client.query<{ login: string }>('SELECT session_user AS login')
    return rows[0]?.login ?? 'unknown'
  } catch {
    return 'unknown'
  }
}

/** The process id from the server's greeting, which the driver keeps for cancel requests. */
function announcedPid(client: ClientBase): number | null {
  return 'processID' in client && typeof client.processID === 'number' ? client.processID : null
}
