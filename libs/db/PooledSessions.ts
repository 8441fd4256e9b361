import { CallRunner } from './call.js'
import { asLocalSettings, clientConfig, connectFailure, sessionSettings } from './connect.js'
import { ConnectionPool, type Loan } from './ConnectionPool.js'
import type { ResolvedOptions } from './options.js'
import { quoteIdentifier, type PoolUse, type RoleHandle, type RoleTransactionCallback, type Rows } from './Queryable.js'
import { roleErrorIn } from './roles.js'
import { prepareStatement, type FunctionCall, type SqlText } from './statement.js'
import { toDatabaseError } from './toDatabaseError.js'
import { assertCommitted, runTransaction, TransactionNesting } from './transaction.js'

/**
 * Through a pooler in transaction mode, where a session is ours from BEGIN to COMMIT only. Role and settings are local
 * to each transaction, nothing is prepared, nothing is left behind; one pool serves all roles.
 */
export class PooledSessions {
  readonly #options: ResolvedOptions
  readonly #pool: ConnectionPool
  readonly #nesting = new TransactionNesting()

  constructor(options: ResolvedOptions) {
    this.#options = options
    this.#pool = new ConnectionPool({
      client: clientConfig(options.target, options),
      connectionsMax: options.connectionsMax,
      prepare: async () => {},
      role: undefined,
      describeFailure: (error) => connectFailure(error, options.target),
    })
  }

  as(role: string): RoleHandle {
    return new PooledRole(role, this.#pool, this.#options, this.#nesting)
  }

  get use(): readonly PoolUse[] {
    return [this.#pool.use]
  }

  /** Closes the connections that no caller uses. */
  rest(): void {
    this.#pool.rest()
  }

  close(timeoutMs: number): Promise<void> {
    return this.#pool.close(timeoutMs)
  }
}

class PooledRole extends CallRunner implements RoleHandle {
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

  // Fields and not methods: callers detach them, or spread the handle and replace one.
  readonly query = <R>(text: string, values?: readonly unknown[]): Promise<Rows<R>> => this.run<R>({ text, values })

  readonly transaction = <T>(callback: RoleTransactionCallback<T>): Promise<T> =>
    this.#nesting.run(async () => {
      const loan = await this.#pool.lend()
      const begin = () => this.#beginOn(loan)
      const { schema, role } = this
      return runTransaction(loan, { schema, role, login: this.#login, begin, names: undefined }, callback)
    })

  /** Runs one statement in a transaction of its own. */
  async run<R>(request: SqlText | FunctionCall): Promise<Rows<R>> {
    const statement = prepareStatement(request, this.schema, undefined)
    const loan = await this.#pool.lend()
    try {
      await this.#beginOn(loan)
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

  async #beginOn(loan: Loan): Promise<void> {
    try {
      await loan.send({ text: this.#begin })
    } catch (error) {
      throw roleErrorIn(error, this.role, this.#login) ?? toDatabaseError(error, { phase: 'uncommitted' })
    }
  }
}
