import { Option, type Command } from 'commander'
import { SymphonyError, type ErrorCode, InvalidArgumentError, parseTimestamp } from '../../core/index.js'
import { DatabaseError, type RoleHandle } from '../../db/index.js'
import { requireKnownSearch, type ItemSearch } from '../../outbox/index.js'
import { withTarget, type TargetLimits } from '../database/target.js'
import { jsonOption, parseWholeNumber } from '../settings/options.js'
import { addSettings, resolveSettings, type GivenFlags } from '../settings/resolveSettings.js'
import { TARGET } from '../settings/settings.js'
import { ProgressBar, type Cli } from '../terminal/Terminal.js'

/** What every command of an operator takes: the database, and `--json`. Who acts is the login, and nobody else. */
export function addOperatorOptions(command: Command): Command {
  return addSettings(command, TARGET).addOption(jsonOption())
}

export function reasonOption(): Option {
  return new Option('--reason <text>', 'why; kept in the ledger for ever')
}

export function requiredReason({ reason }: GivenFlags): string {
  if (typeof reason === 'string') return reason
  throw new InvalidArgumentError('--reason', 'expected why; it is kept in the ledger for ever')
}

/** Runs an operator's action in the role that may act. */
export async function asControl<T>(
  name: string,
  flags: GivenFlags,
  cli: Cli,
  body: (control: RoleHandle) => Promise<T>,
  limits?: TargetLimits,
): Promise<T> {
  const settings = await resolveSettings(TARGET, flags, cli)
  return withTarget(settings, name, (database) => body(database.as('symphony_control')), limits)
}

/** The result as JSON, or as a sentence. */
export function printResult(result: object, sentence: string, { json }: GivenFlags, { terminal }: Cli): void {
  if (json === true) terminal.printJson(result)
  else terminal.print(sentence)
}

/** The flags with which the lists of operators are narrowed, and read page by page. */
export function addSelection(command: Command): Command {
  return command
    .option('--rail <name>', 'of this rail')
    .option('--participant <id>', 'of this participant')
    .option('--since <time>', 'not before this time, as in 2026-01-31T08:00:00Z')
    .option('--until <time>', 'before this time')
    .addOption(
      new Option('--limit <n>', 'how many at the most, up to 1000').argParser(parseWholeNumber).default(LISTED),
    )
}

/** With the cursor of a list: the next page begins after what this one ended with. */
export function addPaging(command: Command): Command {
  return command.option('--before <cursor>', 'the next page: what the last one said')
}

type ItemSelection = Omit<ItemSearch, 'state'>

export function selectionOf(flags: GivenFlags & { readonly limit?: unknown }): ItemSelection {
  const { rail, participant, errorCode, before, limit } = flags
  return {
    ...(typeof rail === 'string' ? { railType: rail } : {}),
    ...(typeof participant === 'string' ? { participants: [participant] } : {}),
    ...(typeof errorCode === 'string' ? { errorCode } : {}),
    ...timeOf('since', flags),
    ...timeOf('until', flags),
    ...(typeof before === 'string' ? { before } : {}),
    limit: typeof limit === 'number' ? limit : LISTED,
  }
}

/** Returns the page. An empty one is refused if the database does not know a name of the search: it would be a false all-clear. */
export async function requireKnownNames<Page extends FoundPage>(
  control: RoleHandle,
  search: ItemSelection,
  page: Page,
): Promise<Page> {
  if (page.items.length === 0 && page.next === null) await requireKnownSearch(control, search)
  return page
}

interface FoundPage {
  readonly items: readonly unknown[]
  readonly next: string | null
}

/** Whether anything narrows it down. */
export function hasFilter({ railType, participants, since, until, errorCode }: ItemSelection): boolean {
  return [railType, participants, since, until, errorCode].some((value) => value !== undefined)
}

function timeOf(name: 'since' | 'until', flags: GivenFlags): Pick<ItemSelection, 'since' | 'until'> {
  const text = flags[name]
  if (typeof text !== 'string') return {}
  const time = parseTimestamp(text.replace(WITHOUT_SECONDS, '$1:00'))
  if (time === undefined) {
    throw new InvalidArgumentError(
      `--${name}`,
      `expected a time with its zone, as in 2026-01-31T08:00:00Z, got "${text}"`,
    )
  }
  return { [name]: time }
}

const LISTED = 100
const WITHOUT_SECONDS = /(T\d{2}:\d{2})(?=Z$|[+-]\d{2}:\d{2}$)/

interface Refusal {
  readonly outboxId: string
  readonly code: string
  readonly message: string
}

interface Decided<Result> {
  readonly done: readonly (Result & { readonly outboxId: string })[]
  readonly refused: readonly Refusal[]
}

/** Decides about each payment in a transaction of its own. A refusal concerns one of them, and the others go on. */
export async function decideEach<Result extends object>(
  outboxIds: readonly string[],
  decide: (outboxId: string) => Promise<Result>,
  { terminal, signal }: Cli,
): Promise<Decided<Result>> {
  const done: (Result & { readonly outboxId: string })[] = []
  const refused: Refusal[] = []
  const bar = new ProgressBar(terminal, outboxIds.length)
  for (const outboxId of outboxIds) {
    signal.throwIfAborted()
    try {
      done.push({ outboxId, ...(await decide(outboxId)) })
    } catch (error) {
      // Another person was faster, or the rail was reported to have paid it after all.
      if (!(error instanceof DatabaseError) || error.disposition !== 'fatal') throw error
      refused.push({ outboxId, code: error.code, message: error.message })
    }
    bar.show(done.length + refused.length)
  }
  bar.clear()
  return { done, refused }
}

/** Ends the command with an error if any was refused. Each is listed in the output before. */
export function requireNoRefusal(code: ErrorCode, { done, refused }: Decided<object>): void {
  if (refused.length === 0) return
  throw new SymphonyError(code, `${describeRefusedOf(refused.length, done.length + refused.length)}.`, {
    remedy: 'Each is named above with its reason.',
  })
}

/** Returns how many of all were refused, as a clause. */
export function describeRefusedOf(refused: number, all: number): string {
  return `${refused} of ${all} ${refused === 1 ? 'was' : 'were'} refused`
}

export function describeRefusals({ refused }: Decided<object>): readonly string[] {
  return refused.map(({ code, message }) => `refused: ${code} ${message}`)
}
