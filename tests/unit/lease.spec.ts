import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { ArgumentRangeError, InvalidArgumentError, type Clock } from '../../libs/core/index.js'
import { DatabaseClosedError, openDatabase } from '../../libs/db/index.js'
import { Leases, LostLeaseError, type AcquireOptions, type Lease, type LeaseEvent } from '../../libs/lease/index.js'
import { useTestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { buildResource, expireResource, leaseRow, LIVELY, LONG } from '../support/leaseRows.js'
import { failureOf } from '../support/race.js'

const db = await useTestDatabase()
let leases: Leases
beforeAll(async () => {
  leases = new Leases(db.as('symphony_executor'))
})

/** Acquires a lease that is released when the test ends. */
async function acquire(resource: string, options: Partial<AcquireOptions> = {}, from = leases): Promise<Lease> {
  const lease = await from.acquire(resource, { ...LONG, ...options })
  if (lease === null) throw new Error(`${resource} is held by another`)
  onTestFinished(() => lease[Symbol.asyncDispose]())
  return lease
}

/** System clock that a test can move. */
function movableClock(): Clock & { moveMs: number } {
  return {
    moveMs: 0,
    now: () => new Date(),
    monotonicMs() {
      return Math.floor(performance.now()) + this.moveMs
    },
  }
}

describe('Leases.close', () => {
  test('releases each held lease, and acquire() then fails with DATABASE_CLOSED', async () => {
    const own = new Leases(db.as('symphony_executor'))
    const held = [await acquire(buildResource(), {}, own), await acquire(buildResource(), {}, own)]
    await Promise.all([own.close(), own.close()])
    expect(held.map(({ isLost }) => isLost)).toEqual([true, true])
    for (const { resource } of held)
      expect(await leaseRow(db, resource)).toMatchObject({ released_at: expect.any(Date) })
    await expect(own.acquire(buildResource(), LONG)).rejects.toMatchObject({ code: 'DATABASE_CLOSED' })
  })

  test('releases a lease whose acquire() is answered meanwhile', async () => {
    const own = new Leases(db.as('symphony_executor'))
    const resource = buildResource()
    const acquiring = own.acquire(resource, LONG).catch((error: unknown) => error)
    await own.close()
    expect(await acquiring).toMatchObject({ code: 'DATABASE_CLOSED' })
    expect(await leaseRow(db, resource)).toMatchObject({ released_at: expect.any(Date) })
  })

  test('ends runAsLeader with DATABASE_CLOSED, and aborts the signal of its function', async () => {
    const own = new Leases(db.as('symphony_executor'))
    const { opened, open } = gate()
    const leading = own.runAsLeader(buildResource(), async ({ signal }) => {
      open()
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    })
    const outcome = leading.catch((error: unknown) => error)
    await opened
    await own.close()
    expect(await outcome).toMatchObject({ code: 'DATABASE_CLOSED' })
  })
})

describe('Leases.acquire', () => {
  test('PRIM-POSTGRES-LEASE-001 succeeds on a free resource, with a valid token', async () => {
    const resource = buildResource()
    const lease = await acquire(resource, { durationMs: 90_000, owner: 'owner-1', context: { host: 'a' } })
    expect(lease).toMatchObject({ resource, owner: 'owner-1', fencingToken: 1n, isLost: false })
    expect(lease.signal.aborted).toBe(false)
    const row = await leaseRow(db, resource)
    expect(row).toMatchObject({ owner: 'owner-1', fencing_token: 1n, released_at: null, context: { host: 'a' } })
    expect({ acquiredAt: row.acquired_at, expiresAt: row.expires_at }).toEqual({
      acquiredAt: lease.acquiredAt,
      expiresAt: lease.expiresAt,
    })
    expect(row.expires_at.getTime() - row.acquired_at.getTime()).toBe(90_000)
    expect(row.renewed_at).toEqual(row.acquired_at)
  })

  test('PRIM-POSTGRES-LEASE-001 numbers the fencing tokens of each resource separately', async () => {
    const [one, other] = [await acquire(buildResource()), await acquire(buildResource())]
    expect([one.fencingToken, other.fencingToken]).toEqual([1n, 1n])
    expect(await one.tryRenewNow()).toBe(true)
    expect([one.fencingToken, other.fencingToken]).toEqual([2n, 1n])
  })

  test.each<[string, unknown, unknown, Function, string]>([
    ['a blank resource', '   ', LONG, InvalidArgumentError, 'resource'],
    ['an empty resource', '', LONG, InvalidArgumentError, 'resource'],
    ['no resource', undefined, LONG, InvalidArgumentError, 'resource'],
    ['a resource of 129 characters', 'x'.repeat(129), LONG, ArgumentRangeError, 'resource'],
    ['a blank owner', 'r', { ...LONG, owner: ' ' }, InvalidArgumentError, 'owner'],
    ['no duration', 'r', {}, InvalidArgumentError, 'durationMs'],
    ['a duration of 0', 'r', { durationMs: 0 }, ArgumentRangeError, 'durationMs'],
    ['a negative duration', 'r', { durationMs: -1 }, ArgumentRangeError, 'durationMs'],
    ['a duration below the minimum', 'r', { durationMs: 999 }, ArgumentRangeError, 'durationMs'],
    ['a duration above the maximum', 'r', { durationMs: 3_600_001 }, ArgumentRangeError, 'durationMs'],
    ['a fraction', 'r', { durationMs: 1_000.5 }, ArgumentRangeError, 'durationMs'],
    ['NaN', 'r', { durationMs: Number.NaN }, ArgumentRangeError, 'durationMs'],
    ['renewals too seldom', 'r', { durationMs: 10_000, renewEveryMs: 5_001 }, ArgumentRangeError, 'renewEveryMs'],
    ['renewals too often', 'r', { durationMs: 10_000, renewEveryMs: 99 }, ArgumentRangeError, 'renewEveryMs'],
    ['a context that is no object', 'r', { ...LONG, context: [] }, InvalidArgumentError, 'context'],
    ['a misspelt option', 'r', { ...LONG, renewEveryMS: 500 }, InvalidArgumentError, '"renewEveryMS"'],
  ])('PRIM-POSTGRES-LEASE-001 refuses %s before any I/O', async (_what, resource, options, kind, argument) => {
    // Any I/O would fail with DATABASE_CLOSED.
    const database = openDatabase({ url: db.url })
    await database.close()
    const closed = new Leases(database.as('symphony_executor'))
    const attempt = Reflect.apply(closed.acquire.bind(closed), undefined, [resource, options])
    const error = await failureOf(attempt)
    expect(error).toBeInstanceOf(kind)
    expect(error).toMatchObject({ argument })
    expect(await failureOf(closed.acquire('r', LONG))).toBeInstanceOf(DatabaseClosedError)
  })

  test('accepts the minimum and the maximum duration', async () => {
    for (const durationMs of [1_000, 3_600_000]) {
      const lease = await leases.acquire(buildResource(), { durationMs })
      expect(lease!.expiresAt.getTime() - lease!.acquiredAt.getTime()).toBe(durationMs)
      await lease!.release()
    }
  })

  test('PRIM-POSTGRES-LEASE-002 returns null while the resource is held, and changes nothing', async () => {
    const resource = buildResource()
    const lease = await acquire(resource)
    const before = await leaseRow(db, resource)
    expect(await leases.acquire(resource, LONG)).toBeNull()
    expect(await leases.acquire(resource, { ...LONG, owner: 'another' })).toBeNull()
    expect(await leaseRow(db, resource)).toEqual(before)
    expect(lease.isLost).toBe(false)
  })

  test('PRIM-POSTGRES-LEASE-010 reacquires an expired lease for a new owner, with a greater token', async () => {
    const resource = buildResource()
    const first = await acquire(resource, { owner: 'first' })
    await expireResource(db, resource)
    const second = await acquire(resource, { owner: 'second' })
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken)
    expect(await first.tryRenewNow()).toBe(false)
    expect(second.isLost).toBe(false)
    expect(await leaseRow(db, resource)).toMatchObject({ owner: 'second', fencing_token: second.fencingToken })
  })

  test('PRIM-POSTGRES-LEASE-010 does not reacquire a lease that has not expired', async () => {
    const resource = buildResource()
    await acquire(resource)
    await expireResource(db, resource, '-5 minutes')
    expect(await leases.acquire(resource, LONG)).toBeNull()
  })

  test('ends an earlier lease of the same owner at once (reason superseded)', async () => {
    const resource = buildResource()
    const old = await acquire(resource, { owner: 'same' })
    const anew = await acquire(resource, { owner: 'same' })
    expect(anew.fencingToken).toBeGreaterThan(old.fencingToken)
    expect(old.signal.reason).toMatchObject({ code: 'LOST_LEASE', reason: 'superseded' })
    expect(await old.release()).toBe(false)
    expect(await anew.tryRenewNow()).toBe(true)
  })

  test('ends a lease that the same owner got from another Leases object; its next renewal fails', async () => {
    const resource = buildResource()
    const old = await acquire(resource, { owner: 'same' })
    const elsewhere = new Leases(db.as('symphony_executor'))
    const anew = await acquire(resource, { owner: 'same' }, elsewhere)
    expect(await old.tryRenewNow()).toBe(false)
    expect(old.signal.reason).toMatchObject({ reason: 'refused' })
    expect(await anew.tryRenewNow()).toBe(true)
  })

  test('leaves only the newest lease held after eight concurrent calls of one owner', async () => {
    const resource = buildResource()
    const calls = Array.from({ length: 8 }, () => leases.acquire(resource, { ...LONG, owner: 'same' }))
    const given = (await Promise.all(calls)).filter((lease) => lease !== null)
    const held = given.filter((lease) => !lease.isLost)
    expect(held.map((lease) => lease.fencingToken)).toEqual([8n])
    await held[0]!.release()
  })

  test('returns null and releases the lease if the answer arrives shortly before its expiry', async () => {
    const resource = buildResource()
    const clock = movableClock()
    const executor = db.as('symphony_executor')
    const slow = new Leases(
      {
        schema: executor.schema,
        query: async (text, values) => {
          const answer = await executor.query<never>(text, values)
          clock.moveMs += 9_000
          return answer
        },
      },
      { clock },
    )
    expect(await slow.acquire(resource, { durationMs: 10_000 })).toBeNull()
    await expect.poll(async () => (await leaseRow(db, resource)).lease_id).toBeNull()
  })
})

