import type { Command } from 'commander'
import { AppError } from '../../core/index.js'
import type { RoleHandle } from '../../db/index.js'
import { approveOutboxProposal, readProposal, type ProposalView } from '../../outbox/index.js'
import type { Cli } from '../Cli.js'
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
      .description('approve decisions that someone else has proposed: what they say happens')
      .argument('<proposal-id...>'),
  )
    .option('--dry-run', 'show the proposal, and change nothing')
    .action((ids: readonly string[], flags: GivenFlags) => run(ids, flags, cli))
}

/** One after the other, each for itself: the first that is refused ends it, and those before are done. */
async function run(proposalIds: readonly string[], flags: GivenFlags, cli: Cli): Promise<void> {
  await asControl('approve', flags, cli, async (control) => {
    for (const proposalId of proposalIds) await approve(control, proposalId, flags, cli)
  })
}

async function approve(control: RoleHandle, proposalId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  if (flags['dryRun'] === true) {
    const proposal = await requiredProposal(control, proposalId)
    const { decision, outboxId, proposedBy, reason } = proposal
    const sentence = `${decision} of ${outboxId}, ${describeMoney(proposal)}, proposed by ${proposedBy}: ${reason}`
    return printResult(proposal, sentence, flags, cli)
  }
  const approved = await approveOutboxProposal(control, proposalId)
  const { decision, outboxId, redrivenAs } = approved
  const sentence =
    redrivenAs === null ? `${outboxId} is decided: ${decision}.` : `${outboxId} is sent again as ${redrivenAs}.`
  printResult({ proposalId, ...approved }, sentence, flags, cli)
}

async function requiredProposal(control: RoleHandle, proposalId: string): Promise<ProposalView> {
  const proposal = await readProposal(control, proposalId)
  if (proposal?.status === 'OPEN') return proposal
  throw new AppError('PROPOSAL_NOT_FOUND', `There is no open proposal with the id ${proposalId}.`, {
    remedy: 'symphony holds list shows those that are open.',
  })
}
