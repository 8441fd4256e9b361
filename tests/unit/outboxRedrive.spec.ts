import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import {
  approveOutboxProposal,
  enqueuePaymentOutbox,
  placeOutboxHold,
  recordLateOutcome,
  resolveOutboxHold,
  type ClaimedItem,
  type OutboxInstruction,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { brokenLedgerRules, readLedgerText } from '../support/ledgerRules.js'
import {
  buildInstruction,
  claim,
  claimOnly,
  complete,
  enqueue,
  enqueueAndClaim,
  eventRows,
  ledger,
  pendingRow,
  sequenceOf,
  WORKER,
} from '../support/outboxItems.js'
import { createPerson, approve, enqueueFailed, enqueueHeld, propose } from '../support/outboxPeople.js'
import { failureOf, openConnection, race, untilWaiting } from '../support/race.js'

const db = await useTestDatabase()
const olga = await createPerson(db, 'olga')
const pavel = await createPerson(db, 'pavel')

async function redrive(outboxId: string): Promise<string> {
  const { redrivenAs } = await approve(pavel, await propose(olga, outboxId, 'REDRIVE'))
  return redrivenAs!
}

/** Claims the due item of the rail and completes it with this state. */
async function end(railType: string, state: 'DISPATCHED' | 'FAILED'): Promise<ClaimedItem> {
  const lease = await claimOnly(db, railType)
  await complete(db, lease, { state, railReference: `reference of ${lease.outboxId}` })
  return lease
}

/** Reports a late outcome of an ended item. */
function reportLate({ outboxId, leaseToken }: ClaimedItem, state: 'DISPATCHED' | 'FAILED' | 'RETRYABLE') {
  return recordLateOutcome(db.as('symphony_executor'), WORKER, {
    outboxId,
    leaseToken,
    state,
    railReference: 'late-1',
  })
}

async function identity(outboxId: string) {
  const { rows } = await db.queryNoRole('SELECT * FROM payment_outbox_identities WHERE outbox_id = $1', [outboxId])
  return rows[0]
}

/** Returns all idempotency keys of an instruction. */
async function keysOf(instructionId: string): Promise<string[]> {
  const { rows } = await db.queryNoRole<{ idempotency_key: string }>(
    'SELECT idempotency_key FROM payment_outbox_identities WHERE instruction_id = $1 ORDER BY created_at',
    [instructionId],
  )
  return rows.map((row) => row.idempotency_key)
}

describe('a redriven FAILED item', () => {
  test('gets a new item of the same instruction, with a new key and redrive_of', async () => {
    const item = await enqueueFailed(db, { payload: { amount: 12.5, text: 'é\n', nested: { list: [1, null] } } })
    const redrivenAs = await redrive(item.outboxId)
    expect(redrivenAs).not.toBe(item.outboxId)
    expect(await identity(redrivenAs)).toMatchObject({
      instruction_id: item.instructionId,
      participant_id: item.participantId,
      idempotency_key: `${item.idempotencyKey}~redrive~1`,
      rail_type: item.railType,
      sequence_id: 2n,
      redrive_of: item.outboxId,
    })
    expect(await claimOnly(db, item.railType)).toMatchObject({
      outboxId: redrivenAs,
      payload: item.payload,
      attemptCount: 0,
      outcomeUnknown: false,
    })
    expect(await sequenceOf(db, item.participantId)).toEqual({ taken: [1n, 2n], next: 3n })
    expect(brokenLedgerRules(await readLedgerText(db.as('symphony_auditor')))).toEqual([])
  })

  test('stays FAILED, with events that name the proposer and the approver', async () => {
    const item = await enqueueFailed(db)
    const redrivenAs = await redrive(item.outboxId)
    await end(item.railType, 'DISPATCHED')
    expect(await ledger(db, item.outboxId)).toEqual(['1 FAILED'])
    expect(await ledger(db, redrivenAs)).toEqual(['1 DISPATCHED'])
    expect(await eventRows(db, item.outboxId)).toMatchObject([
      { event_type: 'REDRIVE_PROPOSED', actor: olga.name },
      {
        event_type: 'REDRIVE_CREATED',
        actor: pavel.name,
        detail: {
          redriven_as: redrivenAs,
          reason: 'as agreed with the bank',
          proposed_by: olga.name,
          approved_by: pavel.name,
        },
      },
    ])
  })

  test('is still returned by an enqueue of its instruction and key', async () => {
    const { instructionId, participantId, idempotencyKey, railType, payload, outboxId } = await enqueueFailed(db)
    await redrive(outboxId)
    const instruction: OutboxInstruction = { instructionId, participantId, idempotencyKey, railType, payload }
    expect(await enqueuePaymentOutbox(db.as('symphony_ingest'), instruction)).toMatchObject({
      outboxId,
      created: false,
      state: 'FAILED',
    })
  })

  test('gets its redrive at the end of an ordered stream', async () => {
    const item = await enqueueFailed(db, { ordered: true })
    const next = await enqueue(db, { participantId: item.participantId, railType: item.railType, ordered: true })
    const redrivenAs = await redrive(item.outboxId)
    expect(await pendingRow(db, redrivenAs)).toMatchObject({ ordered: true, blocked: true })
    expect((await claim(db, item.railType)).map(({ outboxId }) => outboxId)).toEqual([next.outboxId])
  })
})

describe('redrives of one payment', () => {
  test('are numbered consecutively, whichever of its items is redriven', async () => {
    const item = await enqueueFailed(db)
    const first = await redrive(item.outboxId)
    await end(item.railType, 'FAILED')
    const second = await redrive(first)
    await end(item.railType, 'FAILED')
    const third = await redrive(item.outboxId)
    const key = item.idempotencyKey
    expect(await keysOf(item.instructionId)).toEqual([key, `${key}~redrive~1`, `${key}~redrive~2`, `${key}~redrive~3`])
    expect(await identity(second)).toMatchObject({ redrive_of: first })
    expect(await identity(third)).toMatchObject({ redrive_of: item.outboxId })
  })

  test('are refused while one redrive is pending (P7006)', async () => {
    const item = await enqueueFailed(db)
    const first = await redrive(item.outboxId)
    await end(item.railType, 'FAILED')
    const second = await redrive(first)
    for (const outboxId of [item.outboxId, first, second]) {
      await expect(propose(olga, outboxId, 'REDRIVE')).rejects.toMatchObject({ sqlstate: 'P7006' })
    }
    await end(item.railType, 'FAILED')
    await redrive(second)
  })

  test('are refused after one of its items was DISPATCHED (P7001)', async () => {
    const item = await enqueueFailed(db)
    const first = await redrive(item.outboxId)
    await end(item.railType, 'FAILED')
    // This redrive is proposed before the second redrive is paid. Its approval is tried afterwards.
    const stale = await propose(olga, item.outboxId, 'REDRIVE')
    const second = await redrive(first)
    await end(item.railType, 'DISPATCHED')
    await expect(approve(pavel, stale)).rejects.toMatchObject({ sqlstate: 'P7001' })
    for (const outboxId of [first, second]) {
      await expect(propose(olga, outboxId, 'REDRIVE')).rejects.toMatchObject({ sqlstate: 'P7001' })
    }
    expect(await keysOf(item.instructionId)).toHaveLength(3)
  })

  test('create one item if eight approvals of two proposals race; seven are refused (P7006)', async () => {
    const item = await enqueueFailed(db)
    const first = await redrive(item.outboxId)
    await end(item.railType, 'FAILED')
    const proposals = [await propose(olga, item.outboxId, 'REDRIVE'), await propose(olga, first, 'REDRIVE')]
    // Every approval waits for this lock on the identity of the first item.
    const lock = await openConnection(db)
    await lock.query('BEGIN')
    await lock.query('SELECT FROM payment_outbox_identities WHERE outbox_id = $1 FOR UPDATE', [item.outboxId])
    const { values, errors } = await race(
      db,
      'symphony_control',
      8,
      (connection, index) => approveOutboxProposal(connection, proposals[index % 2]!),
      { releaseWhenAllWait: () => lock.query('COMMIT') },
    )
    await lock.close()
    expect(values).toHaveLength(1)
    expect(errors).toHaveLength(7)
    for (const error of errors) expect(error).toMatchObject({ sqlstate: 'P7006' })
    expect(await keysOf(item.instructionId)).toHaveLength(3)
    expect(await claim(db, item.railType)).toHaveLength(1)
  })

  test('do not depend on another payment of the same instruction', async () => {
    const item = await enqueueFailed(db)
    const { instructionId, participantId, railType, payload } = item
    const other = { instructionId, participantId, railType, payload, idempotencyKey: `${item.idempotencyKey}~other` }
    await enqueue(db, other)
    await end(railType, 'DISPATCHED')
    await enqueue(db, { ...other, idempotencyKey: 'open', railType: `${railType}-2` })
    expect(await identity(await redrive(item.outboxId))).toMatchObject({
      idempotency_key: `${item.idempotencyKey}~redrive~1`,
    })
  })
})

describe('a redrive proposal', () => {
  test('is refused for a DISPATCHED item (P7001)', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'DISPATCHED', railReference: 'r-1' })
    await expect(propose(olga, lease.outboxId, 'REDRIVE')).rejects.toMatchObject({ sqlstate: 'P7001' })
    expect(await eventRows(db, lease.outboxId)).toEqual([])
  })

  test('is refused for an item that is due, leased or held (P7006)', async () => {
    const items = [await enqueue(db), await enqueueAndClaim(db), await enqueueHeld(db, olga)]
    for (const { outboxId } of items) {
      await expect(propose(olga, outboxId, 'REDRIVE')).rejects.toMatchObject({ sqlstate: 'P7006' })
    }
  })

  test('is refused for an unknown id or an invalid reason (22023)', async () => {
    await expect(propose(olga, randomUUID(), 'REDRIVE')).rejects.toMatchObject({ sqlstate: '22023' })
    const { outboxId } = await enqueueFailed(db)
    for (const reason of [null, ' ', 'x'.repeat(1001)]) {
      await expect(db.queryNoRole('SELECT redrive_outbox_item($1, $2)', [outboxId, reason])).rejects.toMatchObject({
        code: '22023',
      })
    }
  })

  test('is refused after a late report that the rail paid the item (P7006)', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'FAILED', railReference: 'r-1' })
    expect(await reportLate(lease, 'DISPATCHED')).toMatchObject({ eventType: 'TERMINAL_BLOCKED' })
    await expect(propose(olga, lease.outboxId, 'REDRIVE')).rejects.toMatchObject({ sqlstate: 'P7006' })
  })

  test('is not approved after a late report that the rail paid the item (P7006)', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'FAILED', railReference: 'r-1' })
    const proposalId = await propose(olga, lease.outboxId, 'REDRIVE')
    await reportLate(lease, 'DISPATCHED')
    await expect(approve(pavel, proposalId)).rejects.toMatchObject({ sqlstate: 'P7006' })
    expect(await claim(db, lease.railType)).toEqual([])
  })

  test('is refused after a late report that the rail paid an earlier item (P7006)', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'FAILED', railReference: 'r-1' })
    const first = await redrive(lease.outboxId)
    await end(lease.railType, 'FAILED')
    await reportLate(lease, 'DISPATCHED')
    await expect(propose(olga, first, 'REDRIVE')).rejects.toMatchObject({ sqlstate: 'P7006' })
  })

  test('is not approved while a late report of a success is being committed (P7006)', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'FAILED', railReference: 'r-1' })
    const proposalId = await propose(olga, lease.outboxId, 'REDRIVE')
    const reporting = await openConnection(db, 'symphony_executor')
    const approving = await openConnection(db, 'symphony_control')
    await reporting.query('BEGIN')
    await recordLateOutcome(reporting, WORKER, { ...lease, state: 'DISPATCHED', railReference: 'late-1' })
    const refusal = failureOf(approveOutboxProposal(approving, proposalId))
    await untilWaiting(db, approving)
    await reporting.query('COMMIT')
    expect(await refusal).toMatchObject({ sqlstate: 'P7006' })
    expect(await claim(db, lease.railType)).toEqual([])
    await Promise.all([reporting.close(), approving.close()])
  })

  test('is accepted after a late report of another failure', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'FAILED', railReference: 'r-1' })
    expect(await reportLate(lease, 'FAILED')).toMatchObject({ eventType: 'TERMINAL_BLOCKED' })
    await redrive(lease.outboxId)
  })
})

