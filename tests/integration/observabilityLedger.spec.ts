import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openDatabase } from '../../libs/db/index.js'
import type { Database } from '../../libs/db/index.js'
import {
  beginOutboxDispatch,
  cancelOutboxItem,
  enqueuePaymentOutbox,
  OutboxRelayer,
  placeOutboxHold,
  type RelayerOptions,
} from '../../libs/outbox/index.js'
import { NotSentError, type RailAnswer } from '../../libs/rails/index.js'
import { LeaseRepairWorker } from '../../libs/repair/index.js'
import { useTestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { openHttpFixture, type HttpFixture } from '../support/httpFixture.js'
import { buildInstruction, claim, enqueue, ledger } from '../support/outboxItems.js'
import { approve, createPerson, propose } from '../support/outboxPeople.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { recordingRail, type RecordingRail } from '../support/relayRail.js'
import { TcpProxy } from '../support/tcpProxy.js'

const db = await useTestDatabase()
let fixture: HttpFixture
beforeAll(async () => {
  // Records an event of every step, so that the ledger names the actor of each.
  await db.queryNoRole('UPDATE symphony_settings SET full_trail = true')
  fixture = await openHttpFixture(db)
})
afterAll(async () => {
  await fixture.close()
})

/** Worker that leases items and dies. Its claims reach no metric, and it records no outcome. */
const DEAD = 'dead'
const REPAIRER = 'repairer'
let relayers = 0

function meteredRelayer(
  rails: readonly RecordingRail[],
  options: RelayerOptions = {},
  database: Database = db.database,
): OutboxRelayer {
  const loaded = new Map(rails.flatMap((rail) => [...rail.rails]))
  const workerId = `relayer-${(relayers += 1)}`
  return new OutboxRelayer(database, loaded, { workerId, ...options }, fixture.metrics.outbox.onRelayerEvent)
}

/** Returns a rail function that gives the answers in turn, then success. */
function answering(...answers: (RailAnswer | Error)[]): (request: { readonly reference: string }) => RailAnswer {
  return ({ reference }) => {
    const answer = answers.shift() ?? { outcome: 'success', reference: `paid-${reference}` }
    if (answer instanceof Error) throw answer
    return answer
  }
}

async function enqueueMany(railType: string, count: number, payload = {}): Promise<string[]> {
  const items = await Promise.all(Array.from({ length: count }, () => enqueue(db, { railType, payload })))
  return items.map(({ outboxId }) => outboxId)
}

/** Enqueues items and leases them to the dead worker. With `begun`, also sets their dispatch marks. */
async function enqueueAbandoned(railType: string, count: number, begun = false): Promise<void> {
  await enqueueMany(railType, count)
  const leases = await claim(db, railType, { workerId: DEAD, marked: begun })
  for (const lease of leases) {
    if (begun) await beginOutboxDispatch(db.as('symphony_executor'), lease, DEAD)
    await db.expireLease(lease.outboxId)
  }
}

async function makeAllDue(): Promise<void> {
  await db.queryNoRole(`UPDATE payment_outbox_pending SET next_attempt_at = clock_timestamp() - interval '1 second'`)
}

/** Reads /metrics as Prometheus does: the name with labels and the value of each line. */
async function scrape(): Promise<Map<string, number>> {
  const page = await (await fixture.call('/metrics')).text()
  const lines = page.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]))
}

