import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { ArgumentRangeError, InvalidArgumentError } from '../../libs/core/index.js'
import {
  acquireLease,
  readLeases,
  releaseLease,
  purgeIdleLeases,
  renewLease,
  type LeaseRef,
} from '../../libs/lease/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildResource, expireResource, leaseRow } from '../support/leaseRows.js'
import { failureOf, openConnection } from '../support/race.js'

/** Tests of the SQL functions through their wrappers, without a `Lease`. */

const db = await useTestDatabase()

const executor = () => db.as('symphony_executor')
const OWNER = 'owner-1'
const HOUR_SECONDS = 3_600

interface Held extends LeaseRef {
  readonly fencingToken: bigint
}

async function hold(resource = buildResource(), durationMs = 60_000): Promise<Held> {
  const grant = await acquireLease(executor(), { resource, owner: OWNER, durationMs })
  if (grant === null) throw new Error(`${resource} is held by another`)
  return { resource, owner: OWNER, leaseId: grant.leaseId, fencingToken: grant.fencingToken }
}

describe('the fencing of a lease', () => {
  test.each<[string, (claim: Held) => LeaseRef]>([
    ['another owner', (claim) => ({ ...claim, owner: 'another' })],
    ['an owner in another case', (claim) => ({ ...claim, owner: OWNER.toUpperCase() })],
    ['another lease id', (claim) => ({ ...claim, leaseId: randomUUID() })],
    ['another resource', (claim) => ({ ...claim, resource: buildResource() })],
  ])('PRIM-POSTGRES-LEASE-004 prevents renewal and release with %s', async (_what, forge) => {
    const claim = await hold()
    const before = await leaseRow(db, claim.resource)
    expect(await renewLease(executor(), forge(claim), 60_000)).toBeNull()
    expect(await releaseLease(executor(), forge(claim))).toBe(false)
    expect(await leaseRow(db, claim.resource)).toEqual(before)
    expect(await renewLease(executor(), claim, 60_000)).toMatchObject({ fencingToken: claim.fencingToken + 1n })
  })

  test('PRIM-POSTGRES-LEASE-004 prevents renewal and release with an earlier lease id of the owner', async () => {
    const stale = await hold()
    const claim = await hold(stale.resource)
    expect(await renewLease(executor(), stale, 60_000)).toBeNull()
    expect(await releaseLease(executor(), stale)).toBe(false)
    expect(await releaseLease(executor(), claim)).toBe(true)
    expect(await releaseLease(executor(), claim)).toBe(false)
    expect(await renewLease(executor(), claim, 60_000)).toBeNull()
  })

  test('prevents renewal and release of an expired lease, even without a new holder', async () => {
    const claim = await hold()
    await expireResource(db, claim.resource)
    const before = await leaseRow(db, claim.resource)
    expect(await renewLease(executor(), claim, 60_000)).toBeNull()
    expect(await releaseLease(executor(), claim)).toBe(false)
    expect(await leaseRow(db, claim.resource)).toEqual(before)
  })

  test('hides the lease id from control, auditor, readonly and executor (42501)', async () => {
    const { resource } = await hold()
    for (const role of ['symphony_control', 'symphony_auditor', 'symphony_readonly', 'symphony_executor']) {
      const read = db.as(role).query(`SELECT lease_id FROM ${db.qualify('symphony_leases')}`)
      expect(await failureOf(read)).toMatchObject({ sqlstate: '42501' })
    }
    expect(await acquireLease(executor(), { resource, owner: 'curious', durationMs: 60_000 })).toBeNull()
  })
})

