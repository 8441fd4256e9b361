import type { SealingBlocker } from '../../ledger/index.js'
import type { ItemKind } from '../../outbox/index.js'
import type { ReconciliationStatus } from '../../reconciliation/index.js'
import type { SystemStatus } from '../createStatusRegistry.js'
import type { Condition, Quantity } from './conditions.js'

/**
 * Rule about one condition. `AlertEvaluator`, the Prometheus rules file (`prometheusRules`) and the page
 * `docs/reference/alerts.md` use the same list.
 */
export interface AlertRule {
  readonly name: string
  /** `critical`: payments wait or outcomes are uncertain, act now. `warning`: act today. */
  readonly severity: 'critical' | 'warning'
  /** Time that the condition must hold; 0 if the condition itself compares an age. */
  readonly forSeconds: number
  readonly when: Condition
  /** Age of the condition in seconds. Without it, the evaluator measures the age. */
  readonly age?: Quantity
  /** Setting of the threshold, with its value. */
  readonly threshold?: { readonly setting: keyof AlertThresholds; readonly value: number }
  readonly summary: string
  readonly firstLook: string
  readonly remedy: string
  /** Names the cause, if the database knows it. */
  readonly detail?: (status: SystemStatus) => string | undefined
}

/** Thresholds in seconds, except `alertRetries`, which counts attempts. */
export interface AlertThresholds {
  readonly alertDueSeconds: number
  readonly alertUnfinishedSeconds: number
  readonly alertHeldSeconds: number
  readonly alertExpiredLeaseSeconds: number
  readonly alertNoWorkerSeconds: number
  readonly alertRetries: number
  readonly alertSchedulerSeconds: number
  readonly alertSealingSeconds: number
  readonly alertReconciliationSeconds: number
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
  alertReconciliationSeconds: 259_200,
})

const QUARTER_SECONDS = 900

