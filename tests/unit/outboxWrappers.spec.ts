import { randomUUID } from 'node:crypto'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { SymphonyError, ArgumentRangeError, InvalidArgumentError } from '../../libs/core/index.js'
import { IdempotencyConflictError, LeaseLostError, withSchema, type Queryable } from '../../libs/db/index.js'
import * as outbox from '../../libs/outbox/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { buildInstruction, attemptRows, enqueueAndClaim, WORKER } from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'

/** A client that fails on every query, because a wrapper must refuse before any I/O. */
const unreachable: Queryable = {
  query: () => Promise.reject(new Error('reached the database')),
}

const LEASE = { outboxId: randomUUID(), leaseToken: randomUUID() }
const OUTCOME = { ...LEASE, state: 'DISPATCHED' }
const RETURN = { outboxId: randomUUID(), amount: '1', currency: 'EUR', code: 'AC04', reference: 'RT-1' }
const RAIL = { type: 'sepa', money: true, fields: [] }
const LIMIT = { kind: 'amount', limit: '250000.00', currency: 'EUR', participantId: 'acme', windowSeconds: 86_400 }
const LONG_ID = 'x'.repeat(129)
const CONTROL = 'a\u0007b'
const TOO_MANY = Array.from({ length: 1001 }, () => LEASE)

const wrappers = new Map(
  Object.entries(outbox).flatMap(([name, exported]) => (typeof exported === 'function' ? [[name, exported]] : [])),
)

type Refusal = readonly [wrapper: string, args: readonly unknown[], argument: string, errorClass: unknown]

const invalid = InvalidArgumentError
const outOfRange = ArgumentRangeError

