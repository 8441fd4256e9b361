import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import {
  enqueuePaymentOutboxBatch,
  findItems,
  placeOutboxHold,
  readFailedItems,
  readHeldItems,
  readProposal,
  readRecentlyChanged,
  searchItems,
  searchParticipant,
  withdrawOutboxProposal,
  type ItemSearch,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction, claim, complete, enqueue } from '../support/outboxItems.js'
import { createPerson, approve, enqueueFailed, enqueueUnknown, propose } from '../support/outboxPeople.js'

/** Tests the lists and searches of the outbox: filters, order and restriction to participants. */

const db = await useTestDatabase()
const alice = await createPerson(db, 'alice')
const bob = await createPerson(db, 'bob')

const readonly = () => db.as('symphony_readonly')

/** Creates two FAILED payments of a rail; the older one failed last. */
async function failedInTurn(): Promise<{ railType: string; older: string; younger: string }> {
  const railType = `rail-${randomUUID()}`
  await enqueue(db, { railType })
  await enqueue(db, { railType })
  const [older, younger] = await claim(db, railType)
  for (const lease of [younger!, older!]) await complete(db, lease, { state: 'FAILED', errorCode: 'REFUSED' })
  return { railType, older: older!.outboxId, younger: younger!.outboxId }
}

function later(time: Date): Date {
  return new Date(time.getTime() + 1)
}

describe('reads of failed and held items', () => {
  test('return the latest failure first, page by page', async () => {
    const { railType, older, younger } = await failedInTurn()
    expect(older < younger).toBe(true)
    const first = await readFailedItems(readonly(), { railType, limit: 1 })
    expect(first.items.map(({ item }) => item.outboxId)).toEqual([older])
    const second = await readFailedItems(readonly(), { railType, limit: 1, before: first.next! })
    expect(second.items.map(({ item }) => item.outboxId)).toEqual([younger])
    expect(await searchItems(readonly(), { state: 'FAILED', railType, limit: 10 })).toEqual({
      ids: [older, younger],
      next: null,
    })
  })

  test('treat redriven and proposed items as decided, and withdrawn proposals as undecided', async () => {
    const railType = `rail-${randomUUID()}`
    const proposed = await enqueueFailed(db, { railType })
    const redriven = await enqueueFailed(db, { railType })
    const untouched = await enqueueFailed(db, { railType })
    const proposalId = await propose(alice, proposed.outboxId, 'REDRIVE')
    const { redrivenAs } = await approve(bob, await propose(alice, redriven.outboxId, 'REDRIVE'))
    const undecided = async () =>
      (await readFailedItems(readonly(), { railType, undecided: true, limit: 10 })).items.map(
        ({ item }) => item.outboxId,
      )
    expect(await undecided()).toEqual([untouched.outboxId])
    const { items } = await readFailedItems(readonly(), { railType, limit: 10 })
    expect(items).toMatchObject([
      { proposal: null, redrivenAs: [] },
      { proposal: null, redrivenAs: [redrivenAs] },
      { proposal: { proposalId, status: 'OPEN', proposedBy: alice.name }, redrivenAs: [] },
    ])
    expect(await readProposal(readonly(), proposalId)).toMatchObject({ outboxId: proposed.outboxId, status: 'OPEN' })
    await withdrawOutboxProposal(bob.control, proposalId, 'not now')
    expect(await readProposal(readonly(), proposalId)).toMatchObject({ status: 'WITHDRAWN' })
    expect(await readProposal(readonly(), randomUUID())).toBeUndefined()
    expect(await undecided()).toEqual([untouched.outboxId, proposed.outboxId])
  })

  test('filter failed items by completed_at and held items by held_at', async () => {
    const railType = `rail-${randomUUID()}`
    const failed = await enqueueFailed(db, { railType })
    const held = await enqueueUnknown(db, { railType })
    const { rows } = await db.queryNoRole<{ failed: Date; held: Date }>(
      `UPDATE payment_outbox_pending SET held_at = '2026-01-02T00:00:00Z' WHERE outbox_id = $2
       RETURNING held_at AS held, (SELECT completed_at FROM payment_outbox_attempts WHERE outbox_id = $1) AS failed`,
      [failed.outboxId, held.outboxId],
    )
    const { failed: failedAt, held: heldAt } = rows[0]!
    const counts = async (search: Partial<ItemSearch>) => [
      (await readFailedItems(readonly(), { railType, limit: 10, ...search })).items.length,
      (await readHeldItems(readonly(), { railType, limit: 10, ...search })).items.length,
    ]
    // A Date is truncated to milliseconds, so failedAt is not later than the stored microseconds.
    expect(await counts({ since: failedAt })).toEqual([1, 0])
    expect(await counts({ since: later(failedAt) })).toEqual([0, 0])
    expect(await counts({ until: later(failedAt) })).toEqual([1, 1])
    expect(await counts({ since: heldAt, until: later(heldAt) })).toEqual([0, 1])
    expect(await counts({ since: later(heldAt), until: failedAt })).toEqual([0, 0])
    expect(await counts({ until: heldAt })).toEqual([0, 0])
  })
})

