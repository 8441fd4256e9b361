// Test of an application, with its own database, rail and time.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memoryRail, withTestSymphony } from 'symphony-pg/testing'

const payload = { amount: '10.00', currency: 'EUR', destination: 'DE89370400440532013000' }

test('a payout survives a busy bank and a lost answer, and is paid once', () => {
  const bank = memoryRail({ type: 'bank', onUnknown: 'inquire' })
  return withTestSymphony({ rails: [bank], serverUrl: process.env['TEST_DATABASE_URL'] }, async (symphony) => {
    const payout = { railType: 'bank', instructionId: 'P-1', participantId: 'shop', payload } as const
    await symphony.transaction((tx) => symphony.enqueue(payout, { tx }))
    bank.next({ outcome: 'retryable', code: 'BUSY' }, 'lost')
    const { dispatched, retryable } = await symphony.drain({ throughTime: true })
    assert.deepEqual({ dispatched, retryable, paid: bank.paid.size }, { dispatched: 1, retryable: 2, paid: 1 })
  })
})
