import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { readSystemStatus } from '../../libs/symphony/index.js'
import { AlertWatch } from '../../libs/observability/index.js'
import {
  completeOutboxAttempts,
  placeOutboxHold,
  readContradictionPage,
  readProposalPage,
  readOutboxStatus,
  recordLateOutcome,
  reviewOutboxContradiction,
  type ClaimedItem,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { createContradiction, claimOnly, enqueueAndClaim, eventRows, ledger } from '../support/outboxItems.js'
import { approve, createPerson, propose } from '../support/outboxPeople.js'

/**
 * Tests contradictions: two successes of one payment under different rail references. An alert fires until an operator
 * has reviewed each of them.
 */

const db = await useTestDatabase()
const olga = await createPerson(db, 'olga')
const pavel = await createPerson(db, 'pavel')

const SLOW = 'slow-worker'
const SUCCESSOR = 'successor'
const executor = () => db.as('symphony_executor')
const readonly = () => db.as('symphony_readonly')

const late = (lease: ClaimedItem, railReference: string) =>
  recordLateOutcome(executor(), SLOW, { ...lease, state: 'DISPATCHED', railReference })
const completeAs = (lease: ClaimedItem, railReference: string) =>
  completeOutboxAttempts(executor(), SUCCESSOR, [{ ...lease, state: 'DISPATCHED', railReference }])

async function takenOver(): Promise<{ readonly lost: ClaimedItem; readonly next: ClaimedItem }> {
  const lost = await enqueueAndClaim(db, {}, { workerId: SLOW })
  await db.expireLease(lost.outboxId)
  return { lost, next: await claimOnly(db, lost.railType, { workerId: SUCCESSOR }) }
}

async function counts(): Promise<{ readonly total: number; readonly unreviewed: number }> {
  const { contradictionsTotal, unreviewedContradictionCount } = await readOutboxStatus(readonly())
  return { total: Number(contradictionsTotal), unreviewed: Number(unreviewedContradictionCount) }
}

/** Returns by how much both counts grow during the action. */
async function growth(act: () => Promise<unknown>): Promise<{ readonly total: number; readonly unreviewed: number }> {
  const before = await counts()
  await act()
  const after = await counts()
  return { total: after.total - before.total, unreviewed: after.unreviewed - before.unreviewed }
}

describe('a contradiction', () => {
  const one = { total: 1, unreviewed: 1 }

  test('is counted once if a completion follows a late success with another reference', async () => {
    const { lost, next } = await takenOver()
    await late(lost, 'ref-1')
    expect(
      await growth(async () =>
        expect(await completeAs(next, 'ref-2')).toMatchObject([{ verdict: 'RECORDED', contradicted: true }]),
      ),
    ).toEqual(one)
    // Repeats the completion, as a worker does after a lost answer.
    expect(
      await growth(async () =>
        expect(await completeAs(next, 'ref-2')).toMatchObject([{ verdict: 'ALREADY_RECORDED', contradicted: true }]),
      ),
    ).toEqual({ total: 0, unreviewed: 0 })
  })

  test('is counted once if a late success follows a completion with another reference', async () => {
    const { lost, next } = await takenOver()
    expect(await completeAs(next, 'ref-2')).toMatchObject([{ verdict: 'RECORDED', contradicted: false }])
    expect(await growth(() => late(lost, 'ref-1'))).toEqual(one)
    expect(await growth(() => late(lost, 'ref-1'))).toEqual({ total: 0, unreviewed: 0 })
    // A repeated completion still returns contradicted: false, although a late outcome has contradicted the first one.
    expect(await completeAs(next, 'ref-2')).toMatchObject([{ verdict: 'ALREADY_RECORDED', contradicted: false }])
  })

  test('is counted if its completion is in a batch with other outcomes', async () => {
    const { lost, next } = await takenOver()
    await late(lost, 'ref-1')
    const other = await enqueueAndClaim(db, {}, { workerId: SUCCESSOR })
    const verdicts = () =>
      completeOutboxAttempts(executor(), SUCCESSOR, [
        { ...other, state: 'RETRYABLE' },
        { ...next, state: 'DISPATCHED', railReference: 'ref-2' },
      ])
    expect(
      await growth(async () =>
        expect(await verdicts()).toMatchObject([{ contradicted: false }, { contradicted: true }]),
      ),
    ).toEqual(one)
  })

  test('is counted if two people decide DISPATCHED with another reference than a late success', async () => {
    const { lost, next } = await takenOver()
    await placeOutboxHold(olga.control, lost.outboxId, 'please wait')
    await db.expireLease(next.outboxId)
    await late(lost, 'ref-1')
    const proposal = await propose(olga, lost.outboxId, 'DISPATCHED')
    expect(await growth(() => approve(pavel, proposal))).toEqual(one)
  })
})

describe('a review of a contradiction', () => {
  test('lowers only the unreviewed count and writes an event with actor and reason', async () => {
    const eventId = await createContradiction(db)
    const [shown] = await readContradictionPage(readonly(), { reviewed: false, limit: 1 })
    expect(shown).toMatchObject({
      eventId,
      recorded: { state: 'DISPATCHED', railReference: 'ref-1' },
      reported: { state: 'DISPATCHED', railReference: 'ref-2' },
      reviewedAt: null,
    })
    const { outboxId } = shown!
    const before = await ledger(db, outboxId)
    expect(await growth(() => reviewOutboxContradiction(olga.control, eventId, 'one payment, OPS-812'))).toEqual({
      total: 0,
      unreviewed: -1,
    })
    expect((await eventRows(db, outboxId)).at(-1)).toMatchObject({
      event_type: 'CONTRADICTION_REVIEWED',
      actor: olga.name,
      detail: { event_id: eventId, reason: 'one payment, OPS-812' },
    })
    expect(await ledger(db, outboxId)).toEqual(before)
    expect((await readContradictionPage(readonly(), { reviewed: true, limit: 1 }))[0]).toMatchObject({
      eventId,
      reviewedBy: olga.name,
      reviewReason: 'one payment, OPS-812',
    })
  })

  test('is refused for a reviewed contradiction (P7006) and for an unknown event (22023)', async () => {
    const eventId = await createContradiction(db)
    await reviewOutboxContradiction(olga.control, eventId, 'compared')
    await expect(reviewOutboxContradiction(pavel.control, eventId, 'me too')).rejects.toMatchObject({
      sqlstate: 'P7006',
      message: expect.stringContaining(olga.name),
    })
    await expect(reviewOutboxContradiction(olga.control, randomUUID(), 'compared')).rejects.toMatchObject({
      sqlstate: '22023',
    })
  })
})

test('a page of contradictions or proposals after something other than an id is refused', async () => {
  const page = { before: 'x', limit: 1 }
  for (const refused of [
    readContradictionPage(readonly(), { ...page, reviewed: false }),
    readProposalPage(readonly(), { ...page, status: 'OPEN' }),
  ]) {
    await expect(refused).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', argument: 'before' })
  }
})

test('SymphonyEndingContradicted fires until every contradiction is reviewed', async () => {
  const firing = async () => {
    const alerts = await new AlertWatch().evaluate(await readSystemStatus(db.database))
    return alerts.filter(({ name }) => name === 'SymphonyEndingContradicted')
  }
  const eventId = await createContradiction(db)
  expect(await firing()).toMatchObject([{ state: 'firing', severity: 'critical' }])
  const open = await readContradictionPage(readonly(), { reviewed: false, limit: 100 })
  expect(open.map((one) => one.eventId)).toContain(eventId)
  for (const one of open) await reviewOutboxContradiction(olga.control, one.eventId, 'compared')
  expect(await firing()).toEqual([])
})
