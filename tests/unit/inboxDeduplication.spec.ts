import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { ArgumentRangeError, InvalidArgumentError } from '../../libs/core/index.js'
import {
  Inbox,
  InboxContentDiffersError,
  markInboxProcessed,
  readInboxEvents,
  recordInboxSighting,
  reviveInboxMessage,
  type InboxKey,
  type MessageContent,
} from '../../libs/inbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildMessage, claimOf, enqueued, enqueuedAndClaimed, rowOf } from '../support/inboxMessages.js'
import { failureOf, openConnection } from '../support/race.js'

/** Tests of deduplication by alreadyProcessed and the mark functions. No worker claims these messages. */

const db = await useTestDatabase()
let inbox: Inbox
beforeAll(async () => {
  inbox = new Inbox(db.database)
})

const buildKey = (): InboxKey => ({ source: `source-${randomUUID()}`, messageId: 'message-1' })

/** Creates a message and moves it to this state. */
async function inState(state: 'seen' | 'processing' | 'done' | 'dead'): Promise<InboxKey> {
  const key = buildKey()
  await inbox.alreadyProcessed(key)
  if (state === 'processing' || state === 'done') await inbox.markProcessing(key)
  if (state === 'done') await inbox.markProcessed(key)
  if (state === 'dead') await inbox.markDead(key, 'poison')
  return key
}

