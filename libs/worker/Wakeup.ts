import type { Clock } from '../core/index.js'
import { after } from './time.js'

/**
 * Something may be waiting: said by a notification, a freed slot, anybody. An idle waiter acts on the first word at once;
 * further words within the debounce window count as one, so that a storm of notifications is not a storm of queries.
 */
export class Wakeup {
  readonly #debounceMs: number
  readonly #clock: Clock
  readonly #isIdle: () => boolean
  #said: 'nothing' | 'maybe' | 'surely' = 'nothing'
  #wake: (() => void) | undefined
  #lastWokenMs = Number.NEGATIVE_INFINITY

  /** @param isIdle Whether everything that was found so far is done: then a word is the first one again, however soon. */
  constructor(debounceMs: number, clock: Clock, isIdle: () => boolean = () => false) {
    this.#debounceMs = debounceMs
    this.#clock = clock
    this.#isIdle = isIdle
  }

  /** There may be something. */
  notify(): void {
    if (this.#said === 'nothing') this.#said = 'maybe'
    this.#wake?.()
  }

  /** There is something: whoever says this has counted, and is not debounced. */
  insist(): void {
    this.#said = 'surely'
    this.#wake?.()
  }

  /** Returns after `ms`, or earlier when notified; true if it was. */
  async wait(ms: number, signal: AbortSignal): Promise<boolean> {
    if (this.#said === 'nothing') await this.#heard(ms, signal)
    if (this.#said === 'nothing' || signal.aborted) return false
    const sinceLast = this.#clock.monotonicMs() - this.#lastWokenMs
    if (this.#said === 'maybe' && sinceLast < this.#debounceMs && !this.#isIdle()) {
      await this.#heard(this.#debounceMs - sinceLast, signal, 'surely')
    }
    this.#said = 'nothing'
    this.#lastWokenMs = this.#clock.monotonicMs()
    return true
  }

  /** Without an AbortController: whoever is woken by one waits for its exception to be made. */
  #heard(ms: number, signal: AbortSignal, word?: 'surely'): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve()
      const finish = () => {
        this.#wake = undefined
        timer.cancel()
        signal.removeEventListener('abort', finish)
        resolve()
      }
      const timer = after(ms, finish)
      this.#wake = () => {
        if (word === undefined || this.#said === word) finish()
      }
      signal.addEventListener('abort', finish, { once: true })
    })
  }
}
