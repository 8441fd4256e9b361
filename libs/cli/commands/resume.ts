import type { Command } from 'commander'
import { resumeOutbox, type PauseKind } from '../../outbox/index.js'
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

/** `symphony resume`: ends a pause. */
export function registerResume(program: Command, cli: Cli): void {
  addOperatorOptions(
    program.command('resume').description('end a pause').addArgument(pauseKindArgument()).argument('<name>'),
  )
    .addOption(reasonOption())
    .action((kind: PauseKind, name: string, flags: GivenFlags) => run(kind, name, flags, cli))
}

async function run(kind: PauseKind, name: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const changed = await asControl('resume', flags, cli, (control) => resumeOutbox(control, kind, name, reason))
  printResult({ kind, name, changed }, `The ${kind} ${name} ${changed ? 'goes on' : 'was not paused'}.`, flags, cli)
}
