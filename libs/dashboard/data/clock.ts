import { signal } from '@preact/signals'

/*
 * Clock and timers of the page. The clock is the browser's, corrected by its difference to the server's. Otherwise a
 * phone five minutes ahead would show a new payment as five minutes old.
 */

/** Interval at which `nowMs` changes. */
const TICK_MS = 1_000
/**
 * Difference to the server's clock below which the browser's clock is not corrected. Such a difference may come from
 * the network delay and from the whole seconds of the Date header.
 */
const SKEW_IGNORED_MS = 2_500

let skewMs = 0

/** Approximate time of the server. Changes once a second while the page is visible. */
export const nowMs = signal(readClock())

export function startClock(): void {
  setInterval(() => {
    if (document.visibilityState === 'visible') nowMs.value = readClock()
  }, TICK_MS)
}

/** Sets the difference to the server's clock from the Date header of an answer. */
export function learnServerTime(header: string | null): void {
  const serverMs = header === null ? Number.NaN : Date.parse(header)
  if (Number.isNaN(serverMs)) return
  const difference = serverMs - Date.now()
  skewMs = Math.abs(difference) < SKEW_IGNORED_MS ? 0 : difference
}

export function readClock(): number {
  return Date.now() + skewMs
}

/** Resolves after the time, or when the signal aborts. The caller checks the signal. */
export function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (stop.aborted) return resolve()
    const done = () => {
      clearTimeout(timer)
      stop.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    stop.addEventListener('abort', done)
  })
}

/** Limits calls of `act`. `ask` calls `act` at once, or at the end of the interval that began with the last call. */
export function atMostEvery(ms: number, act: () => void): { readonly ask: () => void; readonly stop: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined
  let asked = false
  const rest = () => {
    timer = setTimeout(() => {
      timer = undefined
      if (asked) ask()
    }, ms)
  }
  const ask = () => {
    asked = true
    if (timer !== undefined) return
    asked = false
    rest()
    act()
  }
  return { ask, stop: () => clearTimeout(timer) }
}

/** Returns a function that calls `act` once `ms` have passed since the function's last call. */
export function whenQuiet(ms: number, act: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  return () => {
    clearTimeout(timer)
    timer = setTimeout(act, ms)
  }
}
