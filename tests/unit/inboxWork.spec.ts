import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { ArgumentRangeError, InvalidArgumentError } from '../../libs/core/index.js'
import {
  abandonInboxMessages,
  ackInboxMessages,
  claimInboxBatch,
  enqueueInboxMessages,
  failInboxMessages,
  Inbox,
  readInboxEvents,
  type InboxClaim,
  type InboxClaimRef,
} from '../../libs/inbox/index.js'
import { useTestDatabase, withTestDatabase } from '../support/database.js'
import {
  buildMessage,
  claimOf,
  endedAgo,
  enqueued,
  enqueuedAndClaimed,
  expireClaim,
  makeDue,
  rowOf,
  sightedAgo,
  WORKER,
} from '../support/inboxMessages.js'
import { failureOf, openConnection, untilWaiting } from '../support/race.js'

/** Tests of the inbox as a queue: claims, their fences and the states of messages. */

const db = await useTestDatabase()
let store: Inbox
beforeAll(async () => {
  store = new Inbox(db.database, { workerId: WORKER })
})

const keyOf = ({ source, messageId }: InboxClaimRef) => ({ source, messageId })

/** Functions that end a claim. Each returns the keys of the messages that it changed. */
const VERBS: Readonly<Record<string, (claims: readonly InboxClaimRef[], workerId?: string) => Promise<unknown[]>>> = {
  ack: (claims, workerId = WORKER) => ackInboxMessages(db.as('symphony_executor'), claims, workerId),
  abandon: async (claims, workerId = WORKER) =>
    (await abandonInboxMessages(db.as('symphony_executor'), claims, workerId)).map(({ source, messageId }) => ({
      source,
      messageId,
    })),
  fail: (claims, workerId = WORKER) => failInboxMessages(db.as('symphony_executor'), claims, workerId),
}

