import { Argument, type Command } from 'commander'
import { InvalidArgumentError } from '../../core/index.js'
import {
  pauseOutbox,
  readPauses,
  readSkippedHead,
  requireKnownName,
  resumeOutbox,
  type PauseKind,
  type SkippedHead,
} from '../../outbox/index.js'
import { addOperatorOptions, asControl, printResult, reasonOption, requiredReason } from '../operator/operator.js'
import { pauseSubject } from '../operator/wording.js'
import { addExamples } from '../settings/options.js'
import type { GivenFlags } from '../settings/resolveSettings.js'
import type { Cli } from '../terminal/Terminal.js'

export function registerPause(program: Command, cli: Cli): void {
  addOperatorOptions(
    addExamples(
      program.command('pause'),
      'symphony pause rail sepa --reason "the bank is closed until Monday"',
      'symphony pause participant acme --reason OPS-812 --dry-run',
      'symphony pause all --reason "reconciliation with the bank"',
    )
      .description('stop claims for a rail, a participant, an ordered stream or everything; calls in flight continue')
      .addArgument(pauseKindArgument())
      .addArgument(pauseNameArgument()),
  )
    .addOption(reasonOption())
    .option('--force', 'accept a name that the database does not know yet')
    .option('--dry-run', 'print what would happen; change nothing')
    .action((kind: PauseKind, name: string | undefined, flags: GivenFlags) =>
      runPause(kind, pauseName(kind, name), flags, cli),
    )
}

async function runPause(kind: PauseKind, name: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const subject = pauseSubject(kind, name)
  const scope =
    kind === 'stream' ? ` Only its ordered payments wait. To stop all of them: symphony pause participant ${name}` : ''
  await asControl('pause', flags, cli, async (control) => {
    if (flags['force'] !== true) await requireKnownName(control, kind, name)
    if (flags['dryRun'] === true) {
      const pauses = await readPauses(control)
      const possible = !pauses.some((pause) => pause.kind === kind && pause.name === name)
      const sentence = `${subject} ${possible ? 'would be paused; calls in flight would continue' : 'is paused already'}.${scope}`
      return printResult({ kind, name, possible }, sentence, flags, cli)
    }
    const changed = await pauseOutbox(control, kind, name, reason)
    const sentence = `${subject} ${changed ? 'is paused' : 'was paused already'}.${scope}`
    printResult({ kind, name, changed }, sentence, flags, cli)
  })
}

export function registerResume(program: Command, cli: Cli): void {
  addOperatorOptions(
    addExamples(
      program.command('resume'),
      'symphony resume rail sepa --reason "the bank is open again"',
      'symphony resume all --reason "ledger and bank statement agree"',
    )
      .description('end a pause')
      .addArgument(pauseKindArgument())
      .addArgument(pauseNameArgument()),
  )
    .addOption(reasonOption())
    .option('--dry-run', 'print what would happen; change nothing')
    .action((kind: PauseKind, name: string | undefined, flags: GivenFlags) =>
      runResume(kind, pauseName(kind, name), flags, cli),
    )
}

async function runResume(kind: PauseKind, name: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const subject = pauseSubject(kind, name)
  await asControl('resume', flags, cli, async (control) => {
    const skipped = kind === 'stream' ? await readSkippedHead(control, name) : undefined
    if (flags['dryRun'] === true) {
      const pause = (await readPauses(control)).find((one) => one.kind === kind && one.name === name)
      const sentence =
        pause === undefined
          ? `${subject} is not paused.`
          : `${subject} would be resumed; ${pause.pausedBy} paused it: ${pause.reason}${describeSkipped(skipped)}`
      return printResult({ kind, name, possible: pause !== undefined, skipped }, sentence, flags, cli)
    }
    const changed = await resumeOutbox(control, kind, name, reason)
    const sentence = changed ? `${subject} is resumed.${describeSkipped(skipped)}` : `${subject} was not paused.`
    printResult({ kind, name, changed, skipped }, sentence, flags, cli)
  })
}

function describeSkipped(skipped: SkippedHead | undefined): string {
  if (skipped === undefined) return ''
  const { instructionId, outboxId, waiting } = skipped
  return ` ${instructionId} (${outboxId}) failed and was not redriven: it is skipped, and the ${waiting} payments after it are sent without it.`
}

function pauseKindArgument(): Argument {
  return new Argument('<kind>', 'kind of pause').choices(['rail', 'participant', 'stream', 'all'])
}

function pauseNameArgument(): Argument {
  return new Argument('[name]', 'rail or participant; none for all')
}

function pauseName(kind: PauseKind, name: string | undefined): string {
  if (kind !== 'all' && name === undefined) throw new InvalidArgumentError('name', `expected the name of the ${kind}`)
  if (kind === 'all' && name !== undefined) throw new InvalidArgumentError('name', 'expected none for all')
  return name ?? 'all'
}
