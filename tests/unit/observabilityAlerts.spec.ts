import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { readSystemStatus } from '../../libs/symphony/index.js'
import { SETTINGS } from '../../libs/cli/settings/settings.js'
import { recordLedgerVerification } from '../../libs/ledger/index.js'
import {
  ALERT_THRESHOLDS,
  AlertEvaluator,
  alertRules,
  AlertWatch,
  prometheusRules,
  type Alert,
  type AlertRule,
  type MetricSamples,
} from '../../libs/observability/index.js'
import {
  enqueuePaymentOutbox,
  heartbeatOutboxWorker,
  OutboxRelayer,
  placeOutboxHold,
  readOutboxStatus,
} from '../../libs/outbox/index.js'
import { symphony } from '../support/commandLine.js'
import { createTestDatabase, withTestDatabase, type TestDatabase } from '../support/database.js'
import { buildInstruction, claim, complete, enqueue, enqueueAndClaim } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { recordingRail } from '../support/relayRail.js'
import { sealLedger } from '../support/sealLedger.js'

const RULE: AlertRule = {
  name: 'TooHigh',
  severity: 'critical',
  forSeconds: 60,
  when: { is: 'above', left: { metric: 'level' }, right: 5 },
  summary: 'It is too high.',
  firstLook: 'Look up.',
  remedy: 'Lower it.',
}
const WARNING: AlertRule = { ...RULE, name: 'Warning', severity: 'warning', forSeconds: 0 }

const at = (seconds: number, values: Record<string, number>): MetricSamples => ({
  at: new Date(seconds * 1_000),
  values: new Map(Object.entries(values)),
})
const stateOf = ({ name, state, since }: Alert) => `${name} ${state} since ${Date.parse(since) / 1_000}`
const statesOf = (reading: MetricSamples, rules: readonly AlertRule[]) =>
  new AlertEvaluator(rules).observe(reading).map(stateOf)

describe('AlertEvaluator', () => {
  test('returns alerts with severity, state, age, value and remedy', () => {
    expect(new AlertEvaluator([WARNING]).observe(at(0, { level: 6 }))).toEqual([
      {
        name: 'Warning',
        severity: 'warning',
        state: 'firing',
        since: '1970-01-01T00:00:00.000Z',
        forSeconds: 0,
        value: 6,
        summary: 'It is too high.',
        firstLook: 'Look up.',
        remedy: 'Lower it.',
      },
    ])
  })

  test('takes the age of an alert from the age metric of its rule', () => {
    const aged: AlertRule = { ...RULE, age: { metric: 'age' } }
    expect(statesOf(at(1_000, { level: 6, age: 59 }), [aged])).toEqual(['TooHigh pending since 941'])
    expect(statesOf(at(1_000, { level: 6, age: 60 }), [aged])).toEqual(['TooHigh firing since 940'])
    expect(statesOf(at(1_000, { level: 5, age: 60 }), [aged])).toEqual([])
  })

  test('measures the age since the condition last began if the rule has no age metric', () => {
    const evaluator = new AlertEvaluator([RULE])
    const evaluate = (seconds: number, level: number) => evaluator.observe(at(seconds, { level })).map(stateOf)
    expect(evaluate(0, 6)).toEqual(['TooHigh pending since 0'])
    expect(evaluate(60, 6)).toEqual(['TooHigh firing since 0'])
    expect(evaluate(90, 5)).toEqual([])
    expect(evaluate(120, 6)).toEqual(['TooHigh pending since 120'])
  })

  test('sorts firing before pending, and critical before warning', () => {
    const pending = { ...RULE, name: 'Pending', forSeconds: 600 }
    const states = statesOf(at(0, { level: 9 }), [pending, WARNING, { ...RULE, forSeconds: 0 }])
    expect(states).toEqual(['TooHigh firing since 0', 'Warning firing since 0', 'Pending pending since 0'])
  })

  test('returns no alert if the metric of a rule is missing', () => {
    const below: AlertRule = { ...WARNING, when: { is: 'below', left: { metric: 'level' }, right: 5 } }
    expect(statesOf(at(0, { other: 9 }), [RULE, below])).toEqual([])
  })
})

