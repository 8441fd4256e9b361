import { InvalidArgumentError, nearestSpelling } from '../core/index.js'
import type { InboxWorkerEvent } from '../inbox/index.js'
import type { SealerEvent, VerifierEvent } from '../ledger/index.js'
import type { LeaseEvent } from '../lease/index.js'
import type { RelayerEvent } from '../outbox/index.js'
import type { CleanupEvent, PlatformEvent } from '../platform/index.js'
import type { RepairEvent } from '../repair/index.js'
import type { SchedulerEvent } from '../scheduler/index.js'
import { Emitter } from '../worker/index.js'

/** Every event of a Symphony. The type is `module.fact`, such as `outbox.held`. No event carries a payload. */
export type SymphonyEvent =
  | RelayerEvent
  | RepairEvent
  | SealerEvent
  | VerifierEvent
  | CleanupEvent
  | InboxWorkerEvent
  | SchedulerEvent
  | LeaseEvent

interface Typed {
  readonly type: string
}

/**
 * Events of one Symphony. Listeners are isolated: the error of a listener becomes a process warning and affects no
 * worker.
 */
export class Events<Event extends Typed> {
  readonly #emitter = new Emitter<Event>()
  readonly #types: readonly string[]

  /** @param types every type that these events may have */
  constructor(types: readonly Event['type'][]) {
    this.#types = types
  }

  /**
   * Listens to one type, or to every type with `*`. Returns a function that unsubscribes. An unknown type is refused.
   */
  on<Type extends Event['type']>(
    type: Type | '*',
    listener: (event: Extract<Event, { type: Type }>) => unknown,
  ): () => void {
    this.#requireType(type)
    const isWanted = (event: Event): event is Extract<Event, { type: Type }> => type === '*' || event.type === type
    return this.#emitter.on((event) => (isWanted(event) ? listener(event) : undefined))
  }

  /** Waits for the next event of a type. Rejects when the signal aborts. */
  once<Type extends Event['type']>(
    type: Type,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<Extract<Event, { type: Type }>> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason)
        return
      }
      const stop = this.on(type, (event) => {
        end()
        resolve(event)
      })
      const onAbort = () => {
        end()
        reject(signal?.reason)
      }
      const end = () => {
        stop()
        signal?.removeEventListener('abort', onAbort)
      }
      signal?.addEventListener('abort', onAbort, { once: true })
    })
  }

  /**
   * Returns an iterable of all events from now on, in order, until the signal aborts or the loop ends. While 1000
   * events wait for a slow reader, further ones are dropped and counted.
   */
  stream({ signal }: { readonly signal?: AbortSignal } = {}): EventStream<Event> {
    return new EventStream((listener) => this.#emitter.on(listener), signal)
  }

  /** Sends an event to all listeners. Called by the workers of this Symphony. */
  emit(event: Event): void {
    this.#emitter.emit(event)
  }

  #requireType(type: unknown): void {
    if (type === '*' || this.#types.some((known) => known === type)) return
    const meant = typeof type === 'string' ? nearestSpelling(type, this.#types) : undefined
    throw new InvalidArgumentError(
      'type',
      meant === undefined ? `unknown; expected one of *, ${this.#types.join(', ')}` : `unknown; did you mean ${meant}?`,
    )
  }
}

export class EventStream<Event> implements AsyncIterable<Event> {
  readonly #waiting: Event[] = []
  readonly #stop: () => void
  #dropped = 0
  #isEnded = false
  #wake: () => void = () => {}

  constructor(subscribe: (listener: (event: Event) => void) => () => void, signal: AbortSignal | undefined) {
    const unsubscribe = subscribe((event) => this.#add(event))
    const end = () => this.#end()
    this.#stop = () => {
      unsubscribe()
      signal?.removeEventListener('abort', end)
    }
    if (signal?.aborted === true) this.#end()
    else signal?.addEventListener('abort', end, { once: true })
  }

  /** Number of events that were dropped because the reader was slow. */
  get dropped(): number {
    return this.#dropped
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Event> {
    try {
      for (;;) {
        const event = this.#waiting.shift()
        if (event !== undefined) yield event
        else if (this.#isEnded) return
        else await new Promise<void>((resolve) => (this.#wake = resolve))
      }
    } finally {
      this.#end()
    }
  }

  #add(event: Event): void {
    if (this.#waiting.length < STREAM_LENGTH_MAX) this.#waiting.push(event)
    else this.#dropped += 1
    this.#wake()
  }

  #end(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#stop()
    this.#wake()
  }
}

const STREAM_LENGTH_MAX = 1_000

/** Types of events. The compiler refuses a missing or an extra type. */
const ofSymphony: Readonly<Record<SymphonyEvent['type'], true>> = {
  'inbox.claimed': true,
  'inbox.deadLettered': true,
  'inbox.done': true,
  'inbox.fault': true,
  'inbox.fenceLost': true,
  'inbox.handlerMissing': true,
  'inbox.handlerNotCalled': true,
  'inbox.listening': true,
  'inbox.notified': true,
  'inbox.retried': true,
  'lease.acquired': true,
  'lease.ended': true,
  'lease.fault': true,
  'lease.interrupted': true,
  'lease.renewed': true,
  'ledger.broken': true,
  'ledger.fault': true,
  'ledger.sealed': true,
  'outbox.alreadyRecorded': true,
  'outbox.breaker': true,
  'outbox.called': true,
  'outbox.claimed': true,
  'outbox.clockJumped': true,
  'outbox.contradicted': true,
  'outbox.dispatchFinished': true,
  'outbox.dispatchStarted': true,
  'outbox.fault': true,
  'outbox.freezeLifted': true,
  'outbox.frozen': true,
  'outbox.held': true,
  'outbox.lateOutcome': true,
  'outbox.leaseLost': true,
  'outbox.listening': true,
  'outbox.notified': true,
  'outbox.recorded': true,
  'outbox.released': true,
  'outbox.terminalGuard': true,
  'outbox.unknownCode': true,
  'repair.fault': true,
  'repair.repaired': true,
  'repair.unrepaired': true,
  'retention.cleaned': true,
  'retention.fault': true,
  'scheduler.enqueued': true,
  'scheduler.fault': true,
  'scheduler.invalidSchedule': true,
  'scheduler.listening': true,
  'scheduler.missed': true,
  'scheduler.notified': true,
  'scheduler.refused': true,
  'scheduler.runsCreated': true,
}

const ofPlatform: Readonly<Record<PlatformEvent['type'], true>> = {
  'platform.alreadyServed': true,
  'platform.databaseAdded': true,
  'platform.databaseDown': true,
  'platform.databaseRemoved': true,
  'platform.databaseUp': true,
  'platform.discoveryFailed': true,
  'platform.fault': true,
}

export const SYMPHONY_EVENT_TYPES = typesOf(ofSymphony)
export const FLEET_EVENT_TYPES = typesOf({ ...ofSymphony, ...ofPlatform })

function typesOf<Type extends string>(types: Readonly<Record<Type, true>>): readonly Type[] {
  const isType = (key: string): key is Type => Object.hasOwn(types, key)
  return Object.keys(types).filter(isType)
}
