import { Client } from 'pg'
import { clientConfig } from './clientConfig.js'
import { connectFailure } from './connectFailure.js'
import { disconnect } from './disconnect.js'
import type { ResolvedOptions } from './options.js'
import { quoteIdentifier } from './Queryable.js'
import { roleErrorIn } from './roles.js'

export interface RoleReport {
  readonly login: string
  /** A superuser may do anything in any role: least privilege proves nothing with such a login. */
  readonly loginIsSuperuser: boolean
  readonly roles: readonly RoleProbe[]
}

export type RoleProbe =
  | {
      readonly role: string
      readonly usable: true
      /** True if the login has the rights of the role without switching to it, which a NOINHERIT login has not. */
      readonly inherited: boolean
    }
  | { readonly role: string; readonly usable: false; readonly reason: string; readonly remedy: string | undefined }

/** Tries each role on a connection of its own and says what is missing. Changes nothing. */
export async function probeRoles(options: ResolvedOptions, roles: readonly string[]): Promise<RoleReport> {
  const client = new Client({ ...clientConfig(options.target, options), query_timeout: options.connectTimeoutMs })
  // What kills the connection also fails the query in hand.
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows } = await client.query<{ login: string; is_superuser: boolean }>(LOGIN)
    const { login, is_superuser: loginIsSuperuser } = rows[0]!
    const probes: RoleProbe[] = []
    for (const role of roles) probes.push(await probeRole(client, login, role))
    return { login, loginIsSuperuser, roles: probes }
  } catch (error) {
    throw connectFailure(error, options.target)
  } finally {
    await disconnect(client)
  }
}

const LOGIN = `
  SELECT session_user AS login, rolsuper AS is_superuser FROM pg_catalog.pg_roles WHERE rolname = session_user`

async function probeRole(client: Client, login: string, role: string): Promise<RoleProbe> {
  try {
    await client.query(`BEGIN; SET LOCAL ROLE ${quoteIdentifier(role)}`)
    const { rows } = await client.query<{ inherited: boolean }>(
      `SELECT pg_catalog.pg_has_role(session_user, $1, 'USAGE') AS inherited`,
      [role],
    )
    return { role, usable: true, inherited: rows[0]!.inherited }
  } catch (error) {
    const failure = roleErrorIn(error, role, login)
    if (failure === undefined) throw error
    return { role, usable: false, reason: failure.message, remedy: failure.remedy }
  } finally {
    await client.query('ROLLBACK')
  }
}
