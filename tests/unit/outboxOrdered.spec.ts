import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  approveOutboxProposal,
  claimOutboxBatch,
  completeOutboxAttempts,
  enqueuePaymentOutboxBatch,
  pauseOutbox,
  placeOutboxHold,
  releaseOutboxLease,
  repairExpiredLeases,
  resolveOutboxHold,
  resumeOutbox,
  setParticipantOutboxPolicy,
  type ClaimedItem,
} from '../../libs/outbox/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { buildInstruction, claim, claimOnly, complete, enqueue, pendingRow, WORKER } from '../support/outboxItems.js'
import { createPerson, approve, propose, type Person } from '../support/outboxPeople.js'
import { closeTransactions, completeOn, openTransaction, Stream } from '../support/outboxStream.js'
import { failureOf, untilWaiting } from '../support/race.js'

let db: TestDatabase
let olga: Person
let pavel: Person
beforeAll(async () => {
  db = await createTestDatabase()
  olga = await createPerson(db, 'olga')
  pavel = await createPerson(db, 'pavel')
})
afterEach(closeTransactions)
afterAll(() => db.drop())

describe('of the ordered items of a participant', () => {
  test('only the head can be claimed, and each is when the one before it has ended', async () => {
    const stream = new Stream(db)
    const ids = [await stream.enqueue(), await stream.enqueue(), await stream.enqueue()]
    for (const [index, id] of ids.entries()) {
      const lease = await stream.claimOnly()
      expect(lease.outboxId).toBe(id)
      expect(await stream.claimed()).toEqual([])
      await complete(db, lease, { state: index === 1 ? 'FAILED' : 'DISPATCHED' })
    }
    expect(await stream.claimed()).toEqual([])
  })

  test('only the head can be claimed when they were enqueued in one call', async () => {
    const stream = new Stream(db)
    const { participantId, railType } = stream
    const instructions = Array.from({ length: 4 }, () => buildInstruction({ participantId, railType, ordered: true }))
    const items = await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), instructions)
    expect(await stream.drain()).toEqual(items.map((item) => item.outboxId))
  })

  test('one is claimed at a time, whatever the batch size, and streams do not wait for each other', async () => {
    const streams = [new Stream(db), new Stream(db)]
    const heads: string[] = []
    for (const stream of streams) {
      heads.push(await stream.enqueue())
      await stream.enqueue()
    }
    const items = await claim(
      db,
      streams.map((stream) => stream.railType),
    )
    expect(items.map((item) => item.outboxId).toSorted()).toEqual(heads.toSorted())
  })

  test('the head goes first on every rail', async () => {
    const stream = new Stream(db)
    const head = await stream.enqueue()
    const other = `${stream.railType}-2`
    const second = await enqueue(db, { participantId: stream.participantId, railType: other, ordered: true })
    expect(await claim(db, other)).toEqual([])
    expect(await stream.drain()).toEqual([head])
    expect((await claimOnly(db, other)).outboxId).toBe(second.outboxId)
  })

  test('none waits for an item without the flag, and no such item waits', async () => {
    const stream = new Stream(db)
    const first = await stream.enqueue(false)
    const head = await stream.enqueue(true)
    const between = await stream.enqueue(false)
    const second = await stream.enqueue(true)
    const last = await stream.enqueue(false)
    for (const id of [between, last]) expect(await pendingRow(db, id)).toMatchObject({ blocked: false })
    expect(await stream.claimed()).toEqual([first, head, between, last])
    expect(await pendingRow(db, second)).toMatchObject({ blocked: true })
  })

  test('in one call, too', async () => {
    const stream = new Stream(db)
    const { participantId, railType } = stream
    const flags = [false, true, false, true, false]
    const items = await enqueuePaymentOutboxBatch(
      db.as('symphony_ingest'),
      flags.map((ordered) => buildInstruction({ participantId, railType, ordered })),
    )
    const expected = items.filter((_, index) => index !== 3).map((item) => item.outboxId)
    expect(await stream.claimed()).toEqual(expected)
  })
})

