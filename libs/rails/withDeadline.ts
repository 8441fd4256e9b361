import { setImmediate as nextTurn } from 'node:timers/promises'
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
export async function withDeadline<Value>(
  work: (context: WorkContext) => Value | Promise<Value>,
  deadline: Deadline,
): Promise<Waited<Value>> {
  const stop = new Cancellation()
  const end = settle(work, stop)
  const first = await firstOf(end, deadline)
  if (typeof first !== 'string') return { cut: undefined, ending: first }
  stop.abort(new DOMException(...REASONS[first]))
  // An adapter that obeys its signal knows best what it had sent by then, so its reaction gets one turn to arrive.
  await nextTurn()
  return { cut: first, ending: await Promise.race([end, Promise.resolve(undefined)]), end }
}

/** Not AbortSignal.timeout, which lets the process exit before it, nor AbortSignal.any, which Node.js 20 never frees. */
function firstOf<Value>(
  end: Promise<Ending<Value>>,
  { timeoutMs, signal }: Deadline,
): Promise<Ending<Value> | 'timeout' | 'aborted'> {
  return new Promise((resolve) => {
    const settled = (first: Ending<Value> | 'timeout' | 'aborted') => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      resolve(first)
    }
    const abort = () => settled('aborted')
    const timer = setTimeout(settled, timeoutMs, 'timeout')
    if (signal?.aborted === true) abort()
    else signal?.addEventListener('abort', abort)
    void end.then(settled)
  })
}

async function settle<Value>(
  work: (context: WorkContext) => Value | Promise<Value>,
  stop: Cancellation,
): Promise<Ending<Value>> {
  try {
    return { how: 'answered', value: await work(contextOf(stop)) }
  } catch (error) {
    return { how: 'threw', error }
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
