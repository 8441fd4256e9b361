import { setTimeout as delay } from 'node:timers/promises'
import { between } from '../../../libs/cli/commands/demo/seededRandom.js'
import { liftDispatchFreeze, readDispatchEpoch, type DispatchEpoch } from '../../../libs/outbox/index.js'
import { readBook } from '../../../libs/rails/index.js'
import { LoadGenerator } from '../../scorecard/LoadGenerator.js'
import { USUAL_RAILS } from '../../scorecard/payments.js'
import { RelayScenario } from '../../scorecard/RelayScenario.js'
import { defineScenario } from '../../scorecard/Scenario.js'
import { FailoverChain } from '../../scorecard/FailoverChain.js'
import type { ScenarioFixture } from '../../scorecard/ScenarioFixture.js'
import { retryUntilSuccess, waitUntil } from '../../scorecard/waitUntil.js'

const WORKERS = 3
const BACKLOG = 600
/** Minimum number of outcomes that are lost with each server. */
const OUTCOMES_LOST_MIN = 100
/** Outcomes recorded before a server is lost. Workers record some of them again on the next server. */
const OUTCOMES_RECORDED_MIN = 200
/** Time during which the rail must get no call while dispatch is frozen. Calls in progress end before that time. */
const QUIET_MS = 1_500

export default defineScenario({
  id: 'R17',
  title:
    'A primary is killed with all its processes under load, and a synchronous or asynchronous standby is promoted. An older copy of the database is also restored under running workers.',
  bar: '10 of each. Synchronous: 0 acknowledged payments lost, work continues. Otherwise: dispatch is frozen until lifted, and every pending item is marked unknown. 0 double rail effects.',
  sizes: { full: { ofEach: 10 }, short: { ofEach: 1 } },
  async run(fixture, { ofEach }) {
    const run = await FailoverRun.begin(fixture)
    for (let round = 1; round <= ofEach; round += 1) {
      await run.loseSynchronousPrimary()
      await run.loseAsynchronousPrimary()
      await run.putBackOlderCopy()
      fixture.progress(`${round} of ${ofEach} rounds, ${run.counts.outcomesLost} outcomes lost`)
    }
    return run.end()
  },
})

class FailoverRun {
  readonly #fixture: ScenarioFixture
  readonly #scenario: RelayScenario
  readonly #chain: FailoverChain
  readonly #load: LoadGenerator
  readonly #fleet: ReturnType<RelayScenario['fleet']>
  readonly #defects: string[] = []
  readonly #resumes: number[] = []
  readonly counts = {
    synchronous: 0,
    asynchronous: 0,
    restores: 0,
    outcomesLost: 0,
    markedUnknown: 0,
    notMarked: 0,
    sentWhileFrozen: 0,
  }

