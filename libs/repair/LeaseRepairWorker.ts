import { systemClock } from '../core/index.js'
import type { Queryable } from '../db/index.js'
import { repairExpiredLeases } from '../outbox/index.js'
import { PollLoop, Wakeup, type Worker } from '../worker/index.js'
import { resolveLeaseRepairOptions, type LeaseRepairOptions } from './options.js'

export interface RepairCounts {
  readonly expiredLeasesDetected: number
  readonly leasesRepaired: number
  /** The first hundred; a list without a bound would be a log line without one. */
  readonly outboxIds: readonly string[]
  /** How many it held, by reason: at the retry ceiling, or because an announced call had begun. */
  readonly holdsPlaced: Readonly<Record<string, number>>
}

export type RepairEvent =
  /** Expired leases were returned to the queue, or held. */
  | ({ readonly type: 'repaired' } & RepairCounts)
  /** A run failed; the next one will find the same leases. */
  | { readonly type: 'fault'; readonly during: string; readonly error: unknown }

/**
 * Returns expired leases to the queue, each with its ledger row. It does not decide anything: whether an item is marked, held
 * or rescheduled is the database's to say. It does not promise to be the one who repairs: another instance, or the next claim,
 * may be faster, and each lease is repaired once.
 */
export class LeaseRepairWorker implements Worker<RepairCounts> {
  readonly #role: Queryable
  readonly #options: Required<LeaseRepairOptions>
  readonly #onEvent: (event: RepairEvent) => void
  readonly #loop: PollLoop

  constructor(role: Queryable, options: LeaseRepairOptions = {}, onEvent: (event: RepairEvent) => void = () => {}) {
    this.#role = role
    this.#options = resolveLeaseRepairOptions(options)
    this.#onEvent = onEvent
    this.#loop = new PollLoop({
      turn: async () => {
        await this.runOnce()
        return { again: false }
      },
      pollMs: this.#options.intervalMs,
      wakeup: new Wakeup(0, systemClock),
      onError: (error) => onEvent({ type: 'fault', during: 'repairing leases', error }),
    })
  }

  start(): Promise<void> {
    this.#loop.start()
    return Promise.resolve()
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
  }

  async runOnce(): Promise<RepairCounts> {
    const { batchSize, workerId } = this.#options
    const outboxIds: string[] = []
    const holdsPlaced: Record<string, number> = {}
    let repaired = 0
    for (;;) {
      const batch = await repairExpiredLeases(this.#role, batchSize, workerId)
      repaired += batch.length
      outboxIds.push(...batch.slice(0, IDS_SHOWN_MAX - outboxIds.length).map(({ outboxId }) => outboxId))
      for (const { placedHold } of batch) {
        if (placedHold !== undefined) holdsPlaced[placedHold] = (holdsPlaced[placedHold] ?? 0) + 1
      }
      if (batch.length < batchSize) break
    }
    const counts = { expiredLeasesDetected: repaired, leasesRepaired: repaired, outboxIds, holdsPlaced }
    if (repaired > 0) this.#onEvent({ type: 'repaired', ...counts })
    return counts
  }
}

const IDS_SHOWN_MAX = 100