describe('a head that has not ended keeps the others waiting', () => {
  test('when it is to be tried again', async () => {
    const stream = new Stream(db)
    const ids = [await stream.enqueue(), await stream.enqueue()]
    await complete(db, await stream.claimOnly(), { state: 'RETRYABLE' })
    expect(await stream.claimed()).toEqual([])
    await db.makeDue(ids[0]!)
    expect(await stream.drain()).toEqual(ids)
  })

  test('when its lease expired, and was repaired', async () => {
    const stream = new Stream(db)
    const ids = [await stream.enqueue(), await stream.enqueue()]
    await stream.claimOnly()
    await db.expireLease(ids[0]!)
    await repairExpiredLeases(db.as('symphony_executor'), 100, 'repairer')
    expect(await stream.claimed()).toEqual([])
    await db.makeDue(ids[0]!)
    expect(await stream.drain()).toEqual(ids)
  })

  test('when it is held', async () => {
    const stream = new Stream(db)
    const ids = [await stream.enqueue(), await stream.enqueue()]
    await placeOutboxHold(olga.control, ids[0]!, 'please wait')
    expect(await stream.claimed()).toEqual([])
    await resolveOutboxHold(olga.control, ids[0]!, 'RETRY', 'go on')
    expect(await stream.drain()).toEqual(ids)
  })

  test('when it is not due yet', async () => {
    const stream = new Stream(db)
    const { participantId, railType } = stream
    const tomorrow = new Date(Date.now() + 86_400_000)
    const head = await enqueue(db, { participantId, railType, ordered: true, notBefore: tomorrow })
    const second = await stream.enqueue()
    expect(await stream.claimed()).toEqual([])
    await db.makeDue(head.outboxId)
    expect(await stream.drain()).toEqual([head.outboxId, second])
  })
})

