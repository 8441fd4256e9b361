import type { Command } from 'commander'
import { isUuid, SymphonyError } from '../../core/index.js'
import { beginSnapshot, type Queryable, type RoleHandle } from '../../db/index.js'
import {
  readAttempts,
  readItemEvents,
  readItems,
  readPausesOf,
  readReplays,
  type AttemptAction,
  type ItemEvent,
  type ItemReplay,
  type ItemState,
  type ItemStatus,
  type LedgerAttempt,
  type PauseView,
  type TrailGap,
  type TrailStep,
} from '../../outbox/index.js'
import { readPaymentEntries, type PaymentEntry } from '../../reconciliation/index.js'
import { withTarget } from '../database/target.js'
import { describeItemFreeze, describeMoney, describePause, describeReturned } from '../operator/wording.js'
import { addExamples, jsonOption } from '../settings/options.js'
import { addSettings, resolveSettings, type GivenFlags } from '../settings/resolveSettings.js'
import { TARGET } from '../settings/settings.js'
import { countOf, type Cli } from '../terminal/Terminal.js'

export function registerShow(program: Command, cli: Cli): void {
  addSettings(
    addExamples(
      program.command('show'),
      'symphony show INV-2026-17',
      'symphony show 01981… --json | jq .items[0].state',
      'symphony show INV-2026-17 --replay',
    )
      .description('show the whole timeline of one payment')
      .argument('<id>', 'an instruction id, or the id of an outbox item; an idempotency key alone finds no item'),
    TARGET,
  )
    .option(
      '--replay',
      'replay the events of the full trail and compare the result with the queue; needs the role auditor',
    )
    .addOption(jsonOption())
    .action((id: string, flags: GivenFlags) => run(id, flags, cli))
}

interface Timeline extends ItemStatus {
  readonly attempts: readonly LedgerAttempt[]
  readonly events: readonly ItemEvent[]
  readonly bankEntries: readonly PaymentEntry[]
  /** Pauses that stop the next claim of the item. */
  readonly pauses: readonly PauseView[]
}

/** States in which a pause has no effect on the item: a running call ends as usual. */
const CLAIMED_OR_ENDED: ReadonlySet<ItemState> = new Set(['LEASED', 'DISPATCHED', 'FAILED'])

async function run(id: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const settings = await resolveSettings(TARGET, flags, cli)
  if (flags['replay'] === true) {
    const replays = await withTarget(settings, 'show', async (database) => {
      const auditor = database.as('symphony_auditor')
      const items = await findItems(auditor, id)
      return readReplays(
        auditor,
        items.map(({ outboxId }) => outboxId),
      )
    })
    return reportReplays(replays, flags, cli)
  }
  const items = await withTarget(settings, 'show', (database) => readTimelines(database.as('symphony_readonly'), id))
  if (flags['json'] === true) return cli.terminal.printJson({ items })
  for (const item of items) printTimeline(item, cli)
}

async function findItems(role: Queryable, id: string): Promise<readonly ItemStatus[]> {
  const byItem = isUuid(id) ? await readItems(role, { outboxId: id }) : []
  // A UUID that is no outbox id may be an instruction id.
  const items = byItem.length > 0 ? byItem : await readItems(role, { instructionId: id })
  if (items.length > 0) return items
  throw new SymphonyError('ITEM_NOT_FOUND', `There is no instruction and no outbox item with the id ${id}.`, {
    remedy: 'Check --database-url and --schema: they must name the database in which it was enqueued.',
  })
}

/** Reads queue and ledger of one moment. Between two snapshots a worker could complete the item. */
function readTimelines(role: RoleHandle, id: string): Promise<readonly Timeline[]> {
  return role.transaction(async (tx) => {
    await beginSnapshot(tx)
    const timelines: Timeline[] = []
    for (const item of await findItems(tx, id)) {
      timelines.push({
        ...item,
        attempts: await readAttempts(tx, item.outboxId),
        events: await readItemEvents(tx, item.outboxId),
        bankEntries: await readPaymentEntries(tx, item.outboxId),
        pauses: CLAIMED_OR_ENDED.has(item.state) ? [] : await readPausesOf(tx, item),
      })
    }
    return timelines
  })
}

function printTimeline(item: Timeline, { terminal }: Cli): void {
  const { bold, dim, magenta } = terminal.colors
  terminal.print(
    `${bold(item.instructionId)} ${bold(item.state)}${item.pauses.length > 0 ? ', paused' : ''}${item.outcomeUnknown ? `, ${magenta(OUTCOME_UNKNOWN)}` : ''}`,
  )
  for (const [word, value] of factsOf(item)) terminal.print(`  ${dim(word.padEnd(14))} ${value}`)
  terminal.print('')
  for (const { at, line, isUnknown } of momentsOf(item)) {
    terminal.print(`  ${dim(at?.toISOString() ?? '')} ${isUnknown ? magenta(line) : line}`)
  }
  terminal.print('')
}

