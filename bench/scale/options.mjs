// Parses the command line of `npm run bench:scale` and derives the sizes.
import { parseArgs } from 'node:util'
import { CASES } from './cases.mjs'

export const USAGE = `npm run bench:scale -- [options]

  --only A,B      some of ${Object.keys(CASES).join(', ')}
  --max-rows N    limits every size to N rows, for a small or busy machine
  --seconds S     seconds of each of two steady loads, without and with an old snapshot (default 600)
  --quick         tiny sizes, to check that everything runs; implies --no-write
  --json          the last line is one JSON object with the results
  --no-write      does not write docs/benchmarks.md`

export class OptionsError extends Error {}

export function readOptions(words) {
  const { values: given } = parsed(words)
  const maxRows = positive('max-rows', given['max-rows'])
  const seconds = positive('seconds', given.seconds)
  const { quick } = given
  if (quick && (maxRows !== undefined || seconds !== undefined))
    throw new OptionsError('--quick has fixed sizes: omit --max-rows and --seconds')
  return {
    cases: given.only === undefined ? Object.keys(CASES) : given.only.split(',').map(knownCase),
    // The page marks results of such a run, because the bounds are for the full sizes.
    reduced: quick || maxRows !== undefined || (seconds ?? 600) < 600,
    json: given.json,
    write: given.write && !quick,
    sizing: {
      sizes: (full, tiny) => (quick ? tiny : allowed(full, maxRows)),
      seconds: quick ? 1 : (seconds ?? 600),
      calls: quick ? 5 : 200,
      rounds: quick ? 1 : 5,
      roundSeconds: quick ? 0.1 : 5,
    },
  }
}

/** Returns the sizes up to the limit; the limit itself if all are larger. */
function allowed(sizes, maxRows = Infinity) {
  const small = sizes.filter((size) => size <= maxRows)
  return small.length === 0 ? [maxRows] : small
}

function parsed(words) {
  try {
    return parseArgs({
      args: words,
      options: {
        only: { type: 'string' },
        'max-rows': { type: 'string' },
        seconds: { type: 'string' },
        quick: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        write: { type: 'boolean', default: true },
      },
      allowNegative: true,
    })
  } catch (error) {
    throw new OptionsError(error.message)
  }
}

function positive(name, text) {
  if (text === undefined) return undefined
  const number = Number(text)
  if (!Number.isSafeInteger(number) || number < 1)
    throw new OptionsError(`--${name}: expected a positive whole number, got "${text}"`)
  return number
}

function knownCase(name) {
  if (!Object.hasOwn(CASES, name))
    throw new OptionsError(`--only: expected some of ${Object.keys(CASES).join(', ')}, got "${name}"`)
  return name
}
