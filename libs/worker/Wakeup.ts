import type { Clock } from '../core/index.js'
import { sleep } from './time.js'

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

  async #heard(ms: number, signal: AbortSignal, word?: 'surely'): Promise<void> {
    const interrupted = new AbortController()
    const interrupt = () => {
      if (word !== undefined && this.#said !== word && !signal.aborted) return
      // Once: every landing may say the word again, and an abort that changes nothing still costs an exception.
      this.#wake = undefined
      interrupted.abort()
    }
    this.#wake = interrupt
    signal.addEventListener('abort', interrupt, { once: true })
    await sleep(ms, interrupted.signal)
    signal.removeEventListener('abort', interrupt)
    this.#wake = undefined
  }
}
