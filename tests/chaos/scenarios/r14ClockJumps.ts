import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { buildPayment, USUAL_RAILS } from '../../scorecard/payments.js'
import { RelayScenario } from '../../scorecard/RelayScenario.js'
import { defineScenario } from '../../scorecard/Scenario.js'
import type { ScenarioFixture } from '../../scorecard/ScenarioFixture.js'
import { waitUntil } from '../../scorecard/waitUntil.js'
import type { WorkerFleet } from '../../scorecard/WorkerFleet.js'
import { testBinaries } from '../../support/server.js'
import { ShiftedClock } from '../../support/shiftedClock.js'

const TWO_HOURS_SECONDS = 7_200
const TEN_YEARS_MS = 10 * 365 * 24 * 3_600_000
const LEASE_SECONDS = 4
const BACKLOG = 300
/** Maximum time until a worker compares the clocks: at a claim that returns items, or at its heartbeat every 10 s. */
const NOTICED_WITHIN_MS = 15_000
/** Time for claims that were under way when a worker noticed the jump. */
const UNDER_WAY_MS = 500
/** Minimum part of a pause in which the claims of its worker are checked. */
const CHECKED_MS_MIN = 1_000

export default defineScenario({
  id: 'R14',
  title: 'The database clock jumps 2 h forward and back under load, and the clocks of some workers are 10 years off.',
  bar: '0 double rail effects; every worker reports every jump of more than 5 s and claims nothing for one lease.',
  sizes: { full: { jumps: 20 }, short: { jumps: 2 } },
  async run(fixture, { jumps }) {
    const clock = await ShiftedClock.around(testBinaries(18), await fixture.subfolder('clock'))
    const scenario = await RelayScenario.create(fixture, { rails: USUAL_RAILS, binaries: clock.binaries })
    const { right, future, past } = await startFleets(fixture, scenario)
    const fleets = [right, future, past]
    const workers = fleets.flatMap(({ atWork }) => atWork)
    const ofPayments = fixture.randomFor('payments')
    let accepted = 0
    const fill = async () => {
      while ((await scenario.status()).dueUnleasedCount < BACKLOG) {
        await scenario.enqueue(Array.from({ length: BACKLOG }, () => buildPayment((accepted += 1), ofPayments)))
      }
    }
    const defects: string[] = []
    let direction = 1
    const pauses: Pause[] = []
    const reportsOfJumps = async () =>
      (await scenario.logLines()).filter((line) => line.includes('database_clock_jumped'))
    const jumpBy = async (seconds: number, name: string) => {
      await fill()
      const before = (await reportsOfJumps()).length
      let earliestMs = (await readClockMs(scenario)) + seconds * 1_000
      await clock.jump(seconds)
      const noticed = new Set<string>()
      await waitUntil(
        'every worker has reported the jump',
        async () => {
          await fill()
          const readMs = await readClockMs(scenario)
          const pids = new Set<number | undefined>((await reportsOfJumps()).slice(before).map(pidOf))
          const latestMs = await readClockMs(scenario)
          for (const { workerId, child } of workers) {
            if (noticed.has(workerId) || !pids.has(child.pid)) continue
            noticed.add(workerId)
            pauses.push({ workerId, fromMs: latestMs + UNDER_WAY_MS, toMs: earliestMs + LEASE_SECONDS * 1_000 })
          }
          // A worker that has not reported yet will report after this read.
          earliestMs = readMs
          return noticed.size === workers.length
        },
        { timeoutMs: NOTICED_WITHIN_MS, everyMs: 100 },
      ).catch(() => defects.push(`${name} was noticed by ${noticed.size} of ${workers.length} workers`))
      fixture.progress(`${name}, noticed by ${noticed.size} workers`)
    }
    for (let jump = 0; jump < jumps; jump += 1) {
      // Every second jump undoes the one before, so that all clocks agree in the end.
      const isWayOut = jump % 2 === 0
      if (isWayOut) direction = fixture.random() < 0.5 ? 1 : -1
      await jumpBy((isWayOut ? direction : -direction) * TWO_HOURS_SECONDS, `jump ${jump + 1}`)
      // After this wait, the leases from before the jump have expired and claims continue.
      await delay(LEASE_SECONDS * 1_000)
    }
    // Items that were enqueued or delayed while the clock was ahead become due only when it is ahead again.
    await jumpBy(TWO_HOURS_SECONDS, 'the last jump')
    // The rail refuses requests of this worker, because their not-after time is long over. It wakes when the retries of
    // its items are due, so it would take them again and again, with growing delays.
    await past.stop()
    await scenario.untilDrained()
    for (const fleet of fleets) {
      await fleet.stop()
      defects.push(...fleet.unexpectedExits)
    }
    const audited = await scenario.audit()
    const checked = pauses.filter(({ fromMs, toMs }) => toMs - fromMs >= CHECKED_MS_MIN)
    const early = await findClaimsInPauses(scenario, checked)
    return {
      figures: {
        jumps: jumps + 1,
        workers: workers.length,
        noticed: pauses.length,
        pausesChecked: checked.length,
        claimsInPauses: early.length,
        payments: accepted,
        dispatched: Number(audited.report.counts.dispatched),
        held: Number(audited.report.counts.held ?? 0n),
        doubleRailEffects: audited.report.doublePaid,
      },
      defects: [
        ...defects,
        ...(checked.length === pauses.length
          ? []
          : [`${pauses.length - checked.length} pauses were too short to check, because the machine was busy`]),
        ...early.slice(0, 5),
        ...audited.defects,
      ],
    }
  },
})

