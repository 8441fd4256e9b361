import { describe, expect, test } from 'vitest'
import type { JsonObject } from '../../libs/core/index.js'
import {
  claimOutboxBatch,
  completeOutboxAttempts,
  declareOutboxRails,
  readItemViews,
  readProposalPage,
  readProposalsOf,
} from '../../libs/outbox/index.js'
import { loadRails, type FieldClasses } from '../../libs/rails/index.js'
import { useTestDatabase } from '../support/database.js'
import { complete, claimOnly, enqueue } from '../support/outboxItems.js'
import { createPerson, enqueueUnknown, propose } from '../support/outboxPeople.js'
import { PlanRecorder, scansOf } from '../support/plans.js'

/**
 * Tests which amount, currency and masked destination `outbox_operational_status` shows, as the field classes of the
 * rail allow.
 */

const IBAN = 'DE89370400440532013000'
const PAYLOAD = { amount: '12.50', currency: 'EUR', destination: IBAN, memo: 'SECRET-MEMO' }
const PLAIN = { amount: '12.50', currency: 'EUR', destination: '••••3000', destinationWithheld: null }

const db = await useTestDatabase({ countBranches: false })

async function declare(railType: string, fields: FieldClasses): Promise<void> {
  const rails = loadRails([
    { type: railType, onUnknown: 'resend', fields, dispatch: () => ({ outcome: 'success', reference: 'r' }) },
  ])
  await declareOutboxRails(db.as('symphony_executor'), rails.values(), 'w', { serving: true })
}

/**
 * Enqueues on a rail with these field classes (undefined: an undeclared rail), and reads the item as symphony_readonly.
 */
async function shownOf(payload: JsonObject, fields: FieldClasses | undefined) {
  const item = await enqueue(db, { payload })
  if (fields !== undefined) await declare(item.railType, fields)
  return shown(item.outboxId)
}

async function shown(outboxId: string) {
  const [item] = await readItemViews(db.as('symphony_readonly'), [outboxId])
  const { amount, currency, destination, destinationWithheld } = item!
  return { amount, currency, destination, destinationWithheld }
}

describe('outbox_operational_status', () => {
  test('shows amount, currency and the last four characters of a public or masked destination', async () => {
    expect(await shownOf(PAYLOAD, {})).toEqual(PLAIN)
    expect(await shownOf(PAYLOAD, { '/destination': 'masked', '/memo': 'encrypted' })).toEqual(PLAIN)
    expect(await shownOf({ ...PAYLOAD, amount: 7 }, {})).toEqual({ ...PLAIN, amount: '7' })
  })

  test('shows only amount and currency on a rail that no process has declared', async () => {
    expect(await shownOf(PAYLOAD, undefined)).toEqual({
      ...PLAIN,
      destination: null,
      destinationWithheld: 'undeclared',
    })
  })

  test.for([
    ['encrypted', { '/destination': 'encrypted' }],
    ['forbidden', { '/destination': 'forbidden' }],
  ] as const)('hides a destination that is %s', async ([destinationWithheld, fields]) => {
    expect(await shownOf(PAYLOAD, fields)).toEqual({ ...PLAIN, destination: null, destinationWithheld })
  })

  test.for(['masked', 'encrypted', 'forbidden'] as const)('hides amount and currency if they are %s', async (one) => {
    expect(await shownOf(PAYLOAD, { '/amount': one, '/currency': one })).toEqual({
      ...PLAIN,
      amount: null,
      currency: null,
    })
  })

  test('applies a class of /* to every field', async () => {
    expect(await shownOf(PAYLOAD, { '/*': 'encrypted' })).toEqual({
      amount: null,
      currency: null,
      destination: null,
      destinationWithheld: 'encrypted',
    })
    expect(await shownOf(PAYLOAD, { '/*': 'masked' })).toEqual({ ...PLAIN, amount: null, currency: null })
  })

  test('hides ciphertext even if the rail declares no class for the field', async () => {
    const sealed = 'symphony.sealed.v1.01981f0e-7c00-7000-8000-000000000001.AAAAAAAA3000'
    const payload = { amount: sealed, currency: sealed, destination: sealed }
    expect(await shownOf(payload, {})).toEqual({
      amount: null,
      currency: null,
      destination: null,
      destinationWithheld: 'encrypted',
    })
  })

  test('shows only the mask if a destination is short or ends in unprintable characters', async () => {
    for (const destination of ['acct-4711', 'x'.repeat(11), `${IBAN}\u202E123`, `${IBAN}\n123`]) {
      expect(await shownOf({ ...PAYLOAD, destination }, {})).toEqual({ ...PLAIN, destination: '••••' })
    }
    expect(await shownOf({ ...PAYLOAD, destination: 'x'.repeat(12) }, {})).toMatchObject({ destination: '••••xxxx' })
  })

  test('hides fields of an unexpected type or format', async () => {
    const nothing = { amount: null, currency: null, destination: null, destinationWithheld: null }
    expect(await shownOf({ amount: 'a lot', currency: 'euros', destination: { iban: IBAN } }, {})).toEqual(nothing)
    expect(await shownOf({ amount: { value: '12.50' }, currency: ['EUR'], destination: 4711 }, {})).toEqual(nothing)
    expect(await shownOf({ amount: '4'.repeat(19), currency: 'EU\u0420', destination: null }, {})).toEqual(nothing)
    expect(await shownOf({}, {})).toEqual(nothing)
  })
})

