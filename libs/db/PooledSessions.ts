import { asLocalSettings, clientConfig, connectFailure, sessionSettings } from './connect.js'
import { ConnectionPool, type Loan } from './ConnectionPool.js'
import type { ResolvedOptions } from './options.js'
import { quoteIdentifier, type PoolUse, type RoleTransactionCallback, type Rows } from './Queryable.js'
import { roleErrorIn } from './roles.js'
import type { Sessions } from './Sessions.js'
import { toDatabaseError } from './toDatabaseError.js'
import { prepareStatement } from './statement.js'
import { assertCommitted, runTransaction } from './transaction.js'

/**
 * Through a pooler in transaction mode, where a session is ours from BEGIN to COMMIT only. Role and settings are local
 * to each transaction, nothing is prepared, nothing is left behind; one pool serves all roles.
 */
export class PooledSessions implements Sessions {
  readonly #options: ResolvedOptions
  readonly #pool: ConnectionPool
  readonly #localSettings: string

  constructor(options: ResolvedOptions) {
    this.#options = options
    this.#localSettings = asLocalSettings(sessionSettings(options))
    this.#pool = new ConnectionPool({
      client: clientConfig(options.target, options),
      connectionsMax: options.connectionsMax,
      prepare: async () => {},
      role: undefined,
      describeFailure: (error) => connectFailure(error, options.target),
    })
  }

  async query<R>(role: string, text: string, values?: readonly unknown[]): Promise<Rows<R>> {
    const statement = prepareStatement(text, values, undefined)
    const loan = await this.#pool.lend()
    try {
      await this.#begin(loan, role)
      // In one flight: if the statement fails, COMMIT finds a failed transaction and rolls it back. BEGIN is waited
      // for, since a statement behind a BEGIN that failed would run as the login, and commit.
      const answered = loan.send<R>(statement)
      const committed = loan.send({ text: 'COMMIT' })
      const survived = loan.giveBack()
      try {
        const [{ rows }, answer] = await Promise.all([answered, committed])
        assertCommitted(answer, undefined)
        return { rows }
      } catch (error) {
        throw toDatabaseError(error, { phase: 'committing', sessionSurvived: await survived })
      }
    } finally {
      void loan.giveBack()
    }
  }

  async transaction<T>(role: string, callback: RoleTransactionCallback<T>): Promise<T> {
    const loan = await this.#pool.lend()
    const { schema, target } = this.#options
    const begin = () => this.#begin(loan, role)
    return runTransaction(loan, { schema, role, login: target.url.user, begin, names: undefined }, callback)
  }

  get use(): readonly PoolUse[] {
    return [this.#pool.use]
  }

  rest(): void {
    this.#pool.rest()
  }

  close(timeoutMs: number): Promise<void> {
    return this.#pool.close(timeoutMs)
  }

  async #begin(loan: Loan, role: string): Promise<void> {
    const text = `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL ROLE ${quoteIdentifier(role)}; ${this.#localSettings}`
    try {
      await loan.send({ text })
    } catch (error) {
      throw roleErrorIn(error, role, this.#options.target.url.user) ?? toDatabaseError(error, { phase: 'uncommitted' })
    }
  }
}
