import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../libs/core/index.js'
import { DispatchQueue } from '../../libs/outbox/DispatchQueue.js'
import type { ClaimedItem } from '../../libs/outbox/index.js'
import { LeasedItem } from '../../libs/outbox/LeasedItem.js'
import { RailLane } from '../../libs/outbox/RailLane.js'
import { loadRails } from '../../libs/rails/index.js'

/** Tests slots, lanes and quarantine in memory, without a database or a rail. */

const NOW = new Date('2026-01-01T12:00:00Z')

function createQueue(rails: readonly string[] = ['one', 'two'], concurrency = 4): DispatchQueue {
  const declared = rails.map((type) => ({
    type,
    onUnknown: 'resend' as const,
    dispatch: () => ({ outcome: 'success' as const, reference: 'r' }),
  }))
  const lanes = [...loadRails(declared).values()].map(
    (rail) =>
      new RailLane({
        rail,
        concurrency,
        prefetchMax: 10,
        breaker: { failuresMax: 5, openMs: 1_000 },
        clock: systemClock,
        onBreaker: () => {},
      }),
  )
  return new DispatchQueue(lanes, { concurrency, prefetch: 10 })
}

function leaseItem(railType: string, expiryStreak = 0): LeasedItem {
  const item: ClaimedItem = {
    outboxId: randomUUID(),
    instructionId: 'i',
    participantId: 'p',
    sequenceId: 1n,
    idempotencyKey: 'k',
    railType,
    payload: {},
    attemptCount: expiryStreak,
    leaseToken: randomUUID(),
    leaseExpiresAt: NOW,
    claimedAt: NOW,
    outcomeUnknown: expiryStreak > 0,
    expiryStreak,
    takenOver: false,
    ordered: false,
    evidence: null,
    createdAt: NOW,
    dueAt: NOW,
    traceContext: null,
  }
  return new LeasedItem(item, systemClock.monotonicMs(), 60_000, systemClock)
}

/** Adds items. Returns the batch-mates to release, and tells the queue at once that they are released. */
function addAndRelease(queue: DispatchQueue, items: readonly LeasedItem[]): LeasedItem[] {
  const batchMates = queue.add(items)
  if (batchMates.length > 0) queue.batchMatesReleased()
  return batchMates
}

function startAll(queue: DispatchQueue): LeasedItem[] {
  const started: LeasedItem[] = []
  for (let leased = queue.next(); leased !== undefined; leased = queue.next()) started.push(leased)
  return started
}

test('lanes take turns to start items, at most as many as there are shared slots', () => {
  const queue = createQueue(['one', 'two'], 4)
  const [a, b, c] = [leaseItem('one'), leaseItem('one'), leaseItem('one')]
  const [x, y] = [leaseItem('two'), leaseItem('two')]
  expect(queue.add([a, b, c, x, y])).toEqual([])
  expect(startAll(queue)).toEqual([a, x, b, y])
  expect([queue.running, queue.waiting]).toEqual([4, 1])
  queue.finish(x)
  expect(startAll(queue)).toEqual([c])
})

test('add() returns an item of a rail without a lane and queues the other items', () => {
  const queue = createQueue(['one'])
  const [stray, item] = [leaseItem('three'), leaseItem('one')]
  expect(addAndRelease(queue, [stray, item])).toEqual([stray])
  expect(startAll(queue)).toEqual([item])
})

describe('an item whose lease expired once', () => {
  test('starts only after the other items of its batch and rail are released', () => {
    const queue = createQueue()
    const [quarantined, mate, other] = [leaseItem('one', 1), leaseItem('one'), leaseItem('two')]
    expect(queue.add([mate, quarantined, other])).toEqual([mate])
    expect(startAll(queue)).toEqual([other])
    queue.batchMatesReleased()
    expect(startAll(queue)).toEqual([quarantined])
  })

  test('waits for its rail’s running calls; its lane claims nothing while the item waits or runs', () => {
    const queue = createQueue()
    const [running, quarantined] = [leaseItem('one'), leaseItem('one', 1)]
    queue.add([running])
    startAll(queue)
    queue.add([quarantined])
    expect(startAll(queue)).toEqual([])
    expect(queue.lanesToClaim().flatMap(({ lanes }) => lanes.map(({ railType }) => railType))).toEqual(['two'])
    queue.finish(running)
    expect(startAll(queue)).toEqual([quarantined])
    expect(queue.lanesToClaim().flatMap(({ lanes }) => lanes.map(({ railType }) => railType))).toEqual(['two'])
  })

  test('makes add() return further items of its rail, for release, while the item runs', () => {
    const queue = createQueue()
    const [quarantined, late, lateQuarantined] = [leaseItem('one', 1), leaseItem('one'), leaseItem('one', 1)]
    queue.add([quarantined])
    expect(startAll(queue)).toEqual([quarantined])
    expect(addAndRelease(queue, [late, lateQuarantined])).toEqual([lateQuarantined, late])
    expect(startAll(queue)).toEqual([])
  })

  test('limits its lane to claims of one item until an item without expiries is added', () => {
    const queue = createQueue(['one'])
    const quarantined = leaseItem('one', 1)
    queue.add([quarantined])
    startAll(queue)
    queue.finish(quarantined)
    expect(queue.lanesToClaim().map(({ freeCapacity }) => freeCapacity)).toEqual([1])
    queue.add([leaseItem('one')])
    startAll(queue)
    expect(queue.lanesToClaim().map(({ freeCapacity }) => freeCapacity)).toEqual([3])
  })
})

describe('an item whose lease expired twice', () => {
  test('starts after all running calls end and all waiting items are released', () => {
    const queue = createQueue()
    const running = leaseItem('two')
    queue.add([running])
    startAll(queue)
    const [fresh, once, twice, twiceToo] = [
      leaseItem('two'),
      leaseItem('one', 1),
      leaseItem('one', 2),
      leaseItem('two', 2),
    ]
    expect(addAndRelease(queue, [fresh, once, twice, twiceToo])).toEqual([twiceToo, once, fresh])
    expect(startAll(queue)).toEqual([])
    expect([queue.freeCapacity, queue.waiting]).toEqual([0, 1])
    queue.finish(running)
    expect(startAll(queue)).toEqual([twice])
    expect([queue.freeCapacity, queue.waiting]).toEqual([0, 0])
    queue.finish(twice)
    expect(queue.freeCapacity).toBe(14)
  })

  test('no longer blocks other items after takeWaiting() removes it', () => {
    const queue = createQueue()
    const running = leaseItem('two')
    queue.add([running])
    startAll(queue)
    const twice = leaseItem('one', 2)
    queue.add([twice])
    expect(queue.takeWaiting(queue.findLane('two')!)).toEqual([])
    expect(queue.takeWaiting(queue.findLane('one')!)).toEqual([twice])
    const next = leaseItem('one')
    queue.add([next])
    expect(startAll(queue)).toEqual([next])
  })
})