/** Computes the expected value of each metric from the ledger, the queue and the events. */
async function countLedger(): Promise<Record<string, number>> {
  const { rows } = await db.queryNoRole<{ name: string; value: number }>(
    `WITH attempt AS (
       SELECT a.*, CASE WHEN i.is_message THEN 'message' ELSE 'payment' END AS kind
       FROM payment_outbox_attempts a JOIN payment_outbox_identities i USING (outbox_id) WHERE a.worker_id IS NOT NULL
     ), pending AS (
       SELECT p.*, CASE WHEN p.is_message THEN 'message' ELSE 'payment' END AS kind FROM payment_outbox_pending p
     )
     SELECT name, value::int FROM (
       SELECT format('attempts_total{state="%s",kind="%s"}', state, kind) AS name, count(*) AS value FROM attempt
         GROUP BY state, kind
       UNION ALL SELECT format('time_to_terminal_seconds_count{rail="%s",state="%s"}', rail_type, state), count(*) FROM attempt
         WHERE state IN ('DISPATCHED', 'FAILED') AND claimed_at IS NOT NULL GROUP BY rail_type, state
       -- Omits takeovers and claims after a repair: their wait includes the expired lease and is no claim lag.
       UNION ALL SELECT 'claim_lag_seconds_count', count(*) FROM payment_outbox_events claimed
         WHERE claimed.event_type = 'LEASE_CLAIMED' AND claimed.actor LIKE 'relayer-%' AND 'LEASE_EXPIRED_REPAIRED' IS DISTINCT FROM (
           SELECT before.event_type FROM payment_outbox_events before
           WHERE before.outbox_id = claimed.outbox_id AND before.event_no < claimed.event_no
             AND before.event_type IN ('LEASE_EXPIRED_REPAIRED', 'ATTEMPT_COMPLETED')
           ORDER BY before.event_no DESC LIMIT 1)
       UNION ALL SELECT format('reaper_requeues_total{kind="%s"}', kind), count(*) FROM attempt
         WHERE state = 'ZOMBIE_REQUEUE' GROUP BY kind
       UNION ALL SELECT 'repair_requeued_count', count(*) FROM payment_outbox_events
         WHERE event_type = 'LEASE_EXPIRED_REPAIRED' AND actor = $1
       -- A worker that is alive reports each of its expired leases as lost.
       UNION ALL SELECT 'lease_lost_count', count(*) FROM attempt
         WHERE state = 'ZOMBIE_REQUEUE' AND worker_id LIKE 'relayer-%'
       -- A TERMINAL_BLOCKED event by the worker of its attempt comes from a completion. One by another actor is a late
       -- outcome.
       UNION ALL SELECT 'late_outcomes_total', count(*) FROM payment_outbox_events e
         LEFT JOIN payment_outbox_attempts a ON a.attempt_id = e.attempt_id
         WHERE e.event_type = 'LATE_OUTCOME' OR (e.event_type = 'TERMINAL_BLOCKED' AND a.worker_id <> e.actor)
       UNION ALL SELECT 'outbox_contradictions_unreviewed', count(*) FROM payment_outbox_events
         WHERE event_type = 'TERMINAL_BLOCKED'
       UNION ALL SELECT 'terminal_blocked_total', count(*) FROM payment_outbox_events WHERE event_type = 'TERMINAL_BLOCKED'
       UNION ALL SELECT 'holds placed', count(*) FROM payment_outbox_events
         WHERE event_type = 'HOLD_PLACED' AND (actor LIKE 'relayer-%' OR actor = $1)
       UNION ALL SELECT 'claim_batches_total', count(DISTINCT (actor, detail ->> 'lease_expires_at'))
         FROM payment_outbox_events WHERE event_type = 'LEASE_CLAIMED' AND actor LIKE 'relayer-%'
       UNION ALL SELECT format('dlq_depth{kind="%s"}', kind), count(*) FROM attempt WHERE state = 'FAILED' GROUP BY kind
       UNION ALL SELECT format('cancelled_total{kind="%s"}', kind), count(*) FROM attempt WHERE action = 'cancelled'
         GROUP BY kind
       UNION ALL SELECT format('outbox_pending_depth{kind="%s"}', kind), count(*) FROM pending GROUP BY kind
       UNION ALL SELECT format('outbox_held_count{kind="%s"}', kind), count(*) FROM pending
         WHERE hold_reason IS NOT NULL AND lease_token IS NULL GROUP BY kind
       UNION ALL SELECT format('outbox_held_by_reason{reason="%s"}', hold_reason), count(*) FROM payment_outbox_pending
         WHERE hold_reason IS NOT NULL AND lease_token IS NULL GROUP BY hold_reason
       UNION ALL SELECT format('outbox_outcome_unknown_count{kind="%s"}', kind), count(*) FROM pending
         WHERE outcome_unknown GROUP BY kind
       UNION ALL SELECT format('outbox_leased_count{kind="%s"}', kind), count(*) FROM pending
         WHERE lease_expires_at > now() GROUP BY kind
       UNION ALL SELECT format('%s{kind="%s"}', expired.name, kind), count(*) FROM pending,
         (VALUES ('expired_lease_count'), ('stuck_dispatching_count')) AS expired(name)
         WHERE lease_expires_at <= now() GROUP BY 1
     ) figure`,
    [REPAIRER],
  )
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]))
}

