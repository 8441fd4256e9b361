import { describe, expect, test } from 'vitest'
import { call } from '../../libs/db/index.js'
import {
  beginOutboxDispatch,
  completeOutboxAttempts,
  readAttempts,
  readItems,
  repairExpiredLeases,
  type AttemptOutcome,
  type ClaimedItem,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { claim, complete, enqueueAndClaim, makeDueAndClaim, WORKER } from '../support/outboxItems.js'
import { approve, createPerson, enqueueUnknown, propose } from '../support/outboxPeople.js'
import { failureOf } from '../support/race.js'

/** Tests that each ledger row stores the attempt's action and whether the outcome was unknown after it. */

const db = await useTestDatabase()
const alice = await createPerson(db, 'alice')
const bob = await createPerson(db, 'bob')

/** Returns the ledger of an item, such as `['RETRYABLE sent unknown', 'DISPATCHED inquired']`. */
async function actions(outboxId: string): Promise<string[]> {
  const attempts = await readAttempts(db.as('symphony_readonly'), outboxId)
  return attempts.map(({ state, action, outcomeUnknown }) => `${state} ${action}${outcomeUnknown ? ' unknown' : ''}`)
}

type Outcome = Omit<AttemptOutcome, 'outboxId' | 'leaseToken'>

async function recorded(outcome: Outcome): Promise<string[]> {
  const lease = await enqueueAndClaim(db)
  await complete(db, lease, outcome)
  return actions(lease.outboxId)
}

describe('complete_outbox_attempt', () => {
  test.each<[Outcome, string]>([
    [{ state: 'DISPATCHED', railReference: 'ref' }, 'DISPATCHED sent'],
    [{ state: 'DISPATCHED', railReference: 'ref', action: 'sent' }, 'DISPATCHED sent'],
    [{ state: 'DISPATCHED', railReference: 'ref', action: 'inquired' }, 'DISPATCHED inquired'],
    [{ state: 'FAILED' }, 'FAILED sent'],
    [{ state: 'FAILED', action: 'not_sent' }, 'FAILED not_sent'],
    [{ state: 'RETRYABLE' }, 'RETRYABLE sent'],
    [{ state: 'RETRYABLE', outcomeUnknown: true }, 'RETRYABLE sent unknown'],
    [{ state: 'RETRYABLE', outcomeUnknown: true, action: 'inquired' }, 'RETRYABLE inquired unknown'],
    [{ state: 'FAILED', outcomeUnknown: true }, 'RETRYABLE sent unknown'],
  ])('records %j as %s', async (outcome, row) => {
    expect(await recorded(outcome)).toEqual([row])
  })

  test('records whether the outcome is still unknown after each inquiry', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'RETRYABLE', outcomeUnknown: true })
    await complete(db, await makeDueAndClaim(db, lease), { state: 'RETRYABLE', action: 'inquired' })
    await complete(db, await makeDueAndClaim(db, lease), {
      state: 'DISPATCHED',
      railReference: 'ref',
      action: 'inquired',
    })
    expect(await actions(lease.outboxId)).toEqual([
      'RETRYABLE sent unknown',
      'RETRYABLE inquired unknown',
      'DISPATCHED inquired',
    ])
  })

  test.each([
    { state: 'DISPATCHED', action: 'not_sent' },
    { state: 'FAILED', action: 'decided' },
    { state: 'RETRYABLE', action: 'expired' },
    { state: 'RETRYABLE', action: 'SENT' },
  ])('refuses the state and action %j (22023)', async ({ state, action }) => {
    const lease = await enqueueAndClaim(db)
    const unsaid = Array.from({ length: 8 }, () => null)
    const values = [lease.outboxId, lease.leaseToken, WORKER, state, ...unsaid, action]
    const failure = await failureOf(call(db.as('symphony_executor'), 'complete_outbox_attempt', values))
    expect(failure).toMatchObject({ sqlstate: '22023', message: expect.stringContaining('p_action of item 1') })
    expect(await actions(lease.outboxId)).toEqual([])
  })
})

