import { afterEach, describe, expect, test } from 'vitest'
import { NotCancellableError } from '../../libs/db/index.js'
import {
  approveOutboxProposal,
  cancelOutboxInstruction,
  cancelOutboxItem,
  claimOutboxBatch,
  enqueuePaymentOutbox,
  enqueuePaymentOutboxBatch,
  freezeDispatch,
  liftDispatchFreeze,
  pauseOutbox,
  placeOutboxHold,
  readFailedItems,
  readOutboxStatus,
  readReplays,
  recordLateOutcome,
  releaseOutboxLease,
  repairExpiredLeases,
  resumeOutbox,
  searchItems,
  setParticipantOutboxPolicy,
} from '../../libs/outbox/index.js'
import { useTestDatabase, withTestDatabase, type TestDatabase } from '../support/database.js'
import { rowHashes } from '../support/fingerprint.js'
import { createKey, gatewayOf } from '../support/httpFixture.js'
import { auditLedger } from '../support/ledgerFixture.js'
import { epochRow, rewindEpoch } from '../support/outboxEpochs.js'
import {
  attemptRows,
  buildInstruction,
  claim,
  claimOnly,
  complete,
  enqueue,
  enqueueAndClaim,
  enqueueAndFail,
  eventRows,
  ledger,
  pendingRow,
  WORKER,
  type Enqueued,
} from '../support/outboxItems.js'
import { approve, createPerson, enqueueFailed, enqueueHeld, enqueueUnknown, propose } from '../support/outboxPeople.js'
import { closeTransactions, openTransaction, Stream } from '../support/outboxStream.js'
import { failureOf, openConnection, race, untilWaiting, type Connection } from '../support/race.js'

const db = await useTestDatabase()
const olga = await createPerson(db, 'olga')
const pavel = await createPerson(db, 'pavel')
afterEach(closeTransactions)

const REASON = 'the order was cancelled'
const ingest = () => db.as('symphony_ingest')

/** Returns the reason for which a cancel is refused. */
async function refusalOf(outboxId: string, of = db): Promise<string | undefined> {
  const error = await failureOf(cancelOutboxItem(of.as('symphony_ingest'), outboxId, REASON))
  if (!(error instanceof NotCancellableError)) throw error
  expect(error).toMatchObject({ code: 'NOT_CANCELLABLE', sqlstate: 'P7013', disposition: 'fatal' })
  expect(error.remedy).toMatch(/\S/)
  expect(error.remedy).toBe(error.hint)
  return error.reason
}

async function redrive(outboxId: string): Promise<string> {
  return (await approve(pavel, await propose(olga, outboxId, 'REDRIVE'))).redrivenAs!
}