function factsOf(item: Timeline): readonly (readonly [string, string])[] {
  const facts: readonly (readonly [string, string | null | undefined])[] = [
    ['outbox id', item.outboxId],
    ['kind', item.isMessage ? 'message' : null],
    ['key', item.idempotencyKey],
    ['participant', `${item.participantId}, number ${item.sequenceId}${item.ordered ? ', in order' : ''}`],
    ['money', describeMoney(item)],
    ['rail', item.railType],
    ['rail reference', item.lastRailReference],
    ['redrive of', item.redriveOf],
    ['replaces', item.replaces],
    ['returned', item.returned ? describeReturned(item) : null],
    ['next attempt', item.nextAttemptAt?.toISOString()],
    ['leased by', item.claimedBy === null ? null : `${item.claimedBy} until ${item.leaseExpiresAt?.toISOString()}`],
    ['freeze', item.freeze === null ? null : describeItemFreeze(item.freeze)],
    ['held', item.holdReason === null ? null : `${item.holdReason} (by ${item.heldBy})`],
    ...item.pauses.map((pause) => ['paused', describePause(pause)] as const),
  ]
  return facts.flatMap(([word, value]) => (value === null || value === undefined ? [] : [[word, value] as const]))
}

interface Moment {
  readonly at: Date | null
  readonly line: string
  readonly isUnknown: boolean
}

/**
 * Returns attempts, events and bank entries by time. The sort is stable, so an attempt precedes an event of the same
 * time.
 */
function momentsOf({ createdAt, attempts, events, bankEntries }: Timeline): readonly Moment[] {
  return [
    { at: createdAt, line: 'enqueued', isUnknown: false },
    ...attempts.map((attempt) => ({
      at: attempt.completedAt,
      line: describeAttempt(attempt),
      isUnknown: attempt.outcomeUnknown,
    })),
    ...events.map(({ createdAt: at, eventType, actor, detail }) => ({
      at,
      line: `${eventType} by ${actor} ${JSON.stringify(detail)}`,
      isUnknown: false,
    })),
    ...bankEntries.map((entry) => ({ at: new Date(entry.seenAt), line: describeEntry(entry), isUnknown: false })),
  ].toSorted((a, b) => (a.at?.getTime() ?? 0) - (b.at?.getTime() ?? 0))
}

/** Returns a text such as `bank statement: paid 12.50 EUR, booked on 2026-11-16 (run 0198…)`. */
function describeEntry({ kind, amount, currency, bookedOn, returnCode, runId }: PaymentEntry): string {
  const words = [
    [ENTRY_WORDS[kind], amount, currency].filter((word) => word !== null).join(' '),
    bookedOn === null ? undefined : `booked on ${bookedOn}`,
    returnCode === null ? undefined : `code ${returnCode}`,
  ]
  return `bank statement: ${words.filter((word) => word !== undefined).join(', ')} (run ${runId})`
}

const ENTRY_WORDS: Readonly<Record<PaymentEntry['kind'], string>> = {
  payout: 'paid',
  reversal: 'sent back',
  debit_reversal: 'debit marked as a reversal,',
}

function describeAttempt({
  attemptNo,
  state,
  railReference,
  railCode,
  errorCode,
  errorMessage,
  latencyMs,
  workerId,
  action,
  outcomeUnknown,
}: LedgerAttempt): string {
  const words = outcomeUnknown ? [ACTION_WORDS[action], OUTCOME_UNKNOWN] : [ACTION_WORDS[action]]
  const details = [
    railReference === null ? undefined : `reference ${railReference}`,
    railCode === null ? undefined : `rail code ${railCode}`,
    errorCode ?? undefined,
    errorMessage ?? undefined,
    latencyMs === null ? undefined : `${latencyMs} ms`,
    workerId === null ? undefined : `by ${workerId}`,
  ].filter((word) => word !== undefined)
  return `attempt ${attemptNo} ${state} (${words.join(', ')})${details.length === 0 ? '' : `: ${details.join(', ')}`}`
}

const OUTCOME_UNKNOWN = 'OUTCOME UNKNOWN: the rail may have paid'

const ACTION_WORDS: Readonly<Record<AttemptAction, string>> = {
  sent: 'sent',
  inquired: 'inquired, nothing sent',
  not_sent: 'not sent',
  decided: 'decided',
  expired: 'lease expired',
  cancelled: 'cancelled, nothing sent',
}

/** Prints each replay. Fails if a row rebuilt from the ledger differs from the pending row. */
function reportReplays(replays: readonly ItemReplay[], flags: GivenFlags, cli: Cli): void {
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
    throw new SymphonyError(
      'REPLAY_DIFFERS',
      `The pending row of ${different.map(({ outboxId }) => outboxId).join(', ')} differs from its events: ${[...columns].join(', ')}.`,
      {
        remedy:
          'Keep the database as it is and find out what wrote to it; run symphony ledger verify and symphony doctor --full.',
      },
    )
  }
  const incomplete = replays.find(({ gap }) => gap !== null)
  if (incomplete?.gap === undefined || incomplete.gap === null) return
  throw new SymphonyError('REPLAY_INCOMPLETE', describeGap(incomplete.gap), { remedy: remedyOfGap(incomplete.gap) })
}

function remedyOfGap({ missing }: TrailGap): string {
  return missing?.startsWith('number ') === true
    ? 'Find the break with symphony ledger verify.'
    : 'As the owner, run UPDATE symphony_settings SET full_trail = true; items that are enqueued from then on can be ' +
        'replayed. For this item use symphony show without --replay.'
}
