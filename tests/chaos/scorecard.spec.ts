import { expect, inject, test } from 'vitest'
import { commitSeed } from '../support/commitSlice.js'
import { runScenario } from '../support/scorecard/runScenario.js'
import type { Scenario, Size } from '../support/scorecard/Scenario.js'
import crashPoints from './scenarios/r02CrashPoints.js'
import histories from './scenarios/r05Histories.js'
import cutConnections from './scenarios/r09CutConnections.js'
import staleCompletions from './scenarios/r10StaleCompletions.js'

/**
 * Scenarios of `npm run chaos` in a size that every run of the tests can afford, from another seed with each commit. Those that kill
 * processes have specs of their own beside this one: docs/internals/scorecard.md says which.
 */

interface ShortForm {
  readonly invariant: string
  readonly scenario: Scenario
  readonly size: Size
  /** What must have happened, or nothing was shown. */
  readonly atLeast: Readonly<Record<string, number>>
  /** It creates roles, which other tests on the run's server would see. @default false */
  readonly ownServer?: boolean
}

const SHORT_FORMS: readonly ShortForm[] = [
  {
    invariant: 'a process may end before or after any await of the core, and the next one finishes its work',
    scenario: crashPoints,
    size: { every: 45, auditEvery: 25 },
    atLeast: { crashes: 10, passed: 300 },
    ownServer: true,
  },
  {
    invariant: 'whatever byte its connection is cut at, a call made again gets the same answer, and nothing is doubled',
    scenario: cutConnections,
    size: { everyBytes: 250, freezesPerThousand: 0 },
    atLeast: { cuts: 15, committed: 3, notCommitted: 3 },
  },
  {
    invariant: 'what clients were told at the same time, some over connections that were cut, is possible in one order',
    scenario: histories,
    size: { histories: 1, operations: 250 },
    atLeast: { operations: 200, refused: 5 },
  },
  {
    invariant: 'a hand that lost its lease changes nothing, however often it tries, and what it learned is kept',
    scenario: staleCompletions,
    size: { completions: 500 },
    atLeast: { refusedAsP7002: 500, lateOutcomesKept: 4 },
  },
]

const TITLED = SHORT_FORMS.map((form) => [`${form.scenario.id} ${form.invariant}`, form] as const)

test.each(TITLED)('%s', async (_title, { scenario, size, atLeast, ownServer = false }) => {
  const seed = commitSeed()
  process.stdout.write(`${scenario.id}: seed ${seed}\n`)
  const server = ownServer ? {} : { serverUrl: inject('serverUrl') }
  const { defects, figures } = await runScenario(scenario, { seed, short: true, size, ...server })
  expect(defects.join('\n')).toBe('')
  for (const [name, least] of Object.entries(atLeast)) expect(Number(figures[name])).toBeGreaterThanOrEqual(least)
})