describe('a head that FAILED', () => {
  test.for(['by default', 'continue'] as const)('lets the next one go: %s', async (policy) => {
    const stream = new Stream(db)
    if (policy === 'continue') await setParticipantOutboxPolicy(olga.control, stream.participantId, 'continue')
    await stream.enqueue()
    const second = await stream.enqueue()
    await complete(db, await stream.claimOnly(), { state: 'FAILED' })
    expect(await stream.claimed()).toEqual([second])
  })

  test('halts the stream where the policy says so, and resuming it goes on in order', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    const failed = await stream.enqueue()
    const second = await stream.enqueue()
    await complete(db, await stream.claimOnly(), { state: 'FAILED' })
    const third = await stream.enqueue()
    const unordered = await stream.enqueue(false)
    expect(await stream.claimed()).toEqual([unordered])
    const { rows } = await db.queryNoRole('SELECT * FROM outbox_pauses WHERE name = $1', [stream.participantId])
    expect(rows).toMatchObject([{ kind: 'stream', reason: 'ORDERED_HEAD_FAILED', paused_by: 'symphony' }])
    expect(await scopeEvents(`stream:${stream.participantId}`)).toMatchObject([
      { event_no: 1n, event_type: 'PAUSED', actor: 'symphony', detail: { outbox_id: failed } },
    ])
    expect(await resumeOutbox(olga.control, 'stream', stream.participantId, 'go on')).toBe(true)
    expect(await stream.drain()).toEqual([second, third])
  })

  test('halts a stream that has nothing else yet: what comes later waits', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    await stream.enqueue()
    await complete(db, await stream.claimOnly(), { state: 'FAILED' })
    const second = await stream.enqueue()
    expect(await stream.claimed()).toEqual([])
    await resumeOutbox(olga.control, 'stream', stream.participantId, 'go on')
    expect(await stream.claimed()).toEqual([second])
  })

  test('halts it again after it was resumed', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    const ids = [await stream.enqueue(), await stream.enqueue(), await stream.enqueue()]
    await complete(db, await stream.claimOnly(), { state: 'FAILED' })
    await resumeOutbox(olga.control, 'stream', stream.participantId, 'go on')
    await complete(db, await stream.claimOnly(), { state: 'FAILED' })
    expect(await stream.claimed()).toEqual([])
    await resumeOutbox(olga.control, 'stream', stream.participantId, 'go on')
    expect(await stream.drain()).toEqual([ids[2]])
  })

  test('halts nothing anew where a person has paused the stream before: that pause stays, with its reason', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    await stream.enqueue()
    const lease = await stream.claimOnly()
    await pauseOutbox(olga.control, 'stream', stream.participantId, 'asked by the bank')
    await complete(db, lease, { state: 'FAILED' })
    const { rows } = await db.queryNoRole('SELECT reason, paused_by FROM outbox_pauses WHERE name = $1', [
      stream.participantId,
    ])
    expect(rows).toEqual([{ reason: 'asked by the bank', paused_by: olga.name }])
    const events = await db.queryNoRole(`SELECT event_type FROM payment_outbox_events WHERE scope = 'stream:' || $1`, [
      stream.participantId,
    ])
    expect(events.rows).toEqual([{ event_type: 'PAUSED' }])
  })

  test('halts the stream also when people decided it', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    const ids = [await stream.enqueue(), await stream.enqueue()]
    await placeOutboxHold(olga.control, ids[0]!, 'please wait')
    await approve(pavel, await propose(olga, ids[0]!, 'FAILED'))
    expect(await stream.claimed()).toEqual([])
    await resumeOutbox(olga.control, 'stream', stream.participantId, 'go on')
    expect(await stream.claimed()).toEqual([ids[1]])
  })

  test('by decision in the middle of the stream halts it as a whole, the head too', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    const ids = [await stream.enqueue(), await stream.enqueue(), await stream.enqueue()]
    await placeOutboxHold(olga.control, ids[1]!, 'please wait')
    await approve(pavel, await propose(olga, ids[1]!, 'FAILED'))
    expect(await stream.claimed()).toEqual([])
    await resumeOutbox(olga.control, 'stream', stream.participantId, 'go on')
    expect(await stream.drain()).toEqual([ids[0], ids[2]])
  })

  test('by decision in the middle marks the head as blocked: it does not count as due', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    const ids = [await stream.enqueue(), await stream.enqueue()]
    await placeOutboxHold(olga.control, ids[1]!, 'please wait')
    const proposal = await propose(olga, ids[1]!, 'FAILED')
    expect(await pendingRow(db, ids[0]!)).toMatchObject({ blocked: false })
    await approve(pavel, proposal)
    expect(await pendingRow(db, ids[0]!)).toMatchObject({ blocked: true })
  })

  test('by decision in the middle does not wait for a head that somebody else has locked, and halts it all the same', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    const ids = [await stream.enqueue(), await stream.enqueue()]
    await placeOutboxHold(olga.control, ids[1]!, 'please wait')
    const proposal = await propose(olga, ids[1]!, 'FAILED')
    const lease = await stream.claimOnly()
    const holder = await openTransaction(db, 'symphony_executor')
    await releaseOutboxLease(holder, lease, WORKER)
    await approve(pavel, proposal)
    await holder.query('COMMIT')
    expect(await stream.claimed()).toEqual([])
  })

  test('or DISPATCHED, or without the flag, halts nothing', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    await stream.enqueue(false)
    await complete(db, await stream.claimOnly(), { state: 'FAILED' })
    const ids = [await stream.enqueue(), await stream.enqueue()]
    expect(await stream.drain()).toEqual(ids)
  })

  test('follows the policy of the moment', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'continue')
    await stream.enqueue()
    const second = await stream.enqueue()
    await complete(db, await stream.claimOnly(), { state: 'FAILED' })
    expect(await stream.claimed()).toEqual([second])
    expect(await scopeEvents(`policy:${stream.participantId}`)).toMatchObject([
      { event_no: 1n, event_type: 'POLICY_SET', actor: olga.name, detail: { on_ordered_failure: 'halt' } },
      { event_no: 2n, event_type: 'POLICY_SET', actor: olga.name, detail: { on_ordered_failure: 'continue' } },
    ])
  })

  test('has no policy but continue and halt (22023), for a participant that can be (22023)', async () => {
    const asked: [string | null, string | null][] = [
      ['p', null],
      ['p', 'HALT'],
      ['p', ''],
      [null, 'halt'],
      ['', 'halt'],
      ['a b', 'halt'],
      ['p'.repeat(129), 'halt'],
    ]
    for (const values of asked) {
      await expect(db.queryNoRole('SELECT set_participant_outbox_policy($1, $2)', values)).rejects.toMatchObject({
        code: '22023',
      })
    }
  })
})

