import { Option, type Command } from 'commander'
import { InvalidArgumentError, parseTimestamp, SymphonyError } from '../../core/index.js'
import type { Database } from '../../db/index.js'
import {
  reconcile,
  parseStatementColumns,
  RECONCILE_TIMEOUT_MS,
  STATEMENT_FORMATS,
  type Reconciliation,
  type ReconcileOptions,
} from '../../reconciliation/index.js'
import { withTarget } from '../database/target.js'
import { openInput } from '../operator/openInput.js'
import { describeFinding } from '../operator/wording.js'
import { withProtection } from '../processes/rails.js'
import { addExamples, jsonOption, parseWholeNumber } from '../settings/options.js'
import { addSettings, resolveSettings, type GivenFlags } from '../settings/resolveSettings.js'
import { PROTECTION, TARGET } from '../settings/settings.js'
import { countOf, ProgressBar, type Cli } from '../terminal/Terminal.js'

const SETTINGS_TAKEN = [...TARGET, ...PROTECTION] as const

type ReconcileFlags = GivenFlags & { readonly settlementDays?: unknown }

export function registerReconcile(program: Command, cli: Cli): void {
  const command = addSettings(
    program
      .command('reconcile')
      .description(
        'compare a bank statement with the ledger of a rail; the same file and options again return the same run',
      ),
    SETTINGS_TAKEN,
  )
    .option('--rail <name>', 'rail whose payments the statement shows')
    .option('--statement <file>', 'statement of the bank; - for standard input; without it the rail lists its payments')
    .addOption(
      new Option(
        '--format <format>',
        'format of the statement; default by extension: .xml camt053, .csv, .ndjson',
      ).choices(STATEMENT_FORMATS),
    )
    .option('--account <id>', 'only statements of this account; account of entries that name none')
    .option('--columns <list>', 'columns of a CSV file: reference=…,amount=…,currency=…,date=…')
    .option('--decimal-comma', 'amounts of a CSV file have a decimal comma')
    .option('--date-format <format>', 'dates of a CSV file, such as DD.MM.YYYY')
    .option('--reference-pattern <regex>', 'finds the reference in free text; its first group, else the whole match')
    .option('--from <date>', 'start of the period, a day or a time; default: that of the statement')
    .option('--to <date>', 'end of the period, a day (included) or a time; default: that of the statement')
    .addOption(
      new Option('--settlement-days <n>', 'days until a statement must show a payment; default: the rail’s, or 1') //
        .argParser(parseWholeNumber),
    )
    .option('--keep-unknown', 'keep debits without a reference of ours; otherwise only their number and sum')
    .option('--dry-run', 'compare, and record nothing')
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action((flags: ReconcileFlags) => run(flags, cli))
  addExamples(
    command,
    'symphony reconcile --rail sepa --statement 2026-11-16.xml --format camt053',
    'symphony reconcile --rail sepa --statement book.csv --format csv --decimal-comma --date-format DD.MM.YYYY \\',
    '    --columns reference=Zweck,amount=Betrag,currency=Währung,date=Buchung --dry-run',
    'symphony reconcile --rail momo --rails ./rails.mjs --from 2026-11-16 --to 2026-11-16',
  )
}

const HELP = `
The exit code is 1 if statement and ledger differ: paid twice; paid, not recorded; recorded, not paid; another amount.
With --json it is 0 after every completed run.
Payments of a rail that encrypts amounts need --vault-keys. Without --statement, --rails must have the rail with its
listPayments.`

async function run(flags: ReconcileFlags, cli: Cli): Promise<void> {
  const options = optionsOf(flags, cli)
  const settings = await resolveSettings(SETTINGS_TAKEN, flags, cli)
  const limits = { statementTimeoutMs: RECONCILE_TIMEOUT_MS, lockTimeoutMs: RECONCILE_TIMEOUT_MS }
  const result = await withProtection(settings, ({ rails, vault }) => {
    const tools = { rail: rails.get(options.rail), vault }
    const body = (database: Database) => reconcile(database.as('symphony_control'), options, tools)
    return withTarget(settings, 'reconcile', body, limits)
  })
  // With --json, the caller reads the counts. Otherwise the exit code reports a difference.
  if (flags['json'] === true) return cli.terminal.printJson(result)
  printResult(result, cli)
  requireSound(result)
}

function optionsOf(flags: ReconcileFlags, cli: Cli): ReconcileOptions {
  const { rail, statement, account, columns, dateFormat, referencePattern, settlementDays } = flags
  if (typeof rail !== 'string') throw new InvalidArgumentError('--rail', 'expected the name of a rail')
  const format = STATEMENT_FORMATS.find((one) => one === flags['format']) ?? formatOf(statement)
  return {
    rail,
    ...(typeof statement === 'string' ? { statement: readFile(statement, cli) } : {}),
    ...(format === undefined ? {} : { format }),
    ...(typeof account === 'string' ? { account } : {}),
    ...(typeof columns === 'string' ? { columns: parseStatementColumns('--columns', columns) } : {}),
    ...(flags['decimalComma'] === true ? { decimal: ',' as const } : {}),
    ...(typeof dateFormat === 'string' ? { dateFormat } : {}),
    ...(typeof referencePattern === 'string' ? { referencePattern: parsePattern(referencePattern) } : {}),
    ...dayOf('from', flags),
    ...dayOf('to', flags),
    ...(typeof settlementDays === 'number' ? { settlementDays } : {}),
    keepUnknown: flags['keepUnknown'] === true,
    dryRun: flags['dryRun'] === true,
    signal: cli.signal,
  }
}

