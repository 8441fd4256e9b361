import type { Clock } from '../core/index.js'
import { sleep } from './time.js'

/**
 * Something may be waiting: said by a notification, a freed slot, anybody. An idle waiter acts on the first word at once;
 * further words within the debounce window count as one, so that a storm of notifications is not a storm of queries.
 */
export class Wakeup {
  readonly #debounceMs: number
  readonly #clock: Clock
  #said = false
  #wake: (() => void) | undefined
  #lastWokenMs = Number.NEGATIVE_INFINITY

  constructor(debounceMs: number, clock: Clock) {
    this.#debounceMs = debounceMs
    this.#clock = clock
  }

  notify(): void {
    this.#said = true
    this.#wake?.()
  }

  /** Returns after `ms`, or earlier when notified; true if it was. */
  async wait(ms: number, signal: AbortSignal): Promise<boolean> {
    if (!this.#said) {
      const interrupted = new AbortController()
      const interrupt = () => interrupted.abort()
      this.#wake = interrupt
      signal.addEventListener('abort', interrupt, { once: true })
      await sleep(ms, interrupted.signal)
      signal.removeEventListener('abort', interrupt)
      this.#wake = undefined
    }
    if (!this.#said || signal.aborted) return false
    const sinceLast = this.#clock.monotonicMs() - this.#lastWokenMs
    if (sinceLast < this.#debounceMs) await sleep(this.#debounceMs - sinceLast, signal)
    this.#said = false
    this.#lastWokenMs = this.#clock.monotonicMs()
    return true
  }
}
