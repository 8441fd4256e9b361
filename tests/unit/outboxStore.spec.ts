import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  claimOutboxBatch,
  completeOutboxAttempts,
  OutboxRelayer,
  OutboxStore,
  topicRails,
  type ClaimedMessage,
  type Message,
} from '../../libs/outbox/index.js'
import type { JsonObject } from '../../libs/core/index.js'
import { loadRails } from '../../libs/rails/index.js'
import { enqueueDueTimers, enqueueDueJobRuns, triggerJob } from '../../libs/scheduler/index.js'
import { memoryRail } from '../../libs/testing/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction, attemptRows, claimOnly, enqueue, ledger, pendingRow } from '../support/outboxItems.js'
import { createPerson, approve, propose } from '../support/outboxPeople.js'
import { createJob, createTimer } from '../support/scheduled.js'

const db = await useTestDatabase()
let owner: OutboxStore
let other: OutboxStore
beforeAll(async () => {
  owner = new OutboxStore(db.database, { owner: 'owner-1', leaseSeconds: 600 })
  other = new OutboxStore(db.database, { owner: 'owner-2', leaseSeconds: 600 })
})

/** Enqueues messages of a unique topic, so that the tests of this file share no queue. */
async function enqueued(count: number, overrides: Partial<Message> = {}) {
  const topic = `topic-${randomUUID()}`
  const messages = []
  for (let number = 1; number <= count; number++) {
    messages.push(await owner.enqueue({ topic, payload: { number }, ...overrides }))
  }
  return { topic, ids: messages.map(({ outboxId }) => outboxId), messages }
}

async function claimed(count: number, store = owner): Promise<ClaimedMessage[]> {
  const { topic } = await enqueued(count)
  return store.claim({ batchSize: 100, topics: [topic] })
}

async function claimedOne(): Promise<ClaimedMessage> {
  const [message] = await claimed(1)
  return message!
}

const idsOf = (messages: readonly ClaimedMessage[]) => messages.map(({ id }) => id)

describe('PRIM-POSTGRES-OUTBOX-001 claim out of range throws a RangeError that names the argument', () => {
  test.for([0, -1, Number.NaN, 1.5, 1_001, Number.POSITIVE_INFINITY])(
    'claim and claimDue refuse batchSize %d',
    async (batchSize) => {
      const { topic, ids } = await enqueued(1)
      await expect(owner.claim({ batchSize, topics: [topic] })).rejects.toThrow(RangeError)
      await expect(owner.claim({ batchSize, topics: [topic] })).rejects.toMatchObject({ argument: 'batchSize' })
      await expect(owner.claimDue(batchSize)).rejects.toMatchObject({ argument: 'batchSize' })
      expect(await pendingRow(db, ids[0]!)).toMatchObject({ claimed_by: null, attempt_count: 0 })
    },
  )

  test.for([0, -1, Number.NaN, 0.5, 3_601])(
    'claim and the constructor refuse leaseSeconds %d',
    async (leaseSeconds) => {
      const { topic, ids } = await enqueued(1)
      const refused = owner.claim({ batchSize: 1, leaseSeconds, topics: [topic] })
      await expect(refused).rejects.toThrow(RangeError)
      await expect(refused).rejects.toMatchObject({ argument: 'leaseSeconds' })
      expect(() => new OutboxStore(db.database, { leaseSeconds })).toThrow(RangeError)
      expect(await pendingRow(db, ids[0]!)).toMatchObject({ claimed_by: null, attempt_count: 0 })
    },
  )

  test('a missing or blank argument is refused with a TypeError that names it', async () => {
    expect(() => new OutboxStore(db.database, { owner: ' ' })).toThrow(TypeError)
    const claim = owner.claim.bind(owner)
    const noSize = Reflect.apply(claim, undefined, [{}])
    await expect(noSize).rejects.toThrow(TypeError)
    await expect(noSize).rejects.toMatchObject({ argument: 'batchSize' })
    const wrong: readonly object[] = [
      { topic: '' },
      { messageId: ' ' },
      { messageId: null },
      { key: '' },
      { key: null },
    ]
    for (const broken of wrong) {
      await expect(owner.enqueue({ topic: 't', payload: {}, ...broken })).rejects.toMatchObject({
        argument: Object.keys(broken)[0],
      })
    }
    await expect(owner.fail([], ' ')).rejects.toMatchObject({ argument: 'error' })
  })
})

