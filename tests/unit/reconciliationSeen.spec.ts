import { expect, test } from 'vitest'
import { call } from '../../libs/db/call.js'
import type { Timeline } from '../../libs/http/index.js'
import { AlertWatch, createStatusRegistry } from '../../libs/observability/index.js'
import { readReconciliationStatus, type ReconciliationStatus } from '../../libs/reconciliation/index.js'
import { readSystemStatus } from '../../libs/symphony/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { symphony } from '../support/commandLine.js'
import { useTestDatabase, withTestDatabase, type TestDatabase } from '../support/database.js'
import { openHttpFixture } from '../support/httpFixture.js'
import { enqueueFailed, enqueuePaid, enqueueUnknown } from '../support/outboxPeople.js'
import { findingsOf, reconcileEntries } from '../support/reconciliation.js'

/**
 * Tests the places that show results of reconciliations: the status, metrics, alerts, GET /v1/outbox/{outboxId} and
 * `symphony show`.
 */

const db = await useTestDatabase()
const fixture = closeAfterAll(await openHttpFixture(db))

function readStatus(of: TestDatabase): Promise<ReconciliationStatus> {
  return readReconciliationStatus(of.as('symphony_readonly'))
}

/** Returns the open findings by kind, without kinds that have none. */
function openOf({ findings }: ReconciliationStatus): Record<string, number> {
  return Object.fromEntries(findings.flatMap(({ kind, open }) => (open === 0n ? [] : [[kind, Number(open)]])))
}

function criticalAge({ findings }: ReconciliationStatus, kind: string): number | undefined {
  return findings.find((one) => one.kind === kind)?.criticalAgeSeconds
}

test('the status counts open findings by kind, and has the age of each rail’s last statement', async () => {
  await withTestDatabase(async (fresh) => {
    expect(await readStatus(fresh)).toEqual({
      findings: KINDS.map((kind) => ({ kind, open: 0n, criticalAgeSeconds: 0 })),
      rails: [],
    })
    const { outboxId, railType } = await enqueuePaid(fresh)
    const { runId } = await reconcileEntries(fresh, railType, [{ outboxId }, { outboxId }, {}], { keepUnknown: true })
    const status = await readStatus(fresh)
    expect(openOf(status)).toEqual({ paid_twice: 1, unknown_entry: 1 })
    expect(criticalAge(status, 'paid_twice')).toBeGreaterThan(0)
    expect(criticalAge(status, 'unknown_entry')).toBe(0)
    expect(status.rails).toEqual([{ rail: railType, ageSeconds: expect.any(Number) }])
    for (const { findingId } of await findingsOf(fresh, runId)) await close(fresh, findingId)
    expect(openOf(await readStatus(fresh))).toEqual({})
  })
})

test('a dry run of a reconciliation adds no open finding and no statement to the status', async () => {
  await withTestDatabase(async (fresh) => {
    const { outboxId, railType } = await enqueuePaid(fresh)
    await reconcileEntries(fresh, railType, [{ outboxId }, { outboxId }], { dryRun: true })
    expect(await readStatus(fresh)).toMatchObject({ rails: [] })
    expect(openOf(await readStatus(fresh))).toEqual({})
  })
})

test('the status counts at most 10,000 findings of a kind', async () => {
  await withTestDatabase(async (fresh) => {
    await fresh.queryNoRole(
      `INSERT INTO reconciliation_open_findings SELECT gen_random_uuid(), 'unknown_entry', 'info', now()
       FROM generate_series(1, 10001)`,
    )
    expect(openOf(await readStatus(fresh))).toEqual({ unknown_entry: 10_000 })
  })
})

test('alerts fire if the bank paid a payment twice or a FAILED one, not if it paid a held one', async () => {
  await withTestDatabase(async (fresh) => {
    const firing = async () => {
      const alerts = await new AlertWatch().evaluate(await readSystemStatus(fresh.database))
      return alerts.flatMap(({ name }) => (OWN_ALERTS.has(name) ? [name] : []))
    }
    const held = await enqueueUnknown(fresh, { payload: { amount: '10.50', currency: 'EUR' } })
    await reconcileEntries(fresh, held.railType, [{ outboxId: held.outboxId }])
    expect(openOf(await readStatus(fresh))).toEqual({ paid_not_recorded: 1 })
    expect(await firing()).toEqual([])
    const failed = await enqueueFailed(fresh)
    await reconcileEntries(fresh, failed.railType, [{ outboxId: failed.outboxId }])
    const paid = await enqueuePaid(fresh)
    await reconcileEntries(fresh, paid.railType, [{ outboxId: paid.outboxId }, { outboxId: paid.outboxId }])
    expect((await firing()).toSorted()).toEqual(['SymphonyPaidNotRecorded', 'SymphonyPaidTwice'])
    const metrics = await createStatusRegistry(await readSystemStatus(fresh.database)).metrics()
    expect(metrics).toContain('reconciliation_findings_open{kind="paid_twice"} 1\n')
    expect(metrics).toMatch(/^reconciliation_age_seconds\{rail="rail-[\w-]+"\} /m)
  })
})

