import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { JsonObject } from '../../libs/core/index.js'
import {
  approveOutboxLimit,
  beginOutboxDispatch,
  cancelOutboxItem,
  completeOutboxAttempts,
  enqueuePaymentOutbox,
  enqueuePaymentOutboxBatch,
  holdLeasedOutboxItem,
  placeOutboxHold,
  proposeOutboxLimit,
  proposePaymentOutbox,
  readFailedItems,
  recordLateOutcome,
  repairExpiredLeases,
  resolveOutboxHold,
  type ClaimedItem,
  type OutboxInstruction,
} from '../../libs/outbox/index.js'
import { quoteIdentifier } from '../../libs/db/index.js'
import { auditDatabase } from '../../libs/ledger/auditor.js'
import { createTestDatabase, useTestDatabase } from '../support/database.js'
import {
  buildInstruction,
  claim,
  claimOnly,
  complete,
  enqueue,
  enqueueAndClaim,
  makeDueAndClaim,
  pendingRow,
  sequenceOf,
  WORKER,
  type Enqueued,
} from '../support/outboxItems.js'
import { approve, createPerson, enqueueFailed, enqueueHeld, enqueueUnknown, propose } from '../support/outboxPeople.js'
import { failureOf, openConnection } from '../support/race.js'

const db = await useTestDatabase()
const olga = await createPerson(db, 'olga')
const pavel = await createPerson(db, 'pavel')
const executor = db.as('symphony_executor')

type Outcome = JsonObject & { readonly outcomeNo: number; readonly state: string }

/** Returns the stream of the outcome messages of a payment, which contains the id of the payment's first item. */
function streamOf(firstId: string): string {
  return `~outcomes~${firstId}`
}

/** Returns the outcome messages of a payment in order. */
async function outcomes(firstId: string): Promise<Outcome[]> {
  const { rows } = await db.queryNoRole<{ payload: Outcome }>(
    `SELECT payload FROM payment_outbox_pending WHERE participant_id = $1 AND is_message ORDER BY sequence_id`,
    [streamOf(firstId)],
  )
  return rows.map((row) => row.payload)
}

/** Returns the outcome messages as texts such as `1 HELD`. */
async function states(firstId: string): Promise<string[]> {
  return (await outcomes(firstId)).map(({ outcomeNo, state }) => `${outcomeNo} ${state}`)
}

function withTopic(overrides: Partial<OutboxInstruction> = {}): Partial<OutboxInstruction> {
  return { outcomeTopic: `orders-${randomUUID()}`, ...overrides }
}

/** Completes the item as DISPATCHED. */
async function pay(lease: ClaimedItem): Promise<void> {
  await complete(db, lease, { state: 'DISPATCHED', railReference: 'reference-1' })
}