describe('PRIM-POSTGRES-OUTBOX-002 claim returns at most batchSize ready items', () => {
  test('claim is first in, first out, and leaves the rest ready', async () => {
    const { topic, ids } = await enqueued(5)
    expect(idsOf(await owner.claim({ batchSize: 2, topics: [topic] }))).toEqual(ids.slice(0, 2))
    for (const id of ids.slice(2)) expect(await pendingRow(db, id)).toMatchObject({ claimed_by: null })
    expect(idsOf(await other.claim({ batchSize: 100, topics: [topic] }))).toEqual(ids.slice(2))
    expect(await other.claim({ batchSize: 100, topics: [topic] })).toEqual([])
  })

  test('claim returns each message with its enqueued fields and a unique token', async () => {
    const messageId = `message-${randomUUID()}`
    const { topic, ids } = await enqueued(1, { messageId, key: 'customer-7' })
    const [message] = await owner.claim({ batchSize: 1, topics: [topic] })
    expect(message).toEqual({
      id: ids[0],
      messageId,
      topic,
      key: 'customer-7',
      payload: { number: 1 },
      attempts: 0,
      expiries: 0,
      leaseToken: expect.stringMatching(/^[0-9a-f-]{36}$/),
      leaseExpiresAt: expect.any(Date),
    })
  })

  test('enqueue gives a message without a key its own stream, and creates nothing for a known id', async () => {
    const first = await owner.enqueue({ topic: 'invoices', payload: {} })
    const again = await owner.enqueue({ topic: 'invoices', payload: {}, messageId: first.messageId })
    expect(again).toMatchObject({ outboxId: first.outboxId, created: false })
    const { rows } = await db.queryNoRole(
      'SELECT participant_id, instruction_id FROM payment_outbox_identities WHERE outbox_id = $1',
      [first.outboxId],
    )
    expect(rows).toEqual([{ participant_id: first.messageId, instruction_id: first.messageId }])
  })

  test('claim returns no message that the caller’s transaction rolled back', async () => {
    const topic = `topic-${randomUUID()}`
    const rolledBack = db.as('symphony_ingest').transaction(async (tx) => {
      await owner.enqueue({ topic, payload: {} }, { tx })
      throw new Error('changed my mind')
    })
    await expect(rolledBack).rejects.toThrow('changed my mind')
    expect(await owner.claim({ batchSize: 10, topics: [topic] })).toEqual([])
  })
})

