/**
 * A time as people and programs write it: a day that exists, a time of day, and an offset, without which it would mean another moment
 * on another machine. Undefined for anything else; `Date` alone would read the 30th of February as the 2nd of March.
 */
export function readInstant(text: string): Date | undefined {
  const [, year, month, day] = RFC_3339.exec(text)?.map(Number) ?? []
  if (year === undefined || month === undefined || day === undefined) return undefined
  const time = new Date(text)
  // The 0th day of the next month is the last one of this month.
  const daysOfMonth = new Date(Date.UTC(2_000 + (year % 400), month, 0)).getUTCDate()
  return Number.isNaN(time.getTime()) || day > daysOfMonth ? undefined : time
}

const RFC_3339 = /^(\d{4})-(\d{2})-(\d{2})T\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?(?:Z|[+-]\d{2}:\d{2})$/