describe('cancel_outbox_item', () => {
  test('ends the item as FAILED with the code CANCELLED, the reason and the actor', async () => {
    const { outboxId } = await enqueue(db)
    const cancelled = await cancelOutboxItem(olga.control, outboxId, REASON)
    const attempts = await attemptRows(db, outboxId)
    expect(attempts).toMatchObject([
      {
        attempt_no: 1,
        state: 'FAILED',
        error_code: 'CANCELLED',
        error_message: REASON,
        worker_id: olga.name,
        action: 'cancelled',
        lease_token: null,
        claimed_at: null,
        rail_reference: null,
        outcome_unknown: false,
      },
    ])
    expect(cancelled).toEqual({ outboxId, attemptId: attempts[0]!.attempt_id })
    expect(await pendingRow(db, outboxId)).toBeUndefined()
    expect(await eventRows(db, outboxId)).toEqual([])
  })

  test.each<[string, () => Promise<Pick<Enqueued, 'outboxId'>>]>([
    ['an item scheduled for tomorrow', () => enqueue(db, { notBefore: new Date(Date.now() + 86_400_000) })],
    ['a held item', () => enqueueHeld(db, olga)],
    ['an item whose attempts were definitely refused', () => enqueueAndFail(db, 2)],
    [
      'an item of a paused participant',
      async () => {
        const item = await enqueue(db)
        await pauseOutbox(olga.control, 'participant', item.participantId, 'audit')
        return item
      },
    ],
    [
      'an item whose lease was released before the call',
      async () => {
        const lease = await enqueueAndClaim(db)
        await releaseOutboxLease(db.as('symphony_executor'), lease, WORKER)
        return lease
      },
    ],
    [
      'an item whose marked call never began',
      async () => {
        const lease = await enqueueAndClaim(db, {}, { marked: true })
        await db.expireLease(lease.outboxId)
        await repairExpiredLeases(db.as('symphony_executor'), 100, 'repairer')
        return lease
      },
    ],
    [
      'a message that reports no outcome',
      async () => {
        const [message] = await enqueuePaymentOutboxBatch(ingest(), [buildInstruction()], { isMessage: true })
        return message!
      },
    ],
  ])('cancels %s', async (_, create) => {
    const { outboxId } = await create()
    const before = await ledger(db, outboxId)
    await cancelOutboxItem(ingest(), outboxId, REASON)
    expect(await ledger(db, outboxId)).toEqual([...before, `${before.length + 1} FAILED`])
    expect(await pendingRow(db, outboxId)).toBeUndefined()
  })

  test.each<[string, string, () => Promise<string>]>([
    ['LEASED', 'an item with a live lease', async () => (await enqueueAndClaim(db)).outboxId],
    [
      'LEASED',
      'an item with an expired lease that is not repaired',
      async () => {
        const { outboxId } = await enqueueAndClaim(db)
        await db.expireLease(outboxId)
        return outboxId
      },
    ],
    [
      'OUTCOME_UNKNOWN',
      'an item whose expired lease was repaired',
      async () => {
        const { outboxId } = await enqueueAndClaim(db)
        await db.expireLease(outboxId)
        await repairExpiredLeases(db.as('symphony_executor'), 100, 'repairer')
        return outboxId
      },
    ],
    ['OUTCOME_UNKNOWN', 'a held item of unknown outcome', async () => (await enqueueUnknown(db)).outboxId],
    [
      'LATE_OUTCOME',
      'an item with a late report of a refusal',
      async () => {
        const lease = await enqueueAndClaim(db)
        await complete(db, lease, { state: 'RETRYABLE' })
        await recordLateOutcome(db.as('symphony_executor'), WORKER, { ...lease, state: 'FAILED', railReference: 'l' })
        return lease.outboxId
      },
    ],
    [
      'LATE_OUTCOME',
      'a redrive after a late report that the rail paid the first item',
      async () => {
        const { railType } = await enqueue(db)
        const lease = await claimOnly(db, railType)
        await complete(db, lease, { state: 'FAILED' })
        const redriven = await redrive(lease.outboxId)
        await recordLateOutcome(db.as('symphony_executor'), WORKER, {
          ...lease,
          state: 'DISPATCHED',
          railReference: 'l',
        })
        expect(await pendingRow(db, redriven)).toMatchObject({ outcome_unknown: false, late_outcome: null })
        return redriven
      },
    ],
    [
      'DISPATCHED',
      'a paid item',
      async () => {
        const lease = await enqueueAndClaim(db)
        await complete(db, lease, { state: 'DISPATCHED', railReference: 'ref' })
        return lease.outboxId
      },
    ],
    ['FAILED', 'a failed item', async () => (await enqueueFailed(db)).outboxId],
    [
      'CANCELLED',
      'an item that was cancelled before',
      async () => {
        const { outboxId } = await enqueue(db)
        await cancelOutboxItem(ingest(), outboxId, REASON)
        return outboxId
      },
    ],
  ])('refuses with %s and changes nothing: %s', async (reason, _, create) => {
    const outboxId = await create()
    const before = await rowHashes(db)
    expect(await refusalOf(outboxId)).toBe(reason)
    expect(await rowHashes(db)).toEqual(before)
  })

  test('refuses a message that reports an outcome (OUTCOME_MESSAGE), even for operators', async () => {
    const { outboxId } = await enqueue(db, { outcomeTopic: 'orders' })
    await cancelOutboxItem(ingest(), outboxId, REASON)
    const [message] = await messagesAbout(db, outboxId)
    expect(await refusalOf(message!.outbox_id)).toBe('OUTCOME_MESSAGE')
    const error = await failureOf(cancelOutboxItem(olga.control, message!.outbox_id, REASON))
    expect(error).toMatchObject({ reason: 'OUTCOME_MESSAGE' })
  })

  test('refuses an item with neither pending row nor terminal attempt; the error has no reason', async () => {
    await withTestDatabase(async (own) => {
      const { outboxId } = await enqueue(own)
      await own.queryNoRole('DELETE FROM payment_outbox_pending')
      expect(await refusalOf(outboxId, own)).toBeUndefined()
    })
  })

  test('withdraws an open proposal of the item, and records that as an event', async () => {
    const { outboxId } = await enqueueHeld(db, olga)
    const proposalId = await propose(olga, outboxId, 'FAILED')
    await cancelOutboxItem(pavel.control, outboxId, REASON)
    const { rows } = await db.queryNoRole(
      'SELECT status, decided_by, decided_at IS NOT NULL AS decided FROM payment_outbox_proposals WHERE proposal_id = $1',
      [proposalId],
    )
    expect(rows).toEqual([{ status: 'WITHDRAWN', decided_by: pavel.name, decided: true }])
    expect((await eventRows(db, outboxId)).at(-1)).toMatchObject({
      event_type: 'DECISION_WITHDRAWN',
      actor: pavel.name,
      detail: { proposal_id: proposalId, decision: 'FAILED', reason: REASON },
    })
    expect(await failureOf(approveOutboxProposal(pavel.control, proposalId))).toMatchObject({ sqlstate: 'P7006' })
  })

  test('sends the outcome FAILED with the code CANCELLED to the outcome topic of the payment', async () => {
    const { outboxId, instructionId } = await enqueue(db, { outcomeTopic: 'orders' })
    await cancelOutboxItem(ingest(), outboxId, REASON)
    expect(await messagesAbout(db, outboxId)).toMatchObject([
      { rail_type: 'orders', payload: { instructionId, outboxId, state: 'FAILED', errorCode: 'CANCELLED' } },
    ])
  })

  test('records the owner of the gateway’s API key as actor; refuses a key of scope read (P7016)', async () => {
    const { database } = await gatewayOf(db)
    const act = async (scope: 'ingest' | 'operate' | 'read') => {
      const { outboxId } = await enqueue(db)
      const { key, keyId } = await createKey(db, { scopes: [scope], owner: `shop-${scope}` })
      const { rows } = await db.queryNoRole<{ hash: string }>(
        `SELECT encode(secret_hash, 'hex') AS hash FROM api_keys WHERE key_id = $1`,
        [keyId],
      )
      expect(key).toContain(keyId)
      await database.as('symphony_ingest').transaction(async (tx) => {
        await tx.query(`SELECT set_config('symphony.api_key', $1, true)`, [`${keyId}:${rows[0]!.hash}`])
        await cancelOutboxItem(tx, outboxId, REASON)
      })
      return (await attemptRows(db, outboxId))[0]!.worker_id
    }
    expect(await act('ingest')).toBe('shop-ingest')
    expect(await act('operate')).toBe('shop-operate')
    expect(await failureOf(act('read'))).toMatchObject({ sqlstate: 'P7016' })
  })
})

