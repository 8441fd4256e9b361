import { cpus, totalmem } from 'node:os'
import { commitOf } from './commits.js'
import type { ScorecardOptions } from './options.js'
import type { ScenarioResult } from './reliabilityPage.js'
import type { Outcome, Scenario, Size } from './Scenario.js'
import { ScenarioFixture } from './ScenarioFixture.js'

export interface RunOptions extends Pick<ScorecardOptions, 'seed' | 'short'> {
  readonly payments?: number | undefined
  /** Overrides parts of the size, for `npm test`. */
  readonly size?: Size
  /** @see ScenarioFixtureOptions */
  readonly serverUrl?: string
}

/** Runs a scenario with its own fixture. An exception counts as a defect. */
export async function runScenario(
  scenario: Scenario,
  options: RunOptions,
  onProgress: (text: string) => void = () => {},
): Promise<ScenarioResult> {
  const { id, title, bar } = scenario
  const { size, name } = sizeOf(scenario, options)
  const { seed, serverUrl } = options
  const fixture = await ScenarioFixture.create({
    id,
    seed,
    onProgress,
    ...(serverUrl === undefined ? {} : { serverUrl }),
  })
  const started = process.hrtime.bigint()
  const { figures, defects } = await outcomeOf(scenario, fixture, size)
  const seconds = Math.round(Number(process.hrtime.bigint() - started) / 1e8) / 10
  return {
    id,
    title,
    bar,
    figures: { ...figures, seconds },
    defects,
    size: name,
    seed,
    commit: commitOf(),
    postgres: fixture.postgres,
    node: process.versions.node,
    machine: `${cpus().length} cores (${cpus()[0]?.model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB`,
    date: new Date().toISOString().slice(0, 10),
  }
}

async function outcomeOf(scenario: Scenario, fixture: ScenarioFixture, size: Size): Promise<Outcome> {
  let outcome: Outcome
  try {
    outcome = await scenario.run(fixture, size)
  } catch (error) {
    outcome = { figures: {}, defects: [`the scenario failed: ${describe(error)}`] }
  }
  try {
    await fixture.dispose()
    return outcome
  } catch (error) {
    return { ...outcome, defects: [...outcome.defects, describe(error)] }
  }
}

function sizeOf({ sizes }: Scenario, options: RunOptions): { readonly size: Size; readonly name: string } {
  const { short, payments } = options
  const size = { ...(short ? sizes.short : sizes.full), ...options.size }
  if (payments === undefined || size['payments'] === undefined) return { size, name: short ? 'short' : 'full' }
  const isFull = !short && payments >= (sizes.full['payments'] ?? 0)
  return { size: { ...size, payments }, name: isFull ? 'full' : `${payments.toLocaleString('en-US')} payments` }
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const place = error.stack?.split('\n').find((line) => line.trimStart().startsWith('at '))
  return `${error.message}${place === undefined ? '' : ` (${place.trim()})`}`.replaceAll(`${process.cwd()}/`, '')
}
