import { between, type Random } from '../../../libs/cli/commands/demo/seededRandom.js'
import { buildPayment, USUAL_RAILS } from '../../scorecard/payments.js'
import { RelayScenario } from '../../scorecard/RelayScenario.js'
import { defineScenario } from '../../scorecard/Scenario.js'
import type { ScenarioFixture } from '../../scorecard/ScenarioFixture.js'
import { retryUntilSuccess, waitUntil } from '../../scorecard/waitUntil.js'
import type { WorkerFleet } from '../../scorecard/WorkerFleet.js'

const WORKERS = 5
/** Maximum number of workers that are still starting at a kill. A kill of a worker without leases tests nothing. */
const STARTING_MAX = 2
const LEASE_SECONDS = 3
/** Maximum queue length. It is long enough that every worker has leases at each kill. */
const BACKLOG_MAX = 5_000
const BATCH = 1_000
const PAYMENTS_PER_WORKER_KILL = 990
/** Share of the kills that hit the youngest worker, so that workers of seconds and of minutes are killed. */
const YOUNGEST_SHARE = 0.75
const PAYMENTS_PER_FREEZE = 10_000
const PAYMENTS_PER_SERVER_KILL = 33_000

type Fault = 'worker killed' | 'worker frozen' | 'server killed'

export default defineScenario({
  id: 'R1',
  title:
    'Workers are killed (`kill -9`) and frozen (SIGSTOP) at random, and PostgreSQL is killed with all its processes.',
  bar: '1,000,000 payments, at least 1,000 worker kills and 30 server kills; 0 lost, 0 double terminals, 0 double rail effects.',
  sizes: { full: { payments: 1_000_000 }, short: { payments: 3_000 } },
  async run(fixture, { payments }) {
    const scenario = await RelayScenario.create(fixture, {
      rails: USUAL_RAILS,
      settings: { shared_buffers: '256MB', max_wal_size: '2GB' },
    })
    const fleet = scenario.fleet({
      words: ['--lease-seconds', String(LEASE_SECONDS), '--batch-size', '100', '--concurrency', '40'],
      env: { LEASE_REPAIR_INTERVAL_MS: '2000' },
    })
    await fleet.start(WORKERS)
    const killsWithLeases = await causeFaults({ fixture, scenario, fleet, payments })
    await scenario.untilDrained()
    const exitCodes = await fleet.stop()

    const { report, defects } = await scenario.audit()
    const { accepted, dispatched, failed, held = 0n } = report.counts
    const lost = payments - Number(dispatched + failed + held)
    const doubleTerminals = report.invariants.find(({ id }) => id === 'I2')?.found.length ?? 0
    return {
      figures: {
        payments: Number(accepted),
        workerKills: fleet.kills,
        killsWithLeases,
        workerFreezes: fleet.freezes,
        serverKills: scenario.serverKills,
        dispatched: Number(dispatched),
        failed: Number(failed),
        held: Number(held),
        lost,
        doubleTerminals,
        doubleRailEffects: report.doublePaid,
      },
      defects: [
        ...defects,
        ...fleet.unexpectedExits,
        ...(lost === 0 ? [] : [`${lost} payments are neither terminal nor held`]),
        ...exitCodes
          .filter((exitCode) => exitCode !== 0)
          .map((exitCode) => `a worker exited with ${exitCode} after a clean stop, expected 0`),
      ],
    }
  },
})

interface FaultRun {
  readonly fixture: ScenarioFixture
  readonly scenario: RelayScenario
  readonly fleet: WorkerFleet
  readonly payments: number
}

/**
 * Triggers each fault after a number of accepted payments, so that workers have leases on any machine. Returns the
 * number of kills that hit a worker with leases.
 */
async function causeFaults({ fixture, scenario, fleet, payments }: FaultRun): Promise<number> {
  const ofPayments = fixture.randomFor('payments')
  let accepted = 0
  const enqueueUpTo = async (target: number) => {
    while (accepted < target) {
      const count = Math.min(BATCH, target - accepted)
      const first = accepted + 1
      await scenario.enqueue(Array.from({ length: count }, (_, index) => buildPayment(first + index, ofPayments)))
      accepted += count
      await waitUntil('the queue is short enough', async () => (await scenario.status()).pendingCount < BACKLOG_MAX, {
        timeoutMs: 600_000,
        everyMs: 250,
      })
    }
  }
  const faults = planFaults(payments, fixture.random)
  let killsWithLeases = 0
  for (const [index, { at, fault }] of faults.entries()) {
    await enqueueUpTo(at)
    await waitUntil('most workers are at work', () => {
      fleet.topUp(WORKERS)
      return fleet.atWork.length >= WORKERS - STARTING_MAX
    })
    killsWithLeases += Number(await strike(fault, fixture.random, scenario, fleet))
    if (index % 10 === 0) fixture.progress(`${accepted} of ${payments} payments, ${index} of ${faults.length} faults`)
  }
  await enqueueUpTo(payments)
  fleet.topUp(WORKERS)
  return killsWithLeases
}

/** Causes a fault. Returns whether it killed a worker with leases. */
async function strike(fault: Fault, random: Random, scenario: RelayScenario, fleet: WorkerFleet): Promise<boolean> {
  switch (fault) {
    case 'worker killed': {
      const leased = await readLeaseHolders(scenario)
      const withLeases = fleet.atWork.filter(({ workerId }) => leased.has(workerId))
      // After a restart of the server no worker may have a lease yet.
      const candidates = withLeases.length > 0 ? withLeases : fleet.atWork
      const youngest = candidates.toSorted((left, right) => right.startedAtMs - left.startedAtMs)[0]
      const victim = random() < YOUNGEST_SHARE && youngest !== undefined ? youngest : fleet.pick(random, candidates)
      const killed = fleet.kill(victim)
      fleet.topUp(WORKERS)
      await killed
      return (await readLeaseHolders(scenario)).has(victim.workerId)
    }
    case 'worker frozen':
      // The freeze lasts longer than the leases, so other workers hold the items when the worker continues.
      fleet.freeze(fleet.pick(random), LEASE_SECONDS * 1_000 + between(random, 200, 3_000))
      return false
    case 'server killed':
      await scenario.cycleServer({ kill: true, downMs: between(random, 0, 500) })
      return false
  }
}

/** Returns the ids of the workers that have leases. */
async function readLeaseHolders({ db }: RelayScenario): Promise<ReadonlySet<string>> {
  const { rows } = await retryUntilSuccess('a read of the leases', () =>
    db.queryNoRole<{ claimed_by: string }>(
      'SELECT DISTINCT claimed_by FROM payment_outbox_pending WHERE claimed_by IS NOT NULL',
    ),
  )
  return new Set(rows.map(({ claimed_by: workerId }) => workerId))
}

/** Plans the faults in the order of the payments they follow. */
function planFaults(payments: number, random: Random): { readonly at: number; readonly fault: Fault }[] {
  const spread = (fault: Fault, paymentsPer: number) =>
    Array.from({ length: Math.ceil(payments / paymentsPer) }, () => ({ at: between(random, 1, payments), fault }))
  return [
    ...spread('worker killed', PAYMENTS_PER_WORKER_KILL),
    ...spread('worker frozen', PAYMENTS_PER_FREEZE),
    ...spread('server killed', PAYMENTS_PER_SERVER_KILL),
  ].toSorted((left, right) => left.at - right.at)
}