const summaryOf = (alertDueSeconds: number) =>
  alertRules({ ...ALERT_THRESHOLDS, alertDueSeconds }).find(({ name }) => name === 'SymphonyOldestPendingAge')?.summary

describe('thresholds of alert rules', () => {
  test('are printed in hours, minutes or seconds', () => {
    expect([0, 90, 300, 7_200].map(summaryOf)).toEqual(
      ['0 s', '90 s', '5 min', '2 h'].map((span) => expect.stringContaining(`due for more than ${span},`)),
    )
  })

  const rules = alertRules({ ...ALERT_THRESHOLDS, alertDueSeconds: 7_200 })

  test('change the condition and summary of a rule, and the Prometheus rules', () => {
    const name = 'SymphonyOldestPendingAge'
    const rule = rules.find((one) => one.name === name)!
    expect(rule.threshold).toEqual({ setting: 'alertDueSeconds', value: 7_200 })
    expect(rule.summary).toContain('2 h')
    expect(statesOf(at(0, { 'oldest_due_age_seconds{kind="payment"}': 7_200 }), [rule])).toEqual([])
    expect(statesOf(at(0, { 'oldest_due_age_seconds{kind="payment"}': 7_201 }), [rule])).toHaveLength(1)
    expect(prometheusRules(rules)).toContain('max by (job) (oldest_due_age_seconds{kind=\\"payment\\"}) > 7200')
  })

  test('have the defaults of their settings, and `symphony alerts` prints the values in use', async () => {
    for (const [name, value] of Object.entries(ALERT_THRESHOLDS)) {
      expect([name, Object.entries(SETTINGS).find(([setting]) => setting === name)?.[1].default]).toEqual([name, value])
    }
    const words = ['alerts', '--alert-due-seconds', '7200']
    expect((await symphony([...words, '--prometheus'])).stdout).toBe(prometheusRules(rules))
    const { rules: listed } = JSON.parse((await symphony([...words, '--json'])).stdout)
    expect(listed).toContainEqual(expect.objectContaining({ threshold: { setting: 'alertDueSeconds', value: 7_200 } }))
    expect((await symphony(words)).stdout).toContain('alertDueSeconds = 7200')
  })
})

const ageMinutes = (alert: Alert | undefined) =>
  alert === undefined ? undefined : Math.round((Date.now() - Date.parse(alert.since)) / 60_000)
const described = (list: readonly Alert[]) => list.map((one) => `${one.name} ${ageMinutes(one)} min`)

