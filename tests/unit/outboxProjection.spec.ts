import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { call } from '../../libs/db/index.js'
import { LedgerProjector, projectLedgerBlock, rebuildLedgerProjection } from '../../libs/ledger/index.js'
import {
  cancelOutboxItem,
  countProjected,
  DestinationHash,
  DestinationHasher,
  findItems,
  LATENCY_RANGES,
  narrowProjected,
  purgeLedgerProjection,
  readLatencySeries,
  readRailStatistics,
  readSeries,
  recordOutboxReturn,
  resolveOutboxHold,
  searchItems,
  readHashing,
  searchProjected,
  storeSearchDestinations,
  type ProjectedFilter,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { claimOnly, complete, enqueue, enqueueAndFail, WORKER } from '../support/outboxItems.js'
import {
  approve,
  createPerson,
  enqueueFailed,
  enqueueHeld,
  enqueuePaid,
  enqueueUnknown,
  propose,
} from '../support/outboxPeople.js'
import { sealLedger } from '../support/sealLedger.js'

/** Tests what a worker derives from sealed blocks: the search table, and counts per minute, hour and day. */

const db = await useTestDatabase()
const olga = await createPerson(db, 'olga')
const pia = await createPerson(db, 'pia')
const readonly = () => db.as('symphony_readonly')
const executor = () => db.as('symphony_executor')

/** Seals all ledger rows and projects all blocks. */
async function project(): Promise<void> {
  await sealLedger(db)
  while ((await new LedgerProjector(executor()).runOnce()).more);
}

async function found(outboxId: string): Promise<Record<string, unknown> | undefined> {
  const { rows } = await db.queryNoRole(
    `SELECT state, error_code, rail_reference, returned, amount::text, currency FROM payment_search WHERE outbox_id = $1`,
    [outboxId],
  )
  return rows[0]
}

/** Returns the nonzero counts of a rail per minute, hour and day, in total and for one participant. */
async function counts(railType: string): Promise<Record<string, unknown>> {
  const { rows } = await db.queryNoRole<{ key: string; counts: object }>(
    `SELECT s.grain || ' ' || CASE s.participant_id WHEN '' THEN 'all' ELSE 'one' END AS key,
       (SELECT jsonb_object_agg(c.key, c.value) FROM jsonb_each(to_jsonb(s)) c
        WHERE jsonb_typeof(c.value) = 'number' AND c.value <> '0') AS counts
     FROM outbox_series s WHERE s.rail_type = $1`,
    [railType],
  )
  return Object.fromEntries(rows.map(({ key, counts: some }) => [key, some]))
}

const PAID = { payload: { amount: '10.50', currency: 'EUR' } }
const day = () => ({ from: new Date(Date.now() - 3_600_000), to: new Date(Date.now() + 60_000) })

describe('project_ledger_block', () => {
  test('projects the state of each item, and updates it after each later change', async () => {
    const waiting = await enqueue(db, PAID)
    const held = await enqueueHeld(db, olga, PAID)
    const unknown = await enqueueUnknown(db)
    const failed = await enqueueFailed(db)
    const paid = await enqueuePaid(db)
    const cancelled = await enqueue(db)
    await cancelOutboxItem(olga.control, cancelled.outboxId, 'not wanted')
    await project()
    expect(await found(waiting.outboxId)).toMatchObject({ state: 'PENDING', amount: '10.50', currency: 'EUR' })
    expect(await found(held.outboxId)).toMatchObject({ state: 'HELD', amount: '10.50' })
    expect(await found(unknown.outboxId)).toMatchObject({ state: 'HELD', amount: null })
    expect(await found(failed.outboxId)).toMatchObject({ state: 'FAILED', error_code: 'REFUSED' })
    expect(await found(paid.outboxId)).toMatchObject({ state: 'DISPATCHED', rail_reference: 'paid-1', returned: false })
    expect(await found(cancelled.outboxId)).toMatchObject({ state: 'CANCELLED' })

    await approve(pia, await propose(olga, unknown.outboxId, 'DISPATCHED'))
    const { outboxId } = paid
    await recordOutboxReturn(olga.control, { outboxId, amount: '1', currency: 'EUR', code: 'AC04', reference: 'r-1' })
    await complete(db, await claimOnly(db, waiting.railType), { state: 'FAILED', errorCode: 'CLOSED' })
    await project()
    expect(await found(unknown.outboxId)).toMatchObject({ state: 'DISPATCHED', rail_reference: 'rail-reference-1' })
    expect(await found(outboxId)).toMatchObject({ state: 'DISPATCHED', returned: true })
    expect(await found(waiting.outboxId)).toMatchObject({ state: 'FAILED', error_code: 'CLOSED', amount: '10.50' })
  })

  test('stores no amount of a rail that declares amount or currency as masked', async () => {
    const [masked, hidden] = [`rail-${randomUUID()}`, `rail-${randomUUID()}`]
    const fields = { [masked]: '/amount', [hidden]: '/currency' }
    for (const [type, pointer] of Object.entries(fields)) {
      await call(executor(), 'declare_outbox_rail', [type, true, JSON.stringify({ [pointer]: 'masked' }), 'w', true])
    }
    const items = [await enqueue(db, { ...PAID, railType: masked }), await enqueue(db, { ...PAID, railType: hidden })]
    await project()
    for (const { outboxId } of items) expect(await found(outboxId)).toMatchObject({ amount: null, currency: null })
  })

  test('counts each ledger row once per minute, hour and day, for its participant and in total', async () => {
    const railType = `rail-${randomUUID()}`
    const participantId = `participant-${randomUUID()}`
    const own = { railType, participantId }
    const retried = await enqueueAndFail(db, 2, own)
    await complete(db, await claimOnly(db, railType), { state: 'DISPATCHED', railReference: 'r', latencyMs: 40 })
    await enqueueUnknown(db, own)
    await enqueueFailed(db, own)
    const cancelled = await enqueue(db, own)
    await cancelOutboxItem(olga.control, cancelled.outboxId, 'not wanted')
    const paid = await enqueuePaid(db, own)
    const money = { amount: '1', currency: 'EUR', code: 'AC04', reference: 'r-2' }
    await recordOutboxReturn(olga.control, { outboxId: paid.outboxId, ...money })
    await project()
    const expected = {
      enqueued: 5,
      dispatched: 2,
      failed: 1,
      cancelled: 1,
      retried: 3,
      unknown: 1,
      held: 1,
      returned: 1,
    }
    expect(await found(retried.outboxId)).toMatchObject({ state: 'DISPATCHED' })
    const all = ['minute', 'hour', 'day'].flatMap((grain) => [`${grain} all`, `${grain} one`])
    // The minute may change during the test; hours and days are compared with the sum of their minutes below.
    expect(Object.keys(await counts(railType)).toSorted()).toEqual(all.toSorted())
    for (const participants of [undefined, [participantId]]) {
      for (const grain of ['minute', 'quarter-hour', 'hour', 'day'] as const) {
        const series = await readSeries(readonly(), {
          ...day(),
          grain,
          railType,
          ...(participants && { participants }),
        })
        expect(sum(series.points)).toEqual(expected)
        expect(series).toMatchObject({ grain, projectedTo: expect.any(String) })
      }
    }
    expect(sum((await readSeries(readonly(), { ...day(), railType, participants: ['other'] })).points)).toEqual(
      Object.fromEntries(Object.keys(expected).map((name) => [name, 0])),
    )
    expect(sum((await readSeries(readonly(), { ...day(), railType, kind: 'message' })).points)).toMatchObject({
      enqueued: 0,
    })
    const { rails } = await readRailStatistics(readonly(), { ...day(), railType })
    expect(rails).toEqual([
      {
        railType,
        ...expected,
        attempts: 7,
        latency: { measured: 1, p50Ms: 40, p95Ms: 49, p99Ms: 50 },
        errors: expect.arrayContaining([
          { errorCode: 'BUSY', attempts: 2 },
          { errorCode: 'REFUSED', attempts: 1 },
        ]),
      },
    ])
    const { points } = await readLatencySeries(readonly(), { ...day(), grain: 'day', railType })
    expect(points).toMatchObject([{ measured: 1, p50Ms: 40 }])
    // The operator who cancelled is no worker.
    const { rows } = await db.queryNoRole(
      `SELECT worker_id, sum(dispatched)::int AS dispatched, sum(failed)::int AS failed, sum(retried)::int AS retried
       FROM outbox_worker_series WHERE rail_type = $1 GROUP BY worker_id`,
      [railType],
    )
    expect(rows).toEqual([{ worker_id: WORKER, dispatched: 2, failed: 1, retried: 3 }])
    const { rows: starts } = await db.queryNoRole(
      `SELECT DISTINCT extract(epoch FROM starts_at)::int % 300 AS rest FROM outbox_worker_series WHERE rail_type = $1`,
      [railType],
    )
    expect(starts).toEqual([{ rest: 0 }])
  })

  test('continues after a rollback; a second session projects nothing at the same time', async () => {
    const railType = `rail-${randomUUID()}`
    await project()
    await enqueue(db, { railType })
    await sealLedger(db)
    await expect(
      executor().transaction(async (tx) => {
        expect(await projectLedgerBlock(tx)).toMatchObject({ rowCount: expect.any(Number) })
        expect(await projectLedgerBlock(executor())).toBeUndefined()
        throw new Error('killed')
      }),
    ).rejects.toThrow('killed')
    expect(await counts(railType)).toEqual({})
    await project()
    expect(await counts(railType)).toMatchObject({ 'day all': { enqueued: 1 } })
  })

  test('fills the same tables again after rebuild_ledger_projection', async () => {
    await project()
    const before = await tables()
    expect(before['payment_search']).not.toBe('')
    expect(await rebuildLedgerProjection(olga.control)).toBeGreaterThan(0n)
    expect((await readSeries(readonly(), day())).projectedTo).toBeNull()
    await project()
    expect(await tables()).toEqual(before)
  })
})

test('latency_range returns the smallest range end that is at least the latency', async () => {
  for (const [latency, end] of [
    [0, 1],
    ...LATENCY_RANGES.flatMap((range, index) => [
      [range, range],
      [range + 1, LATENCY_RANGES[index + 1] ?? 2_147_483_647],
    ]),
    [2_147_483_647, 2_147_483_647],
  ] as const) {
    const { rows } = await db.queryNoRole(`SELECT latency_range($1::integer) AS range`, [latency])
    expect(rows).toEqual([{ range: end }])
  }
})

describe('reads of counts over time', () => {
  test('refuse a range that ends before it starts, and a range of more than 1,500 points', async () => {
    const [from, to] = [daysAgo(2), daysAgo(0)]
    await expect(readSeries(readonly(), { from: to, to: from })).rejects.toMatchObject({ argument: 'from' })
    await expect(readSeries(readonly(), { from, to, grain: 'minute' })).rejects.toMatchObject({ argument: 'grain' })
    const { points, grain } = await readSeries(readonly(), { from, to })
    expect([grain, points.length]).toEqual(['quarter-hour', 192])
  })

  test('use a grain that is still kept, and refuse a finer one', async () => {
    const railType = `rail-${randomUUID()}`
    for (const [age, kept, purged] of [
      [7, 'minute', undefined],
      [9, 'hour', 'quarter-hour'],
      [99, 'hour', 'minute'],
      [101, 'day', 'hour'],
    ] as const) {
      const range = { from: daysAgo(age), to: new Date(daysAgo(age).getTime() + 3_600_000) }
      expect(await readSeries(readonly(), range)).toMatchObject({ grain: kept })
      expect(await readSeries(readonly(), { ...range, grain: kept })).toMatchObject({ grain: kept })
      const refused = { code: 'INVALID_ARGUMENT', argument: 'grain' }
      if (purged === undefined) continue
      const finer = { ...range, railType, grain: purged }
      await expect(readSeries(readonly(), finer)).rejects.toMatchObject(refused)
      await expect(readRailStatistics(readonly(), finer)).rejects.toMatchObject(refused)
      await expect(readLatencySeries(readonly(), finer)).rejects.toMatchObject(refused)
    }
  })
})

/** Returns a midnight in UTC. */
function daysAgo(days: number): Date {
  return new Date((Math.floor(Date.now() / 86_400_000) - days) * 86_400_000)
}

const auditor = () => db.as('symphony_auditor')

/** Creates three payments of 5, 20 and 10 on a unique rail, in a random currency. */
async function three(): Promise<{ ids: string[]; filter: ProjectedFilter; railType: string; word: string }> {
  const word = randomUUID()
  const railType = `rail-${word}`
  const currency = Array.from({ length: 3 }, () => String.fromCharCode(65 + Math.floor(Math.random() * 26))).join('')
  const ids: string[] = []
  for (const [index, amount] of ['5', '20.00', '10'].entries()) {
    const item = await enqueue(db, {
      railType,
      instructionId: `${word}-i-${index}`,
      idempotencyKey: `${word}-k-${index}`,
      payload: { amount, currency },
    })
    ids.push(item.outboxId)
  }
  await project()
  return { ids, filter: { currency, railType }, railType, word }
}

describe('searches of the search table', () => {
  test('sort by amount, page by page, and filter by a range or a single amount', async () => {
    const { ids, filter } = await three()
    const [five, twenty, ten] = ids
    const search = async (more: ProjectedFilter) =>
      (await searchProjected(auditor(), { ...filter, ...more, limit: 9 })).ids
    expect(await search({})).toEqual([twenty, ten, five])
    expect(await search({ sort: 'smallest' })).toEqual([five, ten, twenty])
    expect(await search({ amountMin: '6' })).toEqual([twenty, ten])
    expect(await search({ amountMax: '10' })).toEqual([ten, five])
    expect(await search({ amountMin: '20', amountMax: '20' })).toEqual([twenty])
    expect(await search({ amountMin: '20', amountMax: '20', sort: 'oldest', states: ['HELD', 'PENDING'] })).toEqual([
      twenty,
    ])
    const first = await searchProjected(auditor(), { ...filter, limit: 2 })
    expect(first).toMatchObject({ ids: [twenty, ten], next: { amount: '10' } })
    expect(await searchProjected(auditor(), { ...filter, after: first.next!, limit: 2 })).toEqual({
      ids: [five],
      next: null,
    })
    expect(await narrowProjected(auditor(), ids, { ...filter, amountMin: '6' })).toEqual([twenty, ten])
  })

  test('sort from the oldest, and find nothing of other participants, states and times', async () => {
    const { ids, railType } = await three()
    const search = async (more: ProjectedFilter) =>
      (await searchProjected(readonly(), { sort: 'oldest', railType, ...more, limit: 9 })).ids
    const later = new Date(Date.now() + 60_000)
    expect(await search({})).toEqual(ids)
    expect(await search({ participants: ['other'] })).toEqual([])
    expect(await search({ participants: ['other', 'another'] })).toEqual([])
    expect(await search({ states: ['HELD'] })).toEqual([])
    expect(await search({ returned: true })).toEqual([])
    expect(await search({ kind: 'message' })).toEqual([])
    expect(await search({ createdFrom: later })).toEqual([])
    expect(await search({ createdTo: later })).toEqual(ids)
    const first = await searchProjected(readonly(), { sort: 'oldest', railType, limit: 1 })
    const second = await searchProjected(readonly(), { sort: 'oldest', railType, limit: 2, after: first.next! })
    expect([...first.ids, ...second.ids]).toEqual(ids)
    expect((await searchItems(readonly(), { railType, createdFrom: later, limit: 9 })).ids).toEqual([])
    expect((await searchItems(readonly(), { railType, createdTo: later, limit: 9 })).ids).toEqual(ids.toReversed())
    expect((await searchItems(readonly(), { railType, createdTo: new Date(0), limit: 9 })).ids).toEqual([])
  })

  test('find items by the first three or more characters of instruction id, key or reference', async () => {
    const { ids, word } = await three()
    expect(await findItems(readonly(), `${word}-i`, { limit: 9 })).toEqual(ids.toReversed())
    expect(await findItems(readonly(), `${word}-k-1`, { limit: 9 })).toEqual([ids[1]])
    expect(await findItems(readonly(), `${word}-i`, { limit: 9, participants: ['other'] })).toEqual([])
    expect(await findItems(readonly(), word.slice(0, 2), { limit: 9 })).toEqual([])
    const paid = await enqueue(db)
    await complete(db, await claimOnly(db, paid.railType), { state: 'DISPATCHED', railReference: `ref-${word}` })
    await project()
    expect(await findItems(readonly(), `ref-${word.slice(0, 20)}`, { limit: 9 })).toEqual([paid.outboxId])
  })

  test('find no items by currency on a rail that later declares its amounts as masked', async () => {
    const { filter, railType } = await three()
    await call(executor(), 'declare_outbox_rail', [railType, true, JSON.stringify({ '/amount': 'masked' }), 'w', true])
    expect((await searchProjected(auditor(), { ...filter, limit: 9 })).ids).toEqual([])
    expect((await countProjected(auditor(), filter)).states.PENDING).toBe(0)
  })

  test('count items per state', async () => {
    const railType = `rail-${randomUUID()}`
    await enqueueUnknown(db, { railType })
    await enqueueFailed(db, { railType })
    const paid = await enqueuePaid(db, { railType })
    const money = { amount: '1', currency: 'EUR', code: 'AC04', reference: 'r-3' }
    await recordOutboxReturn(olga.control, { outboxId: paid.outboxId, ...money })
    await project()
    expect(await countProjected(readonly(), { railType })).toEqual({
      states: { PENDING: 0, HELD: 1, DISPATCHED: 1, FAILED: 1, CANCELLED: 0 },
      returned: 1,
      truncated: false,
    })
    expect((await countProjected(readonly(), { railType, states: ['HELD'] })).states).toMatchObject({
      HELD: 1,
      FAILED: 0,
    })
  })

  test('refuse amounts without a currency; a sort by time in one currency needs an exact amount', async () => {
    const limit = 9
    for (const wrong of [{ amountMin: '1' }, { amountMax: '1' }, { sort: 'largest' } as const]) {
      await expect(searchProjected(auditor(), { ...wrong, limit })).rejects.toMatchObject({ argument: 'currency' })
    }
    await expect(searchProjected(auditor(), { currency: 'EUR', sort: 'newest', limit })).rejects.toMatchObject({
      argument: 'sort',
    })
  })
})

const hash = new DestinationHash('a secret of thirty-two characters')
const hasher = new DestinationHasher(olga.control, hash)
const declare = (railType: string, fields: object) =>
  call(executor(), 'declare_outbox_rail', [railType, true, JSON.stringify(fields), 'w', true])

async function hashAll(): Promise<void> {
  await project()
  while ((await hasher.runOnce()).more);
}

async function paidTo(destination: string): Promise<readonly string[]> {
  const search = { destinationHmac: hash.of(destination), limit: 9 }
  const { ids } = await searchProjected(auditor(), search)
  expect((await searchProjected(auditor(), { ...search, sort: 'oldest' })).ids).toEqual(ids.toReversed())
  return ids
}

async function hashesOf(destination: string): Promise<number> {
  const text = `SELECT 1 FROM payment_search_destinations WHERE destination_hmac = $1`
  return (await db.queryNoRole(text, [hash.of(destination)])).rows.length
}

describe('DestinationHasher', () => {
  test('lets searches ignore case and spaces of a destination, and use filters and pages', async () => {
    const account = `DE89 ${randomUUID()}`
    const railType = `rail-${randomUUID()}`
    await declare(railType, { '/destination': 'masked' })
    const pending = await enqueue(db, { railType, payload: { destination: account, amount: '7', currency: 'XTS' } })
    await enqueue(db, { railType, payload: { destination: 7 } })
    const paid = await enqueuePaid(db, { payload: { destination: account } })
    await declare(paid.railType, {})
    await hashAll()
    expect(await paidTo(account.toLowerCase().replaceAll(' ', ''))).toEqual([paid.outboxId, pending.outboxId])
    expect(await paidTo('another account')).toEqual([])
    const of = { destinationHmac: hash.of(account), limit: 9 }
    const search = async (more: ProjectedFilter) => (await searchProjected(auditor(), { ...of, ...more })).ids
    expect(await search({ railType })).toEqual([pending.outboxId])
    expect(await search({ participants: ['other'] })).toEqual([])
    expect(await search({ currency: 'XTS' })).toEqual([pending.outboxId])
    expect(await search({ createdTo: new Date(0) })).toEqual([])
    const first = await searchProjected(auditor(), { ...of, limit: 1 })
    expect(await searchProjected(auditor(), { ...of, limit: 2, after: first.next! })).toEqual({
      ids: [pending.outboxId],
      next: null,
    })
    expect((await countProjected(auditor(), of)).states).toMatchObject({ PENDING: 1, DISPATCHED: 1 })
    expect(await narrowProjected(auditor(), [pending.outboxId, randomUUID()], of)).toEqual([pending.outboxId])
  })

  test('hashes no encrypted destination; searches skip undeclared and later encrypted rails', async () => {
    const account = randomUUID()
    const payload = { destination: account }
    const [encrypted, later, undeclared] = [`rail-${randomUUID()}`, `rail-${randomUUID()}`, `rail-${randomUUID()}`]
    await declare(encrypted, { '/destination': 'encrypted' })
    await declare(later, {})
    for (const railType of [encrypted, later, undeclared]) await enqueue(db, { railType, payload })
    const sealed = `symphony.sealed.${account}`
    await enqueue(db, { railType: later, payload: { destination: sealed } })
    await hashAll()
    expect([await hashesOf(account), await hashesOf(sealed)]).toEqual([2, 0])
    expect(await paidTo(account)).toHaveLength(1)
    await declare(later, { '/destination': 'encrypted' })
    expect(await paidTo(account)).toEqual([])
  })

  test('hashes each block once, and again after a rebuild; old hashes are purged', async () => {
    await hashAll()
    expect(await hasher.runOnce()).toEqual({ blocks: 0, more: false })
    expect(await readHashing(auditor())).toEqual({ keyName: hash.keyName, blocksBehind: 0n })
    const first = { blockNo: 1n, keyName: hash.keyName, hashes: [] }
    expect(await storeSearchDestinations(olga.control, first)).toBe(false)
    await enqueue(db, { payload: { destination: 'DE75' } })
    await hashAll()
    expect(await hashesOf('DE75')).toBe(1)
    await rebuildLedgerProjection(olga.control)
    expect([await hashesOf('DE75'), (await readHashing(auditor())).keyName]).toEqual([0, null])
    await hashAll()
    expect(await hashesOf('DE75')).toBe(1)
    await db.queryNoRole(
      `INSERT INTO payment_search_destinations VALUES (sha256('old'), uuid_v7_floor(now() - interval '2 days'))`,
    )
    expect(await purgeLedgerProjection(executor(), 86_400, 1_000)).toBe(1)
    expect(await hashesOf('DE75')).toBe(1)
  })

  test('stores nothing with another search key, and reports the wrong key once', async () => {
    await hashAll()
    await enqueue(db, { payload: { destination: 'DE1' } })
    await project()
    const faults: unknown[] = []
    const other = new DestinationHash('another secret of thirty-two bytes')
    const wrong = new DestinationHasher(olga.control, other, ({ error }) => faults.push(error))
    expect(await wrong.runOnce()).toEqual({ blocks: 0, more: false })
    expect(await wrong.runOnce()).toEqual({ blocks: 0, more: false })
    expect(faults).toMatchObject([{ argument: 'searchKey' }])
    const { rows } = await db.queryNoRole<{ next: bigint }>('SELECT hashed_block + 1 AS next FROM ledger_projection')
    const block = { blockNo: rows[0]!.next, hashes: [] }
    expect(await storeSearchDestinations(olga.control, { ...block, keyName: other.keyName })).toBe(false)
    expect(await storeSearchDestinations(olga.control, { ...block, keyName: hash.keyName })).toBe(true)
    expect(() => new DestinationHash('short')).toThrow('32 bytes')
  })
})

test('searchItems lists a held item before and after its block is projected, until its release', async () => {
  const railType = `rail-${randomUUID()}`
  const ids = async () => (await searchItems(readonly(), { state: 'HELD', railType, limit: 9 })).ids
  const { outboxId } = await enqueueHeld(db, olga, { railType })
  expect(await ids()).toEqual([outboxId])
  await project()
  expect(await ids()).toEqual([outboxId])
  const later = await enqueueHeld(db, olga, { railType })
  expect(await ids()).toEqual([later.outboxId, outboxId])
  await resolveOutboxHold(olga.control, outboxId, 'RETRY', 'checked')
  expect(await ids()).toEqual([later.outboxId])
  await project()
  // Makes the item older than the retention time, although it is still held.
  await db.queryNoRole(
    `UPDATE payment_search SET outbox_id = uuid_v7_floor(now() - interval '2 days') WHERE outbox_id = $1`,
    [later.outboxId],
  )
  await purgeLedgerProjection(executor(), 86_400, 1_000)
  const { rows } = await db.queryNoRole(`SELECT state FROM payment_search WHERE rail_type = $1 AND state = 'HELD'`, [
    railType,
  ])
  expect(rows).toEqual([{ state: 'HELD' }])
  await db.queryNoRole(`DELETE FROM payment_search WHERE state = 'HELD' AND rail_type = $1`, [railType])
})

test('purge_ledger_projection deletes only rows past their retention, at most one batch per call', async () => {
  const railType = `rail-${randomUUID()}`
  await enqueue(db, { railType })
  await project()
  await db.queryNoRole(
    `INSERT INTO outbox_series SELECT g.grain, 'old', now() - g.age, $1, false, 1, 0, 0, 0, 0, 0, 0, 0
     FROM (VALUES ('minute', interval '9 days'), ('hour', '101 days'), ('day', '3651 days'), ('minute', '7 days'))
       AS g(grain, age)`,
    [railType],
  )
  await db.queryNoRole(`INSERT INTO outbox_attempt_series SELECT 'minute', $1, now() - interval '9 days', '', 0, 1`, [
    railType,
  ])
  await db.queryNoRole(
    `INSERT INTO outbox_worker_series SELECT now() - age, $1, 'w', 1, 0, 0
     FROM unnest(ARRAY[interval '25 hours', interval '23 hours']) age`,
    [railType],
  )
  await db.queryNoRole(
    `INSERT INTO payment_search (outbox_id, is_message, instruction_id, idempotency_key, participant_id, rail_type, state, returned)
     SELECT uuid_v7_floor(now() - interval '2 days'), false, 'i', 'k', 'old', $1, 'PENDING', false`,
    [railType],
  )
  expect(await purgeLedgerProjection(executor(), 86_400, 2)).toBe(2)
  expect(await purgeLedgerProjection(executor(), 86_400, 1_000)).toBe(4)
  expect(await purgeLedgerProjection(executor(), 86_400, 1_000)).toBe(0)
  const { rows } = await db.queryNoRole(
    `SELECT (SELECT count(*)::int FROM payment_search WHERE rail_type = $1) AS found,
       (SELECT count(*)::int FROM outbox_series WHERE rail_type = $1 AND participant_id = 'old') AS kept,
       (SELECT count(*)::int FROM outbox_worker_series WHERE rail_type = $1) AS "keptOfWorkers"`,
    [railType],
  )
  expect(rows).toEqual([{ found: 1, kept: 1, keptOfWorkers: 1 }])
})

/** Returns the content of the projected tables, as text. */
async function tables(): Promise<Record<string, string>> {
  const texts: Record<string, string> = {}
  for (const table of ['payment_search', 'outbox_series', 'outbox_attempt_series', 'outbox_worker_series']) {
    const { rows } = await db.queryNoRole<{ text: string }>(
      `SELECT COALESCE(string_agg(t::text, E'\\n' ORDER BY t::text COLLATE "C"), '') AS text FROM ${table} t`,
    )
    texts[table] = rows[0]!.text
  }
  return texts
}

function sum(points: readonly object[]): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const point of points) {
    for (const [name, value] of Object.entries(point)) {
      if (typeof value === 'number') sums[name] = (sums[name] ?? 0) + value
    }
  }
  return sums
}