describe.each(Object.entries(VERBS))('PRIM-POSTGRES-INBOX-005 %s', (name, verb) => {
  test('changes the message once if worker and fence match the claim', async () => {
    const claim = await enqueuedAndClaimed(db)
    expect(await verb([claim])).toEqual([keyOf(claim)])
    expect(await rowOf(db, claim)).toMatchObject({
      state: { ack: 'done', abandon: 'seen', fail: 'dead' }[name],
      fence: null,
      claimed_by: null,
      claim_expires_at: null,
    })
    const after = await rowOf(db, claim)
    expect(await verb([claim])).toEqual([])
    expect(await rowOf(db, claim)).toEqual(after)
  })

  test('changes nothing with another fence or for another worker', async () => {
    const claim = await enqueuedAndClaimed(db)
    const before = await rowOf(db, claim)
    expect(await verb([{ ...claim, fence: randomUUID() }])).toEqual([])
    expect(await verb([claim], 'worker-2')).toEqual([])
    const foreign = await enqueuedAndClaimed(db)
    expect(await verb([{ ...claim, fence: foreign.fence }])).toEqual([])
    expect(await rowOf(db, claim)).toEqual(before)
  })

  test('changes nothing after the claim expired, even without a new claim', async () => {
    const claim = await enqueuedAndClaimed(db)
    await expireClaim(db, claim)
    const before = await rowOf(db, claim)
    expect(await verb([claim])).toEqual([])
    expect(await rowOf(db, claim)).toEqual(before)
  })

  test('changes nothing if the claim expired and the message was claimed again', async () => {
    const claim = await enqueuedAndClaimed(db)
    await expireClaim(db, claim)
    // The same worker claims again, so only the fence differs.
    const [second] = await claimOf(db, claim)
    expect(second).toMatchObject({ takenOver: true, attemptCount: 2 })
    expect(second!.fence).not.toBe(claim.fence)
    expect(await verb([claim])).toEqual([])
    expect(await rowOf(db, claim)).toMatchObject({ state: 'processing', fence: second!.fence, claim_live: true })
    expect(await verb([second!])).toEqual([keyOf(claim)])
  })

  test('changes nothing if the claim expires while the call waits for the row lock', async () => {
    const claim = await enqueuedAndClaimed(db)
    const holder = await openConnection(db)
    const waiter = await openConnection(db, 'symphony_executor')
    await holder.client.query('BEGIN')
    await holder.client.query('SELECT 1 FROM inbox_messages WHERE source = $1 FOR UPDATE', [claim.source])
    const call = {
      ack: () => ackInboxMessages(waiter, [claim], WORKER),
      abandon: () => abandonInboxMessages(waiter, [claim], WORKER),
      fail: () => failInboxMessages(waiter, [claim], WORKER),
    }[name]!()
    await untilWaiting(db, waiter)
    // The claim expires after the call began and before the call gets the row lock.
    await holder.client.query('UPDATE inbox_messages SET claim_expires_at = clock_timestamp() WHERE source = $1', [
      claim.source,
    ])
    await holder.client.query('COMMIT')
    expect(await call).toEqual([])
    expect(await rowOf(db, claim)).toMatchObject({ state: 'processing', fence: claim.fence })
    await Promise.all([holder.close(), waiter.close()])
  })

  test('skips messages of other workers and unknown, repeated or empty ids, and changes the others', async () => {
    const [one, two, foreign] = [
      await enqueuedAndClaimed(db),
      await enqueuedAndClaimed(db),
      await enqueuedAndClaimed(db, {}, { workerId: 'worker-2' }),
    ]
    const changed = await verb([
      two,
      foreign,
      { ...one, messageId: 'unknown' },
      one,
      two,
      { ...one, source: '' },
      { ...one, messageId: '  ' },
    ])
    expect(changed).toEqual([keyOf(two), keyOf(one)])
    expect(await rowOf(db, foreign)).toMatchObject({ state: 'processing', claimed_by: 'worker-2' })
    expect(await verb([])).toEqual([])
    expect(await verb([{ ...one, source: ' ' }])).toEqual([])
  })

  test('refuses an invalid fence, an invalid worker or 1001 claims before any I/O', async () => {
    const claim = { ...buildMessage(), fence: randomUUID() }
    await expect(verb([{ ...claim, fence: 'mine' }])).rejects.toThrow(InvalidArgumentError)
    await expect(verb([claim], '')).rejects.toThrow(InvalidArgumentError)
    await expect(verb(Array.from({ length: 1_001 }, () => claim))).rejects.toThrow(ArgumentRangeError)
  })
})

describe('claimInboxBatch', () => {
  test('claims up to the batch size in order of arrival, each with its own fence', async () => {
    await withTestDatabase(async (own) => {
      const messages = Array.from({ length: 7 }, (_, n) => buildMessage({ source: 's', messageId: `m-${6 - n}` }))
      await enqueueInboxMessages(own.as('symphony_ingest'), messages)
      const executor = own.as('symphony_executor')
      const claimed: InboxClaim[] = []
      for (const size of [3, 2, 3, 1]) claimed.push(...(await claimInboxBatch(executor, size, WORKER, 60)))
      expect(claimed.map(({ messageId }) => messageId)).toEqual(messages.map(({ messageId }) => messageId))
      expect(new Set(claimed.map(({ fence }) => fence)).size).toBe(7)
      expect(claimed[0]).toMatchObject({
        payload: messages[0]!.payload,
        attemptCount: 1,
        attemptsMax: 20,
        sightings: 1n,
        takenOver: false,
      })
    })
  })

  test('takes over an expired claim before it claims due messages', async () => {
    await withTestDatabase(async (own) => {
      const executor = own.as('symphony_executor')
      const stuck = await enqueuedAndClaimed(own)
      await enqueued(own)
      await expireClaim(own, stuck)
      expect(await claimInboxBatch(executor, 1, 'worker-2', 60)).toMatchObject([
        { source: stuck.source, takenOver: true, attemptCount: 2 },
      ])
      expect(await rowOf(own, stuck)).toMatchObject({
        claimed_by: 'worker-2',
        last_error: `attempt 1: the claim of worker ${WORKER} expired before it answered`,
      })
      expect(await claimInboxBatch(executor, 10, 'worker-2', 60)).toMatchObject([{ takenOver: false }])
    })
  })

  test.each([
    ['batchSize', [0, WORKER, 60]],
    ['batchSize', [1_001, WORKER, 60]],
    ['batchSize', [1.5, WORKER, 60]],
    ['batchSize', [Number.NaN, WORKER, 60]],
    ['leaseSeconds', [1, WORKER, 0]],
    ['leaseSeconds', [1, WORKER, 3_601]],
    ['attemptsMax', [1, WORKER, 60, 0]],
    ['attemptsMax', [1, WORKER, 60, 1_001]],
  ] as const)('refuses %s out of range before any I/O: %j', async (argument, [batch, worker, lease, attemptsMax]) => {
    const error = await failureOf(claimInboxBatch(db.as('symphony_executor'), batch, worker, lease, attemptsMax))
    expect(error).toBeInstanceOf(ArgumentRangeError)
    expect(error).toMatchObject({ argument })
  })
})

