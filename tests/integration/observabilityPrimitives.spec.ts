import { beforeAll, expect, test } from 'vitest'
import type { BatchObservableCallback, Observable, ObservableResult } from '@opentelemetry/api'
import { partsOf, readSystemStatus, Symphony } from '../../libs/symphony/index.js'
import { PermanentFailureError } from '../../libs/core/index.js'
import { InboxWorker } from '../../libs/inbox/index.js'
import { Leases } from '../../libs/lease/index.js'
import { recordLedgerVerification } from '../../libs/ledger/index.js'
import { bridgeToMeter, type ObservingMeter } from '../../libs/http/index.js'
import { createStatusRegistry, Metrics } from '../../libs/observability/index.js'
import { SchedulerWorker, scheduleTimer } from '../../libs/scheduler/index.js'
import { useTestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { openHttpFixture } from '../support/httpFixture.js'
import { enqueued } from '../support/inboxMessages.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { createJob, buildTimerDefinition } from '../support/scheduled.js'

const db = await useTestDatabase()
let metrics: Metrics
beforeAll(async () => {
  metrics = new Metrics({ version: '9.9.9' })
})

/** Returns the value of each series: counted in this process, and read from the database. */
async function figures(database = db.database): Promise<Record<string, number>> {
  const registries = [metrics.registry, createStatusRegistry(await readSystemStatus(database))]
  const page = (await Promise.all(registries.map((registry) => registry.metrics()))).join('\n')
  const lines = page.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  )
}

async function countTables(queries: Readonly<Record<string, string>>): Promise<Record<string, number>> {
  const counted: Record<string, number> = {}
  for (const [name, from] of Object.entries(queries)) {
    const { rows } = await db.queryNoRole<{ n: number }>(`SELECT count(*)::int AS n FROM ${from}`)
    counted[name] = rows[0]!.n
  }
  return counted
}

function shownOf(shown: Record<string, number>, names: object): Record<string, number | undefined> {
  return Object.fromEntries(Object.keys(names).map((name) => [name, shown[name]]))
}

test('inbox metrics equal the tables after handled, failed, dead and taken-over messages', async () => {
  const handlers = {
    good: async () => {},
    bad: async () => {
      throw new Error('busy')
    },
    poison: async () => {
      throw new PermanentFailureError('never')
    },
  }
  const { name: application } = await db.createLogin('application')
  await db.queryNoRole(`GRANT ${application} TO symphony_test_login`)
  const worker = new InboxWorker(
    db.database,
    handlers,
    { workerId: 'w', handlerRole: application, listen: false },
    metrics.inbox.onEvent,
  )
  for (const topic of ['good', 'good', 'good', 'bad', 'poison', 'poison', 'unhandled']) await enqueued(db, { topic })
  await worker.runOnce()
  // Leaves an expired claim, as a dead worker does.
  const { source } = await enqueued(db, { topic: 'good' })
  await db.queryNoRole(
    `UPDATE inbox_messages SET state = 'processing', claimed_by = 'dead', fence = gen_random_uuid(), claimed_at = now(),
       attempt_count = 1, claim_expires_at = now() - interval '1 second' WHERE source = $1`,
    [source],
  )
  expect((await figures())['inbox_expired_claim_count']).toBe(1)
  await worker.runOnce()
  await enqueued(db, { topic: 'good' })

  const tables = {
    inbox_handled_total: `inbox_messages WHERE state = 'done'`,
    inbox_died_total: `inbox_events WHERE event_type = 'DIED'`,
    inbox_abandoned_total: `inbox_messages WHERE state = 'seen' AND attempt_count = 1 AND topic = 'bad'`,
    inbox_handler_missing_total: `inbox_messages WHERE topic = 'unhandled'`,
    inbox_takeovers_total: `inbox_messages WHERE attempt_count = 2 AND state = 'done'`,
    'inbox_depth{state="seen"}': `inbox_messages WHERE state = 'seen'`,
    'inbox_depth{state="processing"}': `inbox_messages WHERE state = 'processing'`,
    'inbox_depth{state="dead"}': `inbox_messages WHERE state = 'dead'`,
    inbox_due_depth: `inbox_messages WHERE state = 'seen' AND due_at <= now()`,
  }
  const counted = await countTables(tables)
  expect(shownOf(await figures(), tables)).toEqual(counted)
  expect(counted).toMatchObject({
    inbox_handled_total: 4,
    inbox_died_total: 2,
    inbox_abandoned_total: 1,
    inbox_due_depth: 1,
  })
  expect(await figures()).toMatchObject({ inbox_fence_lost_total: 0, inbox_takeovers_total: 1 })
})

test('inbox_received_total counts new messages, duplicates and conflicts', () => {
  metrics.inbox.onReceived({ created: true, contentDiffers: false })
  metrics.inbox.onReceived({ created: false, contentDiffers: false })
  metrics.inbox.onReceived({ created: false, contentDiffers: false })
  metrics.inbox.onReceived({ created: false, contentDiffers: true })
  return expect(figures()).resolves.toMatchObject({
    'inbox_received_total{result="new"}': 1,
    'inbox_received_total{result="duplicate"}': 2,
    'inbox_received_total{result="conflict"}': 1,
  })
})

