import { systemClock } from '../core/index.js'
import { Wakeup } from './Wakeup.js'
import { sleep } from './time.js'

export interface PollResult {
  /** Whether the loop polls again at once, because more work is likely. */
  readonly pollAgain: boolean
  /** Milliseconds until work is due, as far as the poll knows. @default the poll interval */
  readonly idleMs?: number | undefined
  /**
   * Whether work is due exactly after `idleMs`, so that the loop does not shorten the wait by jitter. @default false
   */
  readonly exact?: boolean
}

export interface PollLoopOptions {
  readonly poll: (signal: AbortSignal) => Promise<PollResult>
  /** Maximum wait between two polls. Polling guarantees progress; wake-ups only make it faster. */
  readonly pollMs: number
  readonly wakeup: Wakeup
  /** Receives the error of a failed poll. The loop continues with growing delays until a poll succeeds. */
  readonly onError: (error: unknown) => void
  /** Delay after the first failed poll. It doubles with each further failure. @default 100 */
  readonly errorDelayMs?: number
  /**
   * Maximum delay after failed polls. Short enough to notice within a second that the database is up again. @default
   * 500
   */
  readonly errorDelayMaxMs?: number
}

/**
 * Polls until stopped: at once while there is more work, on a wake-up, when work becomes due, and after the poll
 * interval in any case. An error never ends the loop. Two polls never overlap.
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

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
    this.#running = undefined
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { poll, wakeup, pollMs, onError } = this.#options
    let failures = 0
    while (!signal.aborted) {
      try {
        const { pollAgain, idleMs = pollMs, exact = false } = await poll(signal)
        failures = 0
        const pauseMs = exact ? Math.min(jittered(pollMs), idleMs) : jittered(Math.min(pollMs, idleMs))
        if (!pollAgain && !signal.aborted) await wakeup.wait(pauseMs, signal)
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

/**
 * Shortens a wait by up to a tenth, so that workers that start together do not poll together. Never lengthens it, so
 * that no poll is late.
 */
function jittered(ms: number): number {
  return ms * (1 - Math.random() / 10)
}

/**
 * Interface of every worker. `runOnce` does one round and is the method that tests call. `start` does the same work in
 * a loop. `stop` waits for running work; it may be called twice, and before `start`.
 */
export interface Worker<Counts> {
  start(): Promise<void>
  stop(): Promise<void>
  runOnce(): Promise<Counts>
}

interface IntervalWorkerOptions<Counts> {
  readonly intervalMs: number
  /** Returns true if more work is likely, so that the next run follows at once. */
  readonly hasMore: (counts: Counts) => boolean
  /** Receives the error of a failed run. The next run does the same work again. */
  readonly onError: (error: unknown) => void
}

/** Worker that repeats `runOnce` at an interval, without notifications. */
export abstract class IntervalWorker<Counts> implements Worker<Counts> {
  readonly #loop: PollLoop

  constructor({ intervalMs, hasMore, onError }: IntervalWorkerOptions<Counts>) {
    this.#loop = new PollLoop({
      poll: async () => ({ pollAgain: hasMore(await this.runOnce()) }),
      pollMs: intervalMs,
      wakeup: new Wakeup(0, systemClock),
      onError,
    })
  }

  abstract runOnce(): Promise<Counts>

  start(): Promise<void> {
    this.#loop.start()
    return Promise.resolve()
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
  }
}
