import { asLocalSettings, clientConfig, connectFailure, sessionSettings } from './connect.js'
import { ConnectionPool } from './ConnectionPool.js'
import { type DatabaseOptions, resolveDatabaseOptions, type ResolvedOptions } from './options.js'
import type { TransactionCallback } from './Queryable.js'
import { runTransaction } from './transaction.js'

/** Options that apply without a pool and without LISTEN. */
export type LoginOptions = Pick<
  DatabaseOptions,
  'url' | 'schema' | 'tls' | 'connectTimeoutMs' | 'statementTimeoutMs' | 'lockTimeoutMs' | 'applicationName'
>

/** Mode of a transaction. `READ ONLY` uses one snapshot for all its statements. */
export type TransactionMode = 'READ WRITE' | 'READ ONLY'

const BEGIN: Readonly<Record<TransactionMode, string>> = {
  'READ WRITE': 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE',
  'READ ONLY': 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
}

/** Returns a database without opening a connection. Throws on invalid options. */
export function openLoginDatabase(options: LoginOptions): LoginDatabase {
  return new LoginDatabase(resolveDatabaseOptions(options))
}

/**
 * Database in the login's own role, for deploy and doctor, which manage roles and must not depend on one. It uses one
 * connection and transactions only, and keeps nothing in the session, so it works through any pooler. Code that moves
 * payments uses `Database`, which runs no statement without a role.
 */
export class LoginDatabase {
  readonly schema: string
  readonly #options: ResolvedOptions
  readonly #pool: ConnectionPool

  constructor(options: ResolvedOptions) {
    this.schema = options.schema
    this.#options = options
    this.#pool = new ConnectionPool({
      client: clientConfig(options.target, options),
      target: options.target,
      connectionsMax: 1,
      prepare: async () => {},
      role: undefined,
      describeFailure: (error) => connectFailure(error, options.target),
    })
  }

  /** Commits if the callback returns, rolls back if it throws. The callback's handle is unusable afterwards. */
  async transaction<T>(mode: TransactionMode, callback: TransactionCallback<T>): Promise<T> {
    const connection = await this.#pool.checkOut()
    const begin = () => connection.send({ text: `${BEGIN[mode]}; ${asLocalSettings(sessionSettings(this.#options))}` })
    return runTransaction(
      connection,
      { schema: this.schema, role: undefined, login: this.#options.target.url.user, begin, names: undefined },
      callback,
    )
  }

  close(): Promise<void> {
    return this.#pool.close(this.#options.closeTimeoutMs)
  }
}
