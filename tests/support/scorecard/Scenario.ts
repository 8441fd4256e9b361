import type { ScenarioFixture } from './ScenarioFixture.js'

/** What can be larger or smaller about a scenario: payments, kills, seconds. */
export type Size = Readonly<Record<string, number>>

/** What was counted, by name. The page writes `workerKills: 1000` as "worker kills 1,000". */
export type Figures = Readonly<Record<string, number | string>>

export interface Outcome {
  readonly figures: Figures
  /** What did not meet the bar, in words; empty when all of it did. */
  readonly defects: readonly string[]
}

/** One line of the scorecard: a fault that is provoked for real, what is counted meanwhile, and the bar it must meet. */
export interface Scenario<S extends Size = Size> {
  /** Its name in the table: `R9`. */
  readonly id: string
  readonly title: string
  /** What the figures of the full size must say. */
  readonly bar: string
  /**
   * `full` is what the bar asks for; `short` is quick enough to be tried by hand. `--payments` takes the place of a size that
   * is named `payments`; what else belongs to so many payments, the scenario works out.
   */
  readonly sizes: { readonly full: S; readonly short: S }
  run(fixture: ScenarioFixture, size: S): Promise<Outcome>
}

export function defineScenario<S extends Size>(scenario: Scenario<S>): Scenario {
  return scenario
}
