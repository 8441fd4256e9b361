import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { JsonObject, JsonValue } from '../../libs/core/index.js'
import {
  approveOutboxLimit,
  cancelOutboxItem,
  enqueuePaymentOutboxBatch,
  placeOutboxHold,
  proposeOutboxLimit,
  proposePaymentOutbox,
  readLimits,
  readReplays,
  repairExpiredLeases,
  resolveOutboxHold,
  withdrawOutboxLimit,
  type LimitRule,
  type OutboxInstruction,
} from '../../libs/outbox/index.js'
import { useTestDatabase, withTestDatabase } from '../support/database.js'
import { brokenLedgerRules, readLedgerText } from '../support/ledgerRules.js'
import { buildInstruction, claim, claimOnly, complete, enqueue, eventRows, pendingRow } from '../support/outboxItems.js'
import { approve, createPerson, propose } from '../support/outboxPeople.js'
import { failureOf, openConnection, race } from '../support/race.js'

const db = await useTestDatabase()
const olga = await createPerson(db, 'olga')
const pavel = await createPerson(db, 'pavel')

const DAY = 86_400
const REASON = 'as agreed with risk'

/** Returns a unique rail and participant, so that tests share no limit. */
function buildSubject() {
  const unique = randomUUID()
  return { railType: `rail-${unique}`, participantId: `participant-${unique}` }
}

/** Sets a limit as two people. Returns its name. */
async function setLimit(rule: LimitRule | null, name = `limit-${randomUUID()}`): Promise<string> {
  const proposalId = await proposeOutboxLimit(olga.control, name, rule, REASON)
  expect(await approveOutboxLimit(pavel.control, proposalId)).toBe(name)
  return name
}

const approvalAbove = (limit: string, approvals: number, subject: Partial<LimitRule>): LimitRule => ({
  kind: 'approval',
  limit,
  currency: 'EUR',
  approvals,
  ...subject,
})

const amountPerDay = (limit: string, subject: Partial<LimitRule>): LimitRule => ({
  kind: 'amount',
  limit,
  currency: 'EUR',
  windowSeconds: DAY,
  ...subject,
})

const countPerDay = (limit: string, subject: Partial<LimitRule>): LimitRule => ({
  kind: 'count',
  limit,
  windowSeconds: DAY,
  ...subject,
})

const euros = (amount: JsonValue): JsonObject => ({ amount, currency: 'EUR' })

/** Enqueues a payment of this amount. Returns its id and hold reason. */
async function pay(amount: JsonValue, overrides: Partial<OutboxInstruction>) {
  const { outboxId } = await enqueue(db, { payload: euros(amount), ...overrides })
  return { outboxId, held: await holdOf(outboxId) }
}

async function holdOf(outboxId: string): Promise<string | null | undefined> {
  return (await pendingRow(db, outboxId))?.hold_reason
}

/** Enqueues payments in one call. Returns their hold reasons in the same order. */
async function payAll(instructions: readonly Partial<OutboxInstruction>[]): Promise<(string | null | undefined)[]> {
  const items = await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), instructions.map(buildInstruction))
  return Promise.all(items.map(({ outboxId }) => holdOf(outboxId)))
}

async function limitOf(name: string) {
  const { limits } = await readLimits(db.as('symphony_readonly'))
  return limits.find((limit) => limit.name === name)
}

async function limitEvents(name: string) {
  const { rows } = await db.queryNoRole<{ event_type: string; actor: string; detail: JsonObject }>(
    'SELECT event_type, actor, detail FROM payment_outbox_events WHERE scope = $1 ORDER BY event_no',
    [`limit:${name}`],
  )
  return rows
}

/** Moves the usage of a limit back in time, as if this many seconds had passed. */
async function age(name: string, seconds: number): Promise<void> {
  await db.queryNoRole(
    `UPDATE outbox_limit_usage SET expires_at = expires_at - make_interval(secs => $2),
       exceeded_at = exceeded_at - make_interval(secs => $2) WHERE limit_name = $1`,
    [name, seconds],
  )
  await db.queryNoRole(`UPDATE outbox_limits SET set_at = set_at - make_interval(secs => $2) WHERE limit_name = $1`, [
    name,
    seconds,
  ])
}