test('complete_outbox_attempts records the action of each item of a batch of successes', async () => {
  const leases = [await enqueueAndClaim(db), await enqueueAndClaim(db), await enqueueAndClaim(db)]
  const outcomes = leases.map(({ outboxId, leaseToken }, index) => ({
    outboxId,
    leaseToken,
    state: 'DISPATCHED' as const,
    railReference: `ref-${index}`,
    ...(index === 1 ? { action: 'inquired' as const } : {}),
  }))
  await completeOutboxAttempts(db.as('symphony_executor'), WORKER, outcomes)
  const rows = await Promise.all(leases.map(({ outboxId }) => actions(outboxId)))
  expect(rows).toEqual([['DISPATCHED sent'], ['DISPATCHED inquired'], ['DISPATCHED sent']])
})

describe.for(['repair', 'takeover'] as const)('an expired lease recorded by %s', (foundBy) => {
  async function expire(lease: ClaimedItem): Promise<string[]> {
    await db.expireLease(lease.outboxId)
    if (foundBy === 'repair') await repairExpiredLeases(db.as('symphony_executor'), 100, 'repair-1')
    else await claim(db, lease.railType)
    return actions(lease.outboxId)
  }

  test('gets the action “expired” and an unknown outcome if it has no dispatch mark', async () => {
    expect(await expire(await enqueueAndClaim(db))).toEqual(['ZOMBIE_REQUEUE expired unknown'])
  })

  test('gets the action “expired” and a known outcome if its dispatch mark shows no call', async () => {
    expect(await expire(await enqueueAndClaim(db, {}, { marked: true }))).toEqual(['ZOMBIE_REQUEUE expired'])
  })

  test('gets the action “expired” and an unknown outcome if its dispatch mark shows a call', async () => {
    const lease = await enqueueAndClaim(db, {}, { marked: true })
    await beginOutboxDispatch(db.as('symphony_executor'), lease, WORKER)
    expect(await expire(lease)).toEqual(['ZOMBIE_REQUEUE expired unknown'])
  })
})

test.each(['DISPATCHED', 'FAILED'] as const)(
  'a two-person decision %s is recorded with the action “decided”',
  async (decision) => {
    const { outboxId } = await enqueueUnknown(db)
    await approve(bob, await propose(alice, outboxId, decision))
    expect(await actions(outboxId)).toEqual(['RETRYABLE sent unknown', `${decision} decided`])
  },
)

test('outbox_operational_status shows action and outcome_unknown of the last attempt', async () => {
  const lease = await enqueueAndClaim(db)
  const shown = async () => {
    const { rows } = await db.queryNoRole(
      `SELECT last_attempt_action AS action, last_attempt_outcome_unknown AS unknown
       FROM outbox_operational_status WHERE outbox_id = $1`,
      [lease.outboxId],
    )
    return rows[0]
  }
  expect(await shown()).toEqual({ action: null, unknown: null })
  await complete(db, lease, { state: 'RETRYABLE', outcomeUnknown: true, action: 'inquired' })
  expect(await shown()).toEqual({ action: 'inquired', unknown: true })
  const [item] = await readItems(db.as('symphony_readonly'), { outboxId: lease.outboxId })
  expect(item).toMatchObject({ lastAttemptAction: 'inquired', outcomeUnknown: true })
})

test('a claim shows the action of the last attempt as evidence of an unknown outcome', async () => {
  const lease = await enqueueAndClaim(db)
  await complete(db, lease, { state: 'RETRYABLE', outcomeUnknown: true, action: 'inquired' })
  const again = await makeDueAndClaim(db, lease)
  expect(again.evidence?.lastAttempt).toMatchObject({ action: 'inquired', outcomeUnknown: true })
})
