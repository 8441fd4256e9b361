import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { loadRails } from '../../libs/rails/index.js'
import { enqueue, OutboxRelayer } from '../../libs/outbox/index.js'
import { DatabaseSet, type Member } from '../../libs/platform/DatabaseSet.js'
import { PlatformDiscovery, type PlatformDatabase } from '../../libs/platform/discovery.js'
import type { PlatformEvent } from '../../libs/platform/events.js'
import { Fleet, toFleetWorker, type FleetWorker } from '../../libs/platform/Fleet.js'
import { resolvePlatformOptions, type PlatformOptions } from '../../libs/platform/options.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { attemptRows } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { TcpProxy } from '../support/tcpProxy.js'

const dbs: TestDatabase[] = []
const stops: (() => Promise<unknown>)[] = []
beforeAll(async () => {
  for (let n = 0; n < 3; n++) dbs.push(await createTestDatabase())
})
afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop()
})
afterAll(() => Promise.all(dbs.map((db) => db.drop())))

/** Discovery that returns the databases, or the error, that a test has set. */
class FixedDiscovery extends PlatformDiscovery {
  answer: readonly PlatformDatabase[] | Error

  constructor(answer: readonly PlatformDatabase[]) {
    super()
    this.answer = answer
  }

  databases(): Promise<readonly PlatformDatabase[]> {
    return this.answer instanceof Error ? Promise.reject(this.answer) : Promise.resolve(this.answer)
  }
}

const entry = (name: string, db: TestDatabase): PlatformDatabase => ({ name, url: db.url, schema: db.schema })
const all = () => dbs.map((db, index) => entry(`db-${index}`, db))

/** Starts a set of databases and a fleet on it. Both stop at the end of the test. */
async function fixture(
  serve: (member: Member) => readonly FleetWorker[],
  given: Partial<PlatformOptions> & { readonly discovery?: FixedDiscovery } = {},
) {
  const events: PlatformEvent[] = []
  const discovery = given.discovery ?? new FixedDiscovery(all())
  const options = resolvePlatformOptions({ pollMs: 20, ...given, discovery }, undefined)
  const databases = new DatabaseSet(options, (event) => events.push(event))
  await databases.start()
  stops.push(() => databases.stop())
  const fleet = new Fleet(databases, serve, options, (event) => events.push(event))
  await fleet.start()
  stops.push(() => fleet.stop())
  return { databases, fleet, events, discovery }
}

const RAILS = loadRails([
  {
    type: 'bank',
    onUnknown: 'resend',
    money: false,
    dispatch: ({ reference }: { readonly reference: string }) => ({ outcome: 'success', reference }),
  },
])

const relayers = ({ database }: Member) => [
  toFleetWorker('relayer', new OutboxRelayer(database, RAILS, { listen: false }), ({ claimed }) => claimed > 0),
]

async function pay(db: TestDatabase, railType = 'bank'): Promise<string> {
  const id = randomUUID()
  const instruction = { instructionId: id, idempotencyKey: id, participantId: id, railType, payload: {} }
  return (await enqueue(instruction, { tx: db.as('symphony_ingest') })).outboxId
}

const statesOf = async (db: TestDatabase, outboxId: string) =>
  (await attemptRows(db, outboxId)).map(({ state }) => state)

test('a fleet dispatches the payments of every database', async () => {
  await fixture(relayers)
  for (const db of dbs) {
    const outboxId = await pay(db)
    await expect.poll(() => statesOf(db, outboxId), POLL_OPTIONS).toEqual(['DISPATCHED'])
  }
})

test('a process does not serve one database twice under two names (platform.alreadyServed)', async () => {
  const { fleet } = await fixture(relayers)
  const second = await fixture(relayers, { discovery: new FixedDiscovery([entry('another name', dbs[0]!)]) })
  expect(second.events).toContainEqual({ type: 'platform.alreadyServed', database: 'another name' })
  expect(second.fleet.served).toEqual([])
  expect(fleet.served.map(({ database }) => database)).toEqual(['db-0', 'db-1', 'db-2'])
})

