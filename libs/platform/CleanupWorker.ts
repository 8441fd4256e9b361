import { boundedInteger, definedOptions } from '../core/index.js'
import type { Queryable } from '../db/index.js'
import { purgeInboxMessages } from '../inbox/index.js'
import { purgeIdleLeases } from '../lease/index.js'
import { purgeLedgerProjection } from '../outbox/index.js'
import { purgeFinishedJobRuns, purgeFinishedTimers } from '../scheduler/index.js'
import { guardListener, IntervalWorker } from '../worker/index.js'
import { CLEANUP_INTERVAL_MS, RETENTION_DAYS, RETENTION_DEFAULTS, type RetentionOptions } from './options.js'

export interface CleanupCounts {
  readonly inboxMessages: number
  readonly jobRuns: number
  readonly timers: number
  readonly leases: number
  /** Rows of the search table and of the counts per minute, hour and day. */
  readonly searchRows: number
  /** True if a batch was full, so that more rows may be left. */
  readonly more: boolean
}

export type CleanupEvent =
  /** Rows past their retention were removed. */
  | ({ readonly type: 'retention.cleaned' } & CleanupCounts)
  /** A run failed. The next run removes the same rows. */
  | { readonly type: 'retention.fault'; readonly during: string; readonly error: unknown }

export interface CleanupOptions {
  readonly intervalMs: number
  readonly retention: RetentionOptions
}

const BATCH_SIZE = 1_000
const DAY_SECONDS = 86_400

/**
 * Removes rows past their retention, in batches until none is left: handled messages, finished job runs and timers,
 * idle leases, and rows for search and charts. Never touches the ledger, which is append-only.
 */
export class CleanupWorker extends IntervalWorker<CleanupCounts> {
  readonly #role: Queryable
  readonly #retention: Required<RetentionOptions>
  readonly #onEvent: (event: CleanupEvent) => void

  constructor(role: Queryable, options: CleanupOptions, onEvent: (event: CleanupEvent) => void = () => {}) {
    const guarded = guardListener(onEvent)
    super({
      intervalMs: boundedInteger('cleanupIntervalMs', options.intervalMs, CLEANUP_INTERVAL_MS),
      hasMore: ({ more }) => more,
      onError: (error) => guarded({ type: 'retention.fault', during: 'cleaning up', error }),
    })
    this.#role = role
    this.#retention = { ...RETENTION_DEFAULTS, ...definedOptions(options.retention) }
    for (const [name, days] of Object.entries(this.#retention)) {
      boundedInteger(`retention.${name}`, days, RETENTION_DAYS)
    }
    this.#onEvent = guarded
  }

  async runOnce(): Promise<CleanupCounts> {
    const { inboxDays, jobRunsDays, timersDays, leasesDays, searchDays } = this.#retention
    const removed = {
      inboxMessages: await purgeInboxMessages(this.#role, inboxDays * DAY_SECONDS, BATCH_SIZE),
      jobRuns: await purgeFinishedJobRuns(this.#role, jobRunsDays * DAY_SECONDS, BATCH_SIZE),
      timers: await purgeFinishedTimers(this.#role, timersDays * DAY_SECONDS, BATCH_SIZE),
      leases: await purgeIdleLeases(this.#role, leasesDays * DAY_SECONDS, BATCH_SIZE),
      searchRows: await purgeLedgerProjection(this.#role, searchDays * DAY_SECONDS, BATCH_SIZE),
    }
    // A full batch means that more rows of its kind may be left.
    const counts = { ...removed, more: Object.values(removed).includes(BATCH_SIZE) }
    if (Object.values(removed).some((count) => count > 0)) this.#onEvent({ type: 'retention.cleaned', ...counts })
    return counts
  }
}
