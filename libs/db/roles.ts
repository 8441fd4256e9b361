import type { ClientBase } from 'pg'
import { InvalidArgumentError } from '../core/index.js'
import { transactionPoolerError } from './connect.js'
import { RoleError } from './errors.js'
import { requiredIdentifier } from './options.js'
import { quoteIdentifier } from './Queryable.js'
import { isServerError } from './serverError.js'
import { SQLSTATE } from './sqlstates.js'

/** Checks a role name. Refuses `none`, because SET ROLE reads it, even quoted, as the login. */
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

/** Sets the role of a new connection for its lifetime, after a check that no pooler shares the session. */
export async function setRole(client: ClientBase, { role, login, timeoutMs }: RoleEntry): Promise<void> {
  // The driver accepts a limit per query, though its types omit it.
  const limit = { query_timeout: timeoutMs }
  // Compares the process id of the session with the announced one, because a pooler announces its own. SET ROLE runs
  // only after this check: a pooler would give the server connection to its next client in our role.
  const { rows: backends } = await client.query<{ pid: number }>({ text: 'SELECT pg_backend_pid() AS pid', ...limit })
  if (backends[0]?.pid !== announcedPid(client)) throw transactionPoolerError()
  let current: string | undefined
  try {
    await client.query({ text: `SET ROLE ${quoteIdentifier(role)}`, ...limit })
    const { rows } = await client.query<{ role: string }>({ text: 'SELECT current_user AS role', ...limit })
    current = rows[0]?.role
  } catch (error) {
    throw roleErrorIn(error, role, login, await loginsOf(client, role)) ?? error
  }
  if (current !== role) throw new RoleError(role, `the connection is in role ${current} instead of ${role}`, {})
}

/**
 * Returns up to three logins that may act as the role, for the remedy. Leaves out logins of workers
 * (symphony_executor), unless the role is theirs.
 */
async function loginsOf(client: ClientBase, role: string): Promise<readonly string[]> {
  try {
    const { rows } = await client.query<{ login: string }>(LOGINS, [role])
    return rows.map(({ login }) => login)
  } catch {
    return []
  }
}

const LOGINS = `
  SELECT l.rolname::text AS login FROM pg_catalog.pg_roles l JOIN pg_catalog.pg_roles r ON r.rolname = $1
  LEFT JOIN pg_catalog.pg_roles w ON w.rolname = 'symphony_executor' AND w.oid <> r.oid
  WHERE l.rolcanlogin AND NOT l.rolsuper AND pg_catalog.pg_has_role(l.oid, r.oid, 'MEMBER')
    AND (w.oid IS NULL OR NOT pg_catalog.pg_has_role(l.oid, w.oid, 'MEMBER')) ORDER BY 1 LIMIT 3`

/** Returns the error of a login that cannot act as a role; undefined if SET ROLE failed for another reason. */
export function roleErrorIn(
  error: unknown,
  role: string,
  login: string,
  memberLogins: readonly string[] = [],
): RoleError | undefined {
  const sqlstate = isServerError(error) ? error.code : undefined
  if (sqlstate === SQLSTATE.insufficientPrivilege) {
    return new RoleError(role, `the login ${login} may not act as ${role}`, {
      sqlstate,
      cause: error,
      remedy: loginRemedy(role, memberLogins),
    })
  }
  // SET ROLE reports a missing role as an invalid value of the setting `role`.
  if (sqlstate === SQLSTATE.invalidParameterValue) {
    return new RoleError(role, `the role ${role} does not exist`, {
      sqlstate,
      cause: error,
      remedy: 'Run symphony deploy on this server, which creates its roles.',
    })
  }
  return undefined
}

/**
 * Returns the remedy. Never suggests a GRANT to the current login, which may be an application that must not become a
 * worker or operator.
 */
function loginRemedy(role: string, memberLogins: readonly string[]): string {
  const known = memberLogins.length === 0 ? '' : ` A person may also log in as ${memberLogins.join(' or ')}.`
  return `symphony deploy --create-login NAME=${role.replace(/^symphony_/, '')} creates a login for this role.${known}`
}

/** Returns the process id that the server announced. The driver keeps it for cancel requests. */
function announcedPid(client: ClientBase): number | null {
  return 'processID' in client && typeof client.processID === 'number' ? client.processID : null
}