  private constructor(fixture: ScenarioFixture, scenario: RelayScenario) {
    this.#fixture = fixture
    this.#scenario = scenario
    this.#chain = new FailoverChain(fixture, scenario)
    this.#load = new LoadGenerator({ scenario, random: fixture.randomFor('payments'), backlog: BACKLOG })
    this.#fleet = scenario.fleet({
      // With short leases, items that were leased when the server died are due again soon.
      words: ['--lease-seconds', '3', '--concurrency', '8', '--batch-size', '20'],
      env: { LEASE_REPAIR_INTERVAL_MS: '2000' },
    })
  }

  static async begin(fixture: ScenarioFixture): Promise<FailoverRun> {
    const run = new FailoverRun(fixture, await RelayScenario.create(fixture, { rails: USUAL_RAILS, proxied: true }))
    fixture.defer(() => run.#load.pause().catch(() => {}))
    await run.#fleet.start(WORKERS)
    return run
  }

  /** Kills the primary while enqueues, workers and rail continue. No freeze may follow. */
  async loseSynchronousPrimary(): Promise<void> {
    const follower = await this.#chain.addStandby({ synchronous: true })
    this.#load.feed()
    await waitUntil('a heartbeat reports synchronous commits', async () => (await this.#epoch())?.synchronous === true)
    await delay(between(this.#fixture.random, 0, 1_000))
    await this.#chain.kill()
    await this.#chain.promote(follower)
    this.#resumes.push(await this.#resumedAfterMs())
    await this.#load.pause()
    this.counts.synchronous += 1
    const epoch = await this.#epoch()
    if (epoch?.frozen === true) {
      this.#defects.push(`a synchronous failover froze dispatch: ${epoch.freezeReason}`)
      await this.#lift()
    }
  }

  /** Promotes a standby that has every payment, but not the outcomes that the primary recorded later. */
  async loseAsynchronousPrimary(): Promise<void> {
    const follower = await this.#chain.addStandby({ synchronous: false })
    const before = await this.#withoutWorkers(async () => {
      await this.#load.fill()
      await follower.standby.catchUp()
      await follower.standby.stop()
      return this.#endedCount()
    })
    const ended = await this.#moreEndedThan(before)
    await this.#chain.kill()
    await follower.standby.start()
    await this.#chain.promote(follower)
    this.counts.asynchronous += 1
    await this.#frozenAndLifted('NEW_TIMELINE', ended)
  }

  /** Restores an older copy that looks like a restarted server. Only the workers' epoch files have a later epoch. */
  async putBackOlderCopy(): Promise<void> {
    const { older, before, known } = await this.#withoutWorkers(async () => {
      await this.#load.fill()
      const epoch = await this.#epoch()
      return { older: await this.#chain.copy(), before: await this.#endedCount(), known: epoch?.epochNo ?? 0 }
    })
    // The copy was made before the primary started again, so it does not have the new epoch.
    await waitUntil('a heartbeat after the copy', async () => {
      const epoch = await this.#epoch()
      return epoch !== undefined && epoch.epochNo > known && epoch.beatNo > 0n
    })
    const ended = await this.#moreEndedThan(before)
    await this.#chain.putBack(older)
    this.counts.restores += 1
    await this.#frozenAndLifted('LOST_COMMITS', ended)
  }

  /** Freezes the workers during the body, so that the enqueued items are still pending afterwards. */
  async #withoutWorkers<T>(body: () => Promise<T>): Promise<T> {
    this.#fleet.freezeAll()
    try {
      return await body()
    } finally {
      this.#fleet.resumeAll()
    }
  }

  async end() {
    const scenario = this.#scenario
    const { heldCount } = await scenario.untilDrained()
    const exitCodes = await this.#fleet.stop()
    const { report, defects } = await scenario.audit()
    const { acknowledged } = this.#load
    const lost = acknowledged - Number(report.counts.accepted)
    const { notMarked, sentWhileFrozen } = this.counts
    return {
      figures: {
        payments: acknowledged,
        ...this.counts,
        held: Number(heldCount),
        resumeMsMax: Math.max(...this.#resumes),
        acknowledgedLost: lost,
        workerExits: this.#fleet.unexpectedExits.length,
        doubleRailEffects: report.doublePaid,
      },
      defects: [
        ...this.#defects,
        ...defects,
        ...this.#fleet.unexpectedExits,
        ...(lost === 0 ? [] : [`${lost} acknowledged payments are missing from the ledger`]),
        ...(notMarked === 0 ? [] : [`${notMarked} pending items were not marked unknown at a freeze`]),
        ...(sentWhileFrozen === 0 ? [] : [`${sentWhileFrozen} payments were made while dispatch was frozen`]),
        ...exitCodes
          .filter((exitCode) => exitCode !== 0)
          .map((exitCode) => `a worker exited with ${exitCode} after a clean stop, expected 0`),
      ],
    }
  }

  /**
   * Waits for the freeze and checks its cause. Counts lost outcomes, pending items not marked unknown, and payments
   * sent while frozen. Then lifts the freeze.
   */
  async #frozenAndLifted(cause: string, endedBefore: bigint): Promise<void> {
    const epoch = await waitUntil('dispatch is frozen', async () => {
      const seen = await this.#epoch()
      return seen?.frozen === true && seen.markedAt !== null ? seen : undefined
    })
    if (epoch.freezeCause !== cause) this.#defects.push(`frozen for ${epoch.freezeCause} instead of ${cause}`)
    const { pendingCount, outcomeUnknownCount, dispatchedTotal, failedTotal } = await this.#scenario.status()
    const forgotten = Number(endedBefore - dispatchedTotal - failedTotal)
    if (forgotten < OUTCOMES_LOST_MIN)
      this.#defects.push(`only ${forgotten} outcomes were lost, expected at least ${OUTCOMES_LOST_MIN}`)
    this.counts.outcomesLost += forgotten
    this.counts.markedUnknown += Number(outcomeUnknownCount)
    this.counts.notMarked += Number(pendingCount - outcomeUnknownCount)
    await delay(QUIET_MS)
    const paid = await this.#paidCount()
    await delay(QUIET_MS)
    this.counts.sentWhileFrozen += (await this.#paidCount()) - paid
    await this.#lift()
  }

  async #lift(): Promise<void> {
    const control = this.#scenario.db.as('symphony_control')
    await retryUntilSuccess('lifting the freeze', () =>
      liftDispatchFreeze(control, 'the ledger was compared with the rail book'),
    )
    // A refusal of the rail that arrives after its item was marked does not settle earlier calls, so the item is held.
    await waitUntil('every item with an unknown outcome is settled or held', async () => {
      const { outcomeUnknownCount, heldFailedUnknownCount } = await this.#scenario.status()
      return outcomeUnknownCount === heldFailedUnknownCount
    })
  }

  /** Measures from the promotion to the first terminal outcome on the new primary. */
  async #resumedAfterMs(): Promise<number> {
    const started = process.hrtime.bigint()
    const before = await this.#endedCount()
    await waitUntil('the new primary records a terminal outcome', async () => (await this.#endedCount()) > before)
    return Math.round(Number(process.hrtime.bigint() - started) / 1e6)
  }

  /** Waits for OUTCOMES_RECORDED_MIN more terminal outcomes than `before`. Returns their new total number. */
  #moreEndedThan(before: bigint): Promise<bigint> {
    return waitUntil('more terminal outcomes are recorded', async () => {
      const ended = await this.#endedCount()
      return ended >= before + BigInt(OUTCOMES_RECORDED_MIN) && ended
    })
  }

  async #endedCount(): Promise<bigint> {
    const { dispatchedTotal, failedTotal } = await this.#scenario.status()
    return dispatchedTotal + failedTotal
  }

  #epoch(): Promise<DispatchEpoch | undefined> {
    return retryUntilSuccess('a read of the epoch', () => readDispatchEpoch(this.#scenario.db.as('symphony_auditor')))
  }

  async #paidCount(): Promise<number> {
    return (await readBook(this.#scenario.bookFile)).size
  }
}