interface OutcomeMessage {
  readonly outbox_id: string
  readonly rail_type: string
  readonly payload: Readonly<Record<string, unknown>>
}

async function messagesAbout(of: TestDatabase, outboxId: string): Promise<OutcomeMessage[]> {
  const { rows } = await of.queryNoRole<OutcomeMessage>(
    'SELECT outbox_id, rail_type, payload FROM payment_outbox_pending WHERE is_message AND participant_id = $1',
    [`~outcomes~${outboxId}`],
  )
  return rows
}

describe('cancel_outbox_instruction', () => {
  test('cancels the item with the given instruction id and idempotency key', async () => {
    const { outboxId, instructionId, idempotencyKey } = await enqueue(db)
    const cancelled = await cancelOutboxInstruction(ingest(), instructionId, idempotencyKey, REASON)
    expect(cancelled).toMatchObject({ outboxId })
    expect(await ledger(db, outboxId)).toEqual(['1 FAILED'])
  })

  test('cancels the newest redrive of a payment if given the key of its first item', async () => {
    const item = await enqueueFailed(db)
    const second = await redrive(item.outboxId)
    await complete(db, await claimOnly(db, item.railType), { state: 'FAILED' })
    const third = await redrive(second)
    const cancelled = await cancelOutboxInstruction(ingest(), item.instructionId, item.idempotencyKey, REASON)
    expect(cancelled).toMatchObject({ outboxId: third })
  })

  test('refuses an unknown pair of instruction and key (22023)', async () => {
    const { instructionId } = await enqueue(db)
    for (const [id, key] of [
      [instructionId, 'other-key'],
      ['other-instruction', instructionId],
    ] as const) {
      expect(await failureOf(cancelOutboxInstruction(ingest(), id, key, REASON))).toMatchObject({ sqlstate: '22023' })
    }
  })
})

