import type { PoolClient, QueryConfig, QueryResult } from 'pg'
import { systemClock } from '../core/index.js'
import { quoteIdentifier } from './Queryable.js'
import { isServerError } from './serverError.js'
import { SQLSTATE } from './sqlstates.js'
import { toDatabaseError } from './toDatabaseError.js'

/** A text, its parameters, and the name under which the session keeps it prepared. */
export type Statement = QueryConfig<unknown[]>

export interface Answer<R> {
  readonly rows: R[]
  /** PostgreSQL's word for what it did: `COMMIT` may be answered by `ROLLBACK`. */
  readonly command: string
}

/** One connection in the hands of one borrower. Never leaves this room. */
export class Loan {
  readonly #client: PoolClient
  readonly #role: string | undefined
  #latest: Promise<unknown> = Promise.resolve()
  #anyFailed = false
  #loss: Error | undefined
  #onStandby = false
  #returned: Promise<boolean> | undefined

  constructor(client: PoolClient, role: string | undefined) {
    this.#client = client
    this.#role = role
    client.on('error', this.#noteLoss)
  }

  /** True if the session is inside a transaction, as of the latest answer. */
  get isInTransaction(): boolean {
    return this.#client.getTransactionStatus() !== 'I'
  }

  /** Sends at once, behind whatever was sent before; rejects with the driver's own error, if it was sent. */
  async send<R>(statement: Statement): Promise<Answer<R>> {
    // Not sent, so it did not happen, COMMIT included; and what killed the connection says more than the driver would.
    if (this.#loss !== undefined) throw toDatabaseError(this.#loss, { phase: 'uncommitted' })
    const sent = this.#client.query(statement)
    this.#latest = sent
    try {
      return lastAnswer(await sent)
    } catch (error) {
      this.#noteFailure(error)
      throw error
    }
  }

  /**
   * Ends the loan. The connection goes back only if the server still answers, outside a transaction, and the role could
   * be restored; otherwise it is closed. The question is sent at once, behind the borrower's last statement, so it costs
   * no round trip. Of a borrower that surely kept the role nothing is asked, unless it failed, or the role was last said more
   * than a second ago: it may have been revoked. Resolves to whether the server answered: if not, what it said before may have
   * been its last word.
   */
  giveBack({ roleKept = false } = {}): Promise<boolean> {
    this.#returned ??= this.#settle(roleKept)
    return this.#returned
  }

  async #settle(roleKept: boolean): Promise<boolean> {
    let answered = true
    let restored = true
    try {
      await this.#restore(roleKept)
    } catch (error) {
      answered = isServerError(error)
      restored = false
    }
    this.#client.off('error', this.#noteLoss)
    // The pool itself takes no dead connection back.
    this.#client.release(!restored || this.#onStandby || this.isInTransaction)
    return answered
  }

  async #restore(roleKept: boolean): Promise<void> {
    const nowMs = systemClock.monotonicMs()
    const isRecent = nowMs - (roleSaidMs.get(this.#client) ?? Number.NEGATIVE_INFINITY) < ROLE_TRUSTED_MS
    if (this.#role === undefined || (roleKept && isRecent)) {
      await this.#latest.catch(() => {})
      if (!this.#anyFailed) return
    }
    roleSaidMs.set(this.#client, nowMs)
    // The driver reports an error before the server is ready again: only another answer shows that it still is. The role is
    // said again rather than looked up: cheaper than a row, and a borrower that changed it is undone.
    await this.#client.query(this.#role === undefined ? '' : `SET ROLE ${quoteIdentifier(this.#role)}`)
  }

  #noteFailure(error: unknown): void {
    this.#anyFailed = true
    // The primary is elsewhere by now; the next connection may find it.
    if (isServerError(error) && error.code === SQLSTATE.readOnlyServer) this.#onStandby = true
  }

  readonly #noteLoss = (loss: Error) => {
    this.#loss ??= loss
  }
}

/** When a connection was last told its role; by this process's monotonic clock. */
const roleSaidMs = new WeakMap<PoolClient, number>()
const ROLE_TRUSTED_MS = 1_000

/** A text of several statements has several answers; the last one is the one that was asked for. */
function lastAnswer(result: QueryResult | QueryResult[]): QueryResult {
  return Array.isArray(result) ? result.at(-1)! : result
}
