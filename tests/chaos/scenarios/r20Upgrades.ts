import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { DatabaseError } from '../../../libs/db/index.js'
import { deploy, doctor, type DeployReport } from '../../../libs/deployment/index.js'
import { enqueuePaymentOutboxBatch, type OutboxInstruction } from '../../../libs/outbox/index.js'
import { makeNextRelease } from '../../scorecard/nextRelease.js'
import { buildPayment, USUAL_RAILS } from '../../scorecard/payments.js'
import { RelayScenario } from '../../scorecard/RelayScenario.js'
import { defineScenario } from '../../scorecard/Scenario.js'
import { waitUntil } from '../../scorecard/waitUntil.js'
import type { WorkerFleet } from '../../scorecard/WorkerFleet.js'

const WORKERS = 2
/** Number of outcomes that workers of each release record on each schema before the next deployment. */
const OUTCOMES_EACH = 20
const BATCH = 20
/** Maximum queue length. Workers keep up with it, so each deployment meets enqueues, claims and completions. */
const PENDING_MAX = 400

export default defineScenario({
  id: 'R20',
  title:
    'The next release is deployed over this one and then this one again, under load, with workers of both. The next release is this one with another argument on six hot functions, other bodies, and one more function and view.',
  bar: '20 cycles; 0 calls fail except with a typed retry; workers of both releases record outcomes on both schemas; ledger and rail book agree.',
  sizes: { full: { cycles: 20 }, short: { cycles: 1 } },
  async run(fixture, { cycles }) {
    const scenario = await RelayScenario.create(fixture, { rails: USUAL_RAILS })
    const { db } = scenario
    const next = await makeNextRelease(fixture, scenario.server)
    const words = ['--concurrency', '8', '--batch-size', '20']
    const env = { LEASE_REPAIR_INTERVAL_MS: '1000', OUTBOX_POLL_MS: '50' }
    const present = scenario.fleet({ name: 'present', words, env })
    const later = scenario.fleet({
      name: 'later',
      words,
      env: { ...env, RAILS_MODULE: pathToFileURL(join(next.dist, 'libs/rails/index.js')).href },
      dist: next.dist,
    })

    const producer = new Producer(scenario, fixture.randomFor('payments'))
    const producing = producer.run()
    const deployed = { url: db.url, schema: db.schema }
    const deployMs: number[] = []
    const timed = async (deploying: () => Promise<DeployReport>) => {
      const startedMs = performance.now()
      const { outcome } = await deploying()
      if (outcome !== 'deployed') throw new Error(`a deployment of another release was ${outcome}`)
      deployMs.push(Math.round(performance.now() - startedMs))
    }
    await present.start(WORKERS)
    for (let cycle = 1; cycle <= cycles; cycle += 1) {
      await timed(() => next.deploy(deployed))
      // A new process starts only on the schema of its release. Running processes continue.
      await renewOne(later, fixture.random)
      await untilBothWork(scenario, [present, later])
      await timed(() => deploy(deployed))
      await renewOne(present, fixture.random)
      await untilBothWork(scenario, [present, later])
      fixture.progress(`${cycle} of ${cycles} cycles, ${producer.accepted} payments`)
    }
    producer.stop()
    await producing
    await scenario.untilDrained()
    const exitCodes = [...(await present.stop()), ...(await later.stop())]
    const { report, defects } = await scenario.audit()
    const { findings } = await doctor(deployed)
    const faults = await readFaults(scenario)
    const fatal = [...faults, ...producer.failures].filter(({ disposition }) => disposition === 'fatal')
    return {
      figures: {
        cycles,
        deployments: deployMs.length,
        longestDeploymentMs: Math.max(...deployMs),
        payments: producer.accepted,
        retriesOfProducers: producer.failures.length,
        retriesOfWorkers: faults.length,
        callsThatFailedForGood: fatal.length,
        workerExits: present.unexpectedExits.length + later.unexpectedExits.length,
        doubleRailEffects: report.doublePaid,
      },
      defects: [
        ...defects,
        ...present.unexpectedExits,
        ...later.unexpectedExits,
        ...fatal.slice(0, 5).map(({ code, message, who }) => `${who}: ${code} ${message}`),
        ...findings
          .filter(({ severity }) => severity !== 'note')
          .map(({ code, object }) => `the doctor finds ${code} of ${object}`),
        ...exitCodes
          .filter((exitCode) => exitCode !== 0)
          .map((exitCode) => `a worker exited with ${exitCode} after a clean stop, expected 0`),
      ],
    }
  },
})