describe('a limit on payments', () => {
  test('applies only after a second person approved it; proposal and approval are events', async () => {
    const subject = buildSubject()
    const name = `limit-${randomUUID()}`
    const rule = countPerDay('0', subject)
    const proposalId = await proposeOutboxLimit(olga.control, name, rule, REASON)
    expect((await pay('1', subject)).held).toBeNull()
    expect(await limitOf(name)).toBeUndefined()
    expect((await readLimits(db.as('symphony_auditor'))).proposals).toContainEqual({
      proposalId,
      name,
      rule: { ...rule, currency: null, approvals: null },
      reason: REASON,
      proposedBy: olga.name,
      proposedAt: expect.any(String),
    })
    await expect(approveOutboxLimit(olga.control, proposalId)).rejects.toMatchObject({ code: 'APPROVAL_REQUIRED' })
    expect((await pay('1', subject)).held).toBeNull()
    await approveOutboxLimit(pavel.control, proposalId)
    expect((await pay('1', subject)).held).toBe('LIMIT_EXCEEDED')
    expect(await limitOf(name)).toMatchObject({
      ...rule,
      name,
      setBy: pavel.name,
      used: '0',
      exceededAt: expect.any(String),
    })
    const stored = {
      kind: 'count',
      limit_value: '0',
      rail_type: subject.railType,
      participant_id: subject.participantId,
    }
    expect(await limitEvents(name)).toEqual([
      {
        event_type: 'LIMIT_PROPOSED',
        actor: olga.name,
        detail: { proposal_id: proposalId, rule: { ...stored, window_seconds: DAY }, reason: REASON },
      },
      {
        event_type: 'LIMIT_SET',
        actor: pavel.name,
        detail: {
          proposal_id: proposalId,
          rule: { ...stored, window_seconds: DAY },
          reason: REASON,
          proposed_by: olga.name,
          approved_by: pavel.name,
        },
      },
    ])
  })

  test('cannot be approved in the transaction that proposed it, even by another login (P7007)', async () => {
    const superuser = await openConnection(db)
    const become = async ({ name }: { readonly name: string }) => {
      await superuser.query(`SET SESSION AUTHORIZATION "${name}"`)
      await superuser.query('SET ROLE symphony_control')
    }
    await superuser.query('BEGIN')
    await become(olga)
    const proposalId = await proposeOutboxLimit(superuser, 'same', countPerDay('1', buildSubject()), REASON)
    await become(pavel)
    expect(await failureOf(approveOutboxLimit(superuser, proposalId))).toMatchObject({ sqlstate: 'P7007' })
    await superuser.query('ROLLBACK')
    await superuser.close()
  })

  test('keeps its value if a proposed change is withdrawn; the change cannot be approved (P7006)', async () => {
    const subject = buildSubject()
    const name = await setLimit(countPerDay('1', subject))
    const proposalId = await proposeOutboxLimit(olga.control, name, countPerDay('5', subject), REASON)
    expect(await failureOf(proposeOutboxLimit(pavel.control, name, null, REASON))).toMatchObject({ sqlstate: 'P7006' })
    await withdrawOutboxLimit(olga.control, proposalId, 'not needed')
    expect(await limitOf(name)).toMatchObject({ limit: '1' })
    expect((await limitEvents(name)).at(-1)).toEqual({
      event_type: 'LIMIT_WITHDRAWN',
      actor: olga.name,
      detail: { proposal_id: proposalId, reason: 'not needed' },
    })
    expect(await failureOf(approveOutboxLimit(pavel.control, proposalId))).toMatchObject({ sqlstate: 'P7006' })
    expect(await failureOf(withdrawOutboxLimit(pavel.control, proposalId, 'no'))).toMatchObject({ sqlstate: 'P7006' })
  })

  test('is removed by two people, together with its usage', async () => {
    const subject = buildSubject()
    const name = await setLimit(countPerDay('1', subject))
    expect([(await pay('1', subject)).held, (await pay('1', subject)).held]).toEqual([null, 'LIMIT_EXCEEDED'])
    await setLimit(null, name)
    expect((await pay('1', subject)).held).toBeNull()
    expect((await limitEvents(name)).at(-1)).toMatchObject({ event_type: 'LIMIT_SET', detail: { rule: null } })
    const { rows } = await db.queryNoRole('SELECT 1 FROM outbox_limit_usage WHERE limit_name = $1', [name])
    expect(rows).toEqual([])
    expect(await failureOf(proposeOutboxLimit(olga.control, name, null, REASON))).toMatchObject({ sqlstate: '22023' })
  })

  test.each(['REPEATABLE READ', 'SERIALIZABLE'])(
    'is proposed and decided only under READ COMMITTED, not %s',
    async (level) => {
      const subject = buildSubject()
      const name = await setLimit(countPerDay('1', subject))
      const proposalId = await proposeOutboxLimit(olga.control, name, null, REASON)
      const connection = await openConnection(db, 'symphony_control')
      const calls = [
        () => proposeOutboxLimit(connection, `limit-${randomUUID()}`, countPerDay('1', subject), REASON),
        () => proposeOutboxLimit(connection, name, null, REASON),
        () => approveOutboxLimit(connection, proposalId),
        () => withdrawOutboxLimit(connection, proposalId, REASON),
      ]
      for (const call of calls) {
        await connection.query(`BEGIN ISOLATION LEVEL ${level}`)
        expect(await failureOf(call())).toMatchObject({ sqlstate: '40001' })
        await connection.query('ROLLBACK')
      }
      await connection.close()
    },
  )

  test.each<[what: string, rule: object]>([
    ['neither rail nor participant', { ...countPerDay('1', {}) }],
    ['a count in a currency', countPerDay('1', { railType: 'r', currency: 'EUR' })],
    ['a count with a fraction', countPerDay('1.5', { railType: 'r' })],
    ['a count with approvals', countPerDay('1', { railType: 'r', approvals: 1 })],
    ['an amount without a currency', { kind: 'amount', limit: '1', windowSeconds: DAY, railType: 'r' }],
    ['an amount without a window', { kind: 'amount', limit: '1', currency: 'EUR', railType: 'r' }],
    ['an approval with a window', approvalAbove('1', 1, { railType: 'r', windowSeconds: DAY })],
    ['an approval without a number of people', { kind: 'approval', limit: '1', currency: 'EUR', railType: 'r' }],
    ['an approval by three people', approvalAbove('1', 3, { railType: 'r' })],
    ['a code that is no currency', amountPerDay('1', { railType: 'r', currency: 'XXX' })],
    ['an unknown kind', { kind: 'sum', limit: '1', railType: 'r' }],
    ['an unknown field', { ...countPerDay('1', { railType: 'r' }), window: DAY }],
    ['a limit as a number', { ...countPerDay('1', { railType: 'r' }), limit: 1 }],
    ['a window of 59 seconds', countPerDay('1', { railType: 'r', windowSeconds: 59 })],
  ])('is refused with %s', async (_what, rule) => {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a rule that the types refuse
    const refused = proposeOutboxLimit(olga.control, 'refused', rule as LimitRule, REASON)
    expect(await failureOf(refused)).toMatchObject({
      code: expect.stringMatching(/^(INVALID_ARGUMENT|ARGUMENT_OUT_OF_RANGE|INVALID_PARAMETER)$/),
    })
  })
})

