import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'

/** Family of scenarios: faults (`chaos`) or attacks (`security`). */
export type Family = 'chaos' | 'security'

export interface ScorecardOptions {
  /** Ids of the chosen scenarios (`--only`), or undefined for all. */
  readonly chosen: readonly string[] | undefined
  readonly seed: number
  readonly payments: number | undefined
  readonly short: boolean
  readonly json: boolean
  readonly list: boolean
  readonly stale: boolean
  readonly help: boolean
  /** Page that the results are written to. */
  readonly page: string
}

export class UsageError extends Error {}

const SEED_MAX = 2 ** 31 - 1
const ONLY = 'only'
const PAYMENTS_MAX = 100_000_000
export const RELIABILITY_PAGE = 'docs/reliability.md'

export function readOptions(words: readonly string[]): ScorecardOptions {
  const values = parseWords(words)
  const chosen = values[ONLY]
  return {
    chosen: chosen === undefined ? undefined : readIds(chosen),
    seed: wholeNumber('--seed', values.seed, 0, SEED_MAX) ?? randomInt(SEED_MAX),
    payments: wholeNumber('--payments', values.payments, 1, PAYMENTS_MAX),
    short: values.short ?? false,
    json: values.json ?? false,
    list: values.list ?? false,
    stale: values.stale ?? false,
    help: values.help ?? false,
    page: values.page ?? RELIABILITY_PAGE,
  }
}

export function helpText(family: Family): string {
  const example = family === 'chaos' ? 'R9' : 'S3'
  return `Runs the ${family} scenarios of the scorecard and writes their sections of ${RELIABILITY_PAGE}.

  npm run ${family}                           all scenarios in full size
  npm run ${family} -- --only ${example}               one scenario; separate several by commas
  npm run ${family} -- --only ${example} --seed 7      repeat a failed run

  --only <ids>      run only these scenarios, separated by commas
  --seed <n>        seed for kills, cuts and payloads (default: random; it is printed)
  --payments <n>    number of payments, for scenarios that count them; kills scale with it
  --short           run the short form, which takes seconds
  --json            print { "ok": true | false, "figures": { … } } as the last line
  --page <file>     write the results there (default: ${RELIABILITY_PAGE})
  --list            list the scenarios and their bars, and run none
  --stale           list the scenarios whose result is of older sources or another bar, and run none
  --help            print this text

Exit code 0: every bar is met. 1: one is not. 2: the command line is invalid.
`
}

function parseWords(words: readonly string[]) {
  const [text, flag] = [{ type: 'string' }, { type: 'boolean' }] as const
  try {
    return parseArgs({
      args: [...words],
      options: {
        [ONLY]: text,
        seed: text,
        payments: text,
        page: text,
        short: flag,
        json: flag,
        list: flag,
        stale: flag,
        help: flag,
      },
    }).values
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

function readIds(text: string): string[] {
  const ids = text.split(',').map((id) => id.trim().toUpperCase())
  if (ids.includes('')) throw new UsageError(`--only: expected ids separated by commas, got "${text}"`)
  return ids
}

function wholeNumber(name: string, text: string | undefined, min: number, max: number): number | undefined {
  if (text === undefined) return undefined
  const number = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (!(number >= min && number <= max)) {
    throw new UsageError(`${name}: expected a whole number from ${min} to ${max}, got "${text}"`)
  }
  return number
}