/** Returns the format by the extension of the file name; undefined for an unknown extension. */
function formatOf(statement: unknown): ReconcileOptions['format'] {
  const [, extension = ''] = /\.([a-z]+)$/i.exec(String(statement)) ?? []
  return FORMAT_OF_EXTENSION.get(extension.toLowerCase())
}

const FORMAT_OF_EXTENSION: ReadonlyMap<string, ReconcileOptions['format']> = new Map([
  ['xml', 'camt053'],
  ['csv', 'csv'],
  ['ndjson', 'ndjson'],
] as const)

function parsePattern(text: string): RegExp {
  try {
    return new RegExp(text, 'iu')
  } catch (error) {
    throw new InvalidArgumentError('--reference-pattern', `expected a regular expression: ${String(error)}`)
  }
}

/** Returns the time of an option. A day means its start for `--from` and its end for `--to`, in UTC. */
function dayOf<Name extends 'from' | 'to'>(name: Name, flags: GivenFlags): { readonly [Field in Name]?: Date } {
  const text = flags[name]
  if (typeof text !== 'string') return {}
  const isDay = /^\d{4}-\d{2}-\d{2}$/.test(text)
  const time = parseTimestamp(isDay ? `${text}T00:00:00Z` : text)
  if (time === undefined) {
    throw new InvalidArgumentError(
      `--${name}`,
      'expected a day such as 2026-01-31, or a time such as 2026-01-31T08:00:00Z',
    )
  }
  const moved = isDay && name === 'to' ? new Date(time.getTime() + DAY_MS) : time
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- TypeScript widens a computed key to string
  return { [name]: moved } as { readonly [Field in Name]?: Date }
}

const DAY_MS = 86_400_000

/** Yields the chunks of the `--statement` file and shows the progress. `-` reads standard input, without progress. */
async function* readFile(path: string, { terminal }: Cli): AsyncGenerator<Uint8Array> {
  if (path === '-') return yield* process.stdin
  const { handle, size } = await openInput(path)
  const bar = new ProgressBar(terminal, size)
  let bytes = 0
  try {
    for await (const chunk of handle.createReadStream({ highWaterMark: CHUNK_BYTES })) {
      yield chunk
      bytes += chunk.length
      bar.show(bytes, 'bytes read')
    }
  } finally {
    bar.clear()
  }
}

const CHUNK_BYTES = 1_048_576

function printResult(result: Reconciliation, { terminal }: Cli): void {
  const { runId, repeated, dryRun, railType, entries, periodFrom, periodTo, counts, otherRails, findings } = result
  const { bold, dim } = terminal.colors
  if (repeated) terminal.print(`This file was reconciled before. These are the results of that run.`)
  terminal.print(`${countOf(entries, 'entry', 'entries')} from ${periodFrom} to ${periodTo}, rail ${railType}.`)
  terminal.print('')
  for (const [word, count, meaning] of [
    ['matched', counts.matched, 'paid once, with the recorded amount'],
    ['paid twice', counts.paidTwice, 'two debits with one reference'],
    ['paid, not recorded', counts.paidNotRecorded, 'a debit, and the payment is failed, held or pending'],
    ['recorded, not paid', counts.recordedNotPaid, 'dispatched, and no debit'],
    ['amount differs', counts.amountDiffers, 'another amount or currency'],
    ['reversed', counts.reversed, 'the bank returned the money'],
    ['unknown entries', counts.unknownEntry, describeUnknown(result)],
    ...(otherRails === 0 ? [] : [['of other rails', otherRails, 'compare them with a run of that rail'] as const]),
  ] as const) {
    terminal.print(`${word.padStart(18)}  ${bold(String(count).padStart(8))}  ${dim(meaning)}`)
  }
  terminal.print('')
  for (const finding of findings.slice(0, SHOWN)) {
    for (const line of describeFinding(finding, terminal.colors)) terminal.print(line)
  }
  if (dryRun && runId === null) return terminal.print('Nothing was recorded. Repeat the command without --dry-run.')
  terminal.print(`Run ${runId}.`)
  if (findings.length === 0) return
  terminal.print(`Read all findings: symphony findings list --run ${runId}`)
  terminal.print('Close each when you know its cause: symphony findings close ID --reason "…"')
  if (findings.some(({ proposalId }) => proposalId !== null)) {
    terminal.print('For held payments that the bank paid, two people approve the proposal: symphony holds list')
  }
}

const SHOWN = 20

function describeUnknown({ unknownSums }: Reconciliation): string {
  const sums = Object.entries(unknownSums).map(([currency, sum]) => `${sum} ${currency}`.trim())
  return ['debits without a reference of ours', ...sums].join(', ')
}

/** Throws if statement and ledger differ, so that the exit code is not 0. */
function requireSound({ counts, runId }: Reconciliation): void {
  const { paidTwice, paidNotRecorded, recordedNotPaid, amountDiffers } = counts
  const differences = [
    [paidTwice, 'paid twice'],
    [paidNotRecorded, 'paid, not recorded'],
    [recordedNotPaid, 'recorded, not paid'],
    [amountDiffers, 'with another amount'],
  ].flatMap(([count, word]) => (count === 0 ? [] : [`${count} ${word}`]))
  if (differences.length === 0) return
  const list = `symphony findings list${runId === null ? '' : ` --run ${runId}`}`
  throw new SymphonyError('STATEMENT_DIFFERS', `Statement and ledger differ: ${differences.join('; ')}.`, {
    remedy: `Compare both sides of each finding (${list}), ask the bank, and close it with a reason.`,
  })
}
