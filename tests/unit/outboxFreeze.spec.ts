import { randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import {
  beginOutboxDispatch,
  checkDispatchEpoch,
  claimOutboxBatch,
  freezeDispatch,
  liftDispatchFreeze,
  nextOutboxEvent,
  placeOutboxHold,
  readDispatchEpoch,
  recordLateOutcome,
  releaseOutboxLease,
  renewOutboxLease,
  repairExpiredLeases,
  type EpochRecord,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { rewindEpoch, epochRow, forgetEpochs } from '../support/outboxEpochs.js'
import { claim, claimOnly, complete, enqueue, enqueueAndClaim, pendingRow, WORKER } from '../support/outboxItems.js'
import { createPerson } from '../support/outboxPeople.js'
import { foldTrails } from '../support/outboxTrail.js'
import { PlanRecorder, scansOf, type Execution } from '../support/plans.js'
import { failureOf, race } from '../support/race.js'

/**
 * Tests the detection of a restore in SQL, with one actor on one server. A superuser writes the data that a restore or
 * a failover would leave. tests/chaos promotes, copies and restores real servers.
 */

const db = await useTestDatabase()
const olga = await createPerson(db, 'olga')
beforeEach(() => forgetEpochs(db))

const executor = () => db.as('symphony_executor')
const check = (record?: EpochRecord, workerId = WORKER) => checkDispatchEpoch(executor(), workerId, record)
const lift = (reason = 'compared with the bank') => liftDispatchFreeze(olga.control, reason)
const freeze = (reason = 'restored by hand') => freezeDispatch(olga.control, reason)

/** Returns whether a claim leases a due item, which it does not while dispatch is frozen. */
async function isOpen(): Promise<boolean> {
  const { railType } = await enqueue(db)
  return (await claim(db, railType)).length === 1
}

async function dispatchEvents(): Promise<Record<string, unknown>[]> {
  const { rows } = await db.queryNoRole(
    `SELECT event_type, actor, detail FROM payment_outbox_events WHERE scope = 'dispatch' ORDER BY event_no`,
  )
  return rows
}

describe('an epoch', () => {
  test('starts at the first claim, unfrozen, with the server’s system identifier and timeline', async () => {
    expect(await readDispatchEpoch(db.as('symphony_readonly'))).toBeUndefined()
    expect(await isOpen()).toBe(true)
    const { rows } = await db.queryNoRole<{ system_identifier: bigint; timeline_id: number }>(
      'SELECT s.system_identifier, c.timeline_id FROM pg_control_system() s, pg_control_checkpoint() c',
    )
    const { system_identifier: systemIdentifier, timeline_id: timeline } = rows[0]!
    expect(await readDispatchEpoch(db.as('symphony_readonly'))).toMatchObject({
      epochNo: 1,
      systemIdentifier,
      timeline,
      synchronous: false,
      frozen: false,
      frozenAt: null,
    })
  })

  test('lasts for one run of the server; further claims and checks start no other epoch', async () => {
    const { record } = await check()
    expect(await isOpen()).toBe(true)
    expect((await check(record)).record.epochId).toBe(record.epochId)
    expect(await epochRow(db)).toMatchObject({ epoch_no: 1, epoch_id: record.epochId })
  })

  test.for([
    ['after a restart', 'epoch_no = epoch_no'],
    ['in a renamed database', `server_started_at = pg_postmaster_start_time(), database_name = 'another'`],
    ['after its table was created again', 'server_started_at = pg_postmaster_start_time(), table_oid = 1'],
  ] as const)('is followed by another epoch %s, and dispatch continues', async ([, change]) => {
    const before = await check()
    await db.queryNoRole(`UPDATE dispatch_epochs SET server_started_at = server_started_at - interval '1 hour'`)
    await db.queryNoRole(`UPDATE dispatch_epochs SET ${change}`)
    expect(await isOpen()).toBe(true)
    const after = await epochRow(db)
    expect(after).toMatchObject({ epoch_no: 2, frozen: false })
    expect(after!.epoch_id).not.toBe(before.record.epochId)
  })

  test('is started once by eight concurrent claims', async () => {
    const { railType } = await enqueue(db)
    await check()
    await rewindEpoch(db)
    const { values, errors } = await race(db, 'symphony_executor', 8, (connection) =>
      claimOutboxBatch(connection, 10, WORKER, 60, { rails: [railType] }),
    )
    expect(errors).toEqual([])
    expect(values.flat()).toHaveLength(1)
    const { rows } = await db.queryNoRole('SELECT epoch_no, frozen FROM dispatch_epochs ORDER BY epoch_no')
    expect(rows).toEqual([
      { epoch_no: 1, frozen: false },
      { epoch_no: 2, frozen: false },
    ])
  })

  test('is read by one index lookup per claim, however many epochs exist', async () => {
    await check()
    const { railType } = await enqueue(db)
    const recorder = await PlanRecorder.open(db, 'symphony_executor')
    const recordClaim = () =>
      recorder.run(`SELECT * FROM ${db.qualify('claim_outbox_batch')}(10, 'w', 60, ARRAY[$1])`, [railType])
    // The first call of a session also plans its queries. The second call shows the usual cost.
    await recordClaim()
    const afterOne = epochCheckStatement(await recordClaim())
    await db.queryNoRole(
      `INSERT INTO dispatch_epochs (epoch_no, epoch_id, began_at, database_oid, server_started_at, database_name, table_oid,
         beat_at, synchronous)
       SELECT -n, gen_random_uuid(), now(), 1, now(), 'x', 1, now(), false FROM generate_series(1, 5000) AS n`,
    )
    const execution = await recordClaim()
    await recorder.close()
    expect(scansOf(execution, 'dispatch_epochs')).toMatchObject([
      { type: 'Index Scan', index: 'dispatch_epochs_pkey', rows: 1 },
    ])
    // Allows a few more pages, because the index has grown. A scan of the 5,000 rows would read many more.
    expect(epochCheckStatement(execution).buffers).toBeLessThanOrEqual(afterOne.buffers + 3)
  })
})

describe('the last stored epoch', () => {
  test.for([
    ['another system identifier', 'system_identifier = system_identifier + 1', 'ANOTHER_SERVER'],
    ['another database of this server', 'database_oid = (database_oid::bigint + 1)::oid', 'ANOTHER_DATABASE'],
    ['a higher timeline', 'timeline = timeline + 1', 'LOWER_TIMELINE'],
    ['a lower timeline, not replicated synchronously', 'timeline = timeline - 1', 'NEW_TIMELINE'],
    [
      'a lower timeline, replicated synchronously until six minutes ago',
      `timeline = timeline - 1, synchronous = true, beat_at = now() - interval '6 minutes'`,
      'NEW_TIMELINE',
    ],
    [
      'another system identifier, replicated synchronously',
      'system_identifier = system_identifier + 1, synchronous = true',
      'ANOTHER_SERVER',
    ],
  ] as const)('freezes dispatch if it names %s', async ([, change, cause]) => {
    await check()
    await rewindEpoch(db, change)
    expect(await isOpen()).toBe(false)
    const freezing = { epoch_no: 2, frozen: true, freeze_cause: cause, frozen_by: WORKER }
    const { rows } = await db.queryNoRole<{ second: string }>(
      `SELECT to_char(beat_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS second
       FROM dispatch_epochs WHERE epoch_no = 1`,
    )
    const freeze_reason = expect.stringMatching(`; the last earlier heartbeat was at ${rows[0]?.second}$`)
    expect(await epochRow(db)).toMatchObject({ ...freezing, freeze_reason })
  })

  test.for([
    ['the same server', 'synchronous = true'],
    ['a lower timeline, replicated synchronously a moment ago', 'timeline = timeline - 1, synchronous = true'],
    [
      'a lower timeline, replicated synchronously four minutes ago',
      `timeline = timeline - 1, synchronous = true, beat_at = now() - interval '4 minutes'`,
    ],
    ['no system identifier and no timeline', 'system_identifier = NULL, timeline = NULL'],
  ] as const)('does not freeze dispatch if it names %s', async ([, change]) => {
    await check()
    await rewindEpoch(db, change)
    expect(await isOpen()).toBe(true)
    expect(await epochRow(db)).toMatchObject({ epoch_no: 2, frozen: false, frozen_at: null })
  })

  test.for([
    ['system identifier', 'pg_control_system()', { system_identifier: null, timeline: expect.any(Number) }],
    ['timeline', 'pg_walfile_name(pg_lsn)', { system_identifier: expect.any(BigInt), timeline: null }],
  ] as const)('has a NULL %s if the server refuses to show it, and dispatch continues', async ([, routine, known]) => {
    await check()
    await rewindEpoch(db)
    await db.queryNoRole(`REVOKE EXECUTE ON FUNCTION ${routine} FROM PUBLIC`)
    try {
      expect(await isOpen()).toBe(true)
    } finally {
      await db.queryNoRole(`GRANT EXECUTE ON FUNCTION ${routine} TO PUBLIC`)
    }
    expect(await epochRow(db)).toMatchObject({ epoch_no: 2, frozen: false, ...known })
  })
})

describe('a worker’s epoch record', () => {
  test('does not freeze dispatch if the database has a later heartbeat', async () => {
    const { record } = await check()
    await db.queryNoRole('UPDATE dispatch_epochs SET beat_no = beat_no + 1')
    expect((await check(record)).freeze).toBeUndefined()
    await rewindEpoch(db)
    expect((await check(record)).freeze).toBeUndefined()
  })

  test('freezes dispatch if its heartbeat is later than the database’s last (LOST_COMMITS)', async () => {
    const { record } = await check()
    await rewindEpoch(db)
    expect((await check(record)).freeze).toBeUndefined()
    const { freeze: found } = await check({ ...record, beatNo: record.beatNo + 1n })
    expect(found).toMatchObject({
      cause: 'LOST_COMMITS',
      reason: expect.stringContaining(`worker ${WORKER} received heartbeat`),
    })
    expect(await isOpen()).toBe(false)
  })

  test('freezes dispatch if the database does not know its epoch (LOST_COMMITS)', async () => {
    const { record } = await check()
    expect((await check({ ...record, epochId: randomUUID() })).freeze).toMatchObject({ cause: 'LOST_COMMITS' })
    expect(await isOpen()).toBe(false)
  })

  test('replaces a freeze if it is later, and items enqueued during that freeze are marked', async () => {
    const { record } = await check()
    await freeze()
    const { outboxId } = await enqueue(db)
    expect(await check(record)).toMatchObject({ freeze: { cause: 'OPERATOR' }, marked: true })
    const { frozen_at: frozenAt } = (await epochRow(db))!
    const lost = { epochId: randomUUID(), beatNo: record.beatNo }
    const before = new Date(frozenAt!.getTime() - 1_000)
    expect((await check({ ...lost, beatAt: before })).freeze).toMatchObject({ cause: 'OPERATOR' })
    expect(await pendingRow(db, outboxId)).toMatchObject({ outcome_unknown: false })
    // A heartbeat during the freeze, which the database lost when it was rolled back to a copy of that time.
    const found = await check({ ...lost, beatAt: new Date(frozenAt!.getTime() + 1_000) })
    expect(found).toMatchObject({ freeze: { cause: 'LOST_COMMITS' }, marked: false })
    expect(await check(found.record)).toMatchObject({ freeze: { cause: 'LOST_COMMITS' }, marked: true })
    expect(await pendingRow(db, outboxId)).toMatchObject({ outcome_unknown: true })
  })

  test('freezes dispatch only if it is later than the last lift', async () => {
    const { record } = await check()
    await freeze()
    await lift()
    const { lifted_at: liftedAt } = (await epochRow(db))!
    const lost = { epochId: randomUUID(), beatNo: record.beatNo }
    const before = new Date(liftedAt!.getTime() - 1_000)
    expect((await check({ ...lost, beatAt: before })).freeze).toBeUndefined()
    await rewindEpoch(db)
    expect((await check({ ...lost, beatAt: before })).freeze).toBeUndefined()
    const after = new Date(liftedAt!.getTime() + 1_000)
    expect((await check({ ...lost, beatAt: after })).freeze).toMatchObject({ cause: 'LOST_COMMITS' })
  })

  test('has a heartbeat number that grows at most once per second', async () => {
    const first = await check()
    expect(first.record.beatNo).toBe(1n)
    expect((await check(first.record)).record.beatNo).toBe(1n)
    await db.queryNoRole(`UPDATE dispatch_epochs SET beat_at = now() - interval '2 seconds'`)
    expect((await check(first.record)).record.beatNo).toBe(2n)
    // A clock that is set back does not stop the heartbeats.
    await db.queryNoRole(`UPDATE dispatch_epochs SET beat_at = now() + interval '1 hour'`)
    expect((await check(first.record)).record.beatNo).toBe(3n)
  })

  test('is renewed by a check, which also stores whether replication is synchronous', async () => {
    await check()
    await db.queryNoRole('UPDATE dispatch_epochs SET synchronous = true')
    await check()
    expect(await epochRow(db)).toMatchObject({ synchronous: false, beat_no: 2n })
  })

  test('prevents a claim (P7009) if its epoch has ended or is frozen', async () => {
    const { railType } = await enqueue(db)
    const { record } = await check()
    const claimIn = (epochId: string) => claimOutboxBatch(executor(), 1, WORKER, 60, { rails: [railType], epochId })
    expect(await failureOf(claimIn(randomUUID()))).toMatchObject({ code: 'DISPATCH_FROZEN' })
    await rewindEpoch(db)
    expect(await failureOf(claimIn(record.epochId))).toMatchObject({ code: 'DISPATCH_FROZEN', sqlstate: 'P7009' })
    // A refused claim starts no epoch. Only the check does, because it has a record to compare.
    expect(await epochRow(db)).toMatchObject({ epoch_no: 1 })
    const { record: current } = await check(record)
    await freeze()
    expect(await failureOf(claimIn(current.epochId))).toMatchObject({ code: 'DISPATCH_FROZEN' })
    expect(await claim(db, railType)).toEqual([])
    await lift()
    expect(await claimIn(current.epochId)).toHaveLength(1)
  })
})

describe('while dispatch is frozen', () => {
  test('a claim returns no item, with or without rails, and next_outbox_event returns null', async () => {
    const { railType } = await enqueue(db)
    await freeze()
    expect(await claim(db, railType)).toEqual([])
    expect(await claimOutboxBatch(executor(), 1000, WORKER, 60)).toEqual([])
    expect(await nextOutboxEvent(executor(), [railType])).toBeNull()
    await lift()
    expect(await nextOutboxEvent(executor(), [railType])).toBeInstanceOf(Date)
    expect(await claim(db, railType)).toHaveLength(1)
  })

  test('beginOutboxDispatch is refused for a leased item until the freeze is lifted', async () => {
    const lease = await enqueueAndClaim(db, {}, { marked: true })
    await freeze()
    expect(await failureOf(beginOutboxDispatch(executor(), lease, WORKER))).toMatchObject({ code: 'DISPATCH_FROZEN' })
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({ dispatch_mark: 'awaited' })
    await lift()
    await beginOutboxDispatch(executor(), lease, WORKER)
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({ dispatch_mark: 'begun' })
  })

  test('enqueue, complete, renew, release, repair and late outcomes are still accepted', async () => {
    const [ending, renewed, released, expired, late] = [
      await enqueueAndClaim(db),
      await enqueueAndClaim(db),
      await enqueueAndClaim(db),
      await enqueueAndClaim(db),
      await enqueueAndClaim(db),
    ]
    await freeze()
    expect(await enqueue(db)).toMatchObject({ state: 'PENDING', created: true })
    expect(await complete(db, ending, { state: 'DISPATCHED', railReference: 'ref' })).toMatchObject({
      state: 'DISPATCHED',
    })
    await renewOutboxLease(executor(), renewed, WORKER, 60)
    await releaseOutboxLease(executor(), released, WORKER)
    await db.expireLease(expired.outboxId)
    const repaired = await repairExpiredLeases(executor(), 100, WORKER)
    expect(repaired.map(({ outboxId }) => outboxId)).toContain(expired.outboxId)
    const kept = await recordLateOutcome(executor(), WORKER, { ...late, state: 'DISPATCHED', railReference: 'ref' })
    expect(kept).toMatchObject({ eventType: 'LATE_OUTCOME' })
  })

  test('the next check sets outcome_unknown only on items enqueued before the freeze', async () => {
    const leased = await enqueueAndClaim(db)
    const [due, held, scheduled] = [
      await enqueue(db),
      await enqueue(db),
      await enqueue(db, { notBefore: new Date('2099-01-01') }),
    ]
    await placeOutboxHold(olga.control, held.outboxId, 'please wait')
    const { participantId } = await enqueue(db, { ordered: true })
    const blocked = await enqueue(db, { participantId, ordered: true })
    const { record } = await check()
    const waiting = [leased, due, held, scheduled, blocked]
    const lost = { ...record, epochId: randomUUID() }
    const frozen = await check(lost)
    expect(frozen).toMatchObject({ freeze: { cause: 'LOST_COMMITS' }, marked: false })
    for (const { outboxId } of waiting) expect(await pendingRow(db, outboxId)).toMatchObject({ outcome_unknown: false })
    const later = await enqueue(db)
    expect(await check(frozen.record)).toMatchObject({ freeze: { cause: 'LOST_COMMITS' }, marked: true })
    for (const { outboxId } of waiting) expect(await pendingRow(db, outboxId)).toMatchObject({ outcome_unknown: true })
    expect(await pendingRow(db, later.outboxId)).toMatchObject({ outcome_unknown: false })
    const { items_marked: count, marked_at: at } = (await epochRow(db))!
    expect(count).toBeGreaterThanOrEqual(5n)
    await check(frozen.record)
    expect(await epochRow(db)).toMatchObject({ items_marked: count, marked_at: at })
  })

  test('a worker does not wait for another worker that sets outcome_unknown', async () => {
    await check()
    await freeze()
    const marking = await db.connect()
    await marking.query('BEGIN')
    await marking.query('SELECT mark_frozen_outbox_items(1, $1)', ['another'])
    expect(await check()).toMatchObject({ freeze: { cause: 'OPERATOR' }, marked: false })
    await marking.query('COMMIT')
    expect(await check()).toMatchObject({ marked: true })
  })

  test('a restart of the server leaves the freeze unchanged', async () => {
    await check()
    await freeze()
    await check()
    const before = (await epochRow(db))!
    await rewindEpoch(db)
    expect(await isOpen()).toBe(false)
    const { frozen_at, freeze_cause, freeze_reason, frozen_by, marked_at, items_marked } = before
    expect(await epochRow(db)).toMatchObject({
      epoch_no: 2,
      frozen: true,
      frozen_at,
      freeze_cause,
      freeze_reason,
      frozen_by,
      marked_at,
      items_marked,
    })
    await lift()
    expect(await isOpen()).toBe(true)
  })

  test('a restore starts a second freeze, and items enqueued before it get an unknown outcome', async () => {
    await check()
    await freeze()
    await check()
    const between = await enqueue(db)
    await rewindEpoch(db, 'system_identifier = system_identifier + 1')
    expect(await check()).toMatchObject({ freeze: { cause: 'ANOTHER_SERVER' }, marked: false })
    expect(await check()).toMatchObject({ marked: true })
    expect(await pendingRow(db, between.outboxId)).toMatchObject({ outcome_unknown: true })
  })

  test('the full trail reproduces the queue, unknown outcomes included', async () => {
    await db.queryNoRole('UPDATE symphony_settings SET full_trail = true')
    try {
      const { outboxId } = await enqueue(db)
      await freeze()
      const later = await enqueue(db)
      await check()
      const { folded, pending } = await foldTrails(db)
      for (const id of [outboxId, later.outboxId]) expect(folded.get(id)).toEqual(pending.get(id))
      expect(pending.get(outboxId)).toMatchObject({ outcome_unknown: true })
      expect(pending.get(later.outboxId)).toMatchObject({ outcome_unknown: false })
    } finally {
      await db.queryNoRole('UPDATE symphony_settings SET full_trail = false')
    }
  })
})

describe('an operator', () => {
  test('lifts a freeze and stores the reason; items older than the freeze have an unknown outcome', async () => {
    const item = await enqueue(db)
    await check()
    await rewindEpoch(db, 'system_identifier = system_identifier + 1')
    expect(await isOpen()).toBe(false)
    const before = (await dispatchEvents()).length
    // No check has run since the freeze, so lifting marks the items.
    expect(await lift('compared with the bank, OPS-812')).toBe(true)
    const lease = await claimOnly(db, item.railType)
    expect(lease).toMatchObject({ outcomeUnknown: true, evidence: { lateOutcome: null, lastAttempt: null } })
    expect(await epochRow(db)).toMatchObject({ frozen: false, lifted_by: olga.name, freeze_cause: 'ANOTHER_SERVER' })
    expect((await dispatchEvents()).slice(before)).toMatchObject([
      { event_type: 'PAUSED', actor: olga.name, detail: { items_marked: expect.any(Number) } },
      {
        event_type: 'RESUMED',
        actor: olga.name,
        detail: { reason: 'compared with the bank, OPS-812', cause: 'ANOTHER_SERVER' },
      },
    ])
  })

  test('gets false and changes nothing on a lift without a freeze, or on a second freeze', async () => {
    expect(await lift()).toBe(false)
    await check()
    const before = (await dispatchEvents()).length
    expect(await lift()).toBe(false)
    expect(await freeze('first')).toBe(true)
    expect(await freeze('second')).toBe(false)
    expect(await epochRow(db)).toMatchObject({ freeze_cause: 'OPERATOR', freeze_reason: 'first', frozen_by: olga.name })
    expect((await dispatchEvents()).slice(before)).toMatchObject([
      { event_type: 'PAUSED', actor: olga.name, detail: { reason: 'first', cause: 'OPERATOR' } },
    ])
  })

  test('can freeze dispatch before the first claim, and again after a lift', async () => {
    expect(await freeze()).toBe(true)
    expect(await isOpen()).toBe(false)
    await lift()
    expect(await isOpen()).toBe(true)
    expect(await freeze()).toBe(true)
    expect(await epochRow(db)).toMatchObject({ epoch_no: 1, frozen: true, lifted_at: null, marked_at: null })
  })
})

/** Returns the statement that reads, among other things, whether dispatch is frozen. */
function epochCheckStatement({ statements }: Execution) {
  return statements.find(({ nodes }) => nodes.some(({ relation }) => relation === 'dispatch_epochs'))!
}
