import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { describeDatabases } from '../../libs/http/index.js'
import { enqueueInboxMessage } from '../../libs/inbox/index.js'
import { acquireLease } from '../../libs/lease/index.js'
import { placeOutboxHold } from '../../libs/outbox/index.js'
import {
  addPostgresPlatform,
  CleanupWorker,
  InboxWorkStoreProvider,
  LeaseProvider,
  OutboxStoreProvider,
  PlatformDiscovery,
  PlatformOptionsError,
  PlatformServices,
  PostgresPlatform,
  SchedulerStoreProvider,
  SymphonyFleet,
} from '../../libs/entry/platform.js'
import { StaticDiscovery, type CleanupEvent } from '../../libs/platform/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { enqueue } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'

let eu: TestDatabase
let us: TestDatabase
const stops: (() => Promise<unknown>)[] = []
beforeAll(async () => {
  eu = await createTestDatabase()
  us = await createTestDatabase()
})
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop()
})
afterAll(() => Promise.all([eu.drop(), us.drop()]))

const databases = () => [
  { name: 'eu', url: eu.url, schema: eu.schema },
  { name: 'us', url: us.url, schema: us.schema },
]

const EVERYTHING = [
  PostgresPlatform,
  PlatformDiscovery,
  OutboxStoreProvider,
  InboxWorkStoreProvider,
  SchedulerStoreProvider,
  LeaseProvider,
]

async function started(): Promise<PlatformServices> {
  const services = new PlatformServices()
  const platform = addPostgresPlatform(services, { databases: databases() })
  stops.push(() => platform.stop())
  await platform.start()
  return services
}

describe('PRIM-POSTGRES-API-001 addPostgresPlatform registers the provider services and discovery', () => {
  test('resolve returns each service', () => {
    const services = new PlatformServices()
    expect(() => services.resolve(OutboxStoreProvider)).toThrow('OutboxStoreProvider is not registered')
    addPostgresPlatform(services, { databases: databases() })
    for (const service of EVERYTHING) {
      expect(services.resolve<object>(service)).toBeInstanceOf(service)
    }
  })

  test('OutboxStoreProvider enqueues, claims and acks in the named database only', async () => {
    const stores = (await started()).resolve(OutboxStoreProvider)
    const topic = `topic-${randomUUID()}`
    await stores.of('EU').enqueue({ topic, payload: { n: 1 } })
    expect(await stores.of('us').claim({ batchSize: 1, topics: [topic] })).toEqual([])
    const claimed = await stores.of('eu').claim({ batchSize: 1, topics: [topic] })
    expect(await stores.of('eu').ack(claimed)).toHaveLength(1)
    expect(stores.of('eu')).toBe(stores.of('Eu'))
    expect([...stores.all().keys()]).toEqual(['eu', 'us'])
    expect(() => stores.of('asia')).toThrow('no database has the name "asia"')
  })

  test('InboxWorkStoreProvider claims and acks a message', async () => {
    const inboxes = (await started()).resolve(InboxWorkStoreProvider)
    await enqueueInboxMessage(us.as('symphony_ingest'), {
      source: 'bank',
      messageId: 'm-1',
      topic: 'paid',
      payload: {},
    })
    const claimed = await inboxes.of('us').claim({ batchSize: 10, leaseSeconds: 60 })
    expect(claimed).toMatchObject([{ source: 'bank', messageId: 'm-1' }])
    expect(await inboxes.of('us').ack(claimed)).toHaveLength(1)
  })

  test('SchedulerStoreProvider schedules a timer', async () => {
    const schedulers = (await started()).resolve(SchedulerStoreProvider)
    expect(await schedulers.of('eu').getNextEventTime()).toBeNull()
    const dueAt = new Date(Date.now() + 86_400_000)
    await schedulers.of('eu').scheduleTimer({ topic: 'reminder', payload: {}, dueAt })
    expect(await schedulers.of('eu').getNextEventTime()).toEqual(dueAt)
  })

  test('LeaseProvider.forKey keeps a key in one database, so that a second acquire is null', async () => {
    const leases = (await started()).resolve(LeaseProvider)
    const resource = `report-${randomUUID()}`
    const held = await leases.forKey(resource).acquire(resource, { durationMs: 60_000 })
    expect(await leases.forKey(resource).acquire(resource, { durationMs: 60_000 })).toBeNull()
    await held!.release()
  })

  test('a PlatformDiscovery that the application registered is used, not replaced', async () => {
    const services = new PlatformServices()
    const own = new StaticDiscovery(databases().slice(1))
    services.add(PlatformDiscovery, own)
    const platform = addPostgresPlatform(services, {})
    stops.push(() => platform.stop())
    await platform.start()
    expect(services.resolve(PlatformDiscovery)).toBe(own)
    expect([...services.resolve(OutboxStoreProvider).all().keys()]).toEqual(['us'])
  })
})

test('LeaseProvider releases held leases before the platform closes their database', async () => {
  const services = await started()
  const held = await services.resolve(LeaseProvider).of('eu').acquire('held-at-stop', { durationMs: 60_000 })
  await services.resolve(PostgresPlatform).stop()
  expect(held?.isLost).toBe(true)
  const { rows } = await eu.queryNoRole(`SELECT released_at FROM symphony_leases WHERE resource = 'held-at-stop'`)
  expect(rows).toEqual([{ released_at: expect.any(Date) }])
})