test('/metrics shows the same counts as the ledger after each kind of outcome', async () => {
  const busy: RailAnswer = { outcome: 'retryable', code: 'BUSY' }
  const closed: RailAnswer = { outcome: 'terminal', code: 'CLOSED' }
  const rails = {
    plain: recordingRail({ type: 'plain' }, answering(closed, closed, closed, busy, busy, new Error('reset'))),
    checked: recordingRail({ type: 'checked', money: true }),
    coded: recordingRail(
      { type: 'coded', codes: { BUSY: 'retryable' } },
      answering({ outcome: 'terminal', code: 'X9' }),
    ),
    held: recordingRail({ type: 'held', onUnknown: 'hold' }, answering(new Error('reset'), new Error('reset'))),
    asked: recordingRail(
      { type: 'asked', onUnknown: 'inquire', queryStatus: () => ({ outcome: 'success', reference: 'found' }) },
      answering(new Error('reset')),
    ),
  }
  const main = meteredRelayer(Object.values(rails), { concurrency: 50 })

  // Outcomes of the 12 items of the rail `plain`: 3 FAILED, 3 RETRYABLE (one of unknown outcome) and 6 DISPATCHED.
  // Outcomes of the other items: 2 FAILED without a call, one with a code that the rail does not list, 2 held, one
  // inquired later.
  await enqueueMany('plain', 12)
  await enqueueMany('checked', 2, { amount: '0', currency: 'EUR', destination: 'X' })
  await enqueueMany('coded', 1)
  await enqueueMany('held', 2)
  await enqueueMany('asked', 1)
  await main.runOnce()
  await makeAllDue()
  await main.runOnce()
  // Expired leases: 3 taken over and sent, 2 taken over and held, 4 repaired and sent, 1 repaired and held.
  // A round dispatches one quarantined item per rail.
  await enqueueAbandoned('plain', 3)
  for (let round = 0; round < 3; round += 1) await main.runOnce()
  await enqueueAbandoned('held', 2, true)
  await main.runOnce()
  await enqueueAbandoned('plain', 4)
  await enqueueAbandoned('held', 1, true)
  await new LeaseRepairWorker(
    db.as('symphony_executor'),
    { workerId: REPAIRER },
    fixture.metrics.outbox.onRepairEvent,
  ).runOnce()
  await makeAllDue()
  for (let round = 0; round < 4; round += 1) await main.runOnce()

  const called: RecordingRail[] = Object.values(rails)
  called.push(
    await loseLeasesAtCompletion(2),
    await loseLeaseAtRenewal(),
    await contradictTerminalOutcome(),
    await contradictALateOutcome(),
  )
  called.push(await loseAnAnswer(), await openABreaker(3), await hearNotifications(3), await attemptSecondTerminal())
  await decideByPeople()
  await enqueuePaymentOutbox(db.as('symphony_ingest'), buildInstruction(), { isMessage: true })
  const [unsent = ''] = await enqueueMany('unserved', 1)
  await cancelOutboxItem(db.as('symphony_ingest'), unsent, 'not needed')

  const page = await scrape()
  const counted = await countLedger()
  const shown = Object.fromEntries(Object.keys(counted).map((name) => [name, page.get(name)]))
  const holds = [...page]
    .filter(([name]) => name.startsWith('holds_placed_total'))
    .reduce((sum, [, value]) => sum + value, 0)
  expect({ ...shown, 'holds placed': holds }).toEqual(counted)
  // Checks that the run produced these counts. Otherwise the comparison above could compare zero with zero.
  expect(counted).toMatchObject({
    'attempts_total{state="FAILED",kind="payment"}': 3 + 2 + 1 + 1 + 1,
    'attempts_total{state="RETRYABLE",kind="payment"}': 3 + 1 + 2 + 1 + 3,
    'attempts_total{state="ZOMBIE_REQUEUE",kind="payment"}': 3 + 2 + 4 + 1 + 2 + 1 + 1 + 1 + 1,
    'reaper_requeues_total{kind="payment"}': 16,
    repair_requeued_count: 5,
    lease_lost_count: 5,
    late_outcomes_total: 4,
    terminal_blocked_total: 2,
    outbox_contradictions_unreviewed: 2,
    'holds placed': 5,
    'outbox_held_by_reason{reason="OUTCOME_UNKNOWN"}': 5,
    'time_to_terminal_seconds_count{rail="plain",state="FAILED"}': 3,
    'dlq_depth{kind="payment"}': 8,
    'cancelled_total{kind="payment"}': 1,
    'expired_lease_count{kind="payment"}': 1,
    'stuck_dispatching_count{kind="payment"}': 1,
    'outbox_held_count{kind="payment"}': 5,
    'outbox_pending_depth{kind="message"}': 1,
  })
  for (const { rails: loaded, calls } of called) {
    const [railType = ''] = loaded.keys()
    const answers = [...page].filter(([name]) => name.startsWith(`rail_answers_total{rail="${railType}"`))
    expect([railType, page.get(`dispatch_latency_ms_count{rail="${railType}"}`) ?? 0]).toEqual([railType, calls.length])
    expect([railType, answers.reduce((sum, [, value]) => sum + value, 0)]).toEqual([railType, calls.length])
    const successes = page.get(`rail_answers_total{rail="${railType}",answer="success"}`) ?? 0
    const errors = [...page].filter(([name]) => name.startsWith(`rail_errors_total{rail="${railType}"`))
    expect([railType, errors.reduce((sum, [, value]) => sum + value, successes)]).toEqual([railType, calls.length])
    expect([railType, page.get(`rail_calls_in_flight{rail="${railType}"}`)]).toEqual([railType, 0])
  }
  const unknown = [...page].filter(([name]) => name.includes('answer="unknown"'))
  expect(Object.fromEntries(unknown)).toEqual({
    'rail_answers_total{rail="plain",answer="unknown"}': 1,
    'rail_answers_total{rail="coded",answer="unknown"}': 1,
    'rail_answers_total{rail="held",answer="unknown"}': 2,
    'rail_answers_total{rail="asked",answer="unknown"}': 1,
    'rail_answers_total{rail="renewed",answer="unknown"}': 1,
  })
  expect(page.get('rail_unknown_codes_total{rail="coded"}')).toBe(1)
  expect(page.get('rail_errors_total{rail="coded",error="RAIL_CODE_NOT_LISTED"}')).toBe(1)
  expect(page.get('rail_errors_total{rail="plain",error="terminal"}')).toBe(3)
  expect(page.get('rail_errors_total{rail="plain",error="RAIL_THREW"}')).toBe(1)
  expect(page.get('rail_errors_total{rail="down",error="RAIL_NOT_SENT"}')).toBe(3)
  expect(page.get('rail_breaker_open{rail="down"}')).toBe(1)
  expect(page.get('notify_wakeups_total')).toBe(3)
  expect(page.get('terminal_guard_hit_count')).toBe(1)
  expect(page.get('oldest_pending_age_seconds{kind="payment"}')).toBeGreaterThan(0)
})

