import type { Command } from 'commander'
import { withdrawOutboxProposal } from '../../outbox/index.js'
import type { Cli } from '../Cli.js'
import { decideEachProposal } from '../decideEach.js'
import { addExamples } from '../examples.js'
import { addOperatorOptions, asControl, printResult, reasonOption, requiredReason } from '../operator.js'
import type { GivenFlags } from '../resolveSettings.js'

/** `symphony withdraw`: the proposer's second thought, or the second person's no. */
export function registerWithdraw(program: Command, cli: Cli): void {
  addOperatorOptions(
    addExamples(program.command('withdraw'), 'symphony withdraw 01981… --reason "it was paid after all"')
      .description('withdraw or refuse proposed decisions: the items stay as they are')
      .argument('<proposal-id...>'),
  )
    .addOption(reasonOption())
    .action((ids: readonly string[], flags: GivenFlags) => run(ids, flags, cli))
}

async function run(proposalIds: readonly string[], flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  await asControl('withdraw', flags, cli, (control) => {
    const withdraw = async (proposalId: string) => {
      await withdrawOutboxProposal(control, proposalId, reason)
      printResult({ proposalId, withdrawn: true }, `The proposal ${proposalId} is withdrawn.`, flags, cli)
    }
    return decideEachProposal(proposalIds, withdraw, 'WITHDRAW_REFUSED', flags, cli)
  })
}