const metric = (name: string): Quantity => ({ metric: name })
const payments = (name: string): Quantity => ({ metric: name, labels: { kind: 'payment' } })
const messages = (name: string): Quantity => ({ metric: name, labels: { kind: 'message' } })
const recently = (state: string, kind: ItemKind = 'payment'): Quantity => ({
  metric: 'outbox_recent_attempts',
  labels: { state, kind },
})
const recentlySince = (state: string, kind: ItemKind = 'payment'): Quantity => ({
  metric: 'outbox_recent_attempts_age_seconds',
  labels: { state, kind },
})
const heldFor = (reason: string): Quantity => ({ metric: 'outbox_held_by_reason', labels: { reason } })
const openFindings = (kind: string): Quantity => ({ metric: 'reconciliation_findings_open', labels: { kind } })
const criticalSince = (kind: string): Quantity => ({
  metric: 'reconciliation_oldest_critical_finding_age_seconds',
  labels: { kind },
})
const above = (left: Quantity, right: Quantity): Condition => ({ is: 'above', left, right })
const below = (left: Quantity, right: Quantity): Condition => ({ is: 'below', left, right })
const all = (...of: readonly Condition[]): Condition => ({ is: 'all', of })

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
    alertReconciliationSeconds,
  } = thresholds
  return [
    {
      name: 'SymphonyOldestPendingAge',
      severity: 'critical',
      forSeconds: 0,
      when: above(payments('oldest_due_age_seconds'), alertDueSeconds),
      age: payments('oldest_due_age_seconds'),
      threshold: threshold('alertDueSeconds'),
      summary: `A payment has been due for more than ${span(alertDueSeconds)}, and no worker has claimed it.`,
      firstLook: 'symphony status: are workers alive, is a rail paused, is its breaker open?',
      remedy: 'Start more workers for that rail. Resume a paused rail. Ask the rail if its breaker is open.',
    },
    {
      name: 'SymphonyOldestUnfinishedAge',
      severity: 'critical',
      forSeconds: 0,
      when: above(payments('oldest_unfinished_age_seconds'), alertUnfinishedSeconds),
      age: payments('oldest_unfinished_age_seconds'),
      threshold: threshold('alertUnfinishedSeconds'),
      summary: `A payment was created more than ${span(alertUnfinishedSeconds)} ago and has not ended: it is retried, blocked or held.`,
      firstLook: 'symphony status, symphony holds list, and the oldest payments in the dashboard.',
      remedy: 'Ask the rail why it refuses the payment. Resume the pause, or resolve the hold.',
    },
    {
      name: 'SymphonyNoWorkerAlive',
      severity: 'critical',
      forSeconds: 0,
      when: above(payments('due_without_worker_seconds'), alertNoWorkerSeconds),
      age: payments('due_without_worker_seconds'),
      threshold: threshold('alertNoWorkerSeconds'),
      summary: `Payments have been due for more than ${span(alertNoWorkerSeconds)} while no relayer reported.`,
      firstLook: 'The worker processes: do they run, and can they reach the database?',
      remedy: 'Start a worker. Due payments stay due, and expired leases are taken over.',
    },
    {
      name: 'SymphonyDispatchFrozen',
      severity: 'critical',
      forSeconds: 0,
      when: above(metric('dispatch_frozen'), 0),
      age: metric('dispatch_frozen_age_seconds'),
      summary:
        'Dispatch is frozen: the database may have lost commits in a restore or failover, or an operator froze it.',
      firstLook: 'symphony freeze show: since when, and why?',
      remedy: 'Compare the ledger with the rails’ records (docs/operate/restore.md), then symphony freeze lift.',
    },
    {
      name: 'SymphonyAllPaused',
      severity: 'warning',
      forSeconds: 0,
      when: above(metric('outbox_all_paused_seconds'), 0),
      age: metric('outbox_all_paused_seconds'),
      summary: 'An operator has paused everything: no payment and no message is claimed.',
      firstLook: 'symphony status: who paused it, when and why?',
      remedy: 'Run symphony resume all when the reason is gone. Running calls, completions and lease repair continue.',
    },
    {
      name: 'SymphonyDlqGrowing',
      severity: 'warning',
      forSeconds: 0,
      when: above(recently('FAILED'), 0),
      age: recentlySince('FAILED'),
      summary: 'Payments ended FAILED within the last 15 minutes.',
      firstLook: 'symphony dlq list: which rail, which error code?',
      remedy: 'Correct the cause, then redrive the payments (two people). A correct refusal needs no action.',
    },
    {
      name: 'SymphonyExpiredLeases',
      severity: 'critical',
      forSeconds: 0,
      when: all(
        above(payments('expired_lease_count'), 0),
        above(payments('oldest_expired_lease_age_seconds'), alertExpiredLeaseSeconds),
      ),
      age: payments('oldest_expired_lease_age_seconds'),
      threshold: threshold('alertExpiredLeaseSeconds'),
      summary: `A lease expired more than ${span(alertExpiredLeaseSeconds)} ago, and neither a claim nor lease repair has taken the payment over.`,
      firstLook: 'Does a worker run (each includes lease repair)? What do its log lines say?',
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
      summary: `Within 15 minutes more than ${alertRetries} attempts ended RETRYABLE, and more than succeeded.`,
      firstLook: 'rail_errors_total by rail, and symphony show of a recent payment.',
      remedy: 'Ask the rail. Pause it (symphony pause rail NAME) during an outage, because retries are limited.',
    },
    {
      name: 'SymphonyPaymentsHeld',
      severity: 'warning',
      forSeconds: 0,
      when: all(above(payments('outbox_held_count'), 0), above(payments('oldest_hold_age_seconds'), alertHeldSeconds)),
      age: payments('oldest_hold_age_seconds'),
      threshold: threshold('alertHeldSeconds'),
      summary: `A payment has been held for more than ${span(alertHeldSeconds)} and waits for a decision.`,
      firstLook: 'symphony holds list: the reason of each.',
      remedy: 'Ask the rail about the payment, then symphony holds resolve. A second person approves.',
    },
    {
      name: 'SymphonyLimitExceeded',
      severity: 'critical',
      forSeconds: 0,
      when: above(heldFor('LIMIT_EXCEEDED'), 0),
      summary: 'Payments exceed a limit and are held: a loop in the application is possible.',
      firstLook: 'symphony limits list: which limit, and since when? symphony holds list: which payments?',
      remedy:
        'Stop the application if it enqueues by mistake. Otherwise release the payments, or let two people raise the limit.',
    },
    {
      name: 'SymphonyOutcomeNotDelivered',
      severity: 'critical',
      forSeconds: 0,
      when: above(heldFor('OUTCOME_NOT_DELIVERED'), 0),
      summary: 'Outcome messages are held after 20 failed deliveries: the application does not learn these outcomes.',
      firstLook: 'symphony holds list --kind message, then symphony show of one: which topic, which error?',
      remedy: 'Repair the handler of the topic, then release each: symphony holds resolve ID --decision retry.',
    },
    {
      name: 'SymphonyMessagesHeld',
      severity: 'warning',
      forSeconds: 0,
      when: all(above(messages('outbox_held_count'), 0), above(messages('oldest_hold_age_seconds'), alertHeldSeconds)),
      age: messages('oldest_hold_age_seconds'),
      threshold: threshold('alertHeldSeconds'),
      summary: `A message has been held for more than ${span(alertHeldSeconds)} and waits for a decision.`,
      firstLook: 'symphony holds list --kind message: the reason of each.',
      remedy: 'Repair the handler of the topic, then symphony holds resolve.',
    },
    {
      name: 'SymphonyMessagesLate',
      severity: 'warning',
      forSeconds: 0,
      when: above(messages('oldest_due_age_seconds'), alertDueSeconds),
      age: messages('oldest_due_age_seconds'),
      threshold: threshold('alertDueSeconds'),
      summary: `A message has been due for more than ${span(alertDueSeconds)}, and no worker has claimed it.`,
      firstLook: 'symphony status: are workers alive, and does one serve the topic?',
      remedy: 'Start a worker with a handler of that topic. Resume a paused topic.',
    },
    {
      name: 'SymphonyMessagesFailed',
      severity: 'warning',
      forSeconds: 0,
      when: above(recently('FAILED', 'message'), 0),
      age: recentlySince('FAILED', 'message'),
      summary: 'Messages ended FAILED within the last 15 minutes.',
      firstLook: 'symphony dlq list --kind message: which topic, which error code?',
      remedy: 'Correct the handler, then redrive the messages (two people).',
    },
    {
      name: 'SymphonyUnknownRailCodes',
      severity: 'warning',
      forSeconds: 0,
      when: below(metric('last_unknown_code_age_seconds'), QUARTER_SECONDS),
      age: metric('last_unknown_code_age_seconds'),
      summary: 'A rail answered with a code that its table does not cover, or that contradicts it.',
      firstLook: 'The log lines rail_code_unknown, or symphony workers: which rail, which code?',
      remedy: 'Ask the rail for the meaning and add the code to the table. Until then the outcome counts as unknown.',
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
      remedy: 'Compare each with the rail’s statements, then symphony contradictions review. Redrive nothing before.',
    },
    {
      name: 'SymphonyPaidTwice',
      severity: 'critical',
      forSeconds: 0,
      when: above(openFindings('paid_twice'), 0),
      age: criticalSince('paid_twice'),
      summary: 'A bank statement shows two booked entries for one payment.',
      firstLook: 'symphony findings list --kind paid_twice: both entries of each payment.',
      remedy:
        'Ask the bank to return the second payment. Record no return, because the first payment stands. Then close the finding with the reason.',
    },
    {
      name: 'SymphonyRecordedNotPaid',
      severity: 'critical',
      forSeconds: 0,
      when: above(openFindings('recorded_not_paid'), 0),
      age: criticalSince('recorded_not_paid'),
      summary: 'A payment is DISPATCHED, and the bank statement of its period does not contain it.',
      firstLook: 'symphony findings list --kind recorded_not_paid: rail reference and time of each payment.',
      remedy: 'Ask the bank for the payment by its reference before you pay again. Then close the finding.',
    },
    {
      name: 'SymphonyPaidNotRecorded',
      severity: 'critical',
      forSeconds: 0,
      when: above(criticalSince('paid_not_recorded'), 0),
      age: criticalSince('paid_not_recorded'),
      summary: 'The bank paid a payment that the ledger records as FAILED.',
      firstLook: 'symphony findings list --kind paid_not_recorded: was the payment redriven or replaced?',
      remedy: 'Redrive nothing. If the debt was paid again, ask for the money back. Then close the finding.',
    },
    {
      name: 'SymphonyPaidAmountDiffers',
      severity: 'critical',
      forSeconds: 0,
      when: above(openFindings('amount_differs'), 0),
      age: criticalSince('amount_differs'),
      summary: 'The bank booked another amount or currency than the payment has.',
      firstLook: 'symphony findings list --kind amount_differs: both amounts of each payment.',
      remedy: 'Ask the bank, and check the rail’s adapter: it may format amounts wrongly. Then close the finding.',
    },
    {
      name: 'SymphonyReconciliationLate',
      severity: 'warning',
      forSeconds: 0,
      when: above(metric('reconciliation_age_seconds'), alertReconciliationSeconds),
      age: metric('reconciliation_age_seconds'),
      threshold: threshold('alertReconciliationSeconds'),
      summary: `A rail that was reconciled before has had no new statement for more than ${span(alertReconciliationSeconds)}.`,
      firstLook: 'symphony findings runs, and the job that downloads the statement: which rail, since when?',
      remedy: 'Run symphony reconcile with the missing statements.',
      detail: ({ reconciliation: { rails } }) => lateRails(rails, alertReconciliationSeconds),
    },
    {
      name: 'SymphonyLedgerChainBroken',
      severity: 'critical',
      forSeconds: 0,
      when: above(metric('ledger_chain_breaks'), 0),
      age: metric('ledger_broken_age_seconds'),
      summary: 'The last verification found a row of the ledger that differs from what was written.',
      firstLook: 'symphony ledger verify: it names each row.',
      remedy: 'A superuser changed the ledger. Keep the database as it is, and compare with checkpoints and backups.',
    },
    {
      name: 'SymphonySealingHeldBack',
      severity: 'warning',
      forSeconds: 0,
      when: above(metric('ledger_unsealed_age_seconds'), alertSealingSeconds),
      age: metric('ledger_unsealed_age_seconds'),
      threshold: threshold('alertSealingSeconds'),
      summary: `Rows of the ledger have been in no block for more than ${span(alertSealingSeconds)}: an old transaction blocks sealing, or no worker runs.`,
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
      summary: 'The database clock jumped against a worker’s clock. Leases follow the database clock.',
      firstLook: 'Time synchronisation of the database server, or a failover to a machine with another time.',
      remedy: 'Correct the clock. Workers claim nothing until their leases have expired.',
    },
    {
      name: 'SymphonyStatusMissing',
      severity: 'critical',
      forSeconds: 300,
      when: { is: 'absent', metric: 'outbox_pending_depth' },
      summary: 'No process has read the queue’s status for 5 minutes.',
      firstLook: '/readyz of the processes, and the database.',
      remedy: 'Bring the database back. Workers keep outcomes in memory and record them afterwards.',
    },
    {
      name: 'SymphonyInboxDead',
      severity: 'warning',
      forSeconds: 0,
      when: above(metric('inbox_recently_dead'), 0),
      age: metric('inbox_recently_dead_age_seconds'),
      summary: 'Inbox messages were dead-lettered within the last 15 minutes.',
      firstLook: 'symphony inbox list --state dead: the last error of each.',
      remedy: 'Correct the handler or the sender, then symphony inbox revive.',
    },
    {
      name: 'SymphonySchedulerLate',
      severity: 'warning',
      forSeconds: 0,
      when: above(metric('scheduler_lag_seconds'), alertSchedulerSeconds),
      age: metric('scheduler_lag_seconds'),
      threshold: threshold('alertSchedulerSeconds'),
      summary: `Timers or jobs have been due for more than ${span(alertSchedulerSeconds)}, and no scheduler has processed them.`,
      firstLook: 'Does a scheduler run? Is a job unreadable (symphony jobs list)?',
      remedy: 'Start a scheduler, or correct the job. The job’s policy decides about missed runs.',
    },
  ]
}