test('notify_wakeups_total counts wakeups after the debounce, not each notification', async () => {
  const before = (await scrape()).get('notify_wakeups_total') ?? 0
  const opened = gate()
  const rail = recordingRail({ type: 'burst' }, async ({ reference }) => {
    await opened.opened
    return { outcome: 'success', reference }
  })
  const relayer = meteredRelayer([rail], { poll: false, debounceMs: 500, concurrency: 50 })
  await relayer.start()
  // The first item keeps the worker busy. Each further enqueue is one notification.
  for (let sent = 0; sent < 20; sent += 1) await enqueueMany('burst', 1)
  opened.open()
  await expect.poll(() => rail.calls.length, POLL_OPTIONS).toBe(20)
  await relayer.stop()
  const wakeups = ((await scrape()).get('notify_wakeups_total') ?? 0) - before
  expect(wakeups).toBeGreaterThan(0)
  expect(wakeups).toBeLessThan(20)
})

/** Expires the lease during the call. The late outcome is recorded, and the next claim completes the item with it. */
async function loseLeasesAtCompletion(count: number): Promise<RecordingRail> {
  const rail = recordingRail({ type: 'late' }, async ({ reference }) => {
    await db.expireLease(reference)
    return { outcome: 'success', reference: `paid-${reference}` }
  })
  await enqueueMany('late', count)
  const relayer = meteredRelayer([rail])
  expect(await relayer.runOnce()).toMatchObject({ leasesLost: count })
  // Each round dispatches one quarantined item of a rail.
  for (let left = count; left > 0; left -= 1) expect(await relayer.runOnce()).toMatchObject({ dispatched: 1 })
  return rail
}

