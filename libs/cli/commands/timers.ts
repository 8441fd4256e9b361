import { Option, type Command } from 'commander'
import { cancelTimer, readTimers, WORK_STATES, type TimerStatus, type WorkState } from '../../scheduler/index.js'
import { addOperatorOptions, asControl, printResult } from '../operator/operator.js'
import { addExamples, parseWholeNumber } from '../settings/options.js'
import type { GivenFlags } from '../settings/resolveSettings.js'
import type { Cli } from '../terminal/Cli.js'

type ListFlags = GivenFlags & { readonly state?: WorkState; readonly topic?: string; readonly limit?: number }

/** `symphony timers`: what is to be done once, at a moment. Applications schedule it; an operator may call it off. */
export function registerTimers(program: Command, cli: Cli): void {
  const timers = program.command('timers').description('what is scheduled once').addHelpText('after', HELP)

  addOperatorOptions(
    addExamples(
      timers.command('list'),
      'symphony timers list --topic reminders --limit 100',
      'symphony timers list --state FAILED --json',
    ).description('timers, those due first at the top'),
  )
    .addOption(new Option('--state <state>', 'in this state (default: READY)').choices([...WORK_STATES]))
    .option('--topic <topic>', 'of this topic alone')
    .addOption(new Option('--limit <n>', 'so many (default: 20)').argParser(parseWholeNumber))
    .action((flags: ListFlags) => list(flags, cli))

  addOperatorOptions(
    addExamples(timers.command('cancel'), 'symphony timers cancel 0199c0de-0000-7000-8000-000000000000')
      .description('call a timer off, also one in somebody’s hands')
      .argument('<id>'),
  ).action((timerId: string, flags: GivenFlags) => cancel(timerId, flags, cli))
}

const HELP = `
A timer is scheduled by an application, in its own transaction, and becomes a message when it is due. The login needs the role
control.

Examples:
  symphony timers list --topic reminders --limit 100
  symphony timers list --state FAILED --json
  symphony timers cancel 0199c0de-0000-7000-8000-000000000000`

async function list(flags: ListFlags, cli: Cli): Promise<void> {
  const { state = 'READY', topic, limit = LISTED } = flags
  const timers = await asControl('timers', flags, cli, (control) =>
    readTimers(control, { state, limit, ...(topic === undefined ? {} : { topic }) }),
  )
  if (flags['json'] === true) return cli.terminal.printJson({ timers })
  if (timers.length === 0) cli.terminal.print(`There are no timers that are ${state}.`)
  for (const timer of timers) printTimer(timer, cli)
}

function printTimer(timer: TimerStatus, { terminal }: Cli): void {
  const { bold, dim } = terminal.colors
  const ended = timer.finishedAt === null ? '' : `, ended ${timer.finishedAt.toISOString()}`
  terminal.print(`${timer.dueAt.toISOString()} ${bold(timer.topic)} ${timer.state}${ended} ${dim(timer.timerId)}`)
  if (timer.error !== null) terminal.print(`  ${timer.error}`)
}

async function cancel(timerId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const cancelled = await asControl('timers', flags, cli, (control) => cancelTimer(control, timerId))
  const sentence = cancelled
    ? `The timer ${timerId} is cancelled.`
    : `There is nothing to cancel: the timer ${timerId} has ended, or never was.`
  printResult({ timerId, cancelled }, sentence, flags, cli)
}

const LISTED = 20