export const ALERT_RULES: readonly AlertRule[] = alertRules(ALERT_THRESHOLDS)

/** Formats seconds: `90 s`, `5 min`, `24 h`. */
function span(seconds: number): string {
  if (seconds === 0) return '0 s'
  if (seconds % 3_600 === 0) return `${seconds / 3_600} h`
  return seconds % 60 === 0 ? `${seconds / 60} min` : `${seconds} s`
}

/** Returns the rails whose last reconciliation is too old, oldest first; undefined if there are none. */
function lateRails(rails: ReconciliationStatus['rails'], thresholdSeconds: number): string | undefined {
  const late = rails.filter(({ ageSeconds }) => ageSeconds > thresholdSeconds)
  if (late.length === 0) return undefined
  const words = late.toSorted((left, right) => right.ageSeconds - left.ageSeconds).slice(0, RAILS_NAMED_MAX)
  return words.map(({ rail, ageSeconds }) => `${rail}: ${Math.floor(ageSeconds / 3_600)} h`).join(', ')
}

const RAILS_NAMED_MAX = 10

/** Returns a text such as `session 4711 of user app (psql, database payments), transaction open for 10800 s`. */
function describeBlocker({ pid, prepared, user, application, database, ageSeconds }: SealingBlocker): string {
  const holder = pid === null ? `prepared transaction ${prepared}` : `session ${pid}`
  const where = [application, database === null ? null : `database ${database}`].filter(
    (word) => word !== null && word !== '',
  )
  const open = ageSeconds === null ? '' : `, transaction open for ${Math.round(ageSeconds)} s`
  return `${holder} of user ${user ?? 'unknown'} (${where.join(', ')})${open}`
}

/** Topic of the messages that carry notices of alerts. Processes with `--notify` dispatch these messages. */
export const ALERT_TOPIC = 'symphony.alerts'

/** Returns the participant of the notices about an alert to a channel. The ids of these messages begin with it. */
export function noticeStream(channel: string, alert: string): string {
  return `${NOTICE_PREFIX}${channel}:${alert}`
}

/** Beginning of the ids of notices. The API accepts no such id from outside. */
export const NOTICE_PREFIX = 'alert:'
