import type { Command } from 'commander'
import { readFailedItems, type FailedItemView } from '../../outbox/index.js'
import type { Cli } from '../Cli.js'
import { describeMoney } from '../describeMoney.js'
import { addExamples } from '../examples.js'
import { addPaging, addSelection, requireKnownNames, selectionOf } from '../itemSelection.js'
import { addOperatorOptions, asControl } from '../operator.js'
import type { GivenFlags } from '../resolveSettings.js'

/** `symphony dlq`: payments that ended as FAILED. */
export function registerDlq(program: Command, cli: Cli): void {
  const dlq = program.command('dlq').description('payments that ended as FAILED')
  addExamples(dlq, 'symphony dlq list --rail sepa', 'symphony redrive 01981… --reason "the account was opened"')

  const list = addPaging(
    addSelection(addOperatorOptions(dlq.command('list').description('what has failed, the latest first, and why'))),
  )
    .option('--error-code <code>', 'with this error')
    .option('--open', 'only what was not sent again, and is not proposed to be')
    .action((flags: GivenFlags) => run(flags, cli))
  addExamples(
    list,
    'symphony dlq list --rail sepa --since 2026-01-31T08:00:00Z',
    'symphony dlq list --error-code NO_SUCH_ACCOUNT --open --json | jq -r .items[].outboxId',
  )
}

async function run(flags: GivenFlags, cli: Cli): Promise<void> {
  const search = { ...selectionOf(flags), undecided: flags['open'] === true }
  const { items: failed, next } = await asControl('dlq', flags, cli, async (control) =>
    requireKnownNames(control, search, await readFailedItems(control, search)),
  )
  const items = failed.map(listed)
  if (flags['json'] === true) return cli.terminal.printJson({ items, next })
  if (items.length === 0) cli.terminal.print('Nothing has failed, as far as was asked.')
  for (const item of items) print(item, cli)
  if (next !== null) cli.terminal.note(`There may be more: add --before ${next}`)
}

/** What the list says of each: its end, in the words of its last attempt, and what became of it since. */
function listed({ item, errorMessage, proposal, redrivenAs }: FailedItemView) {
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
    proposalId: proposal?.proposalId ?? null,
  }
}

function print(item: ReturnType<typeof listed>, { terminal }: Cli): void {
  const { bold, dim } = terminal.colors
  terminal.print(`${bold(item.outboxId)} ${item.instructionId} on ${item.railType}`)
  terminal.print(`  ${describeMoney(item)}`)
  const told = [item.errorCode, item.railCode, item.errorMessage].filter((word) => word !== null)
  const at = item.failedAt ?? 'an unknown time'
  terminal.print(`  ${dim('failed')} at ${at}, attempt ${item.attempts}: ${told.join(', ') || 'nothing was said'}`)
  if (item.redrivenAs !== null) terminal.print(`  ${dim('sent again')} as ${item.redrivenAs}`)
  else if (item.proposalId !== null)
    terminal.print(`  ${dim('to be sent again')}, if someone else agrees: symphony approve ${item.proposalId}`)
}
