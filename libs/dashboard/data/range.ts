import type { TimeRange } from './api.js'
import { readClock } from './clock.js'

/** Ranges of a chart that end now, by their names in the address. */
export const RANGES = [
  { name: '1h', title: '1 h', seconds: 3_600 },
  { name: '24h', title: '24 h', seconds: 86_400 },
  { name: '7d', title: '7 d', seconds: 7 * 86_400 },
  { name: '30d', title: '30 d', seconds: 30 * 86_400 },
] as const

const DAY_SECONDS = 86_400

/** Range of a chart: one that ends now, or one that a person selected. */
export interface ChosenRange {
  /** Name of a range that ends now; undefined for a selected one. */
  readonly name: string | undefined
  readonly seconds: number
  /** Key that changes when the person chooses another range, but not as time passes. */
  readonly key: string
  /** Returns the current start and end. */
  readonly read: () => TimeRange
}

/** Returns the range in an address. Ignores times that are invalid or in the wrong order. */
export function rangeOf({ range, from, to }: Readonly<Record<string, string>>): ChosenRange {
  const [start, end] = [Date.parse(from ?? ''), Date.parse(to ?? '')]
  if (end > start) {
    const selected = { from: new Date(start).toISOString(), to: new Date(end).toISOString() }
    return { name: undefined, seconds: (end - start) / 1_000, key: `${start} ${end}`, read: () => selected }
  }
  const { name, seconds } = RANGES.find((one) => one.name === range) ?? RANGES[0]
  const read = () => {
    const nowMs = readClock()
    return { from: new Date(nowMs - seconds * 1_000).toISOString(), to: new Date(nowMs).toISOString() }
  }
  return { name, seconds, key: name, read }
}

/** Returns the interval at which a range is read again; none for a selected range. */
export function refreshMs({ name, seconds }: ChosenRange): { readonly everyMs?: number } {
  if (name === undefined) return {}
  return { everyMs: seconds > DAY_SECONDS ? 60_000 : 5_000 }
}