describe('a pending redrive, after a late outcome of an earlier item,', () => {
  test('is held as EARLIER_ITEM_PAID if the outcome is a success; an event names the earlier item', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'FAILED', railReference: 'r-1' })
    const redriven = await redrive(lease.outboxId)
    await reportLate(lease, 'DISPATCHED')
    expect(await pendingRow(db, redriven)).toMatchObject({ hold_reason: 'EARLIER_ITEM_PAID', held_by: WORKER })
    expect((await eventRows(db, redriven)).at(-1)).toMatchObject({
      event_type: 'HOLD_PLACED',
      actor: WORKER,
      detail: { reason: 'EARLIER_ITEM_PAID', paid_as: lease.outboxId },
    })
    expect(await claim(db, lease.railType)).toEqual([])
  })

  test('is held even if the paid item is two redrives back and the redrive is leased', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'FAILED', railReference: 'r-1' })
    const second = await redrive(lease.outboxId)
    await end(lease.railType, 'FAILED')
    const third = await redrive(second)
    const leased = await claimOnly(db, lease.railType)
    await reportLate(lease, 'DISPATCHED')
    expect(await pendingRow(db, third)).toMatchObject({ hold_reason: 'EARLIER_ITEM_PAID' })
    expect(await complete(db, leased, { state: 'RETRYABLE' })).toMatchObject({ held: true })
  })

  test('keeps its earlier hold', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'FAILED', railReference: 'r-1' })
    const redriven = await redrive(lease.outboxId)
    await placeOutboxHold(olga.control, redriven, 'asked by the bank')
    const before = await eventRows(db, redriven)
    await reportLate(lease, 'DISPATCHED')
    expect(await pendingRow(db, redriven)).toMatchObject({ hold_reason: 'asked by the bank' })
    expect(await eventRows(db, redriven)).toEqual(before)
  })

  test.for(['EARLIER_ITEM_PAID', 'asked by the bank'])(
    'cannot be retried while it is held with reason %s (P7006)',
    async (reason) => {
      const lease = await enqueueAndClaim(db)
      await complete(db, lease, { state: 'FAILED', railReference: 'r-1' })
      const redriven = await redrive(lease.outboxId)
      // In the second case the redrive is held before the report, which then does not change the hold.
      if (reason === 'asked by the bank') await placeOutboxHold(olga.control, redriven, reason)
      await reportLate(lease, 'DISPATCHED')
      expect(await pendingRow(db, redriven)).toMatchObject({ hold_reason: reason })
      const retry = resolveOutboxHold(olga.control, redriven, 'RETRY', 'send it', null)
      await expect(retry).rejects.toMatchObject({ sqlstate: 'P7006', message: expect.stringContaining(lease.outboxId) })
      // Two people may still decide FAILED, which sends nothing.
      await approve(pavel, await propose(olga, redriven, 'FAILED'))
      expect(await ledger(db, redriven)).toEqual(['1 FAILED'])
    },
  )

  test('cannot be retried by a proposal made before the late success (P7006)', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'FAILED', railReference: 'r-1' })
    const redriven = await redrive(lease.outboxId)
    const unknown = await claimOnly(db, lease.railType)
    await complete(db, unknown, { state: 'RETRYABLE', outcomeUnknown: true, holdReason: 'no answer' })
    const proposalId = await propose(olga, redriven, 'RETRY')
    await reportLate(lease, 'DISPATCHED')
    await expect(approve(pavel, proposalId)).rejects.toMatchObject({ sqlstate: 'P7006' })
    expect(await claim(db, lease.railType)).toEqual([])
  })

  test.for(['FAILED', 'RETRYABLE'] as const)('stays claimable if the late outcome was %s', async (state) => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'FAILED', railReference: 'r-1' })
    const redriven = await redrive(lease.outboxId)
    await reportLate(lease, state)
    expect(await claimOnly(db, lease.railType)).toMatchObject({ outboxId: redriven })
  })

  test('is held if its approval commits during the late report', async () => {
    const { outboxId, railType } = await enqueueFailed(db)
    const second = await redrive(outboxId)
    const lease = await end(railType, 'FAILED')
    const third = await redrive(second)
    await end(railType, 'FAILED')
    const proposalId = await propose(olga, third, 'REDRIVE')
    const reporting = await openConnection(db, 'symphony_executor')
    const approving = await openConnection(db, 'symphony_control')
    await approving.query('BEGIN')
    const approved = await approveOutboxProposal(approving, proposalId)
    const report = recordLateOutcome(reporting, WORKER, { ...lease, state: 'DISPATCHED', railReference: 'late-1' })
    await untilWaiting(db, reporting)
    await approving.query('COMMIT')
    await report
    expect(await pendingRow(db, approved.redrivenAs!)).toMatchObject({ hold_reason: 'EARLIER_ITEM_PAID' })
    await Promise.all([reporting.close(), approving.close()])
  })
})