function enter(instruction: OutboxInstruction) {
  return proposePaymentOutbox(db.as('symphony_ingest'), instruction, 'entered by hand')
}

describe('a payment that a person enters', () => {
  test.each([
    ['above an approval limit', '11', 'AMOUNT_APPROVAL'],
    ['below every approval limit', '9', 'PAYMENT_APPROVAL'],
  ])('counts once, when another person approves it: %s', async (_what, amount, reason) => {
    const subject = buildSubject()
    await setLimit(approvalAbove('10', 1, { railType: subject.railType }))
    const name = await setLimit(countPerDay('5', { railType: subject.railType }))
    const item = await enter(buildInstruction({ ...subject, payload: { amount, currency: 'EUR' } }))
    expect(await pendingRow(db, item.outboxId)).toMatchObject({ hold_reason: reason })
    expect(await limitOf(name)).toMatchObject({ used: '0' })
    await approve(pavel, item.proposalId!)
    expect(await limitOf(name)).toMatchObject({ used: '1' })
    await placeOutboxHold(olga.control, item.outboxId, 'PAYMENT_APPROVAL')
    await resolveOutboxHold(olga.control, item.outboxId, 'RETRY', 'checked')
    expect(await limitOf(name)).toMatchObject({ used: '1' })
  })

  test('does not count if it is cancelled before its approval', async () => {
    const subject = buildSubject()
    const name = await setLimit(countPerDay('5', { railType: subject.railType }))
    const item = await enter(buildInstruction(subject))
    await cancelOutboxItem(db.as('symphony_ingest'), item.outboxId, 'entered twice')
    expect(await limitOf(name)).toMatchObject({ used: '0' })
  })
})

