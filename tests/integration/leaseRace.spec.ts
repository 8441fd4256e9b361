import { describe, expect, test } from 'vitest'
import { acquireLease, Leases, purgeIdleLeases, renewLease, releaseLease } from '../../libs/lease/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildResource, expireResource, leaseRow, LONG } from '../support/leaseRows.js'
import { openConnection, race, untilWaiting } from '../support/race.js'

const db = await useTestDatabase()

const executor = () => db.as('symphony_executor')
const HOUR_SECONDS = 3_600

describe('calls on one lease', () => {
  test('PRIM-POSTGRES-LEASE-002 one of 100 acquires of a new resource wins; 99 return null', async () => {
    const resource = buildResource()
    const { values, errors } = await race(db, 'symphony_executor', 100, async (connection) => {
      const lease = await new Leases(connection).acquire(resource, LONG)
      return lease?.fencingToken ?? null
    })
    expect(errors).toEqual([])
    expect(values.filter((token) => token !== null)).toEqual([1n])
    expect(values).toHaveLength(100)
  })

  test('PRIM-POSTGRES-LEASE-002 one of 100 acquires of an expired lease wins', async () => {
    const resource = buildResource()
    await acquireLease(executor(), { resource, owner: 'late', ...LONG })
    await expireResource(db, resource)
    // Locks the row, so that all callers wait for it inside the function.
    const rowLock = await openConnection(db)
    await rowLock.query('BEGIN')
    await rowLock.query('SELECT FROM symphony_leases WHERE resource = $1 FOR UPDATE', [resource])
    const { values, errors } = await race(
      db,
      'symphony_executor',
      100,
      (connection, index) => acquireLease(connection, { resource, owner: `racer-${index}`, ...LONG }),
      { releaseWhenAllWait: () => rowLock.query('COMMIT') },
    )
    expect(errors).toEqual([])
    expect(values.flatMap((grant) => (grant === null ? [] : [grant.fencingToken]))).toEqual([2n])
    expect((await leaseRow(db, resource)).owner).toMatch(/^racer-/)
  })

  test('an expired lease can be neither renewed nor released, only acquired again', async () => {
    const resource = buildResource()
    const grant = await acquireLease(executor(), { resource, owner: 'late', ...LONG })
    await expireResource(db, resource)
    const claim = { resource, owner: 'late', leaseId: grant!.leaseId }
    const { values, errors } = await race(db, 'symphony_executor', 3, async (connection, index) => {
      if (index === 0) return (await renewLease(connection, claim, 60_000)) === null ? 'lost' : 'renewed'
      if (index === 1) return (await releaseLease(connection, claim)) ? 'released' : 'lost'
      return (await acquireLease(connection, { resource, owner: 'successor', ...LONG })) === null ? 'lost' : 'taken'
    })
    expect({ values, errors }).toEqual({ values: ['lost', 'lost', 'taken'], errors: [] })
  })
})

test.each(['renewed', 'released'])(
  'a lease that expires while its holder waits for the row lock is not %s',
  async (verb) => {
    const resource = buildResource()
    const grant = await acquireLease(executor(), { resource, owner: 'o', ...LONG })
    const claim = { resource, owner: 'o', leaseId: grant!.leaseId }
    // The lease expires in 300 ms, while the lock below makes the call wait. The lock itself changes nothing in the
    // row.
    await db.queryNoRole(
      `UPDATE symphony_leases SET expires_at = clock_timestamp() + interval '300 milliseconds' WHERE resource = $1`,
      [resource],
    )
    const blocker = await openConnection(db)
    await blocker.query('BEGIN')
    await blocker.query('SELECT FROM symphony_leases WHERE resource = $1 FOR UPDATE', [resource])
    const waiting = await openConnection(db, 'symphony_executor')
    const attempt = verb === 'renewed' ? renewLease(waiting, claim, 60_000) : releaseLease(waiting, claim)
    await untilWaiting(db, waiting)
    await expect
      .poll(async () => {
        const { rows } = await db.queryNoRole<{ ended: boolean }>(
          'SELECT expires_at < clock_timestamp() AS ended FROM symphony_leases WHERE resource = $1',
          [resource],
        )
        return rows[0]?.ended
      })
      .toBe(true)
    await blocker.query('COMMIT')
    expect(await attempt).toBe(verb === 'renewed' ? null : false)
  },
)

describe('purgeIdleLeases during an acquire', () => {
  test('makes an acquire of the purged resource wait; its fencing tokens still grow', async () => {
    const { resource, lastToken } = await deadResource()
    const remover = await openConnection(db, 'symphony_executor')
    await remover.query('BEGIN')
    expect(await purgeIdleLeases(remover, HOUR_SECONDS, 1_000)).toBe(1)
    const asking = await openConnection(db, 'symphony_executor')
    const attempt = acquireLease(asking, { resource, owner: 'successor', ...LONG })
    await untilWaiting(db, asking)
    await remover.query('COMMIT')
    expect((await attempt)?.fencingToken).toBeGreaterThan(lastToken)
  })

  test('waits for an open acquire of a new resource, and locks no row until then', async () => {
    const { resource, lastToken } = await deadResource()
    const asking = await openConnection(db, 'symphony_executor')
    await asking.query('BEGIN')
    await acquireLease(asking, { resource: buildResource(), owner: 'newcomer', ...LONG })
    const remover = await openConnection(db, 'symphony_executor')
    const removal = purgeIdleLeases(remover, HOUR_SECONDS, 1_000)
    await untilWaiting(db, remover)
    const grant = await acquireLease(executor(), { resource, owner: 'successor', ...LONG })
    expect(grant?.fencingToken).toBe(lastToken + 1n)
    await asking.query('COMMIT')
    expect(await removal).toBe(0)
  })

  test('skips a resource that is being acquired, without waiting', async () => {
    const { resource, lastToken } = await deadResource()
    const asking = await openConnection(db, 'symphony_executor')
    await asking.query('BEGIN')
    const grant = await acquireLease(asking, { resource, owner: 'successor', ...LONG })
    expect(await purgeIdleLeases(executor(), HOUR_SECONDS, 1_000)).toBe(0)
    await asking.query('COMMIT')
    expect(grant?.fencingToken).toBe(lastToken + 1n)
    expect(await leaseRow(db, resource)).toMatchObject({ owner: 'successor' })
  })
})

/** Creates a resource that was renewed five times and expired two hours ago. */
async function deadResource(): Promise<{ resource: string; lastToken: bigint }> {
  const resource = buildResource()
  const grant = await acquireLease(executor(), { resource, owner: 'gone', ...LONG })
  const claim = { resource, owner: 'gone', leaseId: grant!.leaseId }
  for (let turn = 0; turn < 5; turn += 1) await renewLease(executor(), claim, 60_000)
  const { fencing_token: lastToken } = await leaseRow(db, resource)
  await expireResource(db, resource, '2 hours')
  return { resource, lastToken }
}
