import type { Clock } from '../core/index.js'

export type BreakerState = 'closed' | 'open' | 'half-open'

export interface BreakerOptions {
  /** Failures in a row that open it. */
  readonly failuresMax: number
  /** How long it stays open before one trial is let through; doubles with each trial that fails. */
  readonly openMs: number
  /** @default 16 × openMs */
  readonly openMaxMs?: number
  readonly clock: Clock
  readonly onChange?: (state: BreakerState) => void
}

/**
 * Keeps work away from something that is down. Closed: everything passes. Open: nothing does. Half-open: one trial at a
 * time, whose result closes or opens it again. It only advises: what is done with `admits` is the caller's.
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

  /** How many calls may start now. */
  admits(wanted: number): number {
    const { state } = this
    if (state === 'closed') return wanted
    if (state === 'open' || this.#trialRunning) return 0
    return Math.min(wanted, 1)
  }

  /** How long nothing will be admitted. */
  get closedForMs(): number {
    return this.state === 'open' ? Math.max(0, this.#openUntilMs - this.#options.clock.monotonicMs()) : 0
  }

  /** Returns whether it is the trial. Whoever starts one must say how it ended: nothing else is admitted until then. */
  started(): boolean {
    if (this.state !== 'half-open') return false
    this.#trialRunning = true
    return true
  }

  /** The trial ended without telling whether the other side is well. */
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
