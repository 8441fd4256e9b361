import { setImmediate as nextTurn } from 'node:timers/promises'

export interface Deadline {
  readonly timeoutMs: number
  /** Ends the wait earlier. */
  readonly signal?: AbortSignal | undefined
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
  work: (signal: AbortSignal) => Value | Promise<Value>,
  deadline: Deadline,
): Promise<Waited<Value>> {
  const controller = new AbortController()
  const watch = watchDeadline(deadline)
  try {
    const end = settle(work, controller.signal)
    const first = await Promise.race([end, watch.reached])
    if (typeof first !== 'string') return { cut: undefined, ending: first }
    controller.abort(first === 'timeout' ? new DOMException('the call timed out', 'TimeoutError') : undefined)
    // An adapter that obeys its signal knows best what it had sent by then, so its reaction gets one turn to arrive.
    await nextTurn()
    return { cut: first, ending: await Promise.race([end, Promise.resolve(undefined)]), end }
  } finally {
    watch.dismiss()
  }
}

/** Not AbortSignal.timeout, which lets the process exit before it, nor AbortSignal.any, which Node.js 20 never frees. */
function watchDeadline({ timeoutMs, signal }: Deadline): {
  readonly reached: Promise<'timeout' | 'aborted'>
  readonly dismiss: () => void
} {
  const dismissed = new AbortController()
  const reached = new Promise<'timeout' | 'aborted'>((resolve) => {
    const timer = setTimeout(resolve, timeoutMs, 'timeout')
    dismissed.signal.addEventListener('abort', () => clearTimeout(timer))
    if (signal?.aborted === true) resolve('aborted')
    signal?.addEventListener('abort', () => resolve('aborted'), { signal: dismissed.signal })
  })
  return { reached, dismiss: () => dismissed.abort() }
}

async function settle<Value>(
  work: (signal: AbortSignal) => Value | Promise<Value>,
  signal: AbortSignal,
): Promise<Ending<Value>> {
  try {
    return { how: 'answered', value: await work(signal) }
  } catch (error) {
    return { how: 'threw', error }
  }
}
