import { Option, type Command } from 'commander'
import { csvRecord, SymphonyError, type ErrorCode, InvalidArgumentError, parseTimestamp } from '../../core/index.js'
import { DatabaseError, type Queryable, type RoleHandle } from '../../db/index.js'
import { requireKnownSearch, type ItemSearch } from '../../outbox/index.js'
import { withTarget, type TargetLimits } from '../database/target.js'
import { flagOf, jsonOption, parseWholeNumber } from '../settings/options.js'
import { addSettings, resolveSettings, type GivenFlags } from '../settings/resolveSettings.js'
import { TARGET } from '../settings/settings.js'
import { ProgressBar, type Cli } from '../terminal/Terminal.js'

/** Adds the options of operator commands: the database and `--json`. The actor is always the login. */
export function addOperatorOptions(command: Command): Command {
  return addSettings(command, TARGET).addOption(jsonOption())
}

export function reasonOption(): Option {
  return new Option('--reason <text>', 'why; stored in the ledger for ever')
}

export function requiredReason({ reason }: GivenFlags): string {
  if (typeof reason === 'string') return reason
  throw new InvalidArgumentError('--reason', 'expected a reason; it is stored in the ledger for ever')
}

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

/** Runs the body in a transaction that is rolled back. Throws if the database refuses. */
export async function tryOut<T extends object>(control: RoleHandle, body: (tx: Queryable) => Promise<T>): Promise<T> {
  const rolledBack: { result?: T } = {}
  try {
    return await control.transaction(async (tx) => {
      rolledBack.result = await body(tx)
      throw new Error('dry run')
    })
  } catch (error) {
    if (rolledBack.result === undefined) throw error
    return rolledBack.result
  }
}

export function printResult(result: object, sentence: string, { json }: GivenFlags, { terminal }: Cli): void {
  if (json === true) terminal.printJson(result)
  else terminal.print(sentence)
}

export function addSelection(command: Command): Command {
  return addPeriod(
    command
      .addOption(
        new Option('--kind <kind>', 'payments, or messages of topics')
          .choices(['payment', 'message'])
          .default('payment'),
      )
      .option('--rail <name>', 'only payments of this rail')
      .option('--participant <id>', 'only payments of this participant'),
  ).addOption(
    new Option('--limit <n>', 'maximum number listed, up to 1000').argParser(parseWholeNumber).default(LISTED),
  )
}

export function addPeriod(command: Command): Command {
  return command
    .option('--since <time>', 'not before this time, as in 2026-01-31T08:00:00Z')
    .option('--until <time>', 'before this time')
}

export function addPaging(command: Command): Command {
  return command
    .option('--before <cursor>', 'next page: the value that the previous page printed')
    .addOption(
      new Option('--format <format>', 'print all rows in this format, whatever --limit is').choices(['csv', 'ndjson']),
    )
}

/**
 * With `--format`, prints all rows of a list as CSV or NDJSON and returns true. The CSV columns are the fields of the
 * first row.
 */
export async function printAllRows(
  { format, json }: GivenFlags,
  { terminal, signal }: Cli,
  read: (paging: { readonly before?: string; readonly limit: number }) => Promise<FoundPage>,
): Promise<boolean> {
  if (format !== 'csv' && format !== 'ndjson') return false
  if (json === true) throw new InvalidArgumentError('--format', 'expected --format or --json, not both')
  let columns: readonly string[] | undefined
  for (let before: string | null | undefined; before !== null;) {
    const { items, next } = await read({ limit: ROWS_READ, ...(before === undefined ? {} : { before }) })
    for (const item of items) {
      if (format === 'ndjson') terminal.printJson(item)
      else {
        if (columns === undefined) terminal.printRaw(`${csvRecord((columns = Object.keys(item)))}\r`)
        const values = new Map<string, unknown>(Object.entries(item))
        terminal.printRaw(`${csvRecord(columns.map((column) => values.get(column)))}\r`)
      }
    }
    signal.throwIfAborted()
    before = next
  }
  return true
}

const ROWS_READ = 1_000

type ItemSelection = Omit<ItemSearch, 'state'>

export function selectionOf(flags: GivenFlags & { readonly limit?: unknown }): ItemSelection {
  const { kind, rail, participant, errorCode, before, limit } = flags
  return {
    ...(kind === 'message' ? { kind } : {}),
    ...(typeof rail === 'string' ? { railType: rail } : {}),
    ...(typeof participant === 'string' ? { participants: [participant] } : {}),
    ...(typeof errorCode === 'string' ? { errorCode } : {}),
    ...timeOf('since', flags),
    ...timeOf('until', flags),
    ...(typeof before === 'string' ? { before } : {}),
    limit: typeof limit === 'number' ? limit : LISTED,
  }
}

