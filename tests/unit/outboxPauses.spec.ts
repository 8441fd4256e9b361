import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
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
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { claim, complete, enqueue, ledger, pendingRow, WORKER } from '../support/outboxItems.js'
import { createPerson, approve, enqueueFailed, propose, type Person } from '../support/outboxPeople.js'
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

const KINDS = ['rail', 'participant', 'stream'] as const
/** The kinds that mark the items they keep from being claimed. */
const MARKING_KINDS = ['participant', 'stream'] as const

function nameOf(kind: PauseKind, stream: Stream): string {
  return kind === 'rail' ? stream.railType : stream.participantId
}
const pause = (kind: PauseKind, stream: Stream, by = olga.control) =>
  pauseOutbox(by, kind, nameOf(kind, stream), 'please wait')
const resume = (kind: PauseKind, stream: Stream, by = olga.control) =>
  resumeOutbox(by, kind, nameOf(kind, stream), 'go on')

const pauseAll = () => pauseOutbox(olga.control, 'all', 'all', 'reconciliation')
const resumeAll = () => resumeOutbox(olga.control, 'all', 'all', 'the books agree')

describe('while it is paused', () => {
  test('a rail is not claimed, whether it is named or all are asked for; other rails are', async () => {
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

  test('a participant is not claimed on any rail; its neighbours are', async () => {
    const paused = new Stream(db)
    const first = await paused.enqueue(false)
    const second = await enqueue(db, { participantId: paused.participantId })
    const neighbour = await enqueue(db, { railType: paused.railType })
    await pause('participant', paused)
    expect(await paused.claimed()).toEqual([neighbour.outboxId])
    expect(await claim(db, second.railType)).toEqual([])
    for (const id of [first, second.outboxId]) expect(await pendingRow(db, id)).toMatchObject({ blocked: true })
  })

  test('a stream is not claimed; what is not ordered is', async () => {
    const paused = new Stream(db)
    await paused.enqueue()
    const unordered = await paused.enqueue(false)
    await pause('stream', paused)
    expect(await paused.claimed()).toEqual([unordered])
  })

  test.for(KINDS)('a %s takes what is enqueued, and gives it when it is resumed', async (kind) => {
    const paused = new Stream(db)
    await pause(kind, paused)
    const ids = [await paused.enqueue(), await paused.enqueue()]
    expect(await paused.claimed()).toEqual([])
    await resume(kind, paused)
    expect(await paused.drain()).toEqual(ids)
  })

  test('a participant takes what is redriven, and gives it when it is resumed', async () => {
    const paused = new Stream(db)
    const { participantId, railType } = paused
    const failed = await enqueueFailed(db, { participantId, railType })
    await pause('participant', paused)
    const { redrivenAs } = await approve(pavel, await propose(olga, failed.outboxId, 'REDRIVE'))
    expect(await paused.claimed()).toEqual([])
    await resume('participant', paused)
    expect(await paused.claimed()).toEqual([redrivenAs])
  })

  test('a stream lets what is not ordered be enqueued and claimed', async () => {
    const paused = new Stream(db)
    await pause('stream', paused)
    const unordered = await paused.enqueue(false)
    expect(await pendingRow(db, unordered)).toMatchObject({ blocked: false })
    expect(await paused.claimed()).toEqual([unordered])
  })
})

describe.for(KINDS)('a pause of a %s leaves leases in hand alone', (kind) => {
  async function leasedAndPaused() {
    const stream = new Stream(db)
    await stream.enqueue()
    const lease = await stream.claimOnly()
    await pause(kind, stream)
    return { stream, lease }
  }

  test.for(['DISPATCHED', 'FAILED'] as const)('they end as %s', async (state) => {
    const { stream, lease } = await leasedAndPaused()
    const second = await stream.enqueue()
    // A claim confirms that it waits.
    expect(await stream.claimed()).toEqual([])
    expect(await complete(db, lease, { state })).toMatchObject({ state, held: false })
    expect(await stream.claimed()).toEqual([])
    // A rail is skipped as a whole; what the others keep is marked, so that a claim need not read it.
    expect(await pendingRow(db, second)).toMatchObject({ blocked: kind !== 'rail' })
    await resume(kind, stream)
    expect(await stream.claimed()).toEqual([second])
  })

  test('they end as RETRYABLE, are renewed and given back, and the item waits', async () => {
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

  test('they expire and are repaired, but no claim takes them over', async () => {
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
  test('says whether it changed anything, and so does resuming it', async () => {
    const stream = new Stream(db)
    expect(await resume(kind, stream)).toBe(false)
    expect(await pause(kind, stream)).toBe(true)
    expect(await pause(kind, stream, pavel.control)).toBe(false)
    expect(await resume(kind, stream, pavel.control)).toBe(true)
    expect(await resume(kind, stream)).toBe(false)
  })

  test('is an event with the person and the reason, and so is resuming it', async () => {
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

  test('twice at once is done once', async () => {
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

test('a participant is paused while its policy is being set, and each has its own trail', async () => {
  const stream = new Stream(db)
  const setting = await openTransaction(db, 'symphony_control')
  await setParticipantOutboxPolicy(setting, stream.participantId, 'halt')
  await pause('participant', stream)
  await setting.query('COMMIT')
  expect(await scopeEvents(`participant:${stream.participantId}`)).toHaveLength(1)
  expect(await scopeEvents(`policy:${stream.participantId}`)).toHaveLength(1)
})

test('a pause asks for a kind, a name and a reason (22023), by the functions themselves', async () => {
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

describe('resuming wakes the workers', () => {
  test.for([true, false])('where notifications are on: %s', async (enabled) => {
    const stream = new Stream(db)
    await pause('rail', stream)
    const listener = await db.connect()
    const heard: (string | undefined)[] = []
    listener.on('notification', ({ payload }) => heard.push(payload))
    await listener.query('LISTEN outbox_pending')
    await db.queryNoRole('UPDATE symphony_settings SET notify_enabled = $1', [enabled])
    await resume('rail', stream)
    await db.queryNoRole('UPDATE symphony_settings SET notify_enabled = true')
    // Notifications arrive before the answer to the next statement.
    await listener.query('SELECT 1')
    expect(heard).toEqual(enabled ? ['new_work'] : [])
    await listener.end()
  })
})

describe.for(MARKING_KINDS)('an item enqueued beside a pause of its %s', (kind) => {
  test('that it has not seen is not claimed, whoever commits first, and is when it is resumed', async () => {
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

  test('that was rolled back is claimed', async () => {
    const stream = new Stream(db)
    const operator = await openTransaction(db, 'symphony_control')
    await pauseOutbox(operator, kind, stream.participantId, 'please wait')
    const item = await stream.enqueue()
    await operator.query('ROLLBACK')
    expect(await stream.claimed()).toEqual([item])
  })
})

describe.for(MARKING_KINDS)('an item enqueued beside the end of a pause of its %s is not stranded', (kind) => {
  async function createFixture() {
    const stream = new Stream(db)
    await pause(kind, stream)
    return {
      stream,
      enqueuer: await openTransaction(db, 'symphony_ingest'),
      operator: await openTransaction(db, 'symphony_control'),
    }
  }
  // What is not ordered is no business of a stream's pause.
  const flags = kind === 'stream' ? [true] : [true, false]

  test('when it is enqueued, then the pause ends and commits, then it commits', async () => {
    for (const ordered of flags) {
      const { stream, enqueuer, operator } = await createFixture()
      const item = await stream.enqueueOn(enqueuer, ordered)
      await resumeOutbox(operator, kind, stream.participantId, 'go on')
      await operator.query('COMMIT')
      await enqueuer.query('COMMIT')
      expect(await stream.claimed()).toEqual([item])
    }
  })

  test('when the pause ends, then it is enqueued and commits, then the pause commits', async () => {
    for (const ordered of flags) {
      const { stream, enqueuer, operator } = await createFixture()
      await resumeOutbox(operator, kind, stream.participantId, 'go on')
      const item = await stream.enqueueOn(enqueuer, ordered)
      await enqueuer.query('COMMIT')
      // The pause may still stand: a claim must not decide yet, and must not forget to look again.
      expect(await stream.claimed()).toEqual([])
      expect(await pendingRow(db, item)).toMatchObject({ blocked: true, block_unverified: true })
      await operator.query('COMMIT')
      expect(await stream.claimed()).toEqual([item])
    }
  })

  test('when the end of the pause is rolled back', async () => {
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

  test('when a claim has just confirmed that it must wait: the end of the pause waits for that claim, and then sees it', async () => {
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

  test('when the pause ends on a snapshot older than the item: it is refused (40001), not blind', async () => {
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

  test('when the pause ends on a snapshot older than the last look at the item (40001)', async () => {
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

/** A leased head with another item behind it, which waits and is known to wait. */
async function createHeadAndAnother() {
  const stream = new Stream(db)
  await stream.enqueue()
  const lease = await stream.claimOnly()
  const second = await stream.enqueue()
  // The next claim confirms that the second one waits.
  expect(await stream.claimed()).toEqual([])
  return {
    stream,
    lease,
    second,
    completer: await openTransaction(db, 'symphony_executor'),
    operator: await openTransaction(db, 'symphony_control'),
  }
}

describe.for(MARKING_KINDS)('a head that ends beside a pause of its %s', (kind) => {
  test('lets nobody go: the pause came while the next one was being unblocked', async () => {
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

  test('lets nobody go: the completion waited for the pause', async () => {
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

  test('lets the next one go: the completion waited for a pause that was rolled back', async () => {
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

describe.for(MARKING_KINDS)('a head that ends beside the end of a pause of its %s strands nobody', (kind) => {
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

  test('when the end of the pause waits for the completion, which commits or not', async () => {
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

  test('when the completion waits for the end of the pause, which commits or not', async () => {
    for (const outcome of ['COMMIT', 'ROLLBACK']) {
      const { stream, lease, second, completer, operator } = await createFixture()
      await resumeOutbox(operator, kind, stream.participantId, 'go on')
      const completion = completeOn(completer, lease)
      await untilWaiting(db, completer)
      await operator.query(outcome)
      await completion
      await completer.query('COMMIT')
      // Rolled back, the pause stands.
      expect(await resume(kind, stream)).toBe(outcome === 'ROLLBACK')
      expect(await stream.claimed()).toEqual([second])
    }
  })

  test('when the head was leased before the pause was committed, and neither of the two ends sees what waits', async () => {
    const stream = new Stream(db)
    const operator = await openTransaction(db, 'symphony_control')
    // Neither marked nor hidden by the pause: it is leased while the pause is open.
    await pauseOutbox(operator, kind, stream.participantId, 'please wait')
    await stream.enqueue()
    const lease = await stream.claimOnly()
    await operator.query('COMMIT')
    // Its ending cannot see the next one, which is not committed.
    const enqueuer = await openTransaction(db, 'symphony_ingest')
    const second = await stream.enqueueOn(enqueuer)
    const completer = await openTransaction(db, 'symphony_executor')
    await completeOn(completer, lease)
    await enqueuer.query('COMMIT')
    // A claim finds the pause standing, and that is enough for it.
    expect(await stream.claimed()).toEqual([])
    expect(await pendingRow(db, second)).toMatchObject({ blocked: true, block_unverified: false })
    // The end of the pause finds the head still there.
    await resume(kind, stream)
    await completer.query('COMMIT')
    expect(await stream.claimed()).toEqual([second])
  })

  test('and its lease, if it expires, is taken over by nobody while the pause stands', async () => {
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

  test('when what waits first is being decided by people, and is gone when the pause has ended', async () => {
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

  test('when the head ends, what waits first is decided, and what waits second is seen by neither', async () => {
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

test('a blocked item whose lease expired is left to repair, whatever blocks it', async () => {
  const stream = new Stream(db)
  await stream.enqueue()
  const { outboxId } = await stream.claimOnly()
  await db.expireLease(outboxId)
  await db.queryNoRole('UPDATE payment_outbox_pending SET blocked = true WHERE outbox_id = $1', [outboxId])
  expect(await stream.claimed()).toEqual([])
  await repairExpiredLeases(db.as('symphony_executor'), 100, 'repairer')
  expect(await ledger(db, outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
})

test('a participant and its stream, paused both, stay paused until both are resumed', async () => {
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

test('a participant and its stream, resumed by two people at once, strand nobody', async () => {
  const stream = new Stream(db)
  const ids = [await stream.enqueue(), await stream.enqueue()]
  for (const kind of MARKING_KINDS) await pause(kind, stream)
  const first = await openTransaction(db, 'symphony_control')
  const second = await openTransaction(db, 'symphony_control')
  // Each sees the other's pause still standing.
  await resumeOutbox(first, 'participant', stream.participantId, 'go on')
  const other = resumeOutbox(second, 'stream', stream.participantId, 'go on')
  await untilWaiting(db, second)
  await first.query('COMMIT')
  await other
  await second.query('COMMIT')
  expect(await stream.drain()).toEqual(ids)
})

/** Two leased items, the first of them ordered or not, whose numbers in the stream run against the order of their ids. */
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

describe('a pause and a completion of several items of its participant', () => {
  test.for([
    ['pausing', 'two items without order', false],
    ['pausing', 'a head and another item', true],
    ['resuming', 'two items without order', false],
    ['resuming', 'a head and another item', true],
  ] as const)('do not deadlock while %s, on %s: they lock in one order', async ([action, , isFirstOrdered]) => {
    const { stream, leases, outcomes } = await twoAgainstTheOrder(isFirstOrdered)
    if (action === 'resuming') await pause('participant', stream)
    // Both parties are stopped at the item that comes first in their order, if they have the same order.
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

  test('stops claims of payments and messages, also of expired leases, and is no freeze', async () => {
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

  test('lets renewals, completions, releases, late outcomes and repair go on', async () => {
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

  test('leaves no next event, so that workers do not spin', async () => {
    const { railType } = await enqueue(db)
    const [expired] = await claim(db, (await enqueue(db)).railType)
    await db.expireLease(expired!.outboxId)
    await pauseAll()
    expect(await nextOutboxEvent(db.as('symphony_executor'))).toBeNull()
    expect(await nextOutboxEvent(db.as('symphony_executor'), [railType])).toBeNull()
    await resumeAll()
    expect(await nextOutboxEvent(db.as('symphony_executor'), [railType])).toBeInstanceOf(Date)
  })

  test('has one name, and its events one scope', async () => {
    await expect(pauseOutbox(olga.control, 'all', 'sepa', 'odd')).rejects.toMatchObject({ sqlstate: '22023' })
    await pauseAll()
    await resumeAll()
    const { rows } = await db.queryNoRole<{ event_type: string; reason: string }>(
      `SELECT event_type, detail ->> 'reason' AS reason FROM payment_outbox_events
       WHERE scope = 'all' ORDER BY event_no DESC LIMIT 2`,
    )
    expect(rows).toEqual([
      { event_type: 'RESUMED', reason: 'the books agree' },
      { event_type: 'PAUSED', reason: 'reconciliation' },
    ])
  })
})

describe('a name that is to be paused', () => {
  test('is refused with the nearest known name when the database does not know it', async () => {
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

  test('is refused although items wait for it, when it is a misspelt declared rail', async () => {
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

  test('is known once a process declared the rail, or while it is paused', async () => {
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