describe('an outcome message', () => {
  test('has every field of the outcome and no payload, and commits with the outcome', async () => {
    const lease = await enqueueAndClaim(db, withTopic())
    await pay(lease)
    const [outcome] = await outcomes(lease.outboxId)
    expect(outcome).toEqual({
      instructionId: lease.instructionId,
      idempotencyKey: lease.idempotencyKey,
      outboxId: lease.outboxId,
      redriveOf: null,
      replaces: null,
      participantId: lease.participantId,
      sequenceId: 1,
      railType: lease.railType,
      state: 'DISPATCHED',
      railReference: 'reference-1',
      errorCode: null,
      holdReason: null,
      attemptNo: 1,
      occurredAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      outcomeNo: 1,
    })
  })

  test('reports on a replacement to the topic of the replaced payment, and names the replaced item', async () => {
    const old = await enqueueFailed(db, withTopic())
    const ingest = db.as('symphony_ingest')
    const { participantId, outboxId: replaces, outcomeTopic } = old
    const corrected = buildInstruction({ participantId, replaces })
    const item = await proposePaymentOutbox(ingest, corrected, 'the account was wrong')
    await approve(pavel, item.proposalId!)
    await complete(db, await claimOnly(db, corrected.railType), { state: 'FAILED', errorCode: 'REFUSED' })
    const { redrivenAs } = await approve(olga, await propose(pavel, item.outboxId, 'REDRIVE'))
    await pay(await claimOnly(db, corrected.railType))
    expect(await outcomes(item.outboxId)).toMatchObject([
      { state: 'HELD', holdReason: 'PAYMENT_APPROVAL', replaces },
      { state: 'RELEASED', replaces },
      { state: 'FAILED', replaces },
      { state: 'DISPATCHED', outboxId: redrivenAs, replaces },
    ])
    const heads = await claim(db, outcomeTopic!)
    expect(heads.map(({ participantId: stream, payload }) => [stream, payload['replaces']])).toEqual([
      [streamOf(old.outboxId), null],
      [streamOf(item.outboxId), replaces],
    ])
    const dead = await readFailedItems(db.as('symphony_readonly'), { participants: [participantId], limit: 10 })
    expect(dead.items.map((one) => [one.item.outboxId, one.replacedBy])).toEqual([
      [item.outboxId, null],
      [old.outboxId, item.outboxId],
    ])
    const undecided = { participants: [participantId], limit: 10, undecided: true }
    expect((await readFailedItems(db.as('symphony_readonly'), undecided)).items).toEqual([])
  })

  test('goes to a replacement’s own topic in a batch, else to that of the replaced payment', async () => {
    const [own, inherited] = [await enqueueFailed(db, withTopic()), await enqueueFailed(db, withTopic())]
    const other = withTopic()
    const items = await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), [
      buildInstruction({ participantId: own.participantId, replaces: own.outboxId, ...other }),
      buildInstruction(),
      buildInstruction({ participantId: inherited.participantId, replaces: inherited.outboxId }),
    ])
    const { rows } = await db.queryNoRole<{ topic: string | null }>(
      'SELECT outcome_topic AS topic FROM payment_outbox_identities WHERE outbox_id = ANY ($1) ORDER BY array_position($1, outbox_id)',
      [items.map(({ outboxId }) => outboxId)],
    )
    expect(rows.map(({ topic }) => topic)).toEqual([other.outcomeTopic, null, inherited.outcomeTopic])
  })

  test('is an ordered message on the payment’s topic, in a stream that names the first outbox id', async () => {
    const { outcomeTopic, outboxId, railType } = await enqueue(db, withTopic())
    await pay(await claimOnly(db, railType))
    const message = await claimOnly(db, outcomeTopic!)
    expect(message).toMatchObject({
      instructionId: streamOf(outboxId),
      participantId: streamOf(outboxId),
      idempotencyKey: '1',
      sequenceId: 1n,
      ordered: true,
    })
  })

  test('waits until the application has completed the previous outcome message of the payment', async () => {
    const item = await enqueueHeld(db, olga, withTopic())
    await resolveOutboxHold(olga.control, item.outboxId, 'RETRY', 'go on', null)
    await pay(await claimOnly(db, item.railType))
    const seen: unknown[] = []
    for (let turn = 1; turn <= 3; turn++) {
      const message = await claimOnly(db, item.outcomeTopic!)
      seen.push(message.payload['state'])
      await complete(db, message, { state: 'DISPATCHED' })
    }
    expect(seen).toEqual(['HELD', 'RELEASED', 'DISPATCHED'])
  })

  test('is rolled back with the completion', async () => {
    const lease = await enqueueAndClaim(db, withTopic())
    const undone = executor.transaction(async (tx) => {
      await completeOutboxAttempts(tx, WORKER, [{ ...lease, state: 'DISPATCHED' }])
      throw new Error('the process dies before COMMIT')
    })
    await expect(undone).rejects.toThrow('the process dies')
    expect(await outcomes(lease.outboxId)).toEqual([])
    await pay(lease)
    expect(await states(lease.outboxId)).toEqual(['1 DISPATCHED'])
  })

  test('is sent for each payment with a topic in a batch, and for no other payment', async () => {
    const railType = `rail-${randomUUID()}`
    const items = await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), [
      buildInstruction(withTopic({ railType })),
      buildInstruction({ railType }),
      buildInstruction(withTopic({ railType })),
    ])
    const leases = await claim(db, railType)
    await completeOutboxAttempts(
      executor,
      WORKER,
      leases.map(({ outboxId, leaseToken }) => ({ outboxId, leaseToken, state: 'DISPATCHED' })),
    )
    const sent = await Promise.all(items.map(({ outboxId }) => states(outboxId)))
    expect(sent).toEqual([['1 DISPATCHED'], [], ['1 DISPATCHED']])
    expect((await sequenceOf(db, streamOf(items[1]!.outboxId))).next).toBeUndefined()
  })

  test('is not sent for an attempt that will be repeated', async () => {
    const lease = await enqueueAndClaim(db, withTopic())
    await complete(db, lease, { state: 'RETRYABLE', errorCode: 'BUSY' })
    expect(await outcomes(lease.outboxId)).toEqual([])
  })

  test('has the next outcomeNo after a redrive, and the id of the failed item in redriveOf', async () => {
    const first = await enqueueFailed(db, withTopic())
    const { redrivenAs } = await approve(pavel, await propose(olga, first.outboxId, 'REDRIVE'))
    await pay(await claimOnly(db, first.railType))
    expect(await outcomes(first.outboxId)).toMatchObject([
      { outcomeNo: 1, state: 'FAILED', errorCode: 'REFUSED', outboxId: first.outboxId, redriveOf: null },
      { outcomeNo: 2, state: 'DISPATCHED', outboxId: redrivenAs, redriveOf: first.outboxId },
    ])
  })

  test('needs no entry in the rail book to pass the audit', async () => {
    await using own = await createTestDatabase()
    const item = await enqueue(own, withTopic())
    await complete(own, await claimOnly(own, item.railType), { state: 'DISPATCHED', railReference: 'reference-1' })
    await complete(own, await claimOnly(own, item.outcomeTopic!), { state: 'DISPATCHED' })
    const effects = [{ reference: item.outboxId, railReference: 'reference-1' }]
    const { invariants } = await auditDatabase(own.as('symphony_auditor'), { effects })
    expect(invariants.filter(({ ok }) => !ok)).toEqual([])
  })

  test('has no outcome messages about itself, even when it is held', async () => {
    const lease = await enqueueAndClaim(db, withTopic())
    await pay(lease)
    const { rows } = await db.queryNoRole<{ outbox_id: string }>(
      'SELECT outbox_id FROM payment_outbox_pending WHERE participant_id = $1',
      [streamOf(lease.outboxId)],
    )
    await placeOutboxHold(olga.control, rows[0]!.outbox_id, 'wait')
    expect(await outcomes(rows[0]!.outbox_id)).toEqual([])
  })
})

