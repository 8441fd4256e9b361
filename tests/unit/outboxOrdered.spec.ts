import { afterEach, describe, expect, test } from 'vitest'
import {
  approveOutboxProposal,
  cancelOutboxItem,
  claimOutboxBatch,
  completeOutboxAttempts,
  enqueuePaymentOutboxBatch,
  holdLeasedOutboxItem,
  pauseOutbox,
  placeOutboxHold,
  releaseOutboxLease,
  repairExpiredLeases,
  resolveOutboxHold,
  resumeOutbox,
  setParticipantOutboxPolicy,
  type ClaimedItem,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction, claim, claimOnly, complete, enqueue, pendingRow, WORKER } from '../support/outboxItems.js'
import { createPerson, approve, propose } from '../support/outboxPeople.js'
import { closeTransactions, completeOn, openTransaction, Stream } from '../support/outboxStream.js'
import { failureOf, untilWaiting, type Connection } from '../support/race.js'

const db = await useTestDatabase()
const olga = await createPerson(db, 'olga')
const pavel = await createPerson(db, 'pavel')
afterEach(closeTransactions)

describe('ordered items of a participant', () => {
  test('are claimed one by one, each after its predecessor has ended', async () => {
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

  test('are claimed one by one if they were enqueued in one call', async () => {
    const stream = new Stream(db)
    const { participantId, railType } = stream
    const instructions = Array.from({ length: 4 }, () => buildInstruction({ participantId, railType, ordered: true }))
    const items = await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), instructions)
    expect(await stream.drain()).toEqual(items.map((item) => item.outboxId))
  })

  test('are claimed one at a time per stream, whatever the batch size', async () => {
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

  test('wait for the head of the stream, even if the head is on another rail', async () => {
    const stream = new Stream(db)
    const head = await stream.enqueue()
    const other = `${stream.railType}-2`
    const second = await enqueue(db, { participantId: stream.participantId, railType: other, ordered: true })
    expect(await claim(db, other)).toEqual([])
    expect(await stream.drain()).toEqual([head])
    expect((await claimOnly(db, other)).outboxId).toBe(second.outboxId)
  })

  test('wait for ordered items only; unordered items never wait', async () => {
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

  test('wait for ordered items only, even if one call enqueues ordered and unordered items', async () => {
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

describe('the head of a stream', () => {
  test('blocks its successors while it waits for a retry', async () => {
    const stream = new Stream(db)
    const ids = [await stream.enqueue(), await stream.enqueue()]
    await complete(db, await stream.claimOnly(), { state: 'RETRYABLE' })
    expect(await stream.claimed()).toEqual([])
    await db.makeDue(ids[0]!)
    expect(await stream.drain()).toEqual(ids)
  })

  test('blocks its successors after its lease expired and was repaired', async () => {
    const stream = new Stream(db)
    const ids = [await stream.enqueue(), await stream.enqueue()]
    await stream.claimOnly()
    await db.expireLease(ids[0]!)
    await repairExpiredLeases(db.as('symphony_executor'), 100, 'repairer')
    expect(await stream.claimed()).toEqual([])
    await db.makeDue(ids[0]!)
    expect(await stream.drain()).toEqual(ids)
  })

  test('blocks its successors while it is held', async () => {
    const stream = new Stream(db)
    const ids = [await stream.enqueue(), await stream.enqueue()]
    await placeOutboxHold(olga.control, ids[0]!, 'please wait')
    expect(await stream.claimed()).toEqual([])
    await resolveOutboxHold(olga.control, ids[0]!, 'RETRY', 'go on')
    expect(await stream.drain()).toEqual(ids)
  })

  test('blocks its successors while it is not due', async () => {
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

describe('the failure of an item of a stream', () => {
  test.for(['by default', 'continue'] as const)('unblocks the next item (policy: %s)', async (policy) => {
    const stream = new Stream(db)
    if (policy === 'continue') await setParticipantOutboxPolicy(olga.control, stream.participantId, 'continue')
    await stream.enqueue()
    const second = await stream.enqueue()
    await complete(db, await stream.claimOnly(), { state: 'FAILED' })
    expect(await stream.claimed()).toEqual([second])
  })

  test('halts the stream under policy halt; resuming it continues in order', async () => {
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

  test('halts a stream without other items; later items wait', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    await stream.enqueue()
    await complete(db, await stream.claimOnly(), { state: 'FAILED' })
    const second = await stream.enqueue()
    expect(await stream.claimed()).toEqual([])
    await resumeOutbox(olga.control, 'stream', stream.participantId, 'go on')
    expect(await stream.claimed()).toEqual([second])
  })

  test('halts the stream again after it was resumed', async () => {
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

  test('keeps an operator’s earlier pause of the stream, with its reason', async () => {
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

  test('halts the stream even if two people decided FAILED', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    const ids = [await stream.enqueue(), await stream.enqueue()]
    await placeOutboxHold(olga.control, ids[0]!, 'please wait')
    await approve(pavel, await propose(olga, ids[0]!, 'FAILED'))
    expect(await stream.claimed()).toEqual([])
    await resumeOutbox(olga.control, 'stream', stream.participantId, 'go on')
    expect(await stream.claimed()).toEqual([ids[1]])
  })

  test('halts the whole stream, including its head, if the item is behind the head', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    const ids = [await stream.enqueue(), await stream.enqueue(), await stream.enqueue()]
    await placeOutboxHold(olga.control, ids[1]!, 'please wait')
    await approve(pavel, await propose(olga, ids[1]!, 'FAILED'))
    expect(await stream.claimed()).toEqual([])
    await resumeOutbox(olga.control, 'stream', stream.participantId, 'go on')
    expect(await stream.drain()).toEqual([ids[0], ids[2]])
  })

  test('sets blocked on the head under policy halt if the failed item is behind the head', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    const ids = [await stream.enqueue(), await stream.enqueue()]
    await placeOutboxHold(olga.control, ids[1]!, 'please wait')
    const proposal = await propose(olga, ids[1]!, 'FAILED')
    expect(await pendingRow(db, ids[0]!)).toMatchObject({ blocked: false })
    await approve(pavel, proposal)
    expect(await pendingRow(db, ids[0]!)).toMatchObject({ blocked: true })
  })

  test('halts the stream without waiting for a head that another transaction has locked', async () => {
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

  test('does not halt the stream if the item is unordered', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    await stream.enqueue(false)
    await complete(db, await stream.claimOnly(), { state: 'FAILED' })
    const ids = [await stream.enqueue(), await stream.enqueue()]
    expect(await stream.drain()).toEqual(ids)
  })

  test('is handled by the policy that was set last; each change of policy is an event', async () => {
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

  test('is handled by a policy; set_participant_outbox_policy refuses invalid arguments (22023)', async () => {
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

/** Returns a leased head, a transaction that can complete it, and a transaction that can enqueue its successor. */
async function createTerminalHead() {
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

/** Enqueues items of the stream in one call and returns their ids. */
async function enqueueCall(stream: Stream, enqueuer: Connection, ordered: readonly boolean[]): Promise<string[]> {
  const { participantId, railType } = stream
  const instructions = ordered.map((isOrdered) => buildInstruction({ participantId, railType, ordered: isOrdered }))
  return (await enqueuePaymentOutboxBatch(enqueuer, instructions)).map(({ outboxId }) => outboxId)
}

describe('a successor whose enqueue overlaps the completion of the head', () => {
  test('is claimable after both commits if the enqueue starts first and commits last', async () => {
    const { stream, lease, completer, enqueuer } = await createTerminalHead()
    const second = await stream.enqueueOn(enqueuer)
    await completeOn(completer, lease)
    await completer.query('COMMIT')
    expect(await stream.claimed()).toEqual([])
    await enqueuer.query('COMMIT')
    expect(await stream.claimed()).toEqual([second])
  })

  test('is claimable after both commits if the enqueue runs while the completion is open', async () => {
    const { stream, lease, completer, enqueuer } = await createTerminalHead()
    await completeOn(completer, lease)
    const second = await stream.enqueueOn(enqueuer)
    await enqueuer.query('COMMIT')
    // The completion may still roll back, so a claim leaves the item blocked and unverified.
    expect(await stream.claimed()).toEqual([])
    expect(await pendingRow(db, second)).toMatchObject({ blocked: true, block_unverified: true })
    await completer.query('COMMIT')
    expect(await stream.claimed()).toEqual([second])
  })

  test('is claimable after both commits if the enqueue starts first and commits first', async () => {
    const { stream, lease, completer, enqueuer } = await createTerminalHead()
    const second = await stream.enqueueOn(enqueuer)
    await completeOn(completer, lease)
    await enqueuer.query('COMMIT')
    expect(await stream.claimed()).toEqual([])
    await completer.query('COMMIT')
    expect(await stream.claimed()).toEqual([second])
  })

  test('is claimed in its turn if the same transaction enqueues three successors', async () => {
    const { stream, lease, completer, enqueuer } = await createTerminalHead()
    const ids = [await stream.enqueueOn(enqueuer), await stream.enqueueOn(enqueuer), await stream.enqueueOn(enqueuer)]
    await completeOn(completer, lease)
    await completer.query('COMMIT')
    await enqueuer.query('COMMIT')
    expect(await stream.drain()).toEqual(ids)
  })

  test('alone is marked for verification among the items of one call', async () => {
    const { stream, lease, completer, enqueuer } = await createTerminalHead()
    const ids = await enqueueCall(stream, enqueuer, [true, true, false, true])
    await completeOn(completer, lease)
    await completer.query('COMMIT')
    await enqueuer.query('COMMIT')
    const marks = await Promise.all(ids.map(async (id) => (await pendingRow(db, id))!.block_unverified))
    expect(marks).toEqual([true, false, false, false])
    expect((await stream.drain()).toSorted()).toEqual(ids.toSorted())
  })

  test('is marked for verification if the call repeats its predecessor, which is known', async () => {
    const { stream, enqueuer } = await createTerminalHead()
    const { participantId, railType } = stream
    const [known, next] = [
      buildInstruction({ participantId, railType, ordered: true }),
      buildInstruction({ participantId, railType, ordered: true }),
    ]
    await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), [known])
    const items = await enqueuePaymentOutboxBatch(enqueuer, [known, next])
    await enqueuer.query('COMMIT')
    expect(await pendingRow(db, items[1]!.outboxId)).toMatchObject({ blocked: true, block_unverified: true })
  })

  test('passes its mark to the next item if it is cancelled while the head ends', async () => {
    const { stream, lease, completer, enqueuer } = await createTerminalHead()
    const ids = await enqueueCall(stream, enqueuer, [true, true, true])
    await enqueuer.query('COMMIT')
    // The completion leaves the first item to its verification, and the cancellation still sees the head.
    await completeOn(completer, lease)
    const canceller = await openTransaction(db, 'symphony_ingest')
    await cancelOutboxItem(canceller, ids[0]!, 'not needed')
    await completer.query('COMMIT')
    await canceller.query('COMMIT')
    expect(await pendingRow(db, ids[1]!)).toMatchObject({ blocked: true, block_unverified: true })
    expect(await stream.drain()).toEqual(ids.slice(1))
  })

  test('stays blocked if the completion rolls back', async () => {
    const { stream, head, lease, completer, enqueuer } = await createTerminalHead()
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

  test('is claimable at once if an earlier enqueue rolled back', async () => {
    const { stream, lease, completer, enqueuer } = await createTerminalHead()
    await stream.enqueueOn(enqueuer)
    await completeOn(completer, lease)
    await completer.query('COMMIT')
    await enqueuer.query('ROLLBACK')
    const next = await stream.enqueue()
    expect(await pendingRow(db, next)).toMatchObject({ blocked: false })
    expect(await stream.claimed()).toEqual([next])
  })

  test('is unblocked by lease repair, not only by a claim', async () => {
    const { stream, lease, completer, enqueuer } = await createTerminalHead()
    const second = await stream.enqueueOn(enqueuer)
    await completeOn(completer, lease)
    await completer.query('COMMIT')
    await enqueuer.query('COMMIT')
    await repairExpiredLeases(db.as('symphony_executor'), 1, 'repairer')
    expect(await pendingRow(db, second)).toMatchObject({ blocked: false, block_unverified: false })
  })

  test('is unblocked by a completion that waits for a concurrent claim', async () => {
    const { stream, lease, completer, enqueuer } = await createTerminalHead()
    const second = await stream.enqueueOn(enqueuer)
    await enqueuer.query('COMMIT')
    const claimer = await openTransaction(db, 'symphony_executor')
    await claimOutboxBatch(claimer, 1, 'other', 60, { rails: [stream.railType] })
    const completion = completeOn(completer, lease)
    await untilWaiting(db, completer)
    await claimer.query('COMMIT')
    await completion
    await completer.query('COMMIT')
    // The completion itself unblocked the second item.
    expect(await pendingRow(db, second)).toMatchObject({ blocked: false, block_unverified: false })
  })

  test('makes a completion fail (40001) if its snapshot is older than the enqueue', async () => {
    const { stream, lease, completer, enqueuer } = await createTerminalHead()
    await completer.query('COMMIT')
    await completer.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await completer.query('SELECT 1')
    const second = await stream.enqueueOn(enqueuer)
    await enqueuer.query('COMMIT')
    expect(await stream.claimed()).toEqual([])
    expect(await pendingRow(db, second)).toMatchObject({ block_unverified: false })
    expect(await failureOf(completeOn(completer, lease))).toMatchObject({ sqlstate: '40001' })
    await completer.query('ROLLBACK')
    // Repeats the completion with a current snapshot.
    await completer.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await completeOn(completer, lease)
    await completer.query('COMMIT')
    expect(await stream.claimed()).toEqual([second])
  })

  test('makes a completion fail (40001) if its snapshot is older than the last claim', async () => {
    const { stream, lease, completer, enqueuer } = await createTerminalHead()
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

  test('is claimed after an earlier successor if the completion of the head is REPEATABLE READ', async () => {
    const { stream, lease, completer, enqueuer } = await createTerminalHead()
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

describe('an open transaction on a stream', () => {
  test.for(['DISPATCHED', 'FAILED', 'RETRYABLE'] as const)(
    'does not block a completion as %s while it enqueues items',
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

  test('does not block an enqueue while it completes the head', async () => {
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

  test('does not block a claim while it completes the head or enqueues an item', async () => {
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

/** Returns a stream of a leased head, a held item with an open proposal of FAILED, and a last item. */
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

describe('a decision about a middle item while the head ends', () => {
  test('unblocks the last item if the decision commits while the completion waits', async () => {
    const { stream, ids, lease, proposalId, completer, operator } = await createDecisionBehindTheHead()
    await approveOutboxProposal(operator, proposalId)
    const completion = completeOn(completer, lease)
    await untilWaiting(db, completer)
    await operator.query('COMMIT')
    await completion
    await completer.query('COMMIT')
    expect(await stream.claimed()).toEqual([ids[2]])
  })

  test('leaves the middle item as a held head if the decision rolls back', async () => {
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

  test('unblocks the last item if the decision waits for the completion to commit', async () => {
    const { stream, ids, lease, proposalId, completer, operator } = await createDecisionBehindTheHead()
    await completeOn(completer, lease)
    const approval = approveOutboxProposal(operator, proposalId)
    await untilWaiting(db, operator)
    await completer.query('COMMIT')
    await approval
    await operator.query('COMMIT')
    expect(await stream.claimed()).toEqual([ids[2]])
  })

  test('leaves the head in place if the completion rolls back', async () => {
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

  test('unblocks the last item and an item enqueued meanwhile', async () => {
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

test('heads that fail in one call unblock their successors, except under policy halt', async () => {
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

/** Returns a halted stream of three items whose head has failed. */
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
const failUnsent = async (outboxId: string) => {
  await placeOutboxHold(olga.control, outboxId, 'please wait')
  await approve(pavel, await propose(olga, outboxId, 'FAILED'))
}
const resume = ({ participantId }: Stream) => resumeOutbox(olga.control, 'stream', participantId, 'go on')

describe('a redrive in an ordered stream', () => {
  test('goes first, with a new sequence number, when the halted stream is resumed', async () => {
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

  test('halts the stream again if it fails; a redrive of it goes first again', async () => {
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

  test('takes the position of the failed item in the middle of the stream', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    const ids = [await stream.enqueue(), await stream.enqueue(), await stream.enqueue()] as const
    await placeOutboxHold(olga.control, ids[1], 'odd')
    await approve(pavel, await propose(olga, ids[1], 'FAILED'))
    const again = await redrive(ids[1])
    await resume(stream)
    expect(await stream.drain()).toEqual([ids[0], again, ids[2]])
  })

  test('is refused (P7006) unless the stream is halted or paused; after the resume it goes first', async () => {
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

  test('is refused (P7006) once a later item is leased or was sent', async () => {
    const { stream, ids } = await halted()
    await resume(stream)
    const lease = await stream.claimOnly()
    await pauseOutbox(olga.control, 'stream', stream.participantId, 'stop')
    const refused = { sqlstate: 'P7006', message: expect.stringContaining(`item ${ids[1]} behind it`) }
    await expect(redrive(ids[0])).rejects.toMatchObject(refused)
    await complete(db, lease, { state: 'DISPATCHED' })
    await expect(redrive(ids[0])).rejects.toMatchObject(refused)
  })

  test('goes first although two people failed unsent later items, before and after the halt', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    const ids = [
      await stream.enqueue(),
      await stream.enqueue(),
      await stream.enqueue(),
      await stream.enqueue(),
    ] as const
    await failUnsent(ids[1])
    await resume(stream)
    await complete(db, await stream.claimOnly(), { state: 'FAILED' })
    await failUnsent(ids[2])
    const again = await redrive(ids[0])
    await resume(stream)
    expect(await stream.drain()).toEqual([again, ids[3]])
  })

  test('is refused (P7006) if a worker held a later item that two people failed', async () => {
    const { stream, ids } = await halted()
    await resume(stream)
    await holdLeasedOutboxItem(db.as('symphony_executor'), await stream.claimOnly(), WORKER, 'OUTCOME_UNKNOWN')
    await approve(pavel, await propose(olga, ids[1], 'FAILED'))
    const refused = { sqlstate: 'P7006', message: expect.stringContaining(`item ${ids[1]} behind it`) }
    await expect(redrive(ids[0])).rejects.toMatchObject(refused)
  })

  test('is refused (P7006) if a worker held a later item, people retried it, and then failed it', async () => {
    const { stream, ids } = await halted()
    await resume(stream)
    await holdLeasedOutboxItem(db.as('symphony_executor'), await stream.claimOnly(), WORKER, 'odd')
    await resolveOutboxHold(olga.control, ids[1], 'RETRY', 'go on')
    await failUnsent(ids[1])
    await expect(redrive(ids[0])).rejects.toMatchObject({ sqlstate: 'P7006' })
  })

  test('goes to the end under policy continue', async () => {
    const stream = new Stream(db)
    const ids = [await stream.enqueue(), await stream.enqueue()] as const
    await complete(db, await stream.claimOnly(), { state: 'FAILED' })
    const again = await redrive(ids[0])
    expect(await stream.drain()).toEqual([ids[1], again])
  })

  test('goes before the next item even if that item was not blocked by the pause', async () => {
    const { stream, ids } = await halted()
    // A pause does not mark a head that is locked at that moment.
    await db.queryNoRole(
      'UPDATE payment_outbox_pending SET blocked = false, block_unverified = false WHERE outbox_id = $1',
      [ids[1]],
    )
    const again = await redrive(ids[0])
    await resume(stream)
    expect(await stream.drain()).toEqual([again, ids[1], ids[2]])
  })

  test('makes a resume of the stream wait until the approval of the redrive commits', async () => {
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
