import { setQuery } from '../app/router.js'
import { readClock } from '../data/clock.js'

/** Presets by their names in the address. A preset always ends now, also if it is opened from a bookmark. */
const PRESETS: ReadonlyMap<string, { readonly label: string; readonly ms: number }> = new Map([
  ['1h', { label: 'Last hour', ms: 3_600_000 }],
  ['24h', { label: 'Last 24 hours', ms: 86_400_000 }],
  ['7d', { label: 'Last 7 days', ms: 604_800_000 }],
  ['30d', { label: 'Last 30 days', ms: 2_592_000_000 }],
])
const CUSTOM = 'custom'

/** Range in the address: a preset, or two times in UTC. */
export interface TimeRange {
  readonly range?: string
  readonly from?: string
  readonly to?: string
}

export function timeRangeOf(query: Readonly<Record<string, string>>): TimeRange {
  const named = ['range', 'from', 'to'] as const
  return Object.fromEntries(named.flatMap((name) => (query[name] ? [[name, query[name]]] : [])))
}

/** Returns the range as the API parameters `from` and `to`. A preset sets only `from`. */
export function boundsOf({ range = '', from, to }: TimeRange): { readonly from?: string; readonly to?: string } {
  const preset = PRESETS.get(range)
  if (preset !== undefined) return { from: new Date(readClock() - preset.ms).toISOString() }
  return { ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) }
}

interface TimeRangeFilterProps {
  readonly range: TimeRange
  /** Name of the filtered time, such as `Created`. */
  readonly of: string
  /** Receives the changed fields; an empty text removes a field. @default writes them to the address */
  readonly onChange?: (changes: Readonly<Record<string, string>>) => void
}

export function TimeRangeFilter({ range, of, onChange = setQuery }: TimeRangeFilterProps) {
  const isCustom = range.range === CUSTOM || range.from !== undefined || range.to !== undefined
  return (
    <>
      <select
        class="input"
        aria-label={`${of}: range of time`}
        value={isCustom ? CUSTOM : (range.range ?? '')}
        onChange={({ currentTarget: { value } }) => onChange({ range: value, from: '', to: '' })}
      >
        <option value="">Any time</option>
        {[...PRESETS].map(([name, { label }]) => (
          <option key={name} value={name}>
            {label}
          </option>
        ))}
        <option value={CUSTOM}>From, to …</option>
      </select>
      {isCustom ? (
        <>
          <TimeField label={`${of} from`} name="from" value={range.from} onChange={onChange} />
          <TimeField label={`${of} before`} name="to" value={range.to} onChange={onChange} />
        </>
      ) : null}
    </>
  )
}

interface TimeFieldProps {
  readonly label: string
  readonly name: 'from' | 'to'
  /** Time in UTC. */
  readonly value: string | undefined
  readonly onChange: (changes: Readonly<Record<string, string>>) => void
}

/** Field that shows a local time and stores it in UTC. */
function TimeField({ label, name, value, onChange }: TimeFieldProps) {
  return (
    <input
      class="input"
      type="datetime-local"
      aria-label={label}
      title={label}
      value={value === undefined ? '' : toLocal(value)}
      onChange={({ currentTarget }) => {
        const time = new Date(currentTarget.value)
        onChange({ range: CUSTOM, [name]: Number.isNaN(time.getTime()) ? '' : time.toISOString() })
      }}
    />
  )
}

/** Returns a time in the format of datetime-local fields; empty for an invalid time. */
export function toLocal(utc: string): string {
  const time = new Date(utc)
  if (Number.isNaN(time.getTime())) return ''
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}
