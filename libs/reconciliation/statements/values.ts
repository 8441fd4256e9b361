/** Maximum lengths of texts in a statement, the same as in SQL. */
export const TEXT_LENGTHS = Object.freeze({ account: 64, reference: 200, returnCode: 35, statementId: 140 })

/** Amount of a statement: at most 18 digits before and five after the point, as ISO 20022 allows. */
export const AMOUNT = /^\d{1,18}(?:\.\d{1,5})?$/

export const CURRENCY = /^[A-Z]{3}$/

/** Returns the text as one line of bounded length; null if it is empty. */
export function clean(text: string, lengthMax: number): string | null {
  let line = text
  if (UNPRINTABLE.test(line)) line = line.replaceAll(UNPRINTABLE_RUNS, ' ')
  line = line.trim()
  if (line.length > lengthMax) {
    line = line.slice(0, lengthMax)
    const last = line.charCodeAt(lengthMax - 1)
    // PostgreSQL cannot store half of a surrogate pair.
    if (last >= 0xd800 && last <= 0xdbff) line = line.slice(0, -1)
  }
  return line === '' ? null : line
}

// oxlint-disable-next-line no-control-regex
const UNPRINTABLE = /[\u0000-\u001F\u007F]/
// oxlint-disable-next-line no-control-regex
const UNPRINTABLE_RUNS = /[\s\u0000-\u001F\u007F]+/g

/** Copies a slice of a chunk. V8 keeps the whole chunk in memory as long as one of its slices exists. */
export function detach(text: string): string {
  return Buffer.from(text).toString()
}

/** Returns the date part of a valid date or time, as `YYYY-MM-DD`; else undefined. */
export function parseDate(text: string): string | undefined {
  const [, year, month, day] = ISO_DATE.exec(text) ?? []
  return year === undefined || month === undefined || day === undefined ? undefined : toDate(year, month, day)
}

/** Date, or date and time, with or without an offset, as in ISO 20022. */
const ISO_DATE = /^(\d{4})-(\d{2})-(\d{2})(?:T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})?$/

/** Returns `YYYY-MM-DD`; undefined for a day that does not exist or is outside 1970 to 2099. */
export function toDate(year: string, month: string, day: string): string | undefined {
  const [y, m, d] = [Number(year), Number(month), Number(day)]
  const isPlausible = y >= 1970 && y <= 2099 && m >= 1 && m <= 12 && d >= 1
  // Day 0 of the next month is the last day of this month.
  const exists = isPlausible && (d <= 28 || d <= new Date(Date.UTC(y, m, 0)).getUTCDate())
  return exists ? `${year}-${month}-${day}` : undefined
}

/** Returns the milliseconds of a date with or without a time. Without an offset, the time is in UTC. */
export function parseInstant(text: string): number | undefined {
  if (parseDate(text) === undefined) return undefined
  const hasTime = text.includes('T')
  const hasOffset = /(?:Z|[+-]\d{2}:\d{2})$/.test(text.slice(10))
  const instant = Date.parse(hasTime ? text + (hasOffset ? '' : 'Z') : `${text.slice(0, 10)}T00:00:00Z`)
  return Number.isNaN(instant) ? undefined : instant
}

export const DAY_MS = 86_400_000

/** Returns the account without spaces and in upper case, so that each spelling is one account. */
export function normalizeAccount(account: string): string {
  return account.replaceAll(/\s+/g, '').toUpperCase()
}
