import { setTimeout as delay } from 'node:timers/promises'
import type { Random } from '../../libs/cli/commands/demo/seededRandom.js'
import { buildPayment } from './payments.js'
import type { RelayScenario } from './RelayScenario.js'

export interface LoadGeneratorOptions {
  readonly scenario: RelayScenario
  readonly random: Random
  /** Minimum number of pending payments. */
  readonly backlog: number
}

/** Keeps the queue filled through every fault until `pause`. */
export class LoadGenerator {
  readonly #options: LoadGeneratorOptions
  #running: Promise<void> = Promise.resolve()
  #paused = true
  /** Number of payments whose enqueue succeeded. */
  acknowledged = 0

  constructor(options: LoadGeneratorOptions) {
    this.#options = options
  }

  /** Starts or resumes the load. */
  feed(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#running = this.#run()
    // `pause` reports the error.
    this.#running.catch(() => {})
  }

  /** Stops the load. Resolves when no call is in progress. */
  async pause(): Promise<void> {
    this.#paused = true
    await this.#running
  }

  /** Fills the queue once and pauses. */
  async fill(): Promise<void> {
    await this.pause()
    await this.#topUp()
  }

  async #run(): Promise<void> {
    while (!this.#paused) {
      await this.#topUp()
      await delay(POLL_MS)
    }
  }

  async #topUp(): Promise<void> {
    const { scenario, random, backlog } = this.#options
    let waiting = Number((await scenario.status()).pendingCount)
    for (; waiting < backlog; waiting += BATCH) {
      const first = this.acknowledged + 1
      await scenario.enqueue(Array.from({ length: BATCH }, (_, index) => buildPayment(first + index, random)))
      this.acknowledged += BATCH
    }
  }
}

const BATCH = 100
const POLL_MS = 50