describe('an approval limit', () => {
  test('holds a payment above the amount until one person releases it', async () => {
    const subject = buildSubject()
    const name = await setLimit(approvalAbove('10000.00', 1, { railType: subject.railType }))
    expect((await pay('10000.00', subject)).held).toBeNull()
    const { outboxId, held } = await pay('10000.01', subject)
    expect(held).toBe('AMOUNT_APPROVAL')
    expect(await pendingRow(db, outboxId)).toMatchObject({ held_by: 'symphony', held_at: expect.any(Date) })
    expect(await eventRows(db, outboxId)).toMatchObject([
      {
        event_type: 'HOLD_PLACED',
        actor: 'symphony',
        detail: { reason: 'AMOUNT_APPROVAL', limit: name, approvals: 1 },
      },
    ])
    expect((await claim(db, subject.railType)).map((item) => item.outboxId)).not.toContain(outboxId)
    expect(await resolveOutboxHold(olga.control, outboxId, 'RETRY', 'checked')).toMatchObject({ status: 'APPLIED' })
    expect(await claimOnly(db, subject.railType)).toMatchObject({ outboxId })
  })

  test('needs two approvers besides the person who enters a payment if approvals is 2', async () => {
    const subject = buildSubject()
    await setLimit(approvalAbove('10', 2, { railType: subject.railType }))
    const instruction = buildInstruction({ ...subject, payload: { amount: '11', currency: 'EUR' } })
    const item = await enter(instruction)
    expect(await approve(olga, item.proposalId!)).toMatchObject({ applied: false })
    await expect(approve(olga, item.proposalId!)).rejects.toMatchObject({ code: 'APPROVAL_REQUIRED' })
    expect(await holdOf(item.outboxId)).toBe('AMOUNT_APPROVAL')
    expect(await approve(pavel, item.proposalId!)).toMatchObject({ applied: true })
    expect(await holdOf(item.outboxId)).toBeNull()
  })

  test('holds a payment that a person enters by one event, with the reason and the limit', async () => {
    const subject = buildSubject()
    const name = await setLimit(approvalAbove('10', 1, { railType: subject.railType }))
    const payload = { amount: '11', currency: 'EUR' }
    const outcomeTopic = `outcomes-${randomUUID()}`
    const { outboxId } = await enter(buildInstruction({ ...subject, payload, outcomeTopic }))
    expect(await eventRows(db, outboxId)).toMatchObject([
      { event_type: 'HOLD_PLACED', detail: { reason: 'AMOUNT_APPROVAL', limit: name, approvals: 2 } },
      { event_type: 'DECISION_PROPOSED' },
    ])
    const messages = await db.queryNoRole('SELECT payload FROM payment_outbox_pending WHERE rail_type = $1', [
      outcomeTopic,
    ])
    expect(messages.rows).toMatchObject([{ payload: { state: 'HELD', holdReason: 'AMOUNT_APPROVAL' } }])
  })

  test('needs one person to propose and another to approve the release if approvals is 2', async () => {
    const subject = buildSubject()
    await setLimit(approvalAbove('10', 1, { railType: subject.railType }))
    const strict = await setLimit(approvalAbove('20', 2, { participantId: subject.participantId }))
    const lower = await pay('15', subject)
    expect(await resolveOutboxHold(olga.control, lower.outboxId, 'RETRY', 'checked')).toMatchObject({
      status: 'APPLIED',
    })
    const { outboxId } = await pay('20.01', subject)
    expect((await eventRows(db, outboxId)).at(-1)).toMatchObject({ detail: { limit: strict, approvals: 2 } })
    const proposalId = await propose(olga, outboxId, 'RETRY')
    expect(await holdOf(outboxId)).toBe('AMOUNT_APPROVAL')
    await expect(approve(olga, proposalId)).rejects.toMatchObject({ code: 'APPROVAL_REQUIRED' })
    await approve(pavel, proposalId)
    expect(await holdOf(outboxId)).toBeNull()
  })

  test('does not require two people to release a later hold of another reason', async () => {
    const subject = buildSubject()
    await setLimit(approvalAbove('10', 2, { railType: subject.railType }))
    const { outboxId } = await pay('15', subject)
    await approve(pavel, await propose(olga, outboxId, 'RETRY'))
    await placeOutboxHold(olga.control, outboxId, 'please wait')
    expect(await resolveOutboxHold(olga.control, outboxId, 'RETRY', 'checked')).toMatchObject({ status: 'APPLIED' })
  })

  test('keeps the notBefore of the application when a person releases the payment', async () => {
    const subject = buildSubject()
    await setLimit(approvalAbove('10', 1, subject))
    const notBefore = new Date(Date.now() + 3_600_000)
    const { outboxId } = await pay('15', { ...subject, notBefore })
    await resolveOutboxHold(olga.control, outboxId, 'RETRY', 'checked')
    expect((await pendingRow(db, outboxId))?.next_attempt_at).toEqual(notBefore)
  })
})

