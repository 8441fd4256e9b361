import { isPermanentFailure, systemClock, type Clock } from '../core/index.js'
import type { Database, Listener, RoleHandle, Tx } from '../db/index.js'
import {
  guardListener,
  PollLoop,
  runAfter,
  Semaphore,
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

export interface InboxHandlerContext {
  /**
   * Transaction that also marks the message as done, in the application's role. Writes through it are committed exactly
   * once; effects elsewhere may repeat. Qualify names with their schema: the search path contains only `pg_catalog`.
   */
  readonly tx: Tx
  /**
   * Signal that aborts shortly before the claim expires, and when a stop has waited for `shutdownMs`. Nothing is
   * committed after the abort.
   */
  readonly signal: AbortSignal
}

/** Handles one message. An error makes the message due again; a `PermanentFailureError` makes it a dead letter. */
export type InboxHandler = (message: InboxClaim, context: InboxHandlerContext) => Promise<void>

export interface InboxWorkerCounts {
  readonly claimed: number
  readonly done: number
  readonly retried: number
  readonly deadLettered: number
  readonly handlersMissing: number
  readonly handlerNotCalled: number
  readonly fencesLost: number
}

const EXECUTOR = 'symphony_executor'
const CHANNEL = 'inbox_ready'

/**
 * Calls the handlers of due messages, at most `concurrency` at once.
 *
 * The writes of a handler through its transaction are committed exactly once, together with "done". If the claim was
 * lost meanwhile, both are rolled back. A handler may be called again after a crash, a failure or an expired claim. Its
 * effects outside the transaction then repeat.
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
  /** Handlers that rounds and stops wait for: they run, and have not ignored their aborted signal. */
  readonly #running = new Map<Promise<void>, AbortController>()
  readonly #claims = new Set<Promise<boolean>>()
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
    this.#options = resolveInboxWorkerOptions(options, database.login)
    this.workerId = this.#options.workerId
    this.#database = database
    this.#role = database.as(EXECUTOR)
    this.#handlers = new Map(Object.entries(handlers))
    this.#clock = clock
    const notify = guardListener(onEvent)
    this.#onEvent = (event) => {
      this.#count(event)
      notify(event)
    }
    this.#slots = new Semaphore(this.#options.concurrency)
    this.#wakeup = new Wakeup(this.#options.debounceMs, clock)
    this.#loop = new PollLoop({
      poll: () => this.#poll(),
      pollMs: this.#options.pollMs,
      wakeup: this.#wakeup,
      onError: (error) => this.#onEvent({ type: 'inbox.fault', during: 'claiming', error }),
    })
  }

  async start(): Promise<void> {
    this.#stopping = false
    if (this.#options.listen) await this.#listen()
    this.#loop.start()
  }

  /**
   * Stops claiming, waits for handlers, then aborts their signals. If a handler does not end within 2 s of the abort,
   * its claim expires.
   */
  async stop(): Promise<void> {
    this.#stopping = true
    await this.#loop.stop()
    // A claim of a single round may still lease messages.
    await Promise.allSettled(this.#claims)
    await this.#listener?.close()
    this.#listener = undefined
    const handled = this.#allHandled()
    if (await settleWithin(handled, this.#options.shutdownMs)) return
    for (const giveUp of this.#running.values()) giveUp.abort(new Error('the worker is shutting down'))
    await handled
  }

  /** Claims and handles messages once. Waits for a handler at most until 2 s after its signal has aborted. */
  async runOnce(): Promise<InboxWorkerCounts> {
    this.#counts = emptyCounts()
    const claim = this.#claimMore().finally(() => this.#claims.delete(claim))
    this.#claims.add(claim)
    await claim
    await this.#allHandled()
    return this.#counts
  }

  async #poll(): Promise<PollResult> {
    const pollAgain = await this.#claimMore()
    // If no slot is free, the loop waits. A handler that ends wakes it.
    if (pollAgain || this.#slots.free === 0) return { pollAgain }
    const next = await nextInboxEvent(this.#role)
    return { pollAgain, idleMs: next === null ? undefined : Math.max(MIN_IDLE_MS, next.inMs) }
  }

  /**
   * Claims as many messages as slots are free, and starts their handlers at once, so that no claim waits in memory.
   * Returns whether the claim was full.
   */
  async #claimMore(): Promise<boolean> {
    const wanted = Math.min(this.#slots.free, this.#options.batchSize)
    if (wanted === 0 || this.#stopping) return false
    const { leaseSeconds, attemptsMax } = this.#options
    const sentAtMs = this.#clock.monotonicMs()
    const messages = await claimInboxBatch(this.#role, wanted, this.workerId, leaseSeconds, attemptsMax)
    const takeovers = messages.filter(({ takenOver }) => takenOver).length
    this.#onEvent({ type: 'inbox.claimed', messages: messages.length, takeovers })
    for (const message of messages)
      this.#startHandling(message, sentAtMs + leaseSeconds * 1_000 - marginMs(leaseSeconds))
    return messages.length === wanted
  }

  #startHandling(message: InboxClaim, trustedUntilMs: number): void {
    this.#slots.acquire()
    const giveUp = new AbortController()
    const leftMs = Math.max(0, trustedUntilMs - this.#clock.monotonicMs())
    const expiry = runAfter(leftMs, () => giveUp.abort(new Error('the claim is about to end')))
    const handled = this.#handle(message, giveUp.signal)
      .catch((error: unknown) => this.#onEvent({ type: 'inbox.fault', during: 'releasing a message', error }))
      .finally(() => {
        expiry.cancel()
        this.#slots.release()
        this.#wakeup.notify()
      })
    const awaited = untilIgnored(handled, giveUp.signal).finally(() => this.#running.delete(awaited))
    this.#running.set(awaited, giveUp)
  }

  async #handle(message: InboxClaim, signal: AbortSignal): Promise<void> {
    const handler = this.#handlers.get(message.topic)
    if (handler === undefined) return this.#releaseUnhandled(message)
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
      return begun ? this.#settleFailure(message, error) : this.#releaseUncalled(message, error, signal)
    }
    this.#onEvent({ type: 'inbox.done', ...about(message) })
  }

  /**
   * Records a failure of the handler, fenced by the claim. Changes nothing if the transaction was committed and only
   * its answer was lost, or if another worker has claimed the message.
   */
  async #settleFailure(message: InboxClaim, error: unknown): Promise<void> {
    if (error instanceof InboxFenceLostError) return this.#onEvent({ type: 'inbox.fenceLost', ...about(message) })
    const claim = { ...message, error: describe(error) }
    if (isPermanentFailure(error)) {
      const failed = await failInboxMessages(this.#role, [claim], this.workerId)
      return this.#onEvent({
        type: failed.length === 0 ? 'inbox.fenceLost' : 'inbox.deadLettered',
        error,
        ...about(message),
      })
    }
    const [abandoned] = await abandonInboxMessages(this.#role, [claim], this.workerId)
    if (abandoned === undefined) return this.#onEvent({ type: 'inbox.fenceLost', ...about(message) })
    this.#onEvent({
      type: abandoned.state === 'dead' ? 'inbox.deadLettered' : 'inbox.retried',
      error,
      ...about(message),
    })
  }

  async #releaseUnhandled(message: InboxClaim): Promise<void> {
    const { missingHandlerDelaySeconds: retryDelaySeconds } = this.#options
    const error = `no handler for the topic ${message.topic} in worker ${this.workerId}`
    await abandonInboxMessages(this.#role, [{ ...message, error, retryDelaySeconds }], this.workerId, false)
    this.#onEvent({ type: 'inbox.handlerMissing', ...about(message) })
  }

  /**
   * Releases a message whose handler could not be called, without counting an attempt. The same fault often prevents
   * the release too, so the worker repeats the release until shortly before the claim expires. Keeps the slot
   * meanwhile, because the next message would meet the same fault.
   */
  async #releaseUncalled(message: InboxClaim, error: unknown, signal: AbortSignal): Promise<void> {
    this.#onEvent({ type: 'inbox.handlerNotCalled', error, ...about(message) })
    const claim = { ...message, error: `handler not called: ${describe(error)}` }
    for (let pauseMs = RELEASE_RETRY_MS; ; pauseMs *= 2) {
      try {
        await abandonInboxMessages(this.#role, [claim], this.workerId, false)
        return
      } catch (fault) {
        this.#onEvent({ type: 'inbox.fault', during: 'releasing a message', error: fault })
        await sleep(pauseMs, signal)
        if (signal.aborted) return
      }
    }
  }

  async #allHandled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.keys())
  }

  async #listen(): Promise<void> {
    this.#listener ??= await this.#database.listenAsRole(
      EXECUTOR,
      CHANNEL,
      () => {
        this.#onEvent({ type: 'inbox.notified' })
        this.#wakeup.notify()
      },
      {
        onStateChange: ({ state }) => {
          this.#onEvent({ type: 'inbox.listening', connected: state === 'listening' })
          // Notifications may have been missed while the connection was down.
          if (state === 'listening') this.#wakeup.notify()
        },
      },
    )
  }

  #count(event: InboxWorkerEvent): void {
    const { type } = event
    const counts = this.#counts
    if (type === 'inbox.claimed') counts.claimed += event.messages
    else if (type === 'inbox.done') counts.done += 1
    else if (type === 'inbox.retried') counts.retried += 1
    else if (type === 'inbox.deadLettered') counts.deadLettered += 1
    else if (type === 'inbox.handlerMissing') counts.handlersMissing += 1
    else if (type === 'inbox.handlerNotCalled') counts.handlerNotCalled += 1
    else if (type === 'inbox.fenceLost') counts.fencesLost += 1
  }
}

