import { setTimeout as delay } from 'node:timers/promises'
import { ApiKeys } from '../../../libs/access/index.js'
import { between } from '../../../libs/cli/commands/demo/seededRandom.js'
import { readRailEffects } from '../../../libs/cli/commands/ledger/withLedger.js'
import { OrderShop } from '../../scorecard/OrderShop.js'
import { checkRules, type CheckedRules } from '../../scorecard/plantedRules.js'
import { RelayScenario } from '../../scorecard/RelayScenario.js'
import { defineScenario, type Outcome } from '../../scorecard/Scenario.js'
import type { ScenarioFixture } from '../../scorecard/ScenarioFixture.js'
import { DashboardClient } from '../../scorecard/soak/DashboardClient.js'
import { describeGauge, findGrowth } from '../../scorecard/soak/flatness.js'
import { SoakBank } from '../../scorecard/soak/SoakBank.js'
import { PROCESS_KINDS, SoakFleets } from '../../scorecard/soak/SoakFleets.js'
import { PAYMENTS_PER_SECOND, SoakLoad } from '../../scorecard/soak/SoakLoad.js'
import { EFFECT_TABLES, soakRails } from '../../scorecard/soak/soakRails.js'
import { soakRules, type SoakCounts } from '../../scorecard/soak/soakRules.js'
import { SoakSampler, type Interval } from '../../scorecard/soak/SoakSampler.js'
import { retryUntilSuccess, waitUntil } from '../../scorecard/waitUntil.js'
import { auditLedger } from '../../support/ledgerFixture.js'

/** Shortest run whose measurements are compared. In a shorter one, processes still warm up. */
const COMPARED_SECONDS_MIN = 1_200
/** Share of the planned payments that a compared run must enqueue. */
const PAYMENTS_SHARE_MIN = 0.95
const SAMPLE_SECONDS_MAX = 10
const STATEMENT_SECONDS_MAX = 300
const STATEMENT_SECONDS_MIN = 15
const DOWN_MS_MAX = 2_000
/** Seconds around a kill of PostgreSQL whose latency is not compared. */
const AROUND_KILL_SECONDS = { before: 5, after: 15 }

export default defineScenario({
  id: 'R28',
  title:
    'A steady load of payments, outcome messages, inbox messages, jobs, dashboard clients and reconciliations runs for two hours. A process is killed every minute, and PostgreSQL every ten minutes.',
  bar: '720,000 payments in 7,200 s; median of the last quarter against the second one: memory ≤ 1.1 × + 10 MiB, connections ≤ 1.1 ×, updated tables ≤ 1.5 × + 1 MiB (growing ones per row ≤ 1.5 ×), latency p50 and p99 ≤ 1.5 × + 20 ms; everything drains, the ledger has no break and equals the rail book, each message, occurrence and planted error counts once.',
  sizes: {
    full: { payments: 720_000, killEverySeconds: 60, serverKillEvery: 10, workers: 2, lasting: 1, jobs: 10 },
    short: { payments: 6_000, killEverySeconds: 10, serverKillEvery: 5, workers: 2, lasting: 1, jobs: 10 },
  },
  async run(fixture, size) {
    const soak = await Soak.create(fixture, size)
    await soak.run()
    return soak.report()
  },
})

interface SoakSize {
  readonly payments: number
  readonly killEverySeconds: number
  /** Number of kills of which one hits PostgreSQL. */
  readonly serverKillEvery: number
  /** Number of workers, which are killed in turn. */
  readonly workers: number
  /** Number of processes of each kind that are never killed: 0 or 1. */
  readonly lasting: number
  /** Number of jobs that are due every second. */
  readonly jobs: number
}

interface SoakParts {
  readonly scenario: RelayScenario
  readonly fleets: SoakFleets
  readonly load: SoakLoad
  readonly bank: SoakBank
  readonly dashboard: DashboardClient
  readonly statements: { readonly count: number; readonly everySeconds: number }
}

class Soak {
  readonly #fixture: ScenarioFixture
  readonly #size: SoakSize
  /** Planned duration of the load. */
  readonly #seconds: number
  readonly #parts: SoakParts
  readonly #sampler: SoakSampler
  readonly #down: Interval[] = []
  readonly #exits: string[] = []
  #startedAtMs = 0
  #startedAt = new Date()
  /** Duration of the load, which a slow machine extends. */
  #loadSeconds = 0
  #isLoadOver = false

  private constructor(fixture: ScenarioFixture, size: SoakSize, parts: SoakParts) {
    this.#fixture = fixture
    this.#size = size
    this.#seconds = size.payments / PAYMENTS_PER_SECOND
    this.#parts = parts
    this.#sampler = new SoakSampler(parts.scenario, parts.fleets)
  }