test('lists and searches return only payments by default, and only messages if kind is message', async () => {
  const shared = { railType: `rail-${randomUUID()}`, participantId: `participant-${randomUUID()}` }
  const create = async (isMessage: boolean) => {
    const instructions = Array.from({ length: 3 }, () => buildInstruction(shared))
    const items = await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), instructions, { isMessage })
    const [held = '', ...others] = items.map(({ outboxId }) => outboxId)
    await placeOutboxHold(alice.control, held, 'please wait')
    const [failed, paid] = await claim(db, shared.railType)
    await complete(db, failed!, { state: 'FAILED' })
    await complete(db, paid!, { state: 'DISPATCHED', railReference: 'ref' })
    expect(others.toSorted()).toEqual([failed!.outboxId, paid!.outboxId].toSorted())
    return { held: [held], failed: [failed!.outboxId], all: [held, ...others].toSorted() }
  }
  const search = { railType: shared.railType, limit: 10 }
  const lists = async (kind?: 'payment' | 'message') => {
    const asked = { ...search, ...(kind === undefined ? {} : { kind }) }
    const stream = await searchParticipant(readonly(), shared.participantId, asked)
    const found = await searchItems(readonly(), asked)
    expect(stream.ids.toSorted()).toEqual(found.ids.toSorted())
    return {
      held: (await readHeldItems(readonly(), asked)).items.map(({ item }) => item.outboxId),
      failed: (await readFailedItems(readonly(), asked)).items.map(({ item }) => item.outboxId),
      all: found.ids.toSorted(),
    }
  }
  const payments = await create(false)
  const messages = await create(true)
  expect(await lists()).toEqual(payments)
  expect(await lists('payment')).toEqual(payments)
  expect(await lists('message')).toEqual(messages)
  const misspelt: object = { ...search, kind: 'messages' }
  await expect(searchItems(readonly(), { ...search, ...misspelt })).rejects.toMatchObject({ argument: 'kind' })
})

describe('a page size with a participant filter', () => {
  test('counts only matching items in readRecentlyChanged', async () => {
    const participantId = `mine-${randomUUID()}`
    const mine = await enqueue(db, { participantId })
    for (let other = 0; other < 3; other += 1) await enqueue(db)
    const lately = { seconds: 60, limit: 2 }
    expect(await readRecentlyChanged(readonly(), { ...lately, participants: [participantId] })).toEqual([mine.outboxId])
    expect(await readRecentlyChanged(readonly(), lately)).not.toContain(mine.outboxId)
  })

  test('counts only matching items in findItems', async () => {
    const participantId = `mine-${randomUUID()}`
    const instructionId = `the-same-${randomUUID()}`
    const mine = await enqueue(db, { participantId, instructionId })
    for (let other = 0; other < 3; other += 1) await enqueue(db, { instructionId })
    expect(await findItems(readonly(), instructionId, { participants: [participantId], limit: 2 })).toEqual([
      mine.outboxId,
    ])
    expect(await findItems(readonly(), instructionId, { limit: 2 })).not.toContain(mine.outboxId)
    expect(await findItems(readonly(), instructionId, { participants: [], limit: 2 })).toEqual([])
  })
})
