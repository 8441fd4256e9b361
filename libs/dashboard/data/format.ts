const GROUPED = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const COMPACT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })

/** Formats a count. Counts that may exceed 2^53 are given as text. */
export function count(value: number | string): string {
  const number = Number(value)
  return number < 1_000_000 ? GROUPED.format(number) : COMPACT.format(number)
}

/** Formats a count for a badge or a narrow column, which have room for about five characters. */
export function shortCount(value: number | string): string {
  return Number(value) < 10_000 ? count(value) : COMPACT.format(Number(value))
}

/** Returns the noun for a count: `payment` for 1, else `payments`. */
export function plural(value: number | string, one: string, many = `${one}s`): string {
  return Number(value) === 1 ? one : many
}

/** Returns a duration in one unit: `300 ms`, `12 s`, `4 min`, `3 h` or `2 d`. */
export function duration(seconds: number): string {
  const size = Math.max(0, seconds)
  if (size < 1) return size === 0 ? '0 s' : `${Math.round(size * 1_000)} ms`
  if (size < 100) return `${Math.round(size)} s`
  if (size < 100 * 60) return `${Math.round(size / 60)} min`
  if (size < 48 * 3_600) return `${Math.round(size / 3_600)} h`
  return `${Math.round(size / 86_400)} d`
}

/** Returns a duration in the largest unit that divides it, without rounding: `100 min` for 6000 seconds. */
export function exactDuration(seconds: number): string {
  if (seconds % 86_400 === 0) return `${seconds / 86_400} d`
  if (seconds % 3_600 === 0) return `${seconds / 3_600} h`
  return seconds % 60 === 0 ? `${seconds / 60} min` : `${seconds} s`
}

export function milliseconds(value: number | null): string {
  if (value === null) return '–'
  return value < 1_000 ? `${Math.round(value)} ms` : `${(value / 1_000).toFixed(value < 10_000 ? 2 : 1)} s`
}

/** Returns a time relative to the server's clock: `in 4 min`, `12 s ago`. */
export function relative(iso: string, nowMs: number): string {
  const seconds = (Date.parse(iso) - nowMs) / 1_000
  if (Math.abs(seconds) < 1.5) return 'now'
  return seconds > 0 ? `in ${duration(seconds)}` : `${duration(-seconds)} ago`
}

/** Returns the full time in the reader's time zone, with the zone. */
export function absolute(iso: string): string {
  return FULL.format(new Date(iso))
}

const FULL = new Intl.DateTimeFormat('en-GB', {
  year: 'numeric',
  month: 'short',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
  timeZoneName: 'short',
})

export function clockTime(iso: string): string {
  return CLOCK.format(new Date(iso))
}

const CLOCK = new Intl.DateTimeFormat('en-GB', {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
})

/** Returns the time of day, with the date if it is more than 20 hours away. */
export function dayAndTime(iso: string, nowMs: number): string {
  const isRecent = Math.abs(nowMs - Date.parse(iso)) < 20 * 3_600_000
  return isRecent ? clockTime(iso) : `${DAY.format(new Date(iso))} ${clockTime(iso)}`
}

const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })

export function dayAndMonth(iso: string): string {
  return DAY_AND_MONTH.format(new Date(iso))
}

const DAY_AND_MONTH = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })

/**
 * Returns the interval of a chart that starts at a time, such as `06:34`, `06:30 to 06:45`, `17 Nov 06:00` or `17 Nov`.
 * Days are days in UTC.
 */
export function timeSpan(iso: string, grain: string): string {
  const start = hourAndMinute(iso)
  if (grain === 'minute') return start
  if (grain === 'quarter-hour') return `${start} to ${hourAndMinute(Date.parse(iso) + 900_000)}`
  return grain === 'hour' ? `${dayAndMonth(iso)} ${start}` : UTC_DAY_AND_MONTH.format(new Date(iso))
}

const UTC_DAY_AND_MONTH = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' })

export function hourAndMinute(time: string | number): string {
  return HOUR_AND_MINUTE.format(new Date(time))
}

const HOUR_AND_MINUTE = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })

/** Shortens a long id to its last characters, because ids that contain a time share their first ones. */
export function shortId(id: string): string {
  return id.length <= 14 ? id : `…${id.slice(-10)}`
}

export function share(part: number, whole: number): string {
  if (whole === 0 || part === whole) return whole === 0 ? '–' : '100 %'
  // Truncates, so that 99.98 % is not shown as 100 %.
  return `${(Math.floor((1_000 * part) / whole) / 10).toFixed(1)} %`
}
