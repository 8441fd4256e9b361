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
  /** Patterns whose occurrences are together those of the expression. */
  readonly #patterns: readonly Cron[]

  constructor(cron: string, timeZone: string) {
    const whole = readPattern(cron, timeZone)
    const parts = splitDays(cron)
    this.#patterns = parts.length === 1 ? [whole] : parts.map((part) => readPattern(part, timeZone))
  }

  /** Returns the first occurrence after a moment. */
  next(after: Date): Date {
    const found = this.#patterns.flatMap((pattern) => nextRun(pattern, after)?.getTime() ?? [])
    if (found.length > 0) return new Date(Math.min(...found))
    throw new ArgumentRangeError('cron', 'expected a schedule with an occurrence, got a date that no year has')
  }

  /** Returns the latest occurrences up to and including a moment, oldest first. */
  latest(count: number, until: Date): Date[] {
    // croner searches strictly before the given moment. Occurrences are whole seconds, so searching from the next whole
    // second includes an occurrence at `until`.
    const reference = new Date(Math.floor(until.getTime() / 1_000) * 1_000 + 1_000)
    const found = this.#patterns.flatMap((pattern) => pattern.previousRuns(count, reference).map((at) => at.getTime()))
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
 * Returns the first occurrence after a moment. Forwards, croner 11.0.0 takes 30 February for 2 March and 31 February for
 * 3 March, and so passes over occurrences on 1 and 2 March. Backwards it finds them.
 */
function nextRun(pattern: Cron, after: Date): Date | null {
  let next = pattern.nextRun(after)
  while (next !== null && after.getTime() < Date.UTC(next.getUTCFullYear(), 2, 3)) {
    const [earlier] = pattern.previousRuns(1, next)
    if (earlier === undefined || earlier <= after) break
    // A job that runs each second would need 86,400 single steps: 8 s of CPU time.
    next =
      JUMPS_MS.map((ms) => pattern.nextRun(new Date(Math.max(after.getTime(), earlier.getTime() - ms)))).find(
        (first) => first !== null && first < earlier,
      ) ?? earlier
  }
  return next
}

/** Jumps back within March: forwards from there, croner counts correctly. */
const JUMPS_MS = [3_600_000, 60_000]

/**
 * Splits an expression into one with only plain days and one with only working days (`15W`), because croner 11.0.0
 * loses working days backwards if a list mixes them.
 */
function splitDays(cron: string): string[] {
  const fields = cron.split(' ')
  const days = fields.at(-3)?.split(',') ?? []
  const working = days.filter((day) => WORKING_DAY.test(day))
  const plain = days.filter((day) => !working.includes(day))
  if (working.length === 0 || plain.length === 0) return [cron]
  return [plain, working].map((some) => [...fields.slice(0, -3), some.join(','), ...fields.slice(-2)].join(' '))
}

const WORKING_DAY = /^\d+W$/i

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
