import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'

/** The two families of scenarios: faults that happen, and people who mean harm. */
export type Family = 'chaos' | 'security'

export interface ScorecardOptions {
  /** Which scenarios, as their ids were given; undefined for all. */
  /** `--only`. */
  readonly chosen: readonly string[] | undefined
  readonly seed: number
  readonly payments: number | undefined
  readonly short: boolean
  readonly json: boolean
  readonly list: boolean
  readonly help: boolean
  /** The page whose lines are written. */
  readonly page: string
}

/** Something is wrong with what was asked for. */
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
    help: values.help ?? false,
    page: values.page ?? RELIABILITY_PAGE,
  }
}

export function helpText(family: Family): string {
  const example = family === 'chaos' ? 'R9' : 'S3'
  return `Plays the ${family} scenarios of the scorecard, and writes their lines of ${RELIABILITY_PAGE}.

  npm run ${family}                           all of them in full size
  npm run ${family} -- --only ${example}               one of them, or several: --only ${example},…
  npm run ${family} -- --only ${example} --seed 7      as a failure printed it

  --only <ids>      these scenarios alone, separated by commas
  --seed <n>        what chance decides: kills, cuts, payloads (default: another one each time; it is printed)
  --payments <n>    so many payments instead, where a scenario counts them; kills are scaled with them
  --short           the short form of each: minutes become seconds
  --json            the last line is { "ok": true | false, "figures": { … } }
  --page <file>     write the lines there (default: ${RELIABILITY_PAGE})
  --list            names the scenarios and their bars, and plays none
  --help            this text

Exit code 0: every bar was met. 1: one was not. 2: what was asked for makes no sense.
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