/**
 * Expires the lease, so that a renewal aborts the call. The failed completion does not count as a second lost lease.
 */
async function loseLeaseAtRenewal(): Promise<RecordingRail> {
  let lost = false
  const rail = recordingRail({ type: 'renewed' }, async ({ reference }, signal) => {
    if (lost) return { outcome: 'success', reference }
    lost = true
    await db.expireLease(reference)
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))))
  })
  await enqueueMany('renewed', 1)
  const relayer = meteredRelayer([rail], { leaseSeconds: 1 })
  expect(await relayer.runOnce()).toMatchObject({ leasesLost: 1 })
  expect(await relayer.runOnce()).toMatchObject({ dispatched: 1 })
  return rail
}

/** Expires the lease of a worker that waits for its answer. Meanwhile another worker gets a different answer. */
async function contradictTerminalOutcome(): Promise<RecordingRail> {
  const rail = recordingRail({ type: 'contradicted' }, async ({ reference, attempt }) => {
    if (attempt > 1) return { outcome: 'terminal', code: 'CLOSED' }
    await db.expireLease(reference)
    await meteredRelayer([rail]).runOnce()
    return { outcome: 'success', reference: `paid-${reference}` }
  })
  await enqueueMany('contradicted', 1)
  expect(await meteredRelayer([rail]).runOnce()).toMatchObject({ leasesLost: 1 })
  return rail
}

/** Reports a late success while the next holder is about to record another reference. */
async function contradictALateOutcome(): Promise<RecordingRail> {
  let first: Promise<unknown> | undefined
  let release: (() => void) | undefined
  const rail = recordingRail({ type: 'paid-twice' }, async ({ reference, attempt }) => {
    if (attempt === 1) {
      await db.expireLease(reference)
      const blocked = new Promise<void>((resolve) => (release = resolve))
      second = meteredRelayer([rail]).runOnce()
      await blocked
      return { outcome: 'success', reference: 'ref-1' }
    }
    release?.()
    await first
    return { outcome: 'success', reference: 'ref-2' }
  })
  let second: Promise<unknown> | undefined
  await enqueueMany('paid-twice', 1)
  first = meteredRelayer([rail]).runOnce()
  expect(await first).toMatchObject({ leasesLost: 1 })
  expect(await second).toMatchObject({ dispatched: 1 })
  return rail
}

