import type { SealingBlocker } from '../../ledger/index.js'
import type { SystemStatus } from '../createStatusRegistry.js'
import type { Condition, Quantity } from './conditions.js'

/**
 * A rule about one condition. From this list come our own evaluator (`AlertEvaluator`), the rules file for Prometheus
 * (`prometheusRules`) and the page for operators (`docs/operate/alerts.md`).
 */
export interface AlertRule {
  readonly name: string
  /** `critical`: payments wait or their outcome is in doubt, act now. `warning`: act today. */
  readonly severity: 'critical' | 'warning'
  /** How long the condition must hold. Zero where the condition itself compares an age. */
  readonly forSeconds: number
  readonly when: Condition
  /** How long the condition has lasted, in seconds. Absent where no data tells: the evaluator remembers then. */
  readonly age?: Quantity
  /** The setting that moves the rule. */
  readonly threshold?: { readonly setting: keyof AlertThresholds; readonly value: number }
  readonly summary: string
  readonly firstLook: string
  readonly remedy: string
  /** Names the cause, where the database knows it. */
  readonly detail?: (status: SystemStatus) => string | undefined
}

/** Settings of the rules: of seconds all but `alertRetries`, which is a number of attempts. */
export interface AlertThresholds {
  readonly alertDueSeconds: number
  readonly alertUnfinishedSeconds: number
  readonly alertHeldSeconds: number
  readonly alertExpiredLeaseSeconds: number
  readonly alertNoWorkerSeconds: number
  readonly alertRetries: number
  readonly alertSchedulerSeconds: number
  readonly alertSealingSeconds: number
}

export const ALERT_THRESHOLDS: AlertThresholds = Object.freeze({
  alertDueSeconds: 300,
  alertUnfinishedSeconds: 86_400,
  alertHeldSeconds: 300,
  alertExpiredLeaseSeconds: 180,
  alertNoWorkerSeconds: 60,
  alertRetries: 20,
  alertSchedulerSeconds: 60,
  alertSealingSeconds: 900,
})

const QUARTER_SECONDS = 900

const metric = (name: string): Quantity => ({ metric: name })
const recently = (state: string): Quantity => ({ metric: 'outbox_recent_attempts', labels: { state } })
const recentlySince = (state: string): Quantity => ({
  metric: 'outbox_recent_attempts_age_seconds',
  labels: { state },
})
const above = (left: Quantity, right: Quantity): Condition => ({ is: 'above', left, right })
const below = (left: Quantity, right: Quantity): Condition => ({ is: 'below', left, right })
const all = (...of: readonly Condition[]): Condition => ({ is: 'all', of })

