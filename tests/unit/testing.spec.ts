import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { PermanentFailureError } from '../../libs/core/index.js'
import { memoryRail, TestClock, withTestSymphony } from '../../libs/entry/testing.js'
import { claimOutboxBatch } from '../../libs/outbox/index.js'
import { claimTimers, scheduleTimer } from '../../libs/scheduler/index.js'
import { createTestSymphony, NotATestDatabaseError, TestSymphony } from '../../libs/testing/index.js'
import { openDatabase, type Database } from '../../libs/db/index.js'
import { createTestDatabase as createOurDatabase, testSchema } from '../support/database.js'
import { buildInstruction } from '../support/outboxItems.js'

const PAYLOAD = { amount: '10.00', currency: 'EUR', destination: 'DE89370400440532013000' }

let symphony: TestSymphony
let database: Database
beforeAll(async () => {
  symphony = await createTestSymphony({ serverUrl: inject('serverUrl'), schema: testSchema() })
  database = openDatabase({ url: symphony.url, schema: symphony.schema })
})
afterAll(async () => {
  await database.close()
  await symphony.close()
})

async function enqueueFor(rail: { readonly type: string }, overrides = {}) {
  const instruction = buildInstruction({ railType: rail.type, payload: PAYLOAD, ...overrides })
  return symphony.transaction((tx) => symphony.enqueue(instruction, { tx }))
}

const stateOf = (outboxId: string) => symphony.payments.get({ outboxId })

test('the test program of the documentation pays once after a busy bank and a lost answer', () => {
  const bank = memoryRail({ type: 'bank', onUnknown: 'inquire' })
  return withTestSymphony({ rails: [bank], serverUrl: inject('serverUrl'), schema: testSchema() }, async (own) => {
    await own.transaction((tx) =>
      own.enqueue({ railType: 'bank', instructionId: 'P-1', participantId: 'shop', payload: PAYLOAD }, { tx }),
    )
    // @ts-expect-error: the rail is misspelt
    await expect(own.enqueue({ railType: 'bnak' }, { tx: undefined })).rejects.toThrow('expected')
    bank.next({ outcome: 'retryable', code: 'BUSY' }, 'lost')
    const { dispatched, retryable } = await own.drain({ throughTime: true })
    expect({ dispatched, retryable, paid: bank.paid.size }).toEqual({ dispatched: 1, retryable: 2, paid: 1 })
  })
})

test('drain uses the rails of its Symphony and leaves them open until the Symphony closes', async () => {
  let closed = 0
  const bank = { ...memoryRail({ type: 'own', onUnknown: 'hold' }), close: () => void (closed += 1) }
  const options = { rails: [bank], serverUrl: inject('serverUrl'), schema: testSchema() } as const
  await withTestSymphony(options, async (own) => {
    for (const instructionId of ['1', '2']) {
      const instruction = { railType: 'own', instructionId, participantId: 'shop', payload: PAYLOAD } as const
      await own.transaction((tx) => own.enqueue(instruction, { tx }))
      expect(await own.drain()).toMatchObject({ dispatched: 1 })
    }
    expect(closed).toBe(0)
  })
  expect(closed).toBe(1)
})

test('drain refuses a misspelt option', async () => {
  const options: object = { throughTimes: true }
  await expect(symphony.drain(options)).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: '"throughTimes": unknown; did you mean throughTime?',
  })
})

test('drain with throughTime handles a delayed inbox message and the message of a later timer', async () => {
  const later = new Date(Date.now() + 3_600_000)
  await symphony.scheduler.scheduleTimer({ topic: 'remind', payload: { n: 1 }, dueAt: later })
  await symphony.inbox.enqueue({ source: 'bank', messageId: 'e-1', topic: 'settled', payload: {}, notBefore: later })
  const seen: string[] = []
  const counts = await symphony.drain({
    throughTime: true,
    scheduler: true,
    topics: { remind: async () => void seen.push('remind') },
    inbox: { handlers: { settled: async () => void seen.push('settled') } },
  })
  expect(counts).toMatchObject({ scheduled: 1, handled: 1, dispatched: 1 })
  expect(seen.toSorted()).toEqual(['remind', 'settled'])
})

test('drain goes on after a round that only failed or released inbox messages', async () => {
  for (const messageId of ['f-1', 'f-2', 'f-3']) {
    await symphony.inbox.enqueue({
      source: 'drain',
      messageId,
      topic: messageId === 'f-3' ? 'good' : 'bad',
      payload: {},
    })
  }
  const seen: string[] = []
  const handle = async ({ messageId }: { readonly messageId: string }) => {
    seen.push(messageId)
    if (messageId !== 'f-3') throw new PermanentFailureError('refused')
  }
  const inbox = { handlers: { bad: handle, good: handle }, concurrency: 1 }
  const counts = await symphony.drain({ inbox })
  expect(seen.toSorted()).toEqual(['f-1', 'f-2', 'f-3'])
  expect(counts).toMatchObject({ inboxClaimed: 3, handled: 1 })
})