describe('a cancelled item of an ordered stream', () => {
  test('unblocks the next item, even under policy halt', async () => {
    for (const policy of ['continue', 'halt'] as const) {
      const stream = new Stream(db)
      await setParticipantOutboxPolicy(olga.control, stream.participantId, policy)
      const ids = [await stream.enqueue(), await stream.enqueue(), await stream.enqueue()]
      await cancelOutboxItem(ingest(), ids[0]!, REASON)
      expect(await stream.drain()).toEqual(ids.slice(1))
    }
  })

  test('is skipped if it is not the head of its stream', async () => {
    const stream = new Stream(db)
    const ids = [await stream.enqueue(), await stream.enqueue(), await stream.enqueue()]
    await cancelOutboxItem(ingest(), ids[1]!, REASON)
    expect(await stream.drain()).toEqual([ids[0], ids[2]])
  })

  test('does not resume a paused stream', async () => {
    const stream = new Stream(db)
    const ids = [await stream.enqueue(), await stream.enqueue()]
    await pauseOutbox(olga.control, 'stream', stream.participantId, 'audit')
    await cancelOutboxItem(ingest(), ids[0]!, REASON)
    expect(await stream.claimed()).toEqual([])
    await resumeOutbox(olga.control, 'stream', stream.participantId, 'done')
    expect(await stream.claimed()).toEqual([ids[1]])
  })

  test('does not prevent the redrive of the failed head before it', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    const ids = [await stream.enqueue(), await stream.enqueue(), await stream.enqueue()]
    await complete(db, await stream.claimOnly(), { state: 'FAILED' })
    await cancelOutboxItem(ingest(), ids[1]!, REASON)
    const redriven = await redrive(ids[0]!)
    await resumeOutbox(olga.control, 'stream', stream.participantId, 'done')
    expect(await stream.drain()).toEqual([redriven, ids[2]])
  })
})

describe('a redrive after a cancellation', () => {
  test('is refused for a cancelled item (P7001), and the hint names the field `replaces`', async () => {
    const { outboxId } = await enqueue(db)
    await cancelOutboxItem(ingest(), outboxId, REASON)
    expect(await failureOf(propose(olga, outboxId, 'REDRIVE'))).toMatchObject({
      sqlstate: 'P7001',
      hint: expect.stringContaining('replaces'),
    })
  })

  test('is refused for a failed item whose first redrive was cancelled (P7001)', async () => {
    const { outboxId } = await enqueueFailed(db)
    await cancelOutboxItem(ingest(), await redrive(outboxId), REASON)
    expect(await failureOf(propose(olga, outboxId, 'REDRIVE'))).toMatchObject({ sqlstate: 'P7001' })
  })

  test('is possible for an item that a worker recorded as FAILED with the code CANCELLED', async () => {
    const stream = new Stream(db)
    await setParticipantOutboxPolicy(olga.control, stream.participantId, 'halt')
    const ids = [await stream.enqueue(), await stream.enqueue()]
    await complete(db, await stream.claimOnly(), { state: 'FAILED', errorCode: 'CANCELLED' })
    expect(await stream.claimed()).toEqual([])
    expect(await refusalOf(ids[0]!)).toBe('FAILED')
    expect(await redrive(ids[0]!)).toMatch(/^[0-9a-f-]{36}$/)
  })
})

