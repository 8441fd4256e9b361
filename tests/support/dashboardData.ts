import type { ApiRoles } from '../../libs/http/index.js'
import { enqueueInboxMessage, failInboxMessages } from '../../libs/inbox/index.js'
import { acquireLease } from '../../libs/lease/index.js'
import {
  approveOutboxLimit,
  claimOutboxBatch,
  completeOutboxAttempts,
  declareOutboxRails,
  enqueuePaymentOutbox,
  enqueuePaymentOutboxBatch,
  heartbeatOutboxWorker,
  pauseOutbox,
  proposeOutboxLimit,
  recordLateOutcome,
  redriveOutboxItem,
  repairExpiredLeases,
  resolveOutboxHold,
  type AttemptOutcome,
  type ClaimedItem,
} from '../../libs/outbox/index.js'
import { mergeFieldRules } from '../../libs/rails/index.js'
import { createOrUpdateJob, scheduleTimer, triggerJob } from '../../libs/scheduler/index.js'
import type { TestDatabase } from './database.js'
import { apiRolesOf } from './httpFixture.js'
import { claimOf } from './inboxMessages.js'
import { projectLedger } from './sealLedger.js'
import { reconcileLines } from './statements.js'

/** Ids of payments that tests and screenshots open. */
export interface DashboardData {
  /**
   * Payment held with an unknown outcome after a retry, an expired lease and a late outcome. olga has proposed a retry.
   */
  readonly faultyPayment: string
  /** Payment that is due on a rail without a pause. */
  readonly duePayment: string
}

const RAILS = ['sepa', 'swift', 'card-acquirer'] as const
const PARTICIPANTS = ['acme', 'northwind', 'contoso', 'umbra-bank', 'li-wallet']
const WORKERS = ['pay-worker-1:4121:7c1f', 'pay-worker-2:9911:aa01', 'pay-worker-3:1:0be2']

/**
 * Seeds an ordinary day: an hour of payments on three rails, a few in trouble, decisions, jobs, timers, messages and
 * leases. The functions are those of production; only times are changed by SQL.
 */
export async function seedDashboardData(db: TestDatabase): Promise<DashboardData> {
  const { control } = await apiRolesOf(db)
  const data = new DashboardSeeder(db, (owner) => control({ owner, apiKey: null }))
  await data.payments()
  const duePayment = await data.findDuePayment()
  const faultyPayment = await data.createFaultyPayment()
  await data.contradiction()
  await data.inFlight()
  await data.people(faultyPayment)
  await data.workers()
  await data.primitives()
  await data.limits()
  await data.reconciliation()
  await data.history()
  await projectLedger(db)
  return { faultyPayment, duePayment }
}

class DashboardSeeder {
  readonly #db: TestDatabase
  readonly #person: (owner: string) => ReturnType<ApiRoles['control']>
  #number = 48_000

  constructor(db: TestDatabase, person: (owner: string) => ReturnType<ApiRoles['control']>) {
    this.#db = db
    this.#person = person
  }

