import type { Wakeup } from './Wakeup.js'
import { sleep } from './time.js'

/** What one turn found. */
export interface Turn {
  /** There is surely more to do: turn again at once. */
  readonly again: boolean
  /** Nothing will be due for this long, as far as the turn knows. @default the poll interval */
  readonly idleMs?: number | undefined
  /** Something is due then, to the millisecond: do not turn earlier unasked. @default false */
  readonly exact?: boolean
}

export interface PollLoopOptions {
  readonly turn: (signal: AbortSignal) => Promise<Turn>
  /** How long to wait at most between turns. Polling is what guarantees; everything else is only faster. */
  readonly pollMs: number
  readonly wakeup: Wakeup
  /** A turn that failed. The loop goes on, later and later, until one succeeds. */
  readonly onError: (error: unknown) => void
  /** @default 100 */
  readonly errorDelayMs?: number
  /** @default 500: a database that is back is found within a second; one that is down bears a few knocks */
  readonly errorDelayMaxMs?: number
}

/**
 * Turns until stopped: at once while there is more, when woken, when something is due, and after the poll interval whatever
 * happens. An error never ends it. It promises that two turns never overlap.
 */
export class PollLoop {
  readonly #options: Required<PollLoopOptions>
  #stopping = new AbortController()
  #running: Promise<void> | undefined

  constructor(options: PollLoopOptions) {
    this.#options = { errorDelayMs: 100, errorDelayMaxMs: 500, ...options }
  }

  get isRunning(): boolean {
    return this.#running !== undefined
  }

  start(): void {
    if (this.#running !== undefined) return
    this.#stopping = new AbortController()
    this.#running = this.#run(this.#stopping.signal)
  }

  /** Waits for the turn in hand. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
    this.#running = undefined
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { turn, wakeup, pollMs, onError } = this.#options
    let failures = 0
    while (!signal.aborted) {
      try {
        const { again, idleMs = pollMs, exact = false } = await turn(signal)
        failures = 0
        const pauseMs = exact ? Math.min(jittered(pollMs), idleMs) : jittered(Math.min(pollMs, idleMs))
        if (!again && !signal.aborted) await wakeup.wait(pauseMs, signal)
      } catch (error) {
        onError(error)
        failures += 1
        await sleep(this.#errorDelay(failures), signal)
      }
    }
  }

  #errorDelay(failures: number): number {
    const { errorDelayMs, errorDelayMaxMs } = this.#options
    return jittered(Math.min(errorDelayMs * 2 ** Math.min(failures - 1, 20), errorDelayMaxMs))
  }
}

/** Up to a tenth shorter: a hundred workers that started together do not poll together, and none polls too late. */
function jittered(ms: number): number {
  return ms * (1 - Math.random() / 10)
}