describe('PRIM-POSTGRES-API-002 addPostgresPlatform with a conflict or invalid options', () => {
  test('registers nothing if the options are invalid', () => {
    const services = new PlatformServices()
    expect(() => addPostgresPlatform(services, { databases: [] })).toThrow(PlatformOptionsError)
    for (const service of EVERYTHING) expect(services.has(service)).toBe(false)
    addPostgresPlatform(services, { databases: databases() })
  })

  test('refuses a second registration and keeps the first', () => {
    const services = new PlatformServices()
    const first = addPostgresPlatform(services, { databases: databases() })
    expect(() => addPostgresPlatform(services, { databases: databases().slice(1) })).toThrow('registered already')
    expect(services.resolve(PostgresPlatform)).toBe(first)
  })

  test('fails with the name of a service that is already registered, and registers nothing', () => {
    const services = new PlatformServices()
    const { databases: set } = addPostgresPlatform(new PlatformServices(), { databases: databases() })
    services.add(LeaseProvider, new LeaseProvider(set, () => expect.unreachable()))
    expect(() => addPostgresPlatform(services, { databases: databases() })).toThrow('LeaseProvider')
    expect(EVERYTHING.filter((service) => services.has(service))).toEqual([LeaseProvider])
  })
})

describe('PRIM-POSTGRES-API-003 CleanupWorker', () => {
  const retention = { inboxDays: 2, jobRunsDays: 3, timersDays: 4, leasesDays: 5, searchDays: 6 }

  test('removes finished rows that are older than their retention, and no other rows', async () => {
    const { inbox, runs, timers, leases } = await finished(eu)
    const worker = new CleanupWorker(eu.as('symphony_executor'), { intervalMs: 1_000, retention })
    expect(await worker.runOnce()).toEqual({
      inboxMessages: 1,
      jobRuns: 1,
      timers: 1,
      leases: 1,
      searchRows: 0,
      more: false,
    })
    expect(await worker.runOnce()).toEqual({
      inboxMessages: 0,
      jobRuns: 0,
      timers: 0,
      leases: 0,
      searchRows: 0,
      more: false,
    })
    expect(await remaining(eu)).toEqual({
      inbox: inbox.young,
      runs: runs.young,
      timers: timers.young,
      leases: leases.young,
    })
  })

  test('removes 1,000 timers per round, and continues at once while there are more', async () => {
    await eu.queryNoRole(
      `INSERT INTO scheduler_timers (timer_id, topic, payload, delivery, due_at, state, finished_at)
       SELECT gen_random_uuid(), 'crowd', '{}', 'outbox', now(), 'CANCELLED', now() - interval '9 days'
       FROM generate_series(1, 2500)`,
    )
    const crowd = async () => (await eu.queryNoRole(`SELECT 1 FROM scheduler_timers WHERE topic = 'crowd'`)).rows.length
    const events: CleanupEvent[] = []
    const worker = new CleanupWorker(eu.as('symphony_executor'), { intervalMs: 86_400_000, retention }, (event) => {
      events.push(event)
    })
    stops.push(() => worker.stop())
    expect(await worker.runOnce()).toMatchObject({ timers: 1_000, more: true })
    expect(await crowd()).toBe(1_500)
    await worker.start()
    await expect.poll(crowd, POLL_OPTIONS).toBe(0)
    await worker.stop()
    expect(events).toMatchObject([
      { timers: 1_000, more: true },
      { timers: 1_000, more: true },
      { timers: 500, more: false },
    ])
  })

  test('runs in every database of a platform at cleanupIntervalMs', async () => {
    const before = await finished(us)
    const options = { databases: databases(), cleanupIntervalMs: 1_000, retention }
    const platform = addPostgresPlatform(new PlatformServices(), options)
    stops.push(() => platform.stop())
    await platform.fleet.worker().start()
    const young = {
      inbox: before.inbox.young,
      runs: before.runs.young,
      timers: before.timers.young,
      leases: before.leases.young,
    }
    await expect.poll(() => remaining(us), POLL_OPTIONS).toEqual(young)
  })
})

test('PostgresPlatform.start succeeds on a second call after the first discovery failed', async () => {
  const services = new PlatformServices()
  let asked = 0
  class Flaky extends PlatformDiscovery {
    async databases() {
      asked += 1
      if (asked === 1) throw new Error('the registry does not answer')
      return databases()
    }
  }
  services.add(PlatformDiscovery, new Flaky())
  const platform = addPostgresPlatform(services, {})
  stops.push(() => platform.stop())
  await expect(platform.start()).rejects.toThrow('the registry does not answer')
  await platform.start()
  expect(platform.fleet.names).toEqual(['eu', 'us'])
  expect(services.resolve(OutboxStoreProvider).of('us')).toBeDefined()
})

