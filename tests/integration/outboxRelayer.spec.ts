import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { OutboxRelayer, type RelayerEvent, type RelayerOptions } from '../../libs/outbox/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { anInstruction, enqueue } from '../support/outboxItems.js'
import { rememberingRail, type RememberingRail } from '../support/relayRail.js'

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
})
afterAll(() => db.drop())

function relayerFor(rail: RememberingRail, options: RelayerOptions = {}) {
  const events: RelayerEvent[] = []
  const relayer = new OutboxRelayer(db.database, rail.rails, options, (event) => events.push(event))
  return { relayer, events }
}

async function stateOf(outboxId: string): Promise<Record<string, unknown>> {
  const { rows } = await db.queryNoRole(
    'SELECT state, hold_reason, outcome_unknown, last_attempt_no, last_rail_reference, last_error_code FROM outbox_operational_status WHERE outbox_id = $1',
    [outboxId],
  )
  return rows[0] ?? {}
}

describe('one round', () => {
  test('a due item is sent once, under its outbox id, and recorded with the rail’s reference', async () => {
    const { railType } = anInstruction()
    const rail = rememberingRail({ type: railType })
    const item = await enqueue(db, { railType })
    const { relayer } = relayerFor(rail)
    expect(await relayer.runOnce()).toMatchObject({ claimed: 1, dispatched: 1 })
    expect(rail.calls.map(({ reference, attempt }) => ({ reference, attempt }))).toEqual([
      { reference: item.outboxId, attempt: 1 },
    ])
    expect(await stateOf(item.outboxId)).toMatchObject({
      state: 'DISPATCHED',
      last_rail_reference: `paid-${item.outboxId}`,
    })
  })

  test('a refusal ends the item as FAILED with the rail’s code', async () => {
    const { railType } = anInstruction()
    const rail = rememberingRail({ type: railType }, () => ({ outcome: 'terminal', code: 'NO_SUCH_ACCOUNT' }))
    const item = await enqueue(db, { railType })
    expect(await relayerFor(rail).relayer.runOnce()).toMatchObject({ failed: 1 })
    expect(await stateOf(item.outboxId)).toMatchObject({ state: 'FAILED', last_error_code: 'NO_SUCH_ACCOUNT' })
  })

  test('an adapter that throws leaves the outcome unknown, and the next round follows the rail’s policy', async () => {
    const { railType } = anInstruction()
    const rail = rememberingRail({ type: railType, onUnknown: 'hold' }, () => {
      throw new Error('socket closed')
    })
    const item = await enqueue(db, { railType })
    await relayerFor(rail).relayer.runOnce()
    expect(await stateOf(item.outboxId)).toMatchObject({
      state: 'HELD',
      hold_reason: 'OUTCOME_UNKNOWN',
      outcome_unknown: true,
    })
    expect(rail.calls).toHaveLength(1)
  })

  test('an invalid payment is FAILED with its code, and the rail is never called', async () => {
    const { railType } = anInstruction()
    const rail = rememberingRail({ type: railType, money: true })
    const item = await enqueue(db, { railType, payload: { amount: '0', currency: 'EUR', destination: 'X' } })
    await relayerFor(rail).relayer.runOnce()
    expect(await stateOf(item.outboxId)).toMatchObject({ state: 'FAILED', last_error_code: 'INVALID_AMOUNT' })
    expect(rail.calls).toEqual([])
  })
})

describe('unknown outcomes', () => {
  test('a payment that was made but never answered is completed by inquiry, without a second dispatch', async () => {
    const { railType } = anInstruction()
    const rail = rememberingRail(
      {
        type: railType,
        onUnknown: 'inquire',
        queryStatus: ({ reference }) => ({ outcome: 'success', reference: `found-${reference}` }),
      },
      () => {
        throw new Error('timeout after paying')
      },
    )
    const item = await enqueue(db, { railType })
    const { relayer } = relayerFor(rail)
    await relayer.runOnce()
    expect(await stateOf(item.outboxId)).toMatchObject({ state: 'SCHEDULED', outcome_unknown: true })
    await db.makeDue(item.outboxId)
    await relayer.runOnce()
    expect(await stateOf(item.outboxId)).toMatchObject({
      state: 'DISPATCHED',
      last_rail_reference: `found-${item.outboxId}`,
    })
    expect(rail.calls).toHaveLength(1)
    expect(rail.inquiries).toHaveLength(1)
  })
})

describe('running', () => {
  test('items are carried as they come, never more at once than the rail allows, and a stop leaves no lease', async () => {
    const { railType } = anInstruction()
    const rail = rememberingRail({ type: railType, concurrency: 3 })
    const { relayer, events } = relayerFor(rail, { pollMs: 50 })
    await relayer.start()
    const items = await Promise.all(Array.from({ length: 40 }, () => enqueue(db, { railType })))
    await expect.poll(() => events.filter(({ type }) => type === 'recorded').length, { timeout: 20_000 }).toBe(40)
    await relayer.stop()
    expect(rail.gauge.most).toBeLessThanOrEqual(3)
    expect(new Set(rail.calls.map(({ reference }) => reference)).size).toBe(items.length)
    const { rows } = await db.queryNoRole('SELECT 1 FROM payment_outbox_pending WHERE rail_type = $1', [railType])
    expect(rows).toEqual([])
  })
})
