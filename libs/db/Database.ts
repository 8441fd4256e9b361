import { Client } from 'pg'
import { requiredObject, requiredText } from '../core/index.js'
import { clientConfig, connectFailure, disconnect, locate } from './connect.js'
import { DirectConnections } from './DirectConnections.js'
import { DatabaseClosedError, TransactionPoolerError } from './errors.js'
import { listen, type Listener, type ListenOptions, type NotificationHandler } from './listen.js'
import { requiredIdentifier, resolveDatabaseOptions, type DatabaseOptions, type ResolvedOptions } from './options.js'
import { PoolerConnections } from './PoolerConnections.js'
import {
  quoteIdentifier,
  type PoolUsage,
  type Queryable,
  type RoleHandle,
  type RoleTransactionCallback,
  type Rows,
} from './Queryable.js'
import { requiredRole, roleErrorIn } from './roles.js'

/** Returns a database without opening a connection. The first use opens one. Throws on invalid options. */
export function openDatabase(options: DatabaseOptions): Database {
  return new Database(resolveDatabaseOptions(options))
}

/** Source of role handles, such as a `Database`. */
export interface RoleSource {
  as(role: string): Queryable
}

/** Opens the database of these options, or uses the given one, which the caller closes. */
export function openOrUse(given: DatabaseOptions | RoleSource): RoleSource & { readonly close: () => Promise<void> } {
  requiredObject('options', given)
  if ('as' in given) return { as: (role) => given.as(role), close: async () => {} }
  const database = openDatabase({ applicationName: 'symphony admin', ...given })
  return { as: (role) => database.as(role), close: () => database.close() }
}

/**
 * PostgreSQL database. Each call names a role. `Database` guarantees that a statement runs in that role or not at all,
 * and that a transaction that returns was committed. It does not retry: the caller decides by the error's
 * `disposition`.
 */
export class Database {
  readonly schema: string
  /** Name of the database on its server. */
  readonly name: string
  readonly login: string
  /** Maximum number of connections: per role, or in total behind a pooler. */
  readonly connectionsMax: number
  readonly #options: ResolvedOptions
  readonly #connections: DirectConnections | PoolerConnections
  readonly #listeners = new Set<Listener>()
  #closed: Promise<void> | undefined

  constructor(options: ResolvedOptions) {
    this.schema = options.schema
    this.name = options.target.url.database
    this.login = options.target.url.user
    this.connectionsMax = options.connectionsMax
    this.#options = options
    this.#connections =
      options.pooler === 'transaction' ? new PoolerConnections(options) : new DirectConnections(options)
  }

  as(role: string): RoleHandle {
    return this.#connections.as(requiredRole(role))
  }

  /** Runs one statement that commits by itself. */
  async queryAsRole<R>(role: string, text: string, values?: readonly unknown[]): Promise<Rows<R>> {
    this.#assertOpen()
    return this.as(role).query<R>(text, values)
  }

  /** Commits if the callback returns, rolls back if it throws. The callback's handle is unusable afterwards. */
  async transactionAsRole<T>(role: string, callback: RoleTransactionCallback<T>): Promise<T> {
    this.#assertOpen()
    return this.as(role).transaction(callback)
  }