/** Invalid values of each argument, and the argument that the error must name. */
const refusals: readonly Refusal[] = [
  ...instructions().map(([change, argument, errorClass]): Refusal => [
    'enqueuePaymentOutbox',
    [changed(buildInstruction(), change)],
    argument,
    errorClass,
  ]),
  ...instructions().map(([change, argument, errorClass]): Refusal => [
    'enqueuePaymentOutboxBatch',
    [[buildInstruction(), changed(buildInstruction(), change)]],
    `instructions[1].${argument}`,
    errorClass,
  ]),
  ['proposePaymentOutbox', [changed(buildInstruction(), { railType: 'two words' }), 'a reason'], 'railType', invalid],
  ...reasons('proposePaymentOutbox', [buildInstruction()]),
  ['enqueuePaymentOutboxBatch', [[]], 'instructions', outOfRange],
  ['enqueuePaymentOutboxBatch', [TOO_MANY], 'instructions', outOfRange],
  ['enqueuePaymentOutboxBatch', [buildInstruction()], 'instructions', invalid],

  ['claimOutboxBatch', [0, WORKER, 60], 'batchSize', outOfRange],
  ['claimOutboxBatch', [1001, WORKER, 60], 'batchSize', outOfRange],
  ['claimOutboxBatch', [1.5, WORKER, 60], 'batchSize', outOfRange],
  ['claimOutboxBatch', ['10', WORKER, 60], 'batchSize', invalid],
  ['claimOutboxBatch', [10, '', 60], 'workerId', invalid],
  ['claimOutboxBatch', [10, 'two words', 60], 'workerId', invalid],
  ['claimOutboxBatch', [10, LONG_ID, 60], 'workerId', outOfRange],
  ['claimOutboxBatch', [10, WORKER, 0], 'leaseSeconds', outOfRange],
  ['claimOutboxBatch', [10, WORKER, 3601], 'leaseSeconds', outOfRange],
  ['claimOutboxBatch', [10, WORKER, Number.NaN], 'leaseSeconds', outOfRange],
  ['claimOutboxBatch', [10, WORKER, 60, { rails: [] }], 'rails', outOfRange],
  ['claimOutboxBatch', [10, WORKER, 60, { rails: 'sepa' }], 'rails', invalid],
  ['claimOutboxBatch', [10, WORKER, 60, { rails: ['sepa', ''] }], 'rails[1]', invalid],
  ['claimOutboxBatch', [10, WORKER, 60, { markedRails: [] }], 'markedRails', outOfRange],
  ['claimOutboxBatch', [10, WORKER, 60, { markedRails: [null] }], 'markedRails[0]', invalid],

  ['recordOutboxReturn', [{ ...RETURN, outboxId: 'x' }], 'outboxId', invalid],
  ['recordOutboxReturn', [{ ...RETURN, amount: 1 }], 'amount', invalid],
  ['recordOutboxReturn', [{ ...RETURN, amount: '1.001' }], 'amount', outOfRange],
  ['recordOutboxReturn', [{ ...RETURN, currency: 'eur' }], 'currency', invalid],
  ['recordOutboxReturn', [{ ...RETURN, code: ' ' }], 'code', invalid],
  ['recordOutboxReturn', [{ ...RETURN, code: 'x'.repeat(129) }], 'code', outOfRange],
  ['recordOutboxReturn', [{ ...RETURN, reference: CONTROL }], 'reference', invalid],
  ['recordOutboxReturn', [{ ...RETURN, reference: 'x'.repeat(256) }], 'reference', outOfRange],
  ['recordOutboxReturn', [{ ...RETURN, occurredAt: '2026-01-31' }], 'occurredAt', invalid],

  ...leases('renewOutboxLease', [WORKER, 60]),
  ['renewOutboxLease', [LEASE, '', 60], 'workerId', invalid],
  ['renewOutboxLease', [LEASE, WORKER, 0], 'leaseSeconds', outOfRange],
  ...listsOfLeases('renewOutboxLeases', [WORKER, 60]),
  ['renewOutboxLeases', [[LEASE], '', 60], 'workerId', invalid],
  ['renewOutboxLeases', [[LEASE], WORKER, 3601], 'leaseSeconds', outOfRange],
  ...leases('releaseOutboxLease', [WORKER]),
  ['releaseOutboxLease', [LEASE, ''], 'workerId', invalid],
  ...listsOfLeases('releaseOutboxLeases', [WORKER]),
  ['releaseOutboxLeases', [[LEASE], LONG_ID], 'workerId', outOfRange],
  ...leases('beginOutboxDispatch', [WORKER]),
  ['beginOutboxDispatch', [LEASE, undefined], 'workerId', invalid],
  ...leases('holdLeasedOutboxItem', [WORKER, 'a reason']),
  ['holdLeasedOutboxItem', [LEASE, '', 'a reason'], 'workerId', invalid],
  ...reasons('holdLeasedOutboxItem', [LEASE, WORKER]),

  ...singleOutcomes('completeOutboxAttempt'),
  ...singleOutcomes('recordLateOutcome'),
  ...outcomes().map(([change, argument, errorClass]): Refusal => [
    'completeOutboxAttempts',
    [WORKER, [OUTCOME, changed(OUTCOME, change)]],
    `outcomes[1].${argument}`,
    errorClass,
  ]),
  ['completeOutboxAttempts', [WORKER, []], 'outcomes', outOfRange],
  ['completeOutboxAttempts', [WORKER, TOO_MANY], 'outcomes', outOfRange],
  ['completeOutboxAttempts', [WORKER, OUTCOME], 'outcomes', invalid],
  ['completeOutboxAttempts', ['two words', [OUTCOME]], 'workerId', invalid],

  ['repairExpiredLeases', [0, WORKER], 'batchSize', outOfRange],
  ['repairExpiredLeases', [1001, WORKER], 'batchSize', outOfRange],
  ['repairExpiredLeases', [100, ''], 'workerId', invalid],
  ['nextOutboxEvent', [[]], 'rails', outOfRange],
  ['nextOutboxEvent', [['two words']], 'rails[0]', invalid],
  ['heartbeatOutboxWorker', ['', {}], 'workerId', invalid],
  ['heartbeatOutboxWorker', [WORKER, []], 'detail', invalid],
  ['heartbeatOutboxWorker', [WORKER, { bytes: 'x'.repeat(70_000) }], 'detail', outOfRange],

  ['placeOutboxHold', ['not-an-id', 'a reason'], 'outboxId', invalid],
  ...reasons('placeOutboxHold', [LEASE.outboxId]),
  ['noteOutboxItem', ['not-an-id', 'a note'], 'outboxId', invalid],
  ['noteOutboxItem', [LEASE.outboxId, ' '], 'note', invalid],
  ['noteOutboxItem', [LEASE.outboxId, 'x'.repeat(1_001)], 'note', outOfRange],
  ['noteOutboxItem', [LEASE.outboxId, 'a note', ' '], 'assignee', invalid],
  ['noteOutboxItem', [LEASE.outboxId, 'a note', 'x'.repeat(201)], 'assignee', outOfRange],
  ['resolveOutboxHold', ['not-an-id', 'RETRY', 'a reason'], 'outboxId', invalid],
  ['resolveOutboxHold', [LEASE.outboxId, '', 'a reason'], 'decision', invalid],
  ...reasons('resolveOutboxHold', [LEASE.outboxId, 'RETRY']),
  ['resolveOutboxHold', [LEASE.outboxId, 'DISPATCHED', 'a reason', ' '], 'railReference', invalid],
  ['resolveOutboxHold', [LEASE.outboxId, 'DISPATCHED', 'a reason', 'x'.repeat(256)], 'railReference', outOfRange],
  ['redriveOutboxItem', ['not-an-id', 'a reason'], 'outboxId', invalid],
  ...reasons('redriveOutboxItem', [LEASE.outboxId]),
  ['cancelOutboxItem', ['not-an-id', 'a reason'], 'outboxId', invalid],
  ...reasons('cancelOutboxItem', [LEASE.outboxId]),
  ['cancelOutboxInstruction', ['two words', 'k', 'a reason'], 'instructionId', invalid],
  ['cancelOutboxInstruction', ['i', '', 'a reason'], 'idempotencyKey', invalid],
  ['cancelOutboxInstruction', ['i', 'k~redrive~1', 'a reason'], 'idempotencyKey', invalid],
  ...reasons('cancelOutboxInstruction', ['i', 'k']),
  ['approveOutboxProposal', ['not-an-id'], 'proposalId', invalid],
  ['withdrawOutboxProposal', ['not-an-id', 'a reason'], 'proposalId', invalid],
  ...reasons('withdrawOutboxProposal', [randomUUID()]),
  ['proposeOutboxLimit', ['two words', LIMIT, 'a reason'], 'name', invalid],
  ['proposeOutboxLimit', ['l', { ...LIMIT, railType: 'a b' }, 'a reason'], 'rule.railType', invalid],
  ['proposeOutboxLimit', ['l', { ...LIMIT, participantId: '' }, 'a reason'], 'rule.participantId', invalid],
  ['proposeOutboxLimit', ['l', { ...LIMIT, currency: 'XXX' }, 'a reason'], 'rule.currency', invalid],
  ['proposeOutboxLimit', ['l', { ...LIMIT, limit: '1e3' }, 'a reason'], 'rule.limit', invalid],
  ['proposeOutboxLimit', ['l', { ...LIMIT, limit: 1000 }, 'a reason'], 'rule.limit', invalid],
  ['proposeOutboxLimit', ['l', { ...LIMIT, windowSeconds: 59 }, 'a reason'], 'rule.windowSeconds', outOfRange],
  ['proposeOutboxLimit', ['l', { ...LIMIT, approvals: 3 }, 'a reason'], 'rule.approvals', outOfRange],
  ['proposeOutboxLimit', ['l', { ...LIMIT, kind: '' }, 'a reason'], 'rule.kind', invalid],
  ...reasons('proposeOutboxLimit', ['l', LIMIT]),
  ...reasons('proposeOutboxLimit', ['l', null]),
  ['approveOutboxLimit', ['not-an-id'], 'proposalId', invalid],
  ['withdrawOutboxLimit', ['not-an-id', 'a reason'], 'proposalId', invalid],
  ...reasons('withdrawOutboxLimit', [LEASE.outboxId]),
  ...pauses('pauseOutbox'),
  ...pauses('resumeOutbox'),
  ['setParticipantOutboxPolicy', ['', 'halt'], 'participantId', invalid],
  ['setParticipantOutboxPolicy', ['bank', ''], 'onOrderedFailure', invalid],
  ['reviewOutboxContradiction', ['no-uuid', 'a reason'], 'eventId', invalid],
  ['reviewOutboxContradiction', [LEASE.outboxId, ''], 'reason', invalid],
  ['declareOutboxRails', [[RAIL], '', { serving: true }], 'declaredBy', invalid],
  ['declareOutboxRails', [[{ ...RAIL, type: 'a b' }], WORKER, { serving: true }], 'rails.type', invalid],
  ['deregisterOutboxWorker', [''], 'workerId', invalid],
]

