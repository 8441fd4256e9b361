import { type ClientBase, Pool, type PoolClient, type PoolConfig, type QueryResult } from 'pg'
import { systemClock } from '../core/index.js'
import { DatabaseClosedError, type DatabaseError } from './errors.js'
import { quoteIdentifier, type PoolUse } from './Queryable.js'
import { isServerError } from './serverError.js'
import { SQLSTATE } from './sqlstates.js'
import type { Statement } from './statement.js'
import { toDatabaseError } from './toDatabaseError.js'

/** An unused connection is closed after this long, so that a quiet process does not hold a server's slots. */
const IDLE_CONNECTION_MS = 30_000

/** Even a busy connection is replaced once in a while: after a failover or a change in DNS the old way is left. */
const CONNECTION_LIFETIME_SECONDS = 1_800

export interface ConnectionPoolOptions {
  readonly client: PoolConfig
  readonly connectionsMax: number
  /** Prepares a new connection. If it rejects, the connection is closed and the borrower gets the error. */
  readonly prepare: (client: ClientBase) => Promise<void>
  /** The role a connection must still be in when it comes back; undefined if connections keep no role. */
  readonly role: string | undefined
  /** Types the error of a connection that could not be made. */
  readonly describeFailure: (error: unknown) => DatabaseError
}

/** A bounded set of connections, each lent to one borrower at a time. */
export class ConnectionPool {
  readonly #createPool: () => Pool
  #pool: Pool
  readonly #role: string | undefined
  readonly #describeFailure: (error: unknown) => DatabaseError
  readonly #open = new Set<PoolClient>()
  #whenEmpty: (() => void) | undefined
  #closed: Promise<void> | undefined

  constructor({ client, connectionsMax, prepare, role, describeFailure }: ConnectionPoolOptions) {
    this.#role = role
    this.#describeFailure = describeFailure
    this.#createPool = () => {
      const pool = new Pool({
        ...client,
        max: connectionsMax,
        idleTimeoutMillis: IDLE_CONNECTION_MS,
        maxLifetimeSeconds: CONNECTION_LIFETIME_SECONDS,
        // oxlint-disable-next-line typescript/no-misused-promises -- the driver does wait for it; its types do not say so
        onConnect: prepare,
      })
      pool.on('connect', (opened) => this.#open.add(opened))
      pool.on('remove', (removed) => {
        this.#open.delete(removed)
        if (this.#open.size === 0) this.#whenEmpty?.()
      })
      // An idle connection that dies is replaced when needed, and nobody was waiting for it; without a listener the
      // event would end the process.
      pool.on('error', () => {})
      return pool
    }
    this.#pool = this.#createPool()
  }

  get use(): PoolUse {
    const { totalCount, idleCount, waitingCount } = this.#pool
    return { role: this.#role ?? 'all', inUse: totalCount - idleCount, idle: idleCount, waiting: waitingCount }
  }

  async lend(): Promise<Loan> {
    if (this.#closed !== undefined) throw new DatabaseClosedError()
    try {
      return new Loan(await this.#pool.connect(), this.#role)
    } catch (error) {
      if (this.#closed !== undefined) throw new DatabaseClosedError()
      throw this.#describeFailure(error)
    }
  }

  /** Closes what is idle now, and what is lent when it comes back. The next borrower gets a connection of its own. */
  rest(): void {
    // Whoever waits for a connection of this pool would wait for ever: a pool that ends serves nobody.
    if (this.#closed !== undefined || this.#open.size === 0 || this.#pool.waitingCount > 0) return
    const resting = this.#pool
    this.#pool = this.#createPool()
    // Ends when the last loan has come back; `close` waits for it too.
    void resting.end()
  }

  /** Waits for loans to come back, and cuts those that have not after `timeoutMs`. */
  close(timeoutMs: number): Promise<void> {
    this.#closed ??= this.#closeAll(timeoutMs)
    return this.#closed
  }

  async #closeAll(timeoutMs: number): Promise<void> {
    // The driver calls a pool ended while its sockets are still closing. Whoever drops a database next would find
    // them in the way, so this waits for the last one.
    const allRemoved = new Promise<void>((resolve) => {
      this.#whenEmpty = resolve
      if (this.#open.size === 0) resolve()
    })
    const cut = setTimeout(() => this.#open.forEach((client) => client.connection.stream.destroy()), timeoutMs)
    await Promise.all([this.#pool.end(), allRemoved])
    clearTimeout(cut)
  }
}

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
