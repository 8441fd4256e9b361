import { context, trace } from '@opentelemetry/api'
import { BasicTracerProvider, type SpanProcessor } from '@opentelemetry/sdk-trace-base'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { PermanentFailureError } from '../../libs/core/index.js'
import { InboxWorker, type InboxWorkerEvent } from '../../libs/inbox/index.js'
import { Leases, type LeaseEvent } from '../../libs/lease/index.js'
import { logEvents } from '../../libs/observability/index.js'
import { OutboxRelayer, topicRails, type RelayerEvent } from '../../libs/outbox/index.js'
import { loadRails, NotSentError, type Rail, type RailDeclaration, type RailRequest } from '../../libs/rails/index.js'
import { LeaseRepairWorker, type RepairEvent } from '../../libs/repair/index.js'
import { SchedulerWorker, type SchedulerEvent } from '../../libs/scheduler/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { enqueued } from '../support/inboxMessages.js'
import {
  buildInstruction,
  attemptRows,
  enqueue,
  enqueueAndClaim,
  eventRows,
  pendingRow,
} from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { createJob, createTimer } from '../support/scheduled.js'

/** Ways in which a listener fails. The last one logs to a sink that throws. */
type Mode = 'throws' | 'rejects' | 'has a log sink that throws'
const MODES: readonly Mode[] = ['throws', 'rejects', 'has a log sink that throws']

const brokenLog = pino(
  { level: 'trace' },
  {
    write: () => {
      throw new Error('no space left on device')
    },
  },
)

/** Creates a listener that fails at every event and records the event types. */
function failing<Event extends { readonly type: string }>(mode: Mode, log: (event: Event) => void) {
  const seen = new Set<string>()
  const listener = (event: Event): unknown => {
    seen.add(event.type)
    if (mode === 'has a log sink that throws') return log(event)
    if (mode === 'rejects') return Promise.reject(new Error('the metrics server is down'))
    throw new Error('the metrics server is down')
  }
  return { seen, listener }
}

let db: TestDatabase
beforeEach(async () => {
  db = await createTestDatabase()
})
afterEach(() => db.drop())