describe('an amount limit', () => {
  test('accepts payments up to the sum of its window, and holds the first one that exceeds it', async () => {
    const subject = buildSubject()
    const name = await setLimit(amountPerDay('250.00', { participantId: subject.participantId }))
    expect((await pay('100.25', subject)).held).toBeNull()
    expect((await pay('149.75', subject)).held).toBeNull()
    expect(await limitOf(name)).toMatchObject({ used: '250.00', exceededAt: null })
    const { outboxId, held } = await pay('0.01', subject)
    expect(held).toBe('LIMIT_EXCEEDED')
    expect((await eventRows(db, outboxId)).at(-1)?.detail).toEqual({ reason: 'LIMIT_EXCEEDED', limit: name })
    expect(await limitOf(name)).toMatchObject({ used: '250.00', exceededAt: expect.any(String) })
  })

  test('holds every payment after it was exceeded, even a small one, until the window has passed', async () => {
    const subject = buildSubject()
    const name = await setLimit(amountPerDay('100', subject))
    expect((await pay('100.01', subject)).held).toBe('LIMIT_EXCEEDED')
    expect((await pay('1', subject)).held).toBe('LIMIT_EXCEEDED')
    await age(name, DAY - 1)
    expect((await pay('1', subject)).held).toBe('LIMIT_EXCEEDED')
    // Payments held after the limit was exceeded do not prolong the stop. It ends at most one bucket (DAY / 100) after
    // the window.
    await age(name, DAY / 100 + 1)
    expect((await pay('1', subject)).held).toBeNull()
    expect(await limitOf(name)).toMatchObject({ used: '1', exceededAt: null })
  })

  test('counts a bucket (1/100 of the window) in full until its end has left the window', async () => {
    const subject = buildSubject()
    const name = await setLimit(amountPerDay('100', subject))
    expect((await pay('60', subject)).held).toBeNull()
    await age(name, DAY - 1)
    expect((await pay('50', subject)).held).toBe('LIMIT_EXCEEDED')
  })

  test('keeps its usage when two people raise it, and allows payments up to the new amount', async () => {
    const subject = buildSubject()
    const name = await setLimit(amountPerDay('100', subject))
    expect([(await pay('90', subject)).held, (await pay('20', subject)).held]).toEqual([null, 'LIMIT_EXCEEDED'])
    await setLimit(amountPerDay('105', subject), name)
    expect((await pay('15', subject)).held).toBeNull()
    expect(await limitOf(name)).toMatchObject({ used: '105', limit: '105' })
    expect((await pay('0.01', subject)).held).toBe('LIMIT_EXCEEDED')
  })

  test('counts existing buckets for the new window if two people change the window', async () => {
    const subject = buildSubject()
    const name = await setLimit(amountPerDay('100', subject))
    expect((await pay('90', subject)).held).toBeNull()
    await setLimit(amountPerDay('100', { ...subject, windowSeconds: 2 * DAY }), name)
    await age(name, DAY + DAY / 50)
    expect(await limitOf(name)).toMatchObject({ used: '90' })
    await setLimit(amountPerDay('100', subject), name)
    expect(await limitOf(name)).toMatchObject({ used: '0' })
  })

  test('starts at zero if two people change its rail or participant', async () => {
    const subject = buildSubject()
    const name = await setLimit(amountPerDay('100', { participantId: subject.participantId }))
    expect((await pay('90', subject)).held).toBeNull()
    await setLimit(amountPerDay('100', { railType: subject.railType }), name)
    expect(await limitOf(name)).toMatchObject({ used: '0' })
  })

  test('checks the payments of a batch in their order, per participant', async () => {
    const [one, two] = [buildSubject(), buildSubject()]
    await setLimit(amountPerDay('100', { participantId: one.participantId }))
    await setLimit(amountPerDay('10', { participantId: two.participantId }))
    const held = await payAll([
      { ...one, payload: euros('60') },
      { ...two, payload: euros('10') },
      { ...one, payload: euros('60') },
      { ...one, payload: euros('40') },
      { ...two, payload: euros('0.01') },
      { ...buildSubject(), payload: euros('1000') },
    ])
    expect(held).toEqual([null, null, 'LIMIT_EXCEEDED', 'LIMIT_EXCEEDED', 'LIMIT_EXCEEDED', null])
  })

  test('applies only to payments of its rail and its participant', async () => {
    const [subject, other] = [buildSubject(), buildSubject()]
    await setLimit(amountPerDay('1', subject))
    expect((await pay('5', { ...subject, railType: other.railType })).held).toBeNull()
    expect((await pay('5', { ...subject, participantId: other.participantId })).held).toBeNull()
    expect((await pay('5', subject)).held).toBe('LIMIT_EXCEEDED')
  })

  test('does not count a payment that another limit holds', async () => {
    const subject = buildSubject()
    const amount = await setLimit(amountPerDay('100', subject))
    const count = await setLimit(countPerDay('2', subject))
    await setLimit(approvalAbove('50', 1, subject))
    expect((await pay('60', subject)).held).toBe('AMOUNT_APPROVAL')
    expect(await limitOf(amount)).toMatchObject({ used: '0' })
    expect([(await pay('10', subject)).held, (await pay('10', subject)).held]).toEqual([null, null])
    expect((await pay('10', subject)).held).toBe('LIMIT_EXCEEDED')
    expect([await limitOf(amount), await limitOf(count)]).toMatchObject([
      { used: '20', exceededAt: null },
      { used: '2', exceededAt: expect.any(String) },
    ])
  })

  test('counts a released payment and does not hold it again', async () => {
    const subject = buildSubject()
    const name = await setLimit(amountPerDay('100', subject))
    const { outboxId } = await pay('150', subject)
    await resolveOutboxHold(olga.control, outboxId, 'RETRY', 'checked')
    expect(await holdOf(outboxId)).toBeNull()
    expect(await limitOf(name)).toMatchObject({ used: '150' })
  })

  test('counts a payment once, even if a person holds and releases it', async () => {
    const subject = buildSubject()
    const name = await setLimit(amountPerDay('100', subject))
    const { outboxId } = await pay('10', subject)
    await placeOutboxHold(olga.control, outboxId, 'please wait')
    await resolveOutboxHold(olga.control, outboxId, 'RETRY', 'checked')
    expect(await limitOf(name)).toMatchObject({ used: '10' })
  })

  test('checks a redrive like a new payment; a failure does not reduce the usage', async () => {
    const subject = buildSubject()
    const name = await setLimit(amountPerDay('100', subject))
    const { outboxId } = await pay('60', subject)
    await complete(db, await claimOnly(db, subject.railType), { state: 'FAILED', errorCode: 'REFUSED' })
    expect(await limitOf(name)).toMatchObject({ used: '60' })
    const { redrivenAs } = await approve(pavel, await propose(olga, outboxId, 'REDRIVE'))
    expect(await holdOf(redrivenAs!)).toBe('LIMIT_EXCEEDED')
  })

  test('counts a repeated enqueue once', async () => {
    const subject = buildSubject()
    const name = await setLimit(amountPerDay('100', subject))
    const instruction = buildInstruction({ ...subject, payload: euros('60') })
    const ingest = db.as('symphony_ingest')
    await enqueuePaymentOutboxBatch(ingest, [instruction])
    await enqueuePaymentOutboxBatch(ingest, [instruction])
    await enqueuePaymentOutboxBatch(ingest, [instruction, buildInstruction({ ...subject, payload: euros('40') })])
    expect(await limitOf(name)).toMatchObject({ used: '100', exceededAt: null })
  })
})