describe('PRIM-POSTGRES-INBOX-001 alreadyProcessed', () => {
  test.each([null, undefined, '', ' ', '\t\r\n', '\u00A0\u2003\u3000\uFEFF', 17])(
    'refuses %j as message id or source before any I/O, and names the argument',
    async (blank) => {
      const unreachable = new Inbox({
        as: (role) => ({ ...db.as(role), query: () => Promise.reject(new Error('there was I/O')) }),
      })
      for (const argument of ['messageId', 'source'] as const) {
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- an untyped caller may pass this
        const key = { ...buildKey(), [argument]: blank } as unknown as InboxKey
        const error = await failureOf(unreachable.alreadyProcessed(key))
        expect(error).toBeInstanceOf(InvalidArgumentError)
        expect(error).toBeInstanceOf(TypeError)
        expect(error).toMatchObject({ argument })
      }
    },
  )

  test('refuses a blank source or message id in the SQL function, and stores nothing', async () => {
    const executor = db.as('symphony_executor')
    for (const blank of [null, '', ' ', '\t', '\u00A0\u2003\u3000\uFEFF']) {
      for (const values of [
        [blank, 'message-1'],
        ['source-1', blank],
      ]) {
        const sighting = executor.query(`SELECT * FROM ${db.qualify('record_inbox_sighting')}($1, $2)`, values)
        const argument = values[0] === blank ? 'p_source' : 'p_message_id'
        expect(await failureOf(sighting)).toMatchObject({
          code: 'INVALID_PARAMETER',
          message: expect.stringMatching(`^${argument}: expected`),
        })
      }
    }
    expect((await db.queryNoRole(`SELECT 1 FROM inbox_messages WHERE btrim(source) IN ('', 'source-1')`)).rows).toEqual(
      [],
    )
  })

  test('accepts ids of up to 255 characters without control characters', async () => {
    const longest = { source: '😀'.repeat(255), messageId: '😀'.repeat(255) }
    expect(await inbox.alreadyProcessed(longest)).toBe(false)
    expect(await rowOf(db, longest)).toMatchObject({ state: 'seen' })
    for (const messageId of ['x'.repeat(256), '😀'.repeat(256)]) {
      expect(await failureOf(inbox.alreadyProcessed({ ...buildKey(), messageId }))).toBeInstanceOf(ArgumentRangeError)
    }
    for (const messageId of ['a\tb', 'a\n', 'a\u007F', 'a\u0085', 'a\0', 'a\uD800']) {
      const error = await failureOf(inbox.alreadyProcessed({ ...buildKey(), messageId }))
      expect(error).toBeInstanceOf(InvalidArgumentError)
      expect(error).toMatchObject({ argument: 'messageId' })
    }
  })

  test('returns false until the message is done, and true afterwards', async () => {
    const key = buildKey()
    expect(await inbox.alreadyProcessed(key)).toBe(false)
    expect(await inbox.alreadyProcessed(key)).toBe(false)
    await inbox.markProcessing(key)
    expect(await inbox.alreadyProcessed(key)).toBe(false)
    await inbox.markProcessed(key)
    expect(await inbox.alreadyProcessed(key)).toBe(true)
    // The same id of another source is another message.
    expect(await inbox.alreadyProcessed({ ...buildKey(), messageId: key.messageId })).toBe(false)
  })

  test('counts a sighting, not an attempt', async () => {
    const key = buildKey()
    for (let sighting = 0; sighting < 3; sighting += 1) await inbox.alreadyProcessed(key)
    expect(await rowOf(db, key)).toMatchObject({ sightings: 3n, attempt_count: 0 })
    await inbox.markProcessing(key)
    expect(await rowOf(db, key)).toMatchObject({ sightings: 3n, attempt_count: 1 })
  })

  test('throws if the content differs from the first, and writes one event per different content', async () => {
    const key = buildKey()
    const executor = db.as('symphony_executor')
    expect(await inbox.alreadyProcessed(key, { topic: 'paid', payload: { a: 1, b: 2 } })).toBe(false)
    // The order of keys makes no difference.
    expect(await inbox.alreadyProcessed(key, { topic: 'paid', payload: { b: 2, a: 1 } })).toBe(false)
    expect(await inbox.alreadyProcessed(key)).toBe(false)
    for (let repetition = 0; repetition < 2; repetition += 1) {
      const error = await failureOf(inbox.alreadyProcessed(key, { topic: 'paid', payload: { a: 1, b: 3 } }))
      expect(error).toBeInstanceOf(InboxContentDiffersError)
      expect(error).toMatchObject({ code: 'INBOX_CONTENT_DIFFERS', ...key })
    }
    expect(await recordInboxSighting(executor, key, { topic: 'paid', payload: { a: 1, b: 4 } })).toMatchObject({
      contentDiffers: true,
    })
    const events = await readInboxEvents(db.as('symphony_readonly'), key)
    expect(events.map(({ eventType }) => eventType)).toEqual(['CONTENT_DIFFERS', 'CONTENT_DIFFERS'])
    // The topic is part of the content.
    expect(await recordInboxSighting(executor, key, { topic: 'other', payload: { a: 1, b: 2 } })).toMatchObject({
      contentDiffers: true,
    })
    expect(await rowOf(db, key)).toMatchObject({ topic: null, payload: null, sightings: 7n })
  })

  test('compares with the first content, even after a sighting without content', async () => {
    const key = buildKey()
    await inbox.alreadyProcessed(key)
    await inbox.alreadyProcessed(key, { topic: 'paid', payload: { a: 1 } })
    await expect(inbox.alreadyProcessed(key, { topic: 'paid', payload: { a: 2 } })).rejects.toThrow(
      InboxContentDiffersError,
    )
  })

  test('refuses an invalid topic or payload', async () => {
    expect(await failureOf(sightingOf('a b', {}))).toMatchObject({ message: expect.stringMatching(/^p_topic: /) })
    expect(await failureOf(sightingOf('a', '[]'))).toMatchObject({ message: expect.stringMatching(/^p_payload: /) })
  })

  test('refuses a topic without a payload and a payload without a topic', async () => {
    expect(await failureOf(sightingOf(null, {}))).toMatchObject({ message: expect.stringMatching(/^p_topic: /) })
    expect(await failureOf(sightingOf('a', null))).toMatchObject({ message: expect.stringMatching(/^p_payload: /) })
    const { topic, payload, ...key } = buildMessage()
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- an untyped caller may pass this
    const half = { payload } as unknown as MessageContent
    expect(await failureOf(inbox.alreadyProcessed(key, half))).toMatchObject({ argument: 'topic' })
    expect(await inbox.alreadyProcessed(key, { topic, payload })).toBe(false)
    expect(await inbox.enqueue({ ...key, topic, payload })).toMatchObject({ created: true, contentDiffers: false })
  })
})