describe('a cancel after a freeze or a restore', () => {
  test('is refused for items older than the freeze, even after the lift, but not for newer items', async () => {
    await withTestDatabase(async (own) => {
      const control = own.as('symphony_control')
      const before = await enqueue(own)
      await claim(own, 'none')
      await freezeDispatch(control, 'restored by hand')
      const after = await enqueue(own)
      expect(await epochRow(own)).toMatchObject({ frozen: true, marked_at: null })
      expect(await refusalOf(before.outboxId, own)).toBe('DISPATCH_FROZEN')
      // The item was enqueued after the freeze, so no call can have paid it.
      await cancelOutboxItem(own.as('symphony_ingest'), after.outboxId, REASON)
      await liftDispatchFreeze(control, 'compared')
      expect(await refusalOf(before.outboxId, own)).toBe('OUTCOME_UNKNOWN')
    })
  })

  test('is refused on a restored copy (DISPATCH_FROZEN), even before a claim freezes dispatch', async () => {
    await withTestDatabase(async (own) => {
      const { outboxId } = await enqueue(own)
      await claim(own, 'none')
      await rewindEpoch(own, 'system_identifier = system_identifier + 1')
      expect(await refusalOf(outboxId, own)).toBe('DISPATCH_FROZEN')
      expect(await pendingRow(own, outboxId)).toBeDefined()
    })
  })
})

describe("a cancel in the caller's transaction", () => {
  test('is rolled back with the transaction, and the item stays due', async () => {
    const { outboxId, railType } = await enqueue(db)
    const application = await openTransaction(db, 'symphony_ingest')
    await cancelOutboxItem(application, outboxId, REASON)
    await application.query('ROLLBACK')
    expect(await ledger(db, outboxId)).toEqual([])
    expect((await claimOnly(db, railType)).outboxId).toBe(outboxId)
  })

  test('succeeds even if the same transaction enqueued the item', async () => {
    const application = await openTransaction(db, 'symphony_ingest')
    const instruction = buildInstruction({ ordered: true })
    const { outboxId } = await enqueuePaymentOutbox(application, instruction)
    await cancelOutboxItem(application, outboxId, REASON)
    await application.query('COMMIT')
    expect(await claim(db, instruction.railType)).toEqual([])
    expect(await ledger(db, outboxId)).toEqual(['1 FAILED'])
    expect(await enqueuePaymentOutbox(ingest(), instruction)).toMatchObject({
      outboxId,
      state: 'FAILED',
      created: false,
    })
  })

  test.each(['REPEATABLE READ', 'SERIALIZABLE'])('is refused under %s (40001)', async (level) => {
    const { outboxId, instructionId, idempotencyKey } = await enqueue(db)
    for (const cancel of [
      (tx: Connection) => cancelOutboxItem(tx, outboxId, REASON),
      (tx: Connection) => cancelOutboxInstruction(tx, instructionId, idempotencyKey, REASON),
    ]) {
      const application = await openTransaction(db, 'symphony_ingest')
      await application.query('ROLLBACK')
      await application.query(`BEGIN ISOLATION LEVEL ${level}`)
      expect(await failureOf(cancel(application))).toMatchObject({ sqlstate: '40001', disposition: 'retry' })
    }
    expect(await pendingRow(db, outboxId)).toBeDefined()
  })
})

