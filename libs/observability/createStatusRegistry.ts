import { Counter, Gauge, Registry } from 'prom-client'
import type { PoolUsage } from '../db/index.js'
import type { InboxStats } from '../inbox/index.js'
import type { LeaseStats } from '../lease/index.js'
import type { SealingStatus } from '../ledger/index.js'
import type { DispatchEpoch, OutboxStatus } from '../outbox/index.js'
import type { SchedulerStats } from '../scheduler/index.js'

/** Everything that is read at once when somebody wants to know how things stand. */
export interface SystemStatus {
  /** The database's clock. */
  readonly at: Date
  readonly outbox: OutboxStatus
  /** Undefined before anything was ever claimed. */
  readonly epoch: DispatchEpoch | undefined
  readonly inbox: InboxStats
  readonly scheduler: SchedulerStats
  readonly leases: LeaseStats
  readonly sealing: SealingStatus
  /** Of this process; the rest is the database's, and the same for everybody. */
  readonly pools: readonly PoolUsage[]
}

type Labels = Readonly<Record<string, string>>
type Sample = readonly [value: bigint | number, labels?: Labels]

interface StatusGauge {
  readonly name: string
  readonly help: string
  readonly labelNames?: readonly string[]
  /** A total that only grows. @default gauge */
  readonly type?: 'counter'
  readonly read: (status: SystemStatus) => Sample | readonly Sample[]
}

/**
 * How things stand, as gauges in a registry of their own: read from the database at each scrape, and therefore the same from
 * every process. Without a status the gauges are there, and empty.
 */
export function createStatusRegistry(status?: SystemStatus): Registry {
  const registry = new Registry()
  for (const { name, help, labelNames = [], type, read } of STATUS_GAUGES) {
    const metric = new (type === 'counter' ? Counter : Gauge)({
      name,
      help,
      labelNames: [...labelNames],
      registers: [registry],
    })
    const samples = status === undefined ? [] : read(status)
    // A metric without labels begins with 0, which would say that all is well.
    if (samples.length === 0 && labelNames.length === 0) metric.remove()
    for (const [value, labels = {}] of isOne(samples) ? [samples] : samples) metric.inc(labels, Number(value))
  }
  return registry
}

/** No sample where nothing is known. */
function known(value: bigint | number | null): readonly Sample[] {
  return value === null ? [] : [[value]]
}

function isOne(samples: Sample | readonly Sample[]): samples is Sample {
  return samples.length > 0 && !Array.isArray(samples[0])
}

