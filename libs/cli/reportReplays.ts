import { AppError } from '../core/index.js'
import type { ItemReplay, TrailGap, TrailStep } from '../outbox/index.js'
import type { Cli } from './Cli.js'
import { countOf } from './countOf.js'
import type { GivenFlags } from './resolveSettings.js'

/** Prints each replay, then fails unless every folded row equals its pending row. */
export function reportReplays(replays: readonly ItemReplay[], flags: GivenFlags, cli: Cli): void {
  if (flags['json'] === true) cli.terminal.printJson({ items: replays })
  else for (const replay of replays) printReplay(replay, cli)
  requireEqual(replays)
}

function printReplay(replay: ItemReplay, { terminal }: Cli): void {
  const { bold, green, red, yellow } = terminal.colors
  terminal.print(`${bold(replay.instructionId)} ${replay.outboxId}`)
  for (const step of replay.steps) printStep(step, terminal)
  if (replay.gap !== null) terminal.print(`  ${yellow('NOT COMPARED')} ${describeGap(replay.gap)}`)
  if (replay.verdict === 'equal') terminal.print(`  ${green('EQUAL')} ${describeEqual(replay)}`)
  for (const { column, folded, pending } of replay.differences) {
    terminal.print(
      `  ${red('DIFFERENT')} ${column ?? 'the row'}: folded ${JSON.stringify(folded)}, pending ${JSON.stringify(pending)}`,
    )
  }
  terminal.print('')
}

function printStep({ event, changes, ends }: TrailStep, terminal: Cli['terminal']): void {
  const { dim } = terminal.colors
  terminal.print(`  ${dim(event.at)} ${event.eventNo} ${event.eventType} by ${event.actor}`)
  for (const { column, before, after } of changes) {
    const was = before === null ? '' : dim(` (was ${JSON.stringify(before)})`)
    terminal.print(`      ${column} = ${JSON.stringify(after)}${was}`)
  }
  if (ends) terminal.print('      the pending row is deleted')
}

function describeEqual({ pending, notCompared }: ItemReplay): string {
  if (pending === null) return 'The events end with no pending row, and there is none.'
  const columns = countOf(Object.keys(pending).length, 'column')
  return `The folded row and the pending row agree in ${columns}. Not compared: ${notCompared.join(', ')} (no role may read it).`
}

function describeGap({ missing, since, until }: TrailGap): string {
  if (missing === null) {
    return `The full trail was off from ${since} until ${until ?? 'now'}, so that events of this item are missing.`
  }
  if (missing === 'ENQUEUED') {
    const on = until === null ? 'is still off' : `was switched on at ${until}`
    return `The event ENQUEUED is missing: the full trail was off when the item was enqueued (${since}), and ${on}.`
  }
  return `The event ${missing} of this item is missing: it was deleted.`
}

function requireEqual(replays: readonly ItemReplay[]): void {
  const different = replays.filter(({ verdict }) => verdict === 'different')
  if (different.length > 0) {
    const columns = new Set(
      different.flatMap(({ differences }) => differences.map(({ column }) => column ?? 'the row')),
    )
    throw new AppError(
      'REPLAY_DIFFERS',
      `The pending row of ${different.map(({ outboxId }) => outboxId).join(', ')} is not what its events say: ${[...columns].join(', ')}.`,
      {
        remedy:
          'Keep the database as it is and find out what wrote to it; run symphony ledger verify and symphony doctor --full.',
      },
    )
  }
  const incomplete = replays.find(({ gap }) => gap !== null)
  if (incomplete?.gap === undefined || incomplete.gap === null) return
  throw new AppError('REPLAY_INCOMPLETE', describeGap(incomplete.gap), { remedy: remedyOf(incomplete.gap) })
}

function remedyOf({ missing }: TrailGap): string {
  return missing?.startsWith('number ') === true
    ? 'Find the break with symphony ledger verify.'
    : 'As the owner, run UPDATE symphony_settings SET full_trail = true; items that are enqueued from then on can be ' +
        'replayed. For this item use symphony show without --replay.'
}
