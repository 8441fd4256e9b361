import type { Command } from 'commander'
import { AppError } from '../../core/index.js'
import { audit, type AuditReport } from '../../ledger/index.js'
import type { Cli } from '../Cli.js'
import { jsonOption } from '../commonOptions.js'
import { addExamples } from '../examples.js'
import { withTarget } from '../openTarget.js'
import { addSettings, resolveSettings, type GivenFlags } from '../resolveSettings.js'
import { TARGET } from '../settings.js'
import { writeLedgerMetrics } from '../writeLedgerMetrics.js'

/** `symphony ledger`: for auditors. */
export function registerLedger(program: Command, cli: Cli): void {
  const ledger = addExamples(program.command('ledger'), 'symphony ledger verify --json').description(
    'the ledger, for auditors',
  )
  addSettings(
    ledger
      .command('verify')
      .description('recompute the hash chain and check what must always hold, against the rail’s book if it is given'),
    TARGET,
  )
    .option('--book <file>', 'the book of a simulated rail; without it I3, I4 and I5 cannot be judged')
    .option('--drained', 'check also that nothing but held items is left (I10)')
    .option(
      '--textfile <file>',
      'write the number of broken hashes as a metric, for node_exporter’s textfile collector',
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
The login must be a member of symphony_auditor. The exit code is 1 if anything does not hold.

Examples:
  symphony ledger verify
  symphony ledger verify --book .symphony/rail-book.ndjson --json`,
    )
    .action((flags: GivenFlags) => verify(flags, cli))
}

async function verify(flags: GivenFlags, cli: Cli): Promise<void> {
  const { book } = flags
  const settings = await resolveSettings(TARGET, flags, cli)
  const effects = typeof book === 'string' ? await readBookOf(book) : undefined
  const report = await withTarget(settings, 'ledger', (database) =>
    audit(database.as('symphony_auditor'), {
      ...(effects === undefined ? {} : { effects }),
      drained: flags['drained'] === true,
    }),
  )
  if (typeof flags['textfile'] === 'string') await writeLedgerMetrics(flags['textfile'], report.chain)
  if (flags['json'] === true) cli.terminal.printJson(report)
  else printReport(report, cli)
  requireSound(report)
}

async function readBookOf(file: string) {
  const { readEffects } = await import('../readEffects.js')
  try {
    return await readEffects(file)
  } catch (error) {
    throw new AppError('BOOK_UNREADABLE', `The rail’s book ${file} cannot be read.`, { cause: error })
  }
}

function printReport({ counts, chain, invariants, railEffects }: AuditReport, { terminal }: Cli): void {
  const { green, red, dim } = terminal.colors
  const { accepted, pending, held, dispatched, failed } = counts
  terminal.print(
    `${accepted} accepted: ${dispatched} dispatched, ${failed} failed, ${pending} pending of which ${held} held.`,
  )
  terminal.print(
    `${chain.identities} identities, ${chain.attempts} attempts and ${chain.events} events were hashed again: ` +
      `${chain.breakCount} do not fit.`,
  )
  if (invariants.some(({ id }) => id === 'I4')) terminal.print(`${railEffects} payments are in the rail’s book.`)
  for (const { id, sentence, ok, found } of invariants) {
    terminal.print(`${ok ? green('holds ') : red('BROKEN')} ${id.padEnd(3)} ${sentence}`)
    for (const one of found) terminal.print(`           ${dim(one)}`)
  }
}

/** The verdicts were printed; this makes the shell see them. */
function requireSound({ ok, invariants, chain }: AuditReport): void {
  if (ok) return
  const broken = invariants.filter((one) => !one.ok).map(({ id }) => id)
  throw new AppError(
    'LEDGER_BROKEN',
    `The ledger does not hold: ${broken.join(', ')}; ${chain.breakCount} broken hashes.`,
    {
      remedy: 'Keep the database as it is and find out what wrote to it; what was found is listed above.',
    },
  )
}
