/**
 * Test case of an alert: samples per minute, and the minutes at which the alert fires. Prometheus (promtool) and
 * `AlertEvaluator` must both give this result.
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
  /** One sample per minute; null if the process no longer reports the metric. */
  readonly samples: readonly (number | null)[]
}

function one(metric: string, ...samples: (number | null)[]): ScenarioSeries[] {
  return [{ metric, samples }]
}

/** Returns samples of payments, and samples of messages, which must not count. */
function ofPayments(metric: string, ...samples: readonly number[]): ScenarioSeries[] {
  return [
    { metric, labels: { kind: 'payment' }, samples },
    { metric, labels: { kind: 'message' }, samples: samples.map(() => 1_000_000) },
  ]
}

function ofMessages(metric: string, ...samples: readonly number[]): ScenarioSeries[] {
  return [
    { metric, labels: { kind: 'message' }, samples },
    { metric, labels: { kind: 'payment' }, samples: samples.map(() => 1_000_000) },
  ]
}

function recently(state: string, ...samples: readonly number[]): ScenarioSeries {
  return { metric: 'outbox_recent_attempts', labels: { state, kind: 'payment' }, samples }
}

function heldFor(reason: string, ...samples: readonly number[]): ScenarioSeries {
  return { metric: 'outbox_held_by_reason', labels: { reason }, samples }
}

function findings(kind: string, ...samples: readonly number[]): ScenarioSeries {
  return { metric: 'reconciliation_findings_open', labels: { kind }, samples }
}

function criticalFor(kind: string, ...samples: readonly number[]): ScenarioSeries {
  return { metric: 'reconciliation_oldest_critical_finding_age_seconds', labels: { kind }, samples }
}

function reconciled(rail: string, ...samples: readonly (number | null)[]): ScenarioSeries {
  return { metric: 'reconciliation_age_seconds', labels: { rail }, samples }
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
    series: ofPayments('oldest_due_age_seconds', 299, 300, 301, 361, 0),
    verdicts: '--FF-',
  },
  {
    title: 'every process shows the same queue, and the greatest value counts',
    rule: 'SymphonyOldestPendingAge',
    series: [
      { metric: 'oldest_due_age_seconds', labels: { instance: 'a', kind: 'payment' }, samples: [0, 0] },
      { metric: 'oldest_due_age_seconds', labels: { instance: 'b', kind: 'payment' }, samples: [0, 400] },
    ],
    verdicts: '-F',
  },
  {
    title: 'a payment that retries for a day fires',
    rule: 'SymphonyOldestUnfinishedAge',
    series: ofPayments('oldest_unfinished_age_seconds', 86_400, 86_460, 0),
    verdicts: '-F-',
  },
  {
    title: 'payments that are due without a worker fire after a minute',
    rule: 'SymphonyNoWorkerAlive',
    series: ofPayments('due_without_worker_seconds', 0, 60, 61, 120, 0),
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
      ...ofPayments('expired_lease_count', 0, 5, 5, 5, 5, 0),
      ...ofPayments('oldest_expired_lease_age_seconds', 0, 60, 120, 181, 241, 0),
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
    series: [...ofPayments('outbox_held_count', 0, 1, 1, 0), ...ofPayments('oldest_hold_age_seconds', 0, 300, 360, 0)],
    verdicts: '--F-',
  },
  {
    title: 'a payment that exceeds a limit fires at once, until it is resolved',
    rule: 'SymphonyLimitExceeded',
    series: [heldFor('LIMIT_EXCEEDED', 0, 1, 1, 0), heldFor('AMOUNT_APPROVAL', 5, 5, 5, 5)],
    verdicts: '-FF-',
  },
  {
    title: 'an outcome message that could not be delivered fires at once, until it is released',
    rule: 'SymphonyOutcomeNotDelivered',
    series: [heldFor('OUTCOME_NOT_DELIVERED', 0, 1, 1, 0), heldFor('other', 5, 5, 5, 5)],
    verdicts: '-FF-',
  },
  {
    title: 'a message that has been held for five minutes fires, until it is resolved',
    rule: 'SymphonyMessagesHeld',
    series: [...ofMessages('outbox_held_count', 0, 1, 1, 0), ...ofMessages('oldest_hold_age_seconds', 0, 300, 360, 0)],
    verdicts: '--F-',
  },
  {
    title: 'a message that is due too long fires, until it is claimed',
    rule: 'SymphonyMessagesLate',
    series: ofMessages('oldest_due_age_seconds', 300, 301, 0),
    verdicts: '-F-',
  },
  {
    title: 'a failed message fires while it is recent',
    rule: 'SymphonyMessagesFailed',
    series: [
      { metric: 'outbox_recent_attempts', labels: { state: 'FAILED', kind: 'message' }, samples: [0, 1, 0] },
      recently('FAILED', 5, 5, 5),
    ],
    verdicts: '-F-',
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
    title: 'a payment that the bank paid twice fires at once, until the finding is closed',
    rule: 'SymphonyPaidTwice',
    series: [findings('paid_twice', 0, 1, 1, 0), findings('unknown_entry', 9, 9, 9, 9)],
    verdicts: '-FF-',
  },
  {
    title: 'a recorded payment that no statement contains fires, until the finding is closed',
    rule: 'SymphonyRecordedNotPaid',
    series: [findings('recorded_not_paid', 0, 1, 1, 0), findings('reversed', 9, 9, 9, 9)],
    verdicts: '-FF-',
  },
  {
    title: 'a paid payment fires if it is FAILED, and not if people still decide about it',
    rule: 'SymphonyPaidNotRecorded',
    series: [findings('paid_not_recorded', 1, 2, 2, 1), criticalFor('paid_not_recorded', 0, 5, 65, 0)],
    verdicts: '-FF-',
  },
  {
    title: 'another booked amount fires at once, until the finding is closed',
    rule: 'SymphonyPaidAmountDiffers',
    series: [findings('amount_differs', 0, 1, 1, 0)],
    verdicts: '-FF-',
  },
  {
    title: 'a rail fires three days after its last statement; one that was never reconciled does not',
    rule: 'SymphonyReconciliationLate',
    series: [reconciled('sepa', 10, 259_200, 259_201, 5), reconciled('momo', null, null, null, 0)],
    verdicts: '--F-',
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