describe('alerts from the database status', () => {
  let db: TestDatabase
  let words: readonly string[]
  beforeAll(async () => {
    db = await createTestDatabase()
    const { url } = await db.createLogin('watcher', { roles: ['symphony_readonly'] })
    words = ['status', '--database-url', url, '--schema', db.schema]
  })
  afterAll(() => db.drop())

  /** Returns the alerts as a new process sees them. */
  const evaluate = async () => new AlertWatch().evaluate(await readSystemStatus(db.database))
  const find = async (name: string) => (await evaluate()).find((alert) => alert.name === name)

  const beat = (detail: object) =>
    heartbeatOutboxWorker(db.as('symphony_executor'), 'worker-1', JSON.parse(JSON.stringify(detail)))

  test('SymphonyPaymentsHeld fires for a payment held for 10 minutes, not for one just held', async () => {
    expect((await symphony(words)).stdout).toMatch(/^No alert\.$/m)
    const { outboxId } = await enqueue(db)
    await placeOutboxHold(db.as('symphony_control'), outboxId, 'please wait')
    expect(await find('SymphonyPaymentsHeld')).toBeUndefined()
    await db.queryNoRole(`UPDATE payment_outbox_pending SET held_at = now() - interval '10 minutes'`)
    expect(ageMinutes(await find('SymphonyPaymentsHeld'))).toBe(10)
    const { exitCode, stdout, stderr } = await symphony(words)
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(stdout).toMatch(
      /^FIRING +SymphonyPaymentsHeld +A payment has been held.*\n +since \d{4}-.*symphony holds list/m,
    )
    const status: { alerts: Alert[] } = JSON.parse((await symphony([...words, '--json'])).stdout)
    expect(status).toMatchObject({ heldCount: '1', inbox: { deadCount: '0' }, leases: { heldCount: '0' } })
    expect(status.alerts).toMatchObject([
      { name: 'SymphonyPaymentsHeld', state: 'firing', value: 1, severity: 'warning' },
    ])
    await db.queryNoRole('UPDATE payment_outbox_pending SET hold_reason = NULL, held_by = NULL, held_at = NULL')
  })

  test('a message that is due, held or failed fires alerts about messages, none about payments', async () => {
    const messages = await Promise.all(
      Array.from({ length: 4 }, () =>
        enqueuePaymentOutbox(db.as('symphony_ingest'), buildInstruction({ railType: 'topic' }), { isMessage: true }),
      ),
    )
    const [failed] = await claim(db, 'topic', { batchSize: 1 })
    await complete(db, failed!, { state: 'FAILED' })
    const left = messages.filter(({ outboxId }) => outboxId !== failed!.outboxId)
    await placeOutboxHold(db.as('symphony_control'), left[0]!.outboxId, 'please wait')
    await placeOutboxHold(db.as('symphony_control'), left[1]!.outboxId, 'OUTCOME_NOT_DELIVERED')
    await db.queryNoRole(
      `UPDATE payment_outbox_pending SET next_attempt_at = now() - interval '10 minutes',
         held_at = held_at - interval '10 minutes' WHERE is_message`,
    )
    const names = (await evaluate()).map(({ name }) => name).filter((name) => name !== 'SymphonyNoWorkerAlive')
    expect(names.toSorted()).toEqual([
      'SymphonyMessagesFailed',
      'SymphonyMessagesHeld',
      'SymphonyMessagesLate',
      'SymphonyOutcomeNotDelivered',
    ])
    await db.queryNoRole('DELETE FROM payment_outbox_pending WHERE is_message')
    await db.queryNoRole('DELETE FROM outbox_attempt_tallies')
    await db.queryNoRole('DELETE FROM outbox_attempt_totals')
  })

  test('SymphonyOldestUnfinishedAge fires for a payment unfinished for 48 hours', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'RETRYABLE', retryDelaySeconds: 300 })
    await enqueue(db, { notBefore: new Date('2099-01-01') })
    const backdate = (age: string, filter: string) =>
      db.queryNoRole(`UPDATE payment_outbox_pending SET created_at = now() - interval '${age}' WHERE ${filter}`)
    // An item scheduled for later and never attempted is not late.
    await backdate('30 days', `next_attempt_at > now() + interval '1 year'`)
    expect(await find('SymphonyOldestUnfinishedAge')).toBeUndefined()
    await backdate('48 hours', `outbox_id = '${lease.outboxId}'`)
    expect(ageMinutes(await find('SymphonyOldestUnfinishedAge'))).toBe(48 * 60)
    const tolerant = await symphony([...words, '--json', '--alert-unfinished-seconds', '259200'])
    expect(tolerant.stdout).not.toContain('SymphonyOldestUnfinishedAge')
    await db.queryNoRole(`UPDATE payment_outbox_pending SET blocked = true WHERE outbox_id = $1`, [lease.outboxId])
    expect(ageMinutes(await find('SymphonyOldestUnfinishedAge'))).toBe(48 * 60)
  })

  test('a heartbeat with an unknown rail code or a clock jump fires an alert for 15 minutes', async () => {
    for (const secondsAgo of ['soon', null, {}, [1]]) {
      await beat({ unknownCode: { secondsAgo }, clockJump: { secondsAgo } })
      expect(await find('SymphonyUnknownRailCodes')).toBeUndefined()
    }
    await beat({ unknownCode: { secondsAgo: 1e20 }, clockJump: { secondsAgo: -5 } })
    expect(await find('SymphonyUnknownRailCodes')).toBeUndefined()
    expect(ageMinutes(await find('SymphonyClockJumped'))).toBe(0)
    await beat({
      unknownCode: { secondsAgo: 600, railType: 'sepa', code: 'X9' },
      clockJump: { secondsAgo: 300, byMs: 9 },
    })
    expect(ageMinutes(await find('SymphonyUnknownRailCodes'))).toBe(10)
    expect(ageMinutes(await find('SymphonyClockJumped'))).toBe(5)
    await beat({ unknownCode: { secondsAgo: 901 }, clockJump: { secondsAgo: 901 } })
    expect(await find('SymphonyUnknownRailCodes')).toBeUndefined()
    expect(await find('SymphonyClockJumped')).toBeUndefined()
  })

  test('a relayer reports an unknown rail code in its heartbeat, and an alert fires', async () => {
    const rail = recordingRail({ type: 'coded', codes: { OK: 'success' } }, () => ({
      outcome: 'terminal',
      code: 'X9',
    }))
    const relayer = new OutboxRelayer(db.database, rail.rails, { workerId: 'coded-worker', heartbeatMs: 100 })
    await enqueue(db, { railType: 'coded' })
    await relayer.start()
    await expect.poll(() => find('SymphonyUnknownRailCodes'), POLL_OPTIONS).toMatchObject({ state: 'firing' })
    await relayer.stop()
    const { rows } = await db.queryNoRole(
      `SELECT detail -> 'unknownCode' -> 'code' AS code FROM outbox_workers WHERE worker_id = 'coded-worker'`,
    )
    expect(rows).toEqual([{ code: 'X9' }])
  })

  test('SymphonyLedgerChainBroken fires from a failed verification to the next successful one', async () => {
    const auditor = db.as('symphony_auditor')
    const verified = (breakCount: number) => recordLedgerVerification(auditor, { rowsChecked: 9, breakCount })
    await verified(0)
    expect(await find('SymphonyLedgerChainBroken')).toBeUndefined()
    await verified(2)
    const first = await find('SymphonyLedgerChainBroken')
    expect(first).toMatchObject({ state: 'firing', value: 2 })
    await verified(1)
    const second = await find('SymphonyLedgerChainBroken')
    expect(second).toMatchObject({ value: 1 })
    expect(Math.abs(Date.parse(second!.since) - Date.parse(first!.since))).toBeLessThan(100)
    await verified(0)
    expect(await find('SymphonyLedgerChainBroken')).toBeUndefined()
    const { ledgerVerifiedAt } = await readOutboxStatus(db.as('symphony_readonly'))
    expect(ledgerVerifiedAt).toBeInstanceOf(Date)
  })

  test('SymphonyExpiredLeases fires after three minutes, SymphonyDlqGrowing at once', async () => {
    const [lease] = await claim(db, (await enqueue(db, { railType: 'to-expire' })).railType)
    await db.queryNoRole(
      `UPDATE payment_outbox_pending SET lease_expires_at = now() - interval '2 minutes' WHERE outbox_id = $1`,
      [lease!.outboxId],
    )
    expect(await find('SymphonyExpiredLeases')).toBeUndefined()
    await db.queryNoRole(
      `UPDATE payment_outbox_pending SET lease_expires_at = now() - interval '4 minutes' WHERE outbox_id = $1`,
      [lease!.outboxId],
    )
    expect(ageMinutes(await find('SymphonyExpiredLeases'))).toBe(4)
    expect(await find('SymphonyDlqGrowing')).toBeUndefined()
    await complete(db, await enqueueAndClaim(db), { state: 'FAILED', errorCode: 'REFUSED' })
    expect(await find('SymphonyDlqGrowing')).toMatchObject({ state: 'firing', value: 1 })
  })

  test('SymphonyNoWorkerAlive fires if payments are due; its age counts from the last heartbeat', async () => {
    await enqueue(db)
    await db.queryNoRole(
      `UPDATE payment_outbox_pending SET next_attempt_at = now() - interval '20 minutes'
       WHERE NOT blocked AND lease_token IS NULL AND next_attempt_at < now() + interval '1 year'`,
    )
    await heartbeatOutboxWorker(db.as('symphony_executor'), 'worker-1', {})
    expect(await find('SymphonyNoWorkerAlive')).toBeUndefined()
    await db.queryNoRole(`UPDATE outbox_workers SET last_seen_at = now() - interval '7 minutes'`)
    expect(ageMinutes(await find('SymphonyNoWorkerAlive'))).toBe(7)
    await db.queryNoRole('DELETE FROM outbox_workers')
    expect(ageMinutes(await find('SymphonyNoWorkerAlive'))).toBe(20)
    expect(ageMinutes(await find('SymphonyOldestPendingAge'))).toBe(20)
  })

  test('SymphonySchedulerLate fires for a timer that has been due for 10 minutes', async () => {
    await db.queryNoRole(
      `INSERT INTO scheduler_timers (timer_id, topic, payload, delivery, due_at)
       VALUES (gen_random_uuid(), 't', '{}', 'outbox', now() - interval '10 minutes')`,
    )
    expect(ageMinutes(await find('SymphonySchedulerLate'))).toBe(10)
  })

  test('`symphony status` shows the alerts and ages that AlertWatch returns', async () => {
    const { alerts }: { alerts: Alert[] } = JSON.parse((await symphony([...words, '--json'])).stdout)
    expect(described(alerts)).toEqual(described(await evaluate()))
    expect(alerts.length).toBeGreaterThan(3)
  })
})

