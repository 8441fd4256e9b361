import { beforeAll, expect, test } from 'vitest'
import { OutboxRelayer, OutboxStore, topicRails, type TopicMessage } from '../../libs/outbox/index.js'
import { PermanentFailureError } from '../../libs/core/index.js'
import { loadRails } from '../../libs/rails/index.js'
import { useTestDatabase } from '../support/database.js'
import { attemptRows } from '../support/outboxItems.js'
import { railRequest } from '../support/railRequest.js'

const db = await useTestDatabase()
let store: OutboxStore
beforeAll(async () => {
  store = new OutboxStore(db.database)
})

test('PRIM-POSTGRES-OUTBOX-002 concurrent claims are disjoint and complete', async () => {
  const ids = await Promise.all(
    Array.from(
      { length: 200 },
      async (_, number) => (await store.enqueue({ topic: 'many', payload: { number } })).outboxId,
    ),
  )
  // One owner per connection of the pool.
  const owners = Array.from({ length: 16 }, () => new OutboxStore(db.database))
  const drain = async (owner: OutboxStore): Promise<string[]> => {
    const batch = await owner.claim({ batchSize: 7, topics: ['many'] })
    return batch.length === 0 ? [] : [...batch.map(({ id }) => id), ...(await drain(owner))]
  }
  const claimed = (await Promise.all(owners.map(drain))).flat()
  expect(claimed).toHaveLength(200)
  expect(new Set(claimed)).toEqual(new Set(ids))
})

interface Payloads {
  welcome: { readonly email: string }
  farewell: { readonly email: string }
}

test('a message is DISPATCHED if handled, FAILED after PermanentFailureError, else RETRYABLE', async () => {
  const seen: string[] = []
  const missed: TopicMessage[] = []
  const rails = topicRails<Payloads>(
    {
      welcome: ({ payload: { email }, messageId, key, attempt }) => {
        seen.push(`${email} ${messageId} ${key} ${attempt}`)
        if (email === 'bad@') throw new PermanentFailureError('no such mailbox')
        if (email === 'busy@') throw new Error('try later')
      },
      farewell: { handle: () => {}, concurrency: 1 },
    },
    { expected: { topics: ['welcome', 'forgotten'], onMissingHandler: (message) => missed.push(message) } },
  )
  const good = await store.enqueue({ topic: 'welcome', payload: { email: 'a@' }, messageId: 'm-1', key: 'k-1' })
  const bad = await store.enqueue({ topic: 'welcome', payload: { email: 'bad@' }, messageId: 'm-2' })
  const busy = await store.enqueue({ topic: 'welcome', payload: { email: 'busy@' }, messageId: 'm-3' })
  const bye = await store.enqueue({ topic: 'farewell', payload: { email: 'a@' } })
  const lost = await store.enqueue({ topic: 'forgotten', payload: { what: 'unhandled' }, messageId: 'm-4' })
  const elsewhere = await store.enqueue({ topic: 'of-another-process', payload: {} })

  const relayer = new OutboxRelayer(db.database, loadRails(rails))
  await relayer.runOnce()
  await relayer.stop()

  expect(new Set(seen)).toEqual(new Set(['a@ m-1 k-1 1', 'bad@ m-2 m-2 1', 'busy@ m-3 m-3 1']))
  const outcome = async ({ outboxId }: { readonly outboxId: string }) => {
    const [attempt] = await attemptRows(db, outboxId)
    return attempt === undefined
      ? undefined
      : [attempt.state, attempt.rail_reference, attempt.error_code, attempt.error_message]
  }
  expect(await outcome(good)).toEqual(['DISPATCHED', 'm-1', null, null])
  expect(await outcome(bad)).toEqual(['FAILED', null, 'PERMANENT_FAILURE', 'no such mailbox'])
  expect(await outcome(busy)).toEqual(['RETRYABLE', null, 'HANDLER_FAILED', 'try later'])
  expect(await outcome(bye)).toEqual(['DISPATCHED', bye.messageId, null, null])
  expect(await outcome(lost)).toEqual(['RETRYABLE', null, 'NO_HANDLER', 'no handler for the topic forgotten'])
  expect(missed).toEqual([
    { messageId: 'm-4', topic: 'forgotten', key: 'm-4', payload: { what: 'unhandled' }, attempt: 1 },
  ])
  // The relayer does not claim a topic that it neither handles nor expects.
  expect(await outcome(elsewhere)).toBeUndefined()
})

test('the rail of a topic without a handler answers retryable for 19 attempts, then unknown', async () => {
  const [rail] = topicRails({}, { expected: { topics: ['forgotten'], onMissingHandler: () => {} } })
  const answers = []
  for (let attempt = 1; attempt <= 20; attempt++) {
    const request = railRequest({ attempt })
    answers.push(await rail!.dispatch(request, { signal: new AbortController().signal }))
  }
  const delays = answers.slice(0, 19).map((answer) => ('retryAfterMs' in answer ? (answer.retryAfterMs ?? 0) : 0))
  expect(answers.slice(0, 19).every(({ outcome }) => outcome === 'retryable')).toBe(true)
  expect(delays.reduce((sum, delay) => sum + delay, 0)).toBeGreaterThan(2.5 * 86_400_000)
  expect(Math.max(...delays)).toBe(6 * 3_600_000)
  // The last answer is unknown, because an unknown outcome at the retry ceiling is held, not FAILED.
  expect(answers[19]).toMatchObject({ outcome: 'unknown', code: 'NO_HANDLER' })
})

test('topicRails refuses an invalid handler, and the option expected without onMissingHandler', () => {
  const expected = { topics: ['x'] }
  expect(() => Reflect.apply(topicRails, undefined, [{}, { expected }])).toThrow('onMissingHandler')
  expect(() => Reflect.apply(topicRails, undefined, [{ x: 7 }])).toThrow('handlers.x')
  expect(() => topicRails({ ' ': () => {} })).toThrow('topic')
})
