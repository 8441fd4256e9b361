// Runs random sequences of calls and compares the results with models: many more sequences than `npm test` runs, each
// time with a new seed.
//
//   npm run fuzz                                        10,000 sequences, divided among the primitives
//   npm run fuzz -- --only outbox --runs 500            500 sequences of the outbox
//   npm run fuzz -- --only outbox --seed 7 --path 4:2   repeats the failed sequence whose seed and path were printed
import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
const RUNS = 10_000
const SEED_MAX = 2 ** 31

const PRIMITIVES = ['outbox', 'inbox', 'scheduler', 'lease']

const { only, runs, seed, path } = readArguments()
if (only !== undefined && !PRIMITIVES.includes(only))
  fail(`--only: expected one of ${PRIMITIVES.join(', ')}, got "${only}"`)
if (path !== undefined && (only === undefined || seed === undefined))
  fail('--path: expected also the --only and --seed that were printed with it')
const files = (only === undefined ? PRIMITIVES : [only]).map((name) => join('tests', 'fuzz', `${name}Fuzz.spec.ts`))
const chosenSeed = seed ?? randomInt(SEED_MAX)

process.stdout.write(`fuzz: ${runs} sequences from seed ${chosenSeed}\n`)
const { status } = spawnSync(process.execPath, [vitest, 'run', ...files], {
  cwd: root,
  stdio: 'inherit',
  env: {
    ...process.env,
    SYMPHONY_FUZZ_RUNS: String(runs),
    SYMPHONY_FUZZ_SEED: String(chosenSeed),
    ...(only === undefined ? {} : { SYMPHONY_FUZZ_ONLY: only }),
    ...(path === undefined ? {} : { SYMPHONY_FUZZ_PATH: path }),
  },
})
process.exitCode = status ?? 1

function readArguments() {
  const text = { type: 'string' }
  try {
    const { values } = parseArgs({ options: { only: text, runs: text, seed: text, path: text } })
    return {
      only: values.only,
      runs: wholeNumber('--runs', values.runs, RUNS, 1),
      seed: wholeNumber('--seed', values.seed, undefined, -SEED_MAX),
      path: values.path,
    }
  } catch (error) {
    fail(error.message)
  }
}

function wholeNumber(name, text, otherwise, min) {
  if (text === undefined) return otherwise
  const number = Number(text)
  if (!Number.isSafeInteger(number) || number < min) fail(`${name}: expected a whole number from ${min}, got "${text}"`)
  return number
}

function fail(message) {
  process.stderr.write(`${message}\n`)
  process.exit(2)
}
