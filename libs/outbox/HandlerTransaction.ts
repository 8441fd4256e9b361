import { TransactionClosedError, type RoleHandle, type Rows, type Transaction, type Tx } from '../db/index.js'
import type { RailContext } from '../rails/index.js'
import { completeOutboxAttempts } from './db.js'
import type { TopicContext } from './topicRails.js'
import type { AttemptOutcome, CompletionVerdict } from './types.js'

interface HandlerTransactionsOptions {
  readonly role: RoleHandle
  readonly workerId: string
  /** Role of the handlers: the application's own. */
  readonly handlerRole: string
  /** Size of the pool. The transactions share its connections with claims, renewals and completions. */
  readonly connectionsMax: number
}

/**
 * Transactions of the topic handlers of one relayer. At most half of the connections (or the only one) are in such a
 * transaction, because a renewal that finds no connection loses its lease. Further handlers wait at their first query,
 * without a connection.
 */
export class HandlerTransactions {
  readonly #options: HandlerTransactionsOptions
  readonly #waiting: (() => void)[] = []
  #free: number

  constructor(options: HandlerTransactionsOptions) {
    this.#options = options
    this.#free = Math.max(1, Math.floor(options.connectionsMax / 2))
  }

  /** Creates a transaction, which opens at its first query. */
  create(): HandlerTransaction {
    return new HandlerTransaction(this.#options.role.schema, (onOpen, outcome) => this.#run(onOpen, outcome))
  }

  /** Opens a transaction, waits for the outcome of its handler, and commits it together with that outcome. */
  async #run(onOpen: (tx: Transaction) => void, outcome: Promise<AttemptOutcome>): Promise<CompletionVerdict> {
    const { role, workerId, handlerRole } = this.#options
    await this.#acquire()
    try {
      return await role.transaction(async (tx) => {
        const success = await tx.asRole(handlerRole, (application) => {
          onOpen(application)
          return outcome
        })
        const [verdict] = await completeOutboxAttempts(tx, workerId, [success])
        // Any other verdict means that the lease is lost or that the attempt was recorded before. The throw rolls back.
        if (verdict!.verdict !== 'RECORDED') throw new NotRecordedError(verdict!)
        return verdict!
      })
    } catch (error) {
      if (error instanceof NotRecordedError) return error.verdict
      throw error
    } finally {
      this.#release()
    }
  }

  async #acquire(): Promise<void> {
    if (this.#free > 0) this.#free -= 1
    else await new Promise<void>((resolve) => void this.#waiting.push(resolve))
  }

  #release(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#free += 1
    else next()
  }
}

type Run = (onOpen: (tx: Transaction) => void, outcome: Promise<AttemptOutcome>) => Promise<CompletionVerdict>

/**
 * Transaction of one handler. It opens at the first query, in the role of the application, and is committed only
 * together with the completion of the message. An abort of the handler rolls it back.
 */
export class HandlerTransaction {
  readonly #tx: Tx
  readonly #run: Run
  #signal: () => AbortSignal = () => AbortSignal.abort()
  #opening: Promise<Transaction> | undefined
  #recording: Promise<CompletionVerdict> | undefined
  #resolve: (outcome: AttemptOutcome) => void = () => {}
  #reject: (error: Error) => void = () => {}
  #isUsed = false
  #isClosed = false

  constructor(schema: string, run: Run) {
    this.#run = run
    const query = <R>(text: string, values?: readonly unknown[]) => this.#query<R>(text, values)
    this.#tx = { schema, query }
  }

  /** Whether the handler has sent a query, even one that was refused. */
  get isUsed(): boolean {
    return this.#isUsed
  }

  /** Whether the handler has used the transaction, and it can still be committed. */
  get isOpen(): boolean {
    return this.#isUsed && !this.#isClosed
  }

  /** Adds the transaction to the context of a handler. The signal stays lazy: it is created at its first read. */
  contextOf(context: RailContext): TopicContext {
    this.#signal = () => context.signal
    return {
      tx: this.#tx,
      get signal() {
        return context.signal
      },
    }
  }

  /**
   * Records the outcome in the transaction and commits. With any verdict but RECORDED, the transaction was rolled back.
   * If the promise rejects, the transaction was rolled back, or it was committed and the answer to COMMIT was lost.
   */
  commit(outcome: AttemptOutcome): Promise<CompletionVerdict> {
    this.#isClosed = true
    this.#resolve(outcome)
    return this.#recording ?? Promise.reject(new TransactionClosedError())
  }

  /** Rolls back in the background. Queries of the handler are refused from now on. */
  rollBack(): void {
    this.#isClosed = true
    this.#reject(new TransactionClosedError())
  }

  async #query<R>(text: string, values?: readonly unknown[]): Promise<Rows<R>> {
    this.#isUsed = true
    if (this.#isClosed) throw new TransactionClosedError()
    this.#opening ??= this.#open()
    const application = await this.#opening
    return application.query<R>(text, values)
  }

  #open(): Promise<Transaction> {
    const signal = this.#signal()
    if (signal.aborted) {
      this.#isClosed = true
      return Promise.reject(new TransactionClosedError())
    }
    signal.addEventListener('abort', () => this.rollBack(), { once: true })
    const outcome = new Promise<AttemptOutcome>((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    // Prevents an unhandled rejection if a rollback comes before the transaction has opened.
    outcome.catch(() => {})
    return new Promise((resolve, reject) => {
      this.#recording = this.#run(resolve, outcome)
      this.#recording.catch(reject)
    })
  }
}

/** Rolls back a transaction whose completion was not recorded. */
class NotRecordedError extends Error {
  readonly verdict: CompletionVerdict

  constructor(verdict: CompletionVerdict) {
    super(`not recorded: ${verdict.verdict}`)
    this.verdict = verdict
  }
}
