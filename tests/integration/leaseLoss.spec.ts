import { once } from 'node:events'
import { describe, test, type TestContext } from 'vitest'
import { openDatabase, type Queryable } from '../../libs/db/index.js'
import { Leases, LostLeaseError, type Lease, type LeaseEvent } from '../../libs/lease/index.js'
import { createTestDatabase, useTestDatabase } from '../support/database.js'
import { freezeServer } from '../support/freezeServer.js'
import { buildResource, leaseRow, LIVELY } from '../support/leaseRows.js'
import { startPrivateServer } from '../support/server.js'
import { TcpProxy } from '../support/tcpProxy.js'

const db = await useTestDatabase()

/** Opens leases through a proxy that the test can interrupt. */
async function leasesBehindProxy(
  { onTestFinished }: TestContext,
  tap: (role: Queryable) => Queryable = (role) => role,
  target = db,
) {
  const proxy = await TcpProxy.before(target.url)
  const url = new URL(target.url)
  url.port = String(proxy.port)
  const database = openDatabase({ url: url.href, schema: target.schema, closeTimeoutMs: 0 })
  // Connects first, so that connecting does not count in the measured time.
  await database.queryAsRole('symphony_executor', 'SELECT 1')
  const events: LeaseEvent[] = []
  const onEvent = (event: LeaseEvent) => void events.push(event)
  const leases = new Leases(tap(database.as('symphony_executor')), { onEvent })
  onTestFinished(async () => {
    await proxy.close()
    await database.close()
  })
  return { proxy, leases, events }
}

/** Returns the time of the abort. The database runs on this machine and reads the same clock. */
async function abortTime({ signal }: Lease): Promise<Date> {
  if (!signal.aborted) await once(signal, 'abort')
  return new Date()
}

describe.concurrent('PRIM-POSTGRES-LEASE-006 a lost lease', () => {
  test('aborts its signal before it expires, even if the database is unreachable', async (context) => {
    const { expect } = context
    const { proxy, leases } = await leasesBehindProxy(context)
    const resource = buildResource()
    const lease = (await leases.acquire(resource, { durationMs: 3_000 }))!
    proxy.traffic = 'vanishes'
    const abortedAt = await abortTime(lease)
    const { expires_at: expiresAt } = await leaseRow(db, resource)
    expect(abortedAt.getTime()).toBeLessThan(expiresAt.getTime())
    expect(lease.signal.reason).toBeInstanceOf(LostLeaseError)
    expect(lease.signal.reason).toMatchObject({ reason: 'expired' })
    expect(await lease.tryRenewNow()).toBe(false)
  })

  test('aborts its signal before it expires, even if the PostgreSQL processes are stopped', async ({
    expect,
    onTestFinished,
  }) => {
    const server = await startPrivateServer()
    onTestFinished(server.remove)
    await using own = await createTestDatabase({ serverUrl: server.url, countBranches: false })
    await own.as('symphony_executor').query('SELECT 1')
    const resource = buildResource()
    const lease = (await new Leases(own.as('symphony_executor')).acquire(resource, { durationMs: 3_000 }))!
    const resume = await freezeServer(own)
    onTestFinished(resume)
    // The abort also ends a renewal that waits for an answer.
    const asking = lease.tryRenewNow()
    const abortedAt = await abortTime(lease)
    expect(await asking).toBe(false)
    resume()
    // A renewal that was on its way may have extended the lease in the database since the last answer.
    const { expires_at: expiresAt } = await leaseRow(own, resource)
    expect(abortedAt.getTime()).toBeLessThan(lease.expiresAt.getTime())
    expect(lease.expiresAt.getTime()).toBeLessThanOrEqual(expiresAt.getTime())
    expect(lease.signal.reason).toMatchObject({ reason: 'expired' })
  })
})

describe.concurrent('a lease during a fault of its database', () => {
  test('is renewed through a new connection after its connection was cut', async (context) => {
    const { expect } = context
    const { proxy, leases } = await leasesBehindProxy(context)
    const lease = (await leases.acquire(buildResource(), LIVELY))!
    for (let cuts = 0; cuts < 2; cuts++) {
      proxy.cut()
      // The first renewal may have been on its way at the cut. The second needs a new connection.
      const before = lease.fencingToken
      await expect.poll(() => lease.fencingToken).toBeGreaterThan(before + 1n)
    }
    expect(lease.isLost).toBe(false)
    await lease.release()
  })

  test('is renewed although an earlier renewal is never answered', async (context) => {
    const { expect } = context
    let renewals = 0
    const { proxy, leases } = await leasesBehindProxy(context, (role) => ({
      ...role,
      query: (text, values) => {
        if (text.includes('renew_lease')) renewals += 1
        // The first renewal is on a connection that died silently. From the second on, new connections work.
        if (renewals === 2) proxy.traffic = 'flows'
        return role.query<never>(text, values)
      },
    }))
    const resource = buildResource()
    const lease = (await leases.acquire(resource, LIVELY))!
    proxy.traffic = 'vanishes'
    await expect.poll(() => lease.fencingToken).toBeGreaterThan(1n)
    expect(renewals).toBeGreaterThan(1)
    expect(lease.isLost).toBe(false)
    await lease.release()
  })

  test('reports an error of a renewal as lease.fault, and retries until it succeeds', async (context) => {
    const { expect } = context
    // Uses a separate database, because this test makes every renewal in it fail for a while.
    await using own = await createTestDatabase()
    const { leases, events } = await leasesBehindProxy(context, undefined, own)
    const resource = buildResource()
    const lease = (await leases.acquire(resource, LIVELY))!
    await own.queryNoRole('REVOKE EXECUTE ON FUNCTION renew_lease FROM symphony_executor')
    await expect.poll(() => events.map(({ type }) => type)).toContain('lease.fault')
    await own.queryNoRole('GRANT EXECUTE ON FUNCTION renew_lease TO symphony_executor')
    await expect.poll(() => lease.fencingToken).toBeGreaterThan(1n)
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'lease.fault', resource, during: 'renewing a lease' }),
    )
    await lease.release()
  })

  test('stops waiting for an unanswered release no later than its expiry', async (context) => {
    const { expect } = context
    const { proxy, leases } = await leasesBehindProxy(context)
    const lease = (await leases.acquire(buildResource(), { durationMs: 2_000 }))!
    proxy.traffic = 'vanishes'
    expect(await lease.release()).toBe(false)
    expect(lease.signal.reason).toMatchObject({ reason: 'released' })
  })
})
