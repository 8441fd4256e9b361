import { randomUUID } from 'node:crypto'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import type { ItemReplay } from '../../libs/outbox/index.js'
import { symphony, type CommandOutput } from '../support/commandLine.js'
import { useTestDatabase } from '../support/database.js'
import { claimOnly, complete, enqueue, enqueueAndClaim, WORKER } from '../support/outboxItems.js'
import { enqueueFailed } from '../support/outboxPeople.js'

const db = await useTestDatabase({ countBranches: false })
let auditor: string
beforeAll(async () => {
  auditor = (await db.createLogin('auditor', { roles: ['symphony_auditor'] })).url
})
beforeEach(() => setTrail(true))

function setTrail(on: boolean): Promise<unknown> {
  return db.queryNoRole('UPDATE symphony_settings SET full_trail = $1', [on])
}

function show(id: string, ...words: readonly string[]): Promise<CommandOutput> {
  return symphony(['show', id, ...words], { DATABASE_URL: auditor, SYMPHONY_SCHEMA: db.schema })
}

/** Returns the exit code, the printed items and the error. */
async function showJson(id: string) {
  const { exitCode, stdout, stderr } = await show(id, '--replay', '--json')
  const printed: { items?: readonly ItemReplay[] } = stdout === '' ? {} : JSON.parse(stdout)
  const failed: { error?: { code: string; remedy: string } } = stderr === '' ? {} : JSON.parse(stderr)
  return { exitCode, items: printed.items, error: failed.error }
}

test('show --replay prints each event with its changes, and that the result equals the row', async () => {
  const lease = await enqueueAndClaim(db, { payload: { amount: '77.10', currency: 'EUR', destination: 'SECRET' } })
  await complete(db, lease, { state: 'RETRYABLE', errorCode: 'BUSY', outcomeUnknown: true })
  const { exitCode, stdout, stderr } = await show(lease.instructionId, '--replay')
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
  expect(stdout).toMatch(/ 1 ENQUEUED by \S+\n(?: +\S+ = .*\n)* +instruction_id = /)
  expect(stdout).toMatch(new RegExp(` 2 LEASE_CLAIMED by ${WORKER}\n +claimed_by = "${WORKER}"\n`))
  expect(stdout).toMatch(/ 3 ATTEMPT_COMPLETED by \S+\n(?: +\S+ = .*\n)* +attempt_count = 1 \(was 0\)\n/)
  expect(stdout).toMatch(/ 4 RESCHEDULED by \S+\n(?: +\S+ = .*\n)* +outcome_unknown = true \(was false\)\n/)
  expect(stdout).toContain('EQUAL The folded row and the pending row agree in 27 columns. Not compared: lease_token')
  expect(stdout).not.toMatch(/SECRET|77\.10/)
  expect(stdout).not.toContain(lease.leaseToken)
})

test('show --replay --json prints events and comparison of every item of an instruction', async () => {
  const { instructionId, outboxId } = await enqueue(db)
  const other = await enqueue(db, { instructionId })
  const { exitCode, items } = await showJson(instructionId)
  expect(exitCode).toBe(0)
  expect(items?.map((item) => item.outboxId)).toEqual([other.outboxId, outboxId])
  expect(items?.[1]).toMatchObject({
    instructionId,
    verdict: 'equal',
    gap: null,
    steps: [{ event: { eventNo: 1, eventType: 'ENQUEUED' }, ends: false }],
    folded: { outbox_id: outboxId, attempt_count: 0 },
    pending: { outbox_id: outboxId, attempt_count: 0 },
    differences: [],
    notCompared: ['lease_token'],
  })
  expect((await showJson(outboxId)).items).toHaveLength(1)
})

test('show --replay of an ended item checks that no pending row is left', async () => {
  const item = await enqueueFailed(db)
  const { exitCode, stdout } = await show(item.outboxId, '--replay')
  expect(exitCode).toBe(0)
  expect(stdout).toMatch(/ATTEMPT_COMPLETED by \S+\n +the pending row is deleted\n/)
  expect(stdout).toContain('EQUAL The events end with no pending row, and there is none.')
  expect((await showJson(item.outboxId)).items).toMatchObject([{ verdict: 'equal', folded: null, pending: null }])
})

