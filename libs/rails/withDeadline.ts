/** Part of an `AbortSignal` that a deadline needs. A leased item implements it without the cost of a real signal. */
export interface StopSignal {
  readonly aborted: boolean
  readonly reason: unknown
  addEventListener(type: 'abort', listener: AbortListener): void
  removeEventListener(type: 'abort', listener: AbortListener): void
}

/** Listener that the signal calls once, when it aborts. */
export interface AbortListener {
  handleEvent(): void
}

interface Deadline {
  readonly timeoutMs: number
  readonly signal?: StopSignal | undefined
}

/** Argument of the work. Its signal is created at the first read, because most work never reads it. */
export interface WorkContext {
  readonly signal: AbortSignal
}

export type Settled<Value> =
  | { readonly how: 'answered'; readonly value: Value }
  | { readonly how: 'threw'; readonly error: unknown }

export type DeadlineResult<Value> =
  | { readonly stoppedBy: undefined; readonly settled: Settled<Value> }
  | {
      /** Reason for which the wait ended before the work did. */
      readonly stoppedBy: 'timeout' | 'aborted'
      /** Result of the work, if the work ended at once after the abort. */
      readonly settled: Settled<Value> | undefined
      /** Resolves with the result of the work when it ends, which may be never. Does not reject. */
      readonly end: Promise<Settled<Value>>
    }

/**
 * Runs `work`. Returns when the work ends, at the timeout, or when `signal` aborts, whichever is first. Never rejects.
 * A timeout or an abort aborts the signal of the work, which then has one turn of the event loop to end. A longer wait
 * for a hung adapter would block its slot, and a shutdown, for ever.
 */
export function withDeadline<Value>(
  work: (context: WorkContext) => Value | Promise<Value>,
  { timeoutMs, signal }: Deadline,
): Promise<DeadlineResult<Value>> {
  return new PlainWork(work).within(timeoutMs, signal)
}

/**
 * Returns the result of `work`, or rejects with `createError()` when the signal aborts. For work that accepts no
 * signal: it continues in the background and its result is ignored.
 */
export async function rejectOnAbort<Value>(
  work: Promise<Value>,
  signal: AbortSignal,
  createError: () => Error,
): Promise<Value> {
  const ended = new AbortController()
  const aborted = new Promise<never>((_, reject) => {
    if (signal.aborted) reject(createError())
    else signal.addEventListener('abort', () => reject(createError()), { signal: ended.signal })
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    ended.abort()
  }
}

/**
 * Work with a deadline, as `withDeadline` describes it. A subclass defines the work and the meaning of its result. A
 * class, because each payment creates one, and one object is cheaper than several closures.
 */
export abstract class TimedWork<Value, Result> implements AbortListener {
  readonly #context = new CallContext()
  #signal: StopSignal | undefined
  #timer: NodeJS.Timeout | undefined
  #resolve: ((result: Result) => void) | undefined
  #reject: ((error: unknown) => void) | undefined
  #isStopped = false
  #settled: Settled<Value> | undefined
  /** Resolves the promise `end` when the work ends after its wait was stopped. */
  #resolveEnd: ((settled: Settled<Value>) => void) | undefined

  protected abstract work(context: WorkContext): Value | Promise<Value>

  /** Returns the result with which `within` resolves. If it throws, `within` rejects. */
  protected abstract conclude(waited: DeadlineResult<Value>): Result

  /** Starts the work. Called once. */
  within(timeoutMs: number, signal: StopSignal | undefined): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
      this.#signal = signal
      // Uses a timer: `AbortSignal.timeout` does not keep the process alive, and Node.js 20 never frees the signals of
      // `AbortSignal.any`.
      this.#timer = setTimeout(stopAtTimeout, timeoutMs, this)
      this.#begin()
    })
  }

  #begin(): void {
    try {
      const result = this.work(this.#context)
      // A synchronous value also settles asynchronously, after `within` has returned.
      Promise.resolve(result).then(
        (value) => this.#onSettled({ how: 'answered', value }),
        (error: unknown) => this.#onSettled({ how: 'threw', error }),
      )
    } catch (error) {
      queueMicrotask(() => this.#onSettled({ how: 'threw', error }))
    }
    if (this.#signal?.aborted === true) this.stop('aborted')
    else this.#signal?.addEventListener('abort', this)
  }

  /**
   * Called by the signal. This object is the listener, because a separate function would be another object per call.
   */
  handleEvent(): void {
    this.stop('aborted')
  }

  stop(reason: keyof typeof REASONS): void {
    this.#isStopped = true
    this.#clear()
    const end = new Promise<Settled<Value>>((resolve) => (this.#resolveEnd = resolve))
    CallContext.controllerOf(this.#context).abort(new DOMException(...REASONS[reason]))
    // Waits one turn of the event loop, because an adapter that obeys its signal may still report a certain result.
    setImmediate(() => this.#finish({ stoppedBy: reason, settled: this.#settled, end }))
  }

  #onSettled(settled: Settled<Value>): void {
    this.#settled = settled
    if (this.#isStopped) return this.#resolveEnd?.(settled)
    this.#clear()
    this.#finish({ stoppedBy: undefined, settled })
  }

  #finish(waited: DeadlineResult<Value>): void {
    try {
      this.#resolve?.(this.conclude(waited))
    } catch (error) {
      this.#reject?.(error)
    }
  }

  #clear(): void {
    clearTimeout(this.#timer)
    this.#signal?.removeEventListener('abort', this)
  }
}

class PlainWork<Value> extends TimedWork<Value, DeadlineResult<Value>> {
  readonly #work: (context: WorkContext) => Value | Promise<Value>

  constructor(work: (context: WorkContext) => Value | Promise<Value>) {
    super()
    this.#work = work
  }

  protected override work(context: WorkContext): Value | Promise<Value> {
    return this.#work(context)
  }

  protected override conclude(waited: DeadlineResult<Value>): DeadlineResult<Value> {
    return waited
  }
}

function stopAtTimeout(timed: { stop(reason: 'timeout'): void }): void {
  timed.stop('timeout')
}

/**
 * Context of a call. `signal` is an own property, so that it survives a spread. All contexts share one descriptor,
 * because an object literal with a getter takes three times as long to create.
 */
class CallContext implements WorkContext {
  declare readonly signal: AbortSignal
  #controller: AbortController | undefined

  constructor() {
    Object.defineProperty(this, 'signal', SIGNAL)
  }

  static controllerOf(context: CallContext): AbortController {
    context.#controller ??= new AbortController()
    return context.#controller
  }
}

const SIGNAL = {
  enumerable: true,
  get(this: CallContext): AbortSignal {
    return CallContext.controllerOf(this).signal
  },
}

const REASONS = {
  timeout: ['the call timed out', 'TimeoutError'],
  aborted: ['the call was aborted', 'AbortError'],
} as const