/**
 * Waits for a handler, but at most `ABORTED_HANDLERS_MS` after its signal has aborted. A round in a fleet keeps a slot
 * of the databases, so a handler that ignores its signal must not keep the round.
 */
async function untilIgnored(handled: Promise<void>, signal: AbortSignal): Promise<void> {
  const aborted = new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
  await Promise.race([handled, aborted])
  await settleWithin(handled, ABORTED_HANDLERS_MS)
}

type MutableCounts = { -readonly [K in keyof InboxWorkerCounts]: number }

function emptyCounts(): MutableCounts {
  return { claimed: 0, done: 0, retried: 0, deadLettered: 0, handlersMissing: 0, handlerNotCalled: 0, fencesLost: 0 }
}

function about({ source, messageId, topic, attemptCount }: InboxClaim) {
  return { source, messageId, topic, attemptCount }
}

/** Describes a thrown value in one line. Omits its stack and properties, because they may contain a whole request. */
function describe(thrown: unknown): string {
  if (!(thrown instanceof Error)) return typeof thrown === 'string' ? thrown : `threw ${typeof thrown}`
  const own = `${thrown.name}: ${thrown.message}`
  return thrown.cause instanceof Error ? `${own} (${thrown.cause.name}: ${thrown.cause.message})` : own
}

/** Returns the safety margin: the worker aborts a handler this long before its claim expires. */
function marginMs(leaseSeconds: number): number {
  return Math.min(1_000, leaseSeconds * 100)
}

const ABORTED_HANDLERS_MS = 2_000
/** Delay before the first retry of a release. It doubles with each retry. */
const RELEASE_RETRY_MS = 100
/** Minimum wait, so that a due message locked by another worker causes no busy loop. */
const MIN_IDLE_MS = 20