test('drain with throughTime ends although an inbox message of a topic without a handler is left', async () => {
  await symphony.inbox.enqueue({ source: 'drain', messageId: 'u-1', topic: 'unhandled', payload: {} })
  const counts = await symphony.drain({ throughTime: true, inbox: { handlers: {} } })
  expect(counts).toMatchObject({ inboxClaimed: 1, handled: 0 })
  const inbox = { handlers: { unhandled: async () => {} } }
  expect(await symphony.drain({ throughTime: true, inbox })).toMatchObject({ inboxClaimed: 1, handled: 1 })
})

test('drain dispatches due payments and returns their counts', async () => {
  const rail = memoryRail({ type: 'plain', onUnknown: 'hold' })
  const { outboxId } = await enqueueFor(rail)
  expect(await symphony.drain({ rails: [rail] })).toMatchObject({ claimed: 1, dispatched: 1 })
  expect(rail.paid.get(outboxId)).toEqual({ reference: 'memory-1', payload: PAYLOAD })
  expect(await stateOf(outboxId)).toMatchObject({ state: 'DISPATCHED', lastRailReference: 'memory-1' })
  expect(await symphony.drain({ rails: [rail] })).toMatchObject({ claimed: 0, dispatched: 0 })
})

test('drain leaves a retry that is not due; with throughTime it advances to the due time', async () => {
  const rail = memoryRail({ type: 'busy', onUnknown: 'hold' })
  rail.next({ outcome: 'retryable', code: 'BUSY' }, 'unreachable', { outcome: 'success', reference: 'own-7' })
  const { outboxId } = await enqueueFor(rail)
  expect(await symphony.drain({ rails: [rail] })).toMatchObject({ claimed: 1, retryable: 1, dispatched: 0 })
  expect(await symphony.drain({ rails: [rail], throughTime: true })).toMatchObject({ retryable: 1, dispatched: 1 })
  expect(rail.calls.map(({ reference, attempt }) => [reference, attempt])).toEqual([
    [outboxId, 1],
    [outboxId, 2],
    [outboxId, 3],
  ])
  expect(rail.paid.get(outboxId)?.reference).toBe('own-7')
})

test('memoryRail pays once if an answer is lost and the relayer inquires', async () => {
  const rail = memoryRail({ type: 'lossy', onUnknown: 'inquire' })
  rail.next('lost')
  const { outboxId } = await enqueueFor(rail)
  expect(await symphony.drain({ rails: [rail] })).toMatchObject({ dispatched: 0 })
  expect(await stateOf(outboxId)).toMatchObject({ outcomeUnknown: true })
  expect(await symphony.drain({ rails: [rail], throughTime: true })).toMatchObject({ dispatched: 1 })
  expect(rail.calls).toHaveLength(1)
  expect(rail.paid.size).toBe(1)
})

test('memoryRail pays once if a payment is sent again under its reference', async () => {
  const rail = memoryRail({ type: 'idempotent', onUnknown: 'resend' })
  rail.next('lost')
  const { outboxId } = await enqueueFor(rail)
  expect(await symphony.drain({ rails: [rail], throughTime: true })).toMatchObject({ dispatched: 1 })
  expect(rail.calls).toHaveLength(2)
  expect([...rail.paid]).toEqual([[outboxId, { reference: 'memory-1', payload: PAYLOAD }]])
  expect(await stateOf(outboxId)).toMatchObject({ lastRailReference: 'memory-1' })
})

test('a payment on a rail that never answers times out and is held', async () => {
  const rail = memoryRail({ type: 'silent', onUnknown: 'hold', timeoutMs: 100 })
  rail.next('silent')
  await enqueueFor(rail)
  expect(await symphony.drain({ rails: [rail] })).toMatchObject({ held: 1 })
  expect(rail.paid.size).toBe(0)
})

test('drain with throughTime ends although work of other rails is left', async () => {
  const rail = memoryRail({ type: 'ours', onUnknown: 'hold' })
  const theirs = await enqueueFor({ type: 'theirs' })
  rail.next('unreachable')
  await enqueueFor(rail)
  expect(await symphony.drain({ rails: [rail], throughTime: true })).toMatchObject({ retryable: 1, dispatched: 1 })
  expect(await stateOf(theirs.outboxId)).toMatchObject({ lastAttemptNo: null })
})

test('drain with throughTime is not blocked by an expired lease of another worker', async () => {
  const rail = memoryRail({ type: 'shared', onUnknown: 'hold' })
  const { outboxId } = await enqueueFor({ type: 'elsewhere' })
  await claimOutboxBatch(database.as('symphony_executor'), 1, 'another', 60, { rails: ['elsewhere'] })
  rail.next('unreachable')
  await enqueueFor(rail)
  await symphony.advance(120_000)
  expect(await symphony.drain({ rails: [rail], throughTime: true })).toMatchObject({ retryable: 1, dispatched: 1 })
  expect(await stateOf(outboxId)).toMatchObject({ claimedBy: 'another' })
})

