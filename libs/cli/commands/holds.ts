import { Option, type Command } from 'commander'
import { AppError, InvalidArgumentError } from '../../core/index.js'
import type { RoleHandle } from '../../db/index.js'
import {
  placeOutboxHold,
  readHeldItems,
  readItems,
  readProposalPage,
  resolveOutboxHold,
  type HoldDecision,
  type HeldItemView,
  type ItemStatus,
  type ProposalView,
} from '../../outbox/index.js'
import type { Cli } from '../Cli.js'
import { describeMoney } from '../describeMoney.js'
import { addExamples } from '../examples.js'
import { addPaging, addSelection, selectionOf } from '../itemSelection.js'
import { addOperatorOptions, asControl, printResult, reasonOption, requiredReason } from '../operator.js'
import type { GivenFlags } from '../resolveSettings.js'

/** `symphony holds`: payments that wait for a person. */
export function registerHolds(program: Command, cli: Cli): void {
  const holds = program.command('holds').description('payments that wait for a person').addHelpText('after', HELP)

  addPaging(
    addSelection(
      addOperatorOptions(
        addExamples(holds.command('list'), 'symphony holds list --rail sepa', 'symphony holds list --json').description(
          'what is held, newest first, since when and why, and what is proposed',
        ),
      ),
    ),
  ).action((flags: GivenFlags) => list(flags, cli))

  addOperatorOptions(
    addExamples(holds.command('place'), 'symphony holds place 01981… --reason "the payee called"')
      .description('keep an item from being claimed')
      .argument('<outbox-id>'),
  )
    .addOption(reasonOption())
    .action((id: string, flags: GivenFlags) => place(id, flags, cli))

  addOperatorOptions(
    addExamples(
      holds.command('resolve'),
      'symphony holds resolve 01981… --decision failed --reason "not in the bank’s book" --dry-run',
      'symphony holds resolve 01981… --decision dispatched --rail-reference TX-17 --reason "seen in the report"',
    )
      .description('decide what becomes of a held item')
      .argument('<outbox-id>'),
  )
    .addOption(
      new Option('--decision <word>', 'dispatched: it was paid; failed: it was not; retry: send it again').choices([
        'dispatched',
        'failed',
        'retry',
      ]),
    )
    .addOption(reasonOption())
    .option('--rail-reference <text>', 'the reference under which the rail paid, with --decision dispatched')
    .option('--dry-run', 'say what would happen, and change nothing')
    .action((id: string, flags: GivenFlags) => resolve(id, flags, cli))
}

const HELP = `
A decision about money takes two people: one proposes it with "holds resolve", another approves it with
"symphony approve". Who acts is the login of --database-url. Only a retry where nothing is unknown is done at once.

Examples:
  symphony deploy --create-login alice=control --create-login bob=control
  symphony holds resolve 01981… --decision dispatched --rail-reference TX-17 --reason "seen in the bank's report"
  symphony approve 01981…`

async function list(flags: GivenFlags, cli: Cli): Promise<void> {
  const { items, next, proposals } = await asControl('holds', flags, cli, async (control) => ({
    ...(await readHeldItems(control, selectionOf(flags))),
    proposals: await readProposalPage(control, { status: 'OPEN', limit: PROPOSALS_LISTED }),
  }))
  // Proposals about what is not listed: redrives of items that have failed, above all.
  const others = proposals.filter(({ outboxId }) => !items.some(({ item }) => item.outboxId === outboxId))
  if (flags['json'] === true) {
    const held = items.map(({ item, proposal }) => ({ ...item, proposal }))
    return cli.terminal.printJson({ held, otherProposals: others, next })
  }
  if (items.length === 0) cli.terminal.print('Nothing is held.')
  for (const held of items) printHeld(held, cli)
  for (const proposal of others) cli.terminal.print(describeProposal(proposal))
  if (next !== null) cli.terminal.note(`There may be more: add --before ${next}`)
}

const PROPOSALS_LISTED = 1_000

function printHeld({ item, proposal }: HeldItemView, { terminal }: Cli): void {
  const { bold, dim } = terminal.colors
  const unknown = item.outcomeUnknown ? ', outcome unknown' : ''
  terminal.print(`${bold(item.outboxId)} ${item.instructionId} on ${item.railType}${unknown}`)
  terminal.print(`  ${describeMoney(item)}`)
  terminal.print(`  ${dim('held')} since ${item.heldAt} by ${item.heldBy}: ${item.holdReason}`)
  if (proposal !== null) terminal.print(`  ${describeProposal(proposal)}`)
}

function describeProposal(proposal: ProposalView): string {
  const { proposalId, outboxId, decision, proposedBy, reason } = proposal
  return `${decision} of ${outboxId} (${describeMoney(proposal)}) is proposed by ${proposedBy} (${reason}); someone else may: symphony approve ${proposalId}`
}

async function place(outboxId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const eventId = await asControl('holds', flags, cli, (control) => placeOutboxHold(control, outboxId, reason))
  printResult({ outboxId, eventId }, `${outboxId} is held.`, flags, cli)
}

async function resolve(outboxId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const decision = decisionOf(flags)
  const railReference = flags['railReference']
  await asControl('holds', flags, cli, async (control) => {
    if (flags['dryRun'] === true) return printPlan(await requiredItem(control, outboxId), decision, flags, cli)
    const result = await resolveOutboxHold(
      control,
      outboxId,
      decision,
      reason,
      typeof railReference === 'string' ? railReference : null,
    )
    const sentence =
      result.status === 'APPLIED'
        ? `The hold of ${outboxId} is lifted; it will be sent.`
        : `${decision} of ${outboxId} is proposed. Someone else must approve it: symphony approve ${result.proposalId}`
    printResult({ outboxId, decision, ...result }, sentence, flags, cli)
  })
}

function decisionOf({ decision }: GivenFlags): HoldDecision {
  const chosen = DECISIONS.find((word) => word.toLowerCase() === decision)
  if (chosen === undefined) throw new InvalidArgumentError('--decision', 'expected dispatched, failed or retry')
  return chosen
}

const DECISIONS: readonly HoldDecision[] = ['DISPATCHED', 'FAILED', 'RETRY']

async function requiredItem(control: RoleHandle, outboxId: string): Promise<ItemStatus> {
  const [item] = await readItems(control, { outboxId })
  if (item === undefined) throw new AppError('ITEM_NOT_FOUND', `There is no outbox item with the id ${outboxId}.`)
  return item
}

function printPlan(item: ItemStatus, decision: HoldDecision, flags: GivenFlags, cli: Cli): void {
  const { outboxId, state, outcomeUnknown } = item
  const possible = state === 'HELD'
  const secondPerson = decision !== 'RETRY' || outcomeUnknown
  const consequence = secondPerson ? 'a proposal that someone else must approve' : 'done at once'
  printResult(
    { outboxId, state, decision, possible, secondPerson },
    possible ? `${decision} of ${outboxId} would be ${consequence}.` : `${outboxId} is ${state}, not held.`,
    flags,
    cli,
  )
}
