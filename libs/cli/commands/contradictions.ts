import { Option, type Command } from 'commander'
import { readContradictionPage, reviewOutboxContradiction, type ContradictionView } from '../../outbox/index.js'
import { addOperatorOptions, asControl, printResult, reasonOption, requiredReason } from '../operator/operator.js'
import { addExamples, parseWholeNumber } from '../settings/options.js'
import type { GivenFlags } from '../settings/resolveSettings.js'
import type { Cli } from '../terminal/Terminal.js'

export function registerContradictions(program: Command, cli: Cli): void {
  const contradictions = program
    .command('contradictions')
    .description('payments for which a worker reported a different outcome than the ledger records')
  addExamples(
    contradictions,
    'symphony contradictions list',
    'symphony contradictions review 01981… --reason "the bank shows one payment, OPS-812"',
  )

  const list = addOperatorOptions(
    contradictions.command('list').description('contradictions that no operator has reviewed, newest first'),
  )
    .option('--reviewed', 'list the reviewed ones instead')
    .option('--before <event-id>', 'next page: the value that the previous page printed')
    .addOption(
      new Option('--limit <n>', 'maximum number listed, up to 1000').argParser(parseWholeNumber).default(LISTED),
    )
    .action((flags: GivenFlags) => runList(flags, cli))
  addExamples(list, 'symphony contradictions list --json | jq -r .items[].eventId')

  const review = addOperatorOptions(
    contradictions
      .command('review')
      .description('record that you compared both outcomes with the rail; the alert ends, the outcome stays')
      .argument('<event-id>'),
  )
    .addOption(reasonOption())
    .action((eventId: string, flags: GivenFlags) => runReview(eventId, flags, cli))
  addExamples(review, 'symphony contradictions review 01981… --reason "paid twice, refund requested, OPS-812"')
}

async function runList(flags: GivenFlags & { readonly limit?: unknown }, cli: Cli): Promise<void> {
  const { before } = flags
  const limit = typeof flags.limit === 'number' ? flags.limit : LISTED
  const search = {
    reviewed: flags['reviewed'] === true,
    limit,
    ...(typeof before === 'string' ? { before } : {}),
  }
  const items = await asControl('contradictions', flags, cli, (control) => readContradictionPage(control, search))
  const next = items.length === limit ? (items.at(-1)?.eventId ?? null) : null
  if (flags['json'] === true) return cli.terminal.printJson({ items, next })
  if (items.length === 0) cli.terminal.print('No contradiction.')
  for (const item of items) print(item, cli)
  if (next !== null) cli.terminal.note(`There may be more: add --before ${next}`)
}

function print(item: ContradictionView, { terminal }: Cli): void {
  const { bold, dim } = terminal.colors
  const { recorded, reported } = item
  terminal.print(`${bold(item.eventId)} ${item.instructionId} on ${item.railType}, payment ${item.outboxId}`)
  terminal.print(`  ${dim('recorded')} ${recorded.state}, rail reference ${recorded.railReference ?? 'none'}`)
  terminal.print(`  ${dim('reported')} ${reported.state}, rail reference ${reported.railReference ?? 'none'}`)
  terminal.print(`  ${dim('found')} at ${item.recordedAt} by ${item.actor}`)
  if (item.reviewedAt !== null)
    terminal.print(`  ${dim('reviewed')} at ${item.reviewedAt} by ${item.reviewedBy}: ${item.reviewReason}`)
}

async function runReview(eventId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const reviewId = await asControl('contradictions', flags, cli, (control) =>
    reviewOutboxContradiction(control, eventId, reason),
  )
  printResult({ eventId, reviewId }, `The contradiction ${eventId} is reviewed.`, flags, cli)
}

const LISTED = 100
