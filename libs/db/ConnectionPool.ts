import { type ClientBase, type ClientConfig, Pool, type PoolClient, type QueryResult } from 'pg'
import { systemClock } from '../core/index.js'
import { locate } from './connect.js'
import { DatabaseClosedError, DatabaseError } from './errors.js'
import type { ConnectionTarget } from './options.js'
import { quoteIdentifier, type PoolUsage } from './Queryable.js'
import { isServerError } from './serverError.js'
import { SQLSTATE } from './sqlstates.js'
import type { Statement } from './statement.js'
import { toDatabaseError } from './toDatabaseError.js'

/** Time after which an unused connection is closed, so that an idle process does not occupy server connections. */
const IDLE_CONNECTION_MS = 30_000

/** Maximum age of a connection, so that even one that is never idle follows a failover or a DNS change. */
const CONNECTION_LIFETIME_SECONDS = 1_800

interface ConnectionPoolOptions {
  readonly client: ClientConfig
  readonly target: ConnectionTarget
  readonly connectionsMax: number
  /**
   * Prepares a new connection. If the promise rejects, the pool closes the connection and the caller gets the error.
   */
  readonly prepare: (client: ClientBase) => Promise<void>
  /** Role that a connection must have when it is returned; undefined if connections keep no role. */
  readonly role: string | undefined
  readonly describeFailure: (error: unknown) => DatabaseError
}

/** Bounded set of connections. One caller at a time uses a connection. */
export class ConnectionPool {
  readonly #createPool: () => Pool
  /** Pool; undefined until the first use if the server is embedded. */
  #pool: Pool | undefined
  #locating: Promise<Pool> | undefined
  #client: ClientConfig
  readonly #target: ConnectionTarget
  readonly #role: string | undefined
  readonly #describeFailure: (error: unknown) => DatabaseError
  readonly #open = new Set<PoolClient>()
  #whenEmpty: (() => void) | undefined
  #closed: Promise<void> | undefined
  /** True once `close` has waited for `timeoutMs` and has closed the remaining connections. */
  #cut = false

