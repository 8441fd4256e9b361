import { Cron } from 'croner'
import { ArgumentRangeError, InvalidArgumentError, requiredText } from '../core/index.js'

/**
 * Cron expression in a time zone: five fields (minute, hour, day, month, weekday), six with the seconds first, or a
 * macro. If day and weekday are both given, either one matches ("the 1st, and every Monday").
 *
 * Clock changes follow two rules. A fixed time (one second, one minute, one hour) occurs once on each of its days: in
 * the spring gap just after the gap, in the repeated autumn hour only the first time. Every other expression (`*`,
 * lists, ranges, steps) follows the local clock: times in the gap do not occur, and the repeated hour occurs twice.
 */
export class CronSchedule {
  readonly #cron: Cron
  /** Patterns whose earlier occurrences are together those of the schedule. */
  readonly #backwards: readonly Cron[]

  constructor(cron: string, timeZone: string) {
    this.#cron = readPattern(cron, timeZone)
    const workingDays = withWorkingDaysOnly(cron)
    this.#backwards = workingDays === undefined ? [this.#cron] : [this.#cron, readPattern(workingDays, timeZone)]
  }

  /** Returns the first occurrence after a moment. */
  next(after: Date): Date {
    const next = this.#cron.nextRun(after)
    if (next !== null) return next
    throw new ArgumentRangeError('cron', 'expected a schedule with an occurrence, got a date that no year has')
  }

  /** Returns the latest occurrences up to and including a moment, oldest first. */
  latest(count: number, until: Date): Date[] {
    // croner searches strictly before the given moment. Occurrences are whole seconds, so searching from the next whole
    // second includes an occurrence at `until`.
    const reference = new Date(Math.floor(until.getTime() / 1_000) * 1_000 + 1_000)
    const found = this.#backwards.flatMap((cron) => cron.previousRuns(count, reference).map((at) => at.getTime()))
    return [...new Set(found)]
      .toSorted((a, b) => a - b)
      .slice(-count)
      .map((ms) => new Date(ms))
  }
}

/** Checks the schedule of a new job. Refuses an unknown time zone, and a schedule that never occurs. */
export function requiredSchedule(cron: string, timeZone: string): CronSchedule {
  const schedule = new CronSchedule(requiredCron('cron', cron), requiredTimeZone('timeZone', timeZone))
  // Throws if the schedule never occurs. An expression has no year, so the start time does not matter.
  schedule.next(ANY_TIME)
  return schedule
}

/** Returns the expression with single spaces and macros in lower case, so that equal schedules are equal texts. */
export function requiredCron(argument: string, value: unknown): string {
  const text = requiredText(argument, value, CRON_LENGTH_MAX).trim().replaceAll(/\s+/g, ' ')
  if (text.startsWith('@')) {
    const macro = text.toLowerCase()
    if (MACROS.includes(macro)) return macro
    throw new InvalidArgumentError(argument, `expected ${MACROS.join(', ')} or fields, got ${text}`)
  }
  const fields = text.split(' ').length
  if (fields !== 5 && fields !== 6) {
    throw new InvalidArgumentError(argument, `expected five fields, or six with the seconds first, got ${fields}`)
  }
  return text
}

/**
 * Checks that this process knows the time zone. Keeps the given name, because an alias may later point to another zone.
 */
export function requiredTimeZone(argument: string, value: unknown): string {
  const name = requiredText(argument, value, ZONE_LENGTH_MAX)
  try {
    ANY_TIME.toLocaleString('en', { timeZone: name })
  } catch {
    throw new InvalidArgumentError(argument, `expected the IANA name of a time zone, such as Africa/Cairo, got ${name}`)
  }
  return name
}

/**
 * Returns the expression with only the working days (`15W`) of its list of days, if the list has plain days too. In
 * such a list croner 11.0.0 searches backwards without the working days of most months.
 */
function withWorkingDaysOnly(cron: string): string | undefined {
  const fields = cron.split(' ')
  const days = fields.at(-3)?.split(',') ?? []
  const workingDays = days.filter((day) => /^\d+W$/i.test(day))
  if (workingDays.length === 0 || workingDays.length === days.length) return undefined
  return [...fields.slice(0, -3), workingDays.join(','), ...fields.slice(-2)].join(' ')
}

function readPattern(cron: string, timeZone: string): Cron {
  try {
    return new Cron(cron, { timezone: timeZone, mode: '5-or-6-parts' })
  } catch (error) {
    const reason = error instanceof Error ? error.message.replace(/^CronPattern: /, '') : String(error)
    if (error instanceof RangeError) throw new ArgumentRangeError('cron', reason)
    throw new InvalidArgumentError('cron', reason)
  }
}

const MACROS: readonly string[] = ['@yearly', '@annually', '@monthly', '@weekly', '@daily', '@midnight', '@hourly']
const CRON_LENGTH_MAX = 256
const ZONE_LENGTH_MAX = 128
const ANY_TIME = new Date('2000-01-01T00:00:00Z')
