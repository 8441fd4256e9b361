import { Counter, Gauge, Registry } from 'prom-client'
import type { PoolUsage } from '../db/index.js'
import type { InboxStats } from '../inbox/index.js'
import type { LeaseStats } from '../lease/index.js'
import type { SealingStatus } from '../ledger/index.js'
import type { AttemptState, DispatchEpoch, KindStatus, OutboxStatus } from '../outbox/index.js'
import type { ReconciliationStatus } from '../reconciliation/index.js'
import type { SchedulerStats } from '../scheduler/index.js'

/** Status of outbox, inbox, scheduler, leases, ledger and reconciliation, read together. */
export interface SystemStatus {
  /** Time by the database clock. */
  readonly at: Date
  readonly outbox: OutboxStatus
  /** Current epoch; undefined before the first claim. */
  readonly epoch: DispatchEpoch | undefined
  readonly inbox: InboxStats
  readonly scheduler: SchedulerStats
  readonly leases: LeaseStats
  readonly sealing: SealingStatus
  readonly reconciliation: ReconciliationStatus
  /** Connection pools of this process. All other fields are the same for every process. */
  readonly pools: readonly PoolUsage[]
}

type Labels = Readonly<Record<string, string>>
type Sample = readonly [value: bigint | number, labels?: Labels]

interface StatusGauge {
  readonly name: string
  readonly help: string
  readonly labelNames?: readonly string[]
  /** `counter` for a total that only increases. @default gauge */
  readonly type?: 'counter'
  readonly read: (status: SystemStatus) => Sample | readonly Sample[]
}

/**
 * Creates a registry with the status as gauges and counters. The status is read from the database at each scrape, so
 * every process shows the same values, except those of its own pools. Without a status the metrics have no samples.
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
    // prom-client starts a metric without labels at 0, which would mean "no problem".
    if (samples.length === 0 && labelNames.length === 0) metric.remove()
    for (const [value, labels = {}] of isOne(samples) ? [samples] : samples) metric.inc(labels, Number(value))
  }
  return registry
}

/** Returns one sample; none for null. */
function known(value: bigint | number | null): readonly Sample[] {
  return value === null ? [] : [[value]]
}

function isOne(samples: Sample | readonly Sample[]): samples is Sample {
  return samples.length > 0 && !Array.isArray(samples[0])
}

const KINDS = ['payment', 'message'] as const

/** Returns a series for payments and one for messages. */
function byKind(value: (numbers: KindStatus) => number): Pick<StatusGauge, 'labelNames' | 'read'> {
  return {
    labelNames: ['kind'],
    read: ({ outbox: { kinds } }) => KINDS.map((kind): Sample => [value(kinds[kind]), { kind }]),
  }
}

/** Returns series by state and kind. `fields` maps a state to the field with its value. */
function byKindAndState(
  fields: Readonly<Partial<Record<AttemptState, keyof KindStatus>>>,
): Pick<StatusGauge, 'labelNames' | 'read'> {
  return {
    labelNames: ['state', 'kind'],
    read: ({ outbox: { kinds } }) =>
      Object.entries(fields).flatMap(([state, field]) =>
        KINDS.map((kind): Sample => [kinds[kind][field], { state, kind }]),
      ),
  }
}