describe('a count limit', () => {
  test('counts payments of any content, and never messages', async () => {
    const subject = buildSubject()
    const name = await setLimit(countPerDay('3', { railType: subject.railType }))
    const ingest = db.as('symphony_ingest')
    const messages = Array.from({ length: 5 }, () => buildInstruction(subject))
    await enqueuePaymentOutboxBatch(ingest, messages, { isMessage: true })
    const held = await payAll([
      { railType: subject.railType, payload: {} },
      { railType: subject.railType, payload: { amount: 1 } },
      { railType: subject.railType, payload: euros('1') },
      { railType: subject.railType, payload: euros('1') },
    ])
    expect(held).toEqual([null, null, null, 'LIMIT_EXCEEDED'])
    expect(await limitOf(name)).toMatchObject({ used: '3' })
    await enqueuePaymentOutboxBatch(ingest, [buildInstruction(subject)], { isMessage: true })
    expect(await claim(db, subject.railType)).toHaveLength(9)
  })
})

describe('the hold reason LIMIT_UNREADABLE', () => {
  test.each<[what: string, payload: JsonObject]>([
    ['no amount', { currency: 'EUR' }],
    ['no currency', { amount: '1' }],
    ['a number as amount', { amount: 1, currency: 'EUR' }],
    ['null as amount', { amount: null, currency: 'EUR' }],
    ['an object as amount', { amount: { amount: '1' }, currency: 'EUR' }],
    ['a list as amount', { amount: ['1'], currency: 'EUR' }],
    ['a negative amount', { amount: '-1', currency: 'EUR' }],
    ['an amount of zero', { amount: '0.00', currency: 'EUR' }],
    ['an amount with an exponent', { amount: '1e309', currency: 'EUR' }],
    ['the amount NaN', { amount: 'NaN', currency: 'EUR' }],
    ['the amount Infinity', { amount: 'Infinity', currency: 'EUR' }],
    ['an amount of 41 digits', { amount: '1'.repeat(41), currency: 'EUR' }],
    ['an amount of 60,000 digits', { amount: '1'.repeat(60_000), currency: 'EUR' }],
    ['an amount with a leading zero', { amount: '01', currency: 'EUR' }],
    ['an amount with a plus sign', { amount: '+1', currency: 'EUR' }],
    ['an amount after a space', { amount: ' 1', currency: 'EUR' }],
    ['an amount before a line end', { amount: '1\n', currency: 'EUR' }],
    ['an amount with a decimal comma', { amount: '1,00', currency: 'EUR' }],
    ['an amount with a point and no decimals', { amount: '1.', currency: 'EUR' }],
    ['an amount in Arabic digits', { amount: '١', currency: 'EUR' }],
    ['an encrypted amount', { amount: 'symphony.sealed.v1.abc', currency: 'EUR' }],
    ['an encrypted currency', { amount: '1', currency: 'symphony.sealed.v1.abc' }],
    ['a currency in small letters', { amount: '1', currency: 'eur' }],
    ['a currency without a limit', { amount: '1', currency: 'USD' }],
    ['a currency that is an object', { amount: '1', currency: { currency: 'EUR' } }],
  ])('is set under an amount or approval limit for a payment with %s', async (_what, payload) => {
    for (const rule of [amountPerDay('100', {}), approvalAbove('100', 1, {})]) {
      const subject = buildSubject()
      const name = await setLimit({ ...rule, participantId: subject.participantId })
      const { outboxId } = await enqueue(db, { ...subject, payload })
      expect(await holdOf(outboxId)).toBe('LIMIT_UNREADABLE')
      expect((await eventRows(db, outboxId)).at(-1)?.detail).toMatchObject({ reason: 'LIMIT_UNREADABLE', limit: name })
    }
  })

  test('does not apply to a currency with its own limit of the same kind, rail and participant', async () => {
    const subject = buildSubject()
    const dollars = { ...subject, payload: { amount: '50', currency: 'USD' } }
    await setLimit(amountPerDay('100', subject))
    await setLimit(amountPerDay('60', { ...subject, currency: 'USD' }))
    expect(await payAll([dollars, { ...subject, payload: euros('90') }, dollars])).toEqual([
      null,
      null,
      'LIMIT_EXCEEDED',
    ])
    // The approval limit covers euros only, so it cannot check dollars.
    await setLimit(approvalAbove('1000', 1, subject))
    expect(await payAll([dollars])).toEqual(['LIMIT_UNREADABLE'])
  })

  test('needs two people to release if approvals is 2; only count limits then count the item', async () => {
    const subject = buildSubject()
    await setLimit(approvalAbove('100', 2, subject))
    const amount = await setLimit(amountPerDay('100', subject))
    const count = await setLimit(countPerDay('1', subject))
    const { outboxId, held } = await pay('secret', subject)
    expect(held).toBe('LIMIT_UNREADABLE')
    await approve(pavel, await propose(olga, outboxId, 'RETRY'))
    expect(await holdOf(outboxId)).toBeNull()
    expect([await limitOf(amount), await limitOf(count)]).toMatchObject([{ used: '0' }, { used: '1' }])
  })
})