describe('the ids of outcome messages', () => {
  test.each(['instructionId', 'participantId'] as const)('are refused as %s of an enqueue (22023)', async (field) => {
    const { outboxId } = await enqueue(db, withTopic())
    const instruction = buildInstruction({ [field]: streamOf(outboxId) })
    for (const isMessage of [false, true]) {
      const failure = await failureOf(enqueuePaymentOutbox(db.as('symphony_ingest'), instruction, { isMessage }))
      expect(failure).toMatchObject({ code: 'INVALID_PARAMETER', message: expect.stringContaining('~outcomes~') })
    }
  })

  test.each<[what: string, act: (item: Enqueued) => Promise<unknown>]>([
    ['completion', async ({ railType }) => pay(await claimOnly(db, railType))],
    ['hold', ({ outboxId }) => placeOutboxHold(olga.control, outboxId, 'please wait')],
    ['cancel', ({ outboxId }) => cancelOutboxItem(db.as('symphony_ingest'), outboxId, 'the order was cancelled')],
  ])('do not conflict with a payment whose instruction id is the outbox id: %s', async (_what, act) => {
    const item = await enqueue(db, withTopic())
    await enqueue(db, { instructionId: item.outboxId, idempotencyKey: '1' })
    await act(item)
    expect(await states(item.outboxId)).toHaveLength(1)
  })

  test('are not locked by an uncommitted enqueue for a participant with the outbox id as its name', async () => {
    const lease = await enqueueAndClaim(db, withTopic())
    const enqueuing = await openConnection(db, 'symphony_ingest')
    await enqueuing.query('BEGIN')
    await enqueuePaymentOutbox(enqueuing, buildInstruction({ participantId: lease.outboxId }))
    await executor.transaction(async (completion) => {
      await completion.query(`SET LOCAL lock_timeout = '1s'`)
      await completeOutboxAttempts(completion, WORKER, [{ ...lease, state: 'DISPATCHED' }])
    })
    expect(await states(lease.outboxId)).toEqual(['1 DISPATCHED'])
    await enqueuing.close()
  })
})

