import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ArgumentRangeError, InvalidArgumentError, type JsonObject } from '../../libs/core/index.js'
import { enqueuePaymentOutbox } from '../../libs/outbox/index.js'
import type { StandardSchema } from '../../libs/rails/index.js'
import {
  abandonTimers,
  ackTimers,
  cancelTimer,
  claimTimers,
  enqueueDueTimers,
  failTimers,
  purgeFinishedTimers,
  readTimer,
  scheduleTimer,
  SchedulerStore,
  type ClaimedTimer,
  type TimerDefinition,
} from '../../libs/scheduler/index.js'
import { useTestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { buildInstruction, enqueue, WORKER } from '../support/outboxItems.js'
import { closeTransactions, openTransaction } from '../support/outboxStream.js'
import { failureOf } from '../support/race.js'
import { createClaimedTimer, createTimer, buildTimerDefinition, onlyOne } from '../support/scheduled.js'

const db = await useTestDatabase()

const ingest = () => db.as('symphony_ingest')
const executor = () => db.as('symphony_executor')

const claim = (topic: string, batchSize = 100, workerId = WORKER) =>
  claimTimers(executor(), batchSize, workerId, 600, { topics: [topic] })

const idsOf = (claims: readonly { readonly timerId: string }[]) => claims.map(({ timerId }) => timerId)

async function stateOf(timerId: string): Promise<string | undefined> {
  return (await readTimer(db.as('symphony_readonly'), timerId))?.state
}

/** Moves the due time of a timer to now plus this interval. */
async function moveTo(timerId: string, interval: string): Promise<void> {
  await db.queryNoRole('UPDATE scheduler_timers SET due_at = clock_timestamp() + $2::interval WHERE timer_id = $1', [
    timerId,
    interval,
  ])
}

async function expire(timerId: string): Promise<void> {
  await db.queryNoRole('UPDATE scheduler_timers SET lease_expires_at = clock_timestamp() WHERE timer_id = $1', [
    timerId,
  ])
}

/** Returns all timers, ordered by id. */
async function allTimers(): Promise<unknown[]> {
  return (await db.queryNoRole('SELECT * FROM scheduler_timers ORDER BY timer_id')).rows
}

/** Returns the message of a timer, if there is one. */
async function items(timerId: string): Promise<unknown[]> {
  const { rows } = await db.queryNoRole(
    `SELECT instruction_id, idempotency_key, participant_id, rail_type, payload
     FROM payment_outbox_pending WHERE instruction_id = $1`,
    [timerId],
  )
  return rows
}

const STRANGER = { timerId: randomUUID(), leaseToken: randomUUID() }

describe('a claim of timers', () => {
  test('PRIM-POSTGRES-SCHED-001 takes a timer at the instant it is due, not before', async () => {
    const { timerId, topic } = await createTimer(db, { dueAt: new Date('2100-01-01T00:00:00Z') })
    expect(await claim(topic)).toEqual([])
    await moveTo(timerId, '1 minute')
    expect(await claim(topic)).toEqual([])
    expect((await enqueueDueTimers(executor(), 1000)).map(({ id }) => id)).not.toContain(timerId)
    expect(await stateOf(timerId)).toBe('READY')
    await moveTo(timerId, '0 seconds')
    expect(idsOf(await claim(topic))).toEqual([timerId])
  })

  test('PRIM-POSTGRES-SCHED-002 takes at most batchSize timers, longest due first; the rest waits', async () => {
    const { topic } = buildTimerDefinition()
    const due = ['2026-01-03', '2026-01-01', '2026-01-04', '2026-01-02', '2026-01-02'].map((day) => new Date(day))
    const made: string[] = []
    for (const dueAt of due) made.push((await createTimer(db, { topic, dueAt })).timerId)
    const inOrder = [1, 3, 4, 0, 2].map((index) => made[index]!)
    const first = await claim(topic, 2)
    expect(idsOf(first)).toEqual(inOrder.slice(0, 2))
    expect(await Promise.all(inOrder.map(stateOf))).toEqual(['CLAIMED', 'CLAIMED', 'READY', 'READY', 'READY'])
    expect(idsOf(await claim(topic, 1000))).toEqual(inOrder.slice(2))
    expect(await claim(topic)).toEqual([])
    expect(first[0]).toMatchObject({ topic, payload: { remind: 'me' }, participantId: null, attemptCount: 1 })
  })

  test.each([0, -1, 1.5, Number.NaN, 1001, Number.POSITIVE_INFINITY])(
    'PRIM-POSTGRES-SCHED-002 refuses a batch size of %s (RangeError) and changes nothing',
    async (batchSize) => {
      await createTimer(db)
      const before = await allTimers()
      expect(await failureOf(claimTimers(executor(), batchSize, WORKER, 60))).toBeInstanceOf(ArgumentRangeError)
      expect(await failureOf(enqueueDueTimers(executor(), batchSize))).toBeInstanceOf(RangeError)
      expect(await failureOf(purgeFinishedTimers(executor(), 60, batchSize))).toBeInstanceOf(RangeError)
      expect(await allTimers()).toEqual(before)
    },
  )

  test('refuses invalid arguments before any query, as do ack, abandon, cancel, purge and schedule', async () => {
    const closed = { query: () => Promise.reject(new Error('asked')) }
    expect(await failureOf(claimTimers(closed, 1, ' ', 60))).toBeInstanceOf(InvalidArgumentError)
    expect(await failureOf(claimTimers(closed, 1, WORKER, 0))).toMatchObject({ argument: 'leaseSeconds' })
    expect(await failureOf(claimTimers(closed, 1, WORKER, 60, { topics: [] }))).toMatchObject({
      argument: 'topics.length',
    })
    expect(await failureOf(claimTimers(closed, 1, WORKER, 60, { topics: [''] }))).toMatchObject({
      argument: 'topics[0]',
    })
    expect(await failureOf(ackTimers(closed, [STRANGER], ''))).toBeInstanceOf(TypeError)
    expect(
      await failureOf(
        ackTimers(
          closed,
          Array.from({ length: 1001 }, () => STRANGER),
          WORKER,
        ),
      ),
    ).toMatchObject({
      argument: 'claims',
    })
    expect(await failureOf(abandonTimers(closed, [STRANGER], WORKER, { retryDelaySeconds: -1 }))).toBeInstanceOf(
      RangeError,
    )
    expect(await failureOf(purgeFinishedTimers(closed, 59, 1))).toMatchObject({ argument: 'retentionSeconds' })
    expect(await failureOf(cancelTimer(closed, 'no-uuid'))).toBeInstanceOf(TypeError)
    const wrong: [object, string][] = [
      [{ topic: '' }, 'topic'],
      [{ payload: [] }, 'payload'],
      [{ dueAt: new Date(Number.NaN) }, 'dueAt'],
      [{ dueAt: '2026-01-01' }, 'dueAt'],
      [{ participantId: ' ' }, 'participantId'],
      [{ delivery: 'pigeon' }, 'delivery'],
      [{ timerId: 'mine' }, 'timerId'],
      [{ timerId: null }, 'timerId'],
    ]
    for (const [overrides, argument] of wrong) {
      expect(await failureOf(scheduleTimer(closed, { ...buildTimerDefinition(), ...overrides }))).toMatchObject({
        argument,
      })
    }
  })

  test('is refused for a participant of outcome messages when scheduled, not when due (22023)', async () => {
    const timer = buildTimerDefinition({ participantId: '~outcomes~1' })
    expect(await failureOf(scheduleTimer(db.as('symphony_ingest'), timer))).toMatchObject({
      sqlstate: '22023',
      message: expect.stringContaining('p_participant_id: expected null'),
    })
  })

  test('is taken over after it expires; the timer keeps its due time and has the expiry as error', async () => {
    const claimed = await createClaimedTimer(db, {}, 'crashed')
    await expire(claimed.timerId)
    const again = onlyOne(await claim(claimed.topic))
    expect(again).toMatchObject({ timerId: claimed.timerId, attemptCount: 2, dueAt: claimed.dueAt })
    expect(again.leaseToken).not.toBe(claimed.leaseToken)
    expect(await ackTimers(executor(), [claimed], 'crashed')).toEqual([])
    expect((await readTimer(db.as('symphony_control'), claimed.timerId))?.error).toBe('the claim of crashed expired')
  })

  test.each<[string, (last: ClaimedTimer) => Promise<unknown>]>([
    ['expires', ({ timerId }) => expire(timerId)],
    ['is abandoned', (last) => abandonTimers(executor(), [last], WORKER)],
  ])('fails the timer if it is the 20th claim and %s', async (_how, end) => {
    const { timerId, topic } = await createTimer(db)
    await db.queryNoRole('UPDATE scheduler_timers SET attempt_count = 19 WHERE timer_id = $1', [timerId])
    const last = onlyOne(await claim(topic))
    expect(last.attemptCount).toBe(20)
    await end(last)
    expect(await claim(topic)).toEqual([])
    expect(await stateOf(timerId)).toBe('FAILED')
  })
})

describe('when a claim of a timer ends,', () => {
  test('PRIM-POSTGRES-SCHED-003 ackTimers by the owner ends the timer as DONE for good', async () => {
    const claimed = await createClaimedTimer(db)
    expect(await ackTimers(executor(), [claimed], WORKER)).toEqual([claimed.timerId])
    const done = await readTimer(db.as('symphony_auditor'), claimed.timerId)
    expect(done).toMatchObject({
      state: 'DONE',
      error: null,
      startedAt: expect.any(Date),
      finishedAt: expect.any(Date),
    })
    expect(await claim(claimed.topic)).toEqual([])
    expect(await ackTimers(executor(), [claimed], WORKER)).toEqual([])
    expect(await abandonTimers(executor(), [claimed], WORKER)).toEqual([])
    expect(await failTimers(executor(), [claimed], WORKER)).toEqual([])
    expect(await cancelTimer(ingest(), claimed.timerId)).toBe(false)
    expect(await stateOf(claimed.timerId)).toBe('DONE')
  })

  test.each([
    ['ack', ackTimers],
    ['abandon', abandonTimers],
    ['fail', failTimers],
  ])('PRIM-POSTGRES-SCHED-003 %s by another worker or with another token changes nothing', async (_verb, end) => {
    const claimed = await createClaimedTimer(db)
    const other = await createClaimedTimer(db, {}, 'worker-2')
    const before = await allTimers()
    const { timerId } = claimed
    expect(await end(executor(), [claimed], 'worker-2')).toEqual([])
    expect(await end(executor(), [{ timerId, leaseToken: randomUUID() }], WORKER)).toEqual([])
    expect(await end(executor(), [{ timerId, leaseToken: other.leaseToken }], WORKER)).toEqual([])
    expect(await end(executor(), [other], WORKER)).toEqual([])
    expect(await end(executor(), [STRANGER], WORKER)).toEqual([])
    expect(await end(executor(), [{ timerId: '', leaseToken: '' }], WORKER)).toEqual([])
    expect(await end(executor(), [], WORKER)).toEqual([])
    expect(await allTimers()).toEqual(before)
    // In a list with claims of others, the worker ends only its own claim, once.
    expect(await end(executor(), [other, STRANGER, claimed, claimed], WORKER)).toEqual([timerId])
    expect(await stateOf(other.timerId)).toBe('CLAIMED')
  })

  test.each([
    ['ack', ackTimers],
    ['abandon', abandonTimers],
    ['fail', failTimers],
  ])(
    'PRIM-POSTGRES-SCHED-003 %s ends only live claims and returns their ids in the given order',
    async (_verb, end) => {
      const first = await createClaimedTimer(db)
      const second = await createClaimedTimer(db)
      const stale = { timerId: second.timerId, leaseToken: randomUUID() }
      expect(await end(executor(), [stale, first, second], WORKER)).toEqual([first.timerId, second.timerId])
    },
  )

  test.each([
    ['ack', ackTimers],
    ['abandon', abandonTimers],
    ['fail', failTimers],
  ])('PRIM-POSTGRES-SCHED-003 %s of an expired claim changes nothing, even before a takeover', async (_verb, end) => {
    const claimed = await createClaimedTimer(db)
    await expire(claimed.timerId)
    expect(await end(executor(), [claimed], WORKER)).toEqual([])
    expect(await stateOf(claimed.timerId)).toBe('CLAIMED')
    const next = onlyOne(await claim(claimed.topic))
    expect(await end(executor(), [claimed], WORKER)).toEqual([])
    expect(await end(executor(), [next], WORKER)).toEqual([claimed.timerId])
  })

  test('PRIM-POSTGRES-SCHED-004 abandonTimers makes a timer claimable at once; its due time stays', async () => {
    const claimed = await createClaimedTimer(db)
    const later = await createTimer(db, { topic: claimed.topic, dueAt: new Date('2026-02-01') })
    expect(await abandonTimers(executor(), [claimed], WORKER, { error: 'busy' })).toEqual([claimed.timerId])
    expect(await readTimer(db.as('symphony_control'), claimed.timerId)).toMatchObject({
      state: 'READY',
      error: 'busy',
      dueAt: claimed.dueAt,
      finishedAt: null,
    })
    const again = await claim(claimed.topic)
    expect(idsOf(again)).toEqual([claimed.timerId, later.timerId])
    expect(again[0]).toMatchObject({ attemptCount: 2 })
  })

  test('PRIM-POSTGRES-SCHED-004 abandonTimers with a delay makes a timer claimable after the delay', async () => {
    const claimed = await createClaimedTimer(db)
    expect(await abandonTimers(executor(), [claimed], WORKER, { retryDelaySeconds: 3600 })).toEqual([claimed.timerId])
    expect(await claim(claimed.topic)).toEqual([])
    await moveTo(claimed.timerId, '0 seconds')
    expect(idsOf(await claim(claimed.topic))).toEqual([claimed.timerId])
  })

  test('PRIM-POSTGRES-SCHED-004 a cancelled timer is not abandoned, claimed or enqueued', async () => {
    const claimed = await createClaimedTimer(db)
    expect(await cancelTimer(ingest(), claimed.timerId)).toBe(true)
    expect(await abandonTimers(executor(), [claimed], WORKER)).toEqual([])
    expect(await ackTimers(executor(), [claimed], WORKER)).toEqual([])
    const { timerId, topic } = await createTimer(db)
    expect(await cancelTimer(ingest(), timerId)).toBe(true)
    expect(await cancelTimer(ingest(), timerId)).toBe(false)
    expect(await cancelTimer(ingest(), randomUUID())).toBe(false)
    expect([...(await claim(topic)), ...(await claim(claimed.topic))]).toEqual([])
    await enqueueDueTimers(executor(), 1000)
    expect([await stateOf(timerId), await stateOf(claimed.timerId)]).toEqual(['CANCELLED', 'CANCELLED'])
  })

  test('failTimers ends a timer as FAILED for good, with the error', async () => {
    const claimed = await createClaimedTimer(db)
    expect(await failTimers(executor(), [claimed], WORKER, 'no such person')).toEqual([claimed.timerId])
    expect(await readTimer(db.as('symphony_control'), claimed.timerId)).toMatchObject({
      state: 'FAILED',
      error: 'no such person',
      finishedAt: expect.any(Date),
    })
    expect(await claim(claimed.topic)).toEqual([])
  })
})

describe('enqueueDueTimers', () => {
  // Enqueues timers that other tests left due.
  beforeEach(async () => {
    await enqueueDueTimers(executor(), 1000)
  })

  test('enqueues a due timer once under its id, with its topic and payload', async () => {
    const { timerId, topic } = await createTimer(db, { payload: { amount: '12.50' } })
    const given = await createTimer(db, { topic, participantId: 'ACME' })
    const enqueued = (await enqueueDueTimers(executor(), 1000)).filter((one) => one.topic === topic)
    expect(enqueued.map(({ id }) => id)).toEqual([timerId, given.timerId])
    expect(await items(timerId)).toEqual([
      {
        instruction_id: timerId,
        idempotency_key: timerId,
        participant_id: timerId,
        rail_type: topic,
        payload: { amount: '12.50' },
      },
    ])
    expect(await items(given.timerId)).toMatchObject([{ participant_id: 'ACME' }])
    expect(await readTimer(db.as('symphony_readonly'), timerId)).toMatchObject({
      state: 'ENQUEUED',
      outboxId: enqueued[0]!.outboxId,
      finishedAt: expect.any(Date),
    })
    expect(await enqueueDueTimers(executor(), 1000)).toEqual([])
    expect(await claim(topic)).toEqual([])
    expect(await cancelTimer(ingest(), timerId)).toBe(false)
  })

  test('sets the state of a timer and enqueues its message in one transaction', async () => {
    const { timerId, topic } = await createTimer(db)
    const crash = new Error('crash')
    const undone = executor().transaction(async (tx) => {
      expect(await enqueueDueTimers(tx, 1000)).toMatchObject([{ id: timerId, topic }])
      throw crash
    })
    expect(await failureOf(undone)).toBe(crash)
    expect([await stateOf(timerId), await items(timerId)]).toEqual(['READY', []])
    expect(await enqueueDueTimers(executor(), 1000)).toMatchObject([{ id: timerId }])
    expect(await items(timerId)).toHaveLength(1)
  })

  test('enqueues no second message for a timer that was reset by hand', async () => {
    const { timerId } = await createTimer(db)
    const [first] = await enqueueDueTimers(executor(), 1000)
    await db.queryNoRole(
      `UPDATE scheduler_timers SET state = 'READY', outbox_id = NULL, finished_at = NULL WHERE timer_id = $1`,
      [timerId],
    )
    const [second] = await enqueueDueTimers(executor(), 1000)
    expect(second).toEqual(first)
    expect(await items(timerId)).toHaveLength(1)
  })

  test('takes at most the batch size, longest due first, and no timer with delivery: claim', async () => {
    const { topic } = buildTimerDefinition()
    const waiting = await createTimer(db, { topic, delivery: 'claim', dueAt: new Date('2025-01-01') })
    const third = await createTimer(db, { topic, dueAt: new Date('2025-01-04') })
    const first = await createTimer(db, { topic, dueAt: new Date('2025-01-02') })
    const second = await createTimer(db, { topic, dueAt: new Date('2025-01-03') })
    expect((await enqueueDueTimers(executor(), 2)).map(({ id }) => id)).toEqual([first.timerId, second.timerId])
    expect((await enqueueDueTimers(executor(), 2)).map(({ id }) => id)).toEqual([third.timerId])
    expect(idsOf(await claim(topic))).toEqual([waiting.timerId])
  })

  test('enqueues a timer with delivery: outbox after its claim has expired', async () => {
    const claimed = await createClaimedTimer(db)
    expect(await enqueueDueTimers(executor(), 1000)).toEqual([])
    await expire(claimed.timerId)
    expect(await enqueueDueTimers(executor(), 1000)).toMatchObject([{ id: claimed.timerId }])
  })

  test('fails only the timer that the outbox refuses, with the error', async () => {
    const { topic } = buildTimerDefinition()
    const good = await createTimer(db, { topic })
    const bad = await createTimer(db, { topic })
    const other = await createTimer(db, { topic })
    // Another caller has used the id for another instruction.
    await enqueue(db, { instructionId: bad.timerId, idempotencyKey: bad.timerId })
    const results = await enqueueDueTimers(executor(), 1000)
    // Before PostgreSQL 18, ids of one millisecond have no order.
    expect(Object.fromEntries(results.map(({ id, outboxId }) => [id, outboxId !== null]))).toEqual({
      [good.timerId]: true,
      [bad.timerId]: false,
      [other.timerId]: true,
    })
    expect(await readTimer(db.as('symphony_control'), bad.timerId)).toMatchObject({
      state: 'FAILED',
      error: expect.stringMatching(/^refused by the outbox: .*already stand for another/),
    })
  })
})

const dueIn = (year: number) => new Date(`${year}-01-01`)
const participantName = () => `participant-${randomUUID()}`

/** Enqueues for these participants in a transaction that stays open. */
async function hold(...participantIds: readonly string[]) {
  const transaction = await openTransaction(db, 'symphony_ingest')
  for (const participantId of participantIds) {
    await enqueuePaymentOutbox(transaction, buildInstruction({ participantId }))
  }
  return transaction
}

const enqueueDue = async (batchSize: number) => (await enqueueDueTimers(executor(), batchSize)).map(({ id }) => id)

describe('enqueue_due_timers, while an application transaction holds a participant,', () => {
  afterEach(() => closeTransactions())

  test('leaves out only its timers, also those at the head of the queue, until it is released', async () => {
    const [held, alsoHeld, free] = [participantName(), participantName(), participantName()]
    for (const participantId of [held, alsoHeld, free]) await enqueue(db, { participantId })
    const first = await createTimer(db, { participantId: held, dueAt: dueIn(2021) })
    const second = await createTimer(db, { participantId: held, dueAt: dueIn(2022) })
    const third = await createTimer(db, { participantId: alsoHeld, dueAt: dueIn(2023) })
    const others = [
      await createTimer(db, { participantId: free, dueAt: dueIn(2024) }),
      await createTimer(db, { dueAt: dueIn(2025) }),
      await createTimer(db, { participantId: participantName(), dueAt: dueIn(2026) }),
    ]
    const transaction = await hold(held, alsoHeld)
    expect(await enqueueDue(1)).toEqual(idsOf(others.slice(0, 1)))
    expect(await enqueueDue(1000)).toEqual(idsOf(others.slice(1)))
    expect(await enqueueDue(1000)).toEqual([])
    expect(await stateOf(first.timerId)).toBe('READY')
    await transaction.query('COMMIT')
    expect(await enqueueDue(1000)).toEqual(idsOf([first, second, third]))
  })

  test('leaves out only timers of new participants, if it is the first enqueue of one', async () => {
    const [held, known] = [participantName(), participantName()]
    await enqueue(db, { participantId: known })
    const waiting = await createTimer(db, { participantId: held, dueAt: dueIn(2021) })
    const others = [
      await createTimer(db, { participantId: known, dueAt: dueIn(2022) }),
      await createTimer(db, { dueAt: dueIn(2023) }),
    ]
    const transaction = await hold(held)
    expect(await enqueueDue(1000)).toEqual(idsOf(others))
    await transaction.query('ROLLBACK')
    expect(await enqueueDue(1000)).toEqual([waiting.timerId])
  })

  test('fails if something other than a participant is locked (55P03)', async () => {
    const { participantId } = await enqueue(db)
    const { timerId } = await createTimer(db, { participantId })
    const transaction = await openTransaction(db)
    await transaction.query('LOCK TABLE payment_outbox_pending IN EXCLUSIVE MODE')
    expect(await failureOf(enqueueDue(1000))).toMatchObject({ sqlstate: '55P03' })
    await transaction.query('ROLLBACK')
    expect(await enqueueDue(1000)).toEqual([timerId])
  })

  test('keeps the lock_timeout of its transaction', async () => {
    await createTimer(db)
    const transaction = await openTransaction(db, 'symphony_executor')
    await enqueueDueTimers(transaction, 1000)
    expect((await transaction.query('SHOW lock_timeout')).rows).toEqual([{ lock_timeout: '20s' }])
  })
})

describe('scheduleTimer with a timerId', () => {
  test('returns the first timer for the same content, and one message is enqueued', async () => {
    const timer = buildTimerDefinition({ timerId: randomUUID(), participantId: 'acme' })
    expect(await scheduleTimer(ingest(), timer)).toBe(timer.timerId)
    expect(await scheduleTimer(ingest(), timer)).toBe(timer.timerId)
    expect(await readTimer(db.as('symphony_readonly'), timer.timerId!)).toMatchObject({
      state: 'READY',
      dueAt: timer.dueAt,
    })
    await enqueueDueTimers(executor(), 1000)
    expect(await scheduleTimer(ingest(), { ...timer, timerId: timer.timerId!.toUpperCase() })).toBe(timer.timerId)
    expect(await stateOf(timer.timerId!)).toBe('ENQUEUED')
    expect(await items(timer.timerId!)).toHaveLength(1)
  })

  test('does not revive a cancelled timer', async () => {
    const timer = buildTimerDefinition({ timerId: randomUUID() })
    await scheduleTimer(ingest(), timer)
    await cancelTimer(ingest(), timer.timerId!)
    expect(await scheduleTimer(ingest(), timer)).toBe(timer.timerId)
    expect(await stateOf(timer.timerId!)).toBe('CANCELLED')
  })

  test.each<[string, (timer: TimerDefinition) => TimerDefinition]>([
    ['topic', (timer) => ({ ...timer, topic: 'another' })],
    ['participant', (timer) => ({ ...timer, participantId: 'another' })],
    ['missing participant', ({ timerId = '', topic, payload, dueAt }) => ({ timerId, topic, payload, dueAt })],
    ['payload', (timer) => ({ ...timer, payload: { remind: 'them' } })],
    ['delivery', (timer) => ({ ...timer, delivery: 'claim' })],
    ['time', (timer) => ({ ...timer, dueAt: new Date(timer.dueAt.getTime() + 1) })],
  ])('refuses other content under a known timerId: %s (P7004)', async (_what, changed) => {
    const timer = buildTimerDefinition({ timerId: randomUUID(), participantId: 'acme' })
    await scheduleTimer(ingest(), timer)
    const before = await allTimers()
    expect(await failureOf(scheduleTimer(ingest(), changed(timer)))).toMatchObject({
      code: 'IDEMPOTENCY_CONFLICT',
      sqlstate: 'P7004',
    })
    expect(await allTimers()).toEqual(before)
  })

  test('compares the original due time, not one that abandonTimers moved', async () => {
    const claimed = await createClaimedTimer(db, { timerId: randomUUID() })
    await abandonTimers(executor(), [claimed], WORKER, { retryDelaySeconds: 3600 })
    const { timerId, topic, payload } = claimed
    const again = { timerId, topic, payload, dueAt: claimed.dueAt }
    expect(await scheduleTimer(ingest(), again)).toBe(timerId)
    expect(await failureOf(scheduleTimer(ingest(), { ...again, payload: {} }))).toMatchObject({ sqlstate: 'P7004' })
  })
})

test('scheduleTimer commits or rolls back with its transaction', async () => {
  const client = await db.connect('symphony_ingest')
  const tx = {
    schema: db.schema,
    query: (text: string, values?: readonly unknown[]) => client.query<never>(text, [...(values ?? [])]),
  }
  await client.query('BEGIN')
  const gone = await scheduleTimer(tx, buildTimerDefinition())
  await client.query('ROLLBACK')
  await client.query('BEGIN')
  const kept = await scheduleTimer(tx, buildTimerDefinition())
  await client.query('COMMIT')
  expect([await stateOf(gone), await stateOf(kept)]).toEqual([undefined, 'READY'])
})

test('scheduleTimer refuses a transaction that ended while the schema of the topic was checked', async () => {
  const checked = gate()
  const validate = async (value: unknown) => {
    await checked.opened
    return { value }
  }
  const reminder: StandardSchema<JsonObject> = { '~standard': { version: 1, vendor: 'test', validate } }
  const store = new SchedulerStore(db.database, { topics: { reminder } })
  const dueAt = new Date()
  const client = await db.connect('symphony_ingest')
  await client.query('BEGIN')
  const scheduling = failureOf(store.scheduleTimer({ topic: 'reminder', payload: {}, dueAt }, { tx: client }))
  await client.query('ROLLBACK')
  checked.open()
  expect(await scheduling).toMatchObject({ message: expect.stringContaining('a pg client outside a transaction') })
  expect((await db.queryNoRole(`SELECT FROM scheduler_timers WHERE topic = 'reminder'`)).rows).toEqual([])
})

test('purgeFinishedTimers deletes timers finished before the retention time, in batches', async () => {
  const { topic } = buildTimerDefinition()
  const pending = await createTimer(db, { topic })
  const ended: string[] = []
  for (const seconds of [61, 59, 3600, 86_400]) {
    const { timerId } = await createTimer(db, { topic })
    await cancelTimer(ingest(), timerId)
    await db.queryNoRole(
      `UPDATE scheduler_timers SET finished_at = clock_timestamp() - make_interval(secs => $2) WHERE timer_id = $1`,
      [timerId, seconds],
    )
    ended.push(timerId)
  }
  expect(await purgeFinishedTimers(executor(), 60, 1)).toBe(1)
  expect(await Promise.all(ended.map(stateOf))).toEqual(['CANCELLED', 'CANCELLED', 'CANCELLED', undefined])
  expect(await purgeFinishedTimers(executor(), 60, 1000)).toBe(2)
  expect(await purgeFinishedTimers(executor(), 60, 1000)).toBe(0)
  expect(await Promise.all(ended.map(stateOf))).toEqual([undefined, 'CANCELLED', undefined, undefined])
  expect(await stateOf(pending.timerId)).toBe('READY')
})

test('a timer due within a minute notifies schedulers; a later one does not', async () => {
  const listener = await db.connect()
  const received: string[] = []
  listener.on('notification', ({ channel }) => received.push(channel))
  await listener.query('LISTEN scheduler_changed')
  const after = async (work: Promise<unknown>) => {
    await work
    // The result of a query arrives after notifications committed before the query.
    await listener.query('SELECT 1')
    return received.splice(0).length
  }
  expect(await after(createTimer(db, { dueAt: new Date() }))).toBe(1)
  expect(await after(createTimer(db, { dueAt: new Date('2100-01-01') }))).toBe(0)
  const claimed = await createClaimedTimer(db, { dueAt: new Date('2026-01-01') })
  await after(Promise.resolve())
  expect(await after(abandonTimers(executor(), [claimed], WORKER))).toBe(1)
  await db.queryNoRole('UPDATE symphony_settings SET notify_enabled = false')
  expect(await after(createTimer(db, { dueAt: new Date() }))).toBe(0)
  await db.queryNoRole('UPDATE symphony_settings SET notify_enabled = true')
})
