import type { Command } from 'commander'
import { InvalidArgumentError } from '../../core/index.js'
import type { RoleHandle } from '../../db/index.js'
import { readFailedItems, redriveOutboxItem, type FailedItemView } from '../../outbox/index.js'
import {
  addOperatorOptions,
  addPaging,
  addSelection,
  asControl,
  decideEach,
  describeRefusals,
  hasFilter,
  printAllRows,
  printResult,
  readSelected,
  reasonOption,
  refuseFilters,
  requiredReason,
  requireKnownNames,
  requireNoRefusal,
  selectionOf,
  tryOut,
} from '../operator/operator.js'
import { describeMoney } from '../operator/wording.js'
import { addExamples } from '../settings/options.js'
import type { GivenFlags } from '../settings/resolveSettings.js'
import { countOf, type Cli } from '../terminal/Terminal.js'

export function registerDlq(program: Command, cli: Cli): void {
  const dlq = program.command('dlq').description('payments that ended as FAILED')
  addExamples(dlq, 'symphony dlq list --rail sepa', 'symphony redrive 01981… --reason "the account was opened"')

  const list = addPaging(
    addSelection(
      addOperatorOptions(dlq.command('list').description('list failed payments and their errors, newest first')),
    ),
  )
    .option('--error-code <code>', 'only payments with this error code')
    .option('--open', 'only payments without a redrive and without an open proposal')
    .action((flags: GivenFlags) => runList(flags, cli))
  addExamples(
    list,
    'symphony dlq list --rail sepa --since 2026-01-31T08:00:00Z',
    'symphony dlq list --error-code NO_SUCH_ACCOUNT --open --json | jq -r .items[].outboxId',
    'symphony dlq list --rail sepa --format csv > failed.csv',
  )
}

async function runList(flags: GivenFlags, cli: Cli): Promise<void> {
  const search = { ...selectionOf(flags), undecided: flags['open'] === true }
  await asControl('dlq', flags, cli, async (control) => {
    const read = async (paging: object = {}) => {
      const { items: failed, next } = await readFailedItems(control, { ...search, ...paging })
      return { items: failed.map(listed), next }
    }
    if (await printAllRows(flags, cli, read)) return
    const { items, next } = await requireKnownNames(control, search, await read())
    if (flags['json'] === true) return cli.terminal.printJson({ items, next })
    if (items.length === 0) cli.terminal.print('No failed payment matches.')
    for (const item of items) print(item, cli)
    if (next !== null) cli.terminal.note(`There may be more: add --before ${next}`)
  })
}

function listed({ item, errorMessage, proposal, redrivenAs, replacedBy }: FailedItemView) {
  const { outboxId, instructionId, idempotencyKey, participantId, sequenceId, railType } = item
  return {
    outboxId,
    instructionId,
    idempotencyKey,
    participantId,
    sequenceId,
    railType,
    amount: item.amount,
    currency: item.currency,
    destination: item.destination,
    destinationWithheld: item.destinationWithheld,
    attempts: item.lastAttemptNo,
    errorCode: item.lastErrorCode,
    errorMessage,
    railCode: item.lastRailCode,
    failedAt: item.lastAttemptAt,
    redrivenAs: redrivenAs.at(-1) ?? null,
    replacedBy,
    proposalId: proposal?.proposalId ?? null,
  }
}

function print(item: ReturnType<typeof listed>, { terminal }: Cli): void {
  const { bold, dim } = terminal.colors
  terminal.print(`${bold(item.outboxId)} ${item.instructionId} on ${item.railType}`)
  terminal.print(`  ${describeMoney(item)}`)
  const details = [item.errorCode, item.railCode, item.errorMessage].filter((word) => word !== null)
  const at = item.failedAt ?? 'an unknown time'
  terminal.print(`  ${dim('failed')} at ${at}, attempt ${item.attempts}: ${details.join(', ') || 'no details'}`)
  if (item.replacedBy !== null) terminal.print(`  ${dim('replaced')} by ${item.replacedBy}`)
  if (item.redrivenAs !== null) terminal.print(`  ${dim('redriven')} as ${item.redrivenAs}`)
  else if (item.proposalId !== null)
    terminal.print(`  ${dim('redrive proposed')}; someone else must approve it: symphony approve ${item.proposalId}`)
}