test('show --replay exits with 1 and names each column that no event explains', async () => {
  const { outboxId } = await enqueue(db)
  await db.queryNoRole(
    `UPDATE payment_outbox_pending SET hold_reason = 'x', held_by = 'dba', held_at = now() WHERE outbox_id = $1`,
    [outboxId],
  )
  const { exitCode, stdout, stderr } = await show(outboxId, '--replay')
  expect(exitCode).toBe(1)
  expect(stdout).toContain('DIFFERENT hold_reason: folded null, pending "x"')
  expect(stdout).toContain('DIFFERENT held_by: folded null, pending "dba"')
  expect(stderr).toContain(
    `REPLAY_DIFFERS The pending row of ${outboxId} differs from its events: hold_reason, held_by`,
  )
  expect(await showJson(outboxId)).toMatchObject({ exitCode: 1, error: { code: 'REPLAY_DIFFERS' } })
})

test('show --replay reports a pending row that was deleted by hand', async () => {
  const { outboxId } = await enqueue(db)
  await db.queryNoRole('DELETE FROM payment_outbox_pending WHERE outbox_id = $1', [outboxId])
  const { exitCode, stdout } = await show(outboxId, '--replay')
  expect(exitCode).toBe(1)
  expect(stdout).toContain('DIFFERENT the row: folded "a pending row", pending "no pending row"')
})

test('show --replay compares nothing if the full trail was off at the enqueue', async () => {
  await setTrail(false)
  const { outboxId } = await enqueue(db)
  const off = await show(outboxId, '--replay')
  expect(off.exitCode).toBe(1)
  expect(off.stdout).toMatch(/NOT COMPARED The event ENQUEUED is missing: the full trail was off .* and is still off\./)
  expect(off.stdout).not.toMatch(/EQUAL|DIFFERENT/)
  await setTrail(true)
  const on = await showJson(outboxId)
  expect(on).toMatchObject({
    exitCode: 1,
    items: [
      { verdict: 'incomplete', gap: { missing: 'ENQUEUED', until: expect.any(String) }, steps: [], folded: null },
    ],
    error: { code: 'REPLAY_INCOMPLETE', remedy: expect.stringContaining('full_trail = true') },
  })
})

test('show --replay compares nothing if the full trail was off for a part of the item’s life', async () => {
  const { outboxId, railType } = await enqueue(db)
  await setTrail(false)
  const lease = await claimOnly(db, railType)
  const still = await show(outboxId, '--replay')
  expect(still.exitCode).toBe(1)
  expect(still.stdout).toMatch(/NOT COMPARED The full trail was off from \S+Z until now, so that events/)
  await setTrail(true)
  await complete(db, lease, { state: 'DISPATCHED', railReference: 'r-1' })
  const { exitCode, items } = await showJson(outboxId)
  expect(exitCode).toBe(1)
  expect(items).toMatchObject([{ verdict: 'incomplete', gap: { missing: null, until: expect.any(String) } }])
})

test('show --replay compares an item that ended before the full trail was switched off', async () => {
  const item = await enqueueFailed(db)
  await setTrail(false)
  expect(await showJson(item.outboxId)).toMatchObject({ exitCode: 0, items: [{ verdict: 'equal' }] })
})

test('show --replay names an event that was deleted from the trail', async () => {
  const lease = await enqueueAndClaim(db)
  await complete(db, lease, { state: 'RETRYABLE' })
  await db.queryNoRole('ALTER TABLE payment_outbox_events DISABLE TRIGGER ALL')
  await db.queryNoRole('DELETE FROM payment_outbox_events WHERE outbox_id = $1 AND event_no = 2', [lease.outboxId])
  await db.queryNoRole('ALTER TABLE payment_outbox_events ENABLE ALWAYS TRIGGER payment_outbox_events_is_append_only')
  const { exitCode, stdout, stderr } = await show(lease.outboxId, '--replay')
  expect(exitCode).toBe(1)
  expect(stdout).toContain('NOT COMPARED The event number 2 of this item is missing: it was deleted.')
  expect(stderr).toContain('symphony ledger verify')
})

test('show --replay fails for an unknown id (ITEM_NOT_FOUND)', async () => {
  for (const id of ['unknown-id', randomUUID()]) {
    expect(await showJson(id)).toMatchObject({ exitCode: 1, items: undefined, error: { code: 'ITEM_NOT_FOUND' } })
  }
})

test('show --replay fails without the role symphony_auditor (ROLE_UNAVAILABLE)', async () => {
  const { url } = await db.createLogin('reader', { roles: ['symphony_readonly'] })
  const { outboxId } = await enqueue(db)
  const output = await symphony(['show', outboxId, '--replay'], { DATABASE_URL: url, SYMPHONY_SCHEMA: db.schema })
  expect(output.exitCode).toBe(1)
  expect(output.stderr).toContain('ROLE_UNAVAILABLE')
})