describe('PRIM-POSTGRES-OUTBOX-003 a call by a non-owner changes nothing', () => {
  const verbs = {
    ack: (store: OutboxStore, messages: readonly ClaimedMessage[]) => store.ack(messages),
    abandon: (store: OutboxStore, messages: readonly ClaimedMessage[]) => store.abandon(messages),
    fail: (store: OutboxStore, messages: readonly ClaimedMessage[]) => store.fail(messages, 'broken'),
  }
  const each = Object.entries(verbs).map(([name, verb]) => ({ name, verb }))

  test.for(each)('$name by another owner with the right token changes nothing', async ({ verb }) => {
    const message = await claimedOne()
    const before = await pendingRow(db, message.id)
    expect(await verb(other, [message])).toEqual([])
    expect(await pendingRow(db, message.id)).toEqual(before)
    expect(await ledger(db, message.id)).toEqual([])
  })

  test.for(each)('$name by the owner with another token changes nothing', async ({ verb }) => {
    const message = await claimedOne()
    const before = await pendingRow(db, message.id)
    expect(await verb(owner, [{ ...message, leaseToken: randomUUID() }])).toEqual([])
    expect(await pendingRow(db, message.id)).toEqual(before)
  })

  test.for(each)('$name of messages of two owners changes only the caller’s message, once', async ({ verb }) => {
    const [mine] = await claimed(1, owner)
    const [foreign] = await claimed(1, other)
    const unknown = { ...mine!, id: randomUUID() }
    const noIds = [
      { ...mine!, id: '' },
      { ...mine!, id: 'nonsense' },
      { ...mine!, leaseToken: '' },
    ]
    expect(await verb(owner, [foreign!, unknown, ...noIds, mine!, mine!])).toEqual([mine!.id])
    expect(await ledger(db, mine!.id)).toHaveLength(1)
    expect(await pendingRow(db, foreign!.id)).toMatchObject({ claimed_by: 'owner-2' })
    expect(await verb(owner, [])).toEqual([])
  })

  test.for(each)('$name after a takeover by another owner keeps the new lease', async ({ verb }) => {
    const message = await claimedOne()
    await db.expireLease(message.id)
    const [taken] = await other.claim({ batchSize: 1, topics: [message.topic] })
    expect(taken).toMatchObject({ id: message.id, expiries: 1 })
    const before = await pendingRow(db, message.id)
    expect(await verb(owner, [message])).toEqual([])
    expect(await pendingRow(db, message.id)).toEqual(before)
    expect(await verb(other, [taken!])).toEqual([message.id])
  })

  test('ack by the owner ends the message with its messageId as rail reference', async () => {
    const message = await claimedOne()
    expect(await owner.ack([message])).toEqual([message.id])
    expect(await attemptRows(db, message.id)).toMatchObject([
      { state: 'DISPATCHED', rail_reference: message.messageId, worker_id: 'owner-1' },
    ])
    expect(await pendingRow(db, message.id)).toBeUndefined()
    expect(await owner.ack([message])).toEqual([])
  })

  test('ack accepts more than 1,000 messages', async () => {
    const topic = `topic-${randomUUID()}`
    await db.queryNoRole(
      `SELECT count(*) FROM enqueue_payment_outbox_batch(
         (SELECT array_agg('i' || n) FROM generate_series(1, 1000) n),
         array_fill($1::text, ARRAY[1000]), (SELECT array_agg('k' || n) FROM generate_series(1, 1000) n),
         array_fill($1::text, ARRAY[1000]), array_fill('{}'::jsonb, ARRAY[1000]), p_is_message => true)`,
      [topic],
    )
    await owner.enqueue({ topic, payload: {} })
    const all = [
      ...(await owner.claim({ batchSize: 1_000, topics: [topic] })),
      ...(await owner.claim({ batchSize: 1_000, topics: [topic] })),
    ]
    expect(all).toHaveLength(1_001)
    expect(new Set(await owner.ack(all))).toEqual(new Set(idsOf(all)))
  })
})

describe('PRIM-POSTGRES-OUTBOX-004 abandon by the owner returns rows to ready with retry scheduling', () => {
  test('abandon counts the attempt, clears the lease and sets a later due time', async () => {
    const message = await claimedOne()
    expect(await owner.abandon([message], { error: 'mail server is down' })).toEqual([message.id])
    const row = (await pendingRow(db, message.id))!
    expect(row).toMatchObject({ attempt_count: 1, claimed_by: null, lease_token: null, lease_expires_at: null })
    expect(row.retry_after_seconds).toBeGreaterThan(0)
    expect(await owner.claim({ batchSize: 1, topics: [message.topic] })).toEqual([])
    await db.makeDue(message.id)
    expect(await other.claim({ batchSize: 1, topics: [message.topic] })).toMatchObject([
      { id: message.id, attempts: 1 },
    ])
    expect(await attemptRows(db, message.id)).toMatchObject([
      { state: 'RETRYABLE', error_code: 'ABANDONED', error_message: 'mail server is down' },
    ])
  })

  test('abandon increases the delay each time, or uses delaySeconds', async () => {
    const message = await claimedOne()
    await owner.abandon([message])
    const first = (await pendingRow(db, message.id))!.retry_after_seconds!
    await db.makeDue(message.id)
    await owner.abandon(await owner.claim({ batchSize: 1, topics: [message.topic] }))
    expect((await pendingRow(db, message.id))!.retry_after_seconds).toBeGreaterThan(first)
    await db.makeDue(message.id)
    await owner.abandon(await owner.claim({ batchSize: 1, topics: [message.topic] }), { delaySeconds: 77 })
    expect((await pendingRow(db, message.id))!.retry_after_seconds).toBe(77)
  })
})

