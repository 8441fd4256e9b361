import { Option, type Command } from 'commander'
import {
  closeReconciliationFinding,
  FINDING_KINDS,
  FINDING_SEVERITIES,
  readFindings,
  readReconciliationRuns,
  type FindingSearch,
  type ReconciliationRun,
} from '../../reconciliation/index.js'
import {
  addOperatorOptions,
  addPaging,
  asControl,
  printAllRows,
  printResult,
  reasonOption,
  requiredReason,
} from '../operator/operator.js'
import { describeFinding } from '../operator/wording.js'
import { addExamples, parseWholeNumber } from '../settings/options.js'
import type { GivenFlags } from '../settings/resolveSettings.js'
import type { Cli } from '../terminal/Terminal.js'

export function registerFindings(program: Command, cli: Cli): void {
  const findings = program
    .command('findings')
    .description('differences that reconciliations found between bank statements and the ledger')
  addExamples(
    findings,
    'symphony findings list',
    'symphony findings close 01981… --reason "the bank refunded the second debit, OPS-812"',
  )

  const list = addListing(
    addOperatorOptions(findings.command('list').description('list findings with both sides, newest first')),
  )
    .addOption(
      new Option('--state <state>', 'findings in this state').choices(['open', 'closed', 'all']).default('open'),
    )
    .addOption(new Option('--kind <kind>', 'only findings of this kind').choices(FINDING_KINDS))
    .addOption(new Option('--severity <severity>', 'only findings of this severity').choices(FINDING_SEVERITIES))
    .option('--run <id>', 'only findings of this run')
    .action((flags: GivenFlags) => runList(flags, cli))
  addExamples(
    list,
    'symphony findings list --severity critical',
    'symphony findings list --run 01981… --state all --json',
  )

  const close = addOperatorOptions(
    findings
      .command('close')
      .description('close a finding whose cause is known; the finding and the payment stay as they are')
      .argument('<finding-id>'),
  )
    .addOption(reasonOption())
    .action((findingId: string, flags: GivenFlags) => runClose(findingId, flags, cli))
  addExamples(close, 'symphony findings close 01981… --reason "booked by the bank on the next day"')

  const runs = addListing(
    addOperatorOptions(findings.command('runs').description('list runs of symphony reconcile, newest first')),
  ).action((flags: GivenFlags) => runRuns(flags, cli))
  addExamples(runs, 'symphony findings runs --rail sepa --limit 1')
}

function addListing(command: Command): Command {
  return addPaging(command)
    .option('--rail <name>', 'only this rail')
    .addOption(
      new Option('--limit <n>', 'maximum number listed, up to 1000').argParser(parseWholeNumber).default(LISTED),
    )
}

async function runList(flags: GivenFlags, cli: Cli): Promise<void> {
  const { state, run } = flags
  const kind = FINDING_KINDS.find((one) => one === flags['kind'])
  const severity = FINDING_SEVERITIES.find((one) => one === flags['severity'])
  const search: FindingSearch = {
    ...pageOf(flags),
    ...(state === 'open' || state === 'closed' ? { state } : {}),
    ...(kind === undefined ? {} : { kind }),
    ...(severity === undefined ? {} : { severity }),
    ...(typeof run === 'string' ? { runId: run } : {}),
  }
  await asControl('findings', flags, cli, async (control) => {
    if (await printAllRows(flags, cli, (paging) => readFindings(control, { ...search, ...paging }))) return
    const page = await readFindings(control, search)
    if (flags['json'] === true) return cli.terminal.printJson(page)
    if (page.items.length === 0) cli.terminal.print('No finding matches.')
    for (const finding of page.items) {
      for (const line of describeFinding(finding, cli.terminal.colors)) cli.terminal.print(line)
    }
    if (page.next !== null) cli.terminal.note(`There may be more: add --before ${page.next}`)
  })
}

async function runClose(findingId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const eventId = await asControl('findings', flags, cli, (control) =>
    closeReconciliationFinding(control, findingId, reason),
  )
  printResult({ findingId, eventId }, `The finding ${findingId} is closed.`, flags, cli)
}

async function runRuns(flags: GivenFlags, cli: Cli): Promise<void> {
  const search = pageOf(flags)
  await asControl('findings', flags, cli, async (control) => {
    if (await printAllRows(flags, cli, (paging) => readReconciliationRuns(control, { ...search, ...paging }))) return
    const page = await readReconciliationRuns(control, search)
    if (flags['json'] === true) return cli.terminal.printJson(page)
    if (page.items.length === 0) cli.terminal.print('No statement was reconciled.')
    for (const run of page.items) printRun(run, cli)
    if (page.next !== null) cli.terminal.note(`There may be more: add --before ${page.next}`)
  })
}

function printRun({ runId, railType, periodFrom, periodTo, ...run }: ReconciliationRun, { terminal }: Cli): void {
  const { bold, dim } = terminal.colors
  const counts = Object.entries(run.counts).map(([name, count]) => `${name} ${count}`)
  terminal.print(`${bold(runId)} ${railType}, ${run.format}, ${run.entries} entries from ${periodFrom} to ${periodTo}`)
  terminal.print(`  ${counts.join(', ')}`)
  terminal.print(`  ${dim('recorded')} at ${run.createdAt} by ${run.actor}, SHA-256 of the file ${run.fileSha256}`)
}

function pageOf({ rail, before, limit }: GivenFlags & { readonly limit?: unknown }) {
  return {
    ...(typeof rail === 'string' ? { railType: rail } : {}),
    ...(typeof before === 'string' ? { before } : {}),
    limit: typeof limit === 'number' ? limit : LISTED,
  }
}

const LISTED = 100