test('a fleet seals the ledger of each database at sealIntervalMs', async () => {
  const fleet = new SymphonyFleet({ databases: databases(), sealIntervalMs: 100 })
  stops.push(() => fleet.close())
  await fleet.worker().start()
  for (const db of [eu, us]) {
    await enqueue(db)
    const open = async () => {
      const { rows } = await db.queryNoRole<{ written: bigint; sealed: bigint | null }>(
        `SELECT (SELECT count(*) FROM payment_outbox_identities) + (SELECT count(*) FROM payment_outbox_attempts)
             + (SELECT count(*) FROM payment_outbox_events) AS written,
           (SELECT sum(row_count) FROM payment_outbox_blocks)::bigint AS sealed`,
      )
      return (rows[0]?.sealed ?? 0n) < (rows[0]?.written ?? 0n)
    }
    await expect.poll(open, POLL_OPTIONS).toBe(false)
  }
})

test('describeDatabases counts pending and held items, and shows an unreachable database as down', async () => {
  const nowhere = new URL(eu.url)
  nowhere.port = '1'
  const services = new PlatformServices()
  const gone = { name: 'gone', url: nowhere.href, schema: eu.schema }
  const platform = addPostgresPlatform(services, { databases: [...databases(), gone] })
  stops.push(() => platform.stop())
  await platform.start()
  const [held] = [await enqueue(us), await enqueue(us)]
  await placeOutboxHold(us.as('symphony_control'), held.outboxId, 'please wait')
  const { rows } = await eu.queryNoRole<{ pending: bigint }>('SELECT count(*) AS pending FROM payment_outbox_pending')
  const views = await describeDatabases(platform.databases.members)
  expect(views).toMatchObject([
    { name: 'eu', schema: eu.schema, state: 'up', pendingCount: String(rows[0]!.pending), heldCount: '0' },
    { name: 'us', schema: us.schema, state: 'up', heldCount: '1', serverVersion: expect.stringMatching(/^1[5-8]\./) },
    { name: 'gone', state: 'down', pendingCount: null, oldestPendingAgeSeconds: null, serverVersion: null },
  ])
})

interface Finished {
  readonly old: string
  readonly young: string[]
}

/** Creates, in each table, one row older than its retention and one younger row. */
async function finished(db: TestDatabase): Promise<Record<'inbox' | 'runs' | 'timers' | 'leases', Finished>> {
  const inbox = { old: `old-${randomUUID()}`, young: [`young-${randomUUID()}`] }
  for (const [messageId, days] of [
    [inbox.old, 2.5],
    [inbox.young[0], 1.5],
  ] as const) {
    await db.queryNoRole(
      `INSERT INTO inbox_messages (source, message_id, state, first_seen_at, last_seen_at, ended_at)
       VALUES ('bank', $1, 'done', now() - $2 * interval '1 day', now(), now() - $2 * interval '1 day')`,
      [messageId, days],
    )
  }
  const leases = { old: `old-${randomUUID()}`, young: [`young-${randomUUID()}`] }
  for (const [resource, days] of [
    [leases.old, 5.5],
    [leases.young[0], 4.5],
  ] as const) {
    await acquireLease(db.as('symphony_executor'), { resource: resource!, owner: 'holder', durationMs: 1_000 })
    await db.queryNoRole(
      `UPDATE symphony_leases SET acquired_at = now() - $2 * interval '1 day', renewed_at = now() - $2 * interval '1 day',
         expires_at = now() - $2 * interval '1 day' WHERE resource = $1`,
      [resource, days],
    )
  }
  const ids = (days: readonly [number, number], table: string, columns: string, values: string) =>
    Promise.all(
      days.map(async (age) => {
        const id = randomUUID()
        await db.queryNoRole(
          `INSERT INTO ${table} (${columns}, topic, payload, delivery, due_at, state, finished_at)
           VALUES (${values}, 't', '{}', 'outbox', now(), 'CANCELLED', now() - $2 * interval '1 day')`,
          [id, age],
        )
        return id
      }),
    )
  const [oldRun, youngRun] = await ids(
    [3.5, 2.5],
    'scheduler_tasks',
    'task_id, kind, job_name, scheduled_for',
    `$1::uuid, 'run', $1::text, now()`,
  )
  const [oldTimer, youngTimer] = await ids([4.5, 3.5], 'scheduler_timers', 'timer_id', '$1')
  return {
    inbox,
    runs: { old: oldRun!, young: [youngRun!] },
    timers: { old: oldTimer!, young: [youngTimer!] },
    leases,
  }
}

async function remaining(db: TestDatabase): Promise<Record<'inbox' | 'runs' | 'timers' | 'leases', string[]>> {
  const idsOf = async (query: string) => (await db.queryNoRole<{ id: string }>(query)).rows.map(({ id }) => id)
  return {
    inbox: await idsOf(`SELECT message_id AS id FROM inbox_messages WHERE topic IS NULL`),
    runs: await idsOf('SELECT run_id AS id FROM scheduler_job_runs'),
    leases: await idsOf(`SELECT resource AS id FROM symphony_leases WHERE owner = 'holder'`),
    timers: await idsOf(`SELECT timer_id AS id FROM scheduler_timers WHERE state = 'CANCELLED'`),
  }
}