/** Lets the delivery of an outcome message fail this many times. */
async function failDelivery(times: number): Promise<{ readonly outboxId: string; readonly delays: number[] }> {
  const item = await enqueue(db, withTopic())
  await pay(await claimOnly(db, item.railType))
  let message = await claimOnly(db, item.outcomeTopic!)
  const delays: number[] = []
  for (let attempt = 1; ; attempt++) {
    await complete(db, message, { state: 'RETRYABLE', errorCode: 'BUSY' })
    delays.push((await pendingRow(db, message.outboxId))!.retry_after_seconds!)
    if (attempt === times) return { outboxId: message.outboxId, delays }
    message = await makeDueAndClaim(db, message)
  }
}

describe('an outcome message at the retry ceiling', () => {
  test('is held as OUTCOME_NOT_DELIVERED, not FAILED', async () => {
    const { outboxId } = await failDelivery(20)
    expect(await pendingRow(db, outboxId)).toMatchObject({ hold_reason: 'OUTCOME_NOT_DELIVERED', attempt_count: 20 })
  })

  test('is held as OUTCOME_NOT_DELIVERED if the lease of its last attempt expires', async () => {
    const { outboxId } = await failDelivery(19)
    await db.queryNoRole(
      `UPDATE payment_outbox_pending SET next_attempt_at = now(), claimed_by = 'dead', lease_token = gen_random_uuid(),
         lease_expires_at = now() - interval '1 second', claimed_at = now() WHERE outbox_id = $1`,
      [outboxId],
    )
    await repairExpiredLeases(db.as('symphony_executor'), 100, 'repair')
    expect(await pendingRow(db, outboxId)).toMatchObject({ hold_reason: 'OUTCOME_NOT_DELIVERED', attempt_count: 20 })
  })

  test('has waited up to six hours between two attempts', async () => {
    const { delays } = await failDelivery(19)
    expect(Math.max(...delays)).toBeGreaterThan(0.8 * 21_600 - 1)
    expect(Math.max(...delays)).toBeLessThanOrEqual(21_600)
  })

  test('is held again if the attempt after a RETRY fails', async () => {
    const { outboxId } = await failDelivery(20)
    await resolveOutboxHold(olga.control, outboxId, 'RETRY', 'the handler is mended', null)
    const { rows } = await db.queryNoRole<{ rail_type: string }>(
      'SELECT rail_type FROM payment_outbox_pending WHERE outbox_id = $1',
      [outboxId],
    )
    await complete(db, await claimOnly(db, rows[0]!.rail_type), { state: 'RETRYABLE', errorCode: 'BUSY' })
    expect(await pendingRow(db, outboxId)).toMatchObject({ hold_reason: 'OUTCOME_NOT_DELIVERED' })
  })
})

describe('an outcome topic', () => {
  test('is refused for a message (22023)', async () => {
    const message = buildInstruction(withTopic())
    const failure = await failureOf(enqueuePaymentOutbox(db.as('symphony_ingest'), message, { isMessage: true }))
    expect(failure).toMatchObject({ code: 'INVALID_PARAMETER' })
    expect(String(failure)).toContain('p_outcome_topic')
  })

  test('stays that of the first enqueue when a repeated enqueue names another topic', async () => {
    const first = buildInstruction(withTopic())
    await enqueue(db, first)
    expect(await enqueue(db, { ...first, outcomeTopic: 'another' })).toMatchObject({ created: false })
    await pay(await claimOnly(db, first.railType))
    expect(await claim(db, first.outcomeTopic!)).toHaveLength(1)
  })
})

/**
 * Every function that can end, hold or release a payment, and a case that calls it. The test below finds these
 * functions by their bodies, so that a new path without a case here fails.
 */