describe('lease functions in a transaction', () => {
  test('acquire a lease that expired after the transaction began', async () => {
    const claim = await hold()
    const later = await executor().transaction(async (tx) => {
      const { rows } = await tx.query<{ began: Date }>('SELECT now() AS began')
      await db.queryNoRole(
        `UPDATE symphony_leases SET expires_at = clock_timestamp() WHERE resource = $1 AND $2::timestamptz < clock_timestamp()`,
        [claim.resource, rows[0]!.began],
      )
      return acquireLease(tx, { resource: claim.resource, owner: 'another', durationMs: 60_000 })
    })
    expect(later).toMatchObject({ fencingToken: claim.fencingToken + 1n })
    const { rows } = await db.queryNoRole(
      `SELECT expires_at - acquired_at = interval '60 seconds' AS whole FROM symphony_leases WHERE resource = $1`,
      [claim.resource],
    )
    expect(rows).toEqual([{ whole: true }])
  })

  test('neither renew nor release a lease that expired after the transaction began', async () => {
    const claim = await hold()
    await executor().transaction(async (tx) => {
      await tx.query('SELECT 1')
      await db.queryNoRole('UPDATE symphony_leases SET expires_at = clock_timestamp() WHERE resource = $1', [
        claim.resource,
      ])
      expect(await renewLease(tx, claim, 60_000)).toBeNull()
      expect(await releaseLease(tx, claim)).toBe(false)
    })
  })

  test('raise 40001 under REPEATABLE READ and SERIALIZABLE', async () => {
    const claim = await hold()
    const before = await leaseRow(db, claim.resource)
    const connection = await openConnection(db, 'symphony_executor')
    for (const level of ['REPEATABLE READ', 'SERIALIZABLE']) {
      for (const call of [
        () => acquireLease(connection, { resource: claim.resource, owner: 'another', durationMs: 60_000 }),
        () => renewLease(connection, claim, 60_000),
        () => releaseLease(connection, claim),
        () => purgeIdleLeases(connection, HOUR_SECONDS, 10),
      ]) {
        await connection.query(`BEGIN ISOLATION LEVEL ${level}`)
        expect(await failureOf(call())).toMatchObject({ sqlstate: '40001', disposition: 'retry' })
        await connection.query('ROLLBACK')
      }
    }
    expect(await leaseRow(db, claim.resource)).toEqual(before)
  })

  test('leave the resource and its token unchanged if the transaction rolls back', async () => {
    const resource = buildResource()
    const undone = new Error('undone')
    let spent: bigint | undefined
    const attempt = executor().transaction(async (tx) => {
      spent = (await acquireLease(tx, { resource, owner: 'a', durationMs: 60_000 }))?.fencingToken
      throw undone
    })
    expect(await failureOf(attempt)).toBe(undone)
    const grant = await acquireLease(executor(), { resource, owner: 'b', durationMs: 60_000 })
    expect(grant?.fencingToken).toBe(spent)
  })
})

describe('purgeIdleLeases', () => {
  test('removes only leases that were idle for the given time', async () => {
    const [held, expired, released, longExpired, longReleased] = await Promise.all(
      Array.from({ length: 5 }, () => hold()),
    )
    for (const claim of [released!, longReleased!]) await releaseLease(executor(), claim)
    await expireResource(db, expired!.resource, '59 minutes')
    await expireResource(db, released!.resource, '59 minutes')
    await expireResource(db, longExpired!.resource, '61 minutes')
    await expireResource(db, longReleased!.resource, '61 minutes')
    expect(await purgeIdleLeases(executor(), HOUR_SECONDS, 1_000)).toBe(2)
    const { rows } = await db.queryNoRole('SELECT resource FROM symphony_leases WHERE resource = ANY ($1)', [
      [held, expired, released, longExpired, longReleased].map((claim) => claim!.resource),
    ])
    expect(new Set(rows.map(({ resource }) => resource))).toEqual(
      new Set([held!.resource, expired!.resource, released!.resource]),
    )
  })

  test('does not restart the fencing tokens of a removed resource', async () => {
    const claim = await hold()
    for (let turn = 0; turn < 20; turn += 1) await renewLease(executor(), claim, 60_000)
    const { fencing_token: last } = await leaseRow(db, claim.resource)
    await expireResource(db, claim.resource, '2 hours')
    expect(await purgeIdleLeases(executor(), HOUR_SECONDS, 1_000)).toBe(1)
    expect((await hold(claim.resource)).fencingToken).toBeGreaterThan(last)
  })

  test('never lowers the minimum for later fencing tokens', async () => {
    const floor = async () =>
      (await db.queryNoRole<{ fencing_token: bigint }>('SELECT fencing_token FROM symphony_lease_floor')).rows[0]!
    const [little, much] = [await hold(), await hold()]
    for (let turn = 0; turn < 5; turn += 1) await renewLease(executor(), much, 60_000)
    await expireResource(db, much.resource, '2 hours')
    await purgeIdleLeases(executor(), HOUR_SECONDS, 1_000)
    const before = await floor()
    await expireResource(db, little.resource, '2 hours')
    expect(await purgeIdleLeases(executor(), HOUR_SECONDS, 1_000)).toBe(1)
    expect(await floor()).toEqual(before)
  })

  test('removes at most one batch', async () => {
    for (const claim of [await hold(), await hold(), await hold()]) await expireResource(db, claim.resource, '2 hours')
    expect(await purgeIdleLeases(executor(), HOUR_SECONDS, 2)).toBe(2)
    expect(await purgeIdleLeases(executor(), HOUR_SECONDS, 2)).toBe(1)
    expect(await purgeIdleLeases(executor(), HOUR_SECONDS, 2)).toBe(0)
  })
})

