import { rename, writeFile } from 'node:fs/promises'
import { Registry } from 'prom-client'
import { SymphonyError, InvalidArgumentError, systemClock } from '../../../core/index.js'
import { openLedger, type AuditReport, type Ledger } from '../../../ledger/index.js'
import { LedgerMetrics, type VerifiedLedger } from '../../../observability/index.js'
import { resolveSettings, type GivenFlags } from '../../settings/resolveSettings.js'
import { TARGET } from '../../settings/settings.js'
import { countOf, type Cli } from '../../terminal/Terminal.js'
import { checkpointsOf, readRailEffects, textFlag, withLedger, withProgress } from './withLedger.js'

export async function runVerify(flags: GivenFlags, cli: Cli): Promise<void> {
  const folder = textFlag(flags, 'export')
  const report = folder === undefined ? await verifyDatabase(flags, cli) : await verifyExport(folder, flags, cli)
  if (flags['json'] === true) cli.terminal.printJson(report)
  else printReport(report, cli)
  const textfile = textFlag(flags, 'textfile')
  const unwritten = textfile === undefined ? undefined : await writeTextfile(textfile, report)
  // A finding is more important than the file.
  if (unwritten !== undefined && !report.ok) cli.terminal.note(`${unwritten.message} ${messageOf(unwritten.cause)}`)
  requireSound(report)
  if (unwritten !== undefined) throw unwritten
}

async function verifyDatabase(flags: GivenFlags, cli: Cli): Promise<AuditReport> {
  const settings = await resolveSettings(TARGET, flags, cli)
  return withLedger(settings, async (ledger) => {
    const report = await audit(ledger, flags, cli)
    await record(ledger, report, cli)
    return report
  })
}

/**
 * Records the result, from which every process derives its alert. If recording fails, such as on a read-only standby,
 * the exit code stays the same.
 */
async function record(ledger: Ledger, report: AuditReport, { terminal }: Cli): Promise<void> {
  try {
    await ledger.record(report)
  } catch (error) {
    terminal.note(`The result is not recorded, so no alert shows it: ${messageOf(error)}`)
  }
}

async function verifyExport(exportFolder: string, flags: GivenFlags, cli: Cli): Promise<AuditReport> {
  // Checks the flag first, because reading the files may take minutes.
  if (flags['drained'] === true)
    throw new InvalidArgumentError('--drained', 'expected a database: an export has no queue')
  return audit(await openLedger({ exportFolder }), flags, cli)
}

async function audit(ledger: Ledger, flags: GivenFlags, cli: Cli): Promise<AuditReport> {
  const book = textFlag(flags, 'book')
  const options = {
    ...checkpointsOf(flags),
    ...(book === undefined ? {} : { effects: await readBookOf(book) }),
    drained: flags['drained'] === true,
  }
  return withProgress(cli, 'rows hashed again', (onProgress) => ledger.audit({ ...options, onProgress }))
}

async function readBookOf(file: string) {
  try {
    return await readRailEffects(file)
  } catch (error) {
    throw new SymphonyError('BOOK_UNREADABLE', `The rail book ${file} cannot be read.`, { cause: error })
  }
}

export function printReport(
  { counts, chain, invariants, railEffects, notJudged }: AuditReport,
  { terminal }: Cli,
): void {
  const { green, red, dim, yellow } = terminal.colors
  const { accepted, pending, held, dispatched, failed } = counts
  const waiting = pending === undefined ? 'the queue is not in an export' : `${pending} pending of which ${held} held`
  terminal.print(`${accepted} accepted: ${dispatched} dispatched, ${failed} failed, ${waiting}.`)
  terminal.print(
    `${chain.identities} identities, ${chain.attempts} attempts and ${chain.events} events were hashed again, and ` +
      `${countOf(chain.blocks, 'block')}: ${countOf(chain.breakCount, 'place does', 'places do')} not fit.`,
  )
  terminal.print(yellow(openWindow(chain)))
  if (invariants.some(({ id }) => id === 'I4')) terminal.print(`${railEffects} payments are in the rail book.`)
  for (const { id, sentence, ok, found } of invariants) {
    terminal.print(`${ok ? green('holds ') : red('BROKEN')} ${id.padEnd(3)} ${sentence}`)
    for (const one of found) terminal.print(`           ${dim(one)}`)
  }
  if (notJudged.length > 0) terminal.print(dim(`not checked: ${notJudged.join(', ')}`))
}

/** Describes the rows and blocks that could still be changed unnoticed, because no hash or checkpoint covers them. */
function openWindow({ openRows, openBlocks, checkpoints, blocks }: AuditReport['chain']): string {
  const rows = `Open window: ${countOf(openRows, 'row is', 'rows are')} in no block yet`
  if (blocks === 0) return `${rows}, and there is no block: whether rows are missing from the end cannot be seen.`
  if (checkpoints === 0) {
    return `${rows}; without checkpoints, a superuser could have rewritten all of ${countOf(blocks, 'block')}.`
  }
  return `${rows}; ${openBlocks} of ${countOf(blocks, 'block')} came after the last of ${countOf(checkpoints, 'checkpoint')}.`
}

/** Throws if a check failed, so that the exit code is not 0. */
function requireSound({ ok, invariants, chain }: AuditReport): void {
  if (ok) return
  const broken = invariants.filter((one) => !one.ok).map(({ id }) => id)
  throw new SymphonyError(
    'LEDGER_BROKEN',
    `The ledger failed verification: ${broken.join(', ')}; ${chain.breakCount} broken hashes.`,
    {
      remedy: 'Keep the database as it is and find out what wrote to it; the findings are listed above.',
    },
  )
}

/** Writes the metrics. Returns the error if the file cannot be written, so that the caller reports findings first. */
async function writeTextfile(file: string, { chain }: AuditReport): Promise<SymphonyError | undefined> {
  try {
    await writeLedgerMetrics(file, chain)
    return undefined
  } catch (error) {
    return new SymphonyError('TEXTFILE_UNWRITABLE', `The textfile ${file} cannot be written.`, {
      cause: error,
      remedy: 'Create its folder, give this user the right to write there, and free disk space; then verify again.',
    })
  }
}

/**
 * Writes metrics for the textfile collector of node_exporter, because Prometheus cannot scrape a finished job. The
 * rename is atomic: a reader sees the old or the new file.
 */
async function writeLedgerMetrics(file: string, found: VerifiedLedger): Promise<void> {
  const registry = new Registry()
  new LedgerMetrics(registry).onVerified(found, systemClock.now())
  await writeFile(`${file}.new`, await registry.metrics(), { mode: 0o644 })
  await rename(`${file}.new`, file)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
