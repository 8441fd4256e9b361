import { Cancellation, isPermanentFailure, systemClock, type Clock } from '../core/index.js'
import type { Database, Listener, RoleHandle, Transaction } from '../db/index.js'
import {
  runAfter,
  Semaphore,
  guardListener,
  PollLoop,
  settleWithin,
  sleep,
  Wakeup,
  type PollResult,
  type Worker,
} from '../worker/index.js'
import { abandonInboxMessages, ackInboxMessages, claimInboxBatch, failInboxMessages, nextInboxEvent } from './db.js'
import { InboxFenceLostError } from './errors.js'
import type { InboxWorkerEvent, OnInboxWorkerEvent } from './events.js'
import { resolveInboxWorkerOptions, type InboxWorkerOptions, type ResolvedInboxWorkerOptions } from './options.js'
import type { InboxClaim } from './types.js'

export interface InboxHandling {
  /**
   * The transaction in which the message becomes done, in the application's role. What is written through it is committed
   * together with that, once; what is done elsewhere may happen again. Names need their schema: the search path is empty.
   */
  readonly tx: Transaction
  /** Aborts shortly before the claim ends, and when the worker gives up waiting: after it, nothing will be committed. */
  readonly signal: AbortSignal
}

/** Handles one message. What it throws makes the message due again; `PermanentFailureError` makes it dead. */
export type InboxHandler = (message: InboxClaim, handling: InboxHandling) => Promise<void>

export interface InboxWorkerCounts {
  readonly claimed: number
  readonly done: number
  readonly retried: number
  readonly died: number
  readonly handlersMissing: number
  readonly notBegun: number
  readonly fencesLost: number
}

const EXECUTOR = 'symphony_executor'
const CHANNEL = 'inbox_ready'

/**
 * Hands due messages to the handlers of their topics, at most so many at once.
 *
 * It promises that what a handler writes through its transaction is committed exactly once, together with "done": if the
 * claim was lost meanwhile, both are rolled back. It does not promise that a handler is called once: after a crash, a failure
 * or an expired claim it is called again, and what it did outside its transaction was done twice.
 */
export class InboxWorker implements Worker<InboxWorkerCounts> {
  readonly workerId: string
  readonly #database: Database
  readonly #role: RoleHandle
  readonly #handlers: ReadonlyMap<string, InboxHandler>
  readonly #options: ResolvedInboxWorkerOptions
  readonly #clock: Clock
  readonly #onEvent: OnInboxWorkerEvent
  readonly #slots: Semaphore
  readonly #wakeup: Wakeup
  readonly #loop: PollLoop
  readonly #inHand = new Map<Promise<void>, Cancellation>()
  #listener: Listener | undefined
  #stopping = false
  #counts = emptyCounts()