  static async create(fixture: ScenarioFixture, size: SoakSize): Promise<Soak> {
    const seconds = size.payments / PAYMENTS_PER_SECOND
    const everySeconds = Math.min(STATEMENT_SECONDS_MAX, Math.max(STATEMENT_SECONDS_MIN, seconds / 5))
    const statements = { everySeconds, count: Math.max(1, Math.floor(seconds / everySeconds)) }
    const scenario = await RelayScenario.create(fixture, { rails: soakRails(statements.count) })
    const { db } = scenario
    const shop = await OrderShop.create(scenario)
    const { name: handlerRole } = await db.createLogin('handlers')
    const worker = new URL(scenario.workerUrl).username
    await db.queryNoRole(`${EFFECT_TABLES};
      GRANT USAGE ON SCHEMA shop TO "${handlerRole}";
      GRANT SELECT, INSERT ON shop.effects TO "${handlerRole}";
      GRANT SELECT, INSERT ON shop.job_effects TO "${worker}"`)
    const fleets = await SoakFleets.create(scenario, { ...size, handlerRole })
    const { key } = await new ApiKeys(db).create({ scopes: ['read'], owner: 'dashboard' })
    const load = new SoakLoad({
      scenario,
      shop,
      random: fixture.randomFor('payments'),
      payments: size.payments,
      jobs: size.jobs,
    })
    const bank = await SoakBank.create(fixture, scenario)
    const dashboard = new DashboardClient(fleets.addresses, key)
    return new Soak(fixture, size, { scenario, fleets, load, bank, dashboard, statements })
  }