test('a fleet serves a database as soon as another fleet of the same process stops serving it', async () => {
  const { fleet } = await fixture(relayers)
  const second = await fixture(relayers, { discovery: new FixedDiscovery([entry('another name', dbs[0]!)]) })
  const third = await fixture(relayers, { discovery: new FixedDiscovery([entry('a third name', dbs[0]!)]) })
  await fleet.stop()
  const served = () => [...second.fleet.served, ...third.fleet.served]
  await expect.poll(served, POLL_OPTIONS).toHaveLength(1)
  const outboxId = await pay(dbs[0]!)
  await expect.poll(() => statesOf(dbs[0]!, outboxId), POLL_OPTIONS).toEqual(['DISPATCHED'])
  // One of the two fleets serves the database. Each fleet has reported alreadyServed once.
  expect(served()).toHaveLength(1)
  for (const { events } of [second, third]) {
    expect(events.filter(({ type }) => type === 'platform.alreadyServed')).toHaveLength(1)
  }
  await second.fleet.stop()
  await expect.poll(() => third.fleet.served, POLL_OPTIONS).toEqual([{ database: 'a third name', up: true }])
})

test('a failed database does not delay other databases, and is served again once it answers', async () => {
  const proxy = await TcpProxy.before(dbs[0]!.url)
  stops.push(() => proxy.close())
  const throughProxy = new URL(dbs[0]!.url)
  throughProxy.hostname = '127.0.0.1'
  throughProxy.port = String(proxy.port)
  const discovery = new FixedDiscovery([
    { name: 'shaky', url: throughProxy.href, schema: dbs[0]!.schema },
    entry('steady', dbs[1]!),
  ])
  const { fleet, events } = await fixture(relayers, { discovery })
  await expect
    .poll(() => fleet.served, POLL_OPTIONS)
    .toEqual([
      { database: 'shaky', up: true },
      { database: 'steady', up: true },
    ])
  proxy.refusing = true
  proxy.cut()
  const waiting = await pay(dbs[0]!)
  await expect.poll(() => events, POLL_OPTIONS).toContainEqual({ type: 'platform.databaseDown', database: 'shaky' })
  const steady = await pay(dbs[1]!)
  await expect.poll(() => statesOf(dbs[1]!, steady), POLL_OPTIONS).toEqual(['DISPATCHED'])
  expect(await statesOf(dbs[0]!, waiting)).toEqual([])
  proxy.refusing = false
  await expect.poll(() => statesOf(dbs[0]!, waiting), POLL_OPTIONS).toEqual(['DISPATCHED'])
  expect(events.filter(({ type }) => type === 'platform.databaseDown')).toHaveLength(1)
  expect(events).toContainEqual({ type: 'platform.databaseUp', database: 'shaky' })
})

test('a fleet frees the slot of a database that fails during a round', async () => {
  const proxy = await TcpProxy.before(dbs[0]!.url)
  stops.push(() => proxy.close())
  const throughProxy = new URL(dbs[0]!.url)
  throughProxy.hostname = '127.0.0.1'
  throughProxy.port = String(proxy.port)
  // This rail cuts the connection to the database before it answers, so the outcome cannot be recorded.
  const cutting = loadRails([
    {
      type: 'cutting',
      onUnknown: 'resend',
      money: false,
      dispatch: ({ reference }: { readonly reference: string }) => {
        proxy.refusing = true
        proxy.cut()
        return { outcome: 'success', reference }
      },
    },
  ])
  const discovery = new FixedDiscovery([
    { name: 'dying', url: throughProxy.href, schema: dbs[0]!.schema },
    entry('steady', dbs[1]!),
  ])
  const serve = ({ name, database }: Member) => {
    const rails = name === 'dying' ? cutting : RAILS
    return [
      toFleetWorker('relayer', new OutboxRelayer(database, rails, { listen: false }), ({ claimed }) => claimed > 0),
    ]
  }
  // The two databases share one connection slot.
  const { fleet, events } = await fixture(serve, { discovery, connectionsMax: 1, connectionsPerDatabase: 1 })
  await pay(dbs[0]!, 'cutting')
  await expect.poll(() => events, POLL_OPTIONS).toContainEqual({ type: 'platform.databaseDown', database: 'dying' })
  const steady = await pay(dbs[1]!)
  await expect.poll(() => statesOf(dbs[1]!, steady), POLL_OPTIONS).toEqual(['DISPATCHED'])
  await fleet.stop()
})

