import { Cancellation, type StopSignal } from '../core/index.js'

export interface Deadline {
  readonly timeoutMs: number
  /** Ends the wait earlier. */
  readonly signal?: StopSignal | undefined
}

/** Argument of the work. Its signal is created when it is first read, because most work never reads it. */
export interface WorkContext {
  readonly signal: AbortSignal
}

export type Ending<Value> =
  | { readonly how: 'answered'; readonly value: Value }
  | { readonly how: 'threw'; readonly error: unknown }

export type Waited<Value> =
  | { readonly cut: undefined; readonly ending: Ending<Value> }
  | {
      /** Why nobody waited any longer. */
      readonly cut: 'timeout' | 'aborted'
      /** How the work ended, if it obeyed its signal at once. */
      readonly ending: Ending<Value> | undefined
      /** How the work ends, whenever that is. It may be never; it does not reject. */
      readonly end: Promise<Ending<Value>>
    }

/**
 * Runs `work` and returns when it ends or at the deadline, whichever is first, and never rejects. At the deadline its
 * signal is aborted, but nothing depends on the work obeying: a hung adapter would otherwise keep its slot, and its
 * worker's shutdown, for ever.
 */
export function withDeadline<Value>(
  work: (context: WorkContext) => Value | Promise<Value>,
  { timeoutMs, signal }: Deadline,
): Promise<Waited<Value>> {
  return new PlainWork(work).within(timeoutMs, signal)
}

/**
 * One piece of work that is waited for as `withDeadline` says. A subclass says what the work is and what its end means. It is an
 * object of its own rather than closures, because each payment makes one.
 */
export abstract class TimedWork<Value, Result> {
  readonly #context = new CallContext()
  #signal: StopSignal | undefined
  #timer: NodeJS.Timeout | undefined
  #resolve: ((result: Result) => void) | undefined
  #reject: ((error: unknown) => void) | undefined
  #isCut = false
  #ending: Ending<Value> | undefined
  /** Resolves the `end` of work that was cut. */
  #tellEnd: ((ending: Ending<Value>) => void) | undefined
  #abort: (() => void) | undefined

  protected abstract work(context: WorkContext): Value | Promise<Value>

  /** Returns the result that an end means. An error that it throws rejects the promise of `within`. */
  protected abstract conclude(waited: Waited<Value>): Result

  /** Starts the work. Called once. */
  within(timeoutMs: number, signal: StopSignal | undefined): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
      this.#signal = signal
      // Not AbortSignal.timeout, which lets the process exit before it, nor AbortSignal.any, which Node.js 20 never frees.
      this.#timer = setTimeout(cutAtTimeout, timeoutMs, this)
      this.#begin()
    })
  }

  #begin(): void {
    try {
      const result = this.work(this.#context)
      // The caller gets a value that is there already later, too, and never before `within` returns.
      Promise.resolve(result).then(
        (value) => this.#ended({ how: 'answered', value }),
        (error: unknown) => this.#ended({ how: 'threw', error }),
      )
    } catch (error) {
      queueMicrotask(() => this.#ended({ how: 'threw', error }))
    }
    if (this.#signal?.aborted === true) return this.cut('aborted')
    if (this.#signal === undefined) return
    this.#abort = () => this.cut('aborted')
    this.#signal.addEventListener('abort', this.#abort)
  }

  cut(why: keyof typeof REASONS): void {
    this.#isCut = true
    this.#clear()
    const end = new Promise<Ending<Value>>((told) => (this.#tellEnd = told))
    CallContext.stopOf(this.#context).abort(new DOMException(...REASONS[why]))
    // An adapter that obeys its signal knows best what it had sent by then, so its reaction gets one turn to arrive.
    setImmediate(() => this.#finish({ cut: why, ending: this.#ending, end }))
  }

  #ended(ending: Ending<Value>): void {
    this.#ending = ending
    if (this.#isCut) return this.#tellEnd?.(ending)
    this.#clear()
    this.#finish({ cut: undefined, ending })
  }

  #finish(waited: Waited<Value>): void {
    try {
      this.#resolve?.(this.conclude(waited))
    } catch (error) {
      this.#reject?.(error)
    }
  }

  #clear(): void {
    clearTimeout(this.#timer)
    if (this.#abort !== undefined) this.#signal?.removeEventListener('abort', this.#abort)
  }
}

class PlainWork<Value> extends TimedWork<Value, Waited<Value>> {
  readonly #work: (context: WorkContext) => Value | Promise<Value>

  constructor(work: (context: WorkContext) => Value | Promise<Value>) {
    super()
    this.#work = work
  }

  protected override work(context: WorkContext): Value | Promise<Value> {
    return this.#work(context)
  }

  protected override conclude(waited: Waited<Value>): Waited<Value> {
    return waited
  }
}

function cutAtTimeout(timed: { cut(why: 'timeout'): void }): void {
  timed.cut('timeout')
}

/**
 * `signal` is an own property, so that it survives a spread. All contexts share one descriptor: an object literal with a getter
 * takes three times as long to create.
 */
class CallContext implements WorkContext {
  declare readonly signal: AbortSignal
  #stop: Cancellation | undefined

  constructor() {
    Object.defineProperty(this, 'signal', SIGNAL)
  }

  static stopOf(context: CallContext): Cancellation {
    context.#stop ??= new Cancellation()
    return context.#stop
  }
}

const SIGNAL = {
  enumerable: true,
  get(this: CallContext): AbortSignal {
    return CallContext.stopOf(this).signal
  },
}

const REASONS = {
  timeout: ['the call timed out', 'TimeoutError'],
  aborted: ['the call was given up', 'AbortError'],
} as const
