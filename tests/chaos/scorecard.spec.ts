import { expect, inject, test } from 'vitest'
import { commitSeed } from '../support/commitSlice.js'
import { runScenario } from '../scorecard/runScenario.js'
import type { Scenario, Size } from '../scorecard/Scenario.js'
import crashPoints from './scenarios/r02CrashPoints.js'
import histories from './scenarios/r05Histories.js'
import cutConnections from './scenarios/r09CutConnections.js'
import staleCompletions from './scenarios/r10StaleCompletions.js'
import cancelRaces from './scenarios/r25CancelRaces.js'
import limits from './scenarios/r26Limits.js'
import reconciliation from './scenarios/r27Reconciliation.js'
import soak from './scenarios/r28Soak.js'

/**
 * Runs scenarios of `npm run chaos` in a small size, with another seed per commit. Scenarios that kill processes have
 * their own specs; docs/internals/scorecard.md lists them.
 */

interface ShortForm {
  readonly invariant: string
  readonly scenario: Scenario
  readonly size: Size
  /** Minimum counts that make a run meaningful. */
  readonly atLeast: Readonly<Record<string, number>>
  /** Whether the scenario needs its own server, because other tests would see the roles it creates. @default false */
  readonly ownServer?: boolean
}

const SHORT_FORMS: readonly ShortForm[] = [
  {
    invariant: 'a process killed at any await loses no work: the next process finishes it',
    scenario: crashPoints,
    size: { every: 120, auditEvery: 25 },
    atLeast: { crashes: 4, passed: 300 },
    ownServer: true,
  },
  {
    invariant: 'a call repeated after a cut at any byte gets the same answer and no second effect',
    scenario: cutConnections,
    size: { everyBytes: 250, freezesPerThousand: 0 },
    atLeast: { cuts: 15, committed: 3, notCommitted: 3 },
  },
  {
    invariant: 'answers of concurrent clients, some with cut connections, fit one serial order',
    scenario: histories,
    size: { histories: 1, operations: 250 },
    atLeast: { operations: 200, refused: 5 },
  },
  {
    invariant: 'a worker that lost its lease changes no item, and its late outcome is recorded',
    scenario: staleCompletions,
    size: { completions: 500 },
    atLeast: { refusedAsP7002: 500, lateOutcomesKept: 4 },
  },
  {
    invariant: 'of a cancel and a claim that race, one wins: no cancelled payment is paid, none is lost',
    scenario: cancelRaces,
    size: { races: 80 },
    atLeast: { races: 80, cancelled: 4, claimedFirst: 4 },
  },
  {
    invariant: 'payments that no person released never exceed the limit of their participant',
    scenario: limits,
    size: { payments: 400, writers: 4, writerKills: 2, serverKills: 1 },
    atLeast: { passedAlone: 20, heldByLimits: 50, limitsSet: 1, writerKills: 2, serverKills: 1 },
    ownServer: true,
  },
  {
    invariant: 'one statement gives one run with every finding, despite a second process and a kill',
    scenario: reconciliation,
    size: { perKind: 20, kills: 1, serverKills: 1 },
    atLeast: { kills: 1, serverKills: 1, plantedFound: 5 },
    ownServer: true,
  },
  {
    invariant: 'payments, messages, jobs and statements take effect once in a mixed load with kills',
    scenario: soak,
    // This short run kills one worker and the server. Other specs kill schedulers and inbox workers.
    size: { payments: 150, killEverySeconds: 0.5, serverKillEvery: 2, workers: 1, lasting: 0, jobs: 2 },
    atLeast: {
      workerKills: 1,
      serverKills: 1,
      outcomeMessages: 75,
      occurrences: 2,
      inboxMessages: 10,
      plantedFound: 5,
    },
    ownServer: true,
  },
]

const TITLED = SHORT_FORMS.map((form) => [`${form.scenario.id}: ${form.invariant}`, form] as const)

test.each(TITLED)(
  'a short run of a chaos scenario finds no defect: %s',
  // Timeout that is long enough to start and stop processes on a busy machine.
  { timeout: 300_000 },
  async (_title, { scenario, size, atLeast, ownServer = false }) => {
    const seed = commitSeed()
    process.stdout.write(`${scenario.id}: seed ${seed}\n`)
    const server = ownServer ? {} : { serverUrl: inject('serverUrl') }
    const { defects, figures } = await runScenario(scenario, { seed, short: true, size, ...server })
    expect(defects.join('\n')).toBe('')
    for (const [name, least] of Object.entries(atLeast)) expect(Number(figures[name])).toBeGreaterThanOrEqual(least)
  },
)