async function scopeEvents(scope: string) {
  const { rows } = await db.queryNoRole('SELECT * FROM payment_outbox_events WHERE scope = $1 ORDER BY event_no', [
    scope,
  ])
  return rows
}

/** A leased head, an open transaction that will end it, and one that will enqueue behind it. */
async function createHeadEnding() {
  const stream = new Stream(db)
  const head = await stream.enqueue()
  const lease = await stream.claimOnly()
  return {
    stream,
    head,
    lease,
    completer: await openTransaction(db, 'symphony_executor'),
    enqueuer: await openTransaction(db, 'symphony_ingest'),
  }
}

describe('a head that ends while its successor is being enqueued does not strand it', () => {
  test('when the successor is enqueued, then the head ends and commits, then the successor commits', async () => {
    const { stream, lease, completer, enqueuer } = await createHeadEnding()
    const second = await stream.enqueueOn(enqueuer)
    await completeOn(completer, lease)
    await completer.query('COMMIT')
    expect(await stream.claimed()).toEqual([])
    await enqueuer.query('COMMIT')
    expect(await stream.claimed()).toEqual([second])
  })

  test('when the head ends, then the successor is enqueued and commits, then the head commits', async () => {
    const { stream, lease, completer, enqueuer } = await createHeadEnding()
    await completeOn(completer, lease)
    const second = await stream.enqueueOn(enqueuer)
    await enqueuer.query('COMMIT')
    // The head may still come back: a claim must not decide yet, and must not forget to look again.
    expect(await stream.claimed()).toEqual([])
    expect(await pendingRow(db, second)).toMatchObject({ blocked: true, block_unverified: true })
    await completer.query('COMMIT')
    expect(await stream.claimed()).toEqual([second])
  })

  test('when both are done and the successor commits first', async () => {
    const { stream, lease, completer, enqueuer } = await createHeadEnding()
    const second = await stream.enqueueOn(enqueuer)
    await completeOn(completer, lease)
    await enqueuer.query('COMMIT')
    expect(await stream.claimed()).toEqual([])
    await completer.query('COMMIT')
    expect(await stream.claimed()).toEqual([second])
  })

  test('when several are enqueued: they come out one by one, in order', async () => {
    const { stream, lease, completer, enqueuer } = await createHeadEnding()
    const ids = [await stream.enqueueOn(enqueuer), await stream.enqueueOn(enqueuer), await stream.enqueueOn(enqueuer)]
    await completeOn(completer, lease)
    await completer.query('COMMIT')
    await enqueuer.query('COMMIT')
    expect(await stream.drain()).toEqual(ids)
  })

  test('when the completion is rolled back: the head is still the head', async () => {
    const { stream, head, lease, completer, enqueuer } = await createHeadEnding()
    await completeOn(completer, lease)
    const second = await stream.enqueueOn(enqueuer)
    await enqueuer.query('COMMIT')
    expect(await stream.claimed()).toEqual([])
    await completer.query('ROLLBACK')
    expect(await stream.claimed()).toEqual([])
    expect(await pendingRow(db, head)).toMatchObject({ lease_token: lease.leaseToken })
    await complete(db, lease, { state: 'DISPATCHED' })
    expect(await stream.claimed()).toEqual([second])
  })

  test('when the enqueue is rolled back: the next one is the head at once', async () => {
    const { stream, lease, completer, enqueuer } = await createHeadEnding()
    await stream.enqueueOn(enqueuer)
    await completeOn(completer, lease)
    await completer.query('COMMIT')
    await enqueuer.query('ROLLBACK')
    const next = await stream.enqueue()
    expect(await pendingRow(db, next)).toMatchObject({ blocked: false })
    expect(await stream.claimed()).toEqual([next])
  })

  test('when lease repair is the first to look', async () => {
    const { stream, lease, completer, enqueuer } = await createHeadEnding()
    const second = await stream.enqueueOn(enqueuer)
    await completeOn(completer, lease)
    await completer.query('COMMIT')
    await enqueuer.query('COMMIT')
    await repairExpiredLeases(db.as('symphony_executor'), 1, 'repairer')
    expect(await pendingRow(db, second)).toMatchObject({ blocked: false, block_unverified: false })
  })

  test('when a claim has just confirmed that it must wait: the completion waits for that claim, and then sees it', async () => {
    const { stream, lease, completer, enqueuer } = await createHeadEnding()
    const second = await stream.enqueueOn(enqueuer)
    await enqueuer.query('COMMIT')
    const claimer = await openTransaction(db, 'symphony_executor')
    await claimOutboxBatch(claimer, 1, 'other', 60, { rails: [stream.railType] })
    const completion = completeOn(completer, lease)
    await untilWaiting(db, completer)
    await claimer.query('COMMIT')
    await completion
    await completer.query('COMMIT')
    // Unblocked by the completion itself: nobody needed to look again.
    expect(await pendingRow(db, second)).toMatchObject({ blocked: false, block_unverified: false })
  })

  test('when the completion runs on a snapshot older than the successor: it is refused (40001), not blind', async () => {
    const { stream, lease, completer, enqueuer } = await createHeadEnding()
    await completer.query('COMMIT')
    await completer.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await completer.query('SELECT 1')
    const second = await stream.enqueueOn(enqueuer)
    await enqueuer.query('COMMIT')
    expect(await stream.claimed()).toEqual([])
    expect(await pendingRow(db, second)).toMatchObject({ block_unverified: false })
    expect(await failureOf(completeOn(completer, lease))).toMatchObject({ sqlstate: '40001' })
    await completer.query('ROLLBACK')
    // Again, with a snapshot that sees everything.
    await completer.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await completeOn(completer, lease)
    await completer.query('COMMIT')
    expect(await stream.claimed()).toEqual([second])
  })

  test('when the completion runs on a snapshot older than the last look at the successor (40001)', async () => {
    const { stream, lease, completer, enqueuer } = await createHeadEnding()
    const second = await stream.enqueueOn(enqueuer)
    await enqueuer.query('COMMIT')
    await completer.query('COMMIT')
    await completer.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await completer.query('SELECT 1')
    expect(await stream.claimed()).toEqual([])
    expect(await failureOf(completeOn(completer, lease))).toMatchObject({ sqlstate: '40001' })
    await completer.query('ROLLBACK')
    await complete(db, lease, { state: 'DISPATCHED' })
    expect(await stream.claimed()).toEqual([second])
  })

  test('when the completion runs on a snapshot that stays, and another enqueuer is still open', async () => {
    const { stream, lease, completer, enqueuer } = await createHeadEnding()
    const second = await stream.enqueueOn(enqueuer)
    await enqueuer.query('COMMIT')
    await enqueuer.query('BEGIN')
    const third = await stream.enqueueOn(enqueuer)
    await completer.query('COMMIT')
    await completer.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await completer.query(`SET LOCAL lock_timeout = '1s'`)
    await completeOn(completer, lease)
    await completer.query('COMMIT')
    await enqueuer.query('COMMIT')
    expect(await stream.drain()).toEqual([second, third])
  })
})