describe('a fleet with discovery', () => {
  test('serves a database added while it runs, and stops serving a removed one', async () => {
    const discovery = new FixedDiscovery([entry('first', dbs[0]!)])
    const { databases, fleet, events } = await fixture(relayers, { discovery, refreshMs: 100 })
    discovery.answer = [entry('second', dbs[1]!)]
    await expect.poll(() => fleet.served, POLL_OPTIONS).toEqual([{ database: 'second', up: true }])
    const second = await pay(dbs[1]!)
    await expect.poll(() => statesOf(dbs[1]!, second), POLL_OPTIONS).toEqual(['DISPATCHED'])
    expect(events).toContainEqual({ type: 'platform.databaseRemoved', database: 'first' })
    const first = await pay(dbs[0]!)
    await pay(dbs[1]!)
    expect(await statesOf(dbs[0]!, first)).toEqual([])
    expect(() => databases.get('first')).toThrow('no database has the name "first"')
  })

  test.for([
    ['fails', new Error('the registry is down')],
    ['lists a database twice', 'twice'],
    ['lists no database', []],
  ] as const)('keeps the last set of databases if discovery %s', async ([, answer]) => {
    const discovery = new FixedDiscovery([entry('first', dbs[0]!)])
    const { fleet, events } = await fixture(relayers, { discovery, refreshMs: 100 })
    discovery.answer = answer === 'twice' ? [entry('a', dbs[1]!), entry('A', dbs[2]!)] : answer
    await expect.poll(() => events.map(({ type }) => type), POLL_OPTIONS).toContain('platform.discoveryFailed')
    expect(fleet.served).toEqual([{ database: 'first', up: true }])
    discovery.answer = all()
    await expect.poll(() => fleet.served.length, POLL_OPTIONS).toBe(3)
  })

  test('fails to start with the error of discovery if the first call fails', async () => {
    const discovery = new FixedDiscovery([])
    discovery.answer = new Error('the registry is down')
    const databases = new DatabaseSet(resolvePlatformOptions({ discovery }, undefined), () => {})
    await expect(databases.start()).rejects.toThrow('the registry is down')
  })

  test('opens a database again if its url changes', async () => {
    const discovery = new FixedDiscovery([entry('main', dbs[0]!)])
    const { databases } = await fixture(() => [], { discovery })
    const before = databases.get('main')
    await databases.refresh()
    expect(databases.get('main')).toBe(before)
    discovery.answer = [{ ...entry('main', dbs[0]!), url: `${dbs[0]!.url}?application_name=other` }]
    await databases.refresh()
    expect(databases.get('main')).not.toBe(before)
  })

  test('serves a new database before the last round of the removed one ends', async () => {
    const { opened, open } = gate()
    const serve = ({ name }: Member): FleetWorker[] => [
      {
        name: 'slow',
        stop: async () => {},
        run: async () => {
          if (name === 'old') await opened
          return { pollAgain: false }
        },
      },
    ]
    const discovery = new FixedDiscovery([entry('old', dbs[0]!)])
    const { databases, fleet } = await fixture(serve, { discovery })
    discovery.answer = [entry('new', dbs[1]!)]
    const refreshed = databases.refresh()
    await expect.poll(() => fleet.served.map(({ database }) => database), POLL_OPTIONS).toEqual(['old', 'new'])
    expect(databases.members.map(({ name }) => name)).toEqual(['new'])
    open()
    await refreshed
    expect(fleet.served.map(({ database }) => database)).toEqual(['new'])
  })

  test('changes the url of a database without a gap and without serving it twice at once', async () => {
    const { opened, open } = gate()
    const working: string[] = []
    const serve = ({ name, database }: Member): FleetWorker[] => [
      {
        name: 'slow',
        stop: async () => {},
        run: async () => {
          working.push(name)
          if (working.length === 1) await opened
          await database.as('symphony_executor').query('SELECT 1')
          return { pollAgain: false }
        },
      },
    ]
    const discovery = new FixedDiscovery([entry('main', dbs[0]!)])
    const { databases, fleet, events } = await fixture(serve, { discovery })
    await expect.poll(() => working, POLL_OPTIONS).toEqual(['main'])
    const before = databases.get('main')
    discovery.answer = [{ ...entry('main', dbs[0]!), url: `${dbs[0]!.url}?application_name=other` }]
    const refreshed = databases.refresh()
    // The set has another object for the name once the refresh has read the new url.
    await expect.poll(() => databases.get('main'), POLL_OPTIONS).not.toBe(before)
    expect([working.length, fleet.served.length]).toEqual([1, 1])
    open()
    await refreshed
    await expect.poll(() => working.length, POLL_OPTIONS).toBeGreaterThan(1)
    expect(fleet.served).toEqual([{ database: 'main', up: true }])
    expect(events.map(({ type }) => type)).not.toContain('platform.alreadyServed')
  })

  test('closes the old database and opens the new one if a name gets another url', async () => {
    const discovery = new FixedDiscovery([entry('main', dbs[0]!)])
    const { databases } = await fixture(() => [], { discovery })
    const before = databases.get('MAIN')
    discovery.answer = [entry('main', dbs[1]!)]
    await databases.refresh()
    expect(databases.get('main').identity).not.toBe(before.identity)
    await expect(before.database.as('symphony_readonly').query('SELECT 1')).rejects.toMatchObject({
      code: 'DATABASE_CLOSED',
    })
  })
})