describe('concurrent enqueues under a limit', () => {
  test('never exceed the limit of their participant', async () => {
    const subject = buildSubject()
    const name = await setLimit(amountPerDay('100', { participantId: subject.participantId }))
    await pay('1', subject)
    const { errors } = await race(db, 'symphony_ingest', 16, async (connection) => {
      for (let n = 0; n < 5; n += 1) {
        await enqueuePaymentOutboxBatch(connection, [buildInstruction({ ...subject, payload: euros('3') })])
      }
    })
    expect(errors).toEqual([])
    expect(await limitOf(name)).toMatchObject({ used: '100' })
    expect(await claim(db, subject.railType)).toHaveLength(34)
    const { rows } = await db.queryNoRole('SELECT 1 FROM outbox_limit_usage WHERE limit_name = $1', [name])
    // Writers of one participant wait for each other, so that a bucket has one row. The test spans at most two buckets.
    expect(rows.length).toBeLessThanOrEqual(2)
  })

  test('do not wait for each other on one rail; after both commits the limit counts both', async () => {
    const { railType } = buildSubject()
    const name = await setLimit(countPerDay('3', { railType }))
    // This payment creates a usage row, which the first of the two writers locks.
    await pay('1', { railType })
    const [one, two] = [await openConnection(db, 'symphony_ingest'), await openConnection(db, 'symphony_ingest')]
    for (const connection of [one, two]) {
      await connection.query('BEGIN')
      await connection.query(`SET LOCAL lock_timeout = '2s'`)
      await enqueuePaymentOutboxBatch(connection, [buildInstruction({ railType })])
    }
    await one.query('COMMIT')
    await two.query('COMMIT')
    expect(await limitOf(name)).toMatchObject({ used: '3' })
    expect((await pay('1', { railType })).held).toBe('LIMIT_EXCEEDED')
    await Promise.all([one.close(), two.close()])
  })

  test.each(['REPEATABLE READ', 'SERIALIZABLE'])(
    'succeed under %s and may exceed the limit by payments newer than their snapshot',
    async (level) => {
      const { railType } = buildSubject()
      const name = await setLimit(countPerDay('2', { railType }))
      await pay('1', { railType })
      const connection = await openConnection(db, 'symphony_ingest')
      await connection.query(`BEGIN ISOLATION LEVEL ${level}`)
      await connection.query('SELECT 1 FROM pg_class LIMIT 1')
      await pay('1', { railType })
      await enqueuePaymentOutboxBatch(connection, [buildInstruction({ railType })])
      await connection.query('COMMIT')
      expect(await limitOf(name)).toMatchObject({ used: '3' })
      await connection.close()
    },
  )
})