describe('nobody waits for an open transaction that has nothing to do with him', () => {
  test.for(['DISPATCHED', 'FAILED', 'RETRYABLE'] as const)(
    'a head ends as %s while enqueuers of its stream are open',
    async (state) => {
      const stream = new Stream(db)
      await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
      await stream.enqueue()
      const lease = await stream.claimOnly()
      const enqueuer = await openTransaction(db, 'symphony_ingest')
      await stream.enqueueOn(enqueuer)
      await stream.enqueueOn(enqueuer, false)
      const completer = await openTransaction(db, 'symphony_executor')
      await completer.query(`SET LOCAL lock_timeout = '1s'`)
      expect(await completeOn(completer, lease, state)).toMatchObject({ attemptNo: 1, state })
      await completer.query('COMMIT')
      await enqueuer.query('ROLLBACK')
    },
  )

  test('an item is enqueued behind a head whose completion is open', async () => {
    const stream = new Stream(db)
    await stream.enqueue()
    const completer = await openTransaction(db, 'symphony_executor')
    await completeOn(completer, await stream.claimOnly())
    const enqueuer = await openTransaction(db, 'symphony_ingest')
    await enqueuer.query(`SET LOCAL lock_timeout = '1s'`)
    const second = await stream.enqueueOn(enqueuer)
    await enqueuer.query('COMMIT')
    await completer.query('COMMIT')
    expect(await stream.claimed()).toEqual([second])
  })

  test('a claim passes by what others are enqueuing and ending', async () => {
    const stream = new Stream(db)
    await stream.enqueue()
    const completer = await openTransaction(db, 'symphony_executor')
    await completeOn(completer, await stream.claimOnly())
    await stream.enqueue()
    const enqueuer = await openTransaction(db, 'symphony_ingest')
    await stream.enqueueOn(enqueuer)
    const claimer = await openTransaction(db, 'symphony_executor')
    await claimer.query(`SET LOCAL lock_timeout = '1s'`)
    expect(await claimOutboxBatch(claimer, 10, 'other', 60, { rails: [stream.railType] })).toEqual([])
    await claimer.query('COMMIT')
    await completer.query('COMMIT')
    await enqueuer.query('COMMIT')
    expect(await stream.drain()).toHaveLength(2)
  })
})