function instructions(): (readonly [change: object, argument: string, errorClass: unknown])[] {
  const id = (field: string) =>
    [
      [{ [field]: '' }, field, invalid],
      [{ [field]: null }, field, invalid],
      [{ [field]: 7 }, field, invalid],
      [{ [field]: 'two words' }, field, invalid],
      [{ [field]: 'ö' }, field, invalid],
      [{ [field]: LONG_ID }, field, outOfRange],
    ] as const
  return [
    ...['instructionId', 'participantId', 'idempotencyKey', 'railType'].flatMap(id),
    [{ idempotencyKey: 'k~redrive~1' }, 'idempotencyKey', invalid],
    [{ payload: [] }, 'payload', invalid],
    [{ payload: null }, 'payload', invalid],
    [{ payload: 'text' }, 'payload', invalid],
    [{ payload: { amount: Number.NaN } }, 'payload.amount', outOfRange],
    [{ notBefore: new Date('never') }, 'notBefore', invalid],
    [{ notBefore: '2026-01-01' }, 'notBefore', invalid],
    [{ ordered: 'yes' }, 'ordered', invalid],
  ]
}

function leases(wrapper: string, rest: readonly unknown[]): Refusal[] {
  return [
    [wrapper, [{ ...LEASE, outboxId: 'not-an-id' }, ...rest], 'outboxId', invalid],
    [wrapper, [{ ...LEASE, outboxId: undefined }, ...rest], 'outboxId', invalid],
    [wrapper, [{ ...LEASE, leaseToken: `${LEASE.leaseToken}0` }, ...rest], 'leaseToken', invalid],
    [wrapper, [{ outboxId: LEASE.outboxId }, ...rest], 'leaseToken', invalid],
  ]
}