describe('idempotency keys', () => {
  test('may have 128 characters, even if the payment is redriven twice', async () => {
    const key = `${randomUUID()}-${'k'.repeat(91)}`
    expect(key).toHaveLength(128)
    const item = await enqueueFailed(db, { idempotencyKey: key })
    const first = await redrive(item.outboxId)
    expect(await claimOnly(db, item.railType).then((lease) => complete(db, lease, { state: 'FAILED' }))).toBeDefined()
    await redrive(first)
    expect(await claimOnly(db, item.railType)).toMatchObject({ idempotencyKey: `${key}~redrive~2` })
  })

  test.for(['k~redrive~1', '~redrive~0', 'k~redrive~1~redrive~23', 'k~redrive~00000000000000000000'])(
    'are refused in an enqueue if they end like the key of a redrive: %s (22023)',
    async (idempotencyKey) => {
      const given = buildInstruction()
      await expect(
        db.queryNoRole('SELECT * FROM enqueue_payment_outbox($1, $2, $3, $4, $5)', [
          given.instructionId,
          given.participantId,
          idempotencyKey,
          given.railType,
          '{}',
        ]),
      ).rejects.toMatchObject({ code: '22023' })
      await expect(enqueue(db, { idempotencyKey })).rejects.toMatchObject({ argument: 'idempotencyKey' })
    },
  )

  test.for(['k~redrive~', 'k~redrive~1x', 'k~REDRIVE~1', 'k~redrive~1~', '~redrive~-1'])(
    'are accepted if they only resemble the key of a redrive: %s',
    async (idempotencyKey) => {
      const item = await enqueueFailed(db, { idempotencyKey })
      await redrive(item.outboxId)
      expect(await keysOf(item.instructionId)).toEqual([idempotencyKey, `${idempotencyKey}~redrive~1`])
    },
  )
})
