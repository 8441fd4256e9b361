import { Option, type Command } from 'commander'
import { csvRecord, InvalidArgumentError, parseTimestamp } from '../../core/index.js'
import { readStatement, STATEMENT_FIELDS } from '../../outbox/index.js'
import { addOperatorOptions, asControl } from '../operator/operator.js'
import { addExamples } from '../settings/options.js'
import type { GivenFlags } from '../settings/resolveSettings.js'
import type { Cli } from '../terminal/Terminal.js'

export function registerStatement(program: Command, cli: Cli): void {
  const command = addOperatorOptions(
    program
      .command('statement')
      .description('print payments, returns and sums of a participant in a period')
      .argument('<participant>'),
  )
    .option('--from <time>', 'first moment: a day in UTC (2026-01-31), or a time with its zone')
    .option('--to <time>', 'end of the period, not included')
    .addOption(
      new Option('--format <format>', 'format of the lines; --json is ndjson')
        .choices(['csv', 'ndjson'])
        .default('csv'),
    )
    .addHelpText('after', HELP)
    .action((participant: string, flags: GivenFlags) => run(participant, flags, cli))
  addExamples(command, 'symphony statement acme --from 2026-01-01 --to 2026-02-01 > acme-2026-01.csv')
}

const HELP = `
Lines of the type payment: payments that were pending at --from or were created before --to, with their state at --to.
return: money that the rail returned in the period. Then the sums per currency: opening (pending at --from), created,
total (per state, and of returns), closing (pending at --to). Opening and created payments are those that ended and the
closing ones. Amounts that the rail's field classes withhold are counted without a sum.`

async function run(participantId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const period = { from: timeOf('from', flags), to: timeOf('to', flags) }
  const { terminal, signal } = cli
  await asControl('statement', flags, cli, async (control) => {
    const isCsv = flags['format'] !== 'ndjson' && flags['json'] !== true
    if (isCsv) terminal.printRaw(`${csvRecord(STATEMENT_FIELDS)}\r`)
    for await (const lines of readStatement(control, { participantId, ...period })) {
      signal.throwIfAborted()
      for (const line of lines) {
        if (isCsv) terminal.printRaw(`${csvRecord(STATEMENT_FIELDS.map((field) => line[field]))}\r`)
        else terminal.printJson(line)
      }
    }
  })
}

function timeOf(name: 'from' | 'to', flags: GivenFlags): Date {
  const text = flags[name]
  const time = typeof text === 'string' ? parseTimestamp(text.length === 10 ? `${text}T00:00:00Z` : text) : undefined
  if (time !== undefined) return time
  throw new InvalidArgumentError(`--${name}`, 'expected a day such as 2026-01-31, or a time with its zone')
}
