import { directClientConfig, directConnectFailure } from './connect.js'
import { ConnectionPool } from './ConnectionPool.js'
import { StaleStatementError } from './errors.js'
import type { ResolvedOptions } from './options.js'
import { isFunctionCall, type PoolUse, type RoleTransactionCallback, type Rows } from './Queryable.js'
import { enterRole } from './roles.js'
import type { Sessions } from './Sessions.js'
import { toDatabaseError } from './toDatabaseError.js'
import { prepareStatement, StatementNames } from './statement.js'
import { runTransaction } from './transaction.js'

/** Sessions of our own: one pool per role, the role set once per connection, statements kept prepared. */
export class DirectSessions implements Sessions {
  readonly #options: ResolvedOptions
  readonly #pools = new Map<string, ConnectionPool>()
  readonly #names = new StatementNames()

  constructor(options: ResolvedOptions) {
    this.#options = options
  }

  async query<R>(role: string, text: string, values?: readonly unknown[]): Promise<Rows<R>> {
    try {
      return await this.#queryOnce<R>(role, text, values)
    } catch (error) {
      if (!(error instanceof StaleStatementError)) throw error
      this.#names.renew()
      return this.#queryOnce<R>(role, text, values)
    }
  }

  async transaction<T>(role: string, callback: RoleTransactionCallback<T>): Promise<T> {
    const loan = await this.#poolFor(role).lend()
    const { schema, target } = this.#options
    const begin = () => loan.send({ text: 'BEGIN ISOLATION LEVEL READ COMMITTED' })
    return runTransaction(loan, { schema, role, login: target.url.user, begin, names: this.#names }, callback)
  }

  get use(): readonly PoolUse[] {
    return [...this.#pools.values()].map(({ use }) => use)
  }

  rest(): void {
    for (const pool of this.#pools.values()) pool.rest()
  }

  async close(timeoutMs: number): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.close(timeoutMs)))
  }

  async #queryOnce<R>(role: string, text: string, values?: readonly unknown[]): Promise<Rows<R>> {
    const statement = prepareStatement(text, values, this.#names)
    const loan = await this.#poolFor(role).lend()
    const answered = loan.send<R>(statement)
    const survived = loan.giveBack({ roleKept: isFunctionCall(text, this.#options.schema) })
    try {
      const { rows } = await answered
      return { rows }
    } catch (error) {
      throw toDatabaseError(error, { phase: 'committing', sessionSurvived: await survived })
    }
  }

  #poolFor(role: string): ConnectionPool {
    const known = this.#pools.get(role)
    if (known !== undefined) return known
    const { target, connectionsMax, connectTimeoutMs } = this.#options
    const entry = { role, login: target.url.user, timeoutMs: connectTimeoutMs }
    const pool = new ConnectionPool({
      client: directClientConfig(target, this.#options),
      connectionsMax,
      prepare: (client) => enterRole(client, entry),
      role,
      describeFailure: (error) => directConnectFailure(error, target),
    })
    this.#pools.set(role, pool)
    return pool
  }
}
