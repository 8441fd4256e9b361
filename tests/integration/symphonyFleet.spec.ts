import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { PlatformDiscovery, type PlatformDatabase } from '../../libs/platform/index.js'
import type { TopicMessage } from '../../libs/outbox/index.js'
import { partsOf, SymphonyFleet, type FleetEvent } from '../../libs/symphony/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'

const dbs: TestDatabase[] = []
beforeAll(async () => {
  for (let n = 0; n < 2; n++) dbs.push(await createTestDatabase())
})
afterAll(() => Promise.all(dbs.map((db) => db.drop())))

const listed = (): PlatformDatabase[] =>
  dbs.map(({ url, schema }, index) => ({ name: ['north', 'south'][index]!, url, schema }))

/** Creates a rail that pays at once and records its closing. */
function bankOf(closed: string[] = []) {
  return {
    type: 'bank',
    onUnknown: 'resend',
    dispatch: ({ reference }: { readonly reference: string }) => ({ outcome: 'success', reference }) as const,
    close: () => void closed.push('bank'),
  } as const
}

const PAYLOAD = { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' }

test('a fleet dispatches payments and seals ledgers in every database', async () => {
  const closed: string[] = []
  await using fleet = new SymphonyFleet({ databases: listed(), rails: [bankOf(closed)], pollMs: 20 })
  const events: FleetEvent[] = []
  fleet.events.on('*', (event) => events.push(event))
  const worker = fleet.worker()
  await worker.start()
  expect(fleet.names).toEqual(['north', 'south'])
  for (const name of fleet.names) {
    const symphony = fleet.of(name)
    const instruction = { railType: 'bank', instructionId: `F-${name}`, participantId: 'shop' } as const
    await symphony.transaction((tx) => symphony.enqueue({ ...instruction, payload: PAYLOAD }, { tx }))
    const state = async () => (await symphony.payments.get({ instructionId: `F-${name}` }))?.state
    await expect.poll(state, POLL_OPTIONS).toBe('DISPATCHED')
  }
  const sealed = () =>
    events.filter(({ type }) => type === 'ledger.sealed').map((event) => Reflect.get(event, 'database'))
  await expect.poll(sealed, POLL_OPTIONS).toEqual(expect.arrayContaining(['north', 'south']))
  await worker.stop()
  expect(closed).toEqual([])
  await fleet.close()
  expect(closed).toEqual(['bank'])
})

test('a fleet sends heartbeats, in which its workers report unlisted codes, and deregisters', async () => {
  const bank = {
    ...bankOf(),
    codes: { AC04: 'terminal' },
    dispatch: () => ({ outcome: 'terminal', code: 'ZZ99' }) as const,
  } as const
  await using fleet = new SymphonyFleet({ databases: listed(), rails: [bank], pollMs: 20 })
  const worker = fleet.worker({ heartbeatMs: 100 })
  await worker.start()
  const symphony = fleet.of('north')
  const status = () => symphony.payments.status()
  await expect.poll(async () => (await status()).workersAliveCount, POLL_OPTIONS).toBe(1n)
  const instruction = { railType: 'bank', instructionId: 'F-code', participantId: 'shop', payload: PAYLOAD } as const
  await symphony.transaction((tx) => symphony.enqueue(instruction, { tx }))
  await expect.poll(async () => (await status()).lastUnknownCodeAgeSeconds, POLL_OPTIONS).not.toBeNull()
  await worker.stop()
  expect(await status()).toMatchObject({ workersAliveCount: 0n })
})

test('a fleet refuses epochFile, because the file belongs to one database', async () => {
  await using fleet = new SymphonyFleet({ databases: listed(), rails: [bankOf()] })
  // @ts-expect-error: with one file, workers of the other databases would freeze dispatch
  expect(() => fleet.worker({ epochFile: 'epoch.json' })).toThrow('epochFile: expected none')
})

test('a fleet refuses a maintenance that is not true or false, such as options of it', async () => {
  await using fleet = new SymphonyFleet({ databases: listed(), rails: [bankOf()] })
  for (const maintenance of [{ retention: false }, {}, null, 0, 'false']) {
    const options: object = { maintenance }
    expect(() => fleet.worker(options)).toThrow('maintenance: expected true or false, got')
  }
  // @ts-expect-error: intervals and retention are options of the fleet
  expect(() => fleet.worker({ maintenance: { retention: false } })).toThrow('options of the fleet')
  for (const maintenance of [true, false, undefined]) {
    const options: object = { maintenance }
    expect(() => fleet.worker(options)).not.toThrow()
  }
})

test('a fleet refuses polling options of inbox and scheduler, whose rounds it runs itself', async () => {
  await using fleet = new SymphonyFleet({ databases: listed(), rails: [bankOf()] })
  const refused = (part: string, name: string) => {
    const options: object = { [part]: { ...(part === 'inbox' ? { handlers: {} } : {}), [name]: 50 } }
    expect(() => fleet.worker(options)).toThrow(`${part}."${name}": unknown`)
  }
  for (const name of ['pollMs', 'listen', 'debounceMs']) refused('inbox', name)
  for (const name of ['pollMs', 'listen']) refused('scheduler', name)
  // @ts-expect-error: the fleet's own pollMs applies
  expect(() => fleet.worker({ inbox: { handlers: {}, pollMs: 50 } })).toThrow('inbox."pollMs": unknown')
  // @ts-expect-error: the fleet's own pollMs applies
  expect(() => fleet.worker({ scheduler: { pollMs: 50 } })).toThrow('scheduler."pollMs": unknown')
  expect(() => fleet.worker({ inbox: { handlers: {}, batchSize: 5 }, scheduler: { batchSize: 5 } })).not.toThrow()
})

test('a fleet uses one set of handlers for messages, inbox and timers of every database', async () => {
  await using fleet = new SymphonyFleet({ databases: listed(), pollMs: 20 })
  const received: string[] = []
  const worker = fleet.worker({
    topics: { greeting: ({ payload }: TopicMessage) => void received.push(`message ${textOf(payload['from'])}`) },
    inbox: { handlers: { settled: async ({ messageId }) => void received.push(`inbox ${messageId}`) } },
    scheduler: true,
  })
  await worker.start()
  await fleet.of('NORTH').messages.enqueue({ topic: 'greeting', payload: { from: 'north' } })
  await fleet.of('south').scheduler.scheduleTimer({ topic: 'greeting', payload: { from: 'timer' }, dueAt: new Date() })
  await fleet.of('south').inbox.enqueue({ source: 'bank', messageId: 'm-1', topic: 'settled', payload: {} })
  await expect.poll(() => received.toSorted(), POLL_OPTIONS).toEqual(['inbox m-1', 'message north', 'message timer'])
})

test.each([
  ['the fleet', undefined, 90],
  ['its inbox', 30, 30],
])('inbox claims of a fleet worker last for the leaseSeconds of %s', async (_, leaseSeconds, expected) => {
  await using fleet = new SymphonyFleet({ databases: listed(), pollMs: 20, leaseSeconds: 90 })
  const seconds: number[] = []
  const options: { readonly leaseSeconds?: number } = Object.fromEntries([['leaseSeconds', leaseSeconds]])
  const handler = async ({ claimExpiresAt, claimedAt }: { readonly claimExpiresAt: Date; readonly claimedAt: Date }) =>
    void seconds.push((claimExpiresAt.getTime() - claimedAt.getTime()) / 1_000)
  await fleet.worker({ inbox: { handlers: { measured: handler }, ...options }, maintenance: false }).start()
  const messageId = `claimed-${expected}`
  await fleet.of('north').inbox.enqueue({ source: 'bank', messageId, topic: 'measured', payload: {} })
  await expect.poll(() => seconds, POLL_OPTIONS).toEqual([expected])
})

test('a fleet serves the next database although an inbox handler ignores its aborted signal', async () => {
  await using fleet = new SymphonyFleet({
    databases: listed(),
    pollMs: 20,
    connectionsMax: 2,
    connectionsPerDatabase: 2,
  })
  const begun = new Set<string>()
  const { opened, open } = gate()
  const handler = async ({ messageId }: { readonly messageId: string }) => {
    begun.add(messageId)
    await opened
  }
  await fleet.start()
  for (const name of fleet.names)
    await fleet.of(name).inbox.enqueue({ source: 'bank', messageId: name, topic: 'ignores', payload: {} })
  await fleet.worker({ inbox: { handlers: { ignores: handler }, leaseSeconds: 1 }, maintenance: false }).start()
  // The only slot passes to the other database, whose handler then begins too.
  await expect.poll(() => begun, POLL_OPTIONS).toEqual(new Set(fleet.names))
  open()
})

test('SymphonyFleet.forKey returns one Symphony per key; of() refuses an unknown name', async () => {
  await using fleet = new SymphonyFleet({ databases: listed() })
  expect(() => fleet.of('north')).toThrow(expect.objectContaining({ code: 'UNKNOWN_DATABASE' }))
  await fleet.start()
  const keys = Array.from({ length: 50 }, () => randomUUID())
  for (const key of keys) expect(fleet.forKey(key)).toBe(fleet.forKey(key))
  expect(fleet.names.map((name) => partsOf(fleet.of(name)).databaseName)).toEqual(dbs.map(({ name }) => name))
  expect(new Set(keys.map((key) => fleet.forKey(key))).size).toBe(2)
  expect(() => fleet.of('west')).toThrow(expect.objectContaining({ code: 'UNKNOWN_DATABASE' }))
})

test('a fleet closes a database that discovery no longer lists, and keeps the rails open', async () => {
  const closed: string[] = []
  const gone = new Set<string>()
  class Directory extends PlatformDiscovery {
    async databases() {
      return listed().filter(({ name }) => !gone.has(name))
    }
  }
  await using fleet = new SymphonyFleet({
    discovery: new Directory(),
    rails: [bankOf(closed)],
    pollMs: 20,
    refreshMs: 100,
  })
  await fleet.worker().start()
  const south = fleet.of('south')
  const removed = fleet.events.once('platform.databaseRemoved')
  gone.add('south')
  expect(await removed).toMatchObject({ database: 'south' })
  await expect(south.transaction(async () => {})).rejects.toMatchObject({ code: 'DATABASE_CLOSED' })
  expect({ names: fleet.names, closed }).toEqual({ names: ['north'], closed: [] })
})

interface Stoppable {
  readonly fleet: { close(): Promise<void> }
  readonly worker: { stop(): Promise<void>; run(options: { readonly signal: AbortSignal }): Promise<void> }
}

function runAndAbort(worker: Stoppable['worker']): Promise<void> {
  const stop = new AbortController()
  const running = worker.run({ signal: stop.signal })
  stop.abort()
  return running
}

test.each([
  ['worker.stop()', ({ worker }: Stoppable) => worker.stop()],
  ['fleet.close()', ({ fleet }: Stoppable) => fleet.close()],
])('a call of %s during start() waits for a late discovery, then stops every worker for good', async (_, stop) => {
  let answer: (() => void) | undefined
  const answered = new Promise<void>((resolve) => (answer = resolve))
  class Directory extends PlatformDiscovery {
    async databases() {
      await answered
      return listed()
    }
  }
  const fleet = new SymphonyFleet({ discovery: new Directory(), rails: [bankOf()], pollMs: 20 })
  const worker = fleet.worker()
  const starting = worker.start()
  const stopping = stop({ fleet, worker })
  answer?.()
  await Promise.all([starting, stopping])
  const types: string[] = []
  fleet.events.on('*', ({ type }) => types.push(type))
  await delay(300)
  expect(types).toEqual([])
  await expect(worker.start()).rejects.toMatchObject({ code: 'WORKER_STOPPED' })
  await fleet.close()
  expect(fleet.names).toEqual([])
  await expect(fleet.start()).rejects.toMatchObject({ code: 'DATABASE_CLOSED' })
})

test.each([
  ['worker.stop()', 'WORKER_STOPPED', ({ worker }: Stoppable) => worker.stop()],
  ['fleet.close()', 'DATABASE_CLOSED', ({ fleet }: Stoppable) => fleet.close()],
  ['an aborted worker.run()', 'WORKER_STOPPED', ({ worker }: Stoppable) => runAndAbort(worker)],
])('%s ends although discovery does not return, and the start fails (%s)', async (_, code, stop) => {
  const { opened, open } = gate()
  class Directory extends PlatformDiscovery {
    async databases() {
      await opened
      return listed()
    }
  }
  const fleet = new SymphonyFleet({ discovery: new Directory(), rails: [bankOf()], pollMs: 20 })
  const worker = fleet.worker()
  const outcome = worker.start().catch((error: unknown) => error)
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const stopping = stop({ fleet, worker })
  await vi.advanceTimersByTimeAsync(5_000)
  await stopping
  vi.useRealTimers()
  open()
  expect(await outcome).toMatchObject({ code })
  await fleet.close()
  expect(fleet.names).toEqual([])
})

test('fleet.close() ends although a later call of discovery never returns', async () => {
  let calls = 0
  class Directory extends PlatformDiscovery {
    async databases() {
      calls += 1
      return calls === 1 ? listed() : new Promise<never>(() => {})
    }
  }
  const fleet = new SymphonyFleet({ discovery: new Directory(), refreshMs: 100 })
  const types: string[] = []
  fleet.events.on('*', ({ type }) => types.push(type))
  await fleet.start()
  await expect.poll(() => calls, POLL_OPTIONS).toBe(2)
  await fleet.close()
  expect(types).not.toContain('platform.discoveryFailed')
})

test('SymphonyFleet reports all invalid options in one error, and refuses an invalid rail', () => {
  expect(() => new SymphonyFleet({ databases: [], pollMs: 1, connectionsMax: 0 })).toThrow(
    expect.objectContaining({ code: 'INVALID_PLATFORM_OPTIONS', failures: expect.objectContaining({ length: 4 }) }),
  )
  expect(() => new SymphonyFleet({ databases: listed(), rails: [{ ...bankOf(), onUnknown: 'inquire' }] })).toThrow(
    expect.objectContaining({ argument: 'rail "bank", queryStatus' }),
  )
})

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : typeof value
}
