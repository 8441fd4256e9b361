import { signal } from '@preact/signals'

/**
 * The browser's clock and its timers, all in this file. Ages are counted by the server's clock: a phone that is five minutes
 * ahead must not show a fresh payment as five minutes late.
 */
const TICK_MS = 1_000
/** Below this a difference is the network's, and the header has whole seconds only. */
const SKEW_IGNORED_MS = 2_500

let skewMs = 0

/** The server's time now, about; changes once a second while the page is in view. */
export const nowMs = signal(readClock())

export function startClock(): void {
  setInterval(() => {
    if (document.visibilityState === 'visible') nowMs.value = readClock()
  }, TICK_MS)
}

/** Told by every answer's Date header. */
export function learnServerTime(header: string | null): void {
  const serverMs = header === null ? Number.NaN : Date.parse(header)
  if (Number.isNaN(serverMs)) return
  const difference = serverMs - Date.now()
  skewMs = Math.abs(difference) < SKEW_IGNORED_MS ? 0 : difference
}

export function readClock(): number {
  return Date.now() + skewMs
}

/** Resolves after the time, or at once when the signal aborts: the caller looks at the signal. */
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

/** Calls at once, and while it is asked again too soon, once more at the end of the interval. */
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

/** Calls once, when nobody has asked for that long. */
export function whenQuiet(ms: number, act: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  return () => {
    clearTimeout(timer)
    timer = setTimeout(act, ms)
  }
}
