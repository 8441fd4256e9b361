import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { dispatchItem, type DispatchHooks, type DispatchResult } from '../../libs/outbox/dispatchItem.js'
import { LeasedItem } from '../../libs/outbox/LeasedItem.js'
import { trustedLeaseMs } from '../../libs/outbox/LeaseRenewer.js'
import type { ClaimedItem, OutboxEvidence } from '../../libs/outbox/types.js'
import {
  loadRails,
  NotSentError,
  type RailDeclaration,
  type RailRequest,
  type UnknownPolicy,
} from '../../libs/rails/index.js'

/** Tests dispatchItem with one leased item and one rail. Its decisions depend on these two only, not on a database. */

const CLAIMED_AT = new Date('2026-01-01T12:00:00Z')
const LEASE_NEEDED_MS = 2_000

interface Dispatched {
  readonly result: DispatchResult
  /** Requests that the rail received. */
  readonly sent: readonly RailRequest[]
}

interface Circumstances {
  readonly onUnknown?: UnknownPolicy
  readonly item?: Partial<ClaimedItem>
  /** Remaining time of the lease when the dispatch starts. */
  readonly leaseLeftMs?: number
  readonly rail?: Partial<RailDeclaration>
}

async function dispatch(circumstances: Circumstances): Promise<Dispatched> {
  const { onUnknown = 'resend', item = {}, leaseLeftMs = 30_000 } = circumstances
  const sent: RailRequest[] = []
  const rail: RailDeclaration = {
    type: 'rail',
    onUnknown,
    timeoutMs: 5_000,
    settleMs: 5_000,
    dispatch: (request) => {
      sent.push(request)
      return { outcome: 'success', reference: `paid ${request.reference}` }
    },
    ...(onUnknown === 'inquire' ? { queryStatus: () => ({ outcome: 'absent' }) } : {}),
    ...circumstances.rail,
  }
  const loaded = loadRails([rail]).get('rail')!
  const clock = { now: () => CLAIMED_AT, monotonicMs: () => 1_000 }
  const leased = new LeasedItem(buildClaimedItem(item), 1_000, leaseLeftMs, clock)
  const hooks: DispatchHooks = {
    begin: async () => {},
    onCalled: () => {},
    onInquired: () => {},
    onLateAnswer: () => {},
    leaseNeededMs: () => LEASE_NEEDED_MS,
    createTransaction: () => {
      throw new Error('a payment has no handler')
    },
  }
  return { result: await dispatchItem(leased, loaded, hooks), sent }
}

function buildClaimedItem(overrides: Partial<ClaimedItem>): ClaimedItem {
  return {
    outboxId: randomUUID(),
    instructionId: 'i',
    participantId: 'p',
    sequenceId: 1n,
    idempotencyKey: 'k',
    railType: 'rail',
    payload: { amount: '1.50', currency: 'EUR', destination: 'account-1' },
    attemptCount: 0,
    leaseToken: randomUUID(),
    leaseExpiresAt: new Date(CLAIMED_AT.getTime() + 60_000),
    claimedAt: CLAIMED_AT,
    outcomeUnknown: false,
    expiryStreak: 0,
    takenOver: false,
    ordered: false,
    evidence: null,
    createdAt: CLAIMED_AT,
    dueAt: CLAIMED_AT,
    traceContext: null,
    ...overrides,
  }
}

/** Returns evidence of an attempt that ended `ms` before the claim. */
function endedBefore(ms: number): OutboxEvidence {
  const completedAt = new Date(CLAIMED_AT.getTime() - ms)
  return {
    lastAttempt: {
      attemptNo: 1,
      state: 'ZOMBIE_REQUEUE',
      railReference: null,
      railCode: null,
      errorCode: null,
      workerId: 'w',
      claimedAt: completedAt,
      completedAt,
      action: 'expired',
      outcomeUnknown: true,
    },
    lateOutcome: null,
  }
}

test('dispatchItem gives the rail the outbox id with hyphens and as 32 hexadecimal digits', async () => {
  const outboxId = '019a8f2e-1b2c-7d3e-8f40-0123456789ab'
  const { sent } = await dispatch({ item: { outboxId } })
  expect(sent).toMatchObject([{ reference: outboxId, compactReference: '019a8f2e1b2c7d3e8f400123456789ab' }])
})

test('dispatchItem sends a payment once and completes it with the token of its lease', async () => {
  const item = { outboxId: randomUUID(), leaseToken: randomUUID() }
  const { result, sent } = await dispatch({ item })
  expect(sent.map(({ reference }) => reference)).toEqual([item.outboxId])
  expect(result).toMatchObject({ kind: 'complete', outcome: { ...item, state: 'DISPATCHED' } })
})

describe('a lease', () => {
  test('is released, and nothing is sent, if it may expire during the call', async () => {
    expect(await dispatch({ leaseLeftMs: LEASE_NEEDED_MS - 1 })).toEqual({ result: { kind: 'release' }, sent: [] })
  })

  test('is used if it lasts exactly as long as the call needs', async () => {
    expect((await dispatch({ leaseLeftMs: LEASE_NEEDED_MS })).sent).toHaveLength(1)
  })

  test('is trusted for at least 90 % and less than 100 % of its duration in the database', () => {
    for (const leaseSeconds of [1, 2, 10, 60, 3_600]) {
      expect(trustedLeaseMs(leaseSeconds)).toBeLessThan(leaseSeconds * 1_000)
      expect(trustedLeaseMs(leaseSeconds)).toBeGreaterThanOrEqual(leaseSeconds * 900)
    }
  })
})

