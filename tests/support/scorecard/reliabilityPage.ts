import type { Figures } from './Scenario.js'

/** What a scenario's line says of its latest run. */
export interface PlayedLine {
  readonly id: string
  readonly title: string
  readonly bar: string
  readonly figures: Figures
  readonly defects: readonly string[]
  /** `full`, or how it was smaller. */
  readonly size: string
  readonly seed: number
  readonly postgres: string | undefined
  readonly node: string
  /** ISO 8601, the day. */
  readonly date: string
}

export type KnownScenario = Pick<PlayedLine, 'id' | 'title' | 'bar'>

/**
 * The page with these lines in it. What was not played this time keeps its line and its date, as long as there is such a
 * scenario; what never was says so. A smaller run does not take the place of a full one.
 */
export function renderReliabilityPage(
  before: string,
  family: { readonly letter: string; readonly scenarios: readonly KnownScenario[] },
  played: readonly PlayedLine[],
): string {
  const lines = readLines(before)
  for (const id of lines.keys()) {
    if (id.startsWith(family.letter) && family.scenarios.every((scenario) => scenario.id !== id)) lines.delete(id)
  }
  for (const scenario of family.scenarios) {
    if (!lines.has(scenario.id)) lines.set(scenario.id, notRunLine(scenario))
  }
  for (const line of played) {
    if (line.size === 'full' || !isFull(lines.get(line.id))) lines.set(line.id, playedLine(line))
  }
  const ordered = [...lines].toSorted(([left], [right]) => compareIds(left, right)).map(([, line]) => line)
  return `${HEAD}${ordered.join('\n')}\n`
}

/** `workerKills: 1000` reads "worker kills 1,000". */
export function describeFigures(figures: Figures): string {
  return Object.entries(figures)
    .map(([name, value]) => `${words(name)} ${typeof value === 'number' ? value.toLocaleString('en-US') : value}`)
    .join(' · ')
}

const HEAD = `# Reliability and security: the figures

Written by \`npm run chaos\` and \`npm run security\`, line by line: each says what it counted, on what, from which seed and when. \`npm run chaos -- --only R9 --seed 7\` plays one of them again.
Where a rail is called, what is audited afterwards is the rail's book, which a process of its own keeps in a file outside the database, against ours. "not run": nobody has run it yet, and nothing is claimed.
A line whose size is not \`full\` shows that the scenario holds at that size, not that the bar is met. What an operator sees of each fault: [troubleshooting](operate/troubleshooting.md).

| id | what happens | figures | bar | verdict | size | seed | PostgreSQL | Node.js | date |
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

function playedLine(line: PlayedLine): string {
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