export function registerRedrive(program: Command, cli: Cli): void {
  const command = addSelection(
    addOperatorOptions(
      program
        .command('redrive')
        .description('propose to send a failed payment again, as a new item; someone else must approve it')
        .argument('[outbox-id]'),
    ),
  )
    .option('--error-code <code>', 'only payments with this error code')
    .option(
      '--all-matching',
      'the newest failed payments that the options select, without a redrive, replacement or open proposal; at most --limit',
    )
    .addOption(reasonOption())
    .option('--dry-run', 'propose it in a transaction that is rolled back; needs no --reason')
    .action((id: string | undefined, flags: GivenFlags) => runRedrive(id, flags, cli))
  command.addHelpText(
    'after',
    `
A failed payment of a halted ordered stream keeps its place: redrive it, have the redrive approved, then run
"symphony resume stream PARTICIPANT". The redrive is refused once a later payment of the stream was sent.`,
  )
  addExamples(
    command,
    'symphony redrive 01981… --reason "the account was opened"',
    'symphony redrive --all-matching --rail sepa --error-code CLOSED --dry-run',
    'symphony redrive --all-matching --rail sepa --error-code CLOSED --reason OPS-812 --json | jq -r .proposed[].proposalId',
  )
}

async function runRedrive(outboxId: string | undefined, flags: GivenFlags, cli: Cli): Promise<void> {
  if ((outboxId === undefined) === (flags['allMatching'] !== true)) {
    throw new InvalidArgumentError(
      'outbox-id',
      'expected the id of one failed payment, or --all-matching instead of it',
    )
  }
  if (outboxId !== undefined) refuseFilters(flags)
  await asControl('redrive', flags, cli, (control) =>
    outboxId === undefined ? redriveAll(control, flags, cli) : redriveOne(control, outboxId, flags, cli),
  )
}

async function redriveOne(control: RoleHandle, outboxId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  if (flags['dryRun'] === true) {
    await tryOut(control, (tx) => redriveOutboxItem(tx, outboxId, DRY_RUN_REASON))
    const sentence = `A redrive of ${outboxId} would be proposed; someone else must approve it.`
    return printResult({ outboxId, possible: true, secondPerson: true }, sentence, flags, cli)
  }
  const { proposalId } = await redriveOutboxItem(control, outboxId, requiredReason(flags))
  const sentence = `A redrive of ${outboxId} is proposed. Someone else must approve it: symphony approve ${proposalId}`
  printResult({ outboxId, status: 'PROPOSED', proposalId }, sentence, flags, cli)
}

/** Reason of a redrive that is rolled back. */
const DRY_RUN_REASON = 'dry run'

async function redriveAll(control: RoleHandle, flags: GivenFlags, cli: Cli): Promise<void> {
  const search = selectionOf(flags)
  if (!hasFilter(search)) {
    throw new InvalidArgumentError(
      '--all-matching',
      'expected at least one filter: --rail, --participant, --error-code, --since or --until',
    )
  }
  const found = await readSelected(search, (page) => readFailedItems(control, { ...page, undecided: true }), cli)
  const { items: failed, next } = await requireKnownNames(control, search, found)
  const outboxIds = failed.map(({ item }) => item.outboxId)
  const more = next === null ? '' : ' These are the newest; run it again for the others, or raise --limit.'
  if (flags['dryRun'] === true) {
    const trial = (outboxId: string) => tryOut(control, (tx) => redriveOutboxItem(tx, outboxId, DRY_RUN_REASON))
    const tried = await decideEach(outboxIds, trial, cli)
    const possible = tried.done.map(({ outboxId }) => outboxId)
    const counted = `${countOf(possible.length, 'redrive')} would be proposed.${more}`
    const result = { outboxIds: possible, refused: tried.refused, more: next !== null, secondPerson: true }
    printResult(result, [...possible, ...describeRefusals(tried), counted].join('\n'), flags, cli)
    return requireNoRefusal('REDRIVE_REFUSED', tried)
  }
  const reason = requiredReason(flags)
  const decided = await decideEach(outboxIds, (outboxId) => redriveOutboxItem(control, outboxId, reason), cli)
  const proposed = decided.done.map(({ outboxId, proposalId }) => ({ outboxId, proposalId }))
  const lines = [
    ...proposed.map(({ outboxId, proposalId }) => `${outboxId}: symphony approve ${proposalId}`),
    ...describeRefusals(decided),
    `${proposed.length} redrives are proposed; someone else must approve them.${more}`,
  ]
  printResult({ proposed, refused: decided.refused, more: next !== null }, lines.join('\n'), flags, cli)
  requireNoRefusal('REDRIVE_REFUSED', decided)
}
