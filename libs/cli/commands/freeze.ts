import type { Command } from 'commander'
import type { RoleHandle } from '../../db/index.js'
import {
  freezeDispatch,
  liftDispatchFreeze,
  readDispatchEpoch,
  readOutboxStatus,
  type DispatchEpoch,
} from '../../outbox/index.js'
import { addOperatorOptions, asControl, printResult, reasonOption, requiredReason } from '../operator/operator.js'
import { describeFreeze, describeMarks } from '../operator/wording.js'
import type { GivenFlags } from '../settings/resolveSettings.js'
import { countOf, type Cli } from '../terminal/Terminal.js'

export function registerFreeze(program: Command, cli: Cli): void {
  const freeze = program
    .command('freeze')
    .description('stop all dispatch after a restore, and resume it after a comparison with the rail')
    .addHelpText('after', HELP)

  addOperatorOptions(
    freeze.command('show').description('show whether dispatch is frozen, why, and on which server it runs'),
  )
    .addHelpText('after', '\nExamples:\n  symphony freeze show\n  symphony freeze show --json | jq .frozen')
    .action((flags: GivenFlags) => show(flags, cli))

  addOperatorOptions(
    freeze.command('place').description('freeze dispatch manually, after a restore that Symphony cannot detect'),
  )
    .addOption(reasonOption())
    .option('--dry-run', 'print what would happen; change nothing')
    .addHelpText(
      'after',
      '\nExamples:\n  symphony freeze place --reason "snapshot of 03:00 restored, workers were down"',
    )
    .action((flags: GivenFlags) => place(flags, cli))

  addOperatorOptions(
    freeze.command('lift').description('lift the freeze; the policy of each rail decides unknown outcomes'),
  )
    .addOption(reasonOption())
    .option('--dry-run', 'print what would happen; change nothing')
    .addHelpText('after', '\nExamples:\n  symphony freeze lift --reason "bank statement compared up to 11:40, OPS-812"')
    .action((flags: GivenFlags) => lift(flags, cli))
}

const HELP = `
During a freeze workers claim nothing and start no marked call. Enqueueing and completing items in flight continue.
The outcome of every pending payment becomes unknown: the payment is inquired about, resent or held, as its rail
declares. "symphony pause all" stops claims without marking payments.

Examples:
  symphony freeze show
  symphony freeze lift --reason "ledger and bank statement agree up to 11:40, OPS-812"`

async function show(flags: GivenFlags, cli: Cli): Promise<void> {
  const epoch = await asControl('freeze', flags, cli, readDispatchEpoch)
  if (flags['json'] === true) return cli.terminal.printJson(epoch ?? { frozen: false, epochNo: null })
  const { red, dim } = cli.terminal.colors
  const frozen = describeFreeze(epoch)
  if (frozen.length === 0) cli.terminal.print('Dispatch is open.')
  for (const [index, line] of frozen.entries()) cli.terminal.print(index === 0 ? red(line) : line)
  for (const [word, value] of epoch === undefined ? [] : factsOf(epoch)) {
    cli.terminal.print(`  ${dim(word.padEnd(18))} ${value}`)
  }
}

function factsOf(epoch: DispatchEpoch): readonly (readonly [string, string])[] {
  const { epochNo, beganAt, systemIdentifier, timeline, beatAt, synchronous, liftedAt, liftedBy, liftReason } = epoch
  return [
    ['epoch', `${epochNo}, since ${beganAt.toISOString()}`],
    [
      'system identifier',
      systemIdentifier === null ? 'withheld by the server: it cannot be compared' : `${systemIdentifier}`,
    ],
    ['timeline', timeline === null ? 'withheld by the server: it cannot be compared' : `${timeline}`],
    ['last heartbeat', `${beatAt.toISOString()}, replication ${synchronous ? 'synchronous' : 'not synchronous'}`],
    ...(liftedAt === null ? [] : [['last lifted', `${liftedAt.toISOString()} by ${liftedBy}: ${liftReason}`] as const]),
  ]
}

async function place(flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  await asControl('freeze', flags, cli, async (control) => {
    if (flags['dryRun'] === true) {
      const epoch = await readDispatchEpoch(control)
      const possible = epoch?.frozen !== true
      if (!possible) return printResult({ possible }, describeOlderFreeze(epoch), flags, cli)
      const { waiting, sentence } = await describeWaiting(control)
      return printResult({ possible, waiting }, `Dispatch would be frozen. ${sentence}`, flags, cli)
    }
    const changed = await freezeDispatch(control, reason)
    const epoch = await readDispatchEpoch(control)
    if (!changed) return printResult({ frozen: true, changed }, describeOlderFreeze(epoch), flags, cli)
    const { waiting, sentence } = await describeWaiting(control)
    // If a worker has already marked the pending payments, describes the marks instead of announcing them.
    const consequence = epoch === undefined || epoch.markedAt === null ? sentence : describeMarks(epoch)
    printResult({ frozen: true, changed, waiting }, `Dispatch is frozen. ${consequence}`, flags, cli)
  })
}

function describeOlderFreeze(epoch: DispatchEpoch | undefined): string {
  return `Dispatch was frozen already, since ${epoch?.frozenAt?.toISOString()}. Payments enqueued since then are not marked.
If you have restored the database since then: while all workers are stopped, lift that freeze and place another.`
}

/** Counts and describes the pending payments that a worker or the lift will mark as of unknown outcome. */
async function describeWaiting(control: RoleHandle): Promise<{ waiting: number; sentence: string }> {
  const { pendingCount, outcomeUnknownCount, countsAgeSeconds } = await readOutboxStatus(control)
  const waiting = Number(pendingCount - outcomeUnknownCount)
  // The counts of a large queue are stored, and may be some seconds old.
  const age = countsAgeSeconds < 1 ? '' : ` (counted ${Math.floor(countsAgeSeconds)} s ago)`
  const marked = `${countOf(waiting, 'pending payment')}${age}`
  const sentence = `A worker or the lift marks ${marked} as of unknown outcome: the rail may have paid.
After the lift, the policy of each rail decides: inquire, resend or hold.
To stop claims without such marks: symphony pause all --reason "…"`
  return { waiting, sentence }
}

async function lift(flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const body = async (control: RoleHandle) => {
    if (flags['dryRun'] === true) {
      const possible = (await readDispatchEpoch(control))?.frozen === true
      const sentence = possible
        ? 'The freeze would be lifted. Payments of unknown outcome would be inquired about, resent or held, as their rails declare.'
        : 'Dispatch is not frozen.'
      return printResult({ possible }, sentence, flags, cli)
    }
    const changed = await liftDispatchFreeze(control, reason)
    printResult(
      { frozen: false, changed },
      `Dispatch ${changed ? 'is no longer frozen' : 'was not frozen'}.`,
      flags,
      cli,
    )
  }
  await asControl('freeze', flags, cli, body, { statementTimeoutMs: LIFT_TIMEOUT_MS })
}

/** Timeout of the lift. The statement may first mark many millions of pending items. */
const LIFT_TIMEOUT_MS = 3_600_000
