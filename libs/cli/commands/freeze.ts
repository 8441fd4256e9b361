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

/** `symphony freeze`: after a restore or a failover nothing is sent until a person has looked. */
export function registerFreeze(program: Command, cli: Cli): void {
  const freeze = program
    .command('freeze')
    .description('stop all dispatch after a restore, and let it go on when the books agree')
    .addHelpText('after', HELP)

  addOperatorOptions(
    freeze.command('show').description('whether dispatch is frozen, why, and on which server the work goes on'),
  )
    .addHelpText('after', '\nExamples:\n  symphony freeze show\n  symphony freeze show --json | jq .frozen')
    .action((flags: GivenFlags) => show(flags, cli))

  addOperatorOptions(
    freeze.command('place').description('freeze dispatch by hand, after a restore that nothing else can notice'),
  )
    .addOption(reasonOption())
    .option('--dry-run', 'say what would happen, and change nothing')
    .addHelpText(
      'after',
      '\nExamples:\n  symphony freeze place --reason "snapshot of 03:00 restored, workers were down"',
    )
    .action((flags: GivenFlags) => place(flags, cli))

  addOperatorOptions(freeze.command('lift').description('let dispatch go on; what is unknown is decided by its rail'))
    .addOption(reasonOption())
    .option('--dry-run', 'say what would happen, and change nothing')
    .addHelpText('after', '\nExamples:\n  symphony freeze lift --reason "bank statement compared up to 11:40, OPS-812"')
    .action((flags: GivenFlags) => lift(flags, cli))
}

const HELP = `
Frozen means: nothing is claimed and no marked call begins. Enqueueing, and recording what is in flight, go on.
Every payment that waited is of unknown outcome then: it is asked about, sent again or held, as its rail declares.
"symphony pause all" stops claims without marking payments.

Examples:
  symphony freeze show
  symphony freeze lift --reason "both books agree up to 11:40, OPS-812"`

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
      const possible = (await readDispatchEpoch(control))?.frozen !== true
      if (!possible) return printResult({ possible }, 'Dispatch is frozen already.', flags, cli)
      const waiting = await countUnmarked(control)
      return printResult({ possible, waiting }, `Dispatch would be frozen. ${describeWaiting(waiting)}`, flags, cli)
    }
    const changed = await freezeDispatch(control, reason)
    if (!changed) return printResult({ frozen: true, changed }, 'Dispatch was frozen already.', flags, cli)
    const waiting = await countUnmarked(control)
    const epoch = await readDispatchEpoch(control)
    // A worker may have marked them since.
    const sentence = epoch === undefined || epoch.markedAt === null ? describeWaiting(waiting) : describeMarks(epoch)
    printResult({ frozen: true, changed, waiting }, `Dispatch is frozen. ${sentence}`, flags, cli)
  })
}

/** Payments that wait and are not of unknown outcome: those that a freeze marks. */
async function countUnmarked(control: RoleHandle): Promise<number> {
  const { pendingCount, outcomeUnknownCount } = await readOutboxStatus(control)
  return Number(pendingCount - outcomeUnknownCount)
}

function describeWaiting(waiting: number): string {
  const marked = countOf(waiting, 'waiting payment')
  return `A worker, or the lifting, marks ${marked} as of unknown outcome: the rail may have paid.
After the lifting, the policy of each rail decides: it asks the rail, sends again or holds.
To stop claims without such marks: symphony pause all --reason "…"`
}

async function lift(flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const body = async (control: RoleHandle) => {
    if (flags['dryRun'] === true) {
      const possible = (await readDispatchEpoch(control))?.frozen === true
      const sentence = possible
        ? 'Dispatch would go on. Payments of unknown outcome would be asked about, sent again or held, as their rails declare.'
        : 'Dispatch is not frozen.'
      return printResult({ possible }, sentence, flags, cli)
    }
    const changed = await liftDispatchFreeze(control, reason)
    printResult({ frozen: false, changed }, `Dispatch ${changed ? 'goes on' : 'was not frozen'}.`, flags, cli)
  }
  await asControl('freeze', flags, cli, body, { statementTimeoutMs: LIFT_TIMEOUT_MS })
}

/** A queue of many millions may have to be marked first, in one statement. */
const LIFT_TIMEOUT_MS = 3_600_000
