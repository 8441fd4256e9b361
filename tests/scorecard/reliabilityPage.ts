import type { Figures } from './Scenario.js'

/** Line of a scenario with its latest run. */
export interface ScenarioResult {
  readonly id: string
  readonly title: string
  readonly bar: string
  readonly figures: Figures
  readonly defects: readonly string[]
  /** `full`, or the smaller size. */
  readonly size: string
  readonly seed: number
  readonly postgres: string | undefined
  readonly node: string
  /** Day in ISO 8601. */
  readonly date: string
}

export type KnownScenario = Pick<ScenarioResult, 'id' | 'title' | 'bar'>

/**
 * Renders the page with these lines. A scenario that did not run keeps its line; one that never ran is marked "not
 * run". A smaller run does not replace a full one, and lines of removed scenarios are dropped.
 */
export function renderReliabilityPage(
  before: string,
  family: { readonly letter: string; readonly scenarios: readonly KnownScenario[] },
  results: readonly ScenarioResult[],
): string {
  const lines = readLines(before)
  for (const id of lines.keys()) {
    if (id.startsWith(family.letter) && family.scenarios.every((scenario) => scenario.id !== id)) lines.delete(id)
  }
  for (const scenario of family.scenarios) {
    if (!lines.has(scenario.id)) lines.set(scenario.id, notRunLine(scenario))
  }
  for (const line of results) {
    if (line.size === 'full' || !isFull(lines.get(line.id))) lines.set(line.id, resultLine(line))
  }
  const ordered = [...lines].toSorted(([left], [right]) => compareIds(left, right)).map(([, line]) => line)
  return `${HEAD}${ordered.join('\n')}\n`
}

/** Prints `workerKills: 1000` as "worker kills 1,000". */
export function describeFigures(figures: Figures): string {
  return Object.entries(figures)
    .map(([name, value]) => `${words(name)} ${typeof value === 'number' ? value.toLocaleString('en-US') : value}`)
    .join(' · ')
}

const HEAD = `# Reliability and security results

Results of the scenarios that \`npm run chaos\` and \`npm run security\` run, for readers who want to check our claims. Each line
says what happens, what was counted, the bar, and with which size, seed, versions and day.
\`npm run chaos -- --only R9 --seed 7\` repeats one of them.

Where a rail is called, the ledger is compared with the rail book, which another process keeps in a file outside the
database. "not run" claims nothing. A line whose size is not \`full\` shows that the scenario holds at that size, not that the
bar is met. [Troubleshooting](operate/troubleshooting.md) says what an operator sees of each fault.

| id | what happens | counted | bar | verdict | size | seed | PostgreSQL | Node.js | date |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
`

function readLines(page: string): Map<string, string> {
  const lines = new Map<string, string>()
  for (const line of page.split('\n')) {
    const id = /^\| ([RS]\d+) \|/.exec(line)?.[1]
    if (id !== undefined) lines.set(id, line)
  }
  return lines
}

function notRunLine({ id, title, bar }: KnownScenario): string {
  return row([id, title, '', bar, 'not run', '', '', '', '', ''])
}

function resultLine(line: ScenarioResult): string {
  const { id, title, bar, figures, defects, size, seed, postgres = '', node, date } = line
  const held = size === 'full' ? 'met' : 'holds'
  const verdict = defects.length === 0 ? held : `**not met**: ${defects.slice(0, DEFECTS_MAX).join('; ')}`
  return row([id, title, describeFigures(figures), bar, verdict, size, String(seed), postgres, node, date])
}

function isFull(line: string | undefined): boolean {
  return line?.split(' | ')[SIZE_COLUMN] === 'full'
}

function row(cells: readonly string[]): string {
  const clean = cells.map((cell) => cell.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|'))
  return `| ${clean.join(' | ')} |`
}

function compareIds(left: string, right: string): number {
  return left.charCodeAt(0) - right.charCodeAt(0) || Number(left.slice(1)) - Number(right.slice(1))
}

function words(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
}

const DEFECTS_MAX = 3
const SIZE_COLUMN = 5