/** Period, by the database clock, in which a worker that has reported a jump must not claim. */
interface Pause {
  readonly workerId: string
  readonly fromMs: number
  readonly toMs: number
}

/** Returns a sentence for each claim of a worker in one of its pauses. */
async function findClaimsInPauses({ db }: RelayScenario, pauses: readonly Pause[]): Promise<readonly string[]> {
  const { rows } = await db.queryNoRole<{ workerId: string; claimedMs: number }>(
    `SELECT worker_id AS "workerId", extract(epoch FROM claimed_at)::float8 * 1000 AS "claimedMs"
     FROM payment_outbox_attempts WHERE claimed_at IS NOT NULL`,
  )
  return pauses.flatMap(({ workerId, fromMs, toMs }) =>
    rows
      .filter((row) => row.workerId === workerId && row.claimedMs > fromMs && row.claimedMs < toMs)
      .map(({ claimedMs }) => `${workerId} claimed ${Math.round(toMs - claimedMs)} ms before the end of its pause`),
  )
}

async function readClockMs({ db }: RelayScenario): Promise<number> {
  const { rows } = await db.queryNoRole<{ nowMs: number }>(
    'SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS "nowMs"',
  )
  return rows[0]?.nowMs ?? Number.NaN
}

function pidOf(line: string): number {
  const { pid }: { readonly pid: number } = JSON.parse(line)
  return pid
}

/** Starts three workers with correct clocks, one worker with a clock in the future and one with a clock in the past. */
async function startFleets(
  fixture: ScenarioFixture,
  scenario: RelayScenario,
): Promise<Record<'right' | 'future' | 'past', WorkerFleet>> {
  const shim = join(fixture.folder, 'shiftDate.mjs')
  await writeFile(shim, SHIFT_DATE)
  const settings = {
    words: ['--lease-seconds', String(LEASE_SECONDS), '--batch-size', '10', '--concurrency', '5'],
    env: { LEASE_REPAIR_INTERVAL_MS: '2000' },
  }
  const shifted = (ms: number) => ({
    ...settings.env,
    NODE_OPTIONS: `--import ${pathToFileURL(shim).href}`,
    CLOCK_SHIFT_MS: String(ms),
  })
  const right = scenario.fleet({ ...settings, name: 'right' })
  const future = scenario.fleet({ ...settings, name: 'future', env: shifted(TEN_YEARS_MS) })
  const past = scenario.fleet({ ...settings, name: 'past', env: shifted(-TEN_YEARS_MS) })
  await Promise.all([right.start(3), future.start(1), past.start(1)])
  return { right, future, past }
}

const SHIFT_DATE = `
const shift = Number(process.env.CLOCK_SHIFT_MS)
const RealDate = Date
globalThis.Date = class extends RealDate {
  constructor(...words) {
    if (words.length === 0) super(RealDate.now() + shift)
    else super(...words)
  }
  static now() {
    return RealDate.now() + shift
  }
}
`