function listsOfLeases(wrapper: string, rest: readonly unknown[]): Refusal[] {
  return [
    [wrapper, [[], ...rest], 'leases', outOfRange],
    [wrapper, [TOO_MANY, ...rest], 'leases', outOfRange],
    [wrapper, [LEASE, ...rest], 'leases', invalid],
    [wrapper, [[LEASE, { ...LEASE, outboxId: '' }], ...rest], 'leases[1].outboxId', invalid],
    [wrapper, [[LEASE, { ...LEASE, leaseToken: null }], ...rest], 'leases[1].leaseToken', invalid],
  ]
}

function outcomes(): (readonly [change: object, argument: string, errorClass: unknown])[] {
  const text = (field: string, lengthMax: number) =>
    [
      [{ [field]: ' ' }, field, invalid],
      [{ [field]: 7 }, field, invalid],
      [{ [field]: CONTROL }, field, invalid],
      [{ [field]: 'x'.repeat(lengthMax + 1) }, field, outOfRange],
    ] as const
  return [
    [{ outboxId: 'not-an-id' }, 'outboxId', invalid],
    [{ leaseToken: undefined }, 'leaseToken', invalid],
    [{ state: '' }, 'state', invalid],
    [{ state: undefined }, 'state', invalid],
    ...text('railReference', 255),
    ...text('railCode', 128),
    ...text('errorCode', 128),
    ...text('holdReason', 1000),
    [{ latencyMs: -1 }, 'latencyMs', outOfRange],
    [{ latencyMs: 0.5 }, 'latencyMs', outOfRange],
    [{ latencyMs: 2 ** 31 }, 'latencyMs', outOfRange],
    [{ latencyMs: '1' }, 'latencyMs', invalid],
    [{ retryDelaySeconds: -1 }, 'retryDelaySeconds', outOfRange],
    [{ retryDelaySeconds: 2_592_001 }, 'retryDelaySeconds', outOfRange],
    [{ outcomeUnknown: 'no' }, 'outcomeUnknown', invalid],
  ]
}

