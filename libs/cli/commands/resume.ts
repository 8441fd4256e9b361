import type { Command } from 'commander'
import { readPauses, readSkippedHead, resumeOutbox, type PauseKind, type SkippedHead } from '../../outbox/index.js'
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
    const skipped = kind === 'stream' ? await readSkippedHead(control, name) : undefined
    if (flags['dryRun'] === true) {
      const pause = (await readPauses(control)).find((one) => one.kind === kind && one.name === name)
      const sentence =
        pause === undefined
          ? `${subject} is not paused.`
          : `${subject} would go on; ${pause.pausedBy} paused it: ${pause.reason}${describeSkipped(skipped)}`
      return printResult({ kind, name, possible: pause !== undefined, skipped }, sentence, flags, cli)
    }
    const changed = await resumeOutbox(control, kind, name, reason)
    const sentence = changed ? `${subject} goes on.${describeSkipped(skipped)}` : `${subject} was not paused.`
    printResult({ kind, name, changed, skipped }, sentence, flags, cli)
  })
}

function describeSkipped(skipped: SkippedHead | undefined): string {
  if (skipped === undefined) return ''
  const { instructionId, outboxId, waiting } = skipped
  return ` ${instructionId} (${outboxId}) failed and was not redriven: it is left behind, and the ${waiting} behind it are sent without it.`
}
