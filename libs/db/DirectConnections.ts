import { CallRunner } from './call.js'
import { directClientConfig, directConnectFailure } from './connect.js'
import { ConnectionPool } from './ConnectionPool.js'
import { DatabaseClosedError } from './errors.js'
import type { ResolvedOptions } from './options.js'
import type { PoolUsage, RoleHandle, RoleTransactionCallback, Rows } from './Queryable.js'
import { setRole } from './roles.js'
import { prepareStatement, StatementNames, type FunctionCall, type SqlText } from './statement.js'
import { toDatabaseError } from './toDatabaseError.js'
import { runTransaction, TransactionNesting } from './transaction.js'

/**
 * Connections without a pooler. Each role has its own pool, and each connection keeps its role and its prepared
 * statements.
 */
export class DirectConnections {
  readonly #options: ResolvedOptions
  readonly #shared: Shared
  readonly #pools = new Map<string, ConnectionPool>()
  #closed = false

  constructor(options: ResolvedOptions) {
    this.#options = options
    this.#shared = { options, names: new StatementNames(), nesting: new TransactionNesting() }
  }

  as(role: string): RoleHandle {
    return new DirectRole(role, () => this.#poolFor(role), this.#shared)
  }

  get usage(): readonly PoolUsage[] {
    return [...this.#pools.values()].map(({ usage }) => usage)
  }

  closeIdle(): void {
    for (const pool of this.#pools.values()) pool.closeIdle()
  }

  async close(timeoutMs: number): Promise<void> {
    this.#closed = true
    await Promise.all([...this.#pools.values()].map((pool) => pool.close(timeoutMs)))
  }

  #poolFor(role: string): ConnectionPool {
    const known = this.#pools.get(role)
    if (known !== undefined) return known
    if (this.#closed) throw new DatabaseClosedError()
    const { target, connectionsMax, connectTimeoutMs } = this.#options
    const entry = { role, login: target.url.user, timeoutMs: connectTimeoutMs }
    const pool = new ConnectionPool({
      client: directClientConfig(target, this.#options),
      target,
      connectionsMax,
      prepare: (client) => setRole(client, entry),
      role,
      describeFailure: (error) => directConnectFailure(error, target),
    })
    this.#pools.set(role, pool)
    return pool
  }
}

interface Shared {
  readonly options: ResolvedOptions
  readonly names: StatementNames
  readonly nesting: TransactionNesting
}

class DirectRole extends CallRunner implements RoleHandle {
  readonly role: string
  readonly schema: string
  readonly #pool: () => ConnectionPool
  readonly #shared: Shared

  constructor(role: string, pool: () => ConnectionPool, shared: Shared) {
    super()
    this.role = role
    this.schema = shared.options.schema
    this.#pool = pool
    this.#shared = shared
  }

  // Fields instead of methods, because callers destructure the handle, or spread it and replace one of them.
  readonly query = <R>(text: string, values?: readonly unknown[]): Promise<Rows<R>> => this.run<R>({ text, values })

  readonly transaction = <T>(callback: RoleTransactionCallback<T>): Promise<T> => {
    const { options, names, nesting } = this.#shared
    return nesting.run(async () => {
      const connection = await this.#pool().checkOut()
      const begin = () => connection.send({ text: 'BEGIN ISOLATION LEVEL READ COMMITTED' })
      const setup = { schema: this.schema, role: this.role, login: options.target.url.user, begin, names }
      return runTransaction(connection, setup, callback)
    })
  }

  /**
   * Runs one statement that commits by itself. A stale prepared statement was not executed, so it is sent once more.
   */
  async run<R>(request: SqlText | FunctionCall): Promise<Rows<R>> {
    const { names } = this.#shared
    for (let isLast = false; ; isLast = true) {
      const statement = prepareStatement(request, this.schema, names)
      const connection = await this.#pool().checkOut()
      const answered = connection.send<R>(statement)
      const survived = connection.return({ roleKept: 'functionName' in request })
      try {
        const { rows } = await answered
        return { rows }
      } catch (error) {
        const typed = toDatabaseError(error, { phase: 'committing', sessionSurvived: await survived })
        if (isLast || typed.code !== 'STALE_STATEMENT') throw typed
        names.renew()
      }
    }
  }
}