  /**
   * Opens a second `Database` with at most two connections per role, and with this timeout for statements and locks.
   * The caller closes it.
   */
  reopen({ statementTimeoutMs }: Required<Pick<DatabaseOptions, 'statementTimeoutMs'>>): Database {
    return new Database({ ...this.#options, statementTimeoutMs, lockTimeoutMs: statementTimeoutMs, connectionsMax: 2 })
  }

  /** Connections in use, idle connections and waiting callers: one entry per pool. */
  get poolUsage(): readonly PoolUsage[] {
    return this.#connections.usage
  }

  /** Closes idle connections at once. The next call opens a new one. Listeners stay open. */
  closeIdle(): void {
    this.#connections.closeIdle()
  }

  /** Calls the handler for each notification of a channel until closed. Rejects if the first attempt fails. */
  async listenAsRole(
    role: string,
    channel: string,
    handler: NotificationHandler,
    listenOptions: ListenOptions = {},
  ): Promise<Listener> {
    this.#assertOpen()
    const target = this.#options.listenTarget
    if (target === undefined) {
      throw new TransactionPoolerError(
        'LISTEN through a transaction pooler receives no notification',
        'set listenUrl to an address of PostgreSQL itself, or rely on polling',
      )
    }
    const subscription = {
      ...listenOptions,
      role: requiredRole(role),
      channel: requiredIdentifier('channel', channel),
      handler,
    }
    const listener = await listen(target, this.#options, subscription)
    if (this.#closed !== undefined) {
      await listener.close()
      throw new DatabaseClosedError()
    }
    const tracked: Listener = {
      close: async () => {
        this.#listeners.delete(tracked)
        await listener.close()
      },
    }
    this.#listeners.add(tracked)
    return tracked
  }

  /** Returns whether the login can act as each of these roles, and the missing grants. */
  async probeRoles(roles: readonly string[]): Promise<RoleReport> {
    this.#assertOpen()
    return probeRoles(this.#options, roles.map(requiredRole))
  }

  /**
   * Stops listening, waits up to `closeTimeoutMs` for running calls, then closes their connections. May be called
   * twice.
   */
  close(): Promise<void> {
    this.#closed ??= this.#closeAll()
    return this.#closed
  }

  async #closeAll(): Promise<void> {
    await Promise.all([
      this.#connections.close(this.#options.closeTimeoutMs),
      ...[...this.#listeners].map((listener) => listener.close()),
    ])
  }

  #assertOpen(): void {
    if (this.#closed !== undefined) throw new DatabaseClosedError()
  }
}

/** Person for whom a gateway acts: the owner of an API key, or a person that only the gateway has authenticated. */
export type Actor =
  | { readonly apiKey: { readonly keyId: string; readonly secretHash: Buffer } }
  | { readonly person: string }

/**
 * Returns the role acting for a person. Each statement runs in its own transaction, which first sets the person. The
 * database verifies an API key itself. It accepts a plain name only from a login in `naming_gateways`, and records that
 * login with the name.
 */
export function withActor(role: RoleHandle, actor: Actor): Queryable & { readonly schema: string } {
  const [setting, value] =
    'apiKey' in actor
      ? ['symphony.api_key', `${actor.apiKey.keyId}:${actor.apiKey.secretHash.toString('hex')}`]
      : ['symphony.actor', requiredText('person', actor.person, PERSON_LENGTH_MAX)]
  return {
    schema: role.schema,
    query: (text, values) =>
      role.transaction(async (tx) => {
        // Passed as a parameter, because the statement text appears in pg_stat_activity and in logs.
        await tx.query('SELECT pg_catalog.set_config($1, $2, true)', [setting, value])
        return tx.query(text, values)
      }),
  }
}

const PERSON_LENGTH_MAX = 200

export interface RoleReport {
  readonly login: string
  /**
   * Whether the login is a superuser. A superuser can act as every role, so the checks of roles prove nothing about the
   * grants.
   */
  readonly loginIsSuperuser: boolean
  readonly roles: readonly RoleProbe[]
}

export type RoleProbe =
  | {
      readonly role: string
      readonly usable: true
      /** Whether the login has the rights of the role without SET ROLE. A NOINHERIT login does not have them. */
      readonly inherited: boolean
    }
  | { readonly role: string; readonly usable: false; readonly reason: string; readonly remedy: string | undefined }

/** Tries each role and reports missing grants. Uses a connection outside the pools and changes nothing. */
async function probeRoles(options: ResolvedOptions, roles: readonly string[]): Promise<RoleReport> {
  const config = await locate(clientConfig(options.target, options), options.target)
  const client = new Client({ ...config, query_timeout: options.connectTimeoutMs })
  // Ignores the event, because a dead connection also fails the current query.
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
