import type { Command } from 'commander'
import { readPauses, resumeOutbox, type PauseKind } from '../../outbox/index.js'
import type { Cli } from '../Cli.js'
import { addExamples } from '../examples.js'
import {
  addOperatorOptions,
  asControl,
  pauseKindArgument,
  pauseName,
  pauseNameArgument,
  pauseSubject,
  printResult,
  reasonOption,
  requiredReason,
} from '../operator.js'
import type { GivenFlags } from '../resolveSettings.js'

/** `symphony resume`: ends a pause. */
export function registerResume(program: Command, cli: Cli): void {
  addOperatorOptions(
    addExamples(
      program.command('resume'),
      'symphony resume rail sepa --reason "the bank is open again"',
      'symphony resume all --reason "the books agree"',
    )
      .description('end a pause')
      .addArgument(pauseKindArgument())
      .addArgument(pauseNameArgument()),
  )
    .addOption(reasonOption())
    .option('--dry-run', 'say what would happen, and change nothing')
    .action((kind: PauseKind, name: string | undefined, flags: GivenFlags) =>
      run(kind, pauseName(kind, name), flags, cli),
    )
}

async function run(kind: PauseKind, name: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const subject = pauseSubject(kind, name)
  await asControl('resume', flags, cli, async (control) => {
    if (flags['dryRun'] === true) {
      const pause = (await readPauses(control)).find((one) => one.kind === kind && one.name === name)
      const sentence =
        pause === undefined
          ? `${subject} is not paused.`
          : `${subject} would go on; ${pause.pausedBy} paused it: ${pause.reason}`
      return printResult({ kind, name, possible: pause !== undefined }, sentence, flags, cli)
    }
    const changed = await resumeOutbox(control, kind, name, reason)
    printResult({ kind, name, changed }, `${subject} ${changed ? 'goes on' : 'was not paused'}.`, flags, cli)
  })
}
