/**
 * Test case of an alert: samples per minute, and the minutes at which it fires. Prometheus (promtool) and our evaluator must both
 * give this result.
 */
export interface AlertScenario {
  readonly title: string
  readonly rule: string
  readonly series: readonly ScenarioSeries[]
  /** One letter per minute: `-` silent, `F` firing. */
  readonly verdicts: string
}

export interface ScenarioSeries {
  readonly metric: string
  readonly labels?: Readonly<Record<string, string>>
  /** One sample per minute; null means that the process no longer reports the metric. */
  readonly samples: readonly (number | null)[]
}

function one(metric: string, ...samples: (number | null)[]): ScenarioSeries[] {
  return [{ metric, samples }]
}

function recently(state: string, ...samples: readonly number[]): ScenarioSeries {
  return { metric: 'outbox_recent_attempts', labels: { state }, samples }
}

function heldFor(reason: string, ...samples: readonly number[]): ScenarioSeries {
  return { metric: 'outbox_held_by_reason', labels: { reason }, samples }
}

export const ALERT_SCENARIOS: readonly AlertScenario[] = [
  {
    title: 'a freeze fires at once, until it is lifted',
    rule: 'SymphonyDispatchFrozen',
    series: one('dispatch_frozen', 0, 1, 1, 0),
    verdicts: '-FF-',
  },
  {
    title: 'a pause of everything fires at once, until it is resumed',
    rule: 'SymphonyAllPaused',
    series: one('outbox_all_paused_seconds', 0, 1, 61, 0),
    verdicts: '-FF-',
  },
  {
    title: 'a payment that is due too long fires, until it is claimed',
    rule: 'SymphonyOldestPendingAge',
    series: one('oldest_due_age_seconds', 299, 300, 301, 361, 0),
    verdicts: '--FF-',
  },
  {
    title: 'every process shows the same queue, and the greatest value counts',
    rule: 'SymphonyOldestPendingAge',
    series: [
      { metric: 'oldest_due_age_seconds', labels: { instance: 'a' }, samples: [0, 0] },
      { metric: 'oldest_due_age_seconds', labels: { instance: 'b' }, samples: [0, 400] },
    ],
    verdicts: '-F',
  },
  {
    title: 'a payment that retries for a day fires',
    rule: 'SymphonyOldestUnfinishedAge',
    series: one('oldest_unfinished_age_seconds', 86_400, 86_460, 0),
    verdicts: '-F-',
  },
  {
    title: 'payments that are due without a worker fire after a minute',
    rule: 'SymphonyNoWorkerAlive',
    series: one('due_without_worker_seconds', 0, 60, 61, 120, 0),
    verdicts: '--FF-',
  },
  {
    title: 'a failed payment fires while it is recent',
    rule: 'SymphonyDlqGrowing',
    series: [recently('FAILED', 0, 1, 1, 0), recently('RETRYABLE', 9, 9, 9, 9)],
    verdicts: '-FF-',
  },
  {
    title: 'expired leases that repair returns within its minute are silent, those that stay fire',
    rule: 'SymphonyExpiredLeases',
    series: [
      ...one('expired_lease_count', 0, 5, 5, 5, 5, 0),
      ...one('oldest_expired_lease_age_seconds', 0, 60, 120, 181, 241, 0),
    ],
    verdicts: '---FF-',
  },
  {
    title: 'more retries than successes fire',
    rule: 'SymphonyRetryableSpike',
    series: [recently('RETRYABLE', 0, 20, 21, 300), recently('DISPATCHED', 0, 10, 10, 100)],
    verdicts: '--FF',
  },
  {
    title: 'many retries among more successes are silent',
    rule: 'SymphonyRetryableSpike',
    series: [recently('RETRYABLE', 300, 300), recently('DISPATCHED', 300, 1_000)],
    verdicts: '--',
  },
  {
    title: 'a payment that has been held for five minutes fires, until it is resolved',
    rule: 'SymphonyPaymentsHeld',
    series: [...one('outbox_held_count', 0, 1, 1, 0), ...one('oldest_hold_age_seconds', 0, 300, 360, 0)],
    verdicts: '--F-',
  },
  {
    title: 'a payment that exceeds a limit fires at once, until it is resolved',
    rule: 'SymphonyLimitExceeded',
    series: [heldFor('LIMIT_EXCEEDED', 0, 1, 1, 0), heldFor('AMOUNT_APPROVAL', 5, 5, 5, 5)],
    verdicts: '-FF-',
  },
  {
    title: 'an unknown code fires for a quarter of an hour',
    rule: 'SymphonyUnknownRailCodes',
    series: one('last_unknown_code_age_seconds', null, 5, 899, 900),
    verdicts: '-FF-',
  },
  {
    title: 'an unreviewed contradiction fires at once, until it is reviewed',
    rule: 'SymphonyEndingContradicted',
    series: one('outbox_contradictions_unreviewed', 0, 1, 1, 0),
    verdicts: '-FF-',
  },
  {
    title: 'a broken chain fires at once; before the first verification there is no series',
    rule: 'SymphonyLedgerChainBroken',
    series: one('ledger_chain_breaks', null, 0, 1, 1),
    verdicts: '--FF',
  },
  {
    title: 'a jump of the database’s clock fires for a quarter of an hour',
    rule: 'SymphonyClockJumped',
    series: one('last_clock_jump_age_seconds', null, 1, 899, 900),
    verdicts: '-FF-',
  },
  {
    title: 'a status that no process can read fires after five minutes',
    rule: 'SymphonyStatusMissing',
    series: one('outbox_pending_depth', 3, null, null, null, null, null, null, 3),
    verdicts: '------F-',
  },
  {
    title: 'a dead message fires while its death is recent',
    rule: 'SymphonyInboxDead',
    series: one('inbox_recently_dead', 0, 1, 0),
    verdicts: '-F-',
  },
  {
    title: 'sealing that is held back for a quarter of an hour fires',
    rule: 'SymphonySealingHeldBack',
    series: one('ledger_unsealed_age_seconds', 12, 900, 901, 0),
    verdicts: '--F-',
  },
  {
    title: 'a scheduler that is late fires after a minute',
    rule: 'SymphonySchedulerLate',
    series: one('scheduler_lag_seconds', 0, 60, 61, 0),
    verdicts: '--F-',
  },
]