describe.for(MODES)('an event listener that %s', (mode) => {
  test('leaks no slot or lease and causes no repeated call in a relayer', async () => {
    const { seen, listener } = failing<RelayerEvent>(mode, logEvents(brokenLog))
    const calls = new Map<string, number>()
    const prefix = buildInstruction().railType
    const called = (request: RailRequest) => calls.set(request.reference, (calls.get(request.reference) ?? 0) + 1)
    const rail = (name: string, declared: Partial<RailDeclaration>, dispatch: Rail['dispatch']): RailDeclaration => ({
      type: `${prefix}-${name}`,
      onUnknown: 'hold',
      money: false,
      ...declared,
      dispatch: (request, work) => {
        called(request)
        return dispatch(request, work)
      },
    })
    const rails = loadRails([
      rail('pays', {}, ({ reference }) => ({ outcome: 'success', reference })),
      rail('refuses', {}, () => ({ outcome: 'terminal', code: 'NO' })),
      rail('later', {}, () => ({ outcome: 'retryable', code: 'BUSY', retryAfterMs: 3_600_000 })),
      rail('breaks', {}, () => {
        throw new Error('the connection broke')
      }),
      rail('odd', { codes: { OK: 'success' } }, () => ({ outcome: 'success', reference: 'r', code: 'ODD' })),
      rail('down', {}, () => {
        throw new NotSentError('no route')
      }),
      rail('late', {}, async ({ reference }) => {
        await db.expireLease(reference)
        return { outcome: 'success', reference }
      }),
    ])
    const relayer = new OutboxRelayer(db.database, rails, { breakerFailures: 1, breakerOpenMs: 600_000 }, listener)
    const item = (name: string) => enqueue(db, { railType: `${prefix}-${name}` })
    await relayer.start()
    const [pays, refuses, later, breaks, odd, down, late] = await Promise.all(
      ['pays', 'refuses', 'later', 'breaks', 'odd', 'down', 'late'].map(item),
    )
    const attempts = async (one = pays) => (await attemptRows(db, one!.outboxId)).map(({ state }) => state)
    await expect.poll(() => attempts(pays), POLL_OPTIONS).toEqual(['DISPATCHED'])
    await expect.poll(() => attempts(refuses), POLL_OPTIONS).toEqual(['FAILED'])
    for (const one of [later, breaks, odd, down]) {
      await expect.poll(() => attempts(one), POLL_OPTIONS).toEqual(['RETRYABLE'])
    }
    await expect
      .poll(async () => (await eventRows(db, late!.outboxId)).map(({ event_type }) => event_type), POLL_OPTIONS)
      .toContain('LATE_OUTCOME')
    await relayer.stop()
    expect(relayer.gauge).toEqual({ running: 0, waiting: 0, completing: 0 })
    expect([...calls.values()].every((count) => count === 1)).toBe(true)
    expect(calls.size).toBe(7)
    for (const one of [later, breaks, odd, down]) {
      expect((await pendingRow(db, one!.outboxId))?.lease_token ?? null).toBeNull()
    }
    expect([...seen]).toEqual(
      expect.arrayContaining([
        'outbox.claimed',
        'outbox.notified',
        'outbox.listening',
        'outbox.dispatchStarted',
        'outbox.called',
        'outbox.dispatchFinished',
        'outbox.unknownCode',
        'outbox.recorded',
        'outbox.leaseLost',
        'outbox.lateOutcome',
        'outbox.held',
        'outbox.breaker',
      ]),
    )
  })

  test('leaks no claim in an inbox worker', async () => {
    const { seen, listener } = failing<InboxWorkerEvent>(mode, logEvents(brokenLog))
    const { name: handlerRole } = await db.createLogin('handler')
    await db.queryNoRole(`GRANT ${handlerRole} TO symphony_test_login`)
    const handled: string[] = []
    const worker = new InboxWorker(
      db.database,
      {
        done: async ({ messageId }) => void handled.push(messageId),
        retried: async ({ messageId }) => {
          handled.push(messageId)
          throw new Error('not now')
        },
        died: async ({ messageId }) => {
          handled.push(messageId)
          throw new PermanentFailureError('never')
        },
      },
      { handlerRole },
      listener,
    )
    const messages = await Promise.all(['done', 'retried', 'died', 'missing'].map((topic) => enqueued(db, { topic })))
    expect(await worker.runOnce()).toMatchObject({
      claimed: 4,
      done: 1,
      retried: 1,
      deadLettered: 1,
      handlersMissing: 1,
    })
    await worker.stop()
    const { rows } = await db.queryNoRole(
      `SELECT topic, state, claimed_by FROM inbox_messages WHERE message_id = ANY ($1) ORDER BY topic`,
      [messages.map(({ messageId }) => messageId)],
    )
    expect(rows).toEqual([
      { topic: 'died', state: 'dead', claimed_by: null },
      { topic: 'done', state: 'done', claimed_by: null },
      { topic: 'missing', state: 'seen', claimed_by: null },
      { topic: 'retried', state: 'seen', claimed_by: null },
    ])
    expect(handled).toHaveLength(3)
    expect([...seen].toSorted()).toEqual([
      'inbox.claimed',
      'inbox.deadLettered',
      'inbox.done',
      'inbox.handlerMissing',
      'inbox.retried',
    ])
  })

  test('makes a scheduler enqueue no second message for a due timer or a due job', async () => {
    const { seen, listener } = failing<SchedulerEvent>(mode, logEvents(brokenLog))
    const { topic } = await createTimer(db)
    const job = await createJob(db)
    await db.queryNoRole(`UPDATE scheduler_jobs SET next_due_at = now() - interval '1 hour' WHERE job_name = $1`, [job])
    const worker = new SchedulerWorker(db.database, { listen: false }, listener)
    expect(await worker.runOnce()).toMatchObject({ runsCreated: 1, runsEnqueued: 1, timersEnqueued: 1 })
    expect(await worker.runOnce()).toMatchObject({ runsCreated: 0, runsEnqueued: 0, timersEnqueued: 0 })
    await worker.stop()
    const { rows } = await db.queryNoRole('SELECT 1 FROM payment_outbox_pending WHERE rail_type = $1', [topic])
    expect(rows).toHaveLength(1)
    expect([...seen]).toEqual(
      expect.arrayContaining(['scheduler.runsCreated', 'scheduler.missed', 'scheduler.enqueued']),
    )
  })

  test('does not prevent a lease from being acquired, renewed and released', async () => {
    const { seen, listener } = failing<LeaseEvent>(mode, logEvents(brokenLog))
    const leases = new Leases(db.as('symphony_executor'), { onEvent: listener })
    const resource = 'resource'
    const lease = await leases.acquire(resource, { owner: 'one', durationMs: 60_000 })
    await lease!.tryRenewNow()
    await lease![Symbol.asyncDispose]()
    const next = await new Leases(db.as('symphony_executor')).acquire(resource, { owner: 'two', durationMs: 60_000 })
    expect(next?.owner).toBe('two')
    await next?.[Symbol.asyncDispose]()
    expect(await leases.runAsLeader(resource, async () => 'led', { durationMs: 60_000 })).toBe('led')
    expect([...seen].toSorted()).toEqual(['lease.acquired', 'lease.ended', 'lease.renewed'])
  })

  test('does not stop lease repair', async () => {
    const lease = await enqueueAndClaim(db)
    await db.expireLease(lease.outboxId)
    const { seen, listener } = failing<RepairEvent>(mode, logEvents(brokenLog))
    const repair = new LeaseRepairWorker(db.as('symphony_executor'), {}, listener)
    expect(await repair.runOnce()).toMatchObject({ leasesRepaired: 1 })
    expect(await repair.runOnce()).toMatchObject({ leasesRepaired: 0 })
    expect([...seen]).toEqual(['repair.repaired'])
  })
})

