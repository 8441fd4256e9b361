import type { Command } from 'commander'
import { pauseOutbox, readPauses, requireKnownName, type PauseKind } from '../../outbox/index.js'
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

/** `symphony pause`: keeps a rail, a participant, a stream or everything from being claimed. */
export function registerPause(program: Command, cli: Cli): void {
  addOperatorOptions(
    addExamples(
      program.command('pause'),
      'symphony pause rail sepa --reason "the bank is closed until Monday"',
      'symphony pause participant acme --reason OPS-812 --dry-run',
      'symphony pause all --reason "reconciliation with the bank"',
    )
      .description('claim nothing of a rail, a participant, an ordered stream or at all; what is in flight goes on')
      .addArgument(pauseKindArgument())
      .addArgument(pauseNameArgument()),
  )
    .addOption(reasonOption())
    .option('--force', 'also a name that the database does not know yet')
    .option('--dry-run', 'say what would happen, and change nothing')
    .action((kind: PauseKind, name: string | undefined, flags: GivenFlags) =>
      run(kind, pauseName(kind, name), flags, cli),
    )
}

async function run(kind: PauseKind, name: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const subject = pauseSubject(kind, name)
  const scope =
    kind === 'stream' ? ` Only its ordered payments wait. To stop all of them: symphony pause participant ${name}` : ''
  await asControl('pause', flags, cli, async (control) => {
    if (flags['force'] !== true) await requireKnownName(control, kind, name)
    if (flags['dryRun'] === true) {
      const pauses = await readPauses(control)
      const possible = !pauses.some((pause) => pause.kind === kind && pause.name === name)
      const sentence = `${subject} ${possible ? 'would be paused; what is in flight would go on' : 'is paused already'}.${scope}`
      return printResult({ kind, name, possible }, sentence, flags, cli)
    }
    const changed = await pauseOutbox(control, kind, name, reason)
    const sentence = `${subject} ${changed ? 'is paused' : 'was paused already'}.${scope}`
    printResult({ kind, name, changed }, sentence, flags, cli)
  })
}