describe('Inbox.abandon', () => {
  test('makes the message due again after a growing delay, with its error', async () => {
    const message = await enqueued(db)
    const delays: number[] = []
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      const [claim] = await claimOf(db, message)
      expect(await store.abandon([{ ...claim!, error: `failure ${attempt}` }])).toMatchObject([{ state: 'seen' }])
      expect(await rowOf(db, message)).toMatchObject({
        state: 'seen',
        attempt_count: attempt,
        last_error: `failure ${attempt}`,
        due_later: true,
      })
      expect(await claimOf(db, message)).toEqual([])
      const { rows } = await db.queryNoRole<{ seconds: number }>(
        `SELECT extract(epoch FROM due_at - clock_timestamp())::float8 AS seconds FROM inbox_messages WHERE source = $1`,
        [message.source],
      )
      delays.push(rows[0]!.seconds)
      await makeDue(db, message)
    }
    // The delays are 5, 10 and 20 s, each shortened by up to a fifth. The lower bound leaves time for the query above.
    expect(delays.map((delay, index) => delay <= 5 * 2 ** index && delay > 3 * 2 ** index)).toEqual([true, true, true])
  })

  test('accepts a delay of up to 30 days', async () => {
    const claim = await enqueuedAndClaimed(db)
    await store.abandon([{ ...claim, retryDelaySeconds: 0 }])
    expect(await rowOf(db, claim)).toMatchObject({ due_later: false, last_error: null })
    const [again] = await claimOf(db, claim)
    await expect(store.abandon([{ ...again!, retryDelaySeconds: 2_592_001 }])).rejects.toThrow(ArgumentRangeError)
    await store.abandon([{ ...again!, retryDelaySeconds: 2_592_000 }])
    expect(await rowOf(db, claim)).toMatchObject({ due_later: true })
  })

  test('does not count the attempt if costsAttempt is false', async () => {
    const claim = await enqueuedAndClaimed(db, {}, { attemptsMax: 1 })
    const executor = db.as('symphony_executor')
    expect(await abandonInboxMessages(executor, [{ ...claim, error: 'no handler' }], WORKER, false)).toMatchObject([
      { state: 'seen' },
    ])
    expect(await rowOf(db, claim)).toMatchObject({ state: 'seen', attempt_count: 0, last_error: 'no handler' })
  })
})

