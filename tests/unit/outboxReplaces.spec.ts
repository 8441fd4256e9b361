import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { RoleHandle } from '../../libs/db/index.js'
import {
  approveOutboxProposal,
  enqueuePaymentOutbox,
  enqueuePaymentOutboxBatch,
  placeOutboxHold,
  proposePaymentOutbox,
  readItemViews,
  readReplacements,
  recordLateOutcome,
  recordOutboxReturn,
  resolveOutboxHold,
  withdrawOutboxProposal,
  type ClaimedItem,
  type OutboxInstruction,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import {
  buildInstruction,
  claim,
  claimOnly,
  complete,
  enqueue,
  enqueueAndClaim,
  eventRows,
  pendingRow,
  sequenceOf,
  WORKER,
} from '../support/outboxItems.js'
import { approve, createPerson, enqueueFailed, enqueueHeld, enqueuePaid, propose } from '../support/outboxPeople.js'
import { failureOf, openConnection, race, untilWaiting } from '../support/race.js'

/**
 * Tests replacements: a second payment of one debt is a new instruction that names the old item. At most one item pays
 * the debt.
 */

const db = await useTestDatabase()
const olga = await createPerson(db, 'olga')
const pavel = await createPerson(db, 'pavel')
const ingest = () => db.as('symphony_ingest')

describe('propose_payment_outbox', () => {
  test('holds a payment until another person approves it; its proposer cannot (P7007)', async () => {
    const replaced = await enqueueFailed(db)
    const instruction = replacing(replaced, { railType: `rail-${randomUUID()}` })
    const item = await proposePaymentOutbox(ingest(), instruction, 'the account was closed')
    expect(item).toMatchObject({ created: true, state: 'PENDING', proposalId: expect.any(String) })
    expect(await pendingRow(db, item.outboxId)).toMatchObject({ hold_reason: 'PAYMENT_APPROVAL' })
    expect(await eventRows(db, item.outboxId)).toMatchObject([
      { event_type: 'HOLD_PLACED', detail: { reason: 'PAYMENT_APPROVAL', approvals: 2 } },
      { event_type: 'DECISION_PROPOSED', detail: { decision: 'RETRY', reason: 'the account was closed' } },
    ])
    expect(await claim(db, instruction.railType)).toEqual([])
    // A repeat changes nothing and returns the open proposal.
    expect(await proposePaymentOutbox(ingest(), instruction, 'again')).toMatchObject({
      ...item,
      created: false,
    })
    const own = approveOutboxProposal(db.as('symphony_control'), item.proposalId!)
    expect(await failureOf(own)).toMatchObject({ sqlstate: 'P7007' })
    // After the withdrawal, a release of the payment still needs two people.
    await withdrawOutboxProposal(olga.control, item.proposalId!, 'wrong account')
    const second = await propose(olga, item.outboxId, 'RETRY')
    expect(await failureOf(approve(olga, second))).toMatchObject({ sqlstate: 'P7007' })
    expect(await approve(pavel, second)).toMatchObject({ applied: true })
    expect(await claimOnly(db, instruction.railType)).toMatchObject({ outboxId: item.outboxId })
    expect(await proposePaymentOutbox(ingest(), instruction, 'again')).toMatchObject({
      created: false,
      proposalId: null,
    })
    expect(await replacementOf(replaced)).toBe(item.outboxId)
  })

  test('refuses REPEATABLE READ (40001), an overlong reason, and replacing a due payment (P7017)', async () => {
    const open = await enqueue(db)
    expect(await reasonOf(proposePaymentOutbox(ingest(), replacing(open), 'again'))).toBe('PENDING')
    const long = proposePaymentOutbox(ingest(), buildInstruction(), 'x'.repeat(1_001))
    expect(await failureOf(long)).toMatchObject({ code: 'ARGUMENT_OUT_OF_RANGE' })
    const connection = await openConnection(db, 'symphony_ingest')
    await connection.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    const early = proposePaymentOutbox(connection, buildInstruction(), 'too early')
    expect(await failureOf(early)).toMatchObject({ sqlstate: '40001' })
    await connection.query('ROLLBACK')
    await connection.close()
  })
})

type Replaced = { readonly outboxId: string; readonly participantId: string }

/** Builds an instruction of the same participant that replaces an item. */
function replacing({ outboxId, participantId }: Replaced, overrides: Partial<OutboxInstruction> = {}) {
  return buildInstruction({ participantId, replaces: outboxId, ...overrides })
}

function replace(replaced: Replaced, role: RoleHandle = ingest()) {
  return enqueuePaymentOutbox(role, replacing(replaced))
}

async function replacementOf({ outboxId }: Replaced): Promise<string | undefined> {
  return (await readReplacements(db.as('symphony_readonly'), [outboxId])).get(outboxId)
}

async function reasonOf(call: Promise<unknown>): Promise<unknown> {
  const error = await failureOf(call)
  expect(error).toMatchObject({ code: 'NOT_REPLACEABLE', sqlstate: 'P7017' })
  const { reason }: { reason: unknown } = JSON.parse(String(Reflect.get(Object(error), 'detail')))
  return reason
}

async function returned(overrides: Partial<OutboxInstruction> = {}) {
  const item = await enqueuePaid(db, overrides)
  await recordReturn(item.outboxId)
  return item
}

function recordReturn(outboxId: string) {
  const money = { amount: '0.50', currency: 'EUR', code: 'AC04', reference: 'RT-1' }
  return recordOutboxReturn(olga.control, { outboxId, ...money })
}

async function redrive(outboxId: string): Promise<string> {
  const { redrivenAs } = await approve(pavel, await propose(olga, outboxId, 'REDRIVE'))
  return redrivenAs!
}

function reportPaid({ outboxId, leaseToken }: ClaimedItem) {
  const late = { outboxId, leaseToken, state: 'DISPATCHED' as const, railReference: 'late-1' }
  return recordLateOutcome(db.as('symphony_executor'), WORKER, late)
}

/** Creates a FAILED item and returns its lease, to report about it later. */
async function failedLease(overrides: Partial<OutboxInstruction> = {}): Promise<ClaimedItem> {
  const lease = await enqueueAndClaim(db, overrides)
  await complete(db, lease, { state: 'FAILED', errorCode: 'REFUSED' })
  return lease
}

describe('an instruction that replaces a payment', () => {
  test('is accepted for a FAILED payment and for a DISPATCHED one with a partial return', async () => {
    for (const old of [await enqueueFailed(db), await returned()]) {
      const { outboxId } = await replace(old)
      expect(await readItemViews(db.as('symphony_readonly'), [outboxId])).toMatchObject([
        { replaces: old.outboxId, redriveOf: null, state: 'DUE' },
      ])
      expect(await replacementOf(old)).toBe(outboxId)
    }
  })

  test('is refused if it replaces an unknown id, a message or another participant’s item (P7017)', async () => {
    const { participantId } = await enqueueFailed(db)
    expect(await reasonOf(replace({ outboxId: randomUUID(), participantId }))).toBe('UNKNOWN_PAYMENT')
    const other = await enqueueFailed(db)
    expect(await reasonOf(replace({ outboxId: other.outboxId, participantId }))).toBe('UNKNOWN_PAYMENT')
    const topic = `topic-${randomUUID()}`
    const message = buildInstruction({ railType: topic, participantId })
    const { outboxId } = await enqueuePaymentOutbox(ingest(), message, { isMessage: true })
    await complete(db, await claimOnly(db, topic), { state: 'FAILED' })
    expect(await reasonOf(replace({ outboxId, participantId }))).toBe('UNKNOWN_PAYMENT')
  })

  test('is refused if it is a message (22023)', async () => {
    const message = replacing(await enqueueFailed(db))
    await expect(enqueuePaymentOutbox(ingest(), message, { isMessage: true })).rejects.toMatchObject({
      sqlstate: '22023',
      message: expect.stringContaining('p_replaces'),
    })
  })

  test('is refused for a payment that is due, leased or held (P7017)', async () => {
    for (const old of [await enqueue(db), await enqueueAndClaim(db), await enqueueHeld(db, olga)]) {
      expect(await reasonOf(replace(old))).toBe('PENDING')
    }
  })

  test('is refused for a DISPATCHED payment without a return (P7017)', async () => {
    const old = await enqueuePaid(db)
    expect(await reasonOf(replace(old))).toBe('NOT_RETURNED')
    await recordReturn(old.outboxId)
    await replace(old)
  })

  test('is refused while a redrive of the payment is pending, and after a redrive was paid (P7017)', async () => {
    const old = await enqueueFailed(db)
    const redrivenAs = await redrive(old.outboxId)
    expect(await reasonOf(replace(old))).toBe('PENDING')
    await complete(db, await claimOnly(db, old.railType), { state: 'DISPATCHED', railReference: 'r' })
    expect(await reasonOf(replace(old))).toBe('PAID')
    expect(await reasonOf(replace({ ...old, outboxId: redrivenAs }))).toBe('NOT_RETURNED')
    await recordReturn(redrivenAs)
    // The redrive was paid and returned, so an instruction must replace the redrive.
    expect(await reasonOf(replace(old))).toBe('PAID')
    await replace({ ...old, outboxId: redrivenAs })
  })

  test('is refused after a late report that the rail paid the payment (P7017)', async () => {
    const lease = await failedLease()
    await reportPaid(lease)
    expect(await reasonOf(replace(lease))).toBe('REPORTED_PAID')
  })

  test('is refused if another item already replaces the payment or a redrive of it (P7017)', async () => {
    const old = await enqueueFailed(db)
    const redrivenAs = await redrive(old.outboxId)
    await complete(db, await claimOnly(db, old.railType), { state: 'FAILED' })
    await replace({ ...old, outboxId: redrivenAs })
    for (const outboxId of [old.outboxId, redrivenAs]) {
      expect(await reasonOf(replace({ ...old, outboxId }))).toBe('ALREADY_REPLACED')
    }
  })

  test('leaves nothing behind when it is refused in a batch, and the error names the item (P7017)', async () => {
    const old = await enqueueFailed(db)
    const other = await enqueue(db, { participantId: old.participantId })
    const before = await sequenceOf(db, old.participantId)
    const batch = [replacing(old), buildInstruction(), replacing(other)]
    expect(await failureOf(enqueuePaymentOutboxBatch(ingest(), batch))).toMatchObject({
      sqlstate: 'P7017',
      detail: expect.stringMatching(/"ordinal" ?: ?3/),
    })
    expect(await sequenceOf(db, old.participantId)).toEqual(before)
    expect(await reasonOf(enqueuePaymentOutboxBatch(ingest(), [replacing(old), replacing(old)]))).toBe(
      'ALREADY_REPLACED',
    )
    await enqueuePaymentOutboxBatch(ingest(), [replacing(old), buildInstruction()])
  })

  test('returns the same item when it is enqueued again', async () => {
    const old = await returned()
    const instruction = replacing(old)
    const first = await enqueuePaymentOutbox(ingest(), instruction)
    expect(await enqueuePaymentOutbox(ingest(), instruction)).toMatchObject({
      outboxId: first.outboxId,
      created: false,
    })
    // A batch that also has a new instruction returns the same item for the repeated one.
    expect(await enqueuePaymentOutboxBatch(ingest(), [buildInstruction(), instruction])).toMatchObject([
      { created: true },
      { outboxId: first.outboxId, created: false },
    ])
  })

  test('is refused when repeated with another payment to replace, or with none (P7004)', async () => {
    const instruction = replacing(await returned())
    await enqueuePaymentOutbox(ingest(), instruction)
    const { replaces: _replaces, ...without } = instruction
    for (const other of [without, { ...instruction, replaces: randomUUID() }]) {
      await expect(enqueuePaymentOutbox(ingest(), other)).rejects.toMatchObject({ sqlstate: 'P7004' })
    }
  })

  test('is refused in a REPEATABLE READ or SERIALIZABLE transaction (40001)', async () => {
    const old = await enqueueFailed(db)
    for (const level of ['REPEATABLE READ', 'SERIALIZABLE']) {
      const connection = await openConnection(db, 'symphony_ingest')
      await connection.query(`BEGIN ISOLATION LEVEL ${level}`)
      await expect(enqueuePaymentOutbox(connection, replacing(old))).rejects.toMatchObject({ sqlstate: '40001' })
      await connection.query('ROLLBACK')
      // A batch with only nulls in p_replaces replaces nothing, so an old snapshot is accepted.
      await connection.query(`BEGIN ISOLATION LEVEL ${level}`)
      await connection.query(
        `SELECT enqueue_payment_outbox_batch('{i}', '{p}', '{k}', '{r}', ARRAY['{}'::jsonb], p_replaces => '{NULL}')`,
      )
      await connection.close()
    }
  })

  test('can be replaced by a third instruction only after it failed', async () => {
    const old = await enqueueFailed(db)
    const second = replacing(old)
    const { outboxId } = await enqueuePaymentOutbox(ingest(), second)
    expect(await reasonOf(replace({ ...old, outboxId }))).toBe('PENDING')
    await complete(db, await claimOnly(db, second.railType), { state: 'FAILED' })
    await replace({ ...old, outboxId })
    expect(await reasonOf(replace(old))).toBe('ALREADY_REPLACED')
  })
})

describe('a replaced payment', () => {
  test('is not redriven (P7006), neither by a new proposal nor by an older one', async () => {
    const old = await enqueueFailed(db)
    const proposal = await propose(olga, old.outboxId, 'REDRIVE')
    const { outboxId } = await replace(old)
    await expect(approve(pavel, proposal)).rejects.toMatchObject({
      sqlstate: 'P7006',
      message: expect.stringContaining(outboxId),
    })
    await expect(propose(olga, old.outboxId, 'REDRIVE')).rejects.toMatchObject({ sqlstate: 'P7006' })
  })

  test('gets one replacement if eight enqueues race', async () => {
    const old = await enqueueFailed(db)
    const lock = await openConnection(db)
    await lock.query('BEGIN')
    await lock.query('SELECT FROM payment_outbox_identities WHERE outbox_id = $1 FOR UPDATE', [old.outboxId])
    const { values, errors } = await race(
      db,
      'symphony_ingest',
      8,
      (connection) => enqueuePaymentOutbox(connection, replacing(old)),
      { releaseWhenAllWait: () => lock.query('COMMIT') },
    )
    await lock.close()
    expect(values).toHaveLength(1)
    for (const error of errors) expect(error).toMatchObject({ sqlstate: 'P7017' })
  })

  test('excludes a concurrent redrive: either redrive or replacement is refused, with no deadlock', async () => {
    for (let round = 0; round < 10; round += 1) {
      const old = await enqueueFailed(db)
      const proposal = await propose(olga, old.outboxId, 'REDRIVE')
      const settled = await Promise.allSettled([approve(pavel, proposal), replace(old)])
      const refused = settled.flatMap((one): unknown[] => (one.status === 'rejected' ? [one.reason] : []))
      expect(refused).toEqual([expect.objectContaining({ sqlstate: expect.stringMatching(/^P70(?:06|17)$/) })])
    }
  })

  test('makes a redrive wait for the open replacement, and fail after its commit (P7006)', async () => {
    const old = await enqueueFailed(db)
    const proposal = await propose(olga, old.outboxId, 'REDRIVE')
    const application = await openConnection(db, 'symphony_ingest')
    await application.query('BEGIN')
    await enqueuePaymentOutbox(application, replacing(old))
    const operator = await openConnection(db, 'symphony_control')
    const approval = failureOf(approveOutboxProposal(operator, proposal))
    await untilWaiting(db, operator)
    await application.query('COMMIT')
    expect(await approval).toMatchObject({ sqlstate: 'P7006' })
    await application.close()
    await operator.close()
  })

  test('causes a hold of its pending replacement if a late report says the rail paid the original', async () => {
    const lease = await failedLease()
    const second = replacing(lease)
    const { outboxId } = await enqueuePaymentOutbox(ingest(), second)
    await reportPaid(lease)
    expect(await pendingRow(db, outboxId)).toMatchObject({ hold_reason: 'EARLIER_ITEM_PAID', held_by: WORKER })
    expect(await eventRows(db, outboxId)).toMatchObject([
      { event_type: 'HOLD_PLACED', detail: { reason: 'EARLIER_ITEM_PAID', paid_as: lease.outboxId } },
    ])
    await expect(resolveOutboxHold(olga.control, outboxId, 'RETRY', 'again')).rejects.toMatchObject({
      sqlstate: 'P7006',
      message: expect.stringContaining(lease.outboxId),
    })
  })

  test('reported paid late has its replacement’s redrive held; a new redrive fails (P7006)', async () => {
    const lease = await failedLease()
    const second = replacing(lease)
    const { outboxId } = await enqueuePaymentOutbox(ingest(), second)
    await complete(db, await claimOnly(db, second.railType), { state: 'FAILED' })
    const redrivenAs = await redrive(outboxId)
    await reportPaid(lease)
    expect(await pendingRow(db, redrivenAs)).toMatchObject({ hold_reason: 'EARLIER_ITEM_PAID' })
    await approve(pavel, await propose(olga, redrivenAs, 'FAILED'))
    await expect(propose(olga, outboxId, 'REDRIVE')).rejects.toMatchObject({ sqlstate: 'P7006' })
    expect(await reasonOf(replace({ ...lease, outboxId: redrivenAs }))).toBe('REPORTED_PAID')
  })

  test('leaves an operator’s hold of its replacement unchanged after its own late success', async () => {
    const lease = await failedLease()
    const { outboxId } = await replace(lease)
    await placeOutboxHold(olga.control, outboxId, 'please wait')
    await reportPaid(lease)
    expect(await pendingRow(db, outboxId)).toMatchObject({ hold_reason: 'please wait' })
  })
})
