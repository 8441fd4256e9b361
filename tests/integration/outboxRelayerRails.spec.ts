import { Registry } from 'prom-client'
import { describe, expect, test } from 'vitest'
import type { Clock } from '../../libs/core/index.js'
import { OutboxMetrics } from '../../libs/observability/index.js'
import {
  enqueuePaymentOutboxBatch,
  OutboxRelayer,
  type RelayerEvent,
  type RelayerOptions,
} from '../../libs/outbox/index.js'
import { NotSentError } from '../../libs/rails/index.js'
import { useTestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { buildInstruction, claim } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { recordingRail, type RecordingRail } from '../support/relayRail.js'

const db = await useTestDatabase()

interface Observed {
  readonly relayer: OutboxRelayer
  readonly metricsPage: () => Promise<string>
  /** Maximum number of concurrent dispatches to the rail, counted from the events that feed the gauge. */
  readonly mostInFlight: (railType: string) => number
  readonly recorded: (railType: string) => number
}

function observe(rails: readonly RecordingRail[], options: RelayerOptions = {}, clock?: Clock): Observed {
  const registry = new Registry()
  const metrics = new OutboxMetrics(registry)
  const events: RelayerEvent[] = []
  const onEvent = (event: RelayerEvent) => {
    metrics.onRelayerEvent(event)
    events.push(event)
  }
  const loaded = new Map(rails.flatMap((rail) => [...rail.rails]))
  const mostInFlight = (railType: string) => {
    let now = 0
    const counts = events.map((event) => {
      if (event.type === 'outbox.dispatchStarted' && event.railType === railType) now += 1
      if (event.type === 'outbox.dispatchFinished' && event.railType === railType) now -= 1
      return now
    })
    return Math.max(0, ...counts)
  }
  return {
    relayer: new OutboxRelayer(db.database, loaded, options, onEvent, clock),
    metricsPage: () => registry.metrics(),
    mostInFlight,
    recorded: (railType) =>
      events.filter((event) => event.type === 'outbox.recorded' && event.railType === railType).length,
  }
}

async function enqueueMany(railType: string, count: number): Promise<string[]> {
  if (count === 0) return []
  const instructions = Array.from({ length: count }, () => buildInstruction({ railType }))
  const items = await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), instructions)
  return items.map(({ outboxId }) => outboxId)
}

/** Enqueues items whose leases have expired, so that they are quarantined. */
async function enqueueQuarantined(railType: string, count: number): Promise<string[]> {
  const outboxIds = await enqueueMany(railType, count)
  await claim(db, railType)
  await Promise.all(outboxIds.map((outboxId) => db.expireLease(outboxId)))
  return outboxIds
}

/** Creates a rail that answers no call before `calls` calls are in flight. */
function railAnsweringTogether(railType: string, calls: number): RecordingRail {
  const together = gate()
  const rail: RecordingRail = recordingRail({ type: railType }, async ({ reference }) => {
    if (rail.gauge.now >= calls) together.open()
    await together.opened
    return { outcome: 'success', reference: `paid-${reference}` }
  })
  return rail
}

describe('the slots of a relayer', () => {
  const CONCURRENCY = 10

  test.each([
    { beside: 'no other rail', slowItems: 0 },
    { beside: 'a slow rail with all its calls in flight', slowItems: 12 },
  ])('are all available to a fast rail beside $beside', async ({ slowItems }) => {
    const [slowType, fastType] = [buildInstruction().railType, buildInstruction().railType]
    const answered = gate()
    const slow = recordingRail({ type: slowType, concurrency: 5 }, async ({ reference }) => {
      await answered.opened
      return { outcome: 'success', reference: `paid-${reference}` }
    })
    const fast = railAnsweringTogether(fastType, CONCURRENCY)
    const { relayer, metricsPage, mostInFlight, recorded } = observe([slow, fast], {
      concurrency: CONCURRENCY,
      pollMs: 50,
    })
    await enqueueMany(slowType, slowItems)
    await relayer.start()
    const slowCalls = Math.min(slowItems, 5)
    await expect.poll(() => slow.gauge.now, POLL_OPTIONS).toBe(slowCalls)
    await enqueueMany(fastType, 100)
    // No slow call is answered yet. The fast rail answers only when all its ten slots are taken.
    await expect.poll(() => recorded(fastType), POLL_OPTIONS).toBe(100)
    expect(fast.gauge.most).toBe(CONCURRENCY)
    expect(slow.gauge.now).toBe(slowCalls)
    const gauge = `rail_calls_in_flight{rail="${slowType}"} 5\n`
    expect((await metricsPage()).includes(gauge)).toBe(slowItems > 0)
    answered.open()
    await expect.poll(() => recorded(slowType), POLL_OPTIONS).toBe(slowItems)
    await relayer.stop()
    expect([slow.gauge.most, mostInFlight(slowType)]).toEqual([slowCalls, slowCalls])
    expect([fast.gauge.most, mostInFlight(fastType)]).toEqual([CONCURRENCY, CONCURRENCY])
  })

  test('are shared by rails without concurrency settings, and never exceeded', async () => {
    const rails = Array.from({ length: 3 }, () => buildInstruction().railType)
    const inFlight = { now: 0, most: 0 }
    const together = gate()
    const sharing = rails.map((type) =>
      recordingRail({ type }, async ({ reference }) => {
        inFlight.now += 1
        inFlight.most = Math.max(inFlight.most, inFlight.now)
        if (inFlight.now >= 4) together.open()
        await together.opened
        inFlight.now -= 1
        return { outcome: 'success', reference }
      }),
    )
    const { relayer, recorded } = observe(sharing, { concurrency: 4, pollMs: 50 })
    await Promise.all(rails.map((railType) => enqueueMany(railType, 20)))
    await relayer.start()
    await expect.poll(() => rails.map(recorded), POLL_OPTIONS).toEqual([20, 20, 20])
    await relayer.stop()
    expect(inFlight.most).toBe(4)
  })
})