describe('PRIM-POSTGRES-OUTBOX-005 fail marks permanently failed and removes ownership', () => {
  test('fail stores the error, and no later call changes the message', async () => {
    const message = await claimedOne()
    expect(await owner.fail([message], 'the address does not exist')).toEqual([message.id])
    expect(await pendingRow(db, message.id)).toBeUndefined()
    expect(await attemptRows(db, message.id)).toMatchObject([
      { state: 'FAILED', error_code: 'FAILED', error_message: 'the address does not exist' },
    ])
    expect(await owner.ack([message])).toEqual([])
    expect(await owner.abandon([message])).toEqual([])
    expect(await owner.fail([message], 'again')).toEqual([])
    expect(await owner.claim({ batchSize: 1, topics: [message.topic] })).toEqual([])
    expect(await ledger(db, message.id)).toEqual(['1 FAILED'])
  })

  test('fail ends even a message of unknown outcome, because messages may be handled twice', async () => {
    const message = await claimedOne()
    await db.expireLease(message.id)
    expect(await owner.fail(await owner.claim({ batchSize: 1, topics: [message.topic] }), 'no')).toEqual([message.id])
    expect(await ledger(db, message.id)).toEqual(['1 ZOMBIE_REQUEUE', '2 FAILED'])
  })
})

describe('PRIM-POSTGRES-OUTBOX-006 claimDue excludes future-due rows', () => {
  test('claimDue claims a message at the instant it is due', async () => {
    const { ids } = await enqueued(1, { dueAt: new Date(Date.now() + 86_400_000) })
    expect(idsOf(await owner.claimDue(1_000))).not.toContain(ids[0])
    await db.queryNoRole(
      'UPDATE payment_outbox_pending SET next_attempt_at = clock_timestamp() WHERE outbox_id = $1',
      ids,
    )
    const due = await owner.claimDue(1_000)
    expect(idsOf(due)).toContain(ids[0])
  })
})

