import { Argument, type Command } from 'commander'
import { pauseOutbox, resumeOutbox, type PauseKind } from '../../outbox/index.js'
import type { Cli } from '../Cli.js'
import { addOperatorOptions, asControl, printResult, reasonOption, requiredReason } from '../operator.js'
import type { GivenFlags } from '../resolveSettings.js'

/** `symphony pause` and `symphony resume`: keep a rail, a participant or a stream from being claimed. */
export function registerPauses(program: Command, cli: Cli): void {
  addOperatorOptions(
    program
      .command('pause')
      .description('claim nothing of a rail, a participant or an ordered stream; what is in flight goes on')
      .addArgument(kindArgument())
      .argument('<name>'),
  )
    .addOption(reasonOption())
    .action((kind: PauseKind, name: string, flags: GivenFlags) => pause(kind, name, flags, cli))

  addOperatorOptions(
    program.command('resume').description('end a pause').addArgument(kindArgument()).argument('<name>'),
  )
    .addOption(reasonOption())
    .action((kind: PauseKind, name: string, flags: GivenFlags) => resume(kind, name, flags, cli))
}

function kindArgument(): Argument {
  return new Argument('<kind>', 'what is paused').choices(['rail', 'participant', 'stream'])
}

async function pause(kind: PauseKind, name: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const changed = await asControl('pause', flags, cli, (control) => pauseOutbox(control, kind, name, reason))
  printResult({ kind, name, changed }, `The ${kind} ${name} ${changed ? 'is' : 'was already'} paused.`, flags, cli)
}

async function resume(kind: PauseKind, name: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const changed = await asControl('resume', flags, cli, (control) => resumeOutbox(control, kind, name, reason))
  printResult({ kind, name, changed }, `The ${kind} ${name} ${changed ? 'goes on' : 'was not paused'}.`, flags, cli)
}