/** A leased head, a held item behind it with a proposal to end it, and a last one. */
async function createDecisionBehindTheHead() {
  const stream = new Stream(db)
  const ids = [await stream.enqueue(), await stream.enqueue(), await stream.enqueue()] as const
  const lease = await stream.claimOnly()
  await placeOutboxHold(olga.control, ids[1], 'please wait')
  const proposalId = await propose(olga, ids[1], 'FAILED')
  return {
    stream,
    ids,
    lease,
    proposalId,
    completer: await openTransaction(db, 'symphony_executor'),
    operator: await openTransaction(db, 'symphony_control'),
  }
}

describe('people who decide an item in the middle while the head ends', () => {
  test('first, and commit while the completion waits: the last one goes on', async () => {
    const { stream, ids, lease, proposalId, completer, operator } = await createDecisionBehindTheHead()
    await approveOutboxProposal(operator, proposalId)
    const completion = completeOn(completer, lease)
    await untilWaiting(db, completer)
    await operator.query('COMMIT')
    await completion
    await completer.query('COMMIT')
    expect(await stream.claimed()).toEqual([ids[2]])
  })

  test('first, and roll back while the completion waits: the held one is the head', async () => {
    const { stream, ids, lease, proposalId, completer, operator } = await createDecisionBehindTheHead()
    await approveOutboxProposal(operator, proposalId)
    const completion = completeOn(completer, lease)
    await untilWaiting(db, completer)
    await operator.query('ROLLBACK')
    await completion
    await completer.query('COMMIT')
    expect(await stream.claimed()).toEqual([])
    expect(await pendingRow(db, ids[1])).toMatchObject({ blocked: false, hold_reason: 'please wait' })
    await approve(pavel, proposalId)
    expect(await stream.claimed()).toEqual([ids[2]])
  })

  test('second, and wait until the completion commits: the last one goes on', async () => {
    const { stream, ids, lease, proposalId, completer, operator } = await createDecisionBehindTheHead()
    await completeOn(completer, lease)
    const approval = approveOutboxProposal(operator, proposalId)
    await untilWaiting(db, operator)
    await completer.query('COMMIT')
    await approval
    await operator.query('COMMIT')
    expect(await stream.claimed()).toEqual([ids[2]])
  })

  test('second, and the completion rolls back: the head stays the head', async () => {
    const { stream, ids, lease, proposalId, completer, operator } = await createDecisionBehindTheHead()
    await completeOn(completer, lease)
    const approval = approveOutboxProposal(operator, proposalId)
    await untilWaiting(db, operator)
    await completer.query('ROLLBACK')
    await approval
    await operator.query('COMMIT')
    expect(await stream.claimed()).toEqual([])
    await complete(db, lease, { state: 'DISPATCHED' })
    expect(await stream.claimed()).toEqual([ids[2]])
  })

  test('while another is being enqueued: it goes on, too', async () => {
    const { stream, ids, lease, proposalId, completer, operator } = await createDecisionBehindTheHead()
    const enqueuer = await openTransaction(db, 'symphony_ingest')
    const fourth = await stream.enqueueOn(enqueuer)
    await approveOutboxProposal(operator, proposalId)
    await operator.query('COMMIT')
    await completeOn(completer, lease)
    await enqueuer.query('COMMIT')
    await completer.query('COMMIT')
    expect(await stream.drain()).toEqual([ids[2], fourth])
  })
})

