import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { Inbox } from '../../libs/inbox/index.js'
import { Leases } from '../../libs/lease/index.js'
import { claimOutboxBatch, enqueue, readItems } from '../../libs/outbox/index.js'
import { scheduleTimer, claimTimers } from '../../libs/scheduler/index.js'
import {
  createTestDatabase,
  drain,
  memoryRail,
  NotATestDatabaseError,
  TestClock,
  TestDatabase,
  withTestDatabase,
} from '../../libs/testing/index.js'
import { createTestDatabase as createOurDatabase, testSchema } from '../support/database.js'
import { buildInstruction } from '../support/outboxItems.js'

const PAYLOAD = { amount: '10.00', currency: 'EUR', destination: 'DE89370400440532013000' }

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase({ serverUrl: inject('serverUrl'), schema: testSchema() })
})
afterAll(() => db.drop())

/** A rail of its own, and a payment for it. */
async function enqueueFor(rail: { readonly type: string }, overrides = {}) {
  const instruction = buildInstruction({ railType: rail.type, payload: PAYLOAD, ...overrides })
  return enqueue(instruction, { tx: db.database.as('symphony_ingest') })
}

async function stateOf(outboxId: string) {
  const [item] = await readItems(db.database.as('symphony_readonly'), { outboxId })
  return item
}

test('drain carries what is due and says what it came to', async () => {
  const rail = memoryRail({ type: 'plain', onUnknown: 'hold' })
  const { outboxId } = await enqueueFor(rail)
  expect(await drain(db, [rail])).toMatchObject({ claimed: 1, dispatched: 1 })
  expect(rail.paid.get(outboxId)).toEqual({ reference: 'memory-1', payload: PAYLOAD })
  expect(await stateOf(outboxId)).toMatchObject({ state: 'DISPATCHED', lastRailReference: 'memory-1' })
  expect(await drain(db.database, [rail])).toMatchObject({ claimed: 0, dispatched: 0 })
})

test('a retry waits for its time; drain goes there when it is told to', async () => {
  const rail = memoryRail({ type: 'busy', onUnknown: 'hold' })
  rail.next({ outcome: 'retryable', code: 'BUSY' }, 'unreachable', { outcome: 'success', reference: 'own-7' })
  const { outboxId } = await enqueueFor(rail)
  expect(await drain(db, [rail])).toMatchObject({ claimed: 1, retryable: 1, dispatched: 0 })
  expect(await drain(db, [rail], { throughTime: true })).toMatchObject({ retryable: 1, dispatched: 1 })
  expect(rail.calls.map(({ reference, attempt }) => [reference, attempt])).toEqual([
    [outboxId, 1],
    [outboxId, 2],
    [outboxId, 3],
  ])
  expect(rail.paid.get(outboxId)?.reference).toBe('own-7')
})

test('a lost answer is asked about, and paid once', async () => {
  const rail = memoryRail({ type: 'lossy', onUnknown: 'inquire' })
  rail.next('lost')
  const { outboxId } = await enqueueFor(rail)
  expect(await drain(db, [rail])).toMatchObject({ dispatched: 0 })
  expect(await stateOf(outboxId)).toMatchObject({ outcomeUnknown: true })
  expect(await drain(db, [rail], { throughTime: true })).toMatchObject({ dispatched: 1 })
  expect(rail.calls).toHaveLength(1)
  expect(rail.paid.size).toBe(1)
})

test('a payment that is sent again under its reference is paid once', async () => {
  const rail = memoryRail({ type: 'idempotent', onUnknown: 'resend' })
  rail.next('lost')
  const { outboxId } = await enqueueFor(rail)
  expect(await drain(db, [rail], { throughTime: true })).toMatchObject({ dispatched: 1 })
  expect(rail.calls).toHaveLength(2)
  expect([...rail.paid]).toEqual([[outboxId, { reference: 'memory-1', payload: PAYLOAD }]])
  expect(await stateOf(outboxId)).toMatchObject({ lastRailReference: 'memory-1' })
})

test('a silent rail is given up at its timeout, and holds what it may have done', async () => {
  const rail = memoryRail({ type: 'silent', onUnknown: 'hold', timeoutMs: 100 })
  rail.next('silent')
  await enqueueFor(rail)
  expect(await drain(db, [rail])).toMatchObject({ held: 1 })
  expect(rail.paid.size).toBe(0)
})

test('drain through time ends where others’ work is left', async () => {
  const rail = memoryRail({ type: 'ours', onUnknown: 'hold' })
  const theirs = await enqueueFor({ type: 'theirs' })
  rail.next('unreachable')
  await enqueueFor(rail)
  expect(await drain(db, [rail], { throughTime: true })).toMatchObject({ retryable: 1, dispatched: 1 })
  expect(await stateOf(theirs.outboxId)).toMatchObject({ lastAttemptNo: null })
})

