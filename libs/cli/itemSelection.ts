import { Option, type Command } from 'commander'
import { InvalidArgumentError, readInstant } from '../core/index.js'
import type { RoleHandle } from '../db/index.js'
import { requireKnownSearch, type ItemSearch } from '../outbox/index.js'
import { parseWholeNumber } from './commonOptions.js'
import type { GivenFlags } from './resolveSettings.js'

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

export type ItemSelection = Omit<ItemSearch, 'state'>

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
export function isNarrowed({ railType, participants, since, until, errorCode }: ItemSelection): boolean {
  return [railType, participants, since, until, errorCode].some((value) => value !== undefined)
}

function timeOf(name: 'since' | 'until', flags: GivenFlags): Pick<ItemSelection, 'since' | 'until'> {
  const text = flags[name]
  if (typeof text !== 'string') return {}
  const time = readInstant(text.replace(WITHOUT_SECONDS, '$1:00'))
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
