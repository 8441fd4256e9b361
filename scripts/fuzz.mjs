// Plays random sequences against the models, many more than `npm test` does, and from another seed each time:
//
//   npm run fuzz                                      10,000 sequences of each primitive
//   npm run fuzz -- --only outbox --runs 500          fewer, of one of them
//   npm run fuzz -- --only outbox --seed 7 --path 4:2 one sequence again, as a failure printed it
import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
const RUNS = 10_000
const SEED_MAX = 2 ** 31

const { only, runs, seed, path } = readArguments()
const files = ['outbox', 'inbox', 'scheduler', 'lease']
  .filter((name) => only === undefined || only === name)
  .map((name) => join('tests', 'fuzz', `${name}Fuzz.spec.ts`))
  .filter((file) => existsSync(join(root, file)))
if (files.length === 0) fail(`--only: expected outbox, inbox, scheduler or lease, got "${only}"`)
if (path !== undefined && files.length > 1)
  fail('--path: it leads to a sequence of one primitive, so say which with --only')

process.stdout.write(`fuzz: seed ${seed}, ${runs} sequences of each primitive\n`)
const { status } = spawnSync(process.execPath, [vitest, 'run', ...files], {
  cwd: root,
  stdio: 'inherit',
  env: {
    ...process.env,
    SYMPHONY_FUZZ_RUNS: String(runs),
    SYMPHONY_FUZZ_SEED: String(seed),
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
      seed: wholeNumber('--seed', values.seed, randomInt(SEED_MAX), -SEED_MAX),
      path: values.path,
    }
  } catch (error) {
    fail(error.message)
  }
}

function wholeNumber(name, text, otherwise, min) {
  const number = text === undefined ? otherwise : Number(text)
  if (!Number.isSafeInteger(number) || number < min) fail(`${name}: expected a whole number from ${min}, got "${text}"`)
  return number
}

function fail(message) {
  process.stderr.write(`${message}\n`)
  process.exit(2)
}
