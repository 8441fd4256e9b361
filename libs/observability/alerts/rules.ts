import type { Condition, Quantity } from './conditions.js'

/**
 * What somebody should be told, once: from this list come our own evaluator (`AlertEvaluator`), the rules file for Prometheus
 * (`deploy/prometheus/symphony.rules.yml`) and the page for whoever is woken up (`docs/operate/alerts.md`).
 */
export interface AlertRule {
  readonly name: string
  /** `critical`: money waits or is in doubt, somebody should look now. `warning`: today. */
  readonly severity: 'critical' | 'warning'
  /** How long the condition must hold without a break before it is told. */
  readonly forSeconds: number
  readonly when: Condition
  readonly summary: string
  readonly firstLook: string
  readonly remedy: string
}

const MINUTE = 60

const value = (metric: string): Quantity => ({ of: 'value', metric })
const above = (left: Quantity, right: Quantity): Condition => ({ is: 'above', left, right })
const counted = (metric: string, seconds: number): Condition => above({ of: 'increase', metric, seconds }, 0)

const retries: Quantity = { of: 'growth', metric: 'ledger_attempts', labels: { state: 'RETRYABLE' }, seconds: 600 }
const successes: Quantity = { of: 'growth', metric: 'ledger_attempts', labels: { state: 'DISPATCHED' }, seconds: 600 }

export const ALERT_RULES: readonly AlertRule[] = [
  {
    name: 'SymphonyOldestPendingAge',
    severity: 'critical',
    forSeconds: 2 * MINUTE,
    // Of what is due: an item that is scheduled for next week is old, and nobody's fault.
    when: above(value('oldest_due_age_seconds'), 5 * MINUTE),
    summary: 'A payment has been due for more than five minutes and no worker has taken it.',
    firstLook: 'symphony status: are workers alive, is a rail paused, is its breaker open?',
    remedy:
      'Start workers for that rail, or more of them; resume what was paused; call the rail if its breaker is open.',
  },
  {
    name: 'SymphonyNoWorkerAlive',
    severity: 'critical',
    forSeconds: MINUTE,
    when: {
      is: 'all',
      of: [above(value('outbox_due_depth'), 0), { is: 'below', left: value('outbox_workers_alive'), right: 1 }],
    },
    summary: 'Payments are due and no relayer has reported for a minute.',
    firstLook: 'The worker processes: do they run, and can they reach the database?',
    remedy: 'Start a worker. Nothing is lost meanwhile: what is due stays due, and expired leases are taken over.',
  },
  {
    name: 'SymphonyDispatchFrozen',
    severity: 'critical',
    forSeconds: 0,
    when: above(value('dispatch_frozen'), 0),
    summary:
      'Nothing is dispatched: the database may have lost commits in a restore or a failover, or a person froze it.',
    firstLook: 'symphony freeze show: since when, and why?',
    remedy:
      'Compare with the books of the rails, then lift it (symphony freeze lift): the page about restores says what to look at before.',
  },
  {
    name: 'SymphonyDlqGrowing',
    severity: 'warning',
    forSeconds: 0,
    when: above({ of: 'growth', metric: 'dlq_depth', seconds: 15 * MINUTE }, 0),
    summary: 'Payments ended as FAILED within the last quarter of an hour.',
    firstLook: 'symphony dlq list: which rail, which error code?',
    remedy:
      'Correct the cause, then redrive what should be sent again (two people). A refusal that is right needs nothing.',
  },
  {
    name: 'SymphonyExpiredLeases',
    severity: 'critical',
    forSeconds: 3 * MINUTE,
    when: above(value('expired_lease_count'), 0),
    summary: 'Workers died or hung with payments in their hands, and nobody has taken these over for three minutes.',
    firstLook: 'Is lease repair running (it comes with every worker)? What do its log lines say?',
    remedy: 'Start a worker or lease repair. An item that repair cannot mend is named in a warning of the server log.',
  },
  {
    name: 'SymphonyRetryableSpike',
    severity: 'critical',
    forSeconds: 5 * MINUTE,
    when: { is: 'all', of: [above(retries, 20), above(retries, successes)] },
    summary: 'For minutes now more attempts come back to be tried again than succeed.',
    firstLook: 'rail_errors_total by rail, and the error codes in symphony show of a recent payment.',
    remedy:
      'Ask the rail. Pause it (symphony pause rail NAME) if it is in trouble: retries are limited, and each costs one.',
  },
  {
    name: 'SymphonyPaymentsHeld',
    severity: 'warning',
    forSeconds: 5 * MINUTE,
    when: above(value('outbox_held_count'), 0),
    summary: 'Payments wait for a person.',
    firstLook: 'symphony holds list: the reason of each says what is not known.',
    remedy:
      'Ask the rail what became of it, then symphony holds resolve; a second person approves what decides about money.',
  },
  {
    name: 'SymphonyUnknownRailCodes',
    severity: 'warning',
    forSeconds: 0,
    when: counted('rail_unknown_codes_total', 15 * MINUTE),
    summary: 'A rail answered with a code that its table does not cover, or that contradicts it.',
    firstLook: 'The log lines rail_code_unknown: which rail, which code?',
    remedy:
      'Find out what the code means and add it to the rail’s table. Until then such answers count as unknown outcomes.',
  },
  {
    name: 'SymphonyEndingContradicted',
    severity: 'critical',
    forSeconds: 0,
    when: above(value('outbox_contradictions_unreviewed'), 0),
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
    when: above(value('ledger_chain_breaks'), 0),
    summary: 'A verification found a row of the ledger that is not what was written.',
    firstLook: 'symphony ledger verify: it names each place.',
    remedy:
      'Stop changes, keep the database as it is, compare with the latest checkpoint and with backups. Somebody wrote as superuser.',
  },
  {
    name: 'SymphonyClockJumped',
    severity: 'critical',
    forSeconds: 0,
    when: counted('clock_jumps_total', 15 * MINUTE),
    summary: 'The database’s clock moved against a worker’s. Leases are measured by it.',
    firstLook: 'Time synchronisation of the database server; a failover to a machine with another time.',
    remedy: 'Mend the clock. Workers claim nothing until the leases they had have surely ended.',
  },
  {
    name: 'SymphonyStatusMissing',
    severity: 'critical',
    forSeconds: 5 * MINUTE,
    when: { is: 'absent', metric: 'outbox_pending_depth' },
    summary: 'No process has been able to say how the queue looks for five minutes.',
    firstLook: '/readyz of the processes, and the database.',
    remedy: 'Bring the database back. Workers keep what they have learned and write it when it answers.',
  },
  {
    name: 'SymphonyInboxDead',
    severity: 'warning',
    forSeconds: 0,
    when: above({ of: 'growth', metric: 'inbox_depth', labels: { state: 'dead' }, seconds: 15 * MINUTE }, 0),
    summary: 'Messages of other systems were given up within the last quarter of an hour.',
    firstLook: 'symphony inbox list --state dead: the last error of each.',
    remedy: 'Mend the handler or the message’s sender, then symphony inbox revive.',
  },
  {
    name: 'SymphonySchedulerLate',
    severity: 'warning',
    forSeconds: 2 * MINUTE,
    when: above(value('scheduler_lag_seconds'), MINUTE),
    summary: 'Timers or jobs have been due for more than a minute and no scheduler has made anything of them.',
    firstLook: 'Does a scheduler run? Is a job unreadable: scheduler_jobs{condition="unreadable"}, symphony jobs list?',
    remedy: 'Start a scheduler; correct the job. What was missed is made up as each job’s policy says.',
  },
]