describe('DatabaseSet.forKey', () => {
  test('spreads keys over all databases, and moves only those of a removed database', async () => {
    const { databases, discovery } = await fixture(() => [])
    const keys = Array.from({ length: 300 }, (_, n) => `customer-${n}`)
    const before = keys.map((key) => databases.forKey(key).name)
    expect(keys.map((key) => databases.forKey(key).name)).toEqual(before)
    expect(new Set(before)).toEqual(new Set(['db-0', 'db-1', 'db-2']))
    discovery.answer = all().slice(0, 2)
    await databases.refresh()
    const after = keys.map((key) => databases.forKey(key).name)
    const stayed = before.map((name, index) => name === 'db-2' || after[index] === name)
    expect(stayed).not.toContain(false)
  })
})

describe('a fleet with fewer connections than databases', () => {
  test('serves its databases in turn, as many at once as connectionsMax allows', async () => {
    const working = new Set<string>()
    let most = 0
    const rounds = new Map<string, number>()
    const serve = ({ name, database }: Member): FleetWorker[] => [
      {
        name: 'busy',
        stop: async () => {},
        run: async () => {
          working.add(name)
          most = Math.max(most, working.size)
          await database.as('symphony_executor').query('SELECT pg_catalog.pg_sleep(0.001)')
          rounds.set(name, (rounds.get(name) ?? 0) + 1)
          working.delete(name)
          return { pollAgain: true }
        },
      },
    ]
    const { fleet } = await fixture(serve, { connectionsMax: 2, connectionsPerDatabase: 2 })
    await expect.poll(() => [...rounds.values()].filter((count) => count >= 5).length, POLL_OPTIONS).toBe(3)
    await fleet.stop()
    expect(most).toBe(1)
    const counts = [...rounds.values()]
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(2)
    for (const db of dbs) {
      const sessions = async () =>
        (
          await db.queryNoRole(
            `SELECT FROM pg_stat_activity WHERE application_name = 'symphony fleet' AND datname = $1`,
            [db.name],
          )
        ).rows.length
      await expect.poll(sessions, POLL_OPTIONS).toBe(0)
    }
  })

  test('probes a failed database only while holding a connection slot', async () => {
    const proxy = await TcpProxy.before(dbs[0]!.url)
    stops.push(() => proxy.close())
    proxy.refusing = true
    const throughProxy = new URL(dbs[0]!.url)
    throughProxy.hostname = '127.0.0.1'
    throughProxy.port = String(proxy.port)
    const discovery = new FixedDiscovery([
      { name: 'down', url: throughProxy.href, schema: dbs[0]!.schema },
      entry('busy', dbs[1]!),
    ])
    let rounds = 0
    let visitsInRounds = 0
    const serve = ({ name, database }: Member): FleetWorker[] => [
      {
        name: 'busy',
        stop: async () => {},
        run: async () => {
          const before = proxy.visits
          await database.as('symphony_executor').query('SELECT pg_catalog.pg_sleep(0.02)')
          rounds += 1
          if (name === 'busy') visitsInRounds += proxy.visits - before
          return { pollAgain: true }
        },
      },
    ]
    await fixture(serve, { discovery, connectionsMax: 1, connectionsPerDatabase: 1 })
    // The first visit is a round of the database. The next two are probes after the failure.
    await expect.poll(() => proxy.visits, POLL_OPTIONS).toBeGreaterThanOrEqual(3)
    expect(rounds).toBeGreaterThan(5)
    expect(visitsInRounds).toBe(0)
  })

  test('serves a database until its queue is empty if selection is drain-first', async () => {
    const order: string[] = []
    const left = new Map(all().map(({ name }) => [name, 3]))
    const done = gate()
    const serve = ({ name }: Member): FleetWorker[] => [
      {
        name: 'draining',
        stop: async () => {},
        run: async () => {
          const remaining = (left.get(name) ?? 0) - 1
          if (remaining < 0) return { pollAgain: false }
          order.push(name)
          left.set(name, remaining)
          if (order.length === 9) done.open()
          return { pollAgain: remaining > 0 }
        },
      },
    ]
    await fixture(serve, { connectionsMax: 1, connectionsPerDatabase: 1, selection: 'drain-first' })
    await done.opened
    const visits = order.filter((name, index) => name !== order[index - 1])
    expect(visits).toHaveLength(3)
  })
})
