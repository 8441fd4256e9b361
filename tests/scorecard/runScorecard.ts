import { readFile, writeFile } from 'node:fs/promises'
import { removeFoldersOfDeadRuns } from '../support/server.js'
import { whyStale } from './commits.js'
import { helpText, readOptions, UsageError, type Family, type ScorecardOptions } from './options.js'
import { runScenario } from './runScenario.js'
import { describeFigures, renderReliabilityPage, resultsOn, type ScenarioResult } from './reliabilityPage.js'
import type { Figures, Scenario } from './Scenario.js'

export interface Scorecard {
  readonly family: Family
  readonly scenarios: readonly Scenario[]
  /** Prints a line for people. */
  readonly print: (text: string) => void
  /** Prints the last line of `--json` for programs. */
  readonly printJson: (line: string) => void
}

const LETTERS: Readonly<Record<Family, string>> = { chaos: 'R', security: 'S' }

/** Runs the chosen scenarios, writes the page and returns the exit code. */
export async function runScorecard(words: readonly string[], card: Scorecard): Promise<number> {
  try {
    const options = readOptions(words)
    const chosen = choose(card, options)
    if (options.help) card.print(helpText(card.family))
    else if (options.list) for (const { id, title, bar } of chosen) card.print(`${id.padEnd(4)} ${title}\n     ${bar}`)
    else if (options.stale) return await printStale(chosen, options, card)
    else return await runAll(chosen, options, card)
    return 0
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    card.print(`${error.message}\nRun npm run ${card.family} -- --help for the options.`)
    return 2
  }
}

function choose({ scenarios, family }: Scorecard, { chosen }: ScorecardOptions): readonly Scenario[] {
  const unknown = chosen?.filter((id) => scenarios.every((scenario) => scenario.id !== id)) ?? []
  if (unknown.length > 0) {
    const known = scenarios.map(({ id }) => id).join(', ')
    throw new UsageError(`--only: no ${family} scenario is named ${unknown.join(', ')}; there are ${known}`)
  }
  return scenarios.filter(({ id }) => chosen === undefined || chosen.includes(id))
}

/** Prints the stale results. Returns the exit code: 1 if there are any. */
async function printStale(chosen: readonly Scenario[], { page }: ScorecardOptions, card: Scorecard): Promise<number> {
  const results = resultsOn(await readFile(page, 'utf8'))
  const stale = chosen.flatMap(({ id, bar }) => {
    const result = results.get(id)
    const why = whyStale(result?.commit) ?? (result?.bar === bar ? undefined : 'another bar')
    return why === undefined ? [] : `${id.padEnd(4)} ${why}`
  })
  card.print(stale.length === 0 ? `All ${chosen.length} results are of these sources.` : stale.join('\n'))
  return stale.length === 0 ? 0 : 1
}

async function runAll(chosen: readonly Scenario[], options: ScorecardOptions, card: Scorecard): Promise<number> {
  await removeFoldersOfDeadRuns()
  card.print(`${card.family}: ${chosen.map(({ id }) => id).join(', ')} from seed ${options.seed}`)
  const figures: Record<string, Figures> = {}
  let ok = true
  for (const scenario of chosen) {
    const line = await runScenario(scenario, options, (text) => card.print(`${scenario.id}  … ${text}`))
    figures[scenario.id] = line.figures
    ok &&= line.defects.length === 0
    printResult(line, options, card)
    // Writes after each scenario, so that an interrupted run keeps its results.
    await writePage(options.page, card, line)
  }
  if (options.json) card.printJson(JSON.stringify({ ok, figures }))
  return ok ? 0 : 1
}

function printResult(
  { id, title, figures, defects }: ScenarioResult,
  options: ScorecardOptions,
  card: Scorecard,
): void {
  const verdict = defects.length === 0 ? 'ok' : 'NOT MET'
  card.print(`${id}  ${verdict}  ${title}: ${describeFigures(figures)}`)
  for (const defect of defects) card.print(`${id}  ${defect}`)
  if (defects.length > 0) card.print(`${id}  repeat with: ${repeatCommand(id, options, card.family)}`)
}

function repeatCommand(id: string, { seed, short, payments }: ScorecardOptions, family: Family): string {
  const size = [short ? ' --short' : '', payments === undefined ? '' : ` --payments ${payments}`].join('')
  return `npm run ${family} -- --only ${id} --seed ${seed}${size}`
}

async function writePage(page: string, { family, scenarios }: Scorecard, line: ScenarioResult): Promise<void> {
  const before = await readFile(page, 'utf8').catch(() => '')
  await writeFile(page, renderReliabilityPage(before, { letter: LETTERS[family], scenarios }, [line]))
}
