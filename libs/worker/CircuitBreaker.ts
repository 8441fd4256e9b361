import type { Clock } from '../core/index.js'

export type BreakerState = 'closed' | 'open' | 'half-open'

export interface BreakerOptions {
  /** Consecutive failures that open the breaker. */
  readonly failuresMax: number
  /** Time from opening to the first trial call. Doubles with each failed trial. */
  readonly openMs: number
  /** Maximum time from opening to a trial call. @default 16 × openMs */
  readonly openMaxMs?: number
  readonly clock: Clock
  readonly onChange?: (state: BreakerState) => void
}

/**
 * Prevents calls to a failing system. Closed: all calls pass. Open: none. Half-open: one trial call at a time, whose
 * result closes or opens the breaker. The breaker only advises: the caller acts on `admits`.
 */
export class CircuitBreaker {
  readonly #options: BreakerOptions
  #failures = 0
  #openings = 0
  #openUntilMs = 0
  #state: BreakerState = 'closed'
  #trialRunning = false

  constructor(options: BreakerOptions) {
    this.#options = options
  }

  get state(): BreakerState {
    if (this.#state === 'open' && this.#options.clock.monotonicMs() >= this.#openUntilMs) this.#change('half-open')
    return this.#state
  }

  /** Returns how many of the wanted calls may start now. */
  admits(wanted: number): number {
    const { state } = this
    if (state === 'closed') return wanted
    if (state === 'open' || this.#trialRunning) return 0
    return Math.min(wanted, 1)
  }

  /** Milliseconds until the breaker admits a trial call; 0 unless open. */
  get openForMs(): number {
    return this.state === 'open' ? Math.max(0, this.#openUntilMs - this.#options.clock.monotonicMs()) : 0
  }

  /**
   * Marks a call as started. Returns true if the call is the trial. The caller must report the end of a trial, because
   * no other call is admitted until then.
   */
  started(): boolean {
    if (this.state !== 'half-open') return false
    this.#trialRunning = true
    return true
  }

  /** Ends a trial that did not show whether the system works. */
  abandoned(): void {
    this.#trialRunning = false
  }

  succeeded(): void {
    this.#trialRunning = false
    this.#failures = 0
    this.#openings = 0
    this.#change('closed')
  }

  failed(): void {
    this.#trialRunning = false
    this.#failures += 1
    if (this.state === 'half-open' || this.#failures >= this.#options.failuresMax) this.#open()
  }

  #open(): void {
    const { openMs, openMaxMs = 16 * openMs, clock } = this.#options
    if (this.#state !== 'open') this.#openings += 1
    this.#openUntilMs = clock.monotonicMs() + Math.min(openMs * 2 ** Math.min(this.#openings - 1, 20), openMaxMs)
    this.#change('open')
  }

  #change(state: BreakerState): void {
    if (this.#state === state) return
    this.#state = state
    this.#options.onChange?.(state)
  }
}