const STATUS_GAUGES: readonly StatusGauge[] = [
  { name: 'outbox_pending_depth', help: 'Pending items.', ...byKind(({ pending }) => pending) },
  {
    name: 'outbox_due_depth',
    help: 'Items that are due and not leased.',
    ...byKind(({ due }) => due),
  },
  { name: 'outbox_leased_count', help: 'Leased items.', ...byKind(({ leased }) => leased) },
  { name: 'outbox_held_count', help: 'Held items.', ...byKind(({ held }) => held) },
  {
    name: 'outbox_held_by_reason',
    help: 'Held items by reason; other: the text of an operator or a rail.',
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
      [outbox.heldAmountApprovalCount, { reason: 'AMOUNT_APPROVAL' }],
      [outbox.heldLimitExceededCount, { reason: 'LIMIT_EXCEEDED' }],
      [outbox.heldLimitUnreadableCount, { reason: 'LIMIT_UNREADABLE' }],
      [outbox.heldOutcomeNotDeliveredCount, { reason: 'OUTCOME_NOT_DELIVERED' }],
      [outbox.heldOtherCount, { reason: 'other' }],
    ],
  },
  {
    name: 'outbox_blocked_count',
    help: 'Items that wait for an earlier item of their stream or for the end of a pause.',
    ...byKind(({ blocked }) => blocked),
  },
  {
    name: 'outbox_outcome_unknown_count',
    help: 'Pending items of unknown outcome: the rail may have paid.',
    ...byKind(({ unknown }) => unknown),
  },
  {
    name: 'dispatch_frozen',
    help: '1 while dispatch is frozen, because commits may have been lost or an operator froze it.',
    read: ({ epoch }) => [epoch?.frozen === true ? 1 : 0],
  },
  {
    name: 'outbox_all_paused_seconds',
    help: 'Time since everything was paused; 0 while it is not.',
    read: ({ outbox }) => [outbox.allPausedAgeSeconds],
  },
  {
    name: 'oldest_pending_age_seconds',
    help: 'Age of the oldest pending item.',
    ...byKind(({ pendingSeconds }) => pendingSeconds),
  },
  {
    name: 'dispatch_frozen_age_seconds',
    help: 'Time since dispatch was frozen; 0 while it is not.',
    read: ({ epoch, at }) => [
      epoch?.frozen === true && epoch.frozenAt !== null ? (at.getTime() - epoch.frozenAt.getTime()) / 1_000 : 0,
    ],
  },
  {
    name: 'oldest_unfinished_age_seconds',
    help: 'Age since creation of the oldest pending item, without items scheduled for later and never attempted.',
    ...byKind(({ unfinishedSeconds }) => unfinishedSeconds),
  },
  {
    name: 'oldest_hold_age_seconds',
    help: 'Time since the oldest hold was placed; 0 without one.',
    ...byKind(({ heldSeconds }) => heldSeconds),
  },
  {
    name: 'oldest_expired_lease_age_seconds',
    help: 'Time since the oldest expired lease expired; 0 without one.',
    ...byKind(({ expiredSeconds }) => expiredSeconds),
  },
  {
    name: 'due_without_worker_seconds',
    help: 'Time that items have been due while no relayer reported; 0 while one does.',
    ...byKind(({ withoutWorkerSeconds }) => withoutWorkerSeconds),
  },
  {
    name: 'oldest_due_age_seconds',
    help: 'Time since the oldest due item became due.',
    ...byKind(({ dueSeconds }) => dueSeconds),
  },
  {
    name: 'outbox_returned_payments',
    help: 'DISPATCHED payments of which the rail returned money. Amounts are not summed, because currencies differ.',
    read: ({ outbox }) => [outbox.returnedTotal],
  },
  {
    name: 'dlq_depth',
    help: 'Items that ended as FAILED, cancelled ones included.',
    ...byKind(({ failed }) => failed),
  },
  {
    name: 'cancelled_total',
    help: 'Items that were cancelled before they were sent.',
    type: 'counter',
    ...byKind(({ cancelled }) => cancelled),
  },
  {
    name: 'expired_lease_count',
    help: 'Leases that have expired and are not repaired yet.',
    ...byKind(({ expired }) => expired),
  },
  {
    name: 'stuck_dispatching_count',
    help: 'The same as expired_lease_count, under its historical name.',
    ...byKind(({ expired }) => expired),
  },
  {
    name: 'attempts_total',
    help: 'Rows of the ledger by state, of all processes and operators since the beginning.',
    type: 'counter',
    ...byKindAndState({
      DISPATCHED: 'dispatched',
      RETRYABLE: 'retryable',
      FAILED: 'failed',
      ZOMBIE_REQUEUE: 'requeued',
    }),
  },
  {
    name: 'reaper_requeues_total',
    help: 'Expired leases that were recorded in the ledger, by lease repair, a claim or an operator’s decision.',
    type: 'counter',
    ...byKind(({ requeued }) => requeued),
  },
  {
    name: 'outbox_recent_attempts',
    help: 'Attempts recorded within the last 15 minutes, by state; FAILED without cancellations.',
    ...byKindAndState({ DISPATCHED: 'dispatchedRecently', RETRYABLE: 'retryableRecently', FAILED: 'failedRecently' }),
  },
  {
    name: 'outbox_recent_attempts_age_seconds',
    help: 'Age of the oldest of these attempts; 0 without one.',
    ...byKindAndState({ RETRYABLE: 'retryableRecentlySeconds', FAILED: 'failedRecentlySeconds' }),
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
    help: 'Time since a worker received a rail code that no table covers; absent if none did within a day.',
    read: ({ outbox }) => known(outbox.lastUnknownCodeAgeSeconds),
  },
  {
    name: 'last_clock_jump_age_seconds',
    help: 'Time since a worker saw the database clock jump; absent if none did within a day.',
    read: ({ outbox }) => known(outbox.lastClockJumpAgeSeconds),
  },
  {
    name: 'ledger_unsealed_age_seconds',
    help: 'Age of the oldest row of the ledger that is in no block; 0 without one.',
    read: ({ sealing }) => [sealing.unsealedAgeSeconds],
  },
  {
    name: 'ledger_sealing_blocked_by',
    help: '1 for the transaction that blocks the sealing of ledger rows; no series without one.',
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
    help: 'Places where a hash of the ledger does not match, by the last verification; absent before the first.',
    read: ({ outbox }) => known(outbox.ledgerBreakCount),
  },
  {
    name: 'ledger_broken_age_seconds',
    help: 'Time since the first verification that found a break, without a sound one after it; absent while the ledger is sound.',
    read: ({ outbox }) => known(outbox.ledgerBrokenAgeSeconds),
  },
  {
    name: 'ledger_verified_timestamp_seconds',
    help: 'Time of the last verification of the ledger; absent before the first.',
    read: ({ outbox }) => known(outbox.ledgerVerifiedAt === null ? null : outbox.ledgerVerifiedAt.getTime() / 1_000),
  },
  {
    name: 'reconciliation_findings_open',
    help: 'Findings of reconciliation that no operator has closed, by kind.',
    labelNames: ['kind'],
    read: ({ reconciliation }) => reconciliation.findings.map(({ kind, open }): Sample => [open, { kind }]),
  },
  {
    name: 'reconciliation_oldest_critical_finding_age_seconds',
    help: 'Age of the oldest open critical finding, by kind; 0 without one.',
    labelNames: ['kind'],
    read: ({ reconciliation }) =>
      reconciliation.findings.map(({ kind, criticalAgeSeconds }): Sample => [criticalAgeSeconds, { kind }]),
  },
  {
    name: 'reconciliation_age_seconds',
    help: 'Time since the last reconciliation of a rail; absent for a rail that was never reconciled.',
    labelNames: ['rail'],
    read: ({ reconciliation }) => reconciliation.rails.map(({ rail, ageSeconds }): Sample => [ageSeconds, { rail }]),
  },
  {
    name: 'outbox_workers_alive',
    help: 'Relayers that reported within the last minute.',
    read: ({ outbox }) => [outbox.workersAliveCount],
  },
  {
    name: 'inbox_depth',
    help: 'Messages by state: seen (waiting for a worker), processing, dead. Messages in state done are not counted.',
    labelNames: ['state'],
    read: ({ inbox }) => [
      [inbox.waitingCount, { state: 'seen' }],
      [inbox.processingCount, { state: 'processing' }],
      [inbox.deadCount, { state: 'dead' }],
    ],
  },
  {
    name: 'inbox_recently_dead',
    help: 'Messages that became dead within the last 15 minutes and still are.',
    read: ({ inbox }) => [inbox.recentlyDeadCount],
  },
  {
    name: 'inbox_recently_dead_age_seconds',
    help: 'Time since the first of them became dead; 0 without one.',
    read: ({ inbox }) => [inbox.recentlyDeadAgeSeconds],
  },
  {
    name: 'inbox_due_depth',
    help: 'Messages that are due and not claimed.',
    read: ({ inbox }) => [inbox.dueCount],
  },
  {
    name: 'inbox_oldest_due_age_seconds',
    help: 'Time since the oldest due message became due.',
    read: ({ inbox }) => [inbox.oldestDueAgeSeconds],
  },
  {
    name: 'inbox_expired_claim_count',
    help: 'Claims that have expired and that no worker has taken over yet.',
    read: ({ inbox }) => [inbox.expiredClaimCount],
  },
  {
    name: 'scheduler_jobs',
    help: 'Active jobs, and of these the ones that are due now or have an invalid schedule.',
    labelNames: ['condition'],
    read: ({ scheduler }) => [
      [scheduler.activeJobsCount, { condition: 'active' }],
      [scheduler.dueJobsCount, { condition: 'due' }],
      [scheduler.unreadableJobsCount, { condition: 'unreadable' }],
    ],
  },
  {
    name: 'scheduler_ready_count',
    help: 'Timers and runs that are not yet enqueued or claimed, due or not.',
    labelNames: ['kind'],
    read: ({ scheduler }) => [
      [scheduler.readyTimersCount, { kind: 'timer' }],
      [scheduler.readyRunsCount, { kind: 'run' }],
    ],
  },
  {
    name: 'scheduler_lag_seconds',
    help: 'Time since the oldest due timer, run or job became due.',
    read: ({ scheduler }) => [scheduler.lagSeconds],
  },
  { name: 'leases_held', help: 'Named leases that are held.', read: ({ leases }) => [leases.heldCount] },
  {
    name: 'leases_expired',
    help: 'Named leases that have expired and were not acquired since.',
    read: ({ leases }) => [leases.expiredCount],
  },
  {
    name: 'db_pool_connections',
    help: 'Connections of this process, by role and state.',
    labelNames: ['role', 'state'],
    read: ({ pools }) =>
      pools.flatMap(({ role, inUse, idle }): Sample[] => [
        [inUse, { role, state: 'in_use' }],
        [idle, { role, state: 'idle' }],
      ]),
  },
  {
    name: 'db_pool_waiting',
    help: 'Callers that wait for a connection of this process.',
    labelNames: ['role'],
    read: ({ pools }) => pools.map(({ role, waiting }): Sample => [waiting, { role }]),
  },
]
