import { CallRunner } from './call.js'
import { asLocalSettings, clientConfig, connectFailure, sessionSettings } from './connect.js'
import { ConnectionPool, type CheckedOutConnection } from './ConnectionPool.js'
import type { ResolvedOptions } from './options.js'
import {
  quoteIdentifier,
  type PoolUsage,
  type RoleHandle,
  type RoleTransactionCallback,
  type Rows,
} from './Queryable.js'
import { roleErrorIn } from './roles.js'
import { prepareStatement, type FunctionCall, type SqlText } from './statement.js'
import { toDatabaseError } from './toDatabaseError.js'
import { assertCommitted, runTransaction, TransactionNesting } from './transaction.js'

/**
 * Connections through a pooler in transaction mode, which assigns a server session from BEGIN to COMMIT only. Role and
 * settings are local to each transaction, and no statement is prepared. One pool serves all roles.
 */
export class PoolerConnections {
  readonly #options: ResolvedOptions
  readonly #pool: ConnectionPool
  readonly #nesting = new TransactionNesting()

  constructor(options: ResolvedOptions) {
    this.#options = options
    this.#pool = new ConnectionPool({
      client: clientConfig(options.target, options),
      target: options.target,
      connectionsMax: options.connectionsMax,
      prepare: async () => {},
      role: undefined,
      describeFailure: (error) => connectFailure(error, options.target),
    })
  }

  as(role: string): RoleHandle {
    return new PoolerRole(role, this.#pool, this.#options, this.#nesting)
  }

  get usage(): readonly PoolUsage[] {
    return [this.#pool.usage]
  }

  closeIdle(): void {
    this.#pool.closeIdle()
  }

  close(timeoutMs: number): Promise<void> {
    return this.#pool.close(timeoutMs)
  }
}

class PoolerRole extends CallRunner implements RoleHandle {
  readonly role: string
  readonly schema: string
  readonly #pool: ConnectionPool
  readonly #login: string
  readonly #nesting: TransactionNesting
  readonly #begin: string

  constructor(role: string, pool: ConnectionPool, options: ResolvedOptions, nesting: TransactionNesting) {
    super()
    this.role = role
    this.schema = options.schema
    this.#pool = pool
    this.#login = options.target.url.user
    this.#nesting = nesting
    this.#begin = `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL ROLE ${quoteIdentifier(role)}; ${asLocalSettings(sessionSettings(options))}`
  }

  // Fields instead of methods, because callers destructure the handle, or spread it and replace one of them.
  readonly query = <R>(text: string, values?: readonly unknown[]): Promise<Rows<R>> => this.run<R>({ text, values })

  readonly transaction = <T>(callback: RoleTransactionCallback<T>): Promise<T> =>
    this.#nesting.run(async () => {
      const connection = await this.#pool.checkOut()
      const begin = () => this.#beginOn(connection)
      const { schema, role } = this
      return runTransaction(connection, { schema, role, login: this.#login, begin, names: undefined }, callback)
    })

  async run<R>(request: SqlText | FunctionCall): Promise<Rows<R>> {
    const statement = prepareStatement(request, this.schema, undefined)
    const connection = await this.#pool.checkOut()
    try {
      await this.#beginOn(connection)
      // Sends the statement and COMMIT without waiting: if the statement fails, COMMIT rolls the failed transaction
      // back. BEGIN is awaited, because after a failed BEGIN the statement would run as the login, and commit.
      const answered = connection.send<R>(statement)
      const committed = connection.send({ text: 'COMMIT' })
      const survived = connection.return()
      try {
        const [{ rows }, answer] = await Promise.all([answered, committed])
        assertCommitted(answer, undefined)
        return { rows }
      } catch (error) {
        throw toDatabaseError(error, { phase: 'committing', sessionSurvived: await survived })
      }
    } finally {
      void connection.return()
    }
  }

  async #beginOn(connection: CheckedOutConnection): Promise<void> {
    try {
      await connection.send({ text: this.#begin })
    } catch (error) {
      throw roleErrorIn(error, this.role, this.#login) ?? toDatabaseError(error, { phase: 'uncommitted' })
    }
  }
}
