import type { Command } from 'commander'
import { AppError } from '../../core/index.js'
import { approveOutboxProposal, readOpenProposals, withdrawOutboxProposal } from '../../outbox/index.js'
import type { Cli } from '../Cli.js'
import { addOperatorOptions, asControl, printResult, reasonOption, requiredReason } from '../operator.js'
import type { GivenFlags } from '../resolveSettings.js'

/** `symphony approve` and `symphony withdraw`: the second person. */
export function registerProposals(program: Command, cli: Cli): void {
  addOperatorOptions(
    program
      .command('approve')
      .description('approve a decision that someone else has proposed: what it says happens')
      .argument('<proposal-id>'),
  )
    .option('--dry-run', 'show the proposal, and change nothing')
    .action((id: string, flags: GivenFlags) => approve(id, flags, cli))

  addOperatorOptions(
    program
      .command('withdraw')
      .description('withdraw or refuse a proposed decision: the item stays as it is')
      .argument('<proposal-id>'),
  )
    .addOption(reasonOption())
    .action((id: string, flags: GivenFlags) => withdraw(id, flags, cli))
}

async function approve(proposalId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  await asControl('approve', flags, cli, async (control) => {
    if (flags['dryRun'] === true) {
      const proposal = (await readOpenProposals(control)).find((one) => one.proposalId === proposalId)
      if (proposal === undefined) {
        throw new AppError('PROPOSAL_NOT_FOUND', `There is no open proposal with the id ${proposalId}.`)
      }
      const { decision, outboxId, proposedBy, reason } = proposal
      return printResult(proposal, `${decision} of ${outboxId}, proposed by ${proposedBy}: ${reason}`, flags, cli)
    }
    const approved = await approveOutboxProposal(control, proposalId)
    const { decision, outboxId, redrivenAs } = approved
    const sentence =
      redrivenAs === null ? `${outboxId} is decided: ${decision}.` : `${outboxId} is sent again as ${redrivenAs}.`
    printResult({ proposalId, ...approved }, sentence, flags, cli)
  })
}

async function withdraw(proposalId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  await asControl('withdraw', flags, cli, (control) => withdrawOutboxProposal(control, proposalId, reason))
  printResult({ proposalId, withdrawn: true }, `The proposal ${proposalId} is withdrawn.`, flags, cli)
}
