import type { Command } from 'commander'
import { AppError } from '../../core/index.js'
import type { RoleHandle } from '../../db/index.js'
import {
  approveOutboxProposal,
  readItems,
  readProposal,
  type ItemStatus,
  type ProposalView,
} from '../../outbox/index.js'
import type { Cli } from '../Cli.js'
import { decideEachProposal } from '../decideEach.js'
import { describeMoney } from '../describeMoney.js'
import { addExamples } from '../examples.js'
import { addOperatorOptions, asControl, printResult } from '../operator.js'
import type { GivenFlags } from '../resolveSettings.js'

/** `symphony approve`: the second person's yes. */
export function registerApprove(program: Command, cli: Cli): void {
  addOperatorOptions(
    addExamples(
      program.command('approve'),
      'symphony approve 01981… --dry-run',
      'symphony redrive --all-matching --rail sepa --reason OPS-812 --json | jq -r .proposed[].proposalId > proposals',
      'xargs symphony approve < proposals    # as someone else',
    )
      .description('approve decisions that someone else has proposed; a refused one is named, and the others go on')
      .argument('<proposal-id...>'),
  )
    .option('--dry-run', 'show the payment, its hold, the proposal and its effect, and change nothing')
    .action((ids: readonly string[], flags: GivenFlags) => run(ids, flags, cli))
}

async function run(proposalIds: readonly string[], flags: GivenFlags, cli: Cli): Promise<void> {
  await asControl('approve', flags, cli, (control) =>
    decideEachProposal(proposalIds, (id) => approve(control, id, flags, cli), 'APPROVE_REFUSED', flags, cli),
  )
}

async function approve(control: RoleHandle, proposalId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const isDryRun = flags['dryRun'] === true
  const proposal = isDryRun ? await requiredProposal(control, proposalId) : await readProposal(control, proposalId)
  // Before the approval, which ends the hold.
  const [item] = proposal === undefined ? [] : await readItems(control, { outboxId: proposal.outboxId })
  const payment = item === undefined ? '' : ` ${describePayment(item)}.`
  const facts = factsOf(item)
  if (isDryRun && proposal !== undefined) {
    const { decision, outboxId, proposedBy, reason } = proposal
    const sentence = `${decision} of ${outboxId}, proposed by ${proposedBy}: ${reason}.${payment} ${EFFECTS[decision]}`
    return printResult({ ...proposal, ...facts }, sentence, flags, cli)
  }
  const approved = await approveOutboxProposal(control, proposalId)
  const { decision, outboxId, redrivenAs } = approved
  const sentence =
    redrivenAs === null ? `${outboxId} is decided: ${decision}.` : `${outboxId} is sent again as ${redrivenAs}.`
  printResult({ proposalId, ...approved, ...facts }, `${sentence}${payment}`, flags, cli)
}

/** `INV-1 on sepa: 12.50 EUR to ••••3000, outcome unknown, held by relayer: no answer` */
function describePayment(item: ItemStatus): string {
  const unknown = item.outcomeUnknown ? ', outcome unknown' : ''
  const held = item.holdReason === null ? '' : `, held by ${item.heldBy}: ${item.holdReason}`
  return `${item.instructionId} on ${item.railType}: ${describeMoney(item)}${unknown}${held}`
}

function factsOf(item: ItemStatus | undefined): object {
  if (item === undefined) return {}
  const { instructionId, railType, outcomeUnknown, holdReason } = item
  return { instructionId, railType, outcomeUnknown, holdReason }
}

const EFFECTS: Readonly<Record<ProposalView['decision'], string>> = {
  RETRY: 'A worker would send it again. If the rail has paid it already, it pays twice.',
  REDRIVE: 'A worker would send it again, as a new payment. If the rail has paid it already, it pays twice.',
  DISPATCHED: 'It would end as dispatched. Nothing is sent.',
  FAILED: 'It would end as failed. Nothing is sent.',
}

async function requiredProposal(control: RoleHandle, proposalId: string): Promise<ProposalView> {
  const proposal = await readProposal(control, proposalId)
  if (proposal?.status === 'OPEN') return proposal
  throw new AppError('PROPOSAL_NOT_FOUND', `There is no open proposal with the id ${proposalId}.`, {
    remedy: 'symphony holds list shows those that are open.',
  })
}
