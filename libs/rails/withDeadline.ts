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
  { timeoutMs, signal }: Deadline,
): Promise<Waited<Value>> {
  return new Promise((resolve) => {
    const stop = new Cancellation()
    // How the work ended; until it has, who is to be told.
    let ending: Ending<Value> | undefined
    let tellEnd: ((ending: Ending<Value>) => void) | undefined
    const ended = (how: Ending<Value>) => {
      ending = how
      tellEnd?.(how)
    }
    const cut = (why: keyof typeof REASONS) => {
      clear()
      const end = new Promise<Ending<Value>>((told) => (tellEnd = told))
      stop.abort(new DOMException(...REASONS[why]))
      // An adapter that obeys its signal knows best what it had sent by then, so its reaction gets one turn to arrive.
      setImmediate(() => resolve({ cut: why, ending, end }))
    }
    const abort = () => cut('aborted')
    // Not AbortSignal.timeout, which lets the process exit before it, nor AbortSignal.any, which Node.js 20 never frees.
    const timer = setTimeout(cut, timeoutMs, 'timeout')
    const clear = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    }
    tellEnd = (how) => {
      clear()
      resolve({ cut: undefined, ending: how })
    }
    void settle(work, stop, ended)
    if (signal?.aborted === true) abort()
    else signal?.addEventListener('abort', abort)
  })
}

async function settle<Value>(
  work: (context: WorkContext) => Value | Promise<Value>,
  stop: Cancellation,
  ended: (ending: Ending<Value>) => void,
): Promise<void> {
  try {
    ended({ how: 'answered', value: await work(contextOf(stop)) })
  } catch (error) {
    ended({ how: 'threw', error })
  }
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