describe('readLeases', () => {
  test.each(['symphony_readonly', 'symphony_auditor', 'symphony_control'])(
    'shows owner, state and token of each lease to %s, and released leases only on request',
    async (role) => {
      const [held, expired, released] = [await hold(), await hold(), await hold()]
      await expireResource(db, expired.resource)
      await releaseLease(executor(), released)
      const read = async (all: boolean) => {
        const statuses = await readLeases(db.as(role), { released: all })
        return new Map(
          statuses.map(({ resource, state, owner, fencingToken }) => [resource, [state, owner, fencingToken]]),
        )
      }
      const all = await read(true)
      expect(all.get(held.resource)).toEqual(['HELD', OWNER, held.fencingToken])
      expect(all.get(expired.resource)).toEqual(['EXPIRED', OWNER, expired.fencingToken])
      expect(all.get(released.resource)).toEqual(['RELEASED', OWNER, released.fencingToken])
      const current = await read(false)
      expect([current.has(held.resource), current.has(expired.resource), current.has(released.resource)]).toEqual([
        true,
        true,
        false,
      ])
      expect([...current.keys()]).toEqual([...current.keys()].toSorted())
    },
  )

  test('returns at most limit leases', async () => {
    await Promise.all([hold(), hold()])
    expect(await readLeases(db.as('symphony_readonly'), { limit: 1 })).toHaveLength(1)
  })
})

test.each<[string, () => Promise<unknown>, Function, string]>([
  [
    'an invalid lease id',
    () => renewLease(executor(), claimWith({ leaseId: 'x' }), 60_000),
    InvalidArgumentError,
    'leaseId',
  ],
  ['a blank owner', () => releaseLease(executor(), claimWith({ owner: ' ' })), InvalidArgumentError, 'owner'],
  ['a blank resource', () => releaseLease(executor(), claimWith({ resource: '' })), InvalidArgumentError, 'resource'],
  ['a duration of 0', () => renewLease(executor(), claimWith({}), 0), ArgumentRangeError, 'durationMs'],
  ['a batch of 0', () => purgeIdleLeases(executor(), HOUR_SECONDS, 0), ArgumentRangeError, 'batchSize'],
  ['an idle time below an hour', () => purgeIdleLeases(executor(), 3_599, 1), ArgumentRangeError, 'idleSeconds'],
  ['a limit of 1001', () => readLeases(db.as('symphony_readonly'), { limit: 1_001 }), ArgumentRangeError, 'limit'],
])('a lease function refuses %s and names the argument', async (_what, call, kind, argument) => {
  const error = await failureOf(call())
  expect(error).toBeInstanceOf(kind)
  expect(error).toMatchObject({ argument })
})

function claimWith(part: Partial<LeaseRef>): LeaseRef {
  return { resource: 'r', owner: 'o', leaseId: randomUUID(), ...part }
}