/** Loses the answer to a completion that the server commits. */
async function loseAnAnswer(): Promise<RecordingRail> {
  const { url } = await db.createLogin('cut', { roles: ['symphony_executor'] })
  const proxy = await TcpProxy.before(url)
  const through = new URL(url)
  through.port = String(proxy.port)
  const database = openDatabase({ url: through.href, schema: db.schema })
  onTestFinished(async () => {
    await database.close()
    await proxy.close()
  })
  // A lock on the row delays the completion until the proxy drops the answers.
  const holder = await db.connect()
  const rail = recordingRail({ type: 'unheard' }, async ({ reference }) => {
    await holder.query('BEGIN')
    await holder.query('SELECT FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [reference])
    return { outcome: 'success', reference: `paid-${reference}` }
  })
  const [outboxId = ''] = await enqueueMany('unheard', 1)
  const round = meteredRelayer([rail], {}, database).runOnce()
  const countWaiting = `SELECT count(*)::int AS waiting FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'`
  await expect.poll(async () => (await db.queryNoRole(countWaiting)).rows, POLL_OPTIONS).toEqual([{ waiting: 1 }])
  proxy.traffic = 'answers vanish'
  await holder.query('COMMIT')
  await expect.poll(() => ledger(db, outboxId), POLL_OPTIONS).toEqual(['1 DISPATCHED'])
  proxy.traffic = 'flows'
  proxy.cut()
  expect(await round).toMatchObject({ dispatched: 1, leasesLost: 0 })
  return rail
}

async function openABreaker(failures: number): Promise<RecordingRail> {
  const rail = recordingRail({ type: 'down' }, () => {
    throw new NotSentError('connection refused')
  })
  await enqueueMany('down', failures)
  await meteredRelayer([rail], { breakerFailures: failures, breakerOpenMs: 600_000 }).runOnce()
  return rail
}

async function hearNotifications(count: number): Promise<RecordingRail> {
  const rail = recordingRail({ type: 'heard' })
  const relayer = meteredRelayer([rail], { poll: false })
  await relayer.start()
  for (let heard = 0; heard < count; heard += 1) {
    const [outboxId = ''] = await enqueueMany('heard', 1)
    await expect.poll(() => ledger(db, outboxId), POLL_OPTIONS).toEqual(['1 DISPATCHED'])
  }
  await relayer.stop()
  return rail
}

/**
 * Lets two people decide an item with an expired lease. The ledger gets a row for the lease and one for the decision.
 */
async function decideByPeople(): Promise<void> {
  const olga = await createPerson(db, 'olga')
  const pavel = await createPerson(db, 'pavel')
  const [outboxId = ''] = await enqueueMany('decided', 1)
  await claim(db, 'decided', { workerId: DEAD })
  await placeOutboxHold(olga.control, outboxId, 'please wait')
  await db.expireLease(outboxId)
  await approve(pavel, await propose(olga, outboxId, 'FAILED'))
  expect(await ledger(db, outboxId)).toEqual(['1 ZOMBIE_REQUEUE', '2 FAILED'])
}

/** Inserts a terminal attempt as a superuser. The unique index refuses the second one, and the item stays pending. */
async function attemptSecondTerminal(): Promise<RecordingRail> {
  const rail = recordingRail({ type: 'guarded' })
  const [outboxId = ''] = await enqueueMany('guarded', 1)
  await db.queryNoRole(
    `INSERT INTO payment_outbox_attempts (attempt_id, outbox_id, instruction_id, participant_id, sequence_id,
       idempotency_key, rail_type, payload, attempt_no, state, action, outcome_unknown)
     SELECT gen_random_uuid(), outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, 1,
       'DISPATCHED', 'sent', false
     FROM payment_outbox_pending WHERE outbox_id = $1`,
    [outboxId],
  )
  await meteredRelayer([rail]).runOnce()
  await db.expireLease(outboxId)
  return rail
}