test('heads of several streams that end in one call let each next one go', async () => {
  const streams = [new Stream(db), new Stream(db), new Stream(db)]
  const seconds: string[] = []
  const leases: ClaimedItem[] = []
  for (const stream of streams) {
    await stream.enqueue()
    seconds.push(await stream.enqueue())
    leases.push(await stream.claimOnly())
  }
  await setParticipantOutboxPolicy(olga.control, streams[1]!.participantId, 'halt')
  await completeOutboxAttempts(
    db.as('symphony_executor'),
    WORKER,
    leases.map(({ outboxId, leaseToken }) => ({ outboxId, leaseToken, state: 'FAILED' })),
  )
  expect(await streams[0]!.claimed()).toEqual([seconds[0]])
  expect(await streams[1]!.claimed()).toEqual([])
  expect(await streams[2]!.claimed()).toEqual([seconds[2]])
})

/** A stream that halts on failure, with three items of which the head has failed. */
async function halted(): Promise<{ stream: Stream; ids: readonly [string, string, string] }> {
  const stream = new Stream(db)
  await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
  const ids = [await stream.enqueue(), await stream.enqueue(), await stream.enqueue()] as const
  await complete(db, await stream.claimOnly(), { state: 'FAILED' })
  return { stream, ids }
}

const redrive = async (outboxId: string) => {
  const { redrivenAs } = await approve(pavel, await propose(olga, outboxId, 'REDRIVE'))
  return redrivenAs!
}
const resume = ({ participantId }: Stream) => resumeOutbox(olga.control, 'stream', participantId, 'go on')