describe('the attempt limit of an inbox message', () => {
  test('makes the message dead after the last failure, with its error and an event', async () => {
    const message = await enqueued(db)
    const [first] = await claimOf(db, message, { attemptsMax: 2 })
    await store.abandon([{ ...first!, error: 'the first failure', retryDelaySeconds: 0 }])
    const [second] = await claimOf(db, message, { attemptsMax: 2 })
    expect(await store.abandon([{ ...second!, error: 'the real reason' }])).toMatchObject([{ state: 'dead' }])
    expect(await rowOf(db, message)).toMatchObject({ state: 'dead', last_error: 'the real reason', attempt_count: 2 })
    expect(await readInboxEvents(db.as('symphony_readonly'), message)).toMatchObject([
      { eventType: 'DIED', actor: WORKER, detail: { attempts: 2, error: 'the real reason' } },
    ])
    expect(await claimOf(db, message)).toEqual([])
  })

  test('gives the dead message the latest reported error, or says that none was reported', async () => {
    const message = await enqueued(db)
    const [first] = await claimOf(db, message, { attemptsMax: 2 })
    await store.abandon([{ ...first!, error: 'the real reason', retryDelaySeconds: 0 }])
    const [second] = await claimOf(db, message, { attemptsMax: 2 })
    await store.abandon([second!])
    expect(await rowOf(db, message)).toMatchObject({ state: 'dead', last_error: 'the real reason' })
    const silent = await enqueuedAndClaimed(db)
    await store.fail([silent])
    expect(await rowOf(db, silent)).toMatchObject({ state: 'dead', last_error: 'no error was reported' })
  })

  test('counts expired claims: a message at the limit becomes dead instead of claimed', async () => {
    const message = await enqueued(db)
    for (let crash = 1; crash <= 2; crash += 1) {
      expect(await claimOf(db, message, { attemptsMax: 2 })).toMatchObject([{ attemptCount: crash }])
      await expireClaim(db, message)
    }
    expect(await claimOf(db, message, { attemptsMax: 2, workerId: 'worker-3' })).toEqual([])
    expect(await rowOf(db, message)).toMatchObject({
      state: 'dead',
      attempt_count: 2,
      last_error: `attempt 2: the claim of worker ${WORKER} expired before it answered`,
    })
    expect(await readInboxEvents(db.as('symphony_control'), message)).toMatchObject([{ actor: 'worker-3' }])
  })

  test('is 20 by default, or attemptsMax of the current claim', async () => {
    const message = await enqueued(db)
    for (let attempt = 1; attempt <= 20; attempt += 1) {
      const [claim] = await claimOf(db, message)
      const [abandoned] = await store.abandon([{ ...claim!, retryDelaySeconds: 0, error: String(attempt) }])
      expect(abandoned!.state).toBe(attempt < 20 ? 'seen' : 'dead')
    }
    const other = await enqueued(db)
    const [claim] = await claimOf(db, other, { attemptsMax: 5 })
    await store.abandon([{ ...claim!, retryDelaySeconds: 0, error: 'once' }])
    expect(await claimOf(db, other, { attemptsMax: 1 })).toEqual([])
    expect(await rowOf(db, other)).toMatchObject({ state: 'dead', last_error: 'once' })
  })
})

describe('Inbox.fail', () => {
  test('makes the message dead at once; a later ack, abandon or claim does not change it', async () => {
    const claim = await enqueuedAndClaimed(db)
    await store.fail([{ ...claim, error: 'malformed' }])
    expect(await rowOf(db, claim)).toMatchObject({ state: 'dead', last_error: 'malformed', ended_at: expect.any(Date) })
    expect(await store.ack([claim])).toEqual([])
    expect(await store.abandon([claim])).toEqual([])
    expect(await claimOf(db, claim)).toEqual([])
  })
})