describe('renewal of a lease', () => {
  test('PRIM-POSTGRES-LEASE-003 extends the lease (tryRenewNow)', async () => {
    const resource = buildResource()
    const lease = await acquire(resource, { durationMs: 60_000 })
    // Leaves ten seconds of the lease.
    await expireResource(db, resource, '-10 seconds')
    const before = await leaseRow(db, resource)
    expect(await lease.tryRenewNow()).toBe(true)
    const after = await leaseRow(db, resource)
    expect(after.expires_at.getTime()).toBeGreaterThan(before.expires_at.getTime() + 40_000)
    expect(after.expires_at.getTime() - after.renewed_at.getTime()).toBe(60_000)
    expect(lease.expiresAt).toEqual(after.expires_at)
    expect({ ...after, expires_at: 0, renewed_at: 0, fencing_token: 0 }).toEqual({
      ...before,
      expires_at: 0,
      renewed_at: 0,
      fencing_token: 0,
    })
  })

  test('PRIM-POSTGRES-LEASE-003 extends the deadline that the process itself watches (tryRenewNow)', async () => {
    const clock = movableClock()
    const lease = await acquire(buildResource(), {}, new Leases(db.as('symphony_executor'), { clock }))
    clock.moveMs = 500_000
    expect(await lease.tryRenewNow()).toBe(true)
    clock.moveMs = 1_000_000
    expect(lease.isLost).toBe(false)
    clock.moveMs = 1_100_000
    expect(lease.isLost).toBe(true)
  })

  test('never shortens a lease that already lasts longer', async () => {
    const resource = buildResource()
    const lease = await acquire(resource)
    await expireResource(db, resource, '-1 hour')
    const { expires_at: until } = await leaseRow(db, resource)
    expect(await lease.tryRenewNow()).toBe(true)
    expect((await leaseRow(db, resource)).expires_at).toEqual(until)
  })

  test('PRIM-POSTGRES-LEASE-005 increments the token (tryRenewNow)', async () => {
    const resource = buildResource()
    const lease = await acquire(resource)
    const tokens = [lease.fencingToken]
    for (let turn = 0; turn < 3; turn += 1) {
      await lease.tryRenewNow()
      tokens.push(lease.fencingToken)
    }
    expect(tokens).toEqual([1n, 2n, 3n, 4n])
    expect((await leaseRow(db, resource)).fencing_token).toBe(4n)
  })

  test('PRIM-POSTGRES-LEASE-005 increments the token (automatic renewal)', async () => {
    const lease = await acquire(buildResource(), LIVELY)
    await expect.poll(() => lease.fencingToken).toBeGreaterThan(1n)
    expect(lease.isLost).toBe(false)
  })

  test('throws if the database refuses it (42501), and the lease stays held', async () => {
    const resource = buildResource()
    const lease = await acquire(resource)
    await db.queryNoRole('REVOKE EXECUTE ON FUNCTION renew_lease FROM symphony_executor')
    const refusal = await failureOf(lease.tryRenewNow())
    await db.queryNoRole('GRANT EXECUTE ON FUNCTION renew_lease TO symphony_executor')
    expect(refusal).toMatchObject({ sqlstate: '42501' })
    expect(lease.isLost).toBe(false)
    expect(await lease.tryRenewNow()).toBe(true)
  })
})