/** Starts missing workers of a fleet. If none is missing, replaces one. */
async function renewOne(fleet: WorkerFleet, random: () => number): Promise<void> {
  if (fleet.size === WORKERS) await fleet.stopOne(fleet.pick(random))
  fleet.topUp(WORKERS)
  await fleet.untilAtWork(WORKERS)
}

/** Waits until workers of both releases have recorded outcomes on the current schema. */
async function untilBothWork({ db }: RelayScenario, fleets: readonly WorkerFleet[]): Promise<void> {
  const { rows } = await db.queryNoRole<{ now: string }>('SELECT clock_timestamp()::text AS now')
  for (const { name } of fleets) {
    await waitUntil(`a worker of the release "${name}" records outcomes`, async () => {
      const counted = await db.queryNoRole<{ count: number }>(
        'SELECT count(*)::int FROM payment_outbox_attempts WHERE created_at > $1::timestamptz AND worker_id LIKE $2',
        [rows[0]?.now, `${name}-%`],
      )
      return (counted.rows[0]?.count ?? 0) >= OUTCOMES_EACH
    })
  }
}

interface Failure {
  readonly who: string
  readonly code: string
  readonly message: string
  readonly disposition: string
}

/** An application that enqueues and repeats each call, with the same keys, until it succeeds. */
class Producer {
  readonly failures: Failure[] = []
  readonly #scenario: RelayScenario
  readonly #random: () => number
  #stopped = false
  accepted = 0

  constructor(scenario: RelayScenario, random: () => number) {
    this.#scenario = scenario
    this.#random = random
  }

  stop(): void {
    this.#stopped = true
  }

  async run(): Promise<void> {
    while (!this.#stopped) {
      const batch = Array.from({ length: BATCH }, (_, index) => buildPayment(this.accepted + index + 1, this.#random))
      await this.#enqueue(batch)
      this.accepted += batch.length
      while (!this.#stopped && (await this.#scenario.status()).pendingCount > PENDING_MAX) await delay(20)
    }
  }

  async #enqueue(batch: readonly OutboxInstruction[]): Promise<void> {
    for (;;) {
      try {
        await enqueuePaymentOutboxBatch(this.#scenario.db.as('symphony_ingest'), batch)
        return
      } catch (error) {
        this.failures.push(failureOf('the producer', error))
        // A fatal error is reported as a defect, and the scenario continues.
        if (this.failures.at(-1)?.disposition === 'fatal') return
        await delay(20)
      }
    }
  }
}

function failureOf(who: string, error: unknown): Failure {
  const { code, message, disposition } =
    error instanceof DatabaseError ? error : { code: 'NO_TYPE', message: String(error), disposition: 'fatal' }
  return { who, code, message, disposition }
}

interface FaultLine {
  readonly msg?: string
  readonly name?: string
  readonly during?: string
  readonly err?: { readonly code?: string; readonly message?: string; readonly disposition?: string }
}

/** Returns every error that a worker logged. An error without a disposition counts as fatal. */
async function readFaults(scenario: RelayScenario): Promise<readonly Failure[]> {
  return (await scenario.logLines()).flatMap((line) => {
    if (!line.startsWith('{')) return []
    const { name = '', during = '', err }: FaultLine = JSON.parse(line)
    if (err === undefined) return []
    const { code = 'NO_CODE', message = '', disposition = 'fatal' } = err
    return [{ who: `worker ${name} ${during}`, code, message, disposition }]
  })
}