  constructor({ client, target, connectionsMax, prepare, role, describeFailure }: ConnectionPoolOptions) {
    this.#client = client
    this.#target = target
    this.#role = role
    this.#describeFailure = describeFailure
    this.#createPool = () => {
      const pool = new Pool({
        ...this.#client,
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
      // The pool replaces a dead idle connection when needed. Without a listener, its error event would end the
      // process.
      pool.on('error', () => {})
      return pool
    }
    if (target.embedded === undefined) this.#pool = this.#createPool()
  }

  get usage(): PoolUsage {
    const { totalCount, idleCount, waitingCount } = this.#pool ?? NOT_STARTED
    return { role: this.#role ?? 'all', inUse: totalCount - idleCount, idle: idleCount, waiting: waitingCount }
  }

  async checkOut(): Promise<CheckedOutConnection> {
    if (this.#closed !== undefined) throw new DatabaseClosedError()
    const pool = this.#pool ?? (await this.#locate())
    try {
      return await this.#connect(pool)
    } catch (error) {
      if (this.#target.embedded === undefined || !isServerGone(error)) throw error
      // An embedded server ends with the process that started it. The next server may have another port.
      return this.#connect(await this.#locateAgain())
    }
  }

  /** Closes idle connections now and checked-out ones on their return. The next caller gets a new connection. */
  closeIdle(): void {
    // An ending pool serves no waiting caller, so a pool with waiting callers is not ended.
    const closing = this.#pool
    if (closing === undefined || this.#closed !== undefined || this.#open.size === 0 || closing.waitingCount > 0) return
    this.#pool = this.#createPool()
    // The old pool ends when its last connection has been returned; `close` waits for that too.
    void closing.end()
  }

  /**
   * Waits for checked-out connections, and closes those that were not returned within `timeoutMs`. Does not wait for
   * callers that keep a closed connection.
   */
  close(timeoutMs: number): Promise<void> {
    this.#closed ??= this.#closeAll(timeoutMs)
    return this.#closed
  }

  async #connect(pool: Pool): Promise<CheckedOutConnection> {
    try {
      const client = await pool.connect()
      // `close` did not wait for this connection, so nothing may run on it.
      if (this.#cut) {
        client.release(true)
        throw new DatabaseClosedError()
      }
      return new CheckedOutConnection(client, this.#role)
    } catch (error) {
      if (this.#closed !== undefined) throw new DatabaseClosedError()
      throw this.#describeFailure(error)
    }
  }

  /**
   * Finds or starts the embedded server, once for all callers that wait. After a failure the next caller tries again.
   */
  #locate(): Promise<Pool> {
    this.#locating ??= this.#start().finally(() => {
      this.#locating = undefined
    })
    return this.#locating
  }

  async #locateAgain(): Promise<Pool> {
    try {
      return await this.#locate()
    } catch (error) {
      throw error instanceof DatabaseClosedError ? error : this.#describeFailure(error)
    }
  }

  async #start(): Promise<Pool> {
    this.#client = await locate(this.#client, this.#target)
    if (this.#closed !== undefined) throw new DatabaseClosedError()
    // Changes the options in place, so that callers that wait in this pool use the new address too.
    if (this.#pool !== undefined) Object.assign(this.#pool.options, this.#client)
    this.#pool ??= this.#createPool()
    return this.#pool
  }

  async #closeAll(timeoutMs: number): Promise<void> {
    // The driver reports a pool as ended while its sockets are still closing. Open sockets would block a DROP DATABASE,
    // so `#closeAll` waits until the last connection is removed.
    const allRemoved = new Promise<void>((resolve) => {
      this.#whenEmpty = resolve
      if (this.#open.size === 0) resolve()
    })
    const allReturned = Promise.all([this.#pool?.end(), allRemoved])
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<'timeout'>((resolve) => (timer = setTimeout(resolve, timeoutMs, 'timeout')))
    const first = await Promise.race([allReturned, timeout])
    clearTimeout(timer)
    if (first !== 'timeout') return
    this.#cut = true
    // The pool ends only when every caller has returned its connection, which a caller may never do. Closed sockets
    // suffice for a DROP DATABASE.
    await Promise.all([...this.#open].map(closeSocket))
  }
}

function closeSocket({ connection: { stream } }: PoolClient): Promise<void> {
  return new Promise((resolve) => {
    if (stream.closed) return resolve()
    stream.once('close', () => resolve())
    stream.destroy()
  })
}

/** True if no server answers at this address, or the server is about to stop. */
function isServerGone(error: unknown): boolean {
  if (!(error instanceof DatabaseError)) return false
  return error.code === 'CONNECT_FAILED' || error.sqlstate === '57P01' || error.sqlstate === '57P03'
}

const NOT_STARTED = Object.freeze({ totalCount: 0, idleCount: 0, waitingCount: 0 })

export interface QueryAnswer<R> {
  readonly rows: R[]
  /** Command tag of PostgreSQL: the answer to `COMMIT` may be `ROLLBACK`. */
  readonly command: string
}

/** Connection that one caller uses. Internal to libs/db. */
export class CheckedOutConnection {
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

  /** Sends the statement at once, behind earlier ones. If it was sent and failed, rejects with the driver's error. */
  async send<R>(statement: Statement): Promise<QueryAnswer<R>> {
    // The statement is not sent, so even a COMMIT has no effect. The error that ended the connection is more precise
    // than the driver's.
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
   * Returns the connection to its pool. Closes it instead if the server does not answer, if a transaction is still
   * open, or if SET ROLE fails. SET ROLE is sent right behind the caller's last statement, so it costs no round trip.
   * With `roleKept`, SET ROLE is sent only if a statement failed, or if the last SET ROLE is a second old: the role may
   * have been revoked since. Resolves to false if the server did not answer. Then an error that the caller got for a
   * statement may not be the server's answer.
   */
  return({ roleKept = false } = {}): Promise<boolean> {
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
    // True closes the connection. The pool closes dead connections itself.
    this.#client.release(!restored || this.#onStandby || this.isInTransaction)
    return answered
  }

  async #restore(roleKept: boolean): Promise<void> {
    const nowMs = systemClock.monotonicMs()
    const isRecent = nowMs - (roleSetMs.get(this.#client) ?? Number.NEGATIVE_INFINITY) < ROLE_TRUSTED_MS
    if (this.#role === undefined || (roleKept && isRecent)) {
      await this.#latest.catch(() => {})
      if (!this.#anyFailed) return
    }
    roleSetMs.set(this.#client, nowMs)
    // The driver reports an error before the server is ready again, so only a further answer shows that the server
    // still runs. SET ROLE is cheaper than a query of the role, and undoes a change of the role by the caller.
    await this.#client.query(this.#role === undefined ? '' : `SET ROLE ${quoteIdentifier(this.#role)}`)
  }

  #noteFailure(error: unknown): void {
    this.#anyFailed = true
    // This server is now a standby. A new connection may reach the new primary.
    if (isServerError(error) && error.code === SQLSTATE.readOnlyServer) this.#onStandby = true
  }

  readonly #noteLoss = (loss: Error) => {
    this.#loss ??= loss
  }
}

/** Time of the last SET ROLE of each connection, by the monotonic clock of this process. */
const roleSetMs = new WeakMap<PoolClient, number>()
const ROLE_TRUSTED_MS = 1_000

function lastAnswer(result: QueryResult | QueryResult[]): QueryResult {
  return Array.isArray(result) ? result.at(-1)! : result
}
