import { describe, expect, test } from 'vitest'
import { enqueuePaymentOutbox, OutboxRelayer, type RelayerEvent, type RelayerOptions } from '../../libs/outbox/index.js'
import { NotSentError, type RailAnswer } from '../../libs/rails/index.js'
import { sleep } from '../../libs/worker/index.js'
import { useTestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { buildInstruction, claim, complete, enqueue, enqueueAndClaim, pendingRow } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { openConnection, untilTableWaits } from '../support/race.js'
import { PAYABLE } from '../support/railRequest.js'
import { recordingRail, type RecordingRail } from '../support/relayRail.js'

const db = await useTestDatabase()

function relayerFor(rail: RecordingRail, options: RelayerOptions = {}) {
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

/** Moves the item's attempts back in time and makes it due, as if settleMs had passed since the last call. */
async function settle(outboxId: string, ago = '1 hour'): Promise<void> {
  await db.queryNoRole('ALTER TABLE payment_outbox_attempts DISABLE TRIGGER payment_outbox_attempts_is_append_only')
  await db.queryNoRole(`UPDATE payment_outbox_attempts SET completed_at = now() - $2::interval WHERE outbox_id = $1`, [
    outboxId,
    ago,
  ])
  await db.queryNoRole(
    'ALTER TABLE payment_outbox_attempts ENABLE ALWAYS TRIGGER payment_outbox_attempts_is_append_only',
  )
  await db.makeDue(outboxId)
}

/** Enqueues an item with an unknown outcome that is due in an hour. Returns its outbox id. */
async function enqueueUnknown(railType: string): Promise<string> {
  const lease = await enqueueAndClaim(db, { railType })
  await complete(db, lease, {
    state: 'RETRYABLE',
    outcomeUnknown: true,
    errorCode: 'NO_ANSWER',
    retryDelaySeconds: 3600,
  })
  return lease.outboxId
}

describe('OutboxRelayer.runOnce', () => {
  test('sends a due item once, under its outbox id, and records the rail reference', async () => {
    const { railType } = buildInstruction()
    const rail = recordingRail({ type: railType })
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

  test('records a refusal as FAILED with the code of the rail', async () => {
    const { railType } = buildInstruction()
    const rail = recordingRail({ type: railType }, () => ({ outcome: 'terminal', code: 'NO_SUCH_ACCOUNT' }))
    const item = await enqueue(db, { railType })
    expect(await relayerFor(rail).relayer.runOnce()).toMatchObject({ failed: 1 })
    expect(await stateOf(item.outboxId)).toMatchObject({ state: 'FAILED', last_error_code: 'NO_SUCH_ACCOUNT' })
  })

  test('holds an item if its rail throws and has onUnknown: hold (OUTCOME_UNKNOWN)', async () => {
    const { railType } = buildInstruction()
    const rail = recordingRail({ type: railType, onUnknown: 'hold' }, () => {
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

  test('records an invalid payment as FAILED (INVALID_AMOUNT) without calling the rail', async () => {
    const { railType } = buildInstruction()
    const rail = recordingRail({ type: railType, money: true })
    const item = await enqueue(db, { railType, payload: { amount: '0', currency: 'EUR', destination: 'X' } })
    await relayerFor(rail).relayer.runOnce()
    expect(await stateOf(item.outboxId)).toMatchObject({ state: 'FAILED', last_error_code: 'INVALID_AMOUNT' })
    expect(rail.calls).toEqual([])
  })
})

describe('an item with an unknown outcome', () => {
  test('is completed by an inquiry, without a second dispatch, if the rail has paid', async () => {
    const { railType } = buildInstruction()
    const rail = recordingRail(
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

  test('is sent again if an inquiry after settleMs says absent; it is FAILED if the rail refuses', async () => {
    const { railType } = buildInstruction()
    const answers: RailAnswer[] = [
      { outcome: 'unknown', code: 'NO_ANSWER' },
      { outcome: 'terminal', code: 'CLOSED' },
    ]
    const rail = recordingRail(
      { type: railType, onUnknown: 'inquire', timeoutMs: 50, queryStatus: () => ({ outcome: 'absent' }) },
      () => answers.shift() ?? { outcome: 'unknown', code: 'NO_ANSWER' },
    )
    const item = await enqueue(db, { railType })
    const { relayer } = relayerFor(rail)
    await relayer.runOnce()
    await settle(item.outboxId)
    await relayer.runOnce()
    expect(await stateOf(item.outboxId)).toMatchObject({ state: 'FAILED', last_error_code: 'CLOSED' })
    expect(rail.calls).toHaveLength(2)
  })

  test('is not sent if an inquiry says absent before settleMs has passed (INQUIRY_TOO_EARLY)', async () => {
    const { railType } = buildInstruction()
    const rail = recordingRail(
      { type: railType, onUnknown: 'inquire', settleMs: 3_600_000, queryStatus: () => ({ outcome: 'absent' }) },
      () => ({ outcome: 'unknown', code: 'NO_ANSWER' }),
    )
    const item = await enqueue(db, { railType })
    const { relayer } = relayerFor(rail)
    await relayer.runOnce()
    await db.makeDue(item.outboxId)
    await relayer.runOnce()
    expect(await stateOf(item.outboxId)).toMatchObject({
      state: 'SCHEDULED',
      outcome_unknown: true,
      last_error_code: 'INQUIRY_TOO_EARLY',
    })
    expect(rail.calls).toHaveLength(1)
  })

  test('waits for a full settleMs again after an inquiry that was too early', async () => {
    const { railType } = buildInstruction()
    const rail = recordingRail(
      { type: railType, onUnknown: 'inquire', settleMs: 3_600_000, queryStatus: () => ({ outcome: 'absent' }) },
      () => ({ outcome: 'unknown', code: 'NO_ANSWER' }),
    )
    const item = await enqueue(db, { railType })
    const { relayer } = relayerFor(rail)
    await relayer.runOnce()
    await settle(item.outboxId, '50 minutes')
    await relayer.runOnce()
    expect(await pendingRow(db, item.outboxId)).toMatchObject({ attempt_count: 2, retry_after_seconds: 3_600 })
    await settle(item.outboxId)
    await relayer.runOnce()
    expect(rail.calls).toHaveLength(2)
  })

  test('is sent again under the same reference to a resend rail; it is FAILED if the rail refuses', async () => {
    const { railType } = buildInstruction()
    const answers: RailAnswer[] = [
      { outcome: 'unknown', code: 'NO_ANSWER' },
      { outcome: 'terminal', code: 'CLOSED' },
    ]
    const rail = recordingRail({ type: railType }, () => answers.shift() ?? { outcome: 'unknown', code: 'NO_ANSWER' })
    const item = await enqueue(db, { railType })
    const { relayer } = relayerFor(rail)
    await relayer.runOnce()
    await db.makeDue(item.outboxId)
    await relayer.runOnce()
    expect(rail.calls.map(({ reference }) => reference)).toEqual([item.outboxId, item.outboxId])
    expect(await stateOf(item.outboxId)).toMatchObject({ state: 'FAILED' })
  })

  test('is completed by a late success without another call to the rail', async () => {
    const { railType } = buildInstruction()
    const rail = recordingRail({ type: railType }, async ({ reference }) => {
      await db.expireLease(reference)
      return { outcome: 'success', reference: `paid-${reference}` }
    })
    const item = await enqueue(db, { railType })
    const { relayer, events } = relayerFor(rail)
    expect(await relayer.runOnce()).toMatchObject({ leasesLost: 1, dispatched: 0 })
    expect(events).toContainEqual({ type: 'outbox.lateOutcome', outboxId: item.outboxId, contradicts: false })
    expect(await relayer.runOnce()).toMatchObject({ dispatched: 1 })
    expect(await stateOf(item.outboxId)).toMatchObject({
      state: 'DISPATCHED',
      last_rail_reference: `paid-${item.outboxId}`,
    })
    expect(rail.calls).toHaveLength(1)
  })

  test('is held after three expired leases in a row (REPEATED_LEASE_EXPIRY)', async () => {
    const { railType } = buildInstruction()
    const rail = recordingRail({ type: railType })
    const item = await enqueue(db, { railType })
    for (let expiry = 0; expiry < 3; expiry += 1) {
      await claim(db, railType)
      await db.expireLease(item.outboxId)
    }
    const { relayer } = relayerFor(rail)
    expect(await relayer.runOnce()).toMatchObject({ held: 1 })
    expect(await stateOf(item.outboxId)).toMatchObject({ state: 'HELD', hold_reason: 'REPEATED_LEASE_EXPIRY' })
    expect(rail.calls).toEqual([])
  })

  test('is dispatched alone if its last lease expired', async () => {
    const { railType } = buildInstruction()
    const quarantined = await Promise.all(Array.from({ length: 3 }, () => enqueue(db, { railType })))
    await claim(db, railType)
    await Promise.all(quarantined.map(({ outboxId }) => db.expireLease(outboxId)))
    await Promise.all(Array.from({ length: 5 }, () => enqueue(db, { railType })))
    const alone = new Map<string, number>()
    const rail = recordingRail({ type: railType }, async ({ reference }) => {
      alone.set(reference, rail.gauge.now)
      await sleep(5)
      alone.set(reference, Math.max(alone.get(reference) ?? 0, rail.gauge.now))
      return { outcome: 'success', reference }
    })
    // The batch-mates of a quarantined item are released, and the next round claims them.
    const { relayer } = relayerFor(rail)
    for (let left = 8; left > 0;) {
      const { dispatched } = await relayer.runOnce()
      left -= dispatched
    }
    expect(quarantined.map(({ outboxId }) => alone.get(outboxId))).toEqual([1, 1, 1])
  })
})

describe('new OutboxRelayer', () => {
  test('refuses renewLeases: false unless the lease outlives a call by more than 2 s', () => {
    const rail = recordingRail({ type: 'SLOW', timeoutMs: 30_000 })
    expect(() => relayerFor(rail, { leaseSeconds: 32, renewLeases: false })).toThrow(
      'rail SLOW: a lease of 32 s does not outlive a call of up to 30000 ms by more than 2000 ms',
    )
    expect(() => relayerFor(rail, { leaseSeconds: 33, renewLeases: false })).not.toThrow()
    expect(() => relayerFor(rail, { leaseSeconds: 5 })).not.toThrow()
    const inquiring = recordingRail({
      type: 'ASK',
      timeoutMs: 20_000,
      onUnknown: 'inquire',
      queryStatus: () => ({ outcome: 'absent' }),
    })
    expect(() => relayerFor(inquiring, { leaseSeconds: 42, renewLeases: false })).toThrow(
      'rail ASK: a lease of 42 s does not outlive an inquiry and a call of up to 40000 ms by more than 2000 ms',
    )
    expect(() => relayerFor(inquiring, { leaseSeconds: 43, renewLeases: false })).not.toThrow()
  })

  test('refuses listen: false together with poll: false', () => {
    expect(() => relayerFor(recordingRail({ type: 'R' }), { listen: false, poll: false })).toThrow('both off')
  })
})

describe('a started relayer', () => {
  test.each([
    { path: 'notifications without polls', options: { poll: false } },
    { path: 'polls without notifications', options: { listen: false, pollMs: 20 } },
  ])('dispatches an item by $path', async ({ options }) => {
    const { railType } = buildInstruction()
    const rail = recordingRail({ type: railType })
    const { relayer } = relayerFor(rail, options)
    await relayer.start()
    const item = await enqueue(db, { railType })
    await expect.poll(() => stateOf(item.outboxId), { timeout: 60_000 }).toMatchObject({ state: 'DISPATCHED' })
    await relayer.stop()
  })

  test('retries an item when its retry is due, without a notification', async () => {
    const { railType } = buildInstruction()
    const answers: RailAnswer[] = [{ outcome: 'retryable', code: 'BUSY', retryAfterMs: 1_000 }]
    const rail = recordingRail(
      { type: railType },
      ({ reference }) => answers.shift() ?? { outcome: 'success', reference },
    )
    const { relayer } = relayerFor(rail, { poll: false })
    await relayer.start()
    const item = await enqueue(db, { railType })
    await expect.poll(() => stateOf(item.outboxId), { timeout: 60_000 }).toMatchObject({ state: 'DISPATCHED' })
    await relayer.stop()
    expect(rail.calls).toHaveLength(2)
  })
})

describe('a relayer with a failing or slow rail', () => {
  test('opens the circuit breaker of the rail, and records no attempt while it is open', async () => {
    const { railType } = buildInstruction()
    const rail = recordingRail({ type: railType }, () => {
      throw new NotSentError('connection refused')
    })
    const items = await Promise.all(Array.from({ length: 30 }, () => enqueue(db, { railType })))
    const { relayer, events } = relayerFor(rail, { concurrency: 2, breakerFailures: 3, breakerOpenMs: 600_000 })
    await relayer.start()
    await expect
      .poll(() => events.some((event) => event.type === 'outbox.breaker' && event.state === 'open'))
      .toBe(true)
    const recorded = () => events.filter(({ type }) => type === 'outbox.recorded').length
    await expect.poll(() => recorded() === rail.calls.length).toBe(true)
    await relayer.stop()
    // Three failures open the breaker. One more call may have been in flight.
    expect(rail.calls.length).toBeLessThanOrEqual(4)
    const { rows } = await db.queryNoRole<{ leased: number; waiting: number }>(
      `SELECT count(lease_token)::int AS leased, count(*) FILTER (WHERE attempt_count = 0)::int AS waiting
       FROM payment_outbox_pending WHERE rail_type = $1`,
      [railType],
    )
    expect(rows).toEqual([{ leased: 0, waiting: items.length - rail.calls.length }])
  })

  test('takes the next item as trial call if the first trial item is refused before it is sent', async () => {
    const { railType } = buildInstruction()
    let isDown = true
    const rail = recordingRail({ type: railType, money: true }, ({ reference }) => {
      if (isDown) throw new NotSentError('connection refused')
      return { outcome: 'success', reference }
    })
    const first = await enqueue(db, { railType, payload: PAYABLE })
    const { relayer, events } = relayerFor(rail, { breakerFailures: 1, breakerOpenMs: 200, pollMs: 50 })
    await relayer.start()
    await expect.poll(() => rail.calls.length).toBe(1)
    isDown = false
    const refused = await enqueue(db, { railType, payload: { amount: 'no amount' } })
    const good = await enqueue(db, { railType, payload: PAYABLE })
    await expect.poll(() => stateOf(refused.outboxId), POLL_OPTIONS).toMatchObject({ state: 'FAILED' })
    await expect.poll(() => stateOf(good.outboxId), POLL_OPTIONS).toMatchObject({ state: 'DISPATCHED' })
    await relayer.stop()
    expect(events.flatMap((event) => (event.type === 'outbox.breaker' ? [event.state] : []))).toEqual([
      'open',
      'half-open',
      'closed',
    ])
    expect(rail.calls.map(({ reference }) => reference)).toEqual([first.outboxId, good.outboxId])
  })

  test('opens and closes the circuit breaker even if the rail gets only inquiries', async () => {
    const { railType } = buildInstruction()
    let isDown = true
    const rail = recordingRail({
      type: railType,
      onUnknown: 'inquire',
      queryStatus: ({ reference }) => {
        if (isDown) throw new Error('no answer')
        return { outcome: 'success', reference }
      },
    })
    const items: string[] = []
    for (const _ of Array.from({ length: 6 })) items.push(await enqueueUnknown(railType))
    for (const outboxId of items) await db.makeDue(outboxId)
    const { relayer, events } = relayerFor(rail, { concurrency: 1, breakerFailures: 2, breakerOpenMs: 300, pollMs: 50 })
    await relayer.start()
    await expect
      .poll(() => events.some((event) => event.type === 'outbox.breaker' && event.state === 'open'))
      .toBe(true)
    expect(rail.inquiries.length).toBeLessThan(items.length)
    isDown = false
    // Makes the items due whose inquiries failed. Their backoff is longer than this test.
    await db.queryNoRole(
      'UPDATE payment_outbox_pending SET next_attempt_at = now() WHERE rail_type = $1 AND lease_token IS NULL',
      [railType],
    )
    for (const outboxId of items)
      await expect.poll(() => stateOf(outboxId), POLL_OPTIONS).toMatchObject({ state: 'DISPATCHED' })
    await relayer.stop()
    expect(rail.calls).toEqual([])
  })

  test('calls the rail once although the call outlasts the lease, because the lease is renewed', async () => {
    const { railType } = buildInstruction()
    const rail = recordingRail({ type: railType }, async ({ reference }) => {
      await sleep(2_500)
      return { outcome: 'success', reference }
    })
    const item = await enqueue(db, { railType })
    const { relayer } = relayerFor(rail, { leaseSeconds: 1 })
    await relayer.start()
    await expect.poll(() => stateOf(item.outboxId), { timeout: 60_000 }).toMatchObject({ state: 'DISPATCHED' })
    await relayer.stop()
    expect(await stateOf(item.outboxId)).toMatchObject({ last_attempt_no: 1 })
    expect(rail.calls).toHaveLength(1)
  })
})

describe('ordered items in a relayer', () => {
  test('are dispatched in sequence for each participant, despite retries and failures', async () => {
    const { railType } = buildInstruction()
    const participants = Array.from({ length: 8 }, () => buildInstruction().participantId)
    const arrived = new Map<string, bigint[]>()
    const failedOnce = new Set<string>()
    const rail = recordingRail({ type: railType }, ({ participantId, sequenceId, reference, attempt }) => {
      if (attempt === 1 && sequenceId % 3n === 0n && !failedOnce.has(reference)) {
        failedOnce.add(reference)
        return { outcome: 'retryable', code: 'BUSY', retryAfterMs: 1_000 }
      }
      arrived.set(participantId, [...(arrived.get(participantId) ?? []), sequenceId])
      return sequenceId % 5n === 0n ? { outcome: 'terminal', code: 'CLOSED' } : { outcome: 'success', reference }
    })
    const { relayer, events } = relayerFor(rail, { pollMs: 50 })
    await relayer.start()
    for (const participantId of participants) {
      await Promise.all(Array.from({ length: 10 }, () => enqueue(db, { railType, participantId, ordered: true })))
    }
    const ended = () => events.filter((event) => event.type === 'outbox.recorded' && event.state !== 'RETRYABLE').length
    await expect.poll(ended, { timeout: 60_000 }).toBe(80)
    await relayer.stop()
    const inOrder = Array.from({ length: 10 }, (_, index) => BigInt(index + 1))
    expect([...arrived.values()]).toEqual(participants.map(() => inOrder))
  })
})

describe('a running relayer', () => {
  test('dispatches new items within the concurrency of the rail until none is pending', async () => {
    const { railType } = buildInstruction()
    const rail = recordingRail({ type: railType, concurrency: 3 })
    const { relayer, events } = relayerFor(rail, { pollMs: 50 })
    await relayer.start()
    const items = await Promise.all(Array.from({ length: 40 }, () => enqueue(db, { railType })))
    await expect
      .poll(() => events.filter(({ type }) => type === 'outbox.recorded').length, { timeout: 60_000 })
      .toBe(40)
    await relayer.stop()
    expect(rail.gauge.most).toBeLessThanOrEqual(3)
    expect(new Set(rail.calls.map(({ reference }) => reference)).size).toBe(items.length)
    const { rows } = await db.queryNoRole('SELECT 1 FROM payment_outbox_pending WHERE rail_type = $1', [railType])
    expect(rows).toEqual([])
  })

  test('releases the items of a round whose claim is answered during stop()', async () => {
    const { railType } = buildInstruction()
    const { outboxId } = await enqueue(db, { railType })
    const rail = recordingRail({ type: railType })
    const { relayer } = relayerFor(rail)
    const blocker = await openConnection(db)
    await blocker.query('BEGIN; LOCK TABLE payment_outbox_pending IN ACCESS EXCLUSIVE MODE')
    const round = relayer.runOnce()
    await untilTableWaits(db, 'payment_outbox_pending')
    const stopping = relayer.stop()
    await Promise.race([stopping, sleep(100)])
    await blocker.query('ROLLBACK')
    await blocker.close()
    await Promise.all([round, stopping])
    expect({ calls: rail.calls.length, ...relayer.gauge }).toEqual({ calls: 0, running: 0, waiting: 0, completing: 0 })
    expect(await pendingRow(db, outboxId)).toMatchObject({ lease_token: null, attempt_count: 0 })
  })

  test('aborts a call at a stop although a claim waits, and releases what that claim leases', async () => {
    const [{ railType }, { railType: other }] = [buildInstruction(), buildInstruction()]
    let isAborted = false
    const slow = recordingRail({ type: railType, concurrency: 1 }, async (_request, signal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      isAborted = true
      return { outcome: 'retryable', code: 'ABORTED' }
    })
    const both = { ...slow, rails: new Map([...slow.rails, ...recordingRail({ type: other }).rails]) }
    const { relayer } = relayerFor(both, { shutdownMs: 100, pollMs: 60_000 })
    await enqueue(db, { railType })
    await relayer.start()
    await expect.poll(() => slow.calls.length, POLL_OPTIONS).toBe(1)
    const blocker = await openConnection(db)
    await blocker.query('BEGIN; LOCK TABLE outbox_pauses IN ACCESS EXCLUSIVE MODE')
    const late = await enqueuePaymentOutbox(blocker, buildInstruction({ railType: other }))
    await db.queryNoRole('NOTIFY outbox_pending')
    await untilTableWaits(db, 'outbox_pauses')
    const stopping = relayer.stop()
    await expect.poll(() => isAborted, POLL_OPTIONS).toBe(true)
    await untilTableWaits(db, 'outbox_pauses')
    await blocker.query('COMMIT')
    await blocker.close()
    await stopping
    await expect.poll(async () => (await pendingRow(db, late.outboxId))?.['lease_token'], POLL_OPTIONS).toBeNull()
  })

  test('learns the database time from its first heartbeat, and claims a due item without a poll', async () => {
    const { railType } = buildInstruction()
    const { outboxId } = await enqueue(db, { railType })
    const [heartbeats, item] = [await openConnection(db), await openConnection(db)]
    await heartbeats.query('BEGIN; LOCK TABLE outbox_workers IN ACCESS EXCLUSIVE MODE')
    await item.query('BEGIN')
    await item.query('SELECT FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [outboxId])
    const { relayer, events } = relayerFor(recordingRail({ type: railType }), { pollMs: 60_000 })
    await relayer.start()
    await untilTableWaits(db, 'outbox_workers')
    await expect.poll(() => events.some(({ type }) => type === 'outbox.claimed'), POLL_OPTIONS).toBe(true)
    await sleep(100)
    for (const blocker of [item, heartbeats]) await blocker.close()
    await expect.poll(() => events.some(({ type }) => type === 'outbox.recorded'), { timeout: 20_000 }).toBe(true)
    await relayer.stop()
  })

  test('claims less and less often while another transaction has locked a due item', async () => {
    const { railType } = buildInstruction()
    const { outboxId } = await enqueue(db, { railType })
    const blocker = await openConnection(db)
    await blocker.query('BEGIN')
    await blocker.query('SELECT FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [outboxId])
    const rail = recordingRail({ type: railType })
    const claimedAtMs: number[] = []
    const relayer = new OutboxRelayer(db.database, rail.rails, { pollMs: 60_000 }, ({ type }) => {
      if (type === 'outbox.claimed') claimedAtMs.push(performance.now())
    })
    await relayer.start()
    // Skips the claims that the start and the first heartbeat cause. The next delays are at least 20, 40, … 640 ms, less
    // a tenth.
    await expect.poll(() => claimedAtMs.length, POLL_OPTIONS).toBeGreaterThanOrEqual(9)
    expect(claimedAtMs[8]! - claimedAtMs[2]!).toBeGreaterThanOrEqual(1_130)
    await blocker.query('ROLLBACK')
    await blocker.close()
    await expect.poll(() => rail.calls.length, POLL_OPTIONS).toBe(1)
    await relayer.stop()
  })

  test('claims a new item at once while another transaction has long locked a due item', async () => {
    const { railType } = buildInstruction()
    const { outboxId } = await enqueue(db, { railType })
    const blocker = await openConnection(db)
    await blocker.query('BEGIN')
    await blocker.query('SELECT FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [outboxId])
    const rail = recordingRail({ type: railType })
    const { relayer, events } = relayerFor(rail, { pollMs: 60_000 })
    await relayer.start()
    const claims = () => events.filter(({ type }) => type === 'outbox.claimed').length
    await expect.poll(claims, POLL_OPTIONS).toBeGreaterThanOrEqual(6)
    const next = await enqueue(db, { railType })
    await expect.poll(() => rail.calls.map(({ reference }) => reference), POLL_OPTIONS).toEqual([next.outboxId])
    await blocker.query('ROLLBACK')
    await blocker.close()
    await expect.poll(() => rail.calls.length, POLL_OPTIONS).toBe(2)
    await relayer.stop()
  })

  test('releases the other items at a stop while one is locked, and that one afterwards', async () => {
    const { railType } = buildInstruction()
    await Promise.all(Array.from({ length: 300 }, () => enqueue(db, { railType })))
    // The rail answers quickly until the relayer has prefetched items. Then one call ends after the test.
    const [stuck, answered] = [gate(), gate()]
    const rail = recordingRail({ type: railType, concurrency: 1 }, async ({ reference }) => {
      await sleep(1)
      if (relayer.gauge.waiting < 2) return { outcome: 'success', reference }
      stuck.open()
      await answered.opened
      return { outcome: 'success', reference }
    })
    const { relayer, events } = relayerFor(rail, { batchSize: 20 })
    await relayer.start()
    await stuck.opened
    const leased = async () => {
      const { rows } = await db.queryNoRole<{ outbox_id: string }>(
        `SELECT outbox_id FROM payment_outbox_pending
         WHERE rail_type = $1 AND lease_token IS NOT NULL AND outbox_id <> ALL ($2) ORDER BY outbox_id`,
        [railType, rail.calls.map(({ reference }) => reference)],
      )
      return rows.map(({ outbox_id: outboxId }) => outboxId)
    }
    const [locked] = await leased()
    const blocker = await openConnection(db)
    await blocker.query('BEGIN')
    await blocker.query('SELECT FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [locked])
    const stopping = relayer.stop()
    await expect.poll(leased, POLL_OPTIONS).toEqual([locked])
    await blocker.query('ROLLBACK')
    await blocker.close()
    await expect.poll(leased, POLL_OPTIONS).toEqual([])
    answered.open()
    await stopping
    expect(events.filter(({ type }) => type === 'outbox.fault')).toEqual([])
  })

  test('releases prefetched items at a stop and records no attempt for them', async () => {
    const { railType } = buildInstruction()
    const items = await Promise.all(Array.from({ length: 300 }, () => enqueue(db, { railType })))
    // The rail answers quickly until the relayer has prefetched items. Then one call never ends.
    let isStuck = false
    const rail = recordingRail({ type: railType, concurrency: 1 }, async ({ reference }) => {
      await sleep(1)
      isStuck = relayer.gauge.waiting > 0
      if (isStuck) await new Promise(() => {})
      return { outcome: 'success', reference }
    })
    const { relayer } = relayerFor(rail, { batchSize: 20, shutdownMs: 100 })
    await relayer.start()
    await expect.poll(() => isStuck, { timeout: 60_000 }).toBe(true)
    await relayer.stop()
    const { rows } = await db.queryNoRole<{ leased: boolean; attempt_count: number }>(
      'SELECT lease_token IS NOT NULL AS leased, attempt_count FROM payment_outbox_pending WHERE rail_type = $1',
      [railType],
    )
    // Every item without an answer is pending, including the item of the last call.
    expect(rows).toHaveLength(items.length - rail.calls.length + 1)
    expect(rows.filter(({ leased }) => leased)).toEqual([])
    expect(rows.filter((row) => row.attempt_count > 0)).toHaveLength(1)
  })
})
