import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  AlertEvaluator,
  AlertWatch,
  evaluateAlerts,
  takeReading,
  type AlertRule,
  type Reading,
} from '../../libs/observability/index.js'
import { placeOutboxHold } from '../../libs/outbox/index.js'
import { symphony } from '../support/commandLine.js'
import { createTestDatabase, withTestDatabase, type TestDatabase } from '../support/database.js'
import { enqueue } from '../support/outboxItems.js'

const RULE: AlertRule = {
  name: 'TooHigh',
  severity: 'critical',
  forSeconds: 60,
  when: { is: 'above', left: { of: 'value', metric: 'level' }, right: 5 },
  summary: 'It is too high.',
  firstLook: 'Look up.',
  remedy: 'Lower it.',
}
const WARNING: AlertRule = { ...RULE, name: 'Warning', severity: 'warning', forSeconds: 0 }

const at = (seconds: number, values: Record<string, number>): Reading => ({
  at: new Date(seconds * 1_000),
  values: new Map(Object.entries(values)),
})
const statesOf = (readings: readonly Reading[], rules: readonly AlertRule[] = [RULE]) =>
  evaluateAlerts(readings, rules).map(({ name, state, since }) => `${name} ${state} since ${Date.parse(since) / 1_000}`)

describe('our own evaluator', () => {
  test('tells an alert as JSON with everything that whoever is woken needs', () => {
    expect(evaluateAlerts([at(0, { level: 6 })], [WARNING])).toEqual([
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

  test('fires at the very second that a condition has held for as long as its rule says', () => {
    expect(statesOf([at(0, { level: 5 })])).toEqual([])
    expect(statesOf([at(0, { level: 6 })])).toEqual(['TooHigh pending since 0'])
    expect(statesOf([at(0, { level: 6 }), at(59, { level: 6 })])).toEqual(['TooHigh pending since 0'])
    expect(statesOf([at(0, { level: 6 }), at(60, { level: 6 })])).toEqual(['TooHigh firing since 0'])
    expect(statesOf([at(0, { level: 6 }), at(30, { level: 5 }), at(60, { level: 6 })])).toEqual([
      'TooHigh pending since 60',
    ])
  })

  test('puts what fires before what is pending, and what wakes somebody before what can wait', () => {
    const pending = { ...RULE, name: 'Pending', forSeconds: 600 }
    const ready = { ...RULE, forSeconds: 0 }
    const states = statesOf([at(0, { level: 9 })], [pending, WARNING, ready])
    expect(states).toEqual(['TooHigh firing since 0', 'Warning firing since 0', 'Pending pending since 0'])
  })

  test('begins anew when nobody looked for more than five minutes', () => {
    expect(statesOf([at(0, { level: 6 }), at(300, { level: 6 })])).toEqual(['TooHigh firing since 0'])
    expect(statesOf([at(0, { level: 6 }), at(301, { level: 6 })])).toEqual(['TooHigh pending since 301'])
  })

  test('begins anew when the clock of the process goes back', () => {
    expect(statesOf([at(1_000, { level: 6 }), at(900, { level: 6 })])).toEqual(['TooHigh pending since 900'])
  })

  test('two looks at once, or one that overtakes the other, change nothing', () => {
    const firing = ['TooHigh firing since 0']
    expect(statesOf([at(0, { level: 6 }), at(60, { level: 6 }), at(60, { level: 6 })])).toEqual(firing)
    expect(statesOf([at(0, { level: 6 }), at(60, { level: 6 }), at(59, { level: 0 })])).toEqual(firing)
  })

  test('a metric that is not there is above nothing and below nothing', () => {
    const below: AlertRule = { ...WARNING, when: { is: 'below', left: { of: 'value', metric: 'level' }, right: 5 } }
    expect(statesOf([at(0, { other: 9 })], [RULE, below])).toEqual([])
  })

  test('growth is against then, and increase survives a process that starts anew', () => {
    const growth: AlertRule = { ...WARNING, name: 'Growth', when: above({ of: 'growth', metric: 'm', seconds: 60 }) }
    const increase: AlertRule = {
      ...WARNING,
      name: 'Increase',
      when: above({ of: 'increase', metric: 'm', seconds: 120 }),
    }
    const told = (values: readonly number[]) =>
      evaluateAlerts(
        values.map((m, minute) => at(minute * 60, { 'm{instance="a"}': m })),
        [growth, increase],
      ).map(({ name, value }) => `${name} ${value}`)
    expect(told([5])).toEqual([])
    expect(told([5, 5])).toEqual([])
    expect(told([5, 7])).toEqual(['Growth 2', 'Increase 2'])
    expect(told([5, 7, 1])).toEqual(['Increase 1'])
    expect(told([5, 7, 7, 7])).toEqual([])
  })

  test('looks that follow each other fast fill no memory and change no verdict', () => {
    const evaluator = new AlertEvaluator([{ ...RULE, when: above({ of: 'growth', metric: 'm', seconds: 600 }) }])
    let states: readonly string[] = []
    for (let half = 0; half <= 1_400; half += 1) {
      states = evaluator.observe(at(half / 2, { m: half > 1_200 ? 1 : 0 })).map(({ state }) => state)
    }
    expect(states).toEqual(['firing'])
  })
})

test('a reading holds every sample but those of histograms, by name and labels', async () => {
  const registry = new Registry()
  const registers = [registry]
  new Gauge({ name: 'plain', help: 'x', registers }).set(3)
  new Counter({ name: 'labelled', help: 'x', labelNames: ['b', 'a'], registers }).inc({ b: '2', a: '1' }, 4)
  new Histogram({ name: 'h', help: 'x', registers }).observe(1)
  const { values } = await takeReading(new Date(0), [registry, new Registry()])
  expect(Object.fromEntries(values)).toEqual({ plain: 3, 'labelled{a="1",b="2"}': 4 })
})

test('a watch judges its looks in the light of those before', async () => {
  const registry = new Registry()
  new Gauge({ name: 'level', help: 'x', registers: [registry] }).set(6)
  let nowMs = 0
  const clock = { now: () => new Date(nowMs), monotonicMs: () => nowMs }
  const watch = new AlertWatch([RULE], clock)
  expect(await watch.look([registry])).toMatchObject([{ state: 'pending' }])
  nowMs = 60_000
  expect(await watch.look([registry])).toMatchObject([{ state: 'firing' }])
})

describe('symphony status', () => {
  let db: TestDatabase
  let words: readonly string[]
  beforeAll(async () => {
    db = await createTestDatabase()
    const { url } = await db.createLogin('watcher', { roles: ['symphony_readonly'] })
    words = ['status', '--database-url', url, '--schema', db.schema]
  })
  afterAll(() => db.drop())

  test('tells which alerts there are, to people and to scripts', async () => {
    expect((await symphony(words)).stdout).toMatch(/^No alert\.$/m)
    const { outboxId } = await enqueue(db)
    await placeOutboxHold(db.as('symphony_control'), outboxId, 'please wait')
    const { exitCode, stdout, stderr } = await symphony(words)
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(stdout).toMatch(/^PENDING +SymphonyPaymentsHeld +Payments wait for a person\.\n +symphony holds list/m)
    const told: Record<string, unknown> = JSON.parse((await symphony([...words, '--json'])).stdout)
    expect(told).toMatchObject({
      heldCount: '1',
      inbox: { deadCount: '0' },
      scheduler: { lagSeconds: 0 },
      leases: { heldCount: '0' },
      alerts: [{ name: 'SymphonyPaymentsHeld', state: 'pending', value: 1, severity: 'warning' }],
    })
  })

  test('knows what waits for a scheduler, though nobody schedules', async () => {
    await db.queryNoRole(
      `INSERT INTO scheduler_timers (timer_id, topic, payload, delivery, due_at)
       VALUES (gen_random_uuid(), 't', '{}', 'outbox', now() - interval '10 minutes')`,
    )
    const { alerts } = JSON.parse((await symphony([...words, '--json'])).stdout)
    expect(alerts).toContainEqual(
      expect.objectContaining({ name: 'SymphonySchedulerLate', state: 'pending', value: expect.any(Number) }),
    )
  })
})

test('symphony ledger verify leaves what it found as a metric, for the alert about a broken chain', async () => {
  await withTestDatabase(async (own) => {
    const { url } = await own.createLogin('auditor', { roles: ['symphony_auditor'] })
    const folder = await mkdtemp(join(tmpdir(), 'symphony-textfile-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const textfile = join(folder, 'symphony.prom')
    const verify = ['ledger', 'verify', '--database-url', url, '--schema', own.schema, '--textfile', textfile]
    const { outboxId } = await enqueue(own)
    expect(await symphony(verify)).toMatchObject({ exitCode: 0 })
    expect(await readFile(textfile, 'utf8')).toMatch(/^ledger_chain_breaks 0$/m)
    await own.queryNoRole('ALTER TABLE payment_outbox_identities DISABLE TRIGGER ALL')
    await own.queryNoRole(`UPDATE payment_outbox_identities SET rail_type = 'another' WHERE outbox_id = $1`, [outboxId])
    expect(await symphony(verify)).toMatchObject({ exitCode: 1 })
    expect(await readFile(textfile, 'utf8')).toMatch(/^ledger_chain_breaks [1-9]/m)
    expect(await readdir(folder)).toEqual(['symphony.prom'])
  })
})

function above(left: {
  readonly of: 'growth' | 'increase'
  readonly metric: string
  readonly seconds: number
}): AlertRule['when'] {
  return { is: 'above', left, right: 0 }
}
