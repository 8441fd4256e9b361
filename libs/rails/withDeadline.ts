import { Cancellation, type StopSignal } from '../core/index.js'

export interface Deadline {
  readonly timeoutMs: number
  /** Ends the wait earlier. */
  readonly signal?: StopSignal | undefined
}

/** What the work is given. Its signal is made when it is read, and not before: most work never looks. */
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
  deadline: Deadline,
): Promise<Waited<Value>> {
  return new Promise((resolve) => new Wait(deadline, resolve).begin(work))
}

/** One piece of work that is waited for. An object of its own rather than closures: each payment makes one. */
class Wait<Value> {
  readonly #signal: StopSignal | undefined
  readonly #resolve: (waited: Waited<Value>) => void
  readonly #timer: NodeJS.Timeout
  readonly #stop = new Cancellation()
  #isCut = false
  /** How the work ended. */
  #ending: Ending<Value> | undefined
  /** Who is to be told how it ends, if it was cut before. */
  #tellEnd: ((ending: Ending<Value>) => void) | undefined
  #abort: (() => void) | undefined

  constructor({ timeoutMs, signal }: Deadline, resolve: (waited: Waited<Value>) => void) {
    this.#signal = signal
    this.#resolve = resolve
    // Not AbortSignal.timeout, which lets the process exit before it, nor AbortSignal.any, which Node.js 20 never frees.
    this.#timer = setTimeout(cutAtTimeout<Value>, timeoutMs, this)
  }

  begin(work: (context: WorkContext) => Value | Promise<Value>): void {
    try {
      const result = work(contextOf(this.#stop))
      // Also of a value that is there already the caller hears later, never before this returns.
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
    this.#stop.abort(new DOMException(...REASONS[why]))
    // An adapter that obeys its signal knows best what it had sent by then, so its reaction gets one turn to arrive.
    setImmediate(() => this.#resolve({ cut: why, ending: this.#ending, end }))
  }

  #ended(ending: Ending<Value>): void {
    this.#ending = ending
    if (this.#isCut) return this.#tellEnd?.(ending)
    this.#clear()
    this.#resolve({ cut: undefined, ending })
  }

  #clear(): void {
    clearTimeout(this.#timer)
    if (this.#abort !== undefined) this.#signal?.removeEventListener('abort', this.#abort)
  }
}

function cutAtTimeout<Value>(wait: Wait<Value>): void {
  wait.cut('timeout')
}

/** A getter of its own object, so that it survives being spread. */
function contextOf(stop: Cancellation): WorkContext {
  return {
    get signal() {
      return stop.signal
    },
  }
}

const REASONS = {
  timeout: ['the call timed out', 'TimeoutError'],
  aborted: ['the call was given up', 'AbortError'],
} as const