  /** Runs the load with its kills, then waits until everything has drained and stops all processes. */
  async run(): Promise<void> {
    const { fleets, load, dashboard } = this.#parts
    await fleets.start()
    this.#startedAtMs = performance.now()
    this.#startedAt = new Date()
    dashboard.start()
    this.#fixture.defer(() => dashboard.stop())
    await load.start()
    const sampling = this.#sample()
    try {
      await Promise.all([load.finished(), this.#causeKills(), this.#reconcile()])
      this.#loadSeconds = this.#elapsed
    } finally {
      this.#isLoadOver = true
      await sampling
    }
    await this.#untilDrained()
    await dashboard.stop()
    this.#exits.push(...(await fleets.stop()))
  }

  get #elapsed(): number {
    return (performance.now() - this.#startedAtMs) / 1_000
  }

  async #causeKills(): Promise<void> {
    const { fleets, dashboard } = this.#parts
    const { killEverySeconds, serverKillEvery } = this.#size
    const kills = Math.ceil(this.#seconds / killEverySeconds) - 1
    let turn = 0
    for (let kill = 1; kill <= kills; kill += 1) {
      await this.#untilSecond(kill * killEverySeconds)
      if (kill % serverKillEvery === 0) {
        await this.#killServer()
        continue
      }
      const kind = PROCESS_KINDS[turn % PROCESS_KINDS.length] ?? 'worker'
      turn += 1
      await dashboard.during(kind === 'api' ? fleets.addresses.slice(0, 1) : [], () => fleets.kill(kind))
    }
  }

  async #killServer(): Promise<void> {
    const { scenario, fleets, dashboard } = this.#parts
    const from = this.#elapsed - AROUND_KILL_SECONDS.before
    await dashboard.during(fleets.addresses, async () => {
      await scenario.cycleServer({ kill: true, downMs: between(this.#fixture.random, 0, DOWN_MS_MAX) })
      await scenario.status()
    })
    this.#down.push({ from, to: this.#elapsed + AROUND_KILL_SECONDS.after })
  }

  async #reconcile(): Promise<void> {
    const { bank, statements } = this.#parts
    for (let number = 0; number < statements.count; number += 1) {
      await this.#untilSecond(number * statements.everySeconds)
      await bank.reconcile()
    }
  }

  async #sample(): Promise<void> {
    const { fleets, load } = this.#parts
    for (let at = 0; !this.#isLoadOver; at += this.#sampleSeconds) {
      await this.#untilSecond(at)
      fleets.topUp()
      // A sample is left out while the server is down.
      await this.#sampler.sample(this.#elapsed).catch(() => {})
      this.#fixture.progress(`${Math.round(this.#elapsed)} s, ${load.payments} payments, ${this.#describeLatest()}`)
    }
  }

  get #sampleSeconds(): number {
    return Math.min(SAMPLE_SECONDS_MAX, Math.max(1, this.#seconds / 30))
  }

  #describeLatest(): string {
    const latest = this.#sampler.gauges
      .filter(({ isResult, points }) => isResult && points.length > 0)
      .map(({ name, points }) => `${name} ${Math.round(points.at(-1)?.value ?? 0)}`)
    return latest.join(', ')
  }

  /** Waits until that second of the load, or until the load is over. */
  async #untilSecond(second: number): Promise<void> {
    while (this.#elapsed < second && !this.#isLoadOver) {
      await delay(Math.min(1_000, Math.max(1, (second - this.#elapsed) * 1_000)))
    }
  }

  async #untilDrained(): Promise<void> {
    const { scenario, fleets } = this.#parts
    const { db } = scenario
    await db.queryNoRole(`UPDATE scheduler_jobs SET state = 'PAUSED'`)
    await waitUntil(
      'every run is enqueued, every inbox message is done and nothing is pending',
      async () => {
        fleets.topUp()
        const { rows } = await retryUntilSuccess('a read of the queues', () => db.queryNoRole<{ left: number }>(LEFT))
        this.#fixture.progress(`${rows[0]?.left} left`)
        return rows[0]?.left === 0
      },
      { timeoutMs: 600_000, everyMs: 250 },
    )
  }

  async report(): Promise<Outcome> {
    const { scenario, fleets, load, bank, dashboard } = this.#parts
    const windowSeconds = this.#sampleSeconds
    await this.#sampler.readLatency(this.#startedAt, windowSeconds, this.#down)
    const { gauges } = this.#sampler
    const isCompared = this.#seconds >= COMPARED_SECONDS_MIN
    const growth = isCompared ? findGrowth(gauges, this.#loadSeconds) : []
    // A run below the planned rate does not test the planned load, so it fails.
    if (isCompared && load.payments < this.#size.payments * PAYMENTS_SHARE_MIN) {
      growth.push(`${load.payments} payments were enqueued, expected ${this.#size.payments}`)
    }
    const { violations, missed } = await checkRows(scenario, load)
    const { report: audit, defects } = await scenario.audit()
    const remains = await bank.findRemains()
    const isDoubleFound = await findsPlantedDouble(scenario)
    const { rows } = await scenario.db.queryNoRole<Record<string, number>>(COUNTS)
    const measured = gauges.flatMap((gauge) => {
      const text = gauge.isResult ? describeGauge(gauge, this.#loadSeconds) : undefined
      return text === undefined ? [] : [[gauge.name, text] as const]
    })
    return {
      figures: {
        payments: load.payments,
        ...rows[0],
        inboxMessages: load.messages,
        statements: bank.statements,
        plantedErrors: bank.planted,
        dashboardAnswers: dashboard.answers,
        streamEvents: dashboard.streamEvents,
        ...Object.fromEntries(PROCESS_KINDS.map((kind) => [`${kind}Kills`, fleets.kills[kind]])),
        serverKills: scenario.serverKills,
        samples: this.#sampler.samples,
        ...Object.fromEntries(measured),
        blocks: audit.chain.blocks,
        doubleRailEffects: audit.doublePaid,
        plantedFound: soakRules(load).length - missed.length + (isDoubleFound ? 1 : 0),
      },
      defects: [
        ...growth,
        ...violations.map(({ defect }) => defect),
        ...missed.map((rule) => `the violation planted for the rule “${rule}” was not found`),
        ...(isDoubleFound ? [] : ['the audit did not find the payment that was planted twice in the rail book']),
        ...defects,
        ...bank.defects.slice(0, DEFECTS_MAX),
        ...remains,
        ...dashboard.failures.slice(0, DEFECTS_MAX).map((failure) => `without a fault, ${failure}`),
        ...this.#exits,
      ],
    }
  }
}

const DEFECTS_MAX = 5

/** Checks the rows of a drained soak in a transaction that is rolled back. */
async function checkRows({ db }: RelayScenario, counts: SoakCounts): Promise<CheckedRules> {
  const client = await db.connect()
  await client.query('BEGIN')
  try {
    return await checkRules(client, soakRules(counts))
  } finally {
    await client.query('ROLLBACK')
  }
}

/** Returns whether the audit finds a payment that is planted in the rail book a second time. */
async function findsPlantedDouble({ bookFile, db }: RelayScenario): Promise<boolean> {
  const effects = await readRailEffects(bookFile)
  const { doublePaid } = await auditLedger(db, { effects: [...effects, ...effects.slice(0, 1)] })
  return doublePaid > 0
}

const LEFT = `SELECT (SELECT count(*) FROM payment_outbox_pending)::int
  + (SELECT count(*) FROM scheduler_job_runs WHERE state <> 'ENQUEUED')::int
  + (SELECT count(*) FROM inbox_messages WHERE state <> 'done')::int AS left`

const COUNTS = `
  SELECT
    (SELECT count(*)::int FROM shop.orders_outcomes) AS "outcomeMessages",
    (SELECT count(*)::int FROM shop.job_effects) AS occurrences,
    (SELECT count(*)::int FROM payment_outbox_attempts WHERE state = 'ZOMBIE_REQUEUE') AS "expiredLeases"`