test('scheduler metrics match the tables after missed runs, a refused timer and a bad cron', async () => {
  const scheduler = new SchedulerWorker(db.database, { listen: false }, metrics.scheduler.onEvent)
  const due = (name: string, ago: string) =>
    db.queryNoRole(`UPDATE scheduler_jobs SET next_due_at = now() - $2::interval WHERE job_name = $1`, [name, ago])
  // Creates two jobs that are an hour late, and one that is on time.
  await due(await createJob(db, { missedRuns: 'once' }), '1 hour')
  await due(await createJob(db, { missedRuns: 'skip' }), '1 hour')
  await due(await createJob(db), '0')
  const unreadable = await createJob(db)
  await db.queryNoRole(`UPDATE scheduler_jobs SET cron = 'rubbish', next_due_at = now() WHERE job_name = $1`, [
    unreadable,
  ])
  for (const _ of [1, 2]) await scheduleTimer(db.as('symphony_ingest'), buildTimerDefinition())
  await scheduleTimer(db.as('symphony_ingest'), buildTimerDefinition({ dueAt: new Date(Date.now() + 86_400_000) }))
  // Creates a timer that the outbox refuses. Only a superuser can insert one.
  await db.queryNoRole(
    `INSERT INTO scheduler_timers (timer_id, topic, payload, delivery, due_at) VALUES (gen_random_uuid(), 'no topic', '{}', 'outbox', now())`,
  )
  const before = await figures()
  expect(before['scheduler_lag_seconds']).toBeGreaterThanOrEqual(3_600)
  expect(before['scheduler_jobs{condition="due"}']).toBe(4)
  await scheduler.runOnce()

  const tables = {
    scheduler_runs_created_total: 'scheduler_job_runs',
    scheduler_run_lag_seconds_count: 'scheduler_job_runs',
    'scheduler_enqueued_total{kind="run"}': `scheduler_job_runs WHERE state = 'ENQUEUED'`,
    'scheduler_enqueued_total{kind="timer"}': `scheduler_timers WHERE state = 'ENQUEUED'`,
    'scheduler_refused_total{kind="timer"}': `scheduler_timers WHERE state = 'FAILED'`,
    'scheduler_jobs{condition="active"}': `scheduler_jobs WHERE state = 'ACTIVE'`,
    'scheduler_jobs{condition="unreadable"}': 'scheduler_jobs WHERE schedule_error IS NOT NULL',
    'scheduler_ready_count{kind="timer"}': `scheduler_timers WHERE state = 'READY'`,
    'scheduler_ready_count{kind="run"}': `scheduler_job_runs WHERE state = 'READY'`,
  }
  const counted = await countTables(tables)
  const shown = await figures()
  expect(shownOf(shown, tables)).toEqual(counted)
  expect(counted).toMatchObject({
    scheduler_runs_created_total: 2,
    'scheduler_enqueued_total{kind="timer"}': 2,
    'scheduler_refused_total{kind="timer"}': 1,
  })
  expect(shown).toMatchObject({
    'scheduler_missed_total{policy="once"}': 1,
    'scheduler_missed_total{policy="skip"}': 1,
    scheduler_unreadable_total: 1,
    scheduler_lag_seconds: 0,
  })
  expect(shown['scheduler_late_runs_total']).toBeGreaterThanOrEqual(1)
})

test('lease metrics count leases that are acquired, renewed, released, lost and held', async () => {
  const leases = new Leases(db.as('symphony_executor'), { onEvent: metrics.leases.onEvent })
  const first = await leases.acquire('one', { durationMs: 60_000 })
  const second = await leases.acquire('two', { durationMs: 60_000 })
  const third = await leases.acquire('three', { durationMs: 60_000 })
  expect(await figures()).toMatchObject({ leases_held: 3, leases_expired: 0, leases_acquired_total: 3 })
  await first!.tryRenewNow()
  await first!.release()
  await db.queryNoRole(`UPDATE symphony_leases SET expires_at = now() - interval '1 second' WHERE resource <> 'one'`)
  expect(await second!.tryRenewNow()).toBe(false)
  expect(await figures()).toMatchObject({
    leases_held: 0,
    leases_expired: 2,
    leases_acquired_total: 3,
    leases_renewed_total: 1,
    leases_released_total: 1,
    'leases_lost_total{reason="refused"}': 1,
    leases_renew_failures_total: 0,
  })
  await third!.release()
})

test('fleet metrics show which databases answer', async () => {
  for (const database of ['a', 'b', 'c']) metrics.fleet.onEvent({ type: 'platform.databaseAdded', database })
  metrics.fleet.onEvent({ type: 'platform.databaseDown', database: 'b' })
  metrics.fleet.onEvent({ type: 'platform.databaseRemoved', database: 'c' })
  metrics.fleet.onEvent({ type: 'platform.fault', database: 'b', worker: 'relayer', error: new Error('gone') })
  const shown = await figures()
  expect(shown).toMatchObject({ 'fleet_database_up{database="a"}': 1, 'fleet_database_up{database="b"}': 0 })
  expect(shown).not.toHaveProperty('fleet_database_up{database="c"}')
  expect(shown['worker_faults_total{during="relayer"}']).toBe(1)
})