test('drain through time is not held up by a lease that somebody else let expire', async () => {
  const rail = memoryRail({ type: 'shared', onUnknown: 'hold' })
  const { outboxId } = await enqueueFor({ type: 'elsewhere' })
  await claimOutboxBatch(db.database.as('symphony_executor'), 1, 'another', 60, { rails: ['elsewhere'] })
  rail.next('unreachable')
  await enqueueFor(rail)
  await db.advance(120_000)
  expect(await drain(db, [rail], { throughTime: true })).toMatchObject({ retryable: 1, dispatched: 1 })
  expect(await stateOf(outboxId)).toMatchObject({ claimedBy: 'another' })
})

test('drain that never ends says so', async () => {
  const rail = memoryRail({ type: 'endless', onUnknown: 'hold' })
  rail.next(...Array.from({ length: 5 }, () => 'unreachable' as const))
  await enqueueFor(rail)
  await expect(drain(db, [rail], { throughTime: true, roundsMax: 2 })).rejects.toThrow('after 2 rounds')
  await drain(db, [rail], { throughTime: true })
})

test('advance moves payments, messages, timers, claims and leases, each just as far', async () => {
  const hour = 3_600_000
  const { database } = db
  const later = new Date(Date.now() + hour)
  const rail = memoryRail({ type: 'later', onUnknown: 'hold' })
  await enqueueFor(rail, { notBefore: later })
  await new Inbox(database).enqueue({ source: 'a', messageId: '1', topic: 't', payload: {}, notBefore: later })
  await scheduleTimer(database.as('symphony_ingest'), { topic: 't', payload: {}, dueAt: later, delivery: 'claim' })
  const leases = new Leases(database.as('symphony_executor'))
  const lease = await leases.acquire('resource', { durationMs: hour, renewEveryMs: hour / 2, owner: 'ada' })
  const found = async () => ({
    payments: (await drain(db, [rail])).claimed,
    messages: (await new Inbox(database, { workerId: 'worker' }).claim({ batchSize: 1, leaseSeconds: 60 })).length,
    timers: (await claimTimers(database.as('symphony_executor'), 1, 'w', 60)).length,
    leases: (await leases.acquire('resource', { durationMs: hour, owner: 'grace' })) === null ? 0 : 1,
  })
  await db.advance(hour - 60_000)
  expect(await found()).toEqual({ payments: 0, messages: 0, timers: 0, leases: 0 })
  await db.advance(60_000)
  expect(await found()).toEqual({ payments: 1, messages: 1, timers: 1, leases: 1 })
  await lease?.release().catch(() => {})
})

test('time is moved in no database that was not made for a test', async () => {
  await using ours = await createOurDatabase()
  const impostor = new TestDatabase(ours.url, ours.schema, async () => {})
  await expect(impostor.advance(1_000)).rejects.toBeInstanceOf(NotATestDatabaseError)
  await impostor.drop()
})

test('a database is gone after its test, also when the test fails', async () => {
  const names: string[] = []
  const failing = withTestDatabase(
    async ({ name }) => {
      names.push(name)
      throw new Error('the test failed')
    },
    { serverUrl: inject('serverUrl'), schema: testSchema() },
  )
  await expect(failing).rejects.toThrow('the test failed')
  await using ours = await createOurDatabase({ content: 'empty' })
  const { rows } = await ours.queryNoRole('SELECT 1 FROM pg_database WHERE datname = ANY ($1)', [names])
  expect([names.length, rows.length]).toEqual([1, 0])
})

test('a test clock stands still until it is moved, and moves forwards only', () => {
  const clock = new TestClock(new Date('2026-05-01T00:00:00Z'))
  expect([clock.now().toISOString(), clock.monotonicMs()]).toEqual(['2026-05-01T00:00:00.000Z', 0])
  clock.advance(1_500)
  expect([clock.now().toISOString(), clock.monotonicMs()]).toEqual(['2026-05-01T00:00:01.500Z', 1_500])
  for (const ms of [-1, 0.5, Number.NaN]) expect(() => clock.advance(ms)).toThrow('ms: expected')
  expect(() => new TestClock(new Date(Number.NaN))).toThrow('start: expected')
})

test('what is wrong is said before any I/O', async () => {
  const rail = memoryRail({ type: 'wrong', onUnknown: 'hold' })
  // @ts-expect-error: what a caller in JavaScript could pass
  expect(() => rail.next('vanish')).toThrow('answers[0]: expected')
  await expect(db.advance(-1)).rejects.toThrow('ms: expected')
  await expect(drain(db, [rail], { roundsMax: 0 })).rejects.toThrow('roundsMax: expected')
  await expect(drain(db.database, [rail], { throughTime: true })).rejects.toThrow('throughTime: expected')
  await expect(createTestDatabase({ serverUrl: ' ' })).rejects.toThrow('serverUrl')
})