describe('quarantined items in a relayer', () => {
  test('get no attempt while the circuit breaker of their rail is open', async () => {
    const { railType } = buildInstruction()
    const outboxIds = await enqueueQuarantined(railType, 8)
    const rail = recordingRail({ type: railType }, () => {
      throw new NotSentError('connection refused')
    })
    const { relayer } = observe([rail], { breakerFailures: 3, breakerOpenMs: 600_000 })
    // One item is dispatched at a time, and its batch-mates are released. The third failure opens the breaker.
    expect(await relayer.runOnce()).toMatchObject({ claimed: 8, retryable: 1, released: 7 })
    expect(await relayer.runOnce()).toMatchObject({ claimed: 1, retryable: 1, released: 0 })
    expect(await relayer.runOnce()).toMatchObject({ claimed: 1, retryable: 1, released: 0 })
    expect(await relayer.runOnce()).toMatchObject({ claimed: 0 })
    expect(rail.calls).toHaveLength(3)
    const { rows } = await db.queryNoRole<{ leased: number; untouched: number }>(
      `SELECT count(lease_token)::int AS leased, count(*) FILTER (WHERE attempt_count = 1)::int AS untouched
       FROM payment_outbox_pending WHERE outbox_id = ANY ($1)`,
      [outboxIds],
    )
    // An item that was not dispatched has one attempt: the expired lease from the set-up.
    expect(rows).toEqual([{ leased: 0, untouched: 5 }])
  })

  test('are dispatched after their batch-mates are released, even if another call ends meanwhile', async () => {
    const [quarantinedRail, other] = [buildInstruction().railType, buildInstruction().railType]
    const answered = gate()
    const slow = recordingRail({ type: other }, async ({ reference }) => {
      await answered.opened
      return { outcome: 'success', reference }
    })
    const events: RelayerEvent[] = []
    const isReleased = () => events.some(({ type }) => type === 'outbox.released')
    const wasReleased: boolean[] = []
    const recording = recordingRail({ type: quarantinedRail }, ({ reference }) => {
      wasReleased.push(isReleased())
      return { outcome: 'success', reference }
    })
    const rails = new Map([...slow.rails, ...recording.rails])
    const relayer = new OutboxRelayer(db.database, rails, { pollMs: 50 }, (event) => {
      events.push(event)
      // Ends the other call during the claim. The end of a call starts every dispatch that can start.
      if (event.type === 'outbox.claimed' && event.items === 8) answered.open()
    })
    await enqueueMany(other, 1)
    await relayer.start()
    await expect.poll(() => slow.calls.length, POLL_OPTIONS).toBe(1)
    await relayer.pauseRail(quarantinedRail)
    await enqueueQuarantined(quarantinedRail, 8)
    relayer.resumeRail(quarantinedRail)
    await expect.poll(() => recording.calls.length, POLL_OPTIONS).toBe(8)
    await relayer.stop()
    expect(wasReleased[0]).toBe(true)
  })

  test('count against the rate limit of their rail', async () => {
    const { railType } = buildInstruction()
    await enqueueQuarantined(railType, 6)
    const rail = recordingRail({ type: railType, rate: { perSecond: 2 } })
    const now = new Date()
    const stoppedClock: Clock = { now: () => now, monotonicMs: () => 1_000 }
    const { relayer } = observe([rail], {}, stoppedClock)
    expect(await relayer.runOnce()).toMatchObject({ dispatched: 1 })
    expect(await relayer.runOnce()).toMatchObject({ dispatched: 1 })
    expect(await relayer.runOnce()).toMatchObject({ claimed: 0 })
  })

  test('are released by pauseRail() if they wait; the call in flight continues', async () => {
    const { railType } = buildInstruction()
    const outboxIds = await enqueueQuarantined(railType, 3)
    const answered = gate()
    const rail = recordingRail({ type: railType }, async ({ reference }) => {
      await answered.opened
      return { outcome: 'success', reference }
    })
    const { relayer } = observe([rail])
    const round = relayer.runOnce()
    await expect.poll(() => rail.calls.length, POLL_OPTIONS).toBe(1)
    await relayer.pauseRail(railType)
    const { rows } = await db.queryNoRole<{ leased: number }>(
      'SELECT count(lease_token)::int AS leased FROM payment_outbox_pending WHERE outbox_id = ANY ($1)',
      [outboxIds],
    )
    expect(rows).toEqual([{ leased: 1 }])
    answered.open()
    expect(await round).toMatchObject({ dispatched: 1, released: 2 })
  })
})
