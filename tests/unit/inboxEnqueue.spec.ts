import { describe, expect, test } from 'vitest'
import { ArgumentRangeError, InvalidArgumentError } from '../../libs/core/index.js'
import {
  enqueueInboxMessage,
  enqueueInboxMessages,
  Inbox,
  nextInboxEvent,
  readInboxEvents,
  type InboxMessage,
} from '../../libs/inbox/index.js'
import { useTestDatabase, withTestDatabase } from '../support/database.js'
import { buildMessage, claimOf, enqueued, rowOf } from '../support/inboxMessages.js'
import { failureOf } from '../support/race.js'

/** Tests of enqueueing: a message is stored once, however often it is sent. */

const db = await useTestDatabase()

const many = (count: number) =>
  Array.from({ length: count }, (_, n) => buildMessage({ source: 'thousand', messageId: String(n) }))

const enqueue = (message: InboxMessage) => enqueueInboxMessage(db.as('symphony_ingest'), message)

describe('an inbox message', () => {
  test('is in state seen and due at once after its enqueue', async () => {
    const message = buildMessage()
    expect(await enqueue(message)).toEqual({
      source: message.source,
      messageId: message.messageId,
      state: 'seen',
      sightings: 1n,
      created: true,
      contentDiffers: false,
    })
    expect(await rowOf(db, message)).toMatchObject({ topic: message.topic, payload: message.payload, due_later: false })
  })

  test('gets only a higher sighting count if it is enqueued again, even while it is processed', async () => {
    const message = buildMessage({ payload: { a: 1, b: [2, { c: 'é' }] } })
    await enqueue(message)
    // The order of keys makes no difference.
    const again = { ...message, payload: { b: [2, { c: 'é' }], a: 1 } }
    expect(await enqueue(again)).toMatchObject({ created: false, contentDiffers: false, sightings: 2n, state: 'seen' })
    const [claim] = await claimOf(db, message)
    expect(await enqueue(again)).toMatchObject({ created: false, sightings: 3n, state: 'processing' })
    expect(await rowOf(db, message)).toMatchObject({ fence: claim!.fence, attempt_count: 1 })
  })

  test('may have the same id as a message of another source', async () => {
    const one = buildMessage()
    const other = buildMessage({ payload: { other: true } })
    expect([(await enqueue(one)).created, (await enqueue(other)).created]).toEqual([true, true])
    expect(await claimOf(db, other)).toMatchObject([{ messageId: one.messageId, payload: { other: true } }])
  })

  test('is not claimed before its notBefore time', async () => {
    const message = await enqueued(db, { notBefore: new Date(Date.now() + 3_600_000) })
    expect(await claimOf(db, message)).toEqual([])
    expect(await rowOf(db, message)).toMatchObject({ due_later: true, state: 'seen' })
  })

  test('is rolled back with the transaction of the caller', async () => {
    const message = buildMessage()
    const client = await db.connect('symphony_ingest')
    await client.query('BEGIN')
    const { rows } = await client.query(`SELECT * FROM ${db.qualify('enqueue_inbox_message')}($1, $2, $3, $4)`, [
      message.source,
      message.messageId,
      message.topic,
      message.payload,
    ])
    expect(rows).toEqual([{ state: 'seen', sightings: 1n, created: true, content_differs: false }])
    await client.query('ROLLBACK')
    expect(await rowOf(db, message)).toEqual({})
    expect((await enqueue(message)).created).toBe(true)
  })

  test('can be claimed if alreadyProcessed was called before its enqueue', async () => {
    const message = buildMessage()
    const inbox = new Inbox(db.database)
    expect(await inbox.alreadyProcessed(message)).toBe(false)
    expect(await inbox.enqueue(message)).toMatchObject({ created: true, sightings: 2n })
    expect(await inbox.enqueue(message)).toMatchObject({ created: false, sightings: 3n })
    expect(await claimOf(db, message)).toHaveLength(1)
  })

  test('cannot be claimed if markProcessing, markProcessed or markDead came before its enqueue', async () => {
    for (const marks of [['markProcessing'], ['markProcessing', 'markProcessed'], ['markDead']] as const) {
      const message = buildMessage()
      const inbox = new Inbox(db.database)
      await inbox.alreadyProcessed(message)
      for (const mark of marks) await inbox[mark](message, 'poison')
      expect(await inbox.enqueue(message)).toMatchObject({ created: false, contentDiffers: false })
      expect(await rowOf(db, message)).toMatchObject({ topic: null, payload: null })
    }
  })
})

describe('different content under a known source and id', () => {
  test.each([
    ['another payload', { payload: { amountMinor: '1051' } }],
    ['another topic', { topic: 'payment.refunded' }],
  ])('is reported as contentDiffers, counts as a sighting and writes one event: %s', async (_what, change) => {
    const message = await enqueued(db)
    const before = await rowOf(db, message)
    for (let repetition = 2n; repetition < 4n; repetition += 1n) {
      expect(await enqueue({ ...message, ...change })).toMatchObject({
        created: false,
        contentDiffers: true,
        sightings: repetition,
        state: 'seen',
      })
    }
    expect(await rowOf(db, message)).toEqual({ ...before, sightings: 3n, last_seen_at: expect.any(Date) })
    const events = await readInboxEvents(db.as('symphony_auditor'), message)
    expect(events).toMatchObject([{ eventType: 'CONTENT_DIFFERS', actor: 'symphony_test_login' }])
    expect(JSON.stringify(events)).not.toContain('1051')
  })

  test('is reported even after the message is done', async () => {
    const message = await enqueued(db)
    const [claim] = await claimOf(db, message)
    await db
      .as('symphony_executor')
      .query(`SELECT * FROM ${db.qualify('ack_inbox_messages')}(ARRAY[$1], ARRAY[$2], ARRAY[$3::uuid], 'worker-1')`, [
        message.source,
        message.messageId,
        claim!.fence,
      ])
    expect(await enqueue({ ...message, payload: {} })).toMatchObject({ state: 'done', contentDiffers: true })
    expect(await readInboxEvents(db.as('symphony_control'), message)).toHaveLength(1)
  })

  test('is reported if alreadyProcessed was given other content; the message stays unclaimable', async () => {
    const message = buildMessage()
    const inbox = new Inbox(db.database)
    await inbox.alreadyProcessed(message, { topic: message.topic, payload: { other: true } })
    expect(await inbox.enqueue(message)).toMatchObject({ created: false, contentDiffers: true })
    expect(await rowOf(db, message)).toMatchObject({ topic: null })
  })
})