function sightingOf(topic: string | null, payload: unknown): Promise<unknown> {
  const call = `SELECT * FROM ${db.qualify('record_inbox_sighting')}('s', 'm', $1, $2)`
  return db.as('symphony_executor').query(call, [topic, payload])
}

describe('PRIM-POSTGRES-INBOX-002 markProcessing', () => {
  test('moves a seen message to processing, and counts the attempt', async () => {
    const key = await inState('seen')
    await inbox.markProcessing(key)
    expect(await rowOf(db, key)).toMatchObject({ state: 'processing', attempt_count: 1, fence: null, ended_at: null })
  })

  test('can be repeated after a crash, and counts another attempt', async () => {
    const key = await inState('processing')
    await inbox.markProcessing(key)
    expect(await rowOf(db, key)).toMatchObject({ state: 'processing', attempt_count: 2 })
  })
})

describe('PRIM-POSTGRES-INBOX-003 markProcessed', () => {
  test('moves a processing message to done; a repetition changes nothing', async () => {
    const key = await inState('processing')
    await inbox.markProcessed(key)
    const done = await rowOf(db, key)
    expect(done).toMatchObject({ state: 'done', attempt_count: 1, ended_at: expect.any(Date) })
    await inbox.markProcessed(key)
    expect(await rowOf(db, key)).toEqual(done)
  })

  test('is rolled back with the transaction of the handler', async () => {
    const key = await inState('processing')
    const undone = db.database.transactionAsRole('symphony_executor', async (tx) => {
      await markInboxProcessed(tx, key)
      throw new Error('the work failed')
    })
    await expect(undone).rejects.toThrow('the work failed')
    expect(await rowOf(db, key)).toMatchObject({ state: 'processing' })
  })
})

describe('PRIM-POSTGRES-INBOX-004 markDead', () => {
  test.each(['seen', 'processing'] as const)(
    'moves a %s message to dead, with its error and an event',
    async (state) => {
      const key = await inState(state)
      await inbox.markDead(key, 'cannot be read')
      const dead = await rowOf(db, key)
      expect(dead).toMatchObject({ state: 'dead', last_error: 'cannot be read', ended_at: expect.any(Date) })
      await inbox.markDead(key, 'again')
      expect(await rowOf(db, key)).toEqual(dead)
      expect(await readInboxEvents(db.as('symphony_readonly'), key)).toMatchObject([
        { eventType: 'DIED', actor: 'symphony_test_login', detail: { error: 'cannot be read' } },
      ])
    },
  )

  test('stores at most 2,000 characters of the error, and refuses a blank error in SQL', async () => {
    const key = await inState('seen')
    await inbox.markDead(key, `\u0000${'x'.repeat(5_000)}`)
    expect(String((await rowOf(db, key))['last_error'])).toHaveLength(2_000)
    const blank = db.as('symphony_executor').query(`SELECT ${db.qualify('mark_inbox_dead')}('s', 'm', $1)`, [' '])
    expect(await failureOf(blank)).toMatchObject({ code: 'INVALID_PARAMETER' })
  })

  test('is undone when an operator revives the message, whose attempt count becomes 0', async () => {
    const key = await inState('processing')
    await inbox.markDead(key, 'poison')
    await reviveInboxMessage(db.as('symphony_control'), key, 'the sender repaired it')
    expect(await rowOf(db, key)).toMatchObject({ state: 'seen', attempt_count: 0, ended_at: null, due_at: null })
    await inbox.markProcessing(key)
    await inbox.markProcessed(key)
  })
})