test('a message without a handler is RETRYABLE (NO_HANDLER), even if onMissingHandler throws', async () => {
  const topic = buildInstruction().railType
  const rails = topicRails(
    {},
    {
      expected: {
        topics: [topic],
        onMissingHandler: () => {
          throw new Error('the pager is down')
        },
      },
    },
  )
  const item = await enqueue(db, { railType: topic })
  const relayer = new OutboxRelayer(db.database, loadRails(rails), { listen: false })
  await relayer.runOnce()
  await relayer.stop()
  expect(await attemptRows(db, item.outboxId)).toMatchObject([{ state: 'RETRYABLE', error_code: 'NO_HANDLER' }])
  expect(await pendingRow(db, item.outboxId)).toMatchObject({ outcome_unknown: false })
})

test.for(['onStart', 'onEnd'] as const)(
  'a span processor whose %s throws does not affect the payment',
  async (method) => {
    const processor: SpanProcessor = {
      onStart: () => {},
      onEnd: () => {},
      forceFlush: async () => {},
      shutdown: async () => {},
      [method]: () => {
        throw new Error('the collector is down')
      },
    }
    trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [processor] }))
    onTestFinished(() => {
      trace.disable()
      context.disable()
    })
    const { railType } = buildInstruction()
    let calls = 0
    const rails = loadRails([
      {
        type: railType,
        onUnknown: 'hold',
        money: false,
        dispatch: ({ reference }: RailRequest) => {
          calls += 1
          return { outcome: 'success', reference }
        },
      },
    ])
    const item = await enqueue(db, { railType })
    const relayer = new OutboxRelayer(db.database, rails, { listen: false })
    expect(await relayer.runOnce()).toMatchObject({ dispatched: 1 })
    await relayer.stop()
    expect(calls).toBe(1)
    expect((await attemptRows(db, item.outboxId)).map(({ state }) => state)).toEqual(['DISPATCHED'])
  },
)