describe('a concurrent cancel', () => {
  test('waits for an open claim and is refused after the claim commits (LEASED)', async () => {
    const { outboxId, railType } = await enqueue(db)
    const worker = await openTransaction(db, 'symphony_executor')
    expect(await claimOutboxBatch(worker, 1, WORKER, 60, { rails: [railType] })).toHaveLength(1)
    const application = await openTransaction(db, 'symphony_ingest')
    const cancelling = failureOf(cancelOutboxItem(application, outboxId, REASON))
    await untilWaiting(db, application)
    await worker.query('COMMIT')
    expect(await cancelling).toMatchObject({ reason: 'LEASED' })
  })

  test('succeeds if the open claim is rolled back', async () => {
    const { outboxId, railType } = await enqueue(db)
    const worker = await openTransaction(db, 'symphony_executor')
    await claimOutboxBatch(worker, 1, WORKER, 60, { rails: [railType] })
    const application = await openTransaction(db, 'symphony_ingest')
    const cancelling = cancelOutboxItem(application, outboxId, REASON)
    await untilWaiting(db, application)
    await worker.query('ROLLBACK')
    await expect(cancelling).resolves.toMatchObject({ outboxId })
  })

  test('makes a later claim skip the item, before and after the COMMIT of the cancel', async () => {
    const { outboxId, railType } = await enqueue(db)
    const application = await openTransaction(db, 'symphony_ingest')
    await cancelOutboxItem(application, outboxId, REASON)
    expect(await claim(db, railType)).toEqual([])
    await application.query('COMMIT')
    expect(await claim(db, railType)).toEqual([])
  })

  test('waits for an open completion and is refused after the completion commits (DISPATCHED)', async () => {
    const lease = await enqueueAndClaim(db)
    const worker = await openTransaction(db, 'symphony_executor')
    const { outboxId, leaseToken } = lease
    await worker.query(`SELECT * FROM ${db.qualify('complete_outbox_attempt')}($1, $2, $3, 'DISPATCHED')`, [
      outboxId,
      leaseToken,
      WORKER,
    ])
    const application = await openTransaction(db, 'symphony_ingest')
    const cancelling = failureOf(cancelOutboxItem(application, outboxId, REASON))
    await untilWaiting(db, application)
    await worker.query('COMMIT')
    expect(await cancelling).toMatchObject({ reason: 'DISPATCHED' })
  })

  test('makes a replacing enqueue wait until the cancel commits; the enqueue then succeeds', async () => {
    const { outboxId, participantId } = await enqueue(db)
    const application = await openTransaction(db, 'symphony_ingest')
    await cancelOutboxItem(application, outboxId, REASON)
    const other = await openTransaction(db, 'symphony_ingest')
    const instruction = buildInstruction({ participantId, replaces: outboxId })
    const replacing = enqueuePaymentOutbox(other, instruction).catch((error: unknown) => error)
    await untilWaiting(db, other)
    await application.query('COMMIT')
    expect(await replacing).toMatchObject({ created: true })
  })

  test('makes an approval of FAILED wait and fail; if the approval is first, the cancel fails', async () => {
    const first = await enqueueHeld(db, olga)
    const proposal = await propose(olga, first.outboxId, 'FAILED')
    const people = await openConnection(db, 'symphony_control')
    try {
      const application = await openTransaction(db, 'symphony_ingest')
      await cancelOutboxItem(application, first.outboxId, REASON)
      const approving = failureOf(approveOutboxProposal(people, proposal))
      await untilWaiting(db, people)
      await application.query('COMMIT')
      expect(await approving).toMatchObject({ sqlstate: 'P7006' })

      const second = await enqueueHeld(db, olga)
      const other = await propose(olga, second.outboxId, 'FAILED')
      await people.query('BEGIN')
      await approveOutboxProposal(people, other)
      const late = await openTransaction(db, 'symphony_ingest')
      const cancelling = failureOf(cancelOutboxItem(late, second.outboxId, REASON))
      await untilWaiting(db, late)
      await people.query('COMMIT')
      expect(await cancelling).toMatchObject({ reason: 'FAILED' })
    } finally {
      await people.close()
    }
  })

  test('never succeeds together with a claim or another cancel of the same item', async () => {
    const railType = buildInstruction().railType
    const items: string[] = []
    for (let index = 0; index < 60; index += 1) items.push((await enqueue(db, { railType })).outboxId)
    const claiming = race(db, 'symphony_executor', 3, async (connection, index) => {
      const claimed: string[] = []
      for (let round = 0; round < 20; round += 1) {
        const batch = await claimOutboxBatch(connection, 2, `racer-${index}`, 600, { rails: [railType] })
        claimed.push(...batch.map(({ outboxId }) => outboxId))
      }
      return claimed
    })
    const cancelling = race(db, 'symphony_ingest', 3, async (connection) => {
      const cancelled: string[] = []
      for (const outboxId of items.toReversed()) {
        try {
          cancelled.push((await cancelOutboxItem(connection, outboxId, REASON)).outboxId)
        } catch (error) {
          if (!(error instanceof NotCancellableError)) throw error
        }
      }
      return cancelled
    })
    const [claims, cancels] = [await claiming, await cancelling]
    expect([...claims.errors, ...cancels.errors]).toEqual([])
    const winners = [...claims.values.flat(), ...cancels.values.flat()]
    expect(winners.toSorted()).toEqual(items.toSorted())
    expect(cancels.values.flat().length).toBeGreaterThan(0)
    expect(claims.values.flat().length).toBeGreaterThan(0)
  })
})