const MARKS = {
  'PRIM-POSTGRES-INBOX-002 markProcessing': (key: InboxKey) => inbox.markProcessing(key),
  'PRIM-POSTGRES-INBOX-003 markProcessed': (key: InboxKey) => inbox.markProcessed(key),
  'PRIM-POSTGRES-INBOX-004 markDead': (key: InboxKey) => inbox.markDead(key, 'poison'),
} as const

describe.each(Object.entries(MARKS))('%s', (name, mark) => {
  test('throws for an unknown message (P7011), and creates nothing', async () => {
    const key = buildKey()
    const error = await failureOf(mark(key))
    expect(error).toMatchObject({ code: 'INBOX_UNKNOWN' })
    expect(error).toMatchObject({ code: 'INBOX_UNKNOWN', sqlstate: 'P7011', disposition: 'fatal' })
    expect(await rowOf(db, key)).toEqual({})
  })

  test('refuses a blank source or id before any I/O', async () => {
    await expect(mark({ ...buildKey(), source: ' ' })).rejects.toThrow(InvalidArgumentError)
    await expect(mark({ ...buildKey(), messageId: '' })).rejects.toThrow(InvalidArgumentError)
  })

  test('refuses an enqueued message, claimed or not (P7010)', async () => {
    const waiting = await enqueued(db, { notBefore: new Date(Date.now() + 3_600_000) })
    const claimed = await enqueuedAndClaimed(db)
    for (const key of [waiting, claimed]) {
      const before = await rowOf(db, key)
      const error = await failureOf(mark(key))
      expect(error).toMatchObject({ code: 'INBOX_TRANSITION' })
      expect(error).toMatchObject({ code: 'INBOX_TRANSITION', sqlstate: 'P7010' })
      expect(await rowOf(db, key)).toMatchObject({ ...before, due_later: expect.anything() })
    }
  })

  test('raises 40001 in a REPEATABLE READ transaction that is older than the message', async () => {
    const connection = await openConnection(db, 'symphony_executor')
    await connection.client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await connection.client.query('SELECT 1')
    const { source, messageId } = await inState('processing')
    const call = connection.client.query(`SELECT ${functionOf(name)}`, [source, messageId])
    expect(await failureOf(call)).toMatchObject({ code: '40001' })
    await connection.close()
  })
})

function functionOf(name: string): string {
  if (name.includes('002')) return `${db.qualify('mark_inbox_processing')}($1, $2)`
  if (name.includes('003')) return `${db.qualify('mark_inbox_processed')}($1, $2)`
  return `${db.qualify('mark_inbox_dead')}($1, $2, 'poison')`
}

test.each([
  ['PRIM-POSTGRES-INBOX-002 markProcessing', 'done', 'processing'],
  ['PRIM-POSTGRES-INBOX-002 markProcessing', 'dead', 'processing'],
  ['PRIM-POSTGRES-INBOX-003 markProcessed', 'seen', 'done'],
  ['PRIM-POSTGRES-INBOX-003 markProcessed', 'dead', 'done'],
  ['PRIM-POSTGRES-INBOX-004 markDead', 'done', 'dead'],
] as const)('%s refuses a message in state %s (P7010)', async (name, from, to) => {
  const key = await inState(from)
  const before = await rowOf(db, key)
  const error = await failureOf(MARKS[name](key))
  expect(error).toMatchObject({ code: 'INBOX_TRANSITION' })
  expect(error).toMatchObject({ sqlstate: 'P7010', detail: `{"from" : "${from}", "to" : "${to}"}` })
  expect(await rowOf(db, key)).toEqual(before)
})

test('a message known only for deduplication is never claimed, in any state', async () => {
  for (const state of ['seen', 'processing', 'done', 'dead'] as const) {
    const key = await inState(state)
    expect(await claimOf(db, key)).toEqual([])
    expect(await rowOf(db, key)).toMatchObject({ state, fence: null })
  }
  const revived = await inState('dead')
  await reviveInboxMessage(db.as('symphony_control'), revived, 'again')
  expect(await claimOf(db, revived)).toEqual([])
})
