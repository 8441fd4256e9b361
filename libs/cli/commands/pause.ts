import type { Command } from 'commander'
import { pauseOutbox, type PauseKind } from '../../outbox/index.js'
import type { Cli } from '../Cli.js'
import {
  addOperatorOptions,
  asControl,
  pauseKindArgument,
  printResult,
  reasonOption,
  requiredReason,
} from '../operator.js'
import type { GivenFlags } from '../resolveSettings.js'

/** `symphony pause`: keeps a rail, a participant or a stream from being claimed. */
export function registerPause(program: Command, cli: Cli): void {
  addOperatorOptions(
    program
      .command('pause')
      .description('claim nothing of a rail, a participant or an ordered stream; what is in flight goes on')
      .addArgument(pauseKindArgument())
      .argument('<name>'),
  )
    .addOption(reasonOption())
    .action((kind: PauseKind, name: string, flags: GivenFlags) => run(kind, name, flags, cli))
}

async function run(kind: PauseKind, name: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const changed = await asControl('pause', flags, cli, (control) => pauseOutbox(control, kind, name, reason))
  printResult(
    { kind, name, changed },
    `The ${kind} ${name} ${changed ? 'is paused' : 'was paused already'}.`,
    flags,
    cli,
  )
}
