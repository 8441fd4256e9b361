import type { ClientBase } from 'pg'
import { InvalidArgumentError } from '../core/index.js'
import { poolerInTheWay } from './connectFailure.js'
import { RoleError } from './errors.js'
import { requiredIdentifier } from './options.js'
import { quoteIdentifier } from './Queryable.js'
import { isServerError } from './serverError.js'
import { SQLSTATE } from './sqlstates.js'

/** A role name that can be switched to. SET ROLE takes `none`, even quoted, as "back to the login". */
export function requiredRole(role: unknown): string {
  const name = requiredIdentifier('role', role)
  if (name === 'none') throw new InvalidArgumentError('role', 'expected the name of a role, got none')
  return name
}

const IDENTITY = 'SELECT current_user AS role, pg_backend_pid() AS pid'

interface RoleEntry {
  readonly role: string
  readonly login: string
  readonly timeoutMs: number
}

interface Identity {
  readonly role: string
  readonly pid: number
}

/** Puts a new connection into its role for good, and makes sure that it is a session of our own. */
export async function enterRole(client: ClientBase, { role, login, timeoutMs }: RoleEntry): Promise<void> {
  // The driver takes a limit per query, though its types do not list it.
  const limit = { query_timeout: timeoutMs }
  let identity: Identity | undefined
  try {
    await client.query({ text: `SET ROLE ${quoteIdentifier(role)}`, ...limit })
    const { rows } = await client.query<Identity>({ text: IDENTITY, ...limit })
    identity = rows[0]
  } catch (error) {
    throw roleErrorIn(error, role, login) ?? error
  }
  if (identity?.role !== role) {
    throw new RoleError(role, `the connection is in role ${identity?.role} instead of ${role}`, {})
  }
  // A pooler makes up the process id it announces, and may give the next statement to a backend without our role.
  if (identity.pid !== announcedPid(client)) throw poolerInTheWay()
}

/** What to tell whoever runs a login that cannot act as a role; undefined if SET ROLE failed for another reason. */
export function roleErrorIn(error: unknown, role: string, login: string): RoleError | undefined {
  const sqlstate = isServerError(error) ? error.code : undefined
  if (sqlstate === SQLSTATE.insufficientPrivilege) {
    return new RoleError(role, `the login ${login} may not act as ${role}`, {
      sqlstate,
      cause: error,
      remedy: `GRANT ${quoteIdentifier(role)} TO ${quoteIdentifier(login)}`,
    })
  }
  // SET ROLE reports a role that does not exist as a bad value of the setting `role`.
  if (sqlstate === SQLSTATE.invalidParameterValue) {
    return new RoleError(role, `the role ${role} does not exist`, {
      sqlstate,
      cause: error,
      remedy: 'deploy the schema to this server, which creates its roles',
    })
  }
  return undefined
}

/** The process id from the server's greeting, which the driver keeps for cancel requests. */
function announcedPid(client: ClientBase): number | null {
  return 'processID' in client && typeof client.processID === 'number' ? client.processID : null
}
