import { once } from 'node:events'
import { describe, test } from 'vitest'
import { openDatabase } from '../../libs/db/index.js'
import { Leases, LostLeaseError, type LeaseEvent, type Leadership } from '../../libs/lease/index.js'
import { useTestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { buildResource, expireResource, leaseRow } from '../support/leaseRows.js'
import { failureOf } from '../support/race.js'
import { TcpProxy } from '../support/tcpProxy.js'

const db = await useTestDatabase()

/** Retries and renews often, so that tests end soon. */
const OFTEN = { retryMs: 100, renewEveryMs: 100 }

function newLeases(onEvent: (event: LeaseEvent) => void = () => {}): Leases {
  return new Leases(db.as('symphony_executor'), { onEvent })
}

/** Returns a leader function that records its calls and returns after `resign`. */
function recordingLeader() {
  const terms: Leadership[] = []
  const resigned = gate()
  const lead = async (leadership: Leadership) => {
    terms.push(leadership)
    await resigned.opened
    return 'done'
  }
  return { lead, terms, resign: resigned.open }
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort')
}

describe.concurrent('runAsLeader', () => {
  test('returns the result of the function and releases the lease', async ({ expect }) => {
    const resource = buildResource()
    const leases = newLeases()
    const seen: unknown[] = []
    const result = await leases.runAsLeader(resource, async (leadership) => {
      leadership.throwIfLost()
      seen.push(leadership.signal.aborted, leadership.fencingToken, (await leaseRow(db, resource)).fencing_token)
      return 42
    })
    expect({ result, seen }).toEqual({ result: 42, seen: [false, 1n, 1n] })
    expect(await leaseRow(db, resource)).toMatchObject({ lease_id: null })
  })

  test('lets five callers lead one after another, with growing tokens', async ({ expect }) => {
    const resource = buildResource()
    const leading = { now: 0, most: 0, tokens: [] as bigint[] }
    const lead = async ({ fencingToken }: Leadership) => {
      leading.now += 1
      leading.most = Math.max(leading.most, leading.now)
      leading.tokens.push(fencingToken)
      await leaseRow(db, resource)
      leading.now -= 1
    }
    await Promise.all(Array.from({ length: 5 }, () => newLeases().runAsLeader(resource, lead, OFTEN)))
    expect(leading.most).toBe(1)
    expect(leading.tokens).toEqual(leading.tokens.toSorted((a, b) => Number(a - b)))
    expect(new Set(leading.tokens).size).toBe(5)
  })

  test('gives the function the latest token, which grows with each renewal', async ({ expect }) => {
    const { lead, terms, resign } = recordingLeader()
    const run = newLeases().runAsLeader(buildResource(), lead, OFTEN)
    await expect.poll(() => terms[0]?.fencingToken ?? 0n).toBeGreaterThan(1n)
    resign()
    expect(await run).toBe('done')
  })

  test('waits for the function to return if the lease is lost, then leads with a greater token', async ({ expect }) => {
    const resource = buildResource()
    const events: LeaseEvent[] = []
    const stop = new AbortController()
    const [first, second] = [recordingLeader(), recordingLeader()]
    const terms: Leadership[] = []
    const lead = (leadership: Leadership) => {
      terms.push(leadership)
      return (terms.length === 1 ? first : second).lead(leadership)
    }
    const options = { ...OFTEN, signal: stop.signal }
    const run = newLeases((event) => events.push(event)).runAsLeader(resource, lead, options)
    await expect.poll(() => terms).toHaveLength(1)
    await expireResource(db, resource)
    await aborted(terms[0]!.signal)
    expect(terms[0]!.signal.reason).toBeInstanceOf(LostLeaseError)
    expect(() => terms[0]!.throwIfLost()).toThrow(LostLeaseError)
    // The first call has not returned, so the leader function is not called again although the resource is free.
    expect(terms).toHaveLength(1)
    const lostToken = terms[0]!.fencingToken
    first.resign()
    await expect.poll(() => terms).toHaveLength(2)
    expect(terms[1]!.fencingToken).toBeGreaterThan(lostToken)
    expect(terms[1]!.signal.aborted).toBe(false)
    second.resign()
    expect(await run).toBe('done')
    expect(events.filter(({ type }) => type === 'lease.ended')).toMatchObject([
      { reason: 'refused' },
      { reason: 'released' },
    ])
  })

  test('reports an error of the function after a lost lease (lease.interrupted), and leads again', async ({
    expect,
  }) => {
    const resource = buildResource()
    const events: LeaseEvent[] = []
    let calls = 0
    const run = newLeases((event) => events.push(event)).runAsLeader(
      resource,
      async ({ signal }) => {
        calls += 1
        if (calls === 2) return 'led again'
        await expireResource(db, resource)
        await aborted(signal)
        throw new Error('interrupted in the middle')
      },
      OFTEN,
    )
    expect(await run).toBe('led again')
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'lease.interrupted', error: new Error('interrupted in the middle') }),
    )
  })

  test('rejects with the error of the function and releases the lease', async ({ expect }) => {
    const resource = buildResource()
    const broken = new Error('broken')
    const attempt = newLeases().runAsLeader(resource, () => {
      throw broken
    })
    expect(await failureOf(attempt)).toBe(broken)
    expect(await leaseRow(db, resource)).toMatchObject({ lease_id: null })
  })

  test('returns undefined and never calls the function if stopped while another caller leads', async ({ expect }) => {
    const resource = buildResource()
    const holder = (await newLeases().acquire(resource, { durationMs: 60_000 }))!
    const stop = new AbortController()
    const { lead, terms } = recordingLeader()
    const run = newLeases().runAsLeader(resource, lead, { signal: stop.signal, retryMs: 600_000 })
    stop.abort()
    expect(await run).toBeUndefined()
    expect(terms).toEqual([])
    expect(await holder.tryRenewNow()).toBe(true)
    await holder.release()
  })

  test('creates no lease if its signal is already aborted', async ({ expect }) => {
    const resource = buildResource()
    expect(await newLeases().runAsLeader(resource, () => 'led', { signal: AbortSignal.abort() })).toBeUndefined()
    expect(await failureOf(leaseRow(db, resource))).toMatchObject({ message: `${resource} has no row` })
  })

  test('aborts the function’s signal on a stop, waits for its return and releases the lease', async ({ expect }) => {
    const resource = buildResource()
    const stop = new AbortController()
    const { lead, terms, resign } = recordingLeader()
    const run = newLeases().runAsLeader(resource, lead, { signal: stop.signal })
    await expect.poll(() => terms).toHaveLength(1)
    stop.abort(new Error('closing time'))
    expect(terms[0]!.signal.reason).toEqual(new Error('closing time'))
    // The lease is held until the function returns.
    expect(() => terms[0]!.throwIfLost()).not.toThrow()
    expect(await newLeases().acquire(resource, { durationMs: 1_000 })).toBeNull()
    resign()
    expect(await run).toBe('done')
    expect(await leaseRow(db, resource)).toMatchObject({ lease_id: null })
  })

  test.for<[string, (reason: Error) => Error, string | undefined]>([
    ['the reason of the abort', (reason: Error) => reason, undefined],
    ['an AbortError', () => new DOMException('aborted', 'AbortError'), undefined],
    ['another error', () => new Error('disk full'), 'disk full'],
  ])(
    'ignores an abort error of a stopped function, and rejects with any other error: %s',
    async ([, thrown, message], { expect }) => {
      const stop = new AbortController()
      const reason = new Error('closing time')
      const run = newLeases().runAsLeader(
        buildResource(),
        () => {
          stop.abort(reason)
          throw thrown(reason)
        },
        { signal: stop.signal },
      )
      const [outcome] = await Promise.allSettled([run])
      expect(outcome).toMatchObject(
        message === undefined ? { status: 'fulfilled', value: undefined } : { status: 'rejected', reason: { message } },
      )
    },
  )

  test('retries while the database is unreachable, and leads when it is back', async ({ expect }) => {
    const proxy = await TcpProxy.before(db.url)
    const url = new URL(db.url)
    url.port = String(proxy.port)
    const database = openDatabase({ url: url.href, schema: db.schema, connectTimeoutMs: 500 })
    const faults: LeaseEvent[] = []
    const leases = new Leases(database.as('symphony_executor'), {
      onEvent: (event) => {
        if (event.type !== 'lease.fault') return
        faults.push(event)
        proxy.traffic = 'flows'
      },
    })
    proxy.traffic = 'vanishes'
    expect(await leases.runAsLeader(buildResource(), () => 'led', OFTEN)).toBe('led')
    expect(faults[0]).toMatchObject({ during: 'waiting for leadership', error: { disposition: 'retry' } })
    await proxy.close()
    await database.close()
  })

  test('throws an error that no retry can repair (DATABASE_CLOSED)', async ({ expect }) => {
    const database = openDatabase({ url: db.url, schema: db.schema })
    await database.close()
    const closed = new Leases(database.as('symphony_executor'))
    expect(await failureOf(closed.runAsLeader('r', () => 'led'))).toMatchObject({ code: 'DATABASE_CLOSED' })
  })

  test.for<[string, object, object]>([
    [' ', {}, { name: 'InvalidArgumentError', argument: 'resource' }],
    ['r', { durationMs: 999 }, { name: 'ArgumentRangeError', argument: 'durationMs' }],
    ['r', { renewEveryMs: 99 }, { name: 'ArgumentRangeError', argument: 'renewEveryMs' }],
    ['r', { retryMs: 99 }, { name: 'ArgumentRangeError', argument: 'retryMs' }],
    ['r', { owner: 'app' }, { name: 'InvalidArgumentError', argument: '"owner"' }],
  ])(
    'refuses an invalid resource or option: resource %j, options %j',
    async ([resource, options, error], { expect }) => {
      expect(await failureOf(newLeases().runAsLeader(resource, () => 'led', options))).toMatchObject(error)
    },
  )
})
