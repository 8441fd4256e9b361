import type { Clock } from '../core/index.js'
import { runAfter } from './time.js'

/**
 * Wakes a loop that waits for work. The first notification of an idle loop wakes it at once. Further notifications
 * within the debounce time count as one, so that many notifications cause few queries.
 */
export class Wakeup {
  readonly #debounceMs: number
  readonly #clock: Clock
  readonly #isIdle: () => boolean
  #pending: 'none' | 'possible' | 'certain' = 'none'
  #wake: (() => void) | undefined
  #lastWokenMs = Number.NEGATIVE_INFINITY

  /**
   * @param isIdle True if all work found so far is done. The next notification then wakes the loop without debounce.
   */
  constructor(debounceMs: number, clock: Clock, isIdle: () => boolean = () => false) {
    this.#debounceMs = debounceMs
    this.#clock = clock
    this.#isIdle = isIdle
  }

  /** Reports possible work. */
  notify(): void {
    if (this.#pending === 'none') this.#pending = 'possible'
    this.#wake?.()
  }

  /** Reports work that surely exists. Wakes the loop at once, without debounce. */
  wakeNow(): void {
    this.#pending = 'certain'
    this.#wake?.()
  }

  /** Waits for `ms` or until notified. Returns true if notified. */
  async wait(ms: number, signal: AbortSignal): Promise<boolean> {
    if (this.#pending === 'none') await this.#waitForSignal(ms, signal)
    if (this.#pending === 'none' || signal.aborted) return false
    const sinceLast = this.#clock.monotonicMs() - this.#lastWokenMs
    if (this.#pending === 'possible' && sinceLast < this.#debounceMs && !this.#isIdle()) {
      await this.#waitForSignal(this.#debounceMs - sinceLast, signal, 'certain')
    }
    this.#pending = 'none'
    this.#lastWokenMs = this.#clock.monotonicMs()
    return true
  }

  /** Uses its own promise and timer. Ending a wait by `AbortController.abort()` would build an exception each time. */
  #waitForSignal(ms: number, signal: AbortSignal, level?: 'certain'): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve()
      const finish = () => {
        this.#wake = undefined
        timer.cancel()
        signal.removeEventListener('abort', finish)
        resolve()
      }
      const timer = runAfter(ms, finish)
      this.#wake = () => {
        if (level === undefined || this.#pending === level) finish()
      }
      signal.addEventListener('abort', finish, { once: true })
    })
  }
}