test('ledger_chain_breaks is absent until a verification is recorded', async () => {
  expect(await figures()).not.toHaveProperty('ledger_chain_breaks')
  for (const breakCount of [0, 2]) {
    await recordLedgerVerification(db.as('symphony_auditor'), { rowsChecked: 7, breakCount })
    expect(await figures()).toMatchObject({
      ledger_chain_breaks: breakCount,
      ledger_verified_timestamp_seconds: expect.any(Number),
    })
  }
})

test('process metrics show the build, connection pools, memory, CPU time and event loop', async () => {
  await expect.poll(figures, POLL_OPTIONS).toMatchObject({
    [`symphony_build_info{version="9.9.9",node="${process.versions.node}"}`]: 1,
    // The pool has more than one connection if earlier tests queried concurrently.
    'db_pool_connections{role="symphony_readonly",state="idle"}': expect.toSatisfy((count: number) => count >= 1),
    'db_pool_connections{role="symphony_readonly",state="in_use"}': 0,
    'db_pool_waiting{role="symphony_readonly"}': 0,
  })
  const borrowed = gate()
  const borrower = db.as('symphony_readonly').transaction(() => borrowed.opened)
  await expect
    .poll(figures, POLL_OPTIONS)
    .toMatchObject({ 'db_pool_connections{role="symphony_readonly",state="in_use"}': 1 })
  borrowed.open()
  await borrower
  const shown = await figures()
  expect(shown['process_resident_memory_bytes']).toBeGreaterThan(1_000_000)
  expect(shown['process_cpu_seconds_total']).toBeGreaterThan(0)
  expect(shown['process_start_time_seconds']).toBeLessThan(Date.now() / 1_000)
  expect(shown['nodejs_eventloop_utilization']).toBeLessThanOrEqual(1)
})

test('bridgeToMeter observes the names and values of /metrics until the bridge is removed', async () => {
  metrics.outbox.onRelayerEvent({
    type: 'outbox.called',
    railType: 'r',
    outboxId: 'o',
    answer: 'success',
    latencyMs: 7,
  })
  const observed = new Map<string, number>()
  const callbacks = new Set<BatchObservableCallback>()
  const names = new Map<Observable, string>()
  const create = (name: string) => {
    const instrument: Observable = { addCallback: () => {}, removeCallback: () => {} }
    names.set(instrument, name)
    return instrument
  }
  // Imitates the part of an SDK that the bridge uses.
  const meter: ObservingMeter = {
    createObservableCounter: create,
    createObservableGauge: create,
    addBatchObservableCallback: (callback) => void callbacks.add(callback),
    removeBatchObservableCallback: (callback) => void callbacks.delete(callback),
  }
  await using symphony = new Symphony({ url: db.url, schema: db.schema })
  // A pool has series only after its first use.
  await symphony.payments.status()
  const removeBridge = bridgeToMeter({ meter, metrics, symphony })
  for (const callback of callbacks) {
    await callback({
      observe: (instrument: Observable, value: number, attributes: Parameters<ObservableResult['observe']>[1] = {}) => {
        const labels = Object.entries(attributes).map(([label, text]) => `${label}="${String(text)}"`)
        observed.set(`${names.get(instrument)}${labels.length === 0 ? '' : `{${labels.join(',')}}`}`, value)
      },
    })
  }
  const {
    nodejs_eventloop_utilization: _,
    process_cpu_seconds_total: __,
    process_resident_memory_bytes: ___,
    ...page
  } = await figures(partsOf(symphony).database)
  const bridged = Object.fromEntries([...observed].filter(([name]) => name in page))
  expect(Object.keys(bridged).toSorted()).toEqual(Object.keys(page).toSorted())
  expect(bridged).toMatchObject({
    'dispatch_latency_ms_bucket{le="10",rail="r"}': 1,
    'dispatch_latency_ms_sum{rail="r"}': 7,
    'dispatch_latency_ms_count{rail="r"}': 1,
    leases_acquired_total: 3,
    'outbox_pending_depth{kind="payment"}': page['outbox_pending_depth{kind="payment"}'],
  })
  removeBridge()
  expect(callbacks.size).toBe(0)
})

test('/metrics of a process serves every registered metric', async () => {
  const fixture = await openHttpFixture(db)
  const page = await (await fixture.call('/metrics')).text()
  await fixture.close()
  const served = [...page.matchAll(/^# TYPE (\S+)/gm)].map(([, name = '']) => name)
  const registered = [fixture.metrics.registry, createStatusRegistry()].flatMap((one) => one.getMetricsAsArray())
  expect(served.toSorted()).toEqual(registered.map(({ name }) => name).toSorted())
})
