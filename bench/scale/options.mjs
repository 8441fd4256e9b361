// The command line of `npm run bench:scale`, and the sizes that follow from it.
import { parseArgs } from 'node:util'
import { CASES } from './cases.mjs'

export const USAGE = `npm run bench:scale -- [options]

  --only A,B      some of ${Object.keys(CASES).join(', ')}
  --max-rows N    nothing larger than N rows, for a machine that is small or busy
  --seconds S     how long a steady load is measured with and without an old snapshot; 600 by default
  --quick         tiny sizes, to see that everything runs; the page is left as it is
  --json          the last line is one JSON object with the figures
  --no-write      leaves docs/benchmarks.md as it is`

export class OptionsError extends Error {}

export function readOptions(words) {
  const { values: given } = parsed(words)
  const maxRows = positive('max-rows', given['max-rows'])
  const seconds = positive('seconds', given.seconds)
  const { quick } = given
  if (quick && (maxRows !== undefined || seconds !== undefined))
    throw new OptionsError('--quick has sizes of its own; leave --max-rows and --seconds out')
  return {
    cases: given.only === undefined ? Object.keys(CASES) : given.only.split(',').map(knownCase),
    // Where less was measured than the bound speaks of, the page says so.
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

/** Those of the sizes that are allowed; where all are too large, the largest that is. */
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
    throw new OptionsError(`--${name} wants a positive whole number; "${text}" came`)
  return number
}

function knownCase(name) {
  if (!Object.hasOwn(CASES, name))
    throw new OptionsError(`--only knows ${Object.keys(CASES).join(', ')}; "${name}" came`)
  return name
}