  constructor(
    database: Database,
    handlers: Readonly<Record<string, InboxHandler>>,
    options: InboxWorkerOptions,
    onEvent: OnInboxWorkerEvent = () => {},
    clock: Clock = systemClock,
  ) {
    this.#options = resolveInboxWorkerOptions(options)
    this.workerId = this.#options.workerId
    this.#database = database
    this.#role = database.as(EXECUTOR)
    this.#handlers = new Map(Object.entries(handlers))
    this.#clock = clock
    const tell = guardListener(onEvent)
    this.#onEvent = (event) => {
      this.#count(event)
      tell(event)
    }
    this.#slots = new Semaphore(this.#options.concurrency)
    this.#wakeup = new Wakeup(this.#options.debounceMs, clock)
    this.#loop = new PollLoop({
      poll: () => this.#poll(),
      pollMs: this.#options.pollMs,
      wakeup: this.#wakeup,
      onError: (error) => this.#onEvent({ type: 'fault', during: 'claiming', error }),
    })
  }

  async start(): Promise<void> {
    this.#stopping = false
    if (this.#options.listen) await this.#listen()
    this.#loop.start()
  }

  /** Claims stop; handlers get their time, then their signals abort. A handler that does not end leaves an expiring claim. */
  async stop(): Promise<void> {
    this.#stopping = true
    await this.#loop.stop()
    await this.#listener?.close()
    this.#listener = undefined
    const handled = this.#allHandled()
    if (await settleWithin(handled, this.#options.shutdownMs)) return
    for (const giveUp of this.#inHand.values()) giveUp.abort(new Error('the worker is shutting down'))
    await settleWithin(handled, ABORTED_HANDLERS_MS)
  }

  /** One round: claim what there is room for, and handle it. */
  async runOnce(): Promise<InboxWorkerCounts> {
    this.#counts = emptyCounts()
    await this.#takeMore()
    await this.#allHandled()
    return this.#counts
  }

  async #poll(): Promise<PollResult> {
    const pollAgain = await this.#takeMore()
    // Whoever frees a slot wakes us.
    if (pollAgain || this.#slots.free === 0) return { pollAgain }
    const next = await nextInboxEvent(this.#role)
    return { pollAgain, idleMs: next === null ? undefined : Math.max(MIN_IDLE_MS, next.inMs) }
  }

  /** Claims what there is room for, and begins it at once: nothing waits in memory while its claim runs out. */
  async #takeMore(): Promise<boolean> {
    const wanted = Math.min(this.#slots.free, this.#options.batchSize)
    if (wanted === 0 || this.#stopping) return false
    const { leaseSeconds, attemptsMax } = this.#options
    const sentAtMs = this.#clock.monotonicMs()
    const messages = await claimInboxBatch(this.#role, wanted, this.workerId, leaseSeconds, attemptsMax)
    const takeovers = messages.filter(({ takenOver }) => takenOver).length
    this.#onEvent({ type: 'claimed', messages: messages.length, takeovers })
    for (const message of messages) this.#take(message, sentAtMs + leaseSeconds * 1_000 - marginMs(leaseSeconds))
    return messages.length === wanted
  }

  #take(message: InboxClaim, trustedUntilMs: number): void {
    this.#slots.acquire()
    const giveUp = new Cancellation()
    const leftMs = Math.max(0, trustedUntilMs - this.#clock.monotonicMs())
    const expiry = runAfter(leftMs, () => giveUp.abort(new Error('the claim is about to end')))
    const handled = this.#carry(message, giveUp.signal)
      .catch((error: unknown) => this.#onEvent({ type: 'fault', during: 'giving a message back', error }))
      .finally(() => {
        expiry.cancel()
        this.#inHand.delete(handled)
        this.#slots.release()
        this.#wakeup.notify()
      })
    this.#inHand.set(handled, giveUp)
  }

  async #carry(message: InboxClaim, signal: AbortSignal): Promise<void> {
    const handler = this.#handlers.get(message.topic)
    if (handler === undefined) return this.#returnUnhandled(message)
    let begun = false
    try {
      await this.#database.transactionAsRole(EXECUTOR, async (tx) => {
        await tx.asRole(this.#options.handlerRole, (application) => {
          begun = true
          return handler(message, { tx: application, signal })
        })
        signal.throwIfAborted()
        const acked = await ackInboxMessages(tx, [message], this.workerId)
        if (acked.length === 0) throw new InboxFenceLostError()
      })
    } catch (error) {
      return begun ? this.#settleFailure(message, error) : this.#returnNotBegun(message, error, signal)
    }
    this.#onEvent({ type: 'done', ...about(message) })
  }

  /**
   * Fenced like everything: if it was committed after all and only the answer was lost, or if another worker has the message,
   * this changes nothing.
   */
  async #settleFailure(message: InboxClaim, error: unknown): Promise<void> {
    if (error instanceof InboxFenceLostError) return this.#onEvent({ type: 'fenceLost', ...about(message) })
    const claim = { ...message, error: describe(error) }
    if (isPermanentFailure(error)) {
      const failed = await failInboxMessages(this.#role, [claim], this.workerId)
      return this.#onEvent({ type: failed.length === 0 ? 'fenceLost' : 'died', error, ...about(message) })
    }
    const [abandoned] = await abandonInboxMessages(this.#role, [claim], this.workerId)
    if (abandoned === undefined) return this.#onEvent({ type: 'fenceLost', ...about(message) })
    this.#onEvent({ type: abandoned.state === 'dead' ? 'died' : 'retried', error, ...about(message) })
  }

  async #returnUnhandled(message: InboxClaim): Promise<void> {
    const { missingHandlerDelaySeconds: retryDelaySeconds } = this.#options
    const error = `no handler for the topic ${message.topic} in worker ${this.workerId}`
    await abandonInboxMessages(this.#role, [{ ...message, error, retryDelaySeconds }], this.workerId, false)
    this.#onEvent({ type: 'handlerMissing', ...about(message) })
  }

  /**
   * What kept a handler from being called says nothing about the message, and is often what keeps the message from being given
   * back, too: so that is tried until the claim is about to end. The slot is kept meanwhile; another message would fare no better.
   */
  async #returnNotBegun(message: InboxClaim, error: unknown, signal: AbortSignal): Promise<void> {
    this.#onEvent({ type: 'notBegun', error, ...about(message) })
    const claim = { ...message, error: `not begun: ${describe(error)}` }
    for (let pauseMs = GIVE_BACK_AGAIN_MS; ; pauseMs *= 2) {
      try {
        await abandonInboxMessages(this.#role, [claim], this.workerId, false)
        return
      } catch (fault) {
        this.#onEvent({ type: 'fault', during: 'giving a message back', error: fault })
        await sleep(pauseMs, signal)
        if (signal.aborted) return
      }
    }
  }

  async #allHandled(): Promise<void> {
    while (this.#inHand.size > 0) await Promise.all(this.#inHand.keys())
  }

  async #listen(): Promise<void> {
    this.#listener ??= await this.#database.listenAsRole(
      EXECUTOR,
      CHANNEL,
      () => {
        this.#onEvent({ type: 'notified' })
        this.#wakeup.notify()
      },
      {
        onStateChange: ({ state }) => {
          this.#onEvent({ type: 'listening', connected: state === 'listening' })
          // Whatever was said while nobody listened is found by looking.
          if (state === 'listening') this.#wakeup.notify()
        },
      },
    )
  }

  #count(event: InboxWorkerEvent): void {
    const { type } = event
    const counts = this.#counts
    if (type === 'claimed') counts.claimed += event.messages
    else if (type === 'done') counts.done += 1
    else if (type === 'retried') counts.retried += 1
    else if (type === 'died') counts.died += 1
    else if (type === 'handlerMissing') counts.handlersMissing += 1
    else if (type === 'notBegun') counts.notBegun += 1
    else if (type === 'fenceLost') counts.fencesLost += 1
  }
}

type MutableCounts = { -readonly [K in keyof InboxWorkerCounts]: number }

function emptyCounts(): MutableCounts {
  return { claimed: 0, done: 0, retried: 0, died: 0, handlersMissing: 0, notBegun: 0, fencesLost: 0 }
}

function about({ source, messageId, topic, attemptCount }: InboxClaim) {
  return { source, messageId, topic, attemptCount }
}

/** What a thrown value says, in a line: never a stack, and never a property, which may hold a whole request. */
function describe(thrown: unknown): string {
  if (!(thrown instanceof Error)) return typeof thrown === 'string' ? thrown : `threw ${typeof thrown}`
  const own = `${thrown.name}: ${thrown.message}`
  return thrown.cause instanceof Error ? `${own} (${thrown.cause.name}: ${thrown.cause.message})` : own
}

/** A claim is trusted until this long before its end. */
function marginMs(leaseSeconds: number): number {
  return Math.min(1_000, leaseSeconds * 100)
}

const ABORTED_HANDLERS_MS = 2_000
/** At first; it doubles. */
const GIVE_BACK_AGAIN_MS = 100
/** What is due but locked by another worker at this moment is not asked for in a tight circle. */
const MIN_IDLE_MS = 20