  async payments(): Promise<void> {
    await this.#enqueue('sepa', 70)
    await this.#claimAndComplete('sepa', 60, (item, index) => paid(item, 40 + ((index * 37) % 160)))
    await this.#enqueue('swift', 40)
    await this.#claimAndComplete('swift', 30, (item, index) => paid(item, 300 + ((index * 211) % 1_900)))
    await this.#claimAndComplete('swift', 6, (item) => ({
      ...busy(item, 'RAIL_TIMEOUT', 10_000),
      outcomeUnknown: true,
    }))
    await this.#enqueue('card-acquirer', 36)
    await this.#claimAndComplete('card-acquirer', 24, (item, index) => paid(item, 25 + index))
    await this.#claimAndComplete('card-acquirer', 3, (item) => refused(item))
    await this.#claimAndComplete('card-acquirer', 2, (item) => busy(item, 'RATE_LIMITED', 12))
    await this.#enqueue('sepa', 3, true)
  }

  async findDuePayment(): Promise<string> {
    const { rows } = await this.#db.queryNoRole<{ outbox_id: string }>(
      `SELECT outbox_id FROM outbox_operational_status WHERE state = 'DUE' AND rail_type = 'sepa' ORDER BY 1 LIMIT 1`,
    )
    if (rows[0] === undefined) throw new Error('no payment is due')
    return rows[0].outbox_id
  }

  /** Leases four items, one with an expired lease. */
  async inFlight(): Promise<void> {
    const [stuck] = await this.#claim('card-acquirer', 4)
    if (stuck !== undefined) await this.#db.expireLease(stuck.outboxId)
  }

  /** Creates a pending payment with a retry, an expired lease, a late outcome and a hold. */
  async createFaultyPayment(): Promise<string> {
    await this.#enqueue('instant', 1)
    const [first] = await this.#claimAndComplete('instant', 1, (item) => busy(item, 'RAIL_UNAVAILABLE', 10_012))
    if (first === undefined) throw new Error('the payment in trouble was not claimed')
    const { outboxId } = first
    await this.#db.makeDue(outboxId)
    const [lost] = await this.#claim('instant', 1, WORKERS[1])
    await this.#db.expireLease(outboxId)
    await repairExpiredLeases(this.#executor, 100, 'lease-repair')
    if (lost !== undefined) {
      await recordLateOutcome(this.#executor, WORKERS[1] ?? '', {
        outboxId,
        leaseToken: lost.leaseToken,
        state: 'RETRYABLE',
        errorCode: 'RAIL_TIMEOUT',
        latencyMs: 61_200,
      })
    }
    await this.#db.makeDue(outboxId)
    await this.#claimAndComplete('instant', 1, ({ leaseToken }) => ({
      outboxId,
      leaseToken,
      state: 'RETRYABLE',
      errorCode: 'RAIL_TIMEOUT',
      errorMessage: 'no answer within 30 s',
      latencyMs: 30_000,
      outcomeUnknown: true,
      holdReason: 'OUTCOME_UNKNOWN',
    }))
    return outboxId
  }

  /** Creates a payment that one worker recorded as paid and another reported late under another reference. */
  async contradiction(): Promise<void> {
    await this.#enqueue('instant', 1)
    const [lost] = await this.#claim('instant', 1, WORKERS[1])
    if (lost === undefined) throw new Error('the payment with two references was not claimed')
    await this.#db.expireLease(lost.outboxId)
    await repairExpiredLeases(this.#executor, 100, 'lease-repair')
    await this.#db.makeDue(lost.outboxId)
    const [next] = await this.#claim('instant', 1, WORKERS[0])
    const success = { state: 'DISPATCHED' as const, latencyMs: 210 }
    if (next !== undefined)
      await completeOutboxAttempts(this.#executor, WORKERS[0] ?? '', [
        { ...next, ...success, railReference: 'INST-77120' },
      ])
    await recordLateOutcome(this.#executor, WORKERS[1] ?? '', { ...lost, ...success, railReference: 'INST-77118' })
  }

  /** Sets a limit, enqueues a payment that counts against it, and proposes two more limits. */
  async limits(): Promise<void> {
    const [olga, pavel] = [this.#person('olga'), this.#person('pavel')]
    const subject = { railType: 'sepa', participantId: 'acme' }
    const daily = { kind: 'amount', limit: '250000.00', currency: 'EUR', windowSeconds: 86_400 } as const
    const large = { kind: 'approval', limit: '10000.00', currency: 'EUR', approvals: 2, railType: 'sepa' } as const
    const hourly = { kind: 'count', limit: '5000', windowSeconds: 3_600, railType: 'card-acquirer' } as const
    await approveOutboxLimit(
      pavel,
      await proposeOutboxLimit(olga, 'acme-daily', { ...daily, ...subject }, 'Agreed with risk, RISK-17'),
    )
    await enqueuePaymentOutbox(this.#db.as('symphony_ingest'), {
      ...subject,
      instructionId: 'payroll-11',
      idempotencyKey: 'payroll-11',
      payload: { amount: '84210.00', currency: 'EUR', destination: 'DE89370400440532013000' },
    })
    await proposeOutboxLimit(olga, 'sepa-large', large, 'Two people above ten thousand, RISK-18')
    await proposeOutboxLimit(pavel, 'card-hourly', hourly, 'Loop of last Friday, OPS-812')
  }

  /** Compares two statements with the payments of one rail: one agrees, the other shows a fault of each kind. */
  async reconciliation(): Promise<void> {
    await this.#enqueue('instant', 8)
    const items = await this.#claimAndComplete('instant', 6, (item) => paid(item, 120))
    const [refunded] = await this.#claimAndComplete('instant', 1, (item) => refused(item))
    const unknown = { outcomeUnknown: true, holdReason: 'OUTCOME_UNKNOWN' }
    const [held] = await this.#claimAndComplete('instant', 1, (item) => ({
      ...busy(item, 'RAIL_TIMEOUT', 30_000),
      ...unknown,
    }))
    const account = 'DE75512108001245126199'
    const booked = (item: ClaimedItem | undefined, number: number, change: object = {}) => ({
      account,
      bankReference: `2026-${number}`,
      reference: item?.outboxId.replaceAll('-', ''),
      amount: '1250.00',
      currency: 'EUR',
      bookedOn: '2026-11-16',
      ...change,
    })
    const [agreed, second, twice, other, returned] = items
    await reconcileLines(this.#person('pavel'), 'instant', [booked(agreed, 88_101), booked(second, 88_102)])
    await reconcileLines(this.#person('olga'), 'instant', [
      booked(twice, 88_103),
      booked(twice, 88_104),
      booked(other, 88_105, { amount: '1205.00' }),
      booked(returned, 88_106),
      booked(returned, 88_107, { direction: 'credit', reversal: true, returnCode: 'AC04' }),
      booked(refunded, 88_108),
      booked(held, 88_109),
      booked(undefined, 88_110, { reference: 'Office rent', amount: '4300.00' }),
    ])
  }

  async people(faultyPayment: string): Promise<void> {
    const { rows } = await this.#db.queryNoRole<{ outbox_id: string }>(
      `SELECT outbox_id FROM outbox_operational_status WHERE state = 'FAILED' ORDER BY outbox_id`,
    )
    const reason = 'The bank confirms by phone that nothing was booked'
    await resolveOutboxHold(this.#person('olga'), faultyPayment, 'RETRY', reason)
    await redriveOutboxItem(this.#person('pavel'), rows[0]?.outbox_id ?? '', 'The customer has opened a new account')
    await pauseOutbox(this.#person('olga'), 'rail', 'swift', 'Cut-over of the correspondent bank')
    for (const because of ['Customer asked to wait', 'Name of the payee under review']) {
      await this.#enqueue('instant', 1)
      const [item] = await this.#claim('instant', 1)
      if (item === undefined) continue
      await completeOutboxAttempts(this.#executor, WORKERS[0] ?? '', [
        { ...busy(item, 'NEEDS_REVIEW', 80), holdReason: because },
      ])
    }
  }

  async workers(): Promise<void> {
    for (const [index, workerId] of WORKERS.entries()) {
      const rails = [...RAILS, 'instant'].map((railType) => ({
        railType,
        breaker: railType === 'swift' && index === 0 ? 'open' : 'closed',
        calls: railType === 'swift' ? 0 : 2,
      }))
      await heartbeatOutboxWorker(this.#executor, workerId, {
        running: 6 - index,
        waiting: index,
        completing: 1,
        rails,
      })
    }
    const declared = [...RAILS, 'instant'].map((type) => ({
      type,
      money: true,
      fields: mergeFieldRules([], type === 'card-acquirer' ? { '/destination': 'encrypted' } : {}),
    }))
    await declareOutboxRails(this.#executor, declared, WORKERS[0] ?? '', { serving: true })
    await this.#db.queryNoRole(
      `UPDATE outbox_workers SET started_at = started_at - interval '2 days',
         last_seen_at = last_seen_at - CASE WHEN worker_id = $1 THEN interval '3 minutes' ELSE interval '2 seconds' END`,
      [WORKERS[2]],
    )
    await this.#db.queryNoRole(
      `INSERT INTO outbox_worker_series
       SELECT date_bin('5 minutes', now(), '2000-01-01') - interval '10 minutes', 'swift', worker_id, 40, 2, 3
       FROM outbox_workers`,
    )
  }

  async primitives(): Promise<void> {
    const control = this.#person('olga')
    const ingest = this.#db.as('symphony_ingest')
    const jobs = [
      { name: 'settle-day', cron: '0 22 * * *', timeZone: 'Europe/Berlin', topic: 'ledger' },
      { name: 'poll-statements', cron: '*/5 * * * *', topic: 'statements', missedRuns: 'skip' as const },
      { name: 'fees-month-end', cron: '0 0 1 * *', topic: 'fees', missedRuns: 'all' as const },
    ]
    for (const job of jobs) await createOrUpdateJob(this.#db.as('symphony_control'), { ...job, payload: {} })
    await triggerJob(control, 'settle-day')
    for (const hours of [1, 6, 48]) {
      const dueAt = new Date(Date.now() + hours * 3_600_000)
      await scheduleTimer(ingest, { topic: 'payment-reminder', payload: {}, dueAt })
    }
    for (const messageId of ['evt_1Pq17fKz', 'evt_1Pq27fKz', 'evt_1Pq37fKz']) {
      await enqueueInboxMessage(ingest, { source: 'psp-webhooks', messageId, topic: 'payment.settled', payload: {} })
    }
    for (const claim of (await claimOf(this.#db, { source: 'psp-webhooks' })).slice(0, 2)) {
      await failInboxMessages(
        this.#executor,
        [{ ...claim, error: 'The handler threw: there is no order 48210' }],
        'worker-1',
      )
    }
    // Long enough that no test sees the time left change from 10 to 9 minutes, because this moves the other columns.
    for (const [index, resource] of ['symphony/scheduler', 'report/month-end', 'reconcile/sepa'].entries()) {
      await acquireLease(this.#executor, { resource, owner: WORKERS[index] ?? '', durationMs: 900_000 })
    }
    await this.#db.queryNoRole(
      `UPDATE symphony_leases SET acquired_at = acquired_at - interval '20 minutes', renewed_at = renewed_at - interval '20 minutes',
         expires_at = expires_at - interval '16 minutes' WHERE resource = 'report/month-end'`,
    )
  }

  /** Seeds the totals of the previous hour for the status, and of the previous 30 days for the charts. */
  async history(): Promise<void> {
    await this.#db.queryNoRole(
      `INSERT INTO outbox_attempt_totals (minute, dispatched, retryable, failed, zombie_requeue, outcome_unknown)
       SELECT date_trunc('minute', now()) - m * interval '1 minute', 280 + (60 * sin(m / 7.0))::int + (m * 37) % 40,
         (m * 13) % 9 + CASE WHEN m < 12 THEN 28 ELSE 0 END, 0, CASE WHEN m < 9 THEN 4 ELSE 0 END,
         CASE WHEN m < 9 THEN 14 ELSE 0 END
       FROM generate_series(1, 59) m ON CONFLICT DO NOTHING`,
    )
    await this.#db.queryNoRole(
      `INSERT INTO outbox_series (grain, participant_id, starts_at, rail_type, is_message, enqueued, dispatched, failed,
         cancelled, retried, unknown, held, returned)
       SELECT grain, '', date_trunc(grain, now(), 'UTC') - n * ('1 ' || grain)::interval, rail, false, size, size,
         n % 5 * size / 100, n % 3 * size / 150, (n * 13) % 9 * size / 100 + (n < 12)::int * size / 10,
         (n < 9)::int * size / 20, n % 4 * size / 120, n % 7 * size / 140
       FROM (VALUES ('minute', 2880, 90), ('hour', 720, 5000), ('day', 40, 110000)) AS g(grain, kept, base),
         unnest(ARRAY['sepa', 'swift', 'instant']) AS rail,
         LATERAL (SELECT n, (base * (1.2 + sin(n / 7.0)))::int / length(rail) AS size FROM generate_series(1, kept) n) AS s
       ON CONFLICT DO NOTHING`,
    )
    await this.#db.queryNoRole(
      `INSERT INTO outbox_attempt_series (grain, rail_type, starts_at, error_code, latency_to_ms, attempts)
       SELECT grain, rail, date_trunc(grain, now(), 'UTC') - n * ('1 ' || grain)::interval, code, ms, many
       FROM (VALUES ('minute', 2880), ('hour', 720)) AS g(grain, kept), generate_series(1, kept) AS n,
         unnest(ARRAY['sepa', 'swift']) AS rail,
         (VALUES ('', 50, 60), ('', 100, 30), ('', 200, 9), ('RAIL_TIMEOUT', 2000, 1)) AS v(code, ms, many)
       WHERE n % 3 > 0 ON CONFLICT DO NOTHING`,
    )
  }

  get #executor() {
    return this.#db.as('symphony_executor')
  }

  async #enqueue(railType: string, size: number, ordered = false): Promise<void> {
    const instructions = Array.from({ length: size }, () => {
      const instructionId = `invoice-2026-${(this.#number += 1)}`
      const participantId = ordered ? 'acme' : (PARTICIPANTS[this.#number % PARTICIPANTS.length] ?? 'acme')
      const payload = { amount: '1250.00', currency: 'EUR', destination: 'DE89370400440532013000' }
      return { instructionId, participantId, idempotencyKey: `${instructionId}/1`, railType, payload, ordered }
    })
    await enqueuePaymentOutboxBatch(this.#db.as('symphony_ingest'), instructions)
  }

  #claim(railType: string, size: number, workerId = WORKERS[0] ?? ''): Promise<ClaimedItem[]> {
    return claimOutboxBatch(this.#executor, size, workerId, 600, { rails: [railType] })
  }

  async #claimAndComplete(
    railType: string,
    size: number,
    outcomeOf: (item: ClaimedItem, index: number) => AttemptOutcome,
  ): Promise<ClaimedItem[]> {
    const items = await this.#claim(railType, size)
    await completeOutboxAttempts(this.#executor, WORKERS[0] ?? '', items.map(outcomeOf))
    return items
  }
}

function paid({ outboxId, leaseToken, sequenceId }: ClaimedItem, latencyMs: number): AttemptOutcome {
  const railReference = `RF${String(sequenceId).padStart(2, '0')}${outboxId.slice(-8).toUpperCase()}`
  return { outboxId, leaseToken, state: 'DISPATCHED', railReference, latencyMs }
}

function busy({ outboxId, leaseToken }: ClaimedItem, errorCode: string, latencyMs: number): AttemptOutcome {
  return { outboxId, leaseToken, state: 'RETRYABLE', errorCode, latencyMs }
}

function refused({ outboxId, leaseToken }: ClaimedItem): AttemptOutcome {
  const errorMessage = 'The account of the payee is closed'
  return { outboxId, leaseToken, state: 'FAILED', errorCode: 'ACCOUNT_CLOSED', errorMessage, latencyMs: 61 }
}
