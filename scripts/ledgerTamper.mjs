// Tampers with a ledger at random, as a superuser could, and counts the detected cases. Tries many more cases than `npm
// test`.
//
//   npm run ledger:tamper                            1,000 cases with a new seed
//   npm run ledger:tamper -- --count 100 --seed 7    repeats the failed run whose seed was printed
import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
const { count = '1000', seed = String(randomInt(2 ** 31)) } = parseArgs({
  options: { count: { type: 'string' }, seed: { type: 'string' } },
}).values
if (!/^[1-9]\d{0,5}$/.test(count)) {
  process.stderr.write(`--count: expected a whole number from 1 to 999999, got "${count}"\n`)
  process.exit(2)
}

process.stdout.write(`ledger:tamper: ${count} tampers from seed ${seed}\n`)
const { status } = spawnSync(process.execPath, [vitest, 'run', join('tests', 'security', 'ledgerTamper.spec.ts')], {
  cwd: root,
  stdio: 'inherit',
  env: { ...process.env, SYMPHONY_TEST_TAMPERS: count, SYMPHONY_TEST_TAMPER_SEED: seed },
})
process.exitCode = status ?? 1