const STATUS_GAUGES: readonly StatusGauge[] = [
  { name: 'outbox_pending_depth', help: 'Items that have not ended.', read: ({ outbox }) => [outbox.pendingCount] },
  {
    name: 'outbox_due_depth',
    help: 'Items that are due and leased by nobody.',
    read: ({ outbox }) => [outbox.dueUnleasedCount],
  },
  { name: 'outbox_leased_count', help: 'Items in flight.', read: ({ outbox }) => [outbox.leasedCount] },
  { name: 'outbox_held_count', help: 'Items that wait for a person.', read: ({ outbox }) => [outbox.heldCount] },
  {
    name: 'outbox_held_by_reason',
    help: 'Items that wait for a person, by why they do; other: in a person’s or a rail’s own words.',
    labelNames: ['reason'],
    read: ({ outbox }) => [
      [outbox.heldOutcomeUnknownCount, { reason: 'OUTCOME_UNKNOWN' }],
      [outbox.heldFailedUnknownCount, { reason: 'FAILED_WHILE_OUTCOME_UNKNOWN' }],
      [outbox.heldRetryCeilingCount, { reason: 'RETRY_CEILING' }],
      [outbox.heldLeaseExpiryCount, { reason: 'REPEATED_LEASE_EXPIRY' }],
      [outbox.heldEarlierPaidCount, { reason: 'EARLIER_ITEM_PAID' }],
      [outbox.heldFieldKeyMissingCount, { reason: 'FIELD_KEY_MISSING' }],
      [outbox.heldFieldKeyDestroyedCount, { reason: 'FIELD_KEY_DESTROYED' }],
      [outbox.heldFieldUnreadableCount, { reason: 'FIELD_UNREADABLE' }],
      [outbox.heldReferenceInvalidCount, { reason: 'RAIL_REFERENCE_INVALID' }],
      [outbox.heldOtherCount, { reason: 'other' }],
    ],
  },
  {
    name: 'outbox_blocked_count',
    help: 'Items that wait for an earlier one or for a pause to end.',
    read: ({ outbox }) => [outbox.blockedCount],
  },
  {
    name: 'outbox_outcome_unknown_count',
    help: 'Items that have not ended and that the rail may have paid.',
    read: ({ outbox }) => [outbox.outcomeUnknownCount],
  },
  {
    name: 'dispatch_frozen',
    help: '1 while nothing is dispatched because commits may have been lost. A person must look.',
    read: ({ epoch }) => [epoch?.frozen === true ? 1 : 0],
  },
  {
    name: 'outbox_all_paused_seconds',
    help: 'Time since everything was paused; 0 while it is not.',
    read: ({ outbox }) => [outbox.allPausedAgeSeconds],
  },
  {
    name: 'oldest_pending_age_seconds',
    help: 'Age of the oldest item that has not ended.',
    read: ({ outbox }) => [outbox.oldestPendingAgeSeconds],
  },
  {
    name: 'dispatch_frozen_age_seconds',
    help: 'Since dispatch was frozen; 0 while it is open.',
    read: ({ epoch, at }) => [
      epoch?.frozen === true && epoch.frozenAt !== null ? (at.getTime() - epoch.frozenAt.getTime()) / 1_000 : 0,
    ],
  },
  {
    name: 'oldest_unfinished_age_seconds',
    help: 'Age since creation of the oldest item that has not ended. Not: scheduled for later and never attempted.',
    read: ({ outbox }) => [outbox.oldestUnfinishedAgeSeconds],
  },
  {
    name: 'oldest_hold_age_seconds',
    help: 'How long the longest-held item has been held; 0 without one.',
    read: ({ outbox }) => [outbox.oldestHoldAgeSeconds],
  },
  {
    name: 'oldest_expired_lease_age_seconds',
    help: 'Since the first of the expired leases expired; 0 without one.',
    read: ({ outbox }) => [outbox.oldestExpiredLeaseAgeSeconds],
  },
  {
    name: 'due_without_worker_seconds',
    help: 'How long items have been due while no relayer reported; 0 while one does.',
    read: ({ outbox }) => [outbox.dueWithoutWorkerSeconds],
  },
  {
    name: 'oldest_due_age_seconds',
    help: 'How long the longest-waiting due item has been due.',
    read: ({ outbox }) => [outbox.oldestDueAgeSeconds],
  },
  { name: 'dlq_depth', help: 'Items that ended as FAILED.', read: ({ outbox }) => [outbox.dlqDepth] },
  {
    name: 'expired_lease_count',
    help: 'Leases that have expired and are not repaired yet.',
    read: ({ outbox }) => [outbox.expiredLeaseCount],
  },
  {
    name: 'stuck_dispatching_count',
    help: 'The same as expired_lease_count, under its historical name.',
    read: ({ outbox }) => [outbox.expiredLeaseCount],
  },
  {
    name: 'attempts_total',
    help: 'Rows of the ledger by state, of all processes and operators since the beginning.',
    labelNames: ['state'],
    type: 'counter',
    read: ({ outbox }) => [
      [outbox.dispatchedTotal, { state: 'DISPATCHED' }],
      [outbox.retryableTotal, { state: 'RETRYABLE' }],
      [outbox.failedTotal, { state: 'FAILED' }],
      [outbox.zombieRequeueTotal, { state: 'ZOMBIE_REQUEUE' }],
    ],
  },
  {
    name: 'reaper_requeues_total',
    help: 'Expired leases that were recorded in the ledger, by lease repair, a claim or an operator’s decision.',
    type: 'counter',
    read: ({ outbox }) => [outbox.zombieRequeueTotal],
  },
  {
    name: 'outbox_recent_attempts',
    help: 'Attempts recorded within the last 15 minutes, by state.',
    labelNames: ['state'],
    read: ({ outbox }) => [
      [outbox.dispatchedRecently, { state: 'DISPATCHED' }],
      [outbox.retryableRecently, { state: 'RETRYABLE' }],
      [outbox.failedRecently, { state: 'FAILED' }],
    ],
  },
  {
    name: 'outbox_recent_attempts_age_seconds',
    help: 'Age of the first of those attempts; 0 without one.',
    labelNames: ['state'],
    read: ({ outbox }) => [
      [outbox.retryableRecentlyAgeSeconds, { state: 'RETRYABLE' }],
      [outbox.failedRecentlyAgeSeconds, { state: 'FAILED' }],
    ],
  },
  {
    name: 'terminal_blocked_total',
    help: 'Outcomes that contradict a recorded outcome, of all processes and operators since the beginning.',
    type: 'counter',
    read: ({ outbox }) => [outbox.contradictionsTotal],
  },
  {
    name: 'outbox_contradictions_unreviewed',
    help: 'Contradictions that no operator has reviewed.',
    read: ({ outbox }) => [outbox.unreviewedContradictionCount],
  },
  {
    name: 'oldest_unreviewed_contradiction_age_seconds',
    help: 'Age of the oldest of them; 0 without one.',
    read: ({ outbox }) => [outbox.oldestUnreviewedContradictionAgeSeconds],
  },
  {
    name: 'last_unknown_code_age_seconds',
    help: 'Since a worker got a rail code that no table covers; absent if none did within a day.',
    read: ({ outbox }) => known(outbox.lastUnknownCodeAgeSeconds),
  },
  {
    name: 'last_clock_jump_age_seconds',
    help: 'Since a worker saw the database’s clock jump; absent if none did within a day.',
    read: ({ outbox }) => known(outbox.lastClockJumpAgeSeconds),
  },
  {
    name: 'ledger_unsealed_age_seconds',
    help: 'Age of the oldest row of the ledger that is in no block; 0 without one.',
    read: ({ sealing }) => [sealing.unsealedAgeSeconds],
  },
  {
    name: 'ledger_sealing_blocked_by',
    help: '1 for the transaction that keeps rows of the ledger from being sealed; no series without one.',
    labelNames: ['pid', 'user', 'application', 'database'],
    read: ({ sealing: { blocker } }) =>
      blocker === undefined
        ? []
        : [
            [
              1,
              {
                pid: String(blocker.pid ?? `prepared ${blocker.prepared}`),
                user: blocker.user ?? '',
                application: blocker.application ?? '',
                database: blocker.database ?? '',
              },
            ],
          ],
  },
  {
    name: 'ledger_chain_breaks',
    help: 'Places where a hash of the ledger is not what it should be, by the last verification; absent before the first.',
    read: ({ outbox }) => known(outbox.ledgerBreakCount),
  },
  {
    name: 'ledger_broken_age_seconds',
    help: 'Since the first verification that found a break, without a sound one after it; absent while the ledger is sound.',
    read: ({ outbox }) => known(outbox.ledgerBrokenAgeSeconds),
  },
  {
    name: 'ledger_verified_timestamp_seconds',
    help: 'Time of the last verification of the ledger; absent before the first.',
    read: ({ outbox }) => known(outbox.ledgerVerifiedAt === null ? null : outbox.ledgerVerifiedAt.getTime() / 1_000),
  },
  {
    name: 'outbox_workers_alive',
    help: 'Relayers that reported within the last minute.',
    read: ({ outbox }) => [outbox.workersAliveCount],
  },
  {
    name: 'inbox_depth',
    help: 'Messages by state: seen (they wait for a worker), processing, dead. Those that are done are not counted.',
    labelNames: ['state'],
    read: ({ inbox }) => [
      [inbox.waitingCount, { state: 'seen' }],
      [inbox.processingCount, { state: 'processing' }],
      [inbox.deadCount, { state: 'dead' }],
    ],
  },
  {
    name: 'inbox_recently_dead',
    help: 'Messages that died within the last 15 minutes and are still dead.',
    read: ({ inbox }) => [inbox.recentlyDeadCount],
  },
  {
    name: 'inbox_recently_dead_age_seconds',
    help: 'Since the first of them died; 0 without one.',
    read: ({ inbox }) => [inbox.recentlyDeadAgeSeconds],
  },
  {
    name: 'inbox_due_depth',
    help: 'Messages that are due and claimed by nobody.',
    read: ({ inbox }) => [inbox.dueCount],
  },
  {
    name: 'inbox_oldest_due_age_seconds',
    help: 'How long the longest-waiting due message has been due.',
    read: ({ inbox }) => [inbox.oldestDueAgeSeconds],
  },
  {
    name: 'inbox_expired_claim_count',
    help: 'Claims that have expired and that no worker has taken over yet.',
    read: ({ inbox }) => [inbox.expiredClaimCount],
  },
  {
    name: 'scheduler_jobs',
    help: 'Jobs by condition: active, of those due now, of those unreadable.',
    labelNames: ['condition'],
    read: ({ scheduler }) => [
      [scheduler.activeJobsCount, { condition: 'active' }],
      [scheduler.dueJobsCount, { condition: 'due' }],
      [scheduler.unreadableJobsCount, { condition: 'unreadable' }],
    ],
  },
  {
    name: 'scheduler_ready_count',
    help: 'Timers and runs that are to become messages or to be claimed, due or not.',
    labelNames: ['kind'],
    read: ({ scheduler }) => [
      [scheduler.readyTimersCount, { kind: 'timer' }],
      [scheduler.readyRunsCount, { kind: 'run' }],
    ],
  },
  {
    name: 'scheduler_lag_seconds',
    help: 'How long the first thing that a scheduler has to do has been due.',
    read: ({ scheduler }) => [scheduler.lagSeconds],
  },
  { name: 'leases_held', help: 'Named leases that are held.', read: ({ leases }) => [leases.heldCount] },
  {
    name: 'leases_expired',
    help: 'Named leases that ran out and that nobody has acquired since.',
    read: ({ leases }) => [leases.expiredCount],
  },
  {
    name: 'db_pool_connections',
    help: 'Connections of this process, by role and whether they are lent.',
    labelNames: ['role', 'state'],
    read: ({ pools }) =>
      pools.flatMap(({ role, inUse, idle }): Sample[] => [
        [inUse, { role, state: 'in_use' }],
        [idle, { role, state: 'idle' }],
      ]),
  },
  {
    name: 'db_pool_waiting',
    help: 'Who waits for a connection of this process.',
    labelNames: ['role'],
    read: ({ pools }) => pools.map(({ role, waiting }): Sample => [waiting, { role }]),
  },
]
