/** Waits, or returns early when the signal aborts. Never rejects: a loop that is told to stop just looks at its signal. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) return resolve()
    const finish = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', finish)
      resolve()
    }
    const timer = setTimeout(finish, Math.min(ms, TIMER_MAX_MS))
    signal?.addEventListener('abort', finish, { once: true })
  })
}

/** Resolves when everything that is ready now has run. */
export function turnOfEventLoop(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve))
}

/** Waits for a promise at most this long; says whether it was settled. Its failure is its owner's to handle. */
export async function settleWithin(promise: Promise<unknown>, ms: number): Promise<boolean> {
  const timeout = new AbortController()
  const settled = promise.then(
    () => true,
    () => true,
  )
  const winner = await Promise.race([settled, sleep(ms, timeout.signal).then(() => false)])
  timeout.abort()
  return winner
}

export interface Timer {
  cancel(): void
}

/** Does something later, unless told not to. */
export function after(ms: number, action: () => void): Timer {
  const timer = setTimeout(action, Math.min(ms, TIMER_MAX_MS))
  return { cancel: () => clearTimeout(timer) }
}

/** A signal that aborts after a while or when told to, and whose timer keeps no process alive once `cancel` was called. */
export function timerSignal(ms: number, reason: () => Error): { readonly signal: AbortSignal; cancel(): void } {
  const controller = new AbortController()
  const timer = setTimeout(() => controller.abort(reason()), Math.min(ms, TIMER_MAX_MS))
  return { signal: controller.signal, cancel: () => clearTimeout(timer) }
}

/** setTimeout fires at once for anything longer. */
const TIMER_MAX_MS = 2_147_483_647