test('drain throws if work is left after roundsMax', async () => {
  const rail = memoryRail({ type: 'endless', onUnknown: 'hold' })
  rail.next(...Array.from({ length: 5 }, () => 'unreachable' as const))
  await enqueueFor(rail)
  await expect(symphony.drain({ rails: [rail], throughTime: true, roundsMax: 2 })).rejects.toThrow(
    'work is left after 2 rounds',
  )
  await symphony.drain({ rails: [rail], throughTime: true })
})

test('advance makes the same time pass for payments, messages, timers and leases', async () => {
  const hour = 3_600_000
  const later = new Date(Date.now() + hour)
  const rail = memoryRail({ type: 'later', onUnknown: 'hold' })
  await enqueueFor(rail, { notBefore: later })
  await symphony.inbox.enqueue({ source: 'a', messageId: '1', topic: 't', payload: {}, notBefore: later })
  await scheduleTimer(database.as('symphony_ingest'), { topic: 't', payload: {}, dueAt: later, delivery: 'claim' })
  const { leases } = symphony
  const lease = await leases.acquire('resource', { durationMs: hour, renewEveryMs: hour / 2, owner: 'ada' })
  const found = async () => ({
    payments: (await symphony.drain({ rails: [rail] })).claimed,
    messages: (await symphony.inbox.claim({ batchSize: 1, leaseSeconds: 60 })).length,
    timers: (await claimTimers(database.as('symphony_executor'), 1, 'w', 60)).length,
    leases: (await leases.acquire('resource', { durationMs: hour, owner: 'grace' })) === null ? 0 : 1,
  })
  await symphony.advance(hour - 60_000)
  expect(await found()).toEqual({ payments: 0, messages: 0, timers: 0, leases: 0 })
  await symphony.advance(60_000)
  expect(await found()).toEqual({ payments: 1, messages: 1, timers: 1, leases: 1 })
  await lease?.release().catch(() => {})
})

test('advance refuses a database that was not created for a test (NOT_A_TEST_DATABASE)', async () => {
  await using ours = await createOurDatabase()
  const unmarked = new TestSymphony({ url: ours.url, schema: ours.schema }, async () => {})
  await expect(unmarked.advance(1_000)).rejects.toBeInstanceOf(NotATestDatabaseError)
  await unmarked.close()
})

test('withTestSymphony drops its database even if the test fails', async () => {
  const urls: string[] = []
  const failing = withTestSymphony({ serverUrl: inject('serverUrl'), schema: testSchema() }, async ({ url }) => {
    urls.push(url)
    throw new Error('the test failed')
  })
  await expect(failing).rejects.toThrow('the test failed')
  await using ours = await createOurDatabase({ content: 'empty' })
  const names = urls.map((url) => new URL(url).pathname.slice(1))
  const { rows } = await ours.queryNoRole('SELECT 1 FROM pg_database WHERE datname = ANY ($1)', [names])
  expect([names.length, rows.length]).toEqual([1, 0])
})

test('TestClock stands still until it is advanced, and never goes back', () => {
  const clock = new TestClock(new Date('2026-05-01T00:00:00Z'))
  expect([clock.now().toISOString(), clock.monotonicMs()]).toEqual(['2026-05-01T00:00:00.000Z', 0])
  clock.advance(1_500)
  expect([clock.now().toISOString(), clock.monotonicMs()]).toEqual(['2026-05-01T00:00:01.500Z', 1_500])
  for (const ms of [-1, 0.5, Number.NaN]) expect(() => clock.advance(ms)).toThrow('ms: expected')
  expect(() => new TestClock(new Date(Number.NaN))).toThrow('start: expected')
})

test('the functions of symphony-pg/testing refuse invalid arguments before any I/O', async () => {
  const rail = memoryRail({ type: 'wrong', onUnknown: 'hold' })
  // @ts-expect-error: a caller in JavaScript could pass this
  expect(() => rail.next('vanish')).toThrow('answers[0]: expected')
  await expect(symphony.advance(-1)).rejects.toThrow('ms: expected')
  await expect(symphony.drain({ rails: [rail], roundsMax: 0 })).rejects.toThrow('roundsMax: expected')
  await expect(symphony.drain()).rejects.toMatchObject({ code: 'NOTHING_TO_DO' })
  await expect(createTestSymphony({ serverUrl: ' ' })).rejects.toThrow('serverUrl')
  const twice = createTestSymphony({ serverUrl: inject('serverUrl'), rails: [rail, rail] })
  await expect(twice).rejects.toThrow('declared twice')
})