function singleOutcomes(wrapper: string): Refusal[] {
  const each = outcomes().map(([change, argument, errorClass]): Refusal => [
    wrapper,
    [WORKER, changed(OUTCOME, change)],
    `outcomes[0].${argument}`,
    errorClass,
  ])
  return [[wrapper, ['', OUTCOME], 'workerId', invalid], ...each]
}

function pauses(wrapper: string): Refusal[] {
  return [
    [wrapper, ['', 'sepa', 'a reason'], 'kind', invalid],
    [wrapper, ['rail', 'two words', 'a reason'], 'name', invalid],
    ...reasons(wrapper, ['rail', 'sepa']),
  ]
}

function reasons(wrapper: string, before: readonly unknown[]): Refusal[] {
  return [
    [wrapper, [...before, ' '], 'reason', invalid],
    [wrapper, [...before, null], 'reason', invalid],
    [wrapper, [...before, CONTROL], 'reason', invalid],
    [wrapper, [...before, 'x'.repeat(1001)], 'reason', outOfRange],
  ]
}

function changed(base: object, change: object): object {
  return { ...base, ...change }
}

describe.for([...new Set(refusals.map(([wrapper]) => wrapper))])('%s', (wrapper) => {
  const own = refusals.filter(([name]) => name === wrapper)

  test.for(own.map((refusal, index) => [index + 1, refusal[2], refusal] as const))(
    'refuses an invalid argument before any I/O: case %i, %s',
    async ([, , [, args, argument, errorClass]]) => {
      const refusal = await failureOf(Reflect.apply(wrappers.get(wrapper)!, undefined, [unreachable, ...args]))
      expect(refusal).toBeInstanceOf(errorClass)
      expect(refusal).toMatchObject({ argument })
    },
  )
})

test('every exported wrapper except the reads has refusal cases', () => {
  const names = [...wrappers.keys()].filter((name) => /^(?!read)[a-z]+.*(Outbox|Expired|LateOutcome)/.test(name))
  expect(new Set(refusals.map(([name]) => name))).toEqual(new Set(names))
})