/** The rules with these thresholds. */
export function alertRules(thresholds: AlertThresholds): readonly AlertRule[] {
  const threshold = (setting: keyof AlertThresholds) => ({ setting, value: thresholds[setting] })
  const {
    alertDueSeconds,
    alertUnfinishedSeconds,
    alertHeldSeconds,
    alertExpiredLeaseSeconds,
    alertNoWorkerSeconds,
    alertRetries,
    alertSchedulerSeconds,
    alertSealingSeconds,
  } = thresholds
  return [
    {
      name: 'SymphonyOldestPendingAge',
      severity: 'critical',
      forSeconds: 0,
      when: above(metric('oldest_due_age_seconds'), alertDueSeconds),
      age: metric('oldest_due_age_seconds'),
      threshold: threshold('alertDueSeconds'),
      summary: `A payment has been due for more than ${span(alertDueSeconds)}, and no worker has claimed it.`,
      firstLook: 'symphony status: are workers alive, is a rail paused, is its breaker open?',
      remedy:
        'Start workers for that rail, or more of them; resume what was paused; call the rail if its breaker is open.',
    },
    {
      name: 'SymphonyOldestUnfinishedAge',
      severity: 'critical',
      forSeconds: 0,
      when: above(metric('oldest_unfinished_age_seconds'), alertUnfinishedSeconds),
      age: metric('oldest_unfinished_age_seconds'),
      threshold: threshold('alertUnfinishedSeconds'),
      summary: `A payment was created more than ${span(alertUnfinishedSeconds)} ago and has not ended: it retries, is blocked, or is held.`,
      firstLook:
        'symphony status, then the oldest payments: symphony holds list, and the payments page of the dashboard.',
      remedy:
        'Ask the rail why it does not accept the payment. Resume what is paused, resolve what is held, or end it as FAILED.',
    },
    {
      name: 'SymphonyNoWorkerAlive',
      severity: 'critical',
      forSeconds: 0,
      when: above(metric('due_without_worker_seconds'), alertNoWorkerSeconds),
      age: metric('due_without_worker_seconds'),
      threshold: threshold('alertNoWorkerSeconds'),
      summary: `Payments have been due for more than ${span(alertNoWorkerSeconds)} while no relayer reported.`,
      firstLook: 'The worker processes: do they run, and can they reach the database?',
      remedy: 'Start a worker. Nothing is lost meanwhile: due payments stay due, and expired leases are taken over.',
    },
    {
      name: 'SymphonyDispatchFrozen',
      severity: 'critical',
      forSeconds: 0,
      when: above(metric('dispatch_frozen'), 0),
      age: metric('dispatch_frozen_age_seconds'),
      summary:
        'Nothing is dispatched: the database may have lost commits in a restore or a failover, or a person froze it.',
      firstLook: 'symphony freeze show: since when, and why?',
      remedy:
        'Compare with the books of the rails, then lift it (symphony freeze lift): the page about restores says what to look at before.',
    },
    {
      name: 'SymphonyAllPaused',
      severity: 'warning',
      forSeconds: 0,
      when: above(metric('outbox_all_paused_seconds'), 0),
      age: metric('outbox_all_paused_seconds'),
      summary: 'An operator has paused everything: no payment and no message is claimed.',
      firstLook: 'symphony status: who paused it, when and why?',
      remedy: 'Run symphony resume all when the reason is over. Calls in progress, completions and lease repair go on.',
    },
    {
      name: 'SymphonyDlqGrowing',
      severity: 'warning',
      forSeconds: 0,
      when: above(recently('FAILED'), 0),
      age: recentlySince('FAILED'),
      summary: 'Payments ended as FAILED within the last quarter of an hour.',
      firstLook: 'symphony dlq list: which rail, which error code?',
      remedy:
        'Correct the cause, then redrive what should be sent again (two people). A refusal that is right needs nothing.',
    },
    {
      name: 'SymphonyExpiredLeases',
      severity: 'critical',
      forSeconds: 0,
      when: all(
        above(metric('expired_lease_count'), 0),
        above(metric('oldest_expired_lease_age_seconds'), alertExpiredLeaseSeconds),
      ),
      age: metric('oldest_expired_lease_age_seconds'),
      threshold: threshold('alertExpiredLeaseSeconds'),
      summary: `A lease expired more than ${span(alertExpiredLeaseSeconds)} ago, and neither a claim nor lease repair has taken the payment over.`,
      firstLook: 'Is lease repair running (it comes with every worker)? What do its log lines say?',
      remedy:
        'Start a worker or lease repair. The log line leases_unrepaired names payments that repair cannot return.',
    },
    {
      name: 'SymphonyRetryableSpike',
      severity: 'critical',
      forSeconds: 0,
      when: all(above(recently('RETRYABLE'), alertRetries), above(recently('RETRYABLE'), recently('DISPATCHED'))),
      age: recentlySince('RETRYABLE'),
      threshold: threshold('alertRetries'),
      summary: `Within a quarter of an hour more than ${alertRetries} attempts are to be tried again, and more than succeeded.`,
      firstLook: 'rail_errors_total by rail, and the error codes in symphony show of a recent payment.',
      remedy:
        'Ask the rail. Pause it (symphony pause rail NAME) if it is in trouble: retries are limited, and each costs one.',
    },
    {
      name: 'SymphonyPaymentsHeld',
      severity: 'warning',
      forSeconds: 0,
      when: all(above(metric('outbox_held_count'), 0), above(metric('oldest_hold_age_seconds'), alertHeldSeconds)),
      age: metric('oldest_hold_age_seconds'),
      threshold: threshold('alertHeldSeconds'),
      summary: `A payment has been held for more than ${span(alertHeldSeconds)} and waits for a decision.`,
      firstLook: 'symphony holds list: the reason of each says what is not known.',
      remedy:
        'Ask the rail what became of it, then symphony holds resolve; a second person approves what decides about money.',
    },
    {
      name: 'SymphonyUnknownRailCodes',
      severity: 'warning',
      forSeconds: 0,
      when: below(metric('last_unknown_code_age_seconds'), QUARTER_SECONDS),
      age: metric('last_unknown_code_age_seconds'),
      summary: 'A rail answered with a code that its table does not cover, or that contradicts it.',
      firstLook: 'The log lines rail_code_unknown, or symphony workers: which rail, which code?',
      remedy:
        'Find out what the code means and add it to the rail’s table. Until then such answers count as unknown outcomes.',
    },
    {
      name: 'SymphonyEndingContradicted',
      severity: 'critical',
      forSeconds: 0,
      when: above(metric('outbox_contradictions_unreviewed'), 0),
      age: metric('oldest_unreviewed_contradiction_age_seconds'),
      summary:
        'Two reports about one payment contradict each other: a second payment, or an unrecorded one, is possible.',
      firstLook: 'symphony contradictions list: both rail references of each payment.',
      remedy:
        'Compare each with the statements of the rail, then record it: symphony contradictions review. Redrive nothing before.',
    },
    {
      name: 'SymphonyLedgerChainBroken',
      severity: 'critical',
      forSeconds: 0,
      when: above(metric('ledger_chain_breaks'), 0),
      age: metric('ledger_broken_age_seconds'),
      summary: 'The last verification found a row of the ledger that differs from what was written.',
      firstLook: 'symphony ledger verify: it names each place.',
      remedy:
        'Stop changes, keep the database as it is, compare with the latest checkpoint and with backups: a superuser wrote to the ledger.',
    },
    {
      name: 'SymphonySealingHeldBack',
      severity: 'warning',
      forSeconds: 0,
      when: above(metric('ledger_unsealed_age_seconds'), alertSealingSeconds),
      age: metric('ledger_unsealed_age_seconds'),
      threshold: threshold('alertSealingSeconds'),
      summary: `Rows of the ledger have been in no block for more than ${span(alertSealingSeconds)}: an old transaction holds sealing back, or no worker seals.`,
      firstLook: 'ledger_sealing_blocked_by, or the detail of this alert in symphony status: which session?',
      remedy:
        'End that transaction (SELECT pg_terminate_backend(pid), or ROLLBACK PREPARED). If none is named, start a worker.',
      detail: ({ sealing: { blocker } }) => blocker && describeBlocker(blocker),
    },
    {
      name: 'SymphonyClockJumped',
      severity: 'critical',
      forSeconds: 0,
      when: below(metric('last_clock_jump_age_seconds'), QUARTER_SECONDS),
      age: metric('last_clock_jump_age_seconds'),
      summary: 'The database’s clock moved against a worker’s. Leases are measured by it.',
      firstLook: 'Time synchronisation of the database server; a failover to a machine with another time.',
      remedy: 'Correct the clock. Workers claim nothing until the leases they had have surely ended.',
    },
    {
      name: 'SymphonyStatusMissing',
      severity: 'critical',
      forSeconds: 300,
      when: { is: 'absent', metric: 'outbox_pending_depth' },
      summary: 'No process has been able to say how the queue looks for five minutes.',
      firstLook: '/readyz of the processes, and the database.',
      remedy: 'Bring the database back. Workers keep what they have learned and write it when it answers.',
    },
    {
      name: 'SymphonyInboxDead',
      severity: 'warning',
      forSeconds: 0,
      when: above(metric('inbox_recently_dead'), 0),
      age: metric('inbox_recently_dead_age_seconds'),
      summary: 'Messages of other systems died within the last quarter of an hour.',
      firstLook: 'symphony inbox list --state dead: the last error of each.',
      remedy: 'Correct the handler or the message’s sender, then symphony inbox revive.',
    },
    {
      name: 'SymphonySchedulerLate',
      severity: 'warning',
      forSeconds: 0,
      when: above(metric('scheduler_lag_seconds'), alertSchedulerSeconds),
      age: metric('scheduler_lag_seconds'),
      threshold: threshold('alertSchedulerSeconds'),
      summary: `Timers or jobs have been due for more than ${span(alertSchedulerSeconds)}, and no scheduler has processed them.`,
      firstLook:
        'Does a scheduler run? Is a job unreadable: scheduler_jobs{condition="unreadable"}, symphony jobs list?',
      remedy: 'Start a scheduler; correct the job. What was missed is made up as each job’s policy says.',
    },
  ]
}

export const ALERT_RULES: readonly AlertRule[] = alertRules(ALERT_THRESHOLDS)

/** 90: `90 s`, 300: `5 min`, 86400: `24 h`. */
function span(seconds: number): string {
  if (seconds % 3_600 === 0) return `${seconds / 3_600} h`
  return seconds % 60 === 0 ? `${seconds / 60} min` : `${seconds} s`
}

/** As in: session 4711 of user app (psql, database payments), transaction open for 3 h. */
function describeBlocker({ pid, prepared, user, application, database, ageSeconds }: SealingBlocker): string {
  const who = pid === null ? `prepared transaction ${prepared}` : `session ${pid}`
  const where = [application, database === null ? null : `database ${database}`].filter(
    (word) => word !== null && word !== '',
  )
  const open = ageSeconds === null ? '' : `, transaction open for ${Math.round(ageSeconds)} s`
  return `${who} of user ${user ?? 'unknown'} (${where.join(', ')})${open}`
}
