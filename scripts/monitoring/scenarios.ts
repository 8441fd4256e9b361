/**
 * Stories about each alert, minute by minute: what is measured, and at which minutes the alert fires. Prometheus (by
 * promtool) and our own evaluator are asked the same, and must say the same.
 */
export interface AlertScenario {
  readonly title: string
  readonly rule: string
  readonly series: readonly ScenarioSeries[]
  /**
   * One letter per minute: `-` silent, `F` firing. `?` is not asked: a sample at the very edge of a window is inside it for
   * Prometheus 2 and outside for Prometheus 3 and us.
   */
  readonly verdicts: string
}

export interface ScenarioSeries {
  readonly metric: string
  readonly labels?: Readonly<Record<string, string>>
  /** One per minute; null: the process says nothing of it any more. */
  readonly samples: readonly (number | null)[]
}

function times<T>(count: number, sample: T): T[] {
  return Array.from({ length: count }, () => sample)
}

function one(metric: string, ...samples: (number | null)[]): ScenarioSeries[] {
  return [{ metric, samples }]
}

function ledger(state: string, samples: readonly number[]): ScenarioSeries {
  return { metric: 'ledger_attempts', labels: { state }, samples }
}

/** So much more each minute. */
function growing(perMinute: number, minutes: number, from = 0): number[] {
  return Array.from({ length: minutes }, (_, minute) => from + perMinute * minute)
}

export const ALERT_SCENARIOS: readonly AlertScenario[] = [
  {
    title: 'a freeze is told at once, until it is lifted',
    rule: 'SymphonyDispatchFrozen',
    series: one('dispatch_frozen', 0, 1, 1, 0),
    verdicts: '-FF-',
  },
  {
    title: 'a payment that waits too long is told after two minutes of it, and no more once it is taken',
    rule: 'SymphonyOldestPendingAge',
    series: one('oldest_due_age_seconds', 299, 300, 301, 361, 421, 481, 0),
    verdicts: '----FF-',
  },
  {
    title: 'a break in between begins the wait anew',
    rule: 'SymphonyOldestPendingAge',
    series: one('oldest_due_age_seconds', 400, 460, 10, 400, 460, 520),
    verdicts: '-----F',
  },
  {
    title: 'every process shows the same queue, and the worst of what they show counts',
    rule: 'SymphonyOldestPendingAge',
    series: [
      { metric: 'oldest_due_age_seconds', labels: { instance: 'a' }, samples: [0, 0, 0, 0] },
      { metric: 'oldest_due_age_seconds', labels: { instance: 'b' }, samples: [400, 460, 520, 580] },
    ],
    verdicts: '--FF',
  },
  {
    title: 'payments are due and no worker is there',
    rule: 'SymphonyNoWorkerAlive',
    series: [...one('outbox_due_depth', 3, 3, 3, 3, 3), ...one('outbox_workers_alive', 1, 0, 0, 0, 1)],
    verdicts: '--FF-',
  },
  {
    title: 'nobody needs a worker while nothing is due',
    rule: 'SymphonyNoWorkerAlive',
    series: [...one('outbox_due_depth', 0, 0, 0, 0), ...one('outbox_workers_alive', 0, 0, 0, 0)],
    verdicts: '----',
  },
  {
    title: 'a payment fails: told at once, and for a quarter of an hour',
    rule: 'SymphonyDlqGrowing',
    series: one('dlq_depth', ...times(16, 4), ...times(17, 5)),
    verdicts: `${'-'.repeat(16)}${'F'.repeat(15)}--`,
  },
  {
    title: 'failures of long ago are no news',
    rule: 'SymphonyDlqGrowing',
    series: one('dlq_depth', ...times(18, 1_000)),
    verdicts: '-'.repeat(18),
  },
  {
    title: 'expired leases that repair takes care of within its minute are nobody’s business',
    rule: 'SymphonyExpiredLeases',
    series: one('expired_lease_count', 0, 5, 5, 0, 5, 0),
    verdicts: '------',
  },
  {
    title: 'expired leases that stay are told',
    rule: 'SymphonyExpiredLeases',
    series: one('expired_lease_count', 0, 5, 5, 5, 5, 5),
    verdicts: '----FF',
  },
  {
    title: 'a rail that mostly asks to come back, for minutes',
    rule: 'SymphonyRetryableSpike',
    series: [ledger('RETRYABLE', growing(30, 18)), ledger('DISPATCHED', growing(10, 18))],
    verdicts: `${'-'.repeat(15)}FFF`,
  },
  {
    title: 'many retries among more successes are a busy day',
    rule: 'SymphonyRetryableSpike',
    series: [ledger('RETRYABLE', growing(30, 18)), ledger('DISPATCHED', growing(100, 18))],
    verdicts: '-'.repeat(18),
  },
  {
    title: 'a few retries and no success are a quiet night',
    rule: 'SymphonyRetryableSpike',
    series: [ledger('RETRYABLE', growing(2, 18)), ledger('DISPATCHED', times(18, 9))],
    verdicts: '-'.repeat(18),
  },
  {
    title: 'a payment that waits for a person',
    rule: 'SymphonyPaymentsHeld',
    series: one('outbox_held_count', 0, 1, 1, 1, 1, 1, 1, 0),
    verdicts: '------F-',
  },
  {
    title: 'a code that nobody knows, from one process of two, which then starts anew',
    rule: 'SymphonyUnknownRailCodes',
    series: [
      { metric: 'rail_unknown_codes_total', labels: { instance: 'a', rail: 'x' }, samples: times(22, 7) },
      {
        metric: 'rail_unknown_codes_total',
        labels: { instance: 'b', rail: 'x' },
        samples: [0, 0, 1, 1, ...times(18, 0)],
      },
    ],
    verdicts: `--${'F'.repeat(14)}?-----`,
  },
  {
    title: 'an unreviewed contradiction fires at once, until it is reviewed',
    rule: 'SymphonyEndingContradicted',
    series: one('outbox_contradictions_unreviewed', 0, 1, 1, 0),
    verdicts: '-FF-',
  },
  {
    title: 'a broken chain is told at once; before anybody has verified there is nothing to tell',
    rule: 'SymphonyLedgerChainBroken',
    series: one('ledger_chain_breaks', null, 0, 1, 1),
    verdicts: '--FF',
  },
  {
    title: 'the database’s clock jumps',
    rule: 'SymphonyClockJumped',
    series: one('clock_jumps_total', 0, 1, 1),
    verdicts: '-FF',
  },
  {
    title: 'nobody can say how the queue looks',
    rule: 'SymphonyStatusMissing',
    series: one('outbox_pending_depth', 3, null, null, null, null, null, null, 3),
    verdicts: '------F-',
  },
  {
    title: 'a message of another system is given up',
    rule: 'SymphonyInboxDead',
    series: [{ metric: 'inbox_depth', labels: { state: 'dead' }, samples: [...times(16, 0), 1, 1] }],
    verdicts: `${'-'.repeat(16)}FF`,
  },
  {
    title: 'messages that wait are not messages that died',
    rule: 'SymphonyInboxDead',
    series: [{ metric: 'inbox_depth', labels: { state: 'seen' }, samples: growing(100, 18) }],
    verdicts: '-'.repeat(18),
  },
  {
    title: 'no scheduler is awake',
    rule: 'SymphonySchedulerLate',
    series: one('scheduler_lag_seconds', 0, 60, 61, 121, 181, 0),
    verdicts: '----F-',
  },
]
