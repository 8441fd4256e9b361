import type { Queryable } from '../db/index.js'
import { purgeInboxMessages } from '../inbox/index.js'
import { purgeIdleLeases } from '../lease/index.js'
import { purgeFinishedJobRuns, purgeFinishedTimers } from '../scheduler/index.js'
import { guardListener, IntervalWorker } from '../worker/index.js'
import type { RetentionOptions } from './options.js'

export interface CleanupCounts {
  readonly inboxMessages: number
  readonly jobRuns: number
  readonly timers: number
  readonly leases: number
  /** Surely not all that is past its retention: another round is wanted at once. */
  readonly more: boolean
}

export type CleanupEvent =
  /** What was past its retention is gone. */
  | ({ readonly type: 'retention.cleaned' } & CleanupCounts)
  /** A run failed; the next one will find the same rows. */
  | { readonly type: 'retention.fault'; readonly during: string; readonly error: unknown }

export interface CleanupOptions {
  readonly intervalMs: number
  readonly retention: Required<RetentionOptions>
}

const BATCH_SIZE = 1_000
const DAY_SECONDS = 86_400

/**
 * Removes what is finished and older than its retention, a batch of each a round, round after round until nothing is left:
 * handled messages, runs of jobs, timers, and resources that nobody holds. It never touches the outbox: its ledger and events
 * are append-only, and nothing in this product can remove them.
 */
export class CleanupWorker extends IntervalWorker<CleanupCounts> {
  readonly #role: Queryable
  readonly #retention: Required<RetentionOptions>
  readonly #onEvent: (event: CleanupEvent) => void

  constructor(role: Queryable, options: CleanupOptions, onEvent: (event: CleanupEvent) => void = () => {}) {
    const guarded = guardListener(onEvent)
    super({
      intervalMs: options.intervalMs,
      hasMore: ({ more }) => more,
      onError: (error) => guarded({ type: 'retention.fault', during: 'cleaning up', error }),
    })
    this.#role = role
    this.#retention = options.retention
    this.#onEvent = guarded
  }

  async runOnce(): Promise<CleanupCounts> {
    const { inboxDays, jobRunsDays, timersDays, leasesDays } = this.#retention
    const removed = {
      inboxMessages: await purgeInboxMessages(this.#role, inboxDays * DAY_SECONDS, BATCH_SIZE),
      jobRuns: await purgeFinishedJobRuns(this.#role, jobRunsDays * DAY_SECONDS, BATCH_SIZE),
      timers: await purgeFinishedTimers(this.#role, timersDays * DAY_SECONDS, BATCH_SIZE),
      leases: await purgeIdleLeases(this.#role, leasesDays * DAY_SECONDS, BATCH_SIZE),
    }
    // A batch that is not full was the last of its kind.
    const counts = { ...removed, more: Object.values(removed).includes(BATCH_SIZE) }
    if (Object.values(removed).some((count) => count > 0)) this.#onEvent({ type: 'retention.cleaned', ...counts })
    return counts
  }
}