describe('payments and messages in one queue', () => {
  const verbs = {
    ack: (messages: readonly ClaimedMessage[]) => owner.ack(messages),
    abandon: (messages: readonly ClaimedMessage[]) => owner.abandon(messages),
    fail: (messages: readonly ClaimedMessage[]) => owner.fail(messages, 'broken'),
  }
  const each = Object.entries(verbs).map(([name, verb]) => ({ name, verb }))

  test('claim and claimDue lease no payment, even if a topic has the name of its rail', async () => {
    const payment = await enqueue(db)
    const message = await owner.enqueue({ topic: payment.railType, payload: {} })
    expect(idsOf(await owner.claim({ batchSize: 1_000, topics: [payment.railType] }))).toEqual([message.outboxId])
    expect(idsOf(await owner.claimDue(1_000))).not.toContain(payment.outboxId)
    expect(await pendingRow(db, payment.outboxId)).toMatchObject({ claimed_by: null, attempt_count: 0 })
  })

  test('claim does not take over an expired lease of a payment', async () => {
    const payment = await enqueue(db)
    const { outboxId } = await claimOnly(db, payment.railType)
    await db.expireLease(outboxId)
    expect(await owner.claim({ batchSize: 1_000, topics: [payment.railType] })).toEqual([])
    expect(await ledger(db, outboxId)).toEqual([])
  })

  test.for(each)('$name with the live lease of a payment changes nothing', async ({ verb }) => {
    const { railType } = await enqueue(db)
    const payment = await claimOnly(db, railType, { workerId: owner.owner })
    const before = await pendingRow(db, payment.outboxId)
    const receipt = { id: payment.outboxId, messageId: payment.instructionId, leaseToken: payment.leaseToken }
    const message = await claimedOne()
    expect(await verb([{ ...message, ...receipt }, message])).toEqual([message.id])
    expect(await pendingRow(db, payment.outboxId)).toEqual(before)
    expect(await ledger(db, payment.outboxId)).toEqual([])
  })

  test('complete_outbox_attempts with isMessage: true returns LEASE_LOST for a payment', async () => {
    const executor = db.as('symphony_executor')
    const payment = await claimOnly(db, (await enqueue(db)).railType)
    const outcomes = [{ ...payment, state: 'DISPATCHED', railReference: 'ref' }] as const
    expect(await completeOutboxAttempts(executor, 'worker-1', outcomes, { isMessage: true })).toMatchObject([
      { verdict: 'LEASE_LOST' },
    ])
    expect(await completeOutboxAttempts(executor, 'worker-1', outcomes, { isMessage: false })).toMatchObject([
      { verdict: 'RECORDED' },
    ])
  })

  test('enqueue refuses a message under the instruction and key of a payment (P7004)', async () => {
    const messageId = randomUUID()
    const { railType: topic } = await enqueue(db, {
      instructionId: messageId,
      idempotencyKey: messageId,
      participantId: messageId,
    })
    const payload = buildInstruction().payload
    await expect(owner.enqueue({ topic, messageId, payload })).rejects.toMatchObject({ sqlstate: 'P7004' })
  })

  test('enqueue_payment_outbox refuses a null p_is_message (22023)', async () => {
    const values = ['i', 'p', 'k', 'r', {}]
    await expect(
      db.queryNoRole('SELECT * FROM enqueue_payment_outbox($1, $2, $3, $4, $5, p_is_message => NULL)', values),
    ).rejects.toMatchObject({ code: '22023' })
  })

  test('claim_outbox_batch without a filter leases payments and messages, oldest first', async () => {
    const payment = await enqueue(db)
    const message = await owner.enqueue({ topic: payment.railType, payload: {} })
    const younger = await enqueue(db, { railType: payment.railType })
    const items = await claimOutboxBatch(db.as('symphony_executor'), 10, 'worker-1', 60, { rails: [payment.railType] })
    expect(items.map(({ outboxId }) => outboxId)).toEqual([payment.outboxId, message.outboxId, younger.outboxId])
  })

  test('a payment rail gets no message, even if the topic has the name of the rail', async () => {
    const bank = memoryRail({ type: `bank-${randomUUID()}`, onUnknown: 'resend' })
    const handled: string[] = []
    const topic = `topic-${randomUUID()}`
    const topics = topicRails<Record<string, JsonObject>>({ [topic]: ({ messageId }) => void handled.push(messageId) })
    const ordinary = await enqueue(db, { railType: bank.type, payload: PAYMENT })
    const misnamed = await owner.enqueue({ topic: bank.type, payload: PAYMENT })
    const message = await owner.enqueue({ topic, payload: {} })
    const payment = await enqueue(db, { railType: topic })
    const relayer = new OutboxRelayer(db.database, loadRails([bank, ...topics]))
    await relayer.runOnce()
    await relayer.stop()
    expect(bank.calls.map(({ instructionId }) => instructionId)).toEqual([ordinary.instructionId])
    expect(await pendingRow(db, misnamed.outboxId)).toMatchObject({ attempt_count: 0, claimed_by: null })
    expect(handled.toSorted()).toEqual([message.messageId, payment.instructionId].toSorted())
  })

  test('timers, job runs and redrives of messages create messages', async () => {
    const { topic } = await createTimer(db)
    await enqueueDueTimers(db.as('symphony_executor'), 1_000)
    const [timer] = await owner.claim({ batchSize: 1, topics: [topic] })
    const job = await createJob(db)
    await triggerJob(db.as('symphony_control'), job)
    await enqueueDueJobRuns(db.as('symphony_executor'), 1_000)
    expect(await owner.claim({ batchSize: 1, topics: [`topic-${job}`] })).toHaveLength(1)

    await owner.fail([timer!], 'no such address')
    const ann = await createPerson(db, 'ann')
    const bea = await createPerson(db, 'bea')
    await approve(bea, await propose(ann, timer!.id, 'REDRIVE'))
    expect(await owner.claim({ batchSize: 1, topics: [topic] })).toMatchObject([{ payload: timer!.payload }])
  })
})

const PAYMENT: JsonObject = { amount: '10.50', currency: 'EUR', destination: 'DE89370400440532013000' }
