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

interface RoleEntry {
  readonly role: string
  readonly login: string
  readonly timeoutMs: number
}

/** Makes sure that a new connection is a session of our own, and then puts it into its role for good. */
export async function enterRole(client: ClientBase, { role, login, timeoutMs }: RoleEntry): Promise<void> {
  // The driver takes a limit per query, though its types do not list it.
  const limit = { query_timeout: timeoutMs }
  // A pooler greets with a process id of its own. SET ROLE comes after this check: the pooler would give the server
  // connection, in our role, to its next client.
  const { rows: backends } = await client.query<{ pid: number }>({ text: 'SELECT pg_backend_pid() AS pid', ...limit })
  if (backends[0]?.pid !== announcedPid(client)) throw poolerInTheWay()
  try {
    await client.query({ text: `SET ROLE ${quoteIdentifier(role)}`, ...limit })
  } catch (error) {
    throw roleErrorIn(error, role, login) ?? error
  }
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
