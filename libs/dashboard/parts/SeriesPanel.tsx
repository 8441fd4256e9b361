import type { ComponentChildren } from 'preact'
import { announce } from '../app/announce.js'
import { navigations, route, setQuery } from '../app/router.js'
import { SeriesChart } from '../charts/SeriesChart.js'
import { readSeries } from '../data/api.js'
import { dayAndTime } from '../data/format.js'
import { readClock } from '../data/clock.js'
import { rangeOf, RANGES, refreshMs, type ChosenRange } from '../data/range.js'
import { useResource } from '../data/useResource.js'
import { formText } from './formText.js'
import { Panel } from './Panel.js'
import { ResourceView } from './ResourceView.js'
import { toLocal } from './TimeRange.js'

interface SeriesPanelProps {
  /** Kind, rail and participant of the counted items. */
  readonly filter?: Omit<Parameters<typeof readSeries>[0], 'from' | 'to'>
  /** Further filters, shown beside the range. */
  readonly children?: ComponentChildren
}

/** Outcomes over time, from the counts in the database. The address contains the range. */
export function SeriesPanel({ filter = {}, children }: SeriesPanelProps) {
  const range = rangeOf(route.value.query)
  const series = useResource({
    key: `series ${range.key} ${JSON.stringify(filter)}`,
    load: (signal) => readSeries({ ...range.read(), ...filter }, signal),
    concerns: () => false,
    ...refreshMs(range),
  })
  return (
    <Panel title="Outcomes" aside={<RangeChoice range={range} />}>
      {children === undefined ? null : (
        <div key={navigations.value} class="filters">
          {children}
        </div>
      )}
      <ResourceView from={series} lines={8}>
        {(value) => (
          <>
            <SeriesChart series={value} range={wordsOf(range)} onSelect={selectRange} />
            <p class="quiet">
              {value.projectedTo === null
                ? 'No block of the ledger is counted yet. A worker counts each block after it is sealed.'
                : `Counts every block sealed up to ${dayAndTime(value.projectedTo, readClock())}.`}
            </p>
          </>
        )}
      </ResourceView>
      <OtherRange range={range} />
    </Panel>
  )
}

/** Puts a selected range into the address. Widens a selection shorter than three minutes. */
export function selectRange(from: number, to: number): void {
  const middle = (from + to) / 2
  const half = Math.max((to - from) / 2, 90)
  setQuery({ range: '', from: isoOf(middle - half), to: isoOf(middle + half) })
}

function isoOf(seconds: number): string {
  return new Date(Math.round(seconds) * 1_000).toISOString()
}

export function RangeChoice({ range }: { readonly range: ChosenRange }) {
  return (
    <div class="range" role="group" aria-label="Range">
      {range.name === undefined ? <span class="quiet">{wordsOf(range)}</span> : null}
      {RANGES.map(({ name, title }) => (
        <button
          key={name}
          type="button"
          class="button small"
          aria-pressed={range.name === name}
          onClick={() => setQuery({ range: name, from: '', to: '' })}
        >
          {title}
        </button>
      ))}
    </div>
  )
}

const WORDS: Readonly<Record<string, string>> = {
  '1h': 'last hour',
  '24h': 'last 24 hours',
  '7d': 'last 7 days',
  '30d': 'last 30 days',
}

export function wordsOf({ name, read }: ChosenRange): string {
  if (name !== undefined) return WORDS[name] ?? name
  const { from, to } = read()
  const now = readClock()
  return `${dayAndTime(from, now)} to ${dayAndTime(to, now)}`
}

/** Form for a range, for people without a mouse. Times are in the reader's time zone. */
function OtherRange({ range }: { readonly range: ChosenRange }) {
  const { from, to } = range.read()
  return (
    <details>
      <summary class="quiet">Other range</summary>
      <form class="row" key={range.key} onSubmit={showOtherRange}>
        <TimeField name="from" label="From" iso={from} />
        <TimeField name="to" label="To" iso={to} />
        <button type="submit" class="button">
          Show
        </button>
      </form>
    </details>
  )
}

function showOtherRange(event: SubmitEvent): void {
  event.preventDefault()
  if (!(event.currentTarget instanceof HTMLFormElement)) return
  const form = new FormData(event.currentTarget)
  const [start, end] = [Date.parse(formText(form, 'from')), Date.parse(formText(form, 'to'))]
  if (end > start) selectRange(start / 1_000, end / 1_000)
  else announce('The range must end after it starts.')
}

function TimeField({ name, label, iso }: { readonly name: string; readonly label: string; readonly iso: string }) {
  return (
    <div class="field">
      <label for={`range-${name}`}>{label}</label>
      <input
        id={`range-${name}`}
        name={name}
        type="datetime-local"
        class="input"
        defaultValue={toLocal(iso)}
        required
      />
    </div>
  )
}
