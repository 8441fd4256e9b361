import type { Command } from 'commander'
import { InvalidArgumentError } from '../../core/index.js'
import type { Queryable } from '../../db/index.js'
import { cancelOutboxInstruction, cancelOutboxItem } from '../../outbox/index.js'
import {
  addOperatorOptions,
  asControl,
  printResult,
  reasonOption,
  requiredReason,
  tryOut,
} from '../operator/operator.js'
import { addExamples } from '../settings/options.js'
import type { GivenFlags } from '../settings/resolveSettings.js'
import type { Cli } from '../terminal/Terminal.js'

export function registerCancel(program: Command, cli: Cli): void {
  addOperatorOptions(
    addExamples(
      program.command('cancel'),
      'symphony cancel 01981… --reason "the order was cancelled"',
      'symphony cancel --instruction INV-2026-17 --reason "paid by card"',
    )
      .description('cancel a payment that no call can still pay; it ends as FAILED with the code CANCELLED')
      .argument('[outbox-id]'),
  )
    .option('--instruction <id>', 'cancel the newest item of this instruction, instead of an outbox id')
    .option('--key <key>', 'idempotency key of the instruction, if it is not the instruction id')
    .addOption(reasonOption())
    .option('--dry-run', 'cancel it in a transaction that is rolled back')
    .addHelpText('after', HELP)
    .action((id: string | undefined, flags: GivenFlags) => run(id, flags, cli))
}

const HELP = `
A payment with a lease or with an unknown outcome cannot be cancelled: the rail may have paid it. Wait for its outcome,
or hold it and let two people decide.`

async function run(outboxId: string | undefined, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const { instruction, key = instruction } = flags
  if ((outboxId === undefined) === (typeof instruction !== 'string')) {
    throw new InvalidArgumentError('outbox-id', 'expected the id of one payment, or --instruction instead of it')
  }
  const cancel = (role: Queryable) =>
    outboxId === undefined
      ? cancelOutboxInstruction(role, String(instruction), String(key), reason)
      : cancelOutboxItem(role, outboxId, reason)
  await asControl('cancel', flags, cli, async (control) => {
    if (flags['dryRun'] === true) {
      const { outboxId: id } = await tryOut(control, cancel)
      return printResult({ outboxId: id, possible: true }, `${id} would be cancelled.`, flags, cli)
    }
    const cancelled = await cancel(control)
    printResult(cancelled, `${cancelled.outboxId} is cancelled. It is never sent.`, flags, cli)
  })
}
