import { afterEach, describe, expect, test } from 'vitest'
import {
  approveOutboxProposal,
  claimOutboxBatch,
  completeOutboxAttempts,
  nextOutboxEvent,
  OutboxStore,
  pauseOutbox,
  placeOutboxHold,
  readDispatchEpoch,
  readKnownRails,
  recordLateOutcome,
  releaseOutboxLease,
  renewOutboxLease,
  repairExpiredLeases,
  requireKnownName,
  resumeOutbox,
  setParticipantOutboxPolicy,
  UnknownNameError,
  type PauseKind,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { claim, complete, enqueue, ledger, pendingRow, WORKER } from '../support/outboxItems.js'
import { createPerson, approve, enqueueFailed, propose } from '../support/outboxPeople.js'
import { closeTransactions, completeOn, openTransaction, Stream } from '../support/outboxStream.js'
import { failureOf, untilWaiting } from '../support/race.js'

const db = await useTestDatabase()
const olga = await createPerson(db, 'olga')
const pavel = await createPerson(db, 'pavel')
afterEach(closeTransactions)

const KINDS = ['rail', 'participant', 'stream'] as const
/** Kinds of pause that mark their items as blocked. */
const MARKING_KINDS = ['participant', 'stream'] as const

function nameOf(kind: PauseKind, stream: Stream): string {
  return kind === 'rail' ? stream.railType : stream.participantId
}
const pause = (kind: PauseKind, stream: Stream, by = olga.control) =>
  pauseOutbox(by, kind, nameOf(kind, stream), 'please wait')
const resume = (kind: PauseKind, stream: Stream, by = olga.control) =>
  resumeOutbox(by, kind, nameOf(kind, stream), 'go on')

const pauseAll = () => pauseOutbox(olga.control, 'all', 'all', 'reconciliation')
const resumeAll = () => resumeOutbox(olga.control, 'all', 'all', 'compared with the bank')

describe('a pause of claims', () => {
  test('stops claims of its rail only, whether a claim names rails or not', async () => {
    const paused = new Stream(db)
    const other = new Stream(db)
    await paused.enqueue(false)
    const free = await other.enqueue(false)
    await pause('rail', paused)
    expect(await paused.claimed()).toEqual([])
    const both = await claim(db, [paused.railType, other.railType])
    expect(both.map((item) => item.outboxId)).toEqual([free])
    const all = await claimOutboxBatch(db.as('symphony_executor'), 1000, 'worker-2', 60)
    expect(all.filter((item) => item.railType === paused.railType)).toEqual([])
  })

  test('stops claims of its participant on all rails, and of no other participant', async () => {
    const paused = new Stream(db)
    const first = await paused.enqueue(false)
    const second = await enqueue(db, { participantId: paused.participantId })
    const other = await enqueue(db, { railType: paused.railType })
    await pause('participant', paused)
    expect(await paused.claimed()).toEqual([other.outboxId])
    expect(await claim(db, second.railType)).toEqual([])
    for (const id of [first, second.outboxId]) expect(await pendingRow(db, id)).toMatchObject({ blocked: true })
  })

  test('stops claims of its ordered stream, not of the participant’s unordered items', async () => {
    const paused = new Stream(db)
    await paused.enqueue()
    const unordered = await paused.enqueue(false)
    await pause('stream', paused)
    expect(await paused.claimed()).toEqual([unordered])
  })

  test.for(KINDS)('allows enqueues for its %s; the items are claimable after a resume', async (kind) => {
    const paused = new Stream(db)
    await pause(kind, paused)
    const ids = [await paused.enqueue(), await paused.enqueue()]
    expect(await paused.claimed()).toEqual([])
    await resume(kind, paused)
    expect(await paused.drain()).toEqual(ids)
  })

  test('allows redrives of its participant, which are claimable after a resume', async () => {
    const paused = new Stream(db)
    const { participantId, railType } = paused
    const failed = await enqueueFailed(db, { participantId, railType })
    await pause('participant', paused)
    const { redrivenAs } = await approve(pavel, await propose(olga, failed.outboxId, 'REDRIVE'))
    expect(await paused.claimed()).toEqual([])
    await resume('participant', paused)
    expect(await paused.claimed()).toEqual([redrivenAs])
  })

  test('allows unordered items of its stream to be enqueued and claimed', async () => {
    const paused = new Stream(db)
    await pause('stream', paused)
    const unordered = await paused.enqueue(false)
    expect(await pendingRow(db, unordered)).toMatchObject({ blocked: false })
    expect(await paused.claimed()).toEqual([unordered])
  })
})

describe.for(KINDS)('an item leased before a pause of its %s', (kind) => {
  async function leasedAndPaused() {
    const stream = new Stream(db)
    await stream.enqueue()
    const lease = await stream.claimOnly()
    await pause(kind, stream)
    return { stream, lease }
  }

  test.for(['DISPATCHED', 'FAILED'] as const)('can end as %s', async (state) => {
    const { stream, lease } = await leasedAndPaused()
    const second = await stream.enqueue()
    // This claim verifies that the second item is blocked.
    expect(await stream.claimed()).toEqual([])
    expect(await complete(db, lease, { state })).toMatchObject({ state, held: false })
    expect(await stream.claimed()).toEqual([])
    // A claim skips a paused rail as a whole. Pauses of other kinds mark items as blocked, so that no claim reads them.
    expect(await pendingRow(db, second)).toMatchObject({ blocked: kind !== 'rail' })
    await resume(kind, stream)
    expect(await stream.claimed()).toEqual([second])
  })

  test('can be renewed, end as RETRYABLE or be released; it is claimed again only after a resume', async () => {
    const { stream, lease } = await leasedAndPaused()
    await renewOutboxLease(db.as('symphony_executor'), lease, WORKER, 3_600)
    await complete(db, lease, { state: 'RETRYABLE', retryDelaySeconds: 0 })
    expect(await stream.claimed()).toEqual([])
    await resume(kind, stream)
    const again = await stream.claimOnly()
    await pause(kind, stream)
    await releaseOutboxLease(db.as('symphony_executor'), again, WORKER)
    expect(await stream.claimed()).toEqual([])
    await resume(kind, stream)
    expect(await stream.claimed()).toEqual([lease.outboxId])
  })

  test('is repaired after its lease expires, but not taken over by a claim', async () => {
    const { stream, lease } = await leasedAndPaused()
    await db.expireLease(lease.outboxId)
    expect(await stream.claimed()).toEqual([])
    expect(await ledger(db, lease.outboxId)).toEqual([])
    await repairExpiredLeases(db.as('symphony_executor'), 100, 'repairer')
    expect(await ledger(db, lease.outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
    await db.makeDue(lease.outboxId)
    expect(await stream.claimed()).toEqual([])
    await resume(kind, stream)
    expect(await stream.claimed()).toEqual([lease.outboxId])
  })
})

describe.for(KINDS)('pausing a %s', (kind) => {
  test('returns whether it changed anything, as does resuming', async () => {
    const stream = new Stream(db)
    expect(await resume(kind, stream)).toBe(false)
    expect(await pause(kind, stream)).toBe(true)
    expect(await pause(kind, stream, pavel.control)).toBe(false)
    expect(await resume(kind, stream, pavel.control)).toBe(true)
    expect(await resume(kind, stream)).toBe(false)
  })

  test('writes an event with actor and reason, as does resuming', async () => {
    const stream = new Stream(db)
    await pause(kind, stream)
    const { rows } = await db.queryNoRole('SELECT * FROM outbox_pauses WHERE name = $1', [nameOf(kind, stream)])
    expect(rows).toMatchObject([{ kind, reason: 'please wait', paused_by: olga.name, paused_at: expect.any(Date) }])
    await pause(kind, stream)
    await resume(kind, stream, pavel.control)
    await resume(kind, stream, pavel.control)
    expect(await scopeEvents(`${kind}:${nameOf(kind, stream)}`)).toMatchObject([
      { event_no: 1n, event_type: 'PAUSED', actor: olga.name, detail: { reason: 'please wait' }, outbox_id: null },
      { event_no: 2n, event_type: 'RESUMED', actor: pavel.name, detail: { reason: 'go on' }, outbox_id: null },
    ])
  })

  test('takes effect once if two operators do it at the same time', async () => {
    const stream = new Stream(db)
    const [first, second] = [
      await openTransaction(db, 'symphony_control'),
      await openTransaction(db, 'symphony_control'),
    ]
    expect(await pauseOutbox(first, kind, nameOf(kind, stream), 'please wait')).toBe(true)
    const other = pauseOutbox(second, kind, nameOf(kind, stream), 'please wait')
    await untilWaiting(db, second)
    await first.query('COMMIT')
    expect(await other).toBe(false)
    await second.query('COMMIT')
    expect(await scopeEvents(`${kind}:${nameOf(kind, stream)}`)).toHaveLength(1)
  })
})

async function scopeEvents(scope: string) {
  const { rows } = await db.queryNoRole('SELECT * FROM payment_outbox_events WHERE scope = $1 ORDER BY event_no', [
    scope,
  ])
  return rows
}

test('a pause of a participant does not wait for an uncommitted change of its policy', async () => {
  const stream = new Stream(db)
  const setting = await openTransaction(db, 'symphony_control')
  await setParticipantOutboxPolicy(setting, stream.participantId, 'halt')
  await pause('participant', stream)
  await setting.query('COMMIT')
  expect(await scopeEvents(`participant:${stream.participantId}`)).toHaveLength(1)
  expect(await scopeEvents(`policy:${stream.participantId}`)).toHaveLength(1)
})

test('pause_outbox and resume_outbox refuse an invalid kind, name or reason (22023)', async () => {
  const asked: (readonly (string | null)[])[] = [
    [null, 'SEPA', 'why'],
    ['RAIL', 'SEPA', 'why'],
    ['item', 'SEPA', 'why'],
    ['rail', null, 'why'],
    ['rail', '', 'why'],
    ['rail', 'a b', 'why'],
    ['rail', 'r'.repeat(129), 'why'],
    ['rail', 'SEPA', null],
    ['rail', 'SEPA', ' '],
    ['rail', 'SEPA', 'x'.repeat(1001)],
  ]
  for (const values of asked) {
    for (const call of ['pause_outbox', 'resume_outbox']) {
      await expect(db.queryNoRole(`SELECT ${call}($1, $2, $3)`, values)).rejects.toMatchObject({ code: '22023' })
    }
  }
  const { rows } = await db.queryNoRole(`SELECT FROM outbox_pauses WHERE name = 'SEPA'`)
  expect(rows).toEqual([])
})

describe('resuming a paused rail', () => {
  test.for([true, false])('notifies the workers only if notify_enabled is true (here: %s)', async (enabled) => {
    const stream = new Stream(db)
    await pause('rail', stream)
    const listener = await db.connect()
    const received: (string | undefined)[] = []
    listener.on('notification', ({ payload }) => received.push(payload))
    await listener.query('LISTEN outbox_pending')
    await db.queryNoRole('UPDATE symphony_settings SET notify_enabled = $1', [enabled])
    await resume('rail', stream)
    await db.queryNoRole('UPDATE symphony_settings SET notify_enabled = true')
    // Notifications arrive before the result of the next statement.
    await listener.query('SELECT 1')
    expect(received).toEqual(enabled ? ['new_work'] : [])
    await listener.end()
  })
})

describe.for(MARKING_KINDS)('an item enqueued during a pause transaction of its %s', (kind) => {
  test('is not claimed until the resume, whichever transaction commits first', async () => {
    for (const first of ['enqueue', 'pause']) {
      const stream = new Stream(db)
      const enqueuer = await openTransaction(db, 'symphony_ingest')
      const operator = await openTransaction(db, 'symphony_control')
      const item = await stream.enqueueOn(enqueuer)
      await pauseOutbox(operator, kind, stream.participantId, 'please wait')
      if (first === 'enqueue') await enqueuer.query('COMMIT')
      await operator.query('COMMIT')
      if (first === 'pause') await enqueuer.query('COMMIT')
      expect(await stream.claimed()).toEqual([])
      expect(await claim(db, [stream.railType, 'another'])).toEqual([])
      await resume(kind, stream)
      expect(await stream.claimed()).toEqual([item])
    }
  })

  test('is claimed if the pause rolls back', async () => {
    const stream = new Stream(db)
    const operator = await openTransaction(db, 'symphony_control')
    await pauseOutbox(operator, kind, stream.participantId, 'please wait')
    const item = await stream.enqueue()
    await operator.query('ROLLBACK')
    expect(await stream.claimed()).toEqual([item])
  })
})

describe.for(MARKING_KINDS)('an item enqueued during a resume transaction of its %s', (kind) => {
  async function createFixture() {
    const stream = new Stream(db)
    await pause(kind, stream)
    return {
      stream,
      enqueuer: await openTransaction(db, 'symphony_ingest'),
      operator: await openTransaction(db, 'symphony_control'),
    }
  }
  // A pause of a stream does not concern unordered items.
  const flags = kind === 'stream' ? [true] : [true, false]

  test('is claimable after both commits if the enqueue starts first and commits last', async () => {
    for (const ordered of flags) {
      const { stream, enqueuer, operator } = await createFixture()
      const item = await stream.enqueueOn(enqueuer, ordered)
      await resumeOutbox(operator, kind, stream.participantId, 'go on')
      await operator.query('COMMIT')
      await enqueuer.query('COMMIT')
      expect(await stream.claimed()).toEqual([item])
    }
  })

  test('is claimable after both commits if the enqueue runs while the resume is open', async () => {
    for (const ordered of flags) {
      const { stream, enqueuer, operator } = await createFixture()
      await resumeOutbox(operator, kind, stream.participantId, 'go on')
      const item = await stream.enqueueOn(enqueuer, ordered)
      await enqueuer.query('COMMIT')
      // The resume may still roll back, so a claim leaves the item blocked and unverified.
      expect(await stream.claimed()).toEqual([])
      expect(await pendingRow(db, item)).toMatchObject({ blocked: true, block_unverified: true })
      await operator.query('COMMIT')
      expect(await stream.claimed()).toEqual([item])
    }
  })

  test('stays blocked if the resume rolls back, until the next resume', async () => {
    for (const ordered of flags) {
      const { stream, enqueuer, operator } = await createFixture()
      await resumeOutbox(operator, kind, stream.participantId, 'go on')
      const item = await stream.enqueueOn(enqueuer, ordered)
      await enqueuer.query('COMMIT')
      expect(await stream.claimed()).toEqual([])
      await operator.query('ROLLBACK')
      expect(await stream.claimed()).toEqual([])
      expect(await pendingRow(db, item)).toMatchObject({ blocked: true, block_unverified: false })
      await resume(kind, stream)
      expect(await stream.claimed()).toEqual([item])
    }
  })

  test('is unblocked by a resume that waits for a concurrent claim', async () => {
    for (const ordered of flags) {
      const { stream, enqueuer, operator } = await createFixture()
      const item = await stream.enqueueOn(enqueuer, ordered)
      await enqueuer.query('COMMIT')
      const claimer = await openTransaction(db, 'symphony_executor')
      await claimOutboxBatch(claimer, 1, 'other', 60, { rails: [stream.railType] })
      const resumption = resumeOutbox(operator, kind, stream.participantId, 'go on')
      await untilWaiting(db, operator)
      await claimer.query('COMMIT')
      await resumption
      await operator.query('COMMIT')
      expect(await pendingRow(db, item)).toMatchObject({ blocked: false, block_unverified: false })
    }
  })

  test('makes a resume fail (40001) if the snapshot of the resume is older than the enqueue', async () => {
    for (const ordered of flags) {
      const { stream, enqueuer, operator } = await createFixture()
      await operator.query('COMMIT')
      await operator.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await operator.query('SELECT 1')
      const item = await stream.enqueueOn(enqueuer, ordered)
      await enqueuer.query('COMMIT')
      expect(await stream.claimed()).toEqual([])
      expect(await failureOf(resumeOutbox(operator, kind, stream.participantId, 'go on'))).toMatchObject({
        sqlstate: '40001',
      })
      await operator.query('ROLLBACK')
      await resume(kind, stream)
      expect(await stream.claimed()).toEqual([item])
    }
  })

  test('is not unblocked by a REPEATABLE READ resume if a claim ran after its snapshot (40001)', async () => {
    for (const ordered of flags) {
      const { stream, enqueuer, operator } = await createFixture()
      const item = await stream.enqueueOn(enqueuer, ordered)
      await enqueuer.query('COMMIT')
      await operator.query('COMMIT')
      await operator.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await operator.query('SELECT 1')
      expect(await stream.claimed()).toEqual([])
      expect(await failureOf(resumeOutbox(operator, kind, stream.participantId, 'go on'))).toMatchObject({
        sqlstate: '40001',
      })
      await operator.query('ROLLBACK')
      await resume(kind, stream)
      expect(await stream.claimed()).toEqual([item])
    }
  })
})

/** Returns a leased head and a second item that a claim has verified as blocked. */
async function createHeadAndAnother() {
  const stream = new Stream(db)
  await stream.enqueue()
  const lease = await stream.claimOnly()
  const second = await stream.enqueue()
  // This claim verifies that the second item is blocked.
  expect(await stream.claimed()).toEqual([])
  return {
    stream,
    lease,
    second,
    completer: await openTransaction(db, 'symphony_executor'),
    operator: await openTransaction(db, 'symphony_control'),
  }
}

describe.for(MARKING_KINDS)('a head that ends during a pause transaction of its %s', (kind) => {
  test('leaves the next item blocked if the pause waits for the completion', async () => {
    const { stream, lease, second, completer, operator } = await createHeadAndAnother()
    await completeOn(completer, lease)
    const pausing = pauseOutbox(operator, kind, stream.participantId, 'please wait')
    await untilWaiting(db, operator)
    await completer.query('COMMIT')
    await pausing
    await operator.query('COMMIT')
    expect(await stream.claimed()).toEqual([])
    await resume(kind, stream)
    expect(await stream.claimed()).toEqual([second])
  })

  test('leaves the next item blocked if the completion waits for the pause', async () => {
    const { stream, lease, second, completer, operator } = await createHeadAndAnother()
    await pauseOutbox(operator, kind, stream.participantId, 'please wait')
    const completion = completeOn(completer, lease)
    await untilWaiting(db, completer)
    await operator.query('COMMIT')
    await completion
    await completer.query('COMMIT')
    expect(await stream.claimed()).toEqual([])
    await resume(kind, stream)
    expect(await stream.claimed()).toEqual([second])
  })

  test('unblocks the next item if the completion waits for a pause that rolls back', async () => {
    const { stream, lease, second, completer, operator } = await createHeadAndAnother()
    await pauseOutbox(operator, kind, stream.participantId, 'please wait')
    const completion = completeOn(completer, lease)
    await untilWaiting(db, completer)
    await operator.query('ROLLBACK')
    await completion
    await completer.query('COMMIT')
    expect(await stream.claimed()).toEqual([second])
  })
})

describe.for(MARKING_KINDS)('a resume of a %s', (kind) => {
  async function createFixture() {
    const stream = new Stream(db)
    await stream.enqueue()
    const lease = await stream.claimOnly()
    const second = await stream.enqueue()
    await pause(kind, stream)
    expect(await stream.claimed()).toEqual([])
    return {
      stream,
      lease,
      second,
      completer: await openTransaction(db, 'symphony_executor'),
      operator: await openTransaction(db, 'symphony_control'),
    }
  }

  test('waits for the head’s open completion; the next item is claimable once the head has ended', async () => {
    for (const outcome of ['COMMIT', 'ROLLBACK']) {
      const { stream, lease, second, completer, operator } = await createFixture()
      await completeOn(completer, lease)
      const resumption = resumeOutbox(operator, kind, stream.participantId, 'go on')
      await untilWaiting(db, operator)
      await completer.query(outcome)
      await resumption
      await operator.query('COMMIT')
      if (outcome === 'ROLLBACK') await complete(db, lease, { state: 'DISPATCHED' })
      expect(await stream.claimed()).toEqual([second])
    }
  })

  test('makes the head’s completion wait; the next item is claimable once a resume has committed', async () => {
    for (const outcome of ['COMMIT', 'ROLLBACK']) {
      const { stream, lease, second, completer, operator } = await createFixture()
      await resumeOutbox(operator, kind, stream.participantId, 'go on')
      const completion = completeOn(completer, lease)
      await untilWaiting(db, completer)
      await operator.query(outcome)
      await completion
      await completer.query('COMMIT')
      // After a rollback the pause is still in force.
      expect(await resume(kind, stream)).toBe(outcome === 'ROLLBACK')
      expect(await stream.claimed()).toEqual([second])
    }
  })

  test('unblocks an item enqueued while the head completes, even if the completion commits later', async () => {
    const stream = new Stream(db)
    const operator = await openTransaction(db, 'symphony_control')
    // The pause is not committed yet. Enqueue and claim do not see it, so the head is leased.
    await pauseOutbox(operator, kind, stream.participantId, 'please wait')
    await stream.enqueue()
    const lease = await stream.claimOnly()
    await operator.query('COMMIT')
    // The completion cannot see the second item, which is not committed.
    const enqueuer = await openTransaction(db, 'symphony_ingest')
    const second = await stream.enqueueOn(enqueuer)
    const completer = await openTransaction(db, 'symphony_executor')
    await completeOn(completer, lease)
    await enqueuer.query('COMMIT')
    // The claim finds the pause in force and verifies the block.
    expect(await stream.claimed()).toEqual([])
    expect(await pendingRow(db, second)).toMatchObject({ blocked: true, block_unverified: false })
    // The resume finds the head still pending.
    await resume(kind, stream)
    await completer.query('COMMIT')
    expect(await stream.claimed()).toEqual([second])
  })

  test('allows the takeover of an expired lease that was claimed before the pause committed', async () => {
    const stream = new Stream(db)
    const operator = await openTransaction(db, 'symphony_control')
    await pauseOutbox(operator, kind, stream.participantId, 'please wait')
    await stream.enqueue()
    const lease = await stream.claimOnly()
    await operator.query('COMMIT')
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({ blocked: false })
    await db.expireLease(lease.outboxId)
    expect(await stream.claimed()).toEqual([])
    await resume(kind, stream)
    expect(await stream.claimed()).toEqual([lease.outboxId])
  })

  test('unblocks the first and third item if the second is decided FAILED during the resume', async () => {
    const stream = new Stream(db)
    await pause(kind, stream)
    const ids = [await stream.enqueue(), await stream.enqueue(), await stream.enqueue()]
    expect(await stream.claimed()).toEqual([])
    await placeOutboxHold(olga.control, ids[1]!, 'please wait')
    const proposalId = await propose(olga, ids[1]!, 'FAILED')
    const deciding = await openTransaction(db, 'symphony_control')
    await approveOutboxProposal(deciding, proposalId)
    const resumer = await openTransaction(db, 'symphony_control')
    const resumption = resumeOutbox(resumer, kind, stream.participantId, 'go on')
    await untilWaiting(db, resumer)
    await deciding.query('COMMIT')
    await resumption
    await resumer.query('COMMIT')
    expect(await stream.drain()).toEqual([ids[0], ids[2]])
  })

  test('unblocks the third item if the head ends and the second is decided during the resume', async () => {
    const stream = new Stream(db)
    const operator = await openTransaction(db, 'symphony_control')
    await pauseOutbox(operator, kind, stream.participantId, 'please wait')
    await stream.enqueue()
    const lease = await stream.claimOnly()
    await operator.query('COMMIT')
    const second = await stream.enqueue()
    await placeOutboxHold(olga.control, second, 'please wait')
    const proposalId = await propose(olga, second, 'FAILED')
    const completer = await openTransaction(db, 'symphony_executor')
    await completeOn(completer, lease)
    const third = await stream.enqueue()
    expect(await stream.claimed()).toEqual([])
    const deciding = await openTransaction(db, 'symphony_control')
    await approveOutboxProposal(deciding, proposalId)
    const resumer = await openTransaction(db, 'symphony_control')
    const resumption = resumeOutbox(resumer, kind, stream.participantId, 'go on')
    await untilWaiting(db, resumer)
    await completer.query('COMMIT')
    await deciding.query('COMMIT')
    await resumption
    await resumer.query('COMMIT')
    expect(await stream.claimed()).toEqual([third])
  })
})

test('a claim leaves a blocked item with an expired lease to lease repair', async () => {
  const stream = new Stream(db)
  await stream.enqueue()
  const { outboxId } = await stream.claimOnly()
  await db.expireLease(outboxId)
  await db.queryNoRole('UPDATE payment_outbox_pending SET blocked = true WHERE outbox_id = $1', [outboxId])
  expect(await stream.claimed()).toEqual([])
  await repairExpiredLeases(db.as('symphony_executor'), 100, 'repairer')
  expect(await ledger(db, outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
})

test('an ordered item is claimable only once the pauses of its participant and stream both end', async () => {
  for (const order of [['participant', 'stream'] as const, ['stream', 'participant'] as const]) {
    const stream = new Stream(db)
    const [ordered, unordered] = [await stream.enqueue(), await stream.enqueue(false)]
    for (const kind of order) await pause(kind, stream)
    expect(await stream.claimed()).toEqual([])
    await resume(order[0], stream)
    expect(await stream.claimed()).toEqual(order[0] === 'participant' ? [unordered] : [])
    await resume(order[1], stream)
    expect(await stream.claimed()).toEqual(order[0] === 'participant' ? [ordered] : [ordered, unordered])
  }
})

test('a participant and its stream, resumed at the same time, leave no item blocked', async () => {
  const stream = new Stream(db)
  const ids = [await stream.enqueue(), await stream.enqueue()]
  for (const kind of MARKING_KINDS) await pause(kind, stream)
  const first = await openTransaction(db, 'symphony_control')
  const second = await openTransaction(db, 'symphony_control')
  // Each resume sees the other pause still in force.
  await resumeOutbox(first, 'participant', stream.participantId, 'go on')
  const other = resumeOutbox(second, 'stream', stream.participantId, 'go on')
  await untilWaiting(db, second)
  await first.query('COMMIT')
  await other
  await second.query('COMMIT')
  expect(await stream.drain()).toEqual(ids)
})

/** Returns two leased items. Their sequence numbers are in the reverse order of their ids. */
async function twoAgainstTheOrder(isFirstOrdered: boolean) {
  const stream = new Stream(db)
  await stream.enqueue(isFirstOrdered)
  await stream.enqueue(false)
  const leases = (await claim(db, stream.railType)).toSorted((a, b) => (a.outboxId < b.outboxId ? -1 : 1))
  for (const [index, number] of [102, 101].entries()) {
    await db.queryNoRole('UPDATE payment_outbox_pending SET sequence_id = $2 WHERE outbox_id = $1', [
      leases[index]!.outboxId,
      number,
    ])
  }
  const outcomes = leases.map(({ outboxId, leaseToken }) => ({ outboxId, leaseToken, state: 'DISPATCHED' as const }))
  return { stream, leases, outcomes }
}

describe('a pause or resume and a concurrent completion of two items', () => {
  test.for([
    ['pausing', 'two unordered items', false],
    ['pausing', 'a head and another item', true],
    ['resuming', 'two unordered items', false],
    ['resuming', 'a head and another item', true],
  ] as const)('do not deadlock while %s, with %s', async ([action, , isFirstOrdered]) => {
    const { stream, leases, outcomes } = await twoAgainstTheOrder(isFirstOrdered)
    if (action === 'resuming') await pause('participant', stream)
    // Both transactions wait here, because both lock this item first. In opposite orders they would deadlock.
    const lock = await openTransaction(db)
    await lock.query('SELECT FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [leases[0]!.outboxId])
    const completer = await openTransaction(db, 'symphony_executor')
    const operator = await openTransaction(db, 'symphony_control')
    const completion = completeOutboxAttempts(completer, WORKER, outcomes)
    await untilWaiting(db, completer)
    const change =
      action === 'pausing'
        ? pauseOutbox(operator, 'participant', stream.participantId, 'please wait')
        : resumeOutbox(operator, 'participant', stream.participantId, 'go on')
    await untilWaiting(db, operator)
    await lock.query('COMMIT')
    expect((await completion).map((verdict) => verdict.verdict)).toEqual(['RECORDED', 'RECORDED'])
    await completer.query('COMMIT')
    expect(await change).toBe(true)
  })
})

describe('a pause of everything', () => {
  afterEach(async () => void (await resumeAll()))

  test('stops claims of payments, messages and expired leases, without a freeze', async () => {
    const executor = db.as('symphony_executor')
    const store = new OutboxStore(db.database)
    const payment = await enqueue(db)
    const message = await store.enqueue({ topic: payment.railType, payload: {} })
    const [expired] = await claim(db, (await enqueue(db)).railType)
    await db.expireLease(expired!.outboxId)
    expect(await pauseAll()).toBe(true)
    expect(await pauseAll()).toBe(false)
    expect(await claimOutboxBatch(executor, 1000, WORKER, 60)).toEqual([])
    expect(await claim(db, [payment.railType, expired!.railType])).toEqual([])
    expect(await store.claim({ batchSize: 10, topics: [payment.railType] })).toEqual([])
    expect(await pendingRow(db, expired!.outboxId)).toMatchObject({ claimed_by: WORKER })
    expect(await readDispatchEpoch(db.as('symphony_readonly'))).toMatchObject({ frozen: false })
    for (const id of [payment.outboxId, message.outboxId])
      expect(await pendingRow(db, id)).toMatchObject({ outcome_unknown: false, blocked: false, hold_reason: null })

    expect(await resumeAll()).toBe(true)
    expect(await resumeAll()).toBe(false)
    expect(await claim(db, payment.railType)).toHaveLength(2)
  })

  test('does not stop renewals, completions, releases, late outcomes or repair', async () => {
    const executor = db.as('symphony_executor')
    const { railType } = await enqueue(db)
    for (const _ of [1, 2, 3]) await enqueue(db, { railType })
    const [renewed, completed, released, expired] = await claim(db, railType)
    await db.expireLease(expired!.outboxId)
    await pauseAll()
    expect((await renewOutboxLease(executor, renewed!, WORKER, 3600)).getTime()).toBeGreaterThan(
      renewed!.leaseExpiresAt.getTime(),
    )
    expect(await complete(db, completed!, { state: 'DISPATCHED', railReference: 'ref' })).toMatchObject({
      attemptNo: 1,
    })
    await releaseOutboxLease(executor, released!, WORKER)
    expect(await pendingRow(db, released!.outboxId)).toMatchObject({ claimed_by: null, outcome_unknown: false })
    expect((await repairExpiredLeases(executor, 1000, 'repairer')).map(({ outboxId }) => outboxId)).toContain(
      expired!.outboxId,
    )
    const late = { ...expired!, state: 'DISPATCHED', railReference: 'ref' } as const
    expect(await recordLateOutcome(executor, WORKER, late)).toMatchObject({ eventType: 'LATE_OUTCOME' })
  })

  test('makes next_outbox_event return null, so that workers do not poll', async () => {
    const { railType } = await enqueue(db)
    const [expired] = await claim(db, (await enqueue(db)).railType)
    await db.expireLease(expired!.outboxId)
    await pauseAll()
    expect(await nextOutboxEvent(db.as('symphony_executor'))).toBeNull()
    expect(await nextOutboxEvent(db.as('symphony_executor'), [railType])).toBeNull()
    await resumeAll()
    expect(await nextOutboxEvent(db.as('symphony_executor'), [railType])).toBeInstanceOf(Date)
  })

  test('is refused with a name other than `all` (22023); its events have the scope `all`', async () => {
    await expect(pauseOutbox(olga.control, 'all', 'sepa', 'odd')).rejects.toMatchObject({ sqlstate: '22023' })
    await pauseAll()
    await resumeAll()
    const { rows } = await db.queryNoRole<{ event_type: string; reason: string }>(
      `SELECT event_type, detail ->> 'reason' AS reason FROM payment_outbox_events
       WHERE scope = 'all' ORDER BY event_no DESC LIMIT 2`,
    )
    expect(rows).toEqual([
      { event_type: 'RESUMED', reason: 'compared with the bank' },
      { event_type: 'PAUSED', reason: 'reconciliation' },
    ])
  })
})

describe('requireKnownName', () => {
  test('refuses an unknown name and suggests the nearest known one', async () => {
    const { railType, participantId } = await enqueue(db)
    for (const [kind, name] of [
      ['rail', railType],
      ['participant', participantId],
      ['stream', participantId],
    ] as const) {
      await requireKnownName(olga.control, kind, name)
      const misspelt = requireKnownName(olga.control, kind, name.toUpperCase())
      await expect(misspelt).rejects.toBeInstanceOf(UnknownNameError)
      await expect(misspelt).rejects.toMatchObject({ code: 'UNKNOWN_NAME', nearest: name })
      await expect(requireKnownName(olga.control, kind, 'something-else')).rejects.toMatchObject({ nearest: undefined })
    }
    await requireKnownName(olga.control, 'all', 'all')
  })

  test('refuses a misspelt name of a declared rail, although items wait under that name', async () => {
    await db.queryNoRole(`SELECT declare_outbox_rail('spelt-bank', true, '{}', 'worker-1')`)
    await enqueue(db, { railType: 'Spelt-Bank' })
    await expect(requireKnownName(olga.control, 'rail', 'Spelt-Bank')).rejects.toMatchObject({
      code: 'UNKNOWN_NAME',
      nearest: 'spelt-bank',
      message: expect.stringContaining('although items wait for it'),
    })
    await enqueue(db, { railType: 'of-a-worker-in-sql' })
    await requireKnownName(olga.control, 'rail', 'of-a-worker-in-sql')
  })

  test('accepts a rail that a process declared or that is paused', async () => {
    await expect(requireKnownName(olga.control, 'rail', 'declared-bank')).rejects.toBeInstanceOf(UnknownNameError)
    await db.queryNoRole(`SELECT declare_outbox_rail('declared-bank', true, '{}', 'worker-1')`)
    await requireKnownName(olga.control, 'rail', 'declared-bank')
    await pauseOutbox(olga.control, 'rail', 'coming-bank', 'not yet')
    await requireKnownName(olga.control, 'rail', 'coming-bank')
    expect(await readKnownRails(db.as('symphony_readonly'))).toEqual(
      expect.arrayContaining(['coming-bank', 'declared-bank']),
    )
  })
})
