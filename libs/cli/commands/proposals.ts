import type { Command } from 'commander'
import { SymphonyError, type ErrorCode, InvalidArgumentError } from '../../core/index.js'
import { DatabaseError, type RoleHandle } from '../../db/index.js'
import {
  approveOutboxProposal,
  readItems,
  readProposal,
  withdrawOutboxProposal,
  type ApprovedProposal,
  type ItemStatus,
  type ProposalView,
} from '../../outbox/index.js'
import {
  addOperatorOptions,
  asControl,
  describeRefusedOf,
  printResult,
  reasonOption,
  requiredReason,
  tryOut,
} from '../operator/operator.js'
import { describeMoney } from '../operator/wording.js'
import { addExamples } from '../settings/options.js'
import type { GivenFlags } from '../settings/resolveSettings.js'
import type { Cli } from '../terminal/Terminal.js'

export function registerApprove(program: Command, cli: Cli): void {
  addOperatorOptions(
    addExamples(
      program.command('approve'),
      'symphony approve 01981… --dry-run',
      'symphony redrive --all-matching --rail sepa --reason OPS-812 --json | jq -r .proposed[].proposalId > proposals',
      'xargs symphony approve < proposals    # as someone else',
    )
      .description('approve decisions that someone else has proposed; prints each refused one and continues')
      .argument('<proposal-id...>'),
  )
    .option('--dry-run', 'print the payment, its hold, the proposal and its effect, or the refusal; change nothing')
    .action((ids: readonly string[], flags: GivenFlags) => runApprove(ids, flags, cli))
}

async function runApprove(proposalIds: readonly string[], flags: GivenFlags, cli: Cli): Promise<void> {
  await asControl('approve', flags, cli, (control) =>
    decideEachProposal(proposalIds, (id) => approve(control, id, flags, cli), 'APPROVE_REFUSED', flags, cli),
  )
}

async function approve(control: RoleHandle, proposalId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const isDryRun = flags['dryRun'] === true
  const proposal = isDryRun ? await requiredProposal(control, proposalId) : await readProposal(control, proposalId)
  // Reads the item before the approval, which ends the hold.
  const [item] = proposal === undefined ? [] : await readItems(control, { outboxId: proposal.outboxId })
  const payment = item === undefined ? '' : ` ${describePayment(item)}.`
  const facts = factsOf(item)
  if (isDryRun && proposal !== undefined) {
    const { decision, outboxId, proposedBy, reason } = proposal
    const { applied } = await tryOut(control, (tx) => approveOutboxProposal(tx, proposalId))
    const effect = applied
      ? effectOf(decision, item)
      : 'It would be approved once. A second person must approve it too.'
    const sentence = `${decision} of ${outboxId}, proposed by ${proposedBy}: ${reason}.${payment} ${effect}`
    return printResult({ ...proposal, ...facts, applied }, sentence, flags, cli)
  }
  const approved = await approveOutboxProposal(control, proposalId)
  printResult({ proposalId, ...approved, ...facts }, `${describeApproval(approved)}${payment}`, flags, cli)
}

function describeApproval({ decision, outboxId, redrivenAs, applied }: ApprovedProposal): string {
  if (!applied) return `${decision} of ${outboxId} is approved once. A second person must approve it too.`
  return redrivenAs === null ? `${outboxId} is decided: ${decision}.` : `${outboxId} is redriven as ${redrivenAs}.`
}

/** Returns a text such as `INV-1 on sepa: 12.50 EUR to ••••3000, outcome unknown, held by relayer: no answer`. */
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

function effectOf(decision: ProposalView['decision'], item: ItemStatus | undefined): string {
  const wasNeverSent = decision === 'RETRY' && item?.lastAttemptNo === null && !item.outcomeUnknown
  return wasNeverSent ? 'A worker would send it.' : EFFECTS[decision]
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
  throw new SymphonyError('PROPOSAL_NOT_FOUND', `There is no open proposal with the id ${proposalId}.`, {
    remedy: 'List the open proposals with symphony holds list.',
  })
}

export function registerWithdraw(program: Command, cli: Cli): void {
  addOperatorOptions(
    addExamples(program.command('withdraw'), 'symphony withdraw 01981… --reason "it was paid after all"')
      .description('withdraw or refuse proposed decisions; the items stay as they are')
      .argument('<proposal-id...>'),
  )
    .addOption(reasonOption())
    .action((ids: readonly string[], flags: GivenFlags) => runWithdraw(ids, flags, cli))
}

async function runWithdraw(proposalIds: readonly string[], flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  await asControl('withdraw', flags, cli, (control) => {
    const withdraw = async (proposalId: string) => {
      await withdrawOutboxProposal(control, proposalId, reason)
      printResult({ proposalId, withdrawn: true }, `The proposal ${proposalId} is withdrawn.`, flags, cli)
    }
    return decideEachProposal(proposalIds, withdraw, 'WITHDRAW_REFUSED', flags, cli)
  })
}

/**
 * Decides each proposal in a separate transaction. With several proposals, prints each refusal and continues. A
 * database fault or a signal ends the command after it prints the undecided ids.
 */
async function decideEachProposal(
  proposalIds: readonly string[],
  decide: (proposalId: string) => Promise<void>,
  code: ErrorCode,
  flags: GivenFlags,
  cli: Cli,
): Promise<void> {
  const ids = [...new Set(proposalIds)]
  let refused = 0
  for (const [index, proposalId] of ids.entries()) {
    try {
      cli.signal.throwIfAborted()
      await decide(proposalId)
    } catch (error) {
      if (ids.length === 1) throw error
      if (!isRefusal(error)) {
        cli.terminal.note(`No answer for: ${ids.slice(index).join(' ')}`)
        throw error
      }
      refused += 1
      const { code: reason, message } = error
      const sentence = `${proposalId} is refused: ${reason} ${message}`
      printResult({ proposalId, refused: { code: reason, message } }, sentence, flags, cli)
    }
  }
  if (refused === 0) return
  throw new SymphonyError(code, `${describeRefusedOf(refused, ids.length)}; the others are done.`, {
    remedy: 'Each refused id is named above with its reason.',
  })
}

/** Returns whether the error concerns one proposal: the database refused it, it is not open, or its id is malformed. */
function isRefusal(error: unknown): error is SymphonyError | InvalidArgumentError {
  if (error instanceof DatabaseError) return error.disposition === 'fatal'
  return (
    error instanceof InvalidArgumentError || (error instanceof SymphonyError && error.code === 'PROPOSAL_NOT_FOUND')
  )
}
