import { afterEach, beforeEach, expect, test } from 'vitest'
import { nextOutboxEvent, pauseOutbox, placeOutboxHold, resumeOutbox } from '../../libs/outbox/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { claim, complete, enqueue } from '../support/outboxItems.js'
import { closeTransactions, openTransaction } from '../support/outboxStream.js'

/** Each test has its own database, because next_outbox_event considers the leases of all rails. */
let db: TestDatabase
beforeEach(async () => {
  db = await createTestDatabase()
})
afterEach(async () => {
  await closeTransactions()
  await db.drop()
})

const HOUR_MS = 3_600_000
const inHours = (hours: number) => new Date(Date.now() + hours * HOUR_MS)

/** Returns the name of the next event. SQL compares microseconds, which a Date does not have. */
async function nextIs(rails?: readonly string[]): Promise<string | null> {
  const next = await nextOutboxEvent(db.as('symphony_executor'), rails)
  const { rows } = await db.queryNoRole<{ event: string | null; at: Date | null }>(
    `SELECT n.at, (SELECT string_agg(name, ' and ') FROM (
         SELECT 'due ' || instruction_id AS name FROM payment_outbox_pending WHERE next_attempt_at = n.at
         UNION ALL
         SELECT 'expiry of ' || instruction_id FROM payment_outbox_pending WHERE lease_expires_at = n.at) AS named) AS event
     FROM next_outbox_event($1) AS n(at)`,
    [rails ?? null],
  )
  expect(next).toEqual(rows[0]!.at)
  return rows[0]!.event
}

const control = () => db.as('symphony_control')

test('next_outbox_event returns null without pending items', async () => {
  expect(await nextOutboxEvent(db.as('symphony_executor'))).toBeNull()
  const { railType } = await enqueue(db)
  const [lease] = await claim(db, railType)
  await complete(db, lease!, { state: 'DISPATCHED' })
  expect(await nextOutboxEvent(db.as('symphony_executor'))).toBeNull()
})

test('next_outbox_event returns the nearest due time of all rails', async () => {
  await enqueue(db, { instructionId: 'late', railType: 'a', notBefore: inHours(3) })
  expect(await nextIs()).toBe('due late')
  await enqueue(db, { instructionId: 'early', railType: 'b', notBefore: inHours(2) })
  await enqueue(db, { instructionId: 'between', railType: 'a', notBefore: inHours(2.5) })
  expect(await nextIs()).toBe('due early')
})

test('next_outbox_event returns the past due time of an overdue item', async () => {
  await enqueue(db, { instructionId: 'future', notBefore: inHours(1) })
  await enqueue(db, { instructionId: 'past', notBefore: inHours(-1) })
  expect(await nextIs()).toBe('due past')
})

test('next_outbox_event returns the nearer of a due time and a lease expiry', async () => {
  await enqueue(db, { instructionId: 'leased', railType: 'a' })
  await claim(db, 'a', { leaseSeconds: 3_600 })
  expect(await nextIs()).toBe('expiry of leased')
  await enqueue(db, { instructionId: 'later', railType: 'a', notBefore: inHours(2) })
  expect(await nextIs()).toBe('expiry of leased')
  await enqueue(db, { instructionId: 'sooner', railType: 'a', notBefore: inHours(0.5) })
  expect(await nextIs()).toBe('due sooner')
})

test('next_outbox_event with rails returns their next due time or any rail’s next lease expiry', async () => {
  await enqueue(db, { instructionId: 'a1', railType: 'a', notBefore: inHours(1) })
  await enqueue(db, { instructionId: 'b1', railType: 'b', notBefore: inHours(2) })
  expect(await nextIs(['b'])).toBe('due b1')
  expect(await nextIs(['a', 'b', 'c'])).toBe('due a1')
  expect(await nextIs(['c'])).toBeNull()
  await enqueue(db, { instructionId: 'd1', railType: 'd' })
  await claim(db, 'd', { leaseSeconds: 60 })
  expect(await nextIs(['c'])).toBe('expiry of d1')
})

test('next_outbox_event ignores an expired lease of another rail or of a paused rail', async () => {
  const { outboxId } = await enqueue(db, { instructionId: 'expired', railType: 'd' })
  await claim(db, 'd', { leaseSeconds: 60 })
  await db.expireLease(outboxId)
  expect(await nextIs(['c'])).toBeNull()
  expect(await nextIs(['d'])).toBe('expiry of expired')
  expect(await nextIs()).toBe('expiry of expired')
  await pauseOutbox(control(), 'rail', 'd', 'please wait')
  expect(await nextIs()).toBeNull()
})

test('next_outbox_event ignores held and blocked items', async () => {
  const held = await enqueue(db, { instructionId: 'held', railType: 'a' })
  await placeOutboxHold(control(), held.outboxId, 'please wait')
  await enqueue(db, { instructionId: 'head', participantId: 'p', railType: 'b', ordered: true, notBefore: inHours(2) })
  await enqueue(db, { instructionId: 'second', participantId: 'p', railType: 'a', ordered: true })
  expect(await nextIs()).toBe('due head')
})

test('next_outbox_event ignores due times of a paused rail, not its lease expiries', async () => {
  await enqueue(db, { instructionId: 'leased', railType: 'a' })
  await claim(db, 'a', { leaseSeconds: 600 })
  await enqueue(db, { instructionId: 'waiting', railType: 'a' })
  await enqueue(db, { instructionId: 'other', railType: 'b', notBefore: inHours(2) })
  await pauseOutbox(control(), 'rail', 'a', 'please wait')
  expect(await nextIs()).toBe('expiry of leased')
  expect(await nextIs(['a'])).toBe('expiry of leased')
  await resumeOutbox(control(), 'rail', 'a', 'go on')
  expect(await nextIs()).toBe('due waiting')
})

test.for(['participant', 'stream'] as const)(
  'next_outbox_event ignores items of a paused %s, even if enqueued before the pause commits',
  async (kind) => {
    await enqueue(db, { instructionId: 'marked', participantId: 'p', railType: 'a', ordered: true })
    const operator = await openTransaction(db, 'symphony_control')
    await pauseOutbox(operator, kind, 'q', 'please wait')
    await enqueue(db, { instructionId: 'unmarked', participantId: 'q', railType: 'a', ordered: true })
    await operator.query('COMMIT')
    await pauseOutbox(control(), kind, 'p', 'please wait')
    await enqueue(db, { instructionId: 'other', railType: 'a', notBefore: inHours(2) })
    expect(await nextIs()).toBe('due other')
    await resumeOutbox(control(), kind, 'q', 'go on')
    expect(await nextIs()).toBe('due unmarked')
  },
)

test('next_outbox_event includes unordered items of a paused stream', async () => {
  await pauseOutbox(control(), 'stream', 'p', 'please wait')
  await enqueue(db, { instructionId: 'free', participantId: 'p', railType: 'a' })
  expect(await nextIs()).toBe('due free')
})

test.for([
  ['an empty list', []],
  ['a null rail', [null]],
  ['an empty rail', ['']],
  ['1001 rails', Array.from({ length: 1001 }, () => 'a')],
])('next_outbox_event refuses %s (22023)', async ([, rails]) => {
  await expect(db.queryNoRole('SELECT next_outbox_event($1)', [rails])).rejects.toMatchObject({ code: '22023' })
})