describe('a redrive in an ordered stream', () => {
  test('goes first when the halted stream is resumed, under a number of its own', async () => {
    const { stream, ids } = await halted()
    const again = await redrive(ids[0])
    expect(await stream.claimed()).toEqual([])
    await resume(stream)
    expect(await stream.drain()).toEqual([again, ids[1], ids[2]])
    const { rows } = await db.queryNoRole(
      'SELECT sequence_id, stream_position FROM payment_outbox_identities WHERE outbox_id = $1',
      [again],
    )
    expect(rows).toEqual([{ sequence_id: 4n, stream_position: 1n }])
  })

  test('that fails halts the stream again, and its own redrive goes first', async () => {
    const { stream, ids } = await halted()
    const second = await redrive(ids[0])
    await resume(stream)
    const lease = await stream.claimOnly()
    expect(lease.outboxId).toBe(second)
    await complete(db, lease, { state: 'FAILED' })
    const third = await redrive(second)
    await resume(stream)
    expect(await stream.drain()).toEqual([third, ids[1], ids[2]])
  })

  test('of an item in the middle takes its place there', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    const ids = [await stream.enqueue(), await stream.enqueue(), await stream.enqueue()] as const
    await placeOutboxHold(olga.control, ids[1], 'odd')
    await approve(pavel, await propose(olga, ids[1], 'FAILED'))
    const again = await redrive(ids[1])
    await resume(stream)
    expect(await stream.drain()).toEqual([ids[0], again, ids[2]])
  })

  test('is refused (P7006) while the stream is not halted, and goes first once it is paused', async () => {
    const { stream, ids } = await halted()
    const proposal = await propose(olga, ids[0], 'REDRIVE')
    await resume(stream)
    const refused = { sqlstate: 'P7006', message: expect.stringContaining('is not halted') }
    await expect(approve(pavel, proposal)).rejects.toMatchObject(refused)
    await pauseOutbox(olga.control, 'stream', stream.participantId, 'in order, please')
    const { redrivenAs } = await approve(pavel, proposal)
    await resume(stream)
    expect(await stream.drain()).toEqual([redrivenAs, ids[1], ids[2]])
  })

  test('is refused (P7006) once an item behind it was sent, or is in flight', async () => {
    const { stream, ids } = await halted()
    await resume(stream)
    const lease = await stream.claimOnly()
    await pauseOutbox(olga.control, 'stream', stream.participantId, 'stop')
    const refused = { sqlstate: 'P7006', message: expect.stringContaining(`item ${ids[1]} behind it`) }
    await expect(redrive(ids[0])).rejects.toMatchObject(refused)
    await complete(db, lease, { state: 'DISPATCHED' })
    await expect(redrive(ids[0])).rejects.toMatchObject(refused)
  })

  test('goes to the end where the stream continues after a failure', async () => {
    const stream = new Stream(db)
    const ids = [await stream.enqueue(), await stream.enqueue()] as const
    await complete(db, await stream.claimOnly(), { state: 'FAILED' })
    const again = await redrive(ids[0])
    expect(await stream.drain()).toEqual([ids[1], again])
  })

  test('goes before an item that no pause could mark', async () => {
    const { stream, ids } = await halted()
    // A pause leaves out a head that is locked at that moment.
    await db.queryNoRole(
      'UPDATE payment_outbox_pending SET blocked = false, block_unverified = false WHERE outbox_id = $1',
      [ids[1]],
    )
    const again = await redrive(ids[0])
    await resume(stream)
    expect(await stream.drain()).toEqual([again, ids[1], ids[2]])
  })

  test('that is being approved keeps the stream halted until it is committed', async () => {
    const { stream, ids } = await halted()
    const proposal = await propose(olga, ids[0], 'REDRIVE')
    const approving = await openTransaction(db)
    const { redrivenAs } = await approveOutboxProposal(approving, proposal)
    const resumer = await openTransaction(db)
    const resuming = resumeOutbox(resumer, 'stream', stream.participantId, 'go on')
    await untilWaiting(db, resumer)
    await approving.query('COMMIT')
    await resuming
    await resumer.query('COMMIT')
    expect(await stream.drain()).toEqual([redrivenAs, ids[1], ids[2]])
  })
})
