import { pathTo, setQuery } from '../app/router.js'
import { whenQuiet } from '../data/clock.js'
import { status } from '../data/status.js'
import { Empty } from './Empty.js'
import { boundsOf, timeRangeOf, type TimeRange } from './TimeRange.js'

/** Filters of every list of payments, stored in the address. */
interface ListFilter extends TimeRange {
  readonly kind?: string
  readonly rail?: string
  readonly participant?: string
}

export function listFilterOf(query: Readonly<Record<string, string>>): ListFilter {
  const named = ['kind', 'rail', 'participant'] as const
  return {
    ...timeRangeOf(query),
    ...Object.fromEntries(named.flatMap((name) => (query[name] ? [[name, query[name]]] : []))),
  }
}

/** Rail that `symphony start` adds if no rails are given. It moves no money. */
export const SIMULATED = 'simulated'

/** Returns the rails with pending payments or a worker; `simulated` if none is known. */
export function knownRails(): readonly string[] {
  const rails = status.value?.rails.map(({ railType }) => railType) ?? []
  return rails.length === 0 ? [SIMULATED] : rails
}

export function KindFilter({ kind }: { readonly kind: string | undefined }) {
  return (
    <select
      class="input"
      aria-label="Kind"
      value={kind ?? ''}
      onChange={({ currentTarget }) => setQuery({ kind: currentTarget.value })}
    >
      <option value="">Payments</option>
      <option value="message">Messages</option>
    </select>
  )
}

export function RailFilter({ rail }: { readonly rail: string | undefined }) {
  return (
    <select
      class="input"
      aria-label="Rail"
      value={rail ?? ''}
      onChange={({ currentTarget }) => setQuery({ rail: currentTarget.value })}
    >
      <option value="">Any rail</option>
      {[...new Set([...knownRails(), ...(rail === undefined ? [] : [rail])])].map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  )
}

interface NameFilterProps {
  readonly label: 'Participant' | 'Assignee'
  readonly value: string | undefined
}

export function NameFilter({ label, value }: NameFilterProps) {
  const name = label.toLowerCase()
  return (
    <input
      class="input"
      aria-label={label}
      placeholder={`Any ${name}`}
      defaultValue={value ?? ''}
      onInput={({ currentTarget }) => filterSoon({ [name]: currentTarget.value.trim() })}
    />
  )
}

/** Returns the filter as parameters of the API. A preset of the range becomes a start time. */
export function toQuery<Filter extends TimeRange>({ range, from, to, ...filter }: Filter) {
  return {
    ...filter,
    ...boundsOf({
      ...(range === undefined ? {} : { range }),
      ...(from === undefined ? {} : { from }),
      ...(to === undefined ? {} : { to }),
    }),
  }
}

/** Explains a list that is empty because of its filters. */
export function NoMatches({ path }: { readonly path: string }) {
  return (
    <Empty title="No matches">
      <p>No payment matches the search and the filters.</p>
      <a class="button" href={pathTo([path])}>
        Clear the filters
      </a>
    </Empty>
  )
}

/** Changes of the filter fields, applied when typing pauses, but not to a page that is opened meanwhile. */
let typed: Readonly<Record<string, string>> = {}
addEventListener('hashchange', () => (typed = {}))
const applyTyped = whenQuiet(250, () => {
  setQuery(typed)
  typed = {}
})

export function filterSoon(change: Readonly<Record<string, string>>): void {
  typed = { ...typed, ...change }
  applyTyped()
}