describe('Inbox.revive', () => {
  test('makes a dead message due at once, resets its attempts, and records person and reason', async () => {
    const person = await db.createLogin('alice', { roles: ['symphony_control'] })
    const claim = await enqueuedAndClaimed(db, {}, { attemptsMax: 1 })
    await store.abandon([{ ...claim, error: 'the bank was closed' }])
    const eventId = await new Inbox(person.database, { workerId: 'x' }).revive(claim, 'it is open again')
    const events = await readInboxEvents(db.as('symphony_auditor'), claim)
    expect(events.map(({ eventType }) => eventType)).toEqual(['DIED', 'REVIVED'])
    expect(events[1]).toMatchObject({
      eventId,
      actor: person.name,
      detail: { reason: 'it is open again', attempts: 1, error: 'the bank was closed' },
    })
    expect(await claimOf(db, claim, { attemptsMax: 1 })).toMatchObject([{ attemptCount: 1 }])
  })

  test('refuses a message that is not dead, an unknown message, and a blank reason', async () => {
    const seen = await enqueued(db, { notBefore: new Date(Date.now() + 3_600_000) })
    const processing = await enqueuedAndClaimed(db)
    const done = await enqueuedAndClaimed(db)
    await store.ack([done])
    for (const key of [seen, processing, done]) {
      const error = await failureOf(store.revive(key, 'why not'))
      expect(error).toMatchObject({ code: 'INBOX_TRANSITION' })
      expect(error).toMatchObject({ code: 'INBOX_TRANSITION' })
    }
    expect(await failureOf(store.revive(buildMessage(), 'why not'))).toMatchObject({ code: 'INBOX_UNKNOWN' })
    expect(await failureOf(store.revive(seen, ' '))).toBeInstanceOf(InvalidArgumentError)
    expect(await readInboxEvents(db.as('symphony_control'), seen)).toEqual([])
  })

  test('notifies the workers', async () => {
    await withTestDatabase(async (own) => {
      const claim = await enqueuedAndClaimed(own)
      await failInboxMessages(own.as('symphony_executor'), [claim], WORKER)
      const received: string[] = []
      const listener = await own.connect()
      listener.on('notification', ({ channel }) => received.push(channel))
      await listener.query('LISTEN inbox_ready')
      await new Inbox(own.database, { workerId: WORKER }).revive(claim, 'again')
      await expect.poll(() => received).toEqual(['inbox_ready'])
    })
  })
})

describe('Inbox.purge', () => {
  test('removes messages that were done more than keepSeconds ago, oldest first, in batches', async () => {
    await withTestDatabase(async (own) => {
      const retention = new Inbox(own.database, { workerId: WORKER })
      const claims: InboxClaim[] = []
      for (let n = 0; n < 5; n += 1) claims.push(await enqueuedAndClaimed(own))
      await retention.ack(claims)
      for (const [n, claim] of claims.entries()) await endedAgo(own, claim, 101 + n)
      await endedAgo(own, claims[0]!, 99)
      const dead = await enqueuedAndClaimed(own)
      await retention.fail([dead])
      await endedAgo(own, dead, 1_000_000)
      const [waiting, working] = [await enqueuedAndClaimed(own), await enqueued(own)]
      expect(await retention.purge({ keepSeconds: 100, batchSize: 3 })).toBe(3)
      expect(await rowOf(own, claims[4]!)).toEqual({})
      expect(await rowOf(own, claims[1]!)).toMatchObject({ state: 'done' })
      expect(await retention.purge({ keepSeconds: 100, batchSize: 3 })).toBe(1)
      expect(await retention.purge({ keepSeconds: 100, batchSize: 3 })).toBe(0)
      for (const key of [claims[0]!, dead, waiting, working]) expect(await rowOf(own, key)).not.toEqual({})
    })
  })

  test('removes a message that was only sighted if its last sighting is older than keepSeconds', async () => {
    await withTestDatabase(async (own) => {
      const inbox = new Inbox(own.database)
      const sighted = async (messageId: string, ...lastSeenAgo: readonly number[]) => {
        const key = { source: 'sightings', messageId }
        await inbox.alreadyProcessed(key)
        for (const seconds of lastSeenAgo) await sightedAgo(own, key, seconds)
        return key
      }
      const [older, old] = [await sighted('older', 1_000), await sighted('old', 100)]
      const young = await sighted('young', 1_000, 10)
      const begun = await sighted('begun', 1_000)
      await inbox.markProcessing(begun)
      const died = await sighted('died', 1_000)
      await inbox.markDead(died, 'poison')
      const work = await enqueued(own, { source: 'sightings', messageId: 'work' })
      await sightedAgo(own, work, 1_000)
      const retention = new Inbox(own.database, { workerId: WORKER })
      expect(await retention.purge({ keepSeconds: 100, batchSize: 1 })).toBe(1)
      expect(await rowOf(own, older)).toEqual({})
      expect(await rowOf(own, old)).toMatchObject({ state: 'seen' })
      expect(await retention.purge({ keepSeconds: 100, batchSize: 10 })).toBe(1)
      expect(await rowOf(own, old)).toEqual({})
      for (const key of [young, begun, died, work]) expect(await rowOf(own, key)).not.toEqual({})
      // `alreadyProcessed` returns false for this message, whether it was purged or not.
      expect(await inbox.alreadyProcessed(old)).toBe(false)
    })
  })

  test('deletes a message, so that a later enqueue creates it again', async () => {
    const claim = await enqueuedAndClaimed(db)
    await store.ack([claim])
    await endedAgo(db, claim, 1_000)
    await store.purge({ keepSeconds: 999, batchSize: 1_000 })
    const [again] = await enqueueInboxMessages(db.as('symphony_ingest'), [buildMessage(keyOf(claim))])
    expect(again).toMatchObject({ created: true, sightings: 1n })
  })

  test.each([0, -1, 1.5, 315_576_001])('refuses a retention of %s seconds', async (keepSeconds) => {
    await expect(store.purge({ keepSeconds, batchSize: 1 })).rejects.toThrow(ArgumentRangeError)
  })
})