/**
 * Returns the page. If the page is empty, throws for a searched name that the database does not know, because the name
 * may be misspelt.
 */
export async function requireKnownNames<Page extends FoundPage>(
  control: RoleHandle,
  search: ItemSelection,
  page: Page,
): Promise<Page> {
  if (page.items.length === 0 && page.next === null) await requireKnownSearch(control, search)
  return page
}

interface FoundPage<Item = object> {
  readonly items: readonly Item[]
  readonly next: string | null
}

/**
 * Reads pages until `limit` items are found. A page may be short, even empty, and have a next one, because one page
 * scans a bounded number of rows.
 */
export async function readSelected<Item>(
  search: ItemSelection,
  read: (search: ItemSelection) => Promise<FoundPage<Item>>,
  { signal }: Cli,
): Promise<FoundPage<Item>> {
  const items: Item[] = []
  let { before, limit } = search
  for (;;) {
    const page = await read({ ...search, ...(before === undefined ? {} : { before }), limit })
    items.push(...page.items)
    limit -= page.items.length
    if (page.next === null || limit === 0) return { items, next: page.next }
    signal.throwIfAborted()
    before = page.next
  }
}

export function hasFilter({ railType, participants, since, until, errorCode }: ItemSelection): boolean {
  return [railType, participants, since, until, errorCode].some((value) => value !== undefined)
}

/** Refuses filters beside ids, which select the payments themselves. */
export function refuseFilters(flags: GivenFlags): void {
  const filter = ['rail', 'participant', 'since', 'until', 'errorCode'].find((name) => flags[name] !== undefined)
  if (filter === undefined) return
  throw new InvalidArgumentError(flagOf(filter), 'expected no filter beside an id; leave out the filter or the id')
}

/** Returns an object with the time of an option; an empty object without the option. */
export function timeOf<Name extends 'since' | 'until' | 'occurredAt'>(
  name: Name,
  flags: GivenFlags,
): { readonly [Field in Name]?: Date } {
  const text = flags[name]
  if (typeof text !== 'string') return {}
  const time = parseTimestamp(text.replace(WITHOUT_SECONDS, '$1:00'))
  if (time === undefined) {
    throw new InvalidArgumentError(
      flagOf(name),
      `expected a time with its zone, as in 2026-01-31T08:00:00Z, got "${text}"`,
    )
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- TypeScript widens a computed key to string
  return { [name]: time } as { readonly [Field in Name]?: Date }
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

/**
 * Decides each payment in a separate transaction. Collects refusals and continues. A database fault or a signal ends
 * the command after it prints the undecided ids.
 */
export async function decideEach<Result extends object>(
  outboxIds: readonly string[],
  decide: (outboxId: string) => Promise<Result>,
  { terminal, signal }: Cli,
): Promise<Decided<Result>> {
  const done: (Result & { readonly outboxId: string })[] = []
  const refused: Refusal[] = []
  const bar = new ProgressBar(terminal, outboxIds.length)
  for (const [index, outboxId] of outboxIds.entries()) {
    try {
      signal.throwIfAborted()
      done.push({ outboxId, ...(await decide(outboxId)) })
    } catch (error) {
      // The database refused, for example because another operator decided before, or a late outcome says that the rail
      // paid.
      if (!(error instanceof DatabaseError) || error.disposition !== 'fatal') {
        bar.clear()
        const undecided = outboxIds.slice(index).join(' ')
        terminal.note(`The database answered for ${index} of ${outboxIds.length}. No answer for: ${undecided}`)
        throw error
      }
      refused.push({ outboxId, code: error.code, message: error.message })
    }
    bar.show(done.length + refused.length)
  }
  bar.clear()
  return { done, refused }
}

/** Throws if a decision was refused. The output already lists each refusal. */
export function requireNoRefusal(code: ErrorCode, { done, refused }: Decided<object>): void {
  if (refused.length === 0) return
  throw new SymphonyError(code, `${describeRefusedOf(refused.length, done.length + refused.length)}.`, {
    remedy: 'Read the reason of each refusal above.',
  })
}

/** Returns a clause such as `1 of 3 was refused`. */
export function describeRefusedOf(refused: number, all: number): string {
  return `${refused} of ${all} ${refused === 1 ? 'was' : 'were'} refused`
}

export function describeRefusals({ refused }: Decided<object>): readonly string[] {
  return refused.map(({ code, message }) => `refused: ${code} ${message}`)
}