describe('loss of a lease', () => {
  test('PRIM-POSTGRES-LEASE-006 aborts the signal when an automatic renewal is refused', async () => {
    const resource = buildResource()
    const events: LeaseEvent[] = []
    const observed = new Leases(db.as('symphony_executor'), { onEvent: (event) => events.push(event) })
    const lease = await acquire(resource, { ...LIVELY, owner: 'loser' }, observed)
    await expireResource(db, resource)
    await expect.poll(() => lease.signal.aborted).toBe(true)
    expect(lease.signal.reason).toBeInstanceOf(LostLeaseError)
    expect(lease.signal.reason).toMatchObject({ code: 'LOST_LEASE', resource, reason: 'refused' })
    expect(events).toContainEqual({ type: 'lease.ended', resource, owner: 'loser', reason: 'refused' })
    // The lost lease is not renewed again.
    expect((await leaseRow(db, resource)).fencing_token).toBe(lease.fencingToken)
  })

  test('PRIM-POSTGRES-LEASE-007 makes throwIfLost throw LostLeaseError', async () => {
    const resource = buildResource()
    const lease = await acquire(resource)
    expect(() => lease.throwIfLost()).not.toThrow()
    await lease.tryRenewNow()
    expect(() => lease.throwIfLost()).not.toThrow()
    await expireResource(db, resource)
    await lease.tryRenewNow()
    expect(() => lease.throwIfLost()).toThrow(LostLeaseError)
    expect(() => lease.throwIfLost()).toThrow(lease.signal.reason)
  })

  test('PRIM-POSTGRES-LEASE-007 makes throwIfLost throw after the local deadline, with no timer', async () => {
    const clock = movableClock()
    const lease = await acquire(buildResource(), {}, new Leases(db.as('symphony_executor'), { clock }))
    clock.moveMs = 585_000
    expect(() => lease.throwIfLost()).not.toThrow()
    // The local clock is now ten seconds before the expiry in the database.
    clock.moveMs = 590_000
    expect(() => lease.throwIfLost()).toThrow('could not be renewed in time')
    expect(lease.signal.aborted).toBe(true)
    clock.moveMs = 0
    expect(() => lease.throwIfLost()).toThrow(LostLeaseError)
  })

  test('PRIM-POSTGRES-LEASE-008 makes tryRenewNow return false and change nothing', async () => {
    const resource = buildResource()
    const lease = await acquire(resource)
    await expireResource(db, resource)
    const before = await leaseRow(db, resource)
    expect(await lease.tryRenewNow()).toBe(false)
    expect(await lease.tryRenewNow()).toBe(false)
    expect(await leaseRow(db, resource)).toEqual(before)
    expect(lease.fencingToken).toBe(1n)
  })

  test('PRIM-POSTGRES-LEASE-008 makes tryRenewNow return false if only the local deadline passed', async () => {
    const resource = buildResource()
    const clock = movableClock()
    const lease = await acquire(resource, {}, new Leases(db.as('symphony_executor'), { clock }))
    clock.moveMs = 590_000
    expect(await lease.tryRenewNow()).toBe(false)
    expect(await leaseRow(db, resource)).toMatchObject({ fencing_token: 1n, released_at: null })
  })

  test('PRIM-POSTGRES-LEASE-008 makes tryRenewNow return false after a release of the lease', async () => {
    const lease = await acquire(buildResource())
    await lease.release()
    expect(await lease.tryRenewNow()).toBe(false)
  })
})

