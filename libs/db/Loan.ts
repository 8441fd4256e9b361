import type { PoolClient, QueryConfig, QueryResult } from 'pg'

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
  #broken = false
  #returned: Promise<boolean> | undefined

  constructor(client: PoolClient, role: string | undefined) {
    this.#client = client
    this.#role = role
    client.on('error', this.#noteLoss)
  }

  /** True once the connection is known to be dead. */
  get isBroken(): boolean {
    return this.#broken
  }

  /** True if the session is inside a transaction, as of the latest answer. */
  get isInTransaction(): boolean {
    return this.#client.getTransactionStatus() !== 'I'
  }

  /** Sends at once, behind whatever was sent before; rejects with the driver's own error. */
  async send<R>(statement: Statement): Promise<Answer<R>> {
    const sent = this.#client.query(statement)
    this.#latest = sent
    try {
      return lastAnswer(await sent)
    } catch (error) {
      this.#anyFailed = true
      throw error
    }
  }

  /**
   * Ends the loan. The connection goes back only if it is alive, outside a transaction and still in its role; otherwise
   * it is closed. The question is sent at once, behind the borrower's last statement, so it costs no round trip.
   * Resolves to whether the connection was alive after all that was sent.
   */
  giveBack(): Promise<boolean> {
    this.#returned ??= this.#settle()
    return this.#returned
  }

  async #settle(): Promise<boolean> {
    const { alive, unchanged } = await this.#inspect()
    this.#client.off('error', this.#noteLoss)
    this.#client.release(!alive || !unchanged || this.isInTransaction)
    return alive
  }

  async #inspect(): Promise<{ alive: boolean; unchanged: boolean }> {
    try {
      if (this.#role !== undefined) {
        const { rows } = await this.#client.query<{ role: string }>(CURRENT_ROLE)
        return { alive: true, unchanged: rows[0]?.role === this.#role }
      }
      await this.#latest.catch(() => {})
      // The driver reports an error before the server is ready again: only another answer shows that it still is.
      if (this.#anyFailed) await this.#client.query('')
      return { alive: !this.#broken, unchanged: true }
    } catch {
      return { alive: false, unchanged: false }
    }
  }

  readonly #noteLoss = () => {
    this.#broken = true
  }
}

const CURRENT_ROLE = { name: 'current_role', text: 'SELECT current_user AS role' }

/** A text of several statements has several answers; the last one is the one that was asked for. */
function lastAnswer(result: QueryResult | QueryResult[]): QueryResult {
  return Array.isArray(result) ? result.at(-1)! : result
}
