import type { ScenarioFixture } from './ScenarioFixture.js'

/** Size of a scenario: payments, kills, seconds. */
export type Size = Readonly<Record<string, number>>

/** Counts by name. The page prints `workerKills: 1000` as "worker kills 1,000". */
export type Figures = Readonly<Record<string, number | string>>

export interface Outcome {
  readonly figures: Figures
  /** Reasons why the run did not meet the bar. Empty if the run met it. */
  readonly defects: readonly string[]
}

/** One line of the scorecard: a real fault, the measured counts, and the bar that they must meet. */
export interface Scenario<S extends Size = Size> {
  /** Name in the table, such as `R9`. */
  readonly id: string
  readonly title: string
  /** Counts that a run of the full size must reach. */
  readonly bar: string
  /**
   * `full` is large enough for the bar; `short` is quick enough to try by hand. `--payments` replaces a size named
   * `payments`, and the scenario scales the rest.
   */
  readonly sizes: { readonly full: S; readonly short: S }
  run(fixture: ScenarioFixture, size: S): Promise<Outcome>
}

export function defineScenario<S extends Size>(scenario: Scenario<S>): Scenario {
  return scenario
}