describe('release of a lease', () => {
  test('PRIM-POSTGRES-LEASE-009 happens on dispose, and allows reacquisition with a greater token', async () => {
    const resource = buildResource()
    {
      await using lease = await leases.acquire(resource, LONG)
      expect(lease?.fencingToken).toBe(1n)
    }
    expect(await leaseRow(db, resource)).toMatchObject({ lease_id: null, fencing_token: 1n })
    expect((await acquire(resource)).fencingToken).toBe(2n)
  })

  test('PRIM-POSTGRES-LEASE-009 has no effect if it is repeated', async () => {
    const resource = buildResource()
    const lease = await acquire(resource)
    expect(await Promise.all([lease.release(), lease.release()])).toEqual([true, true])
    await lease[Symbol.asyncDispose]()
    const successor = await acquire(resource)
    await lease[Symbol.asyncDispose]()
    expect(await successor.tryRenewNow()).toBe(true)
  })

  test.each(['expired and taken by another', 'taken by the same owner'])(
    'PRIM-POSTGRES-LEASE-009 does not affect the new lease if the old one was %s',
    async (how) => {
      const resource = buildResource()
      const stale = await acquire(resource, { owner: 'stale' })
      if (how.startsWith('expired')) await expireResource(db, resource)
      const owner = how.startsWith('expired') ? 'successor' : 'stale'
      const successor = await acquire(resource, { owner }, new Leases(db.as('symphony_executor')))
      const before = await leaseRow(db, resource)
      await stale[Symbol.asyncDispose]()
      expect(await leaseRow(db, resource)).toEqual(before)
      expect(await successor.tryRenewNow()).toBe(true)
    },
  )

  test('aborts the signal before the database answers', async () => {
    const lease = await acquire(buildResource())
    const releasing = lease.release()
    expect(lease.signal.reason).toMatchObject({ reason: 'released' })
    expect(() => lease.throwIfLost()).toThrow(LostLeaseError)
    expect(await releasing).toBe(true)
  })

  test('succeeds after the local deadline if the lease is live in the database', async () => {
    const resource = buildResource()
    const clock = movableClock()
    const lease = await acquire(resource, {}, new Leases(db.as('symphony_executor'), { clock }))
    clock.moveMs = 595_000
    expect(await lease.release()).toBe(true)
    expect(await leaseRow(db, resource)).toMatchObject({ lease_id: null })
  })

  test('throws if the database refuses it; on dispose it only emits lease.fault', async () => {
    const events: LeaseEvent[] = []
    const observed = new Leases(db.as('symphony_executor'), { onEvent: (event) => events.push(event) })
    const lease = (await observed.acquire(buildResource(), LONG))!
    await db.queryNoRole('REVOKE EXECUTE ON FUNCTION release_lease FROM symphony_executor')
    const refusal = await failureOf(lease.release())
    await lease[Symbol.asyncDispose]()
    await db.queryNoRole('GRANT EXECUTE ON FUNCTION release_lease TO symphony_executor')
    expect(refusal).toMatchObject({ sqlstate: '42501' })
    expect(events).toContainEqual({
      type: 'lease.fault',
      resource: lease.resource,
      during: 'releasing a lease',
      error: refusal,
    })
  })
})

test('Leases reports the events lease.acquired, lease.renewed and lease.ended', async () => {
  const events: LeaseEvent[] = []
  const observed = new Leases(db.as('symphony_executor'), { onEvent: (event) => events.push(event) })
  const resource = `life-${randomUUID()}`
  const lease = (await observed.acquire(resource, { ...LONG, owner: 'o' }))!
  await lease.tryRenewNow()
  await lease.release()
  expect(events).toEqual([
    { type: 'lease.acquired', resource, owner: 'o', fencingToken: 1n },
    { type: 'lease.renewed', resource, owner: 'o', fencingToken: 2n },
    { type: 'lease.ended', resource, owner: 'o', reason: 'released' },
  ])
})