describe('a batch of inbox messages', () => {
  test('is answered and claimed in the given order; a repeated message is not created again', async () => {
    await withTestDatabase(async (own) => {
      const messages = ['c', 'a', 'b', 'a'].map((messageId) => buildMessage({ source: 'batch', messageId }))
      const answers = await enqueueInboxMessages(own.as('symphony_ingest'), messages)
      expect(answers.map(({ messageId, created, sightings }) => [messageId, created, sightings])).toEqual([
        ['c', true, 1n],
        ['a', true, 1n],
        ['b', true, 1n],
        ['a', false, 2n],
      ])
      expect((await claimOf(own, { source: 'batch' })).map(({ messageId }) => messageId)).toEqual(['c', 'a', 'b'])
    })
  })

  test('is not stored if one message is invalid, and the error names that message', async () => {
    const good = buildMessage()
    const refused = enqueueInboxMessages(db.as('symphony_ingest'), [good, buildMessage({ topic: 'a b' })])
    expect(await failureOf(refused)).toMatchObject({ argument: 'messages[1].topic' })
    const raw = db
      .as('symphony_ingest')
      .query(`SELECT * FROM ${db.qualify('enqueue_inbox_messages')}($1, $2, $3, $4)`, [
        [good.source, good.source],
        ['x', 'y\n'],
        ['t', 't'],
        ['{}', '{}'],
      ])
    expect(await failureOf(raw)).toMatchObject({ message: expect.stringMatching(/^p_message_id of item 2: /) })
    expect(await rowOf(db, good)).toEqual({})
  })

  test('is accepted with 1,000 messages and refused with 0 or 1,001', async () => {
    const ingest = db.as('symphony_ingest')
    expect(await enqueueInboxMessages(ingest, many(1_000))).toHaveLength(1_000)
    for (const count of [0, 1_001]) {
      await expect(enqueueInboxMessages(ingest, many(count))).rejects.toThrow(ArgumentRangeError)
    }
  })
})

test.each([
  ['source', { source: ' ' }],
  ['messageId', { messageId: '' }],
  ['topic', { topic: '' }],
  ['payload.n', { payload: { n: Number.NaN } }],
  ['notBefore', { notBefore: new Date(Number.NaN) }],
])('an invalid %s of an inbox message is refused before any I/O', async (argument, change) => {
  const error = await failureOf(enqueue(buildMessage(change)))
  expect(error instanceof InvalidArgumentError || error instanceof ArgumentRangeError).toBe(true)
  expect(error).toMatchObject({ argument })
})

describe('inbox workers', () => {
  test('are notified of new messages only, and not at all while notify_enabled is false', async () => {
    await withTestDatabase(async (own) => {
      const ingest = own.as('symphony_ingest')
      const received: string[] = []
      const listener = await own.connect()
      listener.on('notification', ({ channel, payload }) => received.push(`${channel} ${payload}`))
      await listener.query('LISTEN inbox_ready')
      const message = buildMessage()
      await enqueueInboxMessage(ingest, message)
      await expect.poll(() => received).toEqual(['inbox_ready new_work'])
      await enqueueInboxMessage(ingest, message)
      await own.queryNoRole('UPDATE symphony_settings SET notify_enabled = false')
      await enqueueInboxMessage(ingest, buildMessage())
      await own.queryNoRole('UPDATE symphony_settings SET notify_enabled = true')
      await enqueueInboxMessages(ingest, [buildMessage(), buildMessage()])
      await expect.poll(() => received.length).toBeGreaterThan(1)
      expect(received).toEqual(['inbox_ready new_work', 'inbox_ready new_work'])
    })
  })

  test('get the time of the next due message or claim expiry from nextInboxEvent', async () => {
    await withTestDatabase(async (own) => {
      const executor = own.as('symphony_executor')
      expect(await nextInboxEvent(executor)).toBeNull()
      await new Inbox(own.database).alreadyProcessed({ source: 's', messageId: 'known only' })
      expect(await nextInboxEvent(executor)).toBeNull()
      await enqueued(own, { notBefore: new Date(Date.now() + 7_200_000) })
      const later = await nextInboxEvent(executor)
      expect(later!.inMs).toBeGreaterThan(7_000_000)
      const message = await enqueued(own)
      expect((await nextInboxEvent(executor))!.inMs).toBeLessThanOrEqual(0)
      await claimOf(own, message, { leaseSeconds: 3_600 })
      const expiry = await nextInboxEvent(executor)
      expect(expiry!.inMs).toBeGreaterThan(3_000_000)
      expect(expiry!.inMs).toBeLessThanOrEqual(3_600_000)
    })
  })
})