describe('a valid call of a wrapper', () => {
  let db: TestDatabase
  beforeAll(async () => {
    db = await createTestDatabase()
  })
  afterAll(() => db.drop())

  test('queries the database once, with the function qualified by the client’s schema', async () => {
    const asked: string[] = []
    const recording: Queryable = {
      schema: 'Pay "Out-box" é',
      query: (text) => {
        asked.push(text)
        return Promise.reject(new Error('enough'))
      },
    }
    const call = outbox.completeOutboxAttempt(recording, WORKER, { ...LEASE, state: 'DISPATCHED' })
    await expect(call).rejects.toThrow('enough')
    expect(asked).toHaveLength(1)
    expect(asked[0]).toContain('"Pay ""Out-box"" é"."complete_outbox_attempt"(')
  })

  test('is accepted by wrapper and function with arguments at their limits', async () => {
    const executor = db.as('symphony_executor')
    const longest = 'i'.repeat(128)
    const instruction = {
      ...buildInstruction(),
      instructionId: longest,
      participantId: longest,
      idempotencyKey: longest,
      railType: longest,
    }
    const { outboxId } = await outbox.enqueuePaymentOutbox(db.as('symphony_ingest'), instruction)
    const [claimed] = await outbox.claimOutboxBatch(executor, 1000, longest, 3600, {
      rails: [longest],
      markedRails: [longest],
    })
    await outbox.renewOutboxLease(executor, claimed!, longest, 1)
    await outbox.completeOutboxAttempt(executor, longest, {
      outboxId,
      leaseToken: claimed!.leaseToken.toUpperCase(),
      state: 'RETRYABLE',
      railReference: 'r'.repeat(255),
      railCode: 'c'.repeat(128),
      errorCode: 'e'.repeat(128),
      errorMessage: 'm'.repeat(2000),
      latencyMs: 2_147_483_647,
      retryDelaySeconds: 2_592_000,
      outcomeUnknown: null,
      holdReason: 'h'.repeat(1000),
    })
    expect(await attemptRows(db, outboxId)).toMatchObject([{ latency_ms: 2_147_483_647 }])
  })

  test.for([
    ['that is too long', 'x'.repeat(5000), `${'x'.repeat(1999)}…`],
    ['that is cut inside a character', `${'x'.repeat(1998)}😀😀`, `${'x'.repeat(1998)}\uFFFD…`],
    ['with control characters and NUL', 'a\u0000b\u0007c', 'a\uFFFDb\uFFFDc'],
    ['with a lone surrogate', 'a\uD800b', 'a\uFFFDb'],
    ['that is blank', '  ', '(no text)'],
  ] as const)('repairs an error message %s, and records the outcome', async ([, given, stored]) => {
    const { outboxId, leaseToken } = await enqueueAndClaim(db)
    const outcome = { outboxId, leaseToken, state: 'FAILED' as const, errorMessage: given }
    await outbox.completeOutboxAttempt(db.as('symphony_executor'), WORKER, outcome)
    expect(await attemptRows(db, outboxId)).toMatchObject([{ state: 'FAILED', error_message: stored }])
  })

  test('returns bigints, Dates and error classes even through a pg client without our type parsers', async () => {
    const client = new Client(db.url)
    await client.connect()
    const own = withSchema({ query: (text, values) => client.query<never>(text, [...(values ?? [])]) }, db.schema)
    const instruction = buildInstruction({ payload: { amountMinor: '9007199254740993', at: null } })
    const item = await outbox.enqueuePaymentOutbox(own, { ...instruction, notBefore: new Date('2020-01-01T00:00:00Z') })
    expect(item).toEqual({
      outboxId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      sequenceId: 1n,
      createdAt: expect.any(Date),
      state: 'PENDING',
      created: true,
    })
    const [claimed] = await outbox.claimOutboxBatch(own, 1, WORKER, 60, { rails: [instruction.railType] })
    expect(claimed).toMatchObject({ sequenceId: 1n, payload: instruction.payload, claimedAt: expect.any(Date) })
    const renewed = await outbox.renewOutboxLease(own, claimed!, WORKER, 600)
    expect(renewed).toBeInstanceOf(Date)
    const { outboxId, leaseToken } = claimed!
    const outcome = { outboxId, leaseToken, state: 'RETRYABLE' as const, outcomeUnknown: true, retryDelaySeconds: 0 }
    await outbox.completeOutboxAttempt(own, WORKER, outcome)
    const [again] = await outbox.claimOutboxBatch(own, 1, WORKER, 60, { rails: [instruction.railType] })
    expect(again!.evidence!.lastAttempt!.completedAt).toBeInstanceOf(Date)
    const lost = await failureOf(outbox.completeOutboxAttempt(own, WORKER, outcome))
    expect(lost).toBeInstanceOf(LeaseLostError)
    expect(lost).toMatchObject({ recorded: { attemptNo: 1, state: 'RETRYABLE' } })
    const conflict = await failureOf(outbox.enqueuePaymentOutbox(own, { ...instruction, payload: {} }))
    expect(conflict).toBeInstanceOf(IdempotencyConflictError)
    await client.end()
  })

  test('fails with UNEXPECTED_ROWS if the function does not return one row', async () => {
    for (const values of ['', '(1), (2)']) {
      const select = values === '' ? 'SELECT 1 WHERE false' : `VALUES ${values}`
      const wrongShape: Queryable = { query: () => db.queryNoRole(select) }
      const refusal = await failureOf(outbox.approveOutboxProposal(wrongShape, randomUUID()))
      expect(refusal).toBeInstanceOf(SymphonyError)
      expect(refusal).toMatchObject({ code: 'UNEXPECTED_ROWS' })
    }
  })
})