test('SymphonyReconciliationLate names rails without a recent statement, oldest statement first', async () => {
  const status = await readSystemStatus(db.database)
  const rails = [
    { rail: 'sepa', ageSeconds: 300_000 },
    { rail: 'momo', ageSeconds: 400_000 },
    { rail: 'card', ageSeconds: 60 },
  ]
  const alerts = await new AlertWatch().evaluate({ ...status, reconciliation: { findings: [], rails } })
  expect(alerts.find(({ name }) => name === 'SymphonyReconciliationLate')).toMatchObject({
    state: 'firing',
    severity: 'warning',
    detail: 'momo: 111 h, sepa: 83 h',
  })
})

test('GET /v1/outbox/{outboxId} and "symphony show" have the bank entries and closed findings', async () => {
  const { outboxId, railType, instructionId } = await enqueuePaid(db)
  const entries = [
    { outboxId, bookedOn: '2026-11-16' },
    { outboxId, bookedOn: '2026-11-17', kind: 'reversal' as const, returnCode: 'AC04' },
  ]
  const { runId } = await reconcileEntries(db, railType, entries)
  const [finding] = await findingsOf(db, runId)
  await close(db, finding!.findingId)
  const timeline: Timeline = JSON.parse(await (await fixture.call(`/v1/outbox/${outboxId}`)).text())
  expect(timeline.bankEntries).toMatchObject([
    { runId, kind: 'payout', amount: '10.50', currency: 'EUR', bookedOn: '2026-11-16', returnCode: null },
    { runId, kind: 'reversal', amount: '10.50', currency: 'EUR', bookedOn: '2026-11-17', returnCode: 'AC04' },
  ])
  expect(timeline.events.map(({ eventType }) => eventType)).toEqual(['RETURN_RECORDED', 'FINDING_CLOSED'])
  const shown = await symphony(['show', instructionId], { DATABASE_URL: db.url, SYMPHONY_SCHEMA: db.schema })
  expect(shown.stdout).toContain(`bank statement: paid 10.50 EUR, booked on 2026-11-16 (run ${runId})`)
  expect(shown.stdout).toContain(`sent back 10.50 EUR, booked on 2026-11-17, code AC04`)
  expect(shown.stdout).toContain('FINDING_CLOSED')
})

test('GET /v1/outbox/{outboxId} hides the amount of a bank entry if the rail hides amounts', async () => {
  const { outboxId, railType } = await enqueuePaid(db)
  await reconcileEntries(db, railType, [{ outboxId }])
  await db.queryNoRole(
    `INSERT INTO outbox_rails (rail_type, money, fields, declared_by, declared_login, first_declared_at, last_declared_at)
     VALUES ($1, true, '{"/amount": "masked"}', 'worker-1', 'relayer', now(), now())`,
    [railType],
  )
  const timeline: Timeline = JSON.parse(await (await fixture.call(`/v1/outbox/${outboxId}`)).text())
  expect(timeline.bankEntries).toMatchObject([{ kind: 'payout', amount: null, currency: 'EUR' }])
})

async function close(of: TestDatabase, findingId: string): Promise<void> {
  await call(of.as('symphony_control'), 'close_reconciliation_finding', [findingId, 'asked the bank'])
}

const KINDS = ['paid_twice', 'paid_not_recorded', 'recorded_not_paid', 'amount_differs', 'reversed', 'unknown_entry']
const OWN_ALERTS = new Set([
  'SymphonyPaidTwice',
  'SymphonyRecordedNotPaid',
  'SymphonyPaidNotRecorded',
  'SymphonyPaidAmountDiffers',
  'SymphonyReconciliationLate',
])
