/** Waits, or returns early when the signal aborts. Never rejects: a stopping loop checks its signal. */
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

/** Resolves after the callbacks that are ready now have run. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve))
}

/** Waits for a promise at most `ms`. Returns whether the promise settled. Ignores its value and its error. */
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

/** Runs an action after a delay. `cancel` prevents it. */
export function runAfter(ms: number, action: () => void): Timer {
  const timer = setTimeout(action, Math.min(ms, TIMER_MAX_MS))
  return { cancel: () => clearTimeout(timer) }
}

/** Maximum delay of `setTimeout`, which fires at once for a longer one. */
const TIMER_MAX_MS = 2_147_483_647
