import type { Command } from 'commander'
import { InvalidArgumentError } from '../../core/index.js'
import { recordOutboxReturn } from '../../outbox/index.js'
import { addOperatorOptions, asControl, printResult, timeOf } from '../operator/operator.js'
import { addExamples } from '../settings/options.js'
import type { GivenFlags } from '../settings/resolveSettings.js'
import type { Cli } from '../terminal/Terminal.js'

export function registerReturn(program: Command, cli: Cli): void {
  addOperatorOptions(
    addExamples(
      program.command('return'),
      'symphony return 01981… --amount 12.50 --currency EUR --code AC04 --reference RT-17',
      'symphony return 01981… --amount 2.50 --currency EUR --code PARTIAL --reference RT-18 --occurred-at 2026-01-31T08:00:00Z',
    )
      .description('record that the rail returned money of a DISPATCHED payment, all of it or a part')
      .argument('<outbox-id>'),
  )
    .option('--amount <decimal>', 'returned amount, such as 12.50')
    .option('--currency <code>', 'currency of the payment, such as EUR')
    .option('--code <text>', 'reason code of the rail, such as AC04')
    .option('--reference <text>', 'the rail’s own id of the return; a repeat records nothing')
    .option('--occurred-at <time>', 'time of the return; default now')
    .action((id: string, flags: GivenFlags) => run(id, flags, cli))
}

async function run(outboxId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const currency = required('currency', flags)
  const given = {
    outboxId,
    amount: required('amount', flags),
    currency,
    code: required('code', flags),
    reference: required('reference', flags),
    ...timeOf('occurredAt', flags),
  }
  const result = await asControl('return', flags, cli, (control) => recordOutboxReturn(control, given))
  const sum = `${result.returnedTotal} ${currency} of the payment are returned now.`
  const sentence = result.created ? `The return is recorded. ${sum}` : `This return was recorded before. ${sum}`
  printResult({ outboxId, ...result }, sentence, flags, cli)
}

function required(name: 'amount' | 'currency' | 'code' | 'reference', flags: GivenFlags): string {
  const value = flags[name]
  if (typeof value === 'string') return value
  throw new InvalidArgumentError(`--${name}`, 'missing')
}
