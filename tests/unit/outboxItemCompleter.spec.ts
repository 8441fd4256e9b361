import { describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../libs/core/index.js'
import { DatabaseError, openDatabase, type Disposition, type Queryable } from '../../libs/db/index.js'
import type { AttemptOutcome, ClaimedItem, RelayerEvent } from '../../libs/outbox/index.js'
import { ItemCompleter } from '../../libs/outbox/ItemCompleter.js'
import { LeasedItem } from '../../libs/outbox/LeasedItem.js'
import { Emitter } from '../../libs/worker/index.js'
import { useTestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { enqueueAndClaim, ledger, WORKER } from '../support/outboxItems.js'
import { Stream } from '../support/outboxStream.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { openConnection } from '../support/race.js'

/** Tests that an outcome reaches the ledger even if a database connection fails. */

const db = await useTestDatabase()

describe.each<Disposition>(['retry', 'unknown'])('a completion with an error of disposition “%s”', (disposition) => {
  test('is retried if the request failed, and is recorded', async () => {
    const { outboxId, events } = await completeThrough((role, failing) => ({
      ...role,
      query: (text, values) => {
        failing.throwOnce(disposition)
        return role.query(text, values)
      },
    }))
    expect(events).toMatchObject([{ type: 'outbox.recorded', outboxId, state: 'DISPATCHED' }])
    expect(await ledger(db, outboxId)).toEqual(['1 DISPATCHED'])
  })

  test('is retried if the response was lost, and is reported as already recorded', async () => {
    const { outboxId, events } = await completeThrough((role, failing) => ({
      ...role,
      query: async (text, values) => {
        const rows = await role.query(text, values)
        failing.throwOnce(disposition)
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the caller's own row type, passed through
        return rows as never
      },
    }))
    expect(events).toMatchObject([{ type: 'outbox.alreadyRecorded', outboxId, state: 'DISPATCHED' }])
    expect(await ledger(db, outboxId)).toEqual(['1 DISPATCHED'])
  })
})

test('a completion with a fatal error is not retried, and its fault event names the item', async () => {
  const { outboxId, events } = await completeThrough((role, failing) => ({
    ...role,
    query: (text, values) => {
      failing.throwOnce('fatal')
      return role.query(text, values)
    },
  }))
  expect(events).toMatchObject([{ type: 'outbox.fault', during: 'completing', outboxId }])
  expect(await ledger(db, outboxId)).toEqual([])
})

test('an ItemCompleter records DISPATCHED and other outcomes in separate calls if many wait', async () => {
  const leases = await Promise.all(Array.from({ length: 60 }, () => enqueueAndClaim(db)))
  const groups: unknown[] = []
  const role = db.as('symphony_executor')
  const completer = new ItemCompleter({
    role: {
      schema: db.schema,
      query: (text, values) => {
        groups.push(values![3])
        return role.query(text, values)
      },
    },
    workerId: WORKER,
    relayer: { leaseSeconds: 60 },
    events: new Emitter(),
    clock: systemClock,
    onDue: () => {},
    groupSize: 50,
    parallel: 1,
  })
  for (const [index, lease] of leases.entries()) {
    const { outboxId, leaseToken } = lease
    void completer.submit(leased(lease), { outboxId, leaseToken, state: index % 6 === 5 ? 'FAILED' : 'DISPATCHED' })
  }
  await completer.drain()
  expect(groups).toEqual([Array.from({ length: 50 }, () => 'DISPATCHED'), Array.from({ length: 10 }, () => 'FAILED')])
  for (const [index, { outboxId }] of leases.entries())
    expect(await ledger(db, outboxId)).toEqual([index % 6 === 5 ? '1 FAILED' : '1 DISPATCHED'])
})

test('giveUp() stops retries until the next drain() ends; later completions are retried again', async () => {
  const [first, second] = [await enqueueAndClaim(db), await enqueueAndClaim(db)]
  const events: RelayerEvent[] = []
  const emitter = new Emitter<RelayerEvent>()
  emitter.on((event) => events.push(event))
  const role = db.as('symphony_executor')
  let failuresLeft = 2
  const completer = new ItemCompleter({
    role: {
      schema: db.schema,
      query: (text, values) => {
        failuresLeft -= 1
        if (failuresLeft < 0) return role.query(text, values)
        throw new DatabaseError('CONNECTION_LOST', 'the connection is gone', { disposition: 'retry' })
      },
    },
    workerId: WORKER,
    relayer: { leaseSeconds: 60 },
    events: emitter,
    clock: systemClock,
    onDue: () => {},
  })
  completer.giveUp()
  void completer.submit(leased(first), successOf(first))
  await completer.drain()
  expect(events).toMatchObject([{ type: 'outbox.fault', during: 'completing', outboxId: first.outboxId }])
  void completer.submit(leased(second), successOf(second))
  await completer.drain()
  expect(events.at(-1)).toMatchObject({ type: 'outbox.recorded', outboxId: second.outboxId })
})

test('drain() waits for a late outcome whose first statement met a lost connection', async () => {
  const lease = await enqueueAndClaim(db)
  await db.expireLease(lease.outboxId)
  const { completer, events } = completerThrough((role, failing) => ({
    ...role,
    query: (text, values) => {
      failing.throwOnce('retry')
      return role.query(text, values)
    },
  }))
  completer.submitLate(successOf(lease))
  expect(completer.size).toBe(1)
  await completer.drain()
  expect(events).toMatchObject([{ type: 'outbox.lateOutcome', outboxId: lease.outboxId, contradicts: false }])
})

test('rows that a transaction has locked delay only their own outcomes', async () => {
  const { url } = await db.createLogin('completer', { roles: ['symphony_executor'] })
  const database = openDatabase({ url, schema: db.schema, lockTimeoutMs: 50 })
  onTestFinished(() => database.close())
  const { completer } = completerThrough(() => database.as('symphony_executor'))
  const leases = await Promise.all(Array.from({ length: 9 }, () => enqueueAndClaim(db)))
  const locked = leases.slice(0, 5).map(({ outboxId }) => outboxId)
  const blocker = await openConnection(db)
  onTestFinished(() => blocker.close())
  await blocker.query('BEGIN')
  await blocker.query('SELECT FROM payment_outbox_pending WHERE outbox_id = ANY ($1) FOR UPDATE', [locked])
  for (const lease of leases.slice(0, 8)) void completer.submit(leased(lease), successOf(lease))
  await expect.poll(() => completer.size, POLL_OPTIONS).toBe(5)
  void completer.submit(leased(leases[8]!), successOf(leases[8]!))
  await expect.poll(() => completer.size, POLL_OPTIONS).toBe(5)
  for (const { outboxId } of leases)
    expect(await ledger(db, outboxId)).toEqual(locked.includes(outboxId) ? [] : ['1 DISPATCHED'])
  await blocker.query('ROLLBACK')
  await completer.drain()
  for (const id of locked) expect(await ledger(db, id)).toEqual(['1 DISPATCHED'])
})

test('outcomes beside locked rows are recorded in one statement, the locked ones after the lock', async () => {
  const { url } = await db.createLogin('sorter', { roles: ['symphony_executor'] })
  const database = openDatabase({ url, schema: db.schema, lockTimeoutMs: 50 })
  onTestFinished(() => database.close())
  const groups: number[] = []
  const { completer } = completerThrough(() => {
    const role = database.as('symphony_executor')
    return {
      schema: db.schema,
      query: (text, values) => {
        if (text.includes('complete_outbox') && Array.isArray(values?.[1])) groups.push(values[1].length)
        return role.query(text, values)
      },
    }
  })
  const leases = await Promise.all(Array.from({ length: 9 }, () => enqueueAndClaim(db)))
  const locked = leases.slice(2, 7).map(({ outboxId }) => outboxId)
  const blocker = await openConnection(db)
  onTestFinished(() => blocker.close())
  await blocker.query('BEGIN')
  await blocker.query('SELECT FROM payment_outbox_pending WHERE outbox_id = ANY ($1) FOR UPDATE', [locked])
  for (const lease of leases) void completer.submit(leased(lease), successOf(lease))
  await expect.poll(() => completer.size, POLL_OPTIONS).toBe(5)
  expect(groups).toEqual([9, 4])
  await blocker.query('ROLLBACK')
  await completer.drain()
  expect(groups).toEqual([9, 4, 1, 1, 1, 1, 1])
  for (const { outboxId } of leases) expect(await ledger(db, outboxId)).toEqual(['1 DISPATCHED'])
})

test('an ordered outcome whose successor is locked is recorded after the lock', async () => {
  const { url } = await db.createLogin('successor', { roles: ['symphony_executor'] })
  const database = openDatabase({ url, schema: db.schema, lockTimeoutMs: 50 })
  onTestFinished(() => database.close())
  const { completer, events } = completerThrough(() => database.as('symphony_executor'))
  const stream = new Stream(db)
  const [, successor] = [await stream.enqueue(), await stream.enqueue()]
  const head = await stream.claimOnly()
  const other = await enqueueAndClaim(db)
  const blocker = await openConnection(db)
  onTestFinished(() => blocker.close())
  await blocker.query('BEGIN')
  await blocker.query('SELECT FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [successor])
  for (const lease of [head, other]) void completer.submit(leased(lease), successOf(lease))
  await expect.poll(() => ledger(db, other.outboxId), POLL_OPTIONS).toEqual(['1 DISPATCHED'])
  expect(completer.size).toBe(1)
  await blocker.query('ROLLBACK')
  await completer.drain()
  expect(events.filter(({ type }) => type === 'outbox.fault')).toEqual([])
  expect(await ledger(db, head.outboxId)).toEqual(['1 DISPATCHED'])
})

test('an ItemCompleter saves at most two late outcomes at once, unless giveUp() was called', async () => {
  const leases = await Promise.all(Array.from({ length: 5 }, () => enqueueAndClaim(db)))
  for (const { outboxId } of leases) await db.expireLease(outboxId)
  const held = gate()
  let saves = 0
  const { completer, events } = completerThrough((role) => ({
    ...role,
    query: async (text, values) => {
      saves += 1
      await held.opened
      return role.query(text, values)
    },
  }))
  for (const lease of leases) completer.submitLate(successOf(lease))
  expect(saves).toBe(2)
  completer.giveUp()
  await expect.poll(() => saves, POLL_OPTIONS).toBe(5)
  held.open()
  await completer.drain()
  expect(events.map(({ type }) => type)).toEqual(leases.map(() => 'outbox.lateOutcome'))
})

test('late outcomes beyond the bound are saved when earlier saves end', async () => {
  const leases = await Promise.all(Array.from({ length: 5 }, () => enqueueAndClaim(db)))
  for (const { outboxId } of leases) await db.expireLease(outboxId)
  let [running, most] = [0, 0]
  const { completer, events } = completerThrough((role) => ({
    ...role,
    query: async (text, values) => {
      most = Math.max(most, (running += 1))
      return role.query<never>(text, values).finally(() => (running -= 1))
    },
  }))
  for (const lease of leases) completer.submitLate(successOf(lease))
  await completer.drain()
  expect(events).toHaveLength(5)
  expect(most).toBe(2)
})

test('a late outcome that waits for its row delays no other outcome', async () => {
  const [lost, live] = [await enqueueAndClaim(db), await enqueueAndClaim(db)]
  await db.expireLease(lost.outboxId)
  const held = gate()
  const { completer, events } = completerThrough((role) => ({
    ...role,
    query: async (text, values) => {
      if (text.includes('record_late_outcome')) await held.opened
      return role.query(text, values)
    },
  }))
  void completer.submit(leased(lost), successOf(lost))
  await expect.poll(() => events.some(({ type }) => type === 'outbox.leaseLost'), POLL_OPTIONS).toBe(true)
  void completer.submit(leased(live), successOf(live))
  await expect.poll(() => completer.size, POLL_OPTIONS).toBe(1)
  expect(await ledger(db, live.outboxId)).toEqual(['1 DISPATCHED'])
  held.open()
  await completer.drain()
  expect(events.at(-1)).toMatchObject({ type: 'outbox.lateOutcome', outboxId: lost.outboxId })
})

test.each([
  ['while it wrote their group', ['retry'] as const],
  ['while it wrote one by one a group that it had refused', ['fatal', 'retry'] as const],
])('giveUp() makes all outcomes faults after one failed call if the database fails %s', async (_, failures) => {
  let calls = 0
  const { completer, events } = completerThrough((role) => ({
    ...role,
    query: () => {
      calls += 1
      const disposition = failures[Math.min(calls, failures.length) - 1]!
      throw new DatabaseError('CONNECTION_LOST', 'the connection is gone', { disposition })
    },
  }))
  const leases = await Promise.all(Array.from({ length: 3 }, () => enqueueAndClaim(db)))
  completer.giveUp()
  for (const lease of leases) void completer.submit(leased(lease), successOf(lease))
  await completer.drain()
  const faults = leases.map(({ outboxId }) => ({ type: 'outbox.fault', during: 'completing', outboxId }))
  expect(events).toMatchObject(faults)
  expect(calls).toBe(failures.length)
})

/** Completes one success over a connection that fails once. */
async function completeThrough(
  corrupt: (role: Queryable, failing: Failing) => Queryable,
): Promise<{ outboxId: string; events: RelayerEvent[] }> {
  const lease = await enqueueAndClaim(db)
  const { completer, events } = completerThrough(corrupt)
  void completer.submit(leased(lease), successOf(lease))
  await completer.drain()
  return { outboxId: lease.outboxId, events }
}

function completerThrough(corrupt: (role: Queryable, failing: Failing) => Queryable): {
  readonly completer: ItemCompleter
  readonly events: RelayerEvent[]
} {
  const events: RelayerEvent[] = []
  const emitter = new Emitter<RelayerEvent>()
  emitter.on((event) => events.push(event))
  const role = db.as('symphony_executor')
  const plain: Queryable = { schema: db.schema, query: (text, values) => role.query(text, values) }
  const completer = new ItemCompleter({
    role: corrupt(plain, new Failing()),
    workerId: WORKER,
    relayer: { leaseSeconds: 60 },
    events: emitter,
    clock: systemClock,
    onDue: () => {},
    groupSize: 10,
    parallel: 1,
  })
  return { completer, events }
}

function successOf({ outboxId, leaseToken }: ClaimedItem): AttemptOutcome {
  return { outboxId, leaseToken, state: 'DISPATCHED', railReference: 'ref' }
}

function leased(item: ClaimedItem): LeasedItem {
  return new LeasedItem(item, systemClock.monotonicMs(), 60_000, systemClock)
}

class Failing {
  #hasFailed = false

  throwOnce(disposition: Disposition): void {
    if (this.#hasFailed) return
    this.#hasFailed = true
    throw new DatabaseError('CONNECTION_LOST', 'the connection is gone', { disposition })
  }
}
