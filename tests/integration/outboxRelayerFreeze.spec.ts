import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import {
  EpochFile,
  freezeDispatch,
  liftDispatchFreeze,
  OutboxRelayer,
  type RelayerEvent,
  type RelayerOptions,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { rewindEpoch, epochRow, forgetEpochs } from '../support/outboxEpochs.js'
import { buildInstruction, enqueue, pendingRow } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { recordingRail, type RecordingRail } from '../support/relayRail.js'

/** Tests freezes that a relayer places and freezes by an operator. */

const db = await useTestDatabase()
beforeEach(() => forgetEpochs(db))

function relayerFor(rail: RecordingRail, options: RelayerOptions = {}) {
  const events: RelayerEvent[] = []
  const relayer = new OutboxRelayer(db.database, rail.rails, options, (event) => events.push(event))
  return { relayer, eventsOf: (type: RelayerEvent['type']) => events.filter((event) => event.type === type) }
}

const control = () => db.as('symphony_control')

/** Freezes dispatch during the payload validation, which is between the claim and the call. */
async function freezing(value: unknown) {
  await freezeDispatch(control(), 'restored by hand')
  return { value }
}

test('a relayer sends nothing after lost commits (LOST_COMMITS) until the freeze is lifted', async () => {
  const { railType } = buildInstruction()
  const rail = recordingRail({ type: railType })
  const { relayer, eventsOf } = relayerFor(rail)
  await enqueue(db, { railType })
  expect(await relayer.runOnce()).toMatchObject({ claimed: 1, dispatched: 1 })

  await rewindEpoch(db, 'beat_no = 0')
  const item = await enqueue(db, { railType })
  expect(await relayer.runOnce()).toMatchObject({ claimed: 0 })
  expect(await relayer.runOnce()).toMatchObject({ claimed: 0 })
  expect(rail.calls).toHaveLength(1)
  expect(eventsOf('outbox.frozen')).toMatchObject([{ cause: 'LOST_COMMITS', since: (await epochRow(db))!.frozen_at }])
  expect(await pendingRow(db, item.outboxId)).toMatchObject({ outcome_unknown: true, claimed_by: null })

  await liftDispatchFreeze(control(), 'compared')
  expect(await relayer.runOnce()).toMatchObject({ claimed: 1, dispatched: 1 })
  expect(eventsOf('outbox.freezeLifted')).toHaveLength(1)
  expect(eventsOf('outbox.frozen')).toHaveLength(1)
  expect(eventsOf('outbox.fault')).toEqual([])
})

test('a restart of the server is checked before the next claim, and does not freeze dispatch', async () => {
  const { railType } = buildInstruction()
  const { relayer, eventsOf } = relayerFor(recordingRail({ type: railType }))
  await relayer.runOnce()
  await rewindEpoch(db)
  await enqueue(db, { railType })
  // The first claim is refused. The next round checks the epoch before it claims.
  expect(await relayer.runOnce()).toMatchObject({ claimed: 0 })
  expect(await relayer.runOnce()).toMatchObject({ claimed: 1, dispatched: 1 })
  expect([...eventsOf('outbox.frozen'), ...eventsOf('outbox.fault')]).toEqual([])
})

test('runOnce updates the epoch record after heartbeatMs, so that lost commits are detected', async () => {
  const { railType } = buildInstruction()
  let nowMs = 0
  const clock = { now: () => new Date(), monotonicMs: () => nowMs }
  const events: RelayerEvent[] = []
  const { rails } = recordingRail({ type: railType })
  const relayer = new OutboxRelayer(db.database, rails, { heartbeatMs: 10_000 }, (event) => events.push(event), clock)
  await relayer.runOnce()
  const copied = (await epochRow(db))!.beat_no
  await db.queryNoRole(`UPDATE dispatch_epochs SET beat_at = now() - interval '2 seconds'`)
  nowMs = 10_000
  await relayer.runOnce()
  expect((await epochRow(db))!.beat_no).toBe(copied + 1n)
  await rewindEpoch(db, `beat_no = ${copied}`)
  await relayer.runOnce()
  await relayer.runOnce()
  expect(events.filter(({ type }) => type === 'outbox.frozen')).toMatchObject([{ cause: 'LOST_COMMITS' }])
})

test('a new worker detects a restore by the epoch file of an earlier worker', async () => {
  const { railType } = buildInstruction()
  const folder = await mkdtemp(join(tmpdir(), 'symphony-epoch-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const path = join(folder, 'epoch.json')
  const epochFile = new EpochFile(path)
  const { rails } = recordingRail({ type: railType })
  await new OutboxRelayer(db.database, rails, { epochFile: path }).runOnce()
  const { epoch_id: epochId, beat_no: beatNo } = (await epochRow(db))!
  expect(await epochFile.load()).toMatchObject({ epochId, beatNo })
  await rewindEpoch(db, 'beat_no = 0')
  const withoutEpoch = relayerFor(recordingRail({ type: railType }))
  await withoutEpoch.relayer.runOnce()
  expect(withoutEpoch.eventsOf('outbox.frozen')).toEqual([])
  const next = relayerFor(recordingRail({ type: railType }), { epochFile: path })
  await next.relayer.runOnce()
  expect(next.eventsOf('outbox.frozen')).toMatchObject([{ cause: 'LOST_COMMITS' }])
  expect(await epochFile.load()).toMatchObject({ epochId: (await epochRow(db))!.epoch_id })

  await writeFile(path, '{"epochId":')
  await expect(epochFile.load()).rejects.toMatchObject({ code: 'EPOCH_FILE_UNREADABLE' })
  expect(await new EpochFile(join(folder, 'none')).load()).toBeUndefined()
  // A failed save is only reported, and the worker continues.
  const withFailingStore = relayerFor(recordingRail({ type: railType }), {
    epochFile: join(folder, 'no', 'file'),
  })
  await withFailingStore.relayer.runOnce()
  expect(withFailingStore.eventsOf('outbox.fault')).toMatchObject([{ during: 'saving epoch' }])
})

test('a freeze by an operator releases waiting items; the call in flight is still recorded', async () => {
  const { railType } = buildInstruction()
  const answered = gate()
  const rail = recordingRail({ type: railType, concurrency: 1 }, async ({ reference }) => {
    await answered.opened
    return { outcome: 'success', reference }
  })
  const items = [await enqueue(db, { railType }), await enqueue(db, { railType })]
  const { relayer, eventsOf } = relayerFor(rail, { heartbeatMs: 100, listen: false })
  await relayer.start()
  await expect.poll(() => rail.calls.length, POLL_OPTIONS).toBe(1)
  await freezeDispatch(control(), 'restored by hand')
  await expect.poll(() => eventsOf('outbox.frozen').length, POLL_OPTIONS).toBe(1)
  const [underWay, waiting] = items.toSorted((a) => (a.outboxId === rail.calls[0]!.reference ? -1 : 1))
  await expect.poll(async () => (await pendingRow(db, waiting!.outboxId))?.claimed_by, POLL_OPTIONS).toBeNull()
  answered.open()
  await expect.poll(() => pendingRow(db, underWay!.outboxId), POLL_OPTIONS).toBeUndefined()
  await relayer.stop()
  expect(rail.calls).toHaveLength(1)
  expect(eventsOf('outbox.fault')).toEqual([])
})

test('a freeze just before a call to a hold rail prevents the call and releases the lease', async () => {
  const { railType } = buildInstruction()
  const payload = { '~standard': { version: 1, vendor: 'test', validate: freezing } } as const
  const rail = recordingRail({ type: railType, onUnknown: 'hold', payload })
  const { outboxId } = await enqueue(db, { railType })
  const { relayer, eventsOf } = relayerFor(rail)
  expect(await relayer.runOnce()).toMatchObject({ claimed: 1, released: 1 })
  expect(rail.calls).toEqual([])
  expect(eventsOf('outbox.fault')).toEqual([])
  expect(await pendingRow(db, outboxId)).toMatchObject({ claimed_by: null, hold_reason: null, attempt_count: 0 })
})
