import { AsyncLocalStorage } from 'node:async_hooks'
import type { PoolUse } from './PoolUse.js'
import { DirectSessions } from './DirectSessions.js'
import { DatabaseClosedError, NestedTransactionError, PoolerInTheWayError } from './errors.js'
import { listen, type Listener, type ListenOptions, type NotificationHandler } from './listen.js'
import { requiredIdentifier, resolveDatabaseOptions, type DatabaseOptions, type ResolvedOptions } from './options.js'
import { PooledSessions } from './PooledSessions.js'
import { probeRoles, type RoleReport } from './probeRoles.js'
import type { Queryable, Rows } from './Queryable.js'
import { requiredRole } from './roles.js'
import type { Sessions } from './Sessions.js'
import type { RoleTransactionCallback } from './roleTransaction.js'

/** A database seen in one role: what wrappers of database functions take as their first argument. */
export interface RoleHandle extends Queryable {
  readonly role: string
  readonly schema: string
  transaction<T>(callback: RoleTransactionCallback<T>): Promise<T>
}

/** Opens nothing yet: connections are made when first needed. Throws on options that cannot be used. */
export function openDatabase(options: DatabaseOptions): Database {
  return new Database(resolveDatabaseOptions(options))
}

/**
 * One PostgreSQL database, used in roles that each call names. It promises that a statement runs in the role it was
 * given or not at all, and that a transaction which returns was committed. It does not retry: what a failure means for
 * the work is the caller's to decide, by the error's `disposition`.
 */
export class Database {
  readonly schema: string
  readonly #options: ResolvedOptions
  readonly #sessions: Sessions
  readonly #listeners = new Set<Listener>()
  readonly #transactions = new AsyncLocalStorage<{ open: boolean }>()
  #closed: Promise<void> | undefined

  constructor(options: ResolvedOptions) {
    this.schema = options.schema
    this.#options = options
    this.#sessions = options.pooler === 'transaction' ? new PooledSessions(options) : new DirectSessions(options)
  }

  as(role: string): RoleHandle {
    const name = requiredRole(role)
    return {
      role: name,
      schema: this.schema,
      query: (text, values) => this.queryAsRole(name, text, values),
      transaction: (callback) => this.transactionAsRole(name, callback),
    }
  }

  /** One statement, committed by itself. */
  async queryAsRole<R>(role: string, text: string, values?: readonly unknown[]): Promise<Rows<R>> {
    this.#assertOpen()
    return this.#sessions.query<R>(requiredRole(role), text, values)
  }

  /** Commits if the callback returns, rolls back if it throws. The handle it receives is dead afterwards. */
  async transactionAsRole<T>(role: string, callback: RoleTransactionCallback<T>): Promise<T> {
    this.#assertOpen()
    const name = requiredRole(role)
    if (this.#transactions.getStore()?.open === true) throw new NestedTransactionError()
    const state = { open: true }
    try {
      return await this.#transactions.run(state, () => this.#sessions.transaction(name, callback))
    } finally {
      // What the callback started and did not wait for still sees this state, and may begin its own by now.
      state.open = false
    }
  }

  /** What its pools have lent now, one per role that was used. */
  get poolUse(): readonly PoolUse[] {
    return this.#sessions.use
  }

  /** Closes the connections that nobody is using, at once; the next call opens what it needs. Listeners stay. */
  rest(): void {
    this.#sessions.rest()
  }

  /** Hears the notifications of a channel until closed. Rejects if the first attempt to listen fails. */
  async listenAsRole(
    role: string,
    channel: string,
    handler: NotificationHandler,
    listenOptions: ListenOptions = {},
  ): Promise<Listener> {
    this.#assertOpen()
    const target = this.#options.listenTarget
    if (target === undefined) {
      throw new PoolerInTheWayError(
        'LISTEN through a transaction pooler hears nothing',
        'give a listenUrl that leads to the server itself, or rely on polling',
      )
    }
    const subscription = {
      ...listenOptions,
      role: requiredRole(role),
      channel: requiredIdentifier('channel', channel),
      handler,
    }
    const listener = await listen(target, this.#options, subscription)
    if (this.#closed !== undefined) {
      await listener.close()
      throw new DatabaseClosedError()
    }
    const tracked: Listener = {
      close: async () => {
        this.#listeners.delete(tracked)
        await listener.close()
      },
    }
    this.#listeners.add(tracked)
    return tracked
  }

  /** Whether the login can act as each of these roles, and if not, which grant is missing. */
  async probeRoles(roles: readonly string[]): Promise<RoleReport> {
    this.#assertOpen()
    return probeRoles(this.#options, roles.map(requiredRole))
  }

  /** Stops listening, waits for work in hand up to `closeTimeoutMs`, then cuts it. Safe to call twice. */
  close(): Promise<void> {
    this.#closed ??= this.#closeAll()
    return this.#closed
  }

  async #closeAll(): Promise<void> {
    await Promise.all([
      this.#sessions.close(this.#options.closeTimeoutMs),
      ...[...this.#listeners].map((listener) => listener.close()),
    ])
  }

  #assertOpen(): void {
    if (this.#closed !== undefined) throw new DatabaseClosedError()
  }
}
