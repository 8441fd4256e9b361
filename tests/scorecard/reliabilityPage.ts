import type { Figures } from './Scenario.js'

/** Latest result of a scenario, as its section of the page shows it. */
export interface ScenarioResult {
  readonly id: string
  readonly title: string
  readonly bar: string
  readonly figures: Figures
  readonly defects: readonly string[]
  /** `full`, or the smaller size. */
  readonly size: string
  readonly seed: number
  /** Abbreviated hash of the commit that ran, followed by `+` if its sources were changed. */
  readonly commit: string
  readonly postgres: string | undefined
  readonly node: string
  /** Processors and memory. */
  readonly machine: string
  /** Day in ISO 8601. */
  readonly date: string
}

export type KnownScenario = Pick<ScenarioResult, 'id' | 'title' | 'bar'>

/**
 * Renders the page with these results. A scenario that did not run keeps its section; one that never ran is marked "not
 * run". A smaller run does not replace a full one, and sections of removed scenarios are dropped.
 */
export function renderReliabilityPage(
  before: string,
  family: { readonly letter: string; readonly scenarios: readonly KnownScenario[] },
  results: readonly ScenarioResult[],
): string {
  const sections = readSections(before)
  for (const id of sections.keys()) {
    if (id.startsWith(family.letter) && family.scenarios.every((scenario) => scenario.id !== id)) sections.delete(id)
  }
  for (const scenario of family.scenarios) {
    if (!sections.has(scenario.id)) sections.set(scenario.id, section(scenario, { verdict: 'not run' }))
  }
  for (const result of results) {
    const isFull = fieldOf(sections.get(result.id) ?? '', 'Run').startsWith('full size')
    if (result.size === 'full' || !isFull) sections.set(result.id, resultSection(result))
  }
  const ordered = [...sections].toSorted(([left], [right]) => compareIds(left, right))
  const rows = ordered.map(([id, text]) => {
    const [verdict = ''] = fieldOf(text, 'Verdict').split(':')
    return `| [${id}](#${id.toLowerCase()}) | ${verdict} | ${fieldOf(text, 'Run').replaceAll('|', '\\|')} |\n`
  })
  return [`${HEAD}${rows.join('')}`, ...ordered.map(([, text]) => text)].join('\n')
}

export interface RecordedResult {
  /** Undefined if the scenario never ran or its run names no commit. */
  readonly commit: string | undefined
  readonly bar: string
}

/** Returns commit and bar of each scenario on the page. */
export function resultsOn(page: string): ReadonlyMap<string, RecordedResult> {
  const results = [...readSections(page)].map(([id, text]) => {
    const commit = /commit (\S+?),/.exec(fieldOf(text, 'Run'))?.[1]
    return [id, { commit, bar: fieldOf(text, 'Bar') }] as const
  })
  return new Map(results)
}

/** Prints `workerKills: 1000` as "worker kills 1,000". */
export function describeFigures(figures: Figures): string {
  return Object.entries(figures)
    .map(([name, value]) => `${words(name)} ${typeof value === 'number' ? value.toLocaleString('en-US') : value}`)
    .join(' · ')
}

const HEAD = `# Reliability and security results

Results of the scenarios that \`npm run chaos\` and \`npm run security\` run, for readers who want to check our claims.
\`npm run chaos -- --only R9 --seed 7\` repeats one of them.

Where a rail is called, the ledger is compared with the rail book, which another process keeps in a file outside the
database. "not run" claims nothing. A run that is not of full size shows that the scenario holds at that size, not that
the bar is met. [Troubleshooting](operate/troubleshooting.md) says what an operator sees of each fault.

| scenario | verdict | run |
| --- | --- | --- |
`

function readSections(page: string): Map<string, string> {
  const sections = page.split(/^(?=## )/m).slice(1)
  return new Map(sections.map((text) => [/^## (\S+)/.exec(text)?.[1] ?? '', `${text.trimEnd()}\n`]))
}

function resultSection(result: ScenarioResult): string {
  const { figures, defects, size, seed, commit, postgres, node, machine, date } = result
  const isFull = size === 'full'
  const held = isFull ? 'met' : 'holds'
  return section(result, {
    verdict: defects.length === 0 ? held : `**not met**: ${defects.slice(0, DEFECTS_MAX).join('; ')}`,
    counted: describeFigures(figures),
    run: [
      isFull ? 'full size' : size,
      `seed ${seed}`,
      `commit ${commit}`,
      ...(postgres === undefined ? [] : [`PostgreSQL ${postgres}`]),
      `Node.js ${node}`,
      date,
    ].join(', '),
    machine,
  })
}

interface Fields {
  readonly verdict: string
  readonly counted?: string
  readonly run?: string
  readonly machine?: string
}

function section({ id, title, bar }: KnownScenario, { verdict, counted, run, machine }: Fields): string {
  const fields = Object.entries({ Bar: bar, Verdict: verdict, Counted: counted, Run: run, Machine: machine })
  const lines = fields.flatMap(([name, text]) => (text === undefined ? [] : `- **${name}:** ${oneLine(text)}\n`))
  return `## ${id}\n\n${oneLine(title)}\n\n${lines.join('')}`
}

function fieldOf(text: string, name: string): string {
  return new RegExp(`^- \\*\\*${name}:\\*\\* (.*)$`, 'm').exec(text)?.[1] ?? ''
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ')
}

function compareIds(left: string, right: string): number {
  return left.charCodeAt(0) - right.charCodeAt(0) || Number(left.slice(1)) - Number(right.slice(1))
}

function words(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
}

const DEFECTS_MAX = 3