test('an ended item shows the same amount, currency and destination as while it was pending', async () => {
  for (const state of ['DISPATCHED', 'FAILED'] as const) {
    const item = await enqueue(db, { payload: PAYLOAD })
    await declare(item.railType, {})
    const outcome = state === 'DISPATCHED' ? { railReference: 'r' } : { errorCode: 'NO' }
    await complete(db, await claimOnly(db, item.railType), { state, ...outcome })
    expect(await shown(item.outboxId)).toEqual(PLAIN)
  }
})

test('a proposal shows amount, currency and destination, alone and in lists', async () => {
  const olga = await createPerson(db, 'olga')
  const item = await enqueueUnknown(db, { payload: PAYLOAD })
  await declare(item.railType, {})
  await propose(olga, item.outboxId, 'RETRY')
  const readonly = db.as('symphony_readonly')
  const expected = [expect.objectContaining({ ...PLAIN, instructionId: item.instructionId })]
  expect(await readProposalsOf(readonly, [item.outboxId])).toEqual(expected)
  const { participantId } = item
  expect(await readProposalPage(readonly, { status: 'OPEN', participants: [participantId], limit: 10 })).toEqual(
    expected,
  )
})

test('a low-cost function in WHERE sees neither payloads nor unmasked destinations', async () => {
  const { railType, outboxId } = await enqueue(db, { payload: PAYLOAD })
  await declare(railType, { '/memo': 'encrypted' })
  const login = await db.createLogin('peeper', { roles: ['symphony_readonly'] })
  const client = await login.connect()
  await client.query('SET ROLE symphony_readonly')
  const seen: string[] = []
  client.on('notice', ({ message }) => seen.push(message ?? ''))
  await client.query(
    `CREATE FUNCTION pg_temp.peek(anyelement) RETURNS boolean LANGUAGE plpgsql COST 0.0000001
     AS 'BEGIN RAISE NOTICE ''%'', $1; RETURN true; END'`,
  )
  await client.query('SELECT 1 FROM outbox_operational_status v WHERE pg_temp.peek(v) AND v.outbox_id = $1', [outboxId])
  await client.end()
  const all = seen.join('\n')
  expect(all).toContain('••••3000')
  for (const secret of [IBAN, 'SECRET-MEMO', '"memo"']) expect(all).not.toContain(secret)
  // The leakproof condition runs first: rows of other items never reach the function.
  expect(seen).toHaveLength(1)
})

/** Tables of a few rows, which a plan may scan. */
const SMALL = new Set(['payment_outbox_proposals', 'outbox_rails', 'dispatch_epochs'])

test('reads of items and proposals use indexes and scan neither queue nor ledger', async () => {
  // The full trail adds many events, so that a scan of them would show in the plan.
  await db.queryNoRole('UPDATE symphony_settings SET full_trail = true')
  const olga = await createPerson(db, 'planner')
  const held = await enqueueUnknown(db, { payload: PAYLOAD })
  const proposalId = await propose(olga, held.outboxId, 'FAILED')
  await db.queryNoRole(
    `SELECT enqueue_payment_outbox_batch(
       array_agg('i-' || n), array_agg('p-' || n % 7), array_agg('k-' || n), array_agg('bulk'::text), array_agg($1::jsonb))
     FROM generate_series(1, 1000) n`,
    [PAYLOAD],
  )
  const executor = db.as('symphony_executor')
  const leased = await claimOutboxBatch(executor, 900, 'w', 60, { rails: ['bulk'] })
  const paid = leased.map(({ outboxId, leaseToken }) => ({
    outboxId,
    leaseToken,
    state: 'DISPATCHED' as const,
    railReference: 'r',
  }))
  await completeOutboxAttempts(executor, 'w', paid)
  await db.queryNoRole('ANALYZE')
  const recorder = await PlanRecorder.open(db, 'symphony_readonly')
  const columns = 'outbox_id, amount, currency, destination, destination_withheld'
  for (const sql of [
    `SELECT ${columns} FROM outbox_operational_status WHERE outbox_id = ANY ('{${held.outboxId}}'::uuid[])`,
    `SELECT q.proposal_id, s.* FROM payment_outbox_proposals q CROSS JOIN LATERAL (
       SELECT ${columns} FROM outbox_operational_status WHERE outbox_id = q.outbox_id LIMIT 1) s
     WHERE q.proposal_id = '${proposalId}'`,
  ]) {
    const execution = await recorder.run(sql)
    const large = execution.scanned.filter((table) => !SMALL.has(table))
    expect(large).toEqual([])
    expect(scansOf(execution, 'payment_outbox_attempts')).toMatchObject([{ isLookUp: true }])
  }
  await recorder.close()
})
