import { Pool, type ClientBase, type PoolClient, type PoolConfig } from 'pg'
import { DatabaseClosedError, type DatabaseError } from './errors.js'
import { Loan } from './Loan.js'
import type { PoolUse } from './PoolUse.js'

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
