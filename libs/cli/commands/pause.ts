import type { Command } from 'commander'
import { pauseOutbox, readPauses, type PauseKind } from '../../outbox/index.js'
import type { Cli } from '../Cli.js'
import { addExamples } from '../examples.js'
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
    addExamples(
      program.command('pause'),
      'symphony pause rail sepa --reason "the bank is closed until Monday"',
      'symphony pause participant acme --reason OPS-812 --dry-run',
    )
      .description('claim nothing of a rail, a participant or an ordered stream; what is in flight goes on')
      .addArgument(pauseKindArgument())
      .argument('<name>'),
  )
    .addOption(reasonOption())
    .option('--dry-run', 'say what would happen, and change nothing')
    .action((kind: PauseKind, name: string, flags: GivenFlags) => run(kind, name, flags, cli))
}

async function run(kind: PauseKind, name: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  await asControl('pause', flags, cli, async (control) => {
    if (flags['dryRun'] === true) {
      const pauses = await readPauses(control)
      const possible = !pauses.some((pause) => pause.kind === kind && pause.name === name)
      const sentence = `The ${kind} ${name} ${possible ? 'would be paused; what is in flight would go on' : 'is paused already'}.`
      return printResult({ kind, name, possible }, sentence, flags, cli)
    }
    const changed = await pauseOutbox(control, kind, name, reason)
    const sentence = `The ${kind} ${name} ${changed ? 'is paused' : 'was paused already'}.`
    printResult({ kind, name, changed }, sentence, flags, cli)
  })
}