const PATHS: Readonly<Record<string, () => Promise<readonly [firstId: string, sent: readonly string[]]>>> = {
  complete_dispatched_outbox_items: async () => {
    const lease = await enqueueAndClaim(db, withTopic())
    await pay(lease)
    return [lease.outboxId, ['1 DISPATCHED']]
  },
  complete_outbox_attempts: async () => {
    const lease = await enqueueAndClaim(db, withTopic())
    await complete(db, lease, { state: 'RETRYABLE', outcomeUnknown: true, holdReason: 'no answer' })
    return [lease.outboxId, ['1 HELD']]
  },
  propose_payment_outbox: async () => {
    const item = await proposePaymentOutbox(db.as('symphony_ingest'), buildInstruction(withTopic()), 'by hand')
    return [item.outboxId, ['1 HELD']]
  },
  apply_outbox_decision: async () => {
    const item = await enqueueUnknown(db, withTopic())
    await approve(pavel, await propose(olga, item.outboxId, 'DISPATCHED'))
    return [item.outboxId, ['1 HELD', '2 DISPATCHED']]
  },
  end_outbox_item: async () => {
    const item = await enqueue(db, withTopic())
    await cancelOutboxItem(db.as('symphony_ingest'), item.outboxId, 'the order was cancelled')
    return [item.outboxId, ['1 FAILED']]
  },
  place_outbox_hold: async () => {
    const item = await enqueueHeld(db, olga, withTopic())
    return [item.outboxId, ['1 HELD']]
  },
  hold_leased_outbox_item: async () => {
    const lease = await enqueueAndClaim(db, withTopic())
    await holdLeasedOutboxItem(executor, lease, WORKER, 'POISON')
    return [lease.outboxId, ['1 HELD']]
  },
  expire_outbox_leases: async () => {
    const item = await enqueue(db, withTopic())
    const lease = await claimOnly(db, item.railType, { marked: true })
    await beginOutboxDispatch(executor, lease, WORKER)
    await db.expireLease(lease.outboxId)
    await claim(db, item.railType, { marked: true })
    return [item.outboxId, ['1 HELD']]
  },
  apply_outbox_limits: async () => {
    const { railType } = buildInstruction()
    const rule = { kind: 'count', limit: '0', railType, windowSeconds: 60 } as const
    await approveOutboxLimit(pavel.control, await proposeOutboxLimit(olga.control, railType, rule, 'as agreed'))
    const item = await enqueue(db, withTopic({ railType }))
    await resolveOutboxHold(olga.control, item.outboxId, 'RETRY', 'go on', null)
    expect(await outcomes(item.outboxId)).toMatchObject([{ holdReason: 'LIMIT_EXCEEDED' }, { holdReason: null }])
    return [item.outboxId, ['1 HELD', '2 RELEASED']]
  },
  hold_outbox_redrives: async () => {
    const item = await enqueue(db, withTopic())
    const lease = await claimOnly(db, item.railType)
    await complete(db, lease, { state: 'FAILED' })
    await approve(pavel, await propose(olga, item.outboxId, 'REDRIVE'))
    await recordLateOutcome(executor, WORKER, { ...lease, state: 'DISPATCHED', railReference: 'late-1' })
    return [item.outboxId, ['1 FAILED', '2 HELD']]
  },
}

describe('SQL functions that can end, hold or release a payment', () => {
  test.each(Object.entries(PATHS))('send an outcome message: %s', async (_, go) => {
    const [firstId, sent] = await go()
    expect(await states(firstId)).toEqual(sent)
  })

  test('are exactly those that insert into payment_outbox_attempts or set hold_reason', async () => {
    const { rows } = await db.queryNoRole<{ proname: string }>(
      `SELECT p.proname FROM pg_proc p
       WHERE p.pronamespace = $1::regnamespace
         AND (p.prosrc ~ 'INSERT INTO payment_outbox_attempts' OR p.prosrc ~ '(SET|,)\\s+hold_reason = ')
       ORDER BY 1`,
      [quoteIdentifier(db.schema)],
    )
    expect(rows.map((row) => row.proname)).toEqual(Object.keys(PATHS).toSorted())
  })

  test('send RELEASED when one person resolves a hold by RETRY', async () => {
    const item = await enqueueHeld(db, olga, withTopic())
    await resolveOutboxHold(olga.control, item.outboxId, 'RETRY', 'go on', null)
    expect(await states(item.outboxId)).toEqual(['1 HELD', '2 RELEASED'])
    expect(await outcomes(item.outboxId)).toMatchObject([{ holdReason: 'please wait' }, { holdReason: null }])
  })

  test('send FAILED when two people decide that the payment was not made', async () => {
    const item = await enqueueUnknown(db, withTopic())
    await approve(pavel, await propose(olga, item.outboxId, 'FAILED'))
    expect(await outcomes(item.outboxId)).toMatchObject([
      { state: 'HELD', attemptNo: 1 },
      { state: 'FAILED', attemptNo: 2, errorCode: 'OPERATOR_DECISION' },
    ])
  })
})