describe('the inbox tables', () => {
  test('refuse a change of state of a done message (P0001)', async () => {
    const claim = await enqueuedAndClaimed(db)
    await store.ack([claim])
    for (const state of ['seen', 'processing', 'dead']) {
      const rewrite = db.queryNoRole('UPDATE inbox_messages SET state = $2 WHERE source = $1', [claim.source, state])
      expect(await failureOf(rewrite)).toMatchObject({ code: 'P0001', table: 'inbox_messages' })
    }
  })

  test('refuse the removal of a message that is not done, and TRUNCATE (P0001)', async () => {
    const open = await enqueuedAndClaimed(db)
    const dead = await enqueuedAndClaimed(db)
    await store.fail([dead])
    for (const { source } of [open, dead]) {
      const removal = db.queryNoRole('DELETE FROM inbox_messages WHERE source = $1', [source])
      expect(await failureOf(removal)).toMatchObject({ code: 'P0001', table: 'inbox_messages' })
    }
    for (const statement of ['TRUNCATE inbox_messages', 'TRUNCATE inbox_events']) {
      expect(await failureOf(db.queryNoRole(statement))).toMatchObject({ code: 'P0001' })
    }
  })

  test('refuse UPDATE and DELETE of events, even if no row matches (P0001)', async () => {
    const claim = await enqueuedAndClaimed(db)
    await store.fail([claim])
    for (const statement of [
      `UPDATE inbox_events SET actor = 'forged'`,
      'DELETE FROM inbox_events',
      `UPDATE inbox_events SET actor = 'forged' WHERE false`,
      `SET LOCAL session_replication_role = replica; DELETE FROM inbox_events`,
    ]) {
      expect(await failureOf(db.queryNoRole(statement))).toMatchObject({ code: 'P0001', table: 'inbox_events' })
    }
  })

  test.each([
    ['an unknown state', `state = 'odd'`, 'known_state'],
    [
      'a processing message without a claim',
      `fence = NULL, claimed_by = NULL, claim_expires_at = NULL, claimed_at = NULL`,
      'work_in_process_is_claimed',
    ],
    ['a claim without claimed_by', 'claimed_by = NULL', 'claim_all_or_none'],
    ['a payload without its topic', 'topic = NULL', 'content_all_or_none'],
    ['a payload that is no object', `payload = '[]'`, 'payload_is_object'],
    ['a content without its hash', 'content_hash = NULL', 'content_has_hash'],
    ['an end time of an unfinished message', 'ended_at = now()', 'ended_once_ended'],
    ['a negative count', 'attempt_count = -1', 'counts_not_negative'],
  ])('refuse %s (23514)', async (_what, set, constraint) => {
    const { source } = await enqueuedAndClaimed(db)
    expect(
      await failureOf(db.queryNoRole(`UPDATE inbox_messages SET ${set} WHERE source = $1`, [source])),
    ).toMatchObject({
      code: '23514',
      constraint: `inbox_messages_${constraint}`,
    })
  })
})
