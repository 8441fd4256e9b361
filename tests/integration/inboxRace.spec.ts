import { expect, test } from 'vitest'
import {
  ackInboxMessages,
  claimInboxBatch,
  enqueueInboxMessage,
  enqueueInboxMessages,
  purgeInboxMessages,
  readInboxEvents,
  recordInboxSighting,
  type InboxClaim,
} from '../../libs/inbox/index.js'
import { useTestDatabase, withTestDatabase } from '../support/database.js'
import { buildMessage, endedAgo, enqueuedAndClaimed, rowOf, WORKER } from '../support/inboxMessages.js'
import { openConnection, race, untilWaiting } from '../support/race.js'

const db = await useTestDatabase()

test('twenty concurrent enqueues of one message create one row and count twenty sightings', async () => {
  const message = buildMessage()
  const { values, errors } = await race(db, 'symphony_ingest', 20, (connection) =>
    enqueueInboxMessage(connection, message),
  )
  expect(errors).toEqual([])
  expect(values.filter(({ created }) => created)).toHaveLength(1)
  expect(values.map(({ sightings }) => sightings).toSorted((a, b) => Number(a - b))).toEqual(
    Array.from({ length: 20 }, (_, n) => BigInt(n + 1)),
  )
  expect(await rowOf(db, message)).toMatchObject({ sightings: 20n, attempt_count: 0 })
})

test('ten concurrent enqueues of one id with different contents create one message and 9 events', async () => {
  const message = buildMessage()
  const { values, errors } = await race(db, 'symphony_ingest', 10, (connection, n) =>
    enqueueInboxMessage(connection, { ...message, payload: { n } }),
  )
  expect(errors).toEqual([])
  expect(values.filter(({ created, contentDiffers }) => created && !contentDiffers)).toHaveLength(1)
  expect(values.filter(({ contentDiffers }) => contentDiffers)).toHaveLength(9)
  expect(await readInboxEvents(db.as('symphony_readonly'), message)).toHaveLength(9)
})

test('concurrent batches of the same messages in opposite order do not deadlock', async () => {
  const messages = Array.from({ length: 50 }, (_, n) => buildMessage({ source: 'opposite', messageId: `m-${n}` }))
  const { values, errors } = await race(db, 'symphony_ingest', 6, (connection, n) =>
    enqueueInboxMessages(connection, n % 2 === 0 ? messages : messages.toReversed()),
  )
  expect(errors).toEqual([])
  expect(values.flat().filter(({ created }) => created)).toHaveLength(50)
})

test('a sighting and a concurrent enqueue result in one enqueued message with two sightings', async () => {
  for (let round = 0; round < 5; round += 1) {
    const message = buildMessage()
    const sighting = recordInboxSighting(db.as('symphony_executor'), message)
    const enqueue = enqueueInboxMessage(db.as('symphony_ingest'), message)
    expect((await Promise.all([sighting, enqueue]))[1].created).toBe(true)
    expect(await rowOf(db, message)).toMatchObject({ topic: message.topic, sightings: 2n })
  }
})

test('a message that is enqueued while it is purged becomes a new message', async () => {
  const claim = await enqueuedAndClaimed(db)
  await ackInboxMessages(db.as('symphony_executor'), [claim], WORKER)
  await endedAgo(db, claim, 1_000)
  const retention = await openConnection(db, 'symphony_executor')
  await retention.client.query('BEGIN')
  await purgeInboxMessages(retention, 999, 1_000)
  const sender = await openConnection(db, 'symphony_ingest')
  const again = enqueueInboxMessage(sender, buildMessage({ source: claim.source, payload: { again: true } }))
  await untilWaiting(db, sender)
  await retention.client.query('COMMIT')
  expect(await again).toMatchObject({ created: true, contentDiffers: false, sightings: 1n })
  await Promise.all([retention.close(), sender.close()])
})

test('a purge skips messages that another transaction is purging', async () => {
  await withTestDatabase(async (own) => {
    const executor = own.as('symphony_executor')
    const claim = await enqueuedAndClaimed(own)
    await ackInboxMessages(executor, [claim], WORKER)
    await endedAgo(own, claim, 1_000)
    const first = await openConnection(own, 'symphony_executor')
    await first.client.query('BEGIN')
    expect(await purgeInboxMessages(first, 10, 10)).toBe(1)
    expect(await purgeInboxMessages(executor, 10, 10)).toBe(0)
    await first.client.query('COMMIT')
  })
})

test('concurrent claims are disjoint and complete, for due messages and expired claims', async () => {
  await withTestDatabase(async (own) => {
    const messages = Array.from({ length: 300 }, (_, n) => buildMessage({ source: 's', messageId: `m-${n}` }))
    await enqueueInboxMessages(own.as('symphony_ingest'), messages)
    for (const round of ['due', 'expired']) {
      const { values, errors } = await race(own, 'symphony_executor', 8, async (connection, n) => {
        const claimed: InboxClaim[] = []
        for (;;) {
          const batch = await claimInboxBatch(connection, 7, `worker-${n}`, 600)
          if (batch.length === 0) return claimed
          claimed.push(...batch)
        }
      })
      expect(errors).toEqual([])
      const claimed = values.flat()
      expect(new Set(claimed.map(({ messageId }) => messageId)).size).toBe(300)
      expect(claimed).toHaveLength(300)
      expect(claimed.every(({ takenOver }) => takenOver === (round === 'expired'))).toBe(true)
      await own.queryNoRole(`UPDATE inbox_messages SET claim_expires_at = clock_timestamp() - interval '1 second'`)
    }
  })
})

test('exactly one of ten concurrent acks with the same fence changes the message', async () => {
  const claim = await enqueuedAndClaimed(db)
  const { values, errors } = await race(db, 'symphony_executor', 10, (connection) =>
    ackInboxMessages(connection, [claim], WORKER),
  )
  expect(errors).toEqual([])
  expect(values.flat()).toEqual([{ source: claim.source, messageId: claim.messageId }])
})
