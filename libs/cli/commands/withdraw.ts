import type { Command } from 'commander'
import { withdrawOutboxProposal } from '../../outbox/index.js'
import type { Cli } from '../Cli.js'
import { addExamples } from '../examples.js'
import { addOperatorOptions, asControl, printResult, reasonOption, requiredReason } from '../operator.js'
import type { GivenFlags } from '../resolveSettings.js'

/** `symphony withdraw`: the proposer's second thought, or the second person's no. */
export function registerWithdraw(program: Command, cli: Cli): void {
  addOperatorOptions(
    addExamples(program.command('withdraw'), 'symphony withdraw 01981… --reason "it was paid after all"')
      .description('withdraw or refuse a proposed decision: the item stays as it is')
      .argument('<proposal-id>'),
  )
    .addOption(reasonOption())
    .action((id: string, flags: GivenFlags) => run(id, flags, cli))
}

async function run(proposalId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  await asControl('withdraw', flags, cli, (control) => withdrawOutboxProposal(control, proposalId, reason))
  printResult({ proposalId, withdrawn: true }, `The proposal ${proposalId} is withdrawn.`, flags, cli)
}