test('lease repair deletes expired buckets of limits and skips those that are locked', async () => {
  await withTestDatabase(async (own) => {
    await own.queryNoRole(
      `INSERT INTO outbox_limit_usage (limit_name, expires_at, slot_id, used)
       SELECT name, now() + age, gen_random_uuid(), 1
       FROM (VALUES ('gone', interval '-1 second'), ('kept', interval '1 hour'), ('locked', interval '-1 hour')) v(name, age)`,
    )
    const connection = await openConnection(own)
    await connection.query('BEGIN')
    await connection.query(`SELECT 1 FROM outbox_limit_usage WHERE limit_name = 'locked' FOR UPDATE`)
    await repairExpiredLeases(own.as('symphony_executor'), 10, 'w')
    const { rows } = await own.queryNoRole('SELECT limit_name FROM outbox_limit_usage ORDER BY 1')
    expect(rows).toEqual([{ limit_name: 'kept' }, { limit_name: 'locked' }])
    await connection.query('ROLLBACK')
    await connection.close()
  })
})

test('a replay of the full trail equals the queue row of a payment that a limit held', async () => {
  await withTestDatabase(async (own) => {
    await own.queryNoRole('UPDATE symphony_settings SET full_trail = true')
    const [one, two] = [await createPerson(own, 'one'), await createPerson(own, 'two')]
    const rule = countPerDay('0', { railType: 'r' })
    await approveOutboxLimit(two.control, await proposeOutboxLimit(one.control, 'none', rule, REASON))
    const { outboxId } = await enqueue(own, { railType: 'r' })
    expect(await readReplays(own.as('symphony_auditor'), [outboxId])).toMatchObject([{ verdict: 'equal' }])
    await resolveOutboxHold(one.control, outboxId, 'RETRY', 'checked')
    expect(await readReplays(own.as('symphony_auditor'), [outboxId])).toMatchObject([{ verdict: 'equal' }])
  })
})

test('the ledger breaks no rule after all tests of limits', async () => {
  expect(brokenLedgerRules(await readLedgerText(db.as('symphony_auditor')))).toEqual([])
})