describe('an item of unknown outcome', () => {
  const item = { outcomeUnknown: true, attemptCount: 1 }

  test('is held, not sent, on a rail with onUnknown hold', async () => {
    const { result, sent } = await dispatch({ onUnknown: 'hold', item: { ...item, evidence: endedBefore(60_000) } })
    expect({ result, sent }).toEqual({ result: { kind: 'hold', reason: 'OUTCOME_UNKNOWN' }, sent: [] })
  })

  test('is sent again on a rail with onUnknown resend', async () => {
    expect((await dispatch({ onUnknown: 'resend', item })).sent).toHaveLength(1)
  })

  test.each([
    [4_999, 0],
    [5_000, 1],
  ])('is sent again after settleMs (5 s) if an inquiry finds nothing: after %i ms, %i calls', async (ms, times) => {
    const { result, sent } = await dispatch({ onUnknown: 'inquire', item: { ...item, evidence: endedBefore(ms) } })
    expect(sent).toHaveLength(times)
    expect(result).toMatchObject({ outcome: { state: times === 0 ? 'RETRYABLE' : 'DISPATCHED' } })
  })

  test.each(['hold', 'inquire', 'resend'] as const)(
    'is completed with a late success and not sent, on a rail with onUnknown %s',
    async (onUnknown) => {
      const lateOutcome = { state: 'DISPATCHED', railReference: 'late', railCode: null, errorCode: null } as const
      const evidence = { ...endedBefore(60_000), lateOutcome }
      const { result, sent } = await dispatch({ onUnknown, item: { ...item, evidence } })
      expect(sent).toEqual([])
      expect(result).toMatchObject({ outcome: { state: 'DISPATCHED', railReference: 'late' } })
    },
  )

  test('is completed with a late success, and not held, even after three expired leases', async () => {
    const lateOutcome = { state: 'DISPATCHED', railReference: 'late', railCode: null, errorCode: null } as const
    const evidence = { ...endedBefore(60_000), lateOutcome }
    const { result, sent } = await dispatch({ item: { ...item, expiryStreak: 3, evidence } })
    expect(sent).toEqual([])
    expect(result).toMatchObject({ kind: 'complete', outcome: { state: 'DISPATCHED', railReference: 'late' } })
  })

  test('is sent after two expired leases in a row and held after three', async () => {
    expect((await dispatch({ item: { ...item, expiryStreak: 2 } })).sent).toHaveLength(1)
    const third = await dispatch({ item: { ...item, expiryStreak: 3 } })
    expect(third).toEqual({ result: { kind: 'hold', reason: 'REPEATED_LEASE_EXPIRY' }, sent: [] })
  })
})

describe('the action of an attempt', () => {
  const unknown = { outcomeUnknown: true, attemptCount: 1, evidence: endedBefore(60_000) }
  const paidLate = { state: 'DISPATCHED', railReference: 'late', railCode: null, errorCode: null } as const
  const refuse = {
    '~standard': { version: 1, vendor: 'test', validate: () => ({ issues: [{ message: 'no' }] }) },
  } as const

  test.each<[string, string, string, Circumstances]>([
    ['sent', 'a call that succeeds', 'DISPATCHED', {}],
    ['sent', 'a call that times out', 'RETRYABLE', { rail: { timeoutMs: 1, dispatch: () => new Promise(() => {}) } }],
    [
      'not_sent',
      'NotSentError',
      'RETRYABLE',
      { rail: { dispatch: () => Promise.reject(new NotSentError('refused')) } },
    ],
    ['not_sent', 'a refused payload', 'FAILED', { rail: { payload: refuse } }],
    [
      'inquired',
      'an inquiry that finds the payment',
      'DISPATCHED',
      { onUnknown: 'inquire', item: unknown, rail: { queryStatus: () => ({ outcome: 'success', reference: 'r' }) } },
    ],
    [
      'inquired',
      'an inquiry without an answer',
      'RETRYABLE',
      { onUnknown: 'inquire', item: unknown, rail: { queryStatus: () => ({ outcome: 'unknown' }) } },
    ],
    ['sent', 'a send after an inquiry found nothing', 'DISPATCHED', { onUnknown: 'inquire', item: unknown }],
    [
      'inquired',
      'a late success',
      'DISPATCHED',
      { item: { ...unknown, evidence: { ...endedBefore(60_000), lateOutcome: paidLate } } },
    ],
  ])('is "%s" for %s', async (action, _, state, circumstances) => {
    const { result } = await dispatch(circumstances)
    expect(result).toMatchObject({ kind: 'complete', outcome: { state } })
    expect(result.kind === 'complete' ? (result.outcome.action ?? 'sent') : 'none').toBe(action)
  })
})

describe('a success with an overlong reference', () => {
  const answer = { outcome: 'success', reference: 'r'.repeat(256) } as const
  const held = {
    kind: 'complete',
    outcome: {
      state: 'RETRYABLE',
      errorCode: 'RAIL_REFERENCE_INVALID',
      errorMessage: expect.stringContaining('reference of 256 characters: "rrr'),
      holdReason: 'RAIL_REFERENCE_INVALID',
    },
  }

  test.each(['resend', 'inquire', 'hold'] as const)(
    'holds the item as RAIL_REFERENCE_INVALID on a rail with onUnknown %s',
    async (onUnknown) => {
      const { result } = await dispatch({ onUnknown, rail: { dispatch: () => answer } })
      expect(result).toMatchObject({ ...held, outcome: { ...held.outcome, outcomeUnknown: true } })
    },
  )

  test('holds the item as RAIL_REFERENCE_INVALID when an inquiry finds the success', async () => {
    const item = { outcomeUnknown: true, attemptCount: 1, evidence: endedBefore(60_000) }
    expect((await dispatch({ onUnknown: 'inquire', item, rail: { queryStatus: () => answer } })).result).toMatchObject(
      held,
    )
  })
})