test('SymphonyStatusMissing fires after five minutes without an answer of the database', async () => {
  let nowMs = 0
  const clock = { now: () => new Date(nowMs), monotonicMs: () => nowMs }
  const watch = new AlertWatch(undefined, clock)
  expect(await watch.evaluate(undefined)).toMatchObject([{ name: 'SymphonyStatusMissing', state: 'pending' }])
  nowMs = 300_000
  expect(await watch.evaluate(undefined)).toMatchObject([{ name: 'SymphonyStatusMissing', state: 'firing' }])
})

test('symphony ledger verify prints and records its result, and writes it as a metric if it can', async () => {
  await withTestDatabase(async (own) => {
    const { url } = await own.createLogin('auditor', { roles: ['symphony_auditor'] })
    const folder = await mkdtemp(join(tmpdir(), 'symphony-textfile-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const textfile = join(folder, 'symphony.prom')
    const verify = ['ledger', 'verify', '--database-url', url, '--schema', own.schema, '--textfile', textfile]
    const { outboxId } = await enqueue(own)
    await sealLedger(own)
    expect(await symphony(verify)).toMatchObject({ exitCode: 0 })
    expect(await readFile(textfile, 'utf8')).toMatch(/^ledger_chain_breaks 0$/m)
    const unwritable = [...verify.slice(0, -1), join(folder, 'missing', 'symphony.prom')]
    const unwritten = await symphony(unwritable)
    expect(unwritten).toMatchObject({ exitCode: 1, stdout: expect.stringMatching(/holds +I9 /) })
    expect(unwritten.stderr).toMatch(/TEXTFILE_UNWRITABLE .*missing.*because.*what to do Create its folder/s)
    await own.queryNoRole('ALTER TABLE payment_outbox_identities DISABLE TRIGGER ALL')
    await own.queryNoRole(`UPDATE payment_outbox_identities SET rail_type = 'another' WHERE outbox_id = $1`, [outboxId])
    expect(await symphony(verify)).toMatchObject({ exitCode: 1 })
    expect(await readFile(textfile, 'utf8')).toMatch(/^ledger_chain_breaks [1-9]/m)
    const broken = await symphony(unwritable)
    expect(broken).toMatchObject({ exitCode: 1, stdout: expect.stringContaining(outboxId) })
    expect(broken.stderr).toMatch(/missing.* cannot be written\. ENOENT.*LEDGER_BROKEN/s)
    expect(await readdir(folder)).toEqual(['symphony.prom'])
    const { rows } = await own.queryNoRole(
      'SELECT verified_by LIKE $1 AS own, rows_checked::int, break_count > 0 AS broken FROM ledger_verifications ORDER BY verified_at',
      ['%auditor%'],
    )
    expect(rows).toEqual(
      [false, false, true, true].map((isBroken) => ({ own: true, rows_checked: 1, broken: isBroken })),
    )
  })
})
