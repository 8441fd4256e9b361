import { createOrUpdateJob, scheduleTimer, triggerJob } from '../../libs/scheduler/index.js'
import { acquireLease } from '../../libs/lease/index.js'
import { enqueueInboxMessage, markInboxDead, recordInboxSighting } from '../../libs/inbox/index.js'
import type { Example } from '../../libs/http/index.js'
import { EXAMPLE, STATEMENT_LINE_EXAMPLE } from '../../libs/http/routes/examples.js'
import {
  approveOutboxLimit,
  heartbeatOutboxWorker,
  proposeOutboxLimit,
  recordLateOutcome,
  type OutboxInstruction,
} from '../../libs/outbox/index.js'
import type { TestDatabase } from './database.js'
import { createPerson, propose, type Person } from './outboxPeople.js'
import { claimOnly, complete, enqueue, WORKER } from './outboxItems.js'
import { reconcileLines } from './statements.js'

/** Documented ids, each with its id in this database. */
export type ExampleIds = ReadonlyMap<string, string>

/** Creates the payments, timers and messages of the documented examples. */
export async function seedExamples(db: TestDatabase): Promise<ExampleIds> {
  const alice = await createPerson(db, 'alice')
  const executor = db.as('symphony_executor')
  const paid = await enqueue(db, {
    instructionId: EXAMPLE.instructionId,
    idempotencyKey: EXAMPLE.instructionId,
    participantId: EXAMPLE.participantId,
    railType: EXAMPLE.railType,
    payload: { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' },
  })
  await complete(db, await claimOnly(db, EXAMPLE.railType), {
    state: 'DISPATCHED',
    railReference: 'TX-17',
    railCode: 'PAID',
    latencyMs: 84,
  })
  const failed = await failedItem(db, 'invoice-2043')
  const held = await heldItem(db, 'invoice-2042')
  const approvable = await propose(
    alice,
    (await heldItem(db, 'invoice-2045')).outboxId,
    'FAILED',
    'the bank never saw it',
  )
  const withdrawable = await propose(alice, (await heldItem(db, 'invoice-2046')).outboxId, 'FAILED')
  const limits = await seedLimits(db, alice)
  const contradicted = await contradictedItem(db, 'invoice-2047')
  const reconciled = await seedReconciliation(db, alice, paid.outboxId)
  const waiting = await enqueue(db, {
    ...exampleInstruction('invoice-2044'),
    notBefore: new Date('2099-01-01T00:00:00Z'),
  })
  const cancellable = await enqueue(db, {
    ...exampleInstruction('invoice-2048'),
    notBefore: new Date('2099-01-01T00:00:00Z'),
  })
  for (const breaker of ['open', 'closed']) {
    await heartbeatOutboxWorker(executor, 'worker-1', {
      running: 1,
      waiting: 0,
      completing: 0,
      rails: [{ railType: EXAMPLE.railType, breaker, calls: 1 }],
    })
  }
  await acquireLease(executor, { resource: 'reports', owner: 'node-1', durationMs: 3_600_000 })
  const timerId = await scheduleTimer(db.as('symphony_ingest'), {
    topic: EXAMPLE.railType,
    payload: {},
    dueAt: new Date('2099-01-01'),
  })
  await createOrUpdateJob(alice.control, {
    name: EXAMPLE.jobName,
    cron: '0 2 * * *',
    topic: EXAMPLE.railType,
    payload: {},
  })
  await triggerJob(alice.control, EXAMPLE.jobName)
  const key = { source: EXAMPLE.source, messageId: EXAMPLE.messageId }
  await recordInboxSighting(executor, key)
  await markInboxDead(executor, key, 'no such account')
  await enqueueInboxMessage(db.as('symphony_ingest'), { ...key, messageId: 'evt_18', topic: 'credit', payload: {} })
  return new Map([
    [EXAMPLE.paidId, paid.outboxId],
    [EXAMPLE.heldId, held.outboxId],
    [EXAMPLE.failedId, failed.outboxId],
    [EXAMPLE.waitingId, waiting.outboxId],
    [EXAMPLE.approvableId, approvable],
    [EXAMPLE.withdrawableId, withdrawable],
    [EXAMPLE.approvableLimitId, limits.approvable],
    [EXAMPLE.withdrawableLimitId, limits.withdrawable],
    [EXAMPLE.timerId, timerId],
    [EXAMPLE.contradictedId, contradicted.outboxId],
    [EXAMPLE.contradictionId, contradicted.eventId],
    [EXAMPLE.cancellableId, cancellable.outboxId],
    [EXAMPLE.reconciliationId, reconciled.runId],
    [EXAMPLE.findingId, reconciled.findingId],
    [EXAMPLE.paidTwiceId, reconciled.paidTwiceId],
  ])
}

/** Replaces the documented ids of an example by those of this database. */
export function resolveExampleIds(exampleIds: ExampleIds, example: Example): Example {
  let text = JSON.stringify(example)
  for (const [documented, actual] of exampleIds) text = text.replaceAll(documented, actual)
  return JSON.parse(text)
}

/** Returns the body of an example as it is sent: JSON, or the text of a file. */
export function bodyText({ body }: Example): string {
  return typeof body === 'string' ? body : JSON.stringify(body)
}

function exampleInstruction(instructionId: string): Partial<OutboxInstruction> {
  return {
    instructionId,
    idempotencyKey: instructionId,
    participantId: EXAMPLE.participantId,
    railType: EXAMPLE.railType,
  }
}

async function failedItem(db: TestDatabase, instructionId: string) {
  const item = await enqueue(db, exampleInstruction(instructionId))
  await complete(db, await claimOnly(db, EXAMPLE.railType), {
    state: 'FAILED',
    errorCode: 'REFUSED',
    errorMessage: 'account closed',
    latencyMs: 30,
  })
  return item
}

async function heldItem(db: TestDatabase, instructionId: string) {
  const item = await enqueue(db, exampleInstruction(instructionId))
  await complete(db, await claimOnly(db, EXAMPLE.railType), {
    state: 'RETRYABLE',
    outcomeUnknown: true,
    holdReason: 'no answer',
    errorCode: 'TIMEOUT',
  })
  return item
}

/** Sets a limit, and proposes two others, on a participant without payments. */
async function seedLimits(db: TestDatabase, { control }: Person) {
  const rule = { kind: 'count', participantId: 'globex', limit: '100', windowSeconds: 3_600 } as const
  const proposeLimit = (name: string) => proposeOutboxLimit(control, name, rule, 'agreed with risk')
  await approveOutboxLimit((await createPerson(db, 'bob')).control, await proposeLimit(EXAMPLE.limitName))
  return { approvable: await proposeLimit('globex-hourly'), withdrawable: await proposeLimit('globex-weekly') }
}

/** Reconciles a statement that shows one payment once and another one twice. */
async function seedReconciliation(db: TestDatabase, { control }: Person, paidId: string) {
  const payload = { amount: '12.50', currency: 'EUR' }
  const { outboxId: paidTwiceId } = await enqueue(db, { ...exampleInstruction('invoice-2049'), payload })
  await complete(db, await claimOnly(db, EXAMPLE.railType), { state: 'DISPATCHED', railReference: 'TX-49' })
  const lines = [
    { ...STATEMENT_LINE_EXAMPLE, reference: paidId },
    { ...STATEMENT_LINE_EXAMPLE, reference: paidTwiceId, bankReference: 'BK-8841' },
    { ...STATEMENT_LINE_EXAMPLE, reference: paidTwiceId, bankReference: 'BK-8842' },
  ]
  const { runId, findings } = await reconcileLines(control, EXAMPLE.railType, lines)
  return { runId: runId ?? '', findingId: findings[0]?.findingId ?? '', paidTwiceId }
}

async function contradictedItem(db: TestDatabase, instructionId: string) {
  const { outboxId } = await enqueue(db, exampleInstruction(instructionId))
  const lease = await claimOnly(db, EXAMPLE.railType)
  await complete(db, lease, { state: 'DISPATCHED', railReference: 'TX-47' })
  const { eventId } = await recordLateOutcome(db.as('symphony_executor'), WORKER, {
    ...lease,
    state: 'DISPATCHED',
    railReference: 'TX-48',
  })
  return { outboxId, eventId }
}
