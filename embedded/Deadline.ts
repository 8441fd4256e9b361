import { setTimeout as sleep } from 'node:timers/promises'

// Interval of polls. Short, because a start takes less than a second and each poll reads one small file.
const POLL_INTERVAL_MS = 25

/** Deadline of one start or stop, shared by all its steps. */
export class Deadline {
  readonly #endsAtMs: number
  /** Signal of the caller, who may give up before the deadline. */
  readonly signal: AbortSignal

  constructor(timeoutMs: number, signal: AbortSignal = new AbortController().signal) {
    this.#endsAtMs = performance.now() + timeoutMs
    this.signal = signal
  }

  get remainingMs(): number {
    return Math.max(0, Math.ceil(this.#endsAtMs - performance.now()))
  }

  get hasPassed(): boolean {
    return this.remainingMs === 0
  }

  async pause(): Promise<void> {
    this.signal.throwIfAborted()
    await sleep(Math.min(POLL_INTERVAL_MS, this.remainingMs))
    this.signal.throwIfAborted()
  }

  /** Calls `look` until it returns a value. Returns undefined if the deadline passes first. */
  async poll<T>(look: () => Promise<T | undefined>): Promise<T | undefined> {
    for (;;) {
      const found = await look()
      if (found !== undefined || this.hasPassed) return found
      await this.pause()
    }
  }
}