describe('cancelled items', () => {
  test('count as failed and as cancelled, and are not reported as recent failures', async () => {
    await withTestDatabase(async (own) => {
      const status = () => readOutboxStatus(own.as('symphony_readonly'))
      for (const _ of [1, 2]) await cancelOutboxItem(own.as('symphony_ingest'), (await enqueue(own)).outboxId, REASON)
      const counted = { failedTotal: 2n, dlqDepth: 2n, failedLastHour: 2n, cancelledTotal: 2n, cancelledLastHour: 2n }
      const alert = { failedRecently: 0n, failedRecentlyAgeSeconds: 0 }
      expect(await status()).toMatchObject({ ...counted, ...alert })
      await enqueueFailed(own)
      expect(await status()).toMatchObject({ failedTotal: 3n, cancelledTotal: 2n, failedRecently: 1n })
      // Lease repair merges the counts into one row per minute, and minutes of an earlier day into one row.
      await repairExpiredLeases(own.as('symphony_executor'), 1, 'repairer')
      await own.queryNoRole(`UPDATE outbox_attempt_totals SET minute = minute - interval '1 day'`)
      await repairExpiredLeases(own.as('symphony_executor'), 1, 'repairer')
      expect(await status()).toMatchObject({ failedTotal: 3n, cancelledTotal: 2n, cancelledLastHour: 0n })
    })
  })

  test('are absent from the list of dead letters, and present among the FAILED items', async () => {
    const railType = buildInstruction().railType
    const cancelled = await enqueue(db, { railType })
    await cancelOutboxItem(ingest(), cancelled.outboxId, REASON)
    const failed = await enqueueFailed(db, { railType })
    const reader = db.as('symphony_readonly')
    const { items } = await readFailedItems(reader, { railType, limit: 10 })
    expect(items.map(({ item }) => item.outboxId)).toEqual([failed.outboxId])
    const { ids } = await searchItems(reader, { railType, state: 'FAILED', limit: 10 })
    expect(ids).toEqual([failed.outboxId, cancelled.outboxId])
  })

  test('break invariant I5 if the rail paid one; items that two people decided as FAILED do not', async () => {
    await withTestDatabase(async (own) => {
      const [first, second] = [await createPerson(own, 'first'), await createPerson(own, 'second')]
      const cancelled = await enqueue(own)
      await cancelOutboxItem(own.as('symphony_ingest'), cancelled.outboxId, REASON)
      const decided = await enqueueHeld(own, first)
      await approve(second, await propose(first, decided.outboxId, 'FAILED'))
      const claimed = await enqueueAndClaim(own)
      await complete(own, claimed, { state: 'FAILED', errorCode: 'OPERATOR_DECISION' })
      const paid = [cancelled, decided, claimed].map(({ outboxId }) => outboxId)
      const effects = paid.map((reference) => ({ reference, railReference: `paid ${reference}` }))
      const { invariants } = await auditLedger(own, { effects, drained: true })
      const found = invariants.find(({ id }) => id === 'I5')?.found
      expect(found?.toSorted()).toEqual([cancelled.outboxId, claimed.outboxId].toSorted())
    })
  })

  test('can be replayed from their events if full_trail is on; the replay ends with no pending row', async () => {
    await withTestDatabase(async (own) => {
      await own.queryNoRole('UPDATE symphony_settings SET full_trail = true')
      const { outboxId } = await enqueue(own)
      await placeOutboxHold(own.as('symphony_control'), outboxId, 'please wait')
      await cancelOutboxItem(own.as('symphony_ingest'), outboxId, REASON)
      const [replay] = await readReplays(own.as('symphony_auditor'), [outboxId])
      expect(replay).toMatchObject({ verdict: 'equal', pending: null, gap: null })
      expect((await eventRows(own, outboxId)).map(({ event_type: type }) => type)).toEqual([
        'ENQUEUED',
        'HOLD_PLACED',
        'ATTEMPT_COMPLETED',
      ])
    })
  })
})
