import { randomBytes } from 'node:crypto'
import type { Command } from 'commander'
import { SymphonyError, boundedInteger, requiredText } from '../../../core/index.js'
import { databaseUrlOption, jsonOption, parseWholeNumber } from '../../settings/options.js'
import { countOf, type Cli } from '../../terminal/Terminal.js'
import type { DemoOutcome } from './runDemo.js'

interface DemoCommandOptions {
  readonly payments: number
  readonly workers: number
  readonly seed?: string
  readonly databaseUrl?: string
  readonly json?: boolean
}

export function registerDemo(program: Command, cli: Cli): void {
  program
    .command('demo')
    .description(
      'dispatch payments on a failing rail, kill workers at random, then compare the ledger with the rail’s statement',
    )
    .option('--payments <n>', 'number of payments', parseWholeNumber, 1_000)
    .option('--workers <n>', 'number of worker processes', parseWholeNumber, 4)
    .option('--seed <text>', 'seed of payments, rail behaviour and kills; printed, so that a run can be repeated')
    .addOption(databaseUrlOption())
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action((options: DemoCommandOptions) => run(options, cli))
}

const HELP = `
Without --database-url the demo starts a PostgreSQL in a temporary folder and removes it afterwards. With it, the
demo creates a schema and a login in that database; both stay. DATABASE_URL is not read, so that a demo never runs in
a database by accident. The exit code is 0 only if no payment was lost, none was paid twice, and the rail’s statement
matches the ledger.

Examples:
  symphony demo
  symphony demo --payments 5000 --seed monday --json`

async function run(options: DemoCommandOptions, cli: Cli): Promise<void> {
  const payments = boundedInteger('--payments', options.payments, { min: 1, max: 10_000_000 })
  const workers = boundedInteger('--workers', options.workers, { min: 1, max: 64 })
  const seed = requiredText('--seed', options.seed ?? randomBytes(4).toString('hex'), 64)
  if (options.json !== true) cli.terminal.note(`Seed ${seed}.`)
  const { runDemo } = await import('./runDemo.js')
  const outcome = await runDemo({ payments, workers, seed, databaseUrl: options.databaseUrl }, cli)
  if (options.json === true) cli.terminal.printJson(outcome.result)
  else printOutcome(outcome, cli)
  requireSound(outcome, seed)
}

function printOutcome({ result, leftBehind }: DemoOutcome, { terminal }: Cli): void {
  const { payments, dispatched, failed, held, railEffects, doublePaid, lost, matched, criticalFindings } = result
  const { workerKills, seconds } = result
  const { bold } = terminal.colors
  terminal.print(
    `${countOf(payments, 'payment')} in ${seconds} s, while ${countOf(workerKills, 'worker was', 'workers were')} killed with kill -9.`,
  )
  terminal.print('')
  for (const [word, count, meaning] of [
    ['dispatched', dispatched, 'recorded as paid, under the rail’s own reference'],
    ['failed', failed, 'recorded as refused, and not paid'],
    ['held', held, 'outcome unknown; operators must decide'],
    ['rail effects', railEffects, 'payments in the rail’s own book'],
    ['paid twice', doublePaid, ''],
    ['lost', lost, ''],
    ['matched', matched, 'in the rail’s statement (camt.053), once and with the recorded amount'],
    ['findings', criticalFindings, 'critical differences between statement and ledger'],
  ] as const) {
    terminal.print(`${word.padStart(14)}  ${bold(String(count).padStart(8))}  ${terminal.colors.dim(meaning)}`)
  }
  if (leftBehind !== undefined) terminal.note(`The schema ${leftBehind} and a login of that name are still there.`)
}

/** Throws if the ledger and the rail book differ, so that the exit code is not 0. */
function requireSound({ result, audit, kept }: DemoOutcome, seed: string): void {
  if (kept === undefined) return
  const broken = audit.invariants
    .filter(({ ok }) => !ok)
    .map(({ id, sentence, found }) => `${id} ${sentence}: ${found.join(', ')}`)
  const { matched, dispatched, criticalFindings } = result
  const compared = `${matched} of ${dispatched} payments matched, ${criticalFindings} critical findings`
  throw new SymphonyError('DEMO_BOOKS_DIFFER', `Ledger and rail differ. ${[...broken, compared].join('; ')}`, {
    remedy: `Report this with the seed ${seed}. The evidence is in ${kept}.`,
  })
}
