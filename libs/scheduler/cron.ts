import { Cron } from 'croner'
import { ArgumentRangeError, InvalidArgumentError, requiredText } from '../core/index.js'

/**
 * A cron expression in a time zone: five fields (minute, hour, day, month, weekday), or six with the seconds first, or a macro.
 * Days and weekdays that are both given are both meant ("the 1st, and every Monday").
 *
 * Where clocks change, two rules. A fixed time (one second, one minute, one hour) happens once on each of its days: in the gap of
 * spring at the first moment after it, in the doubled hour of autumn the first time. Anything else (`*`, lists, ranges, steps)
 * follows the clock on the wall: what the gap leaves out does not happen, and the doubled hour happens twice.
 */
export class CronSchedule {
  readonly #cron: Cron

  constructor(cron: string, timeZone: string) {
    this.#cron = readPattern(cron, timeZone)
  }

  /** The first occurrence after a moment. */
  next(after: Date): Date {
    const next = this.#cron.nextRun(after)
    if (next !== null) return next
    throw new ArgumentRangeError('cron', 'expected a schedule that comes due some day, got a date that no year has')
  }

  /** The latest occurrences up to a moment and including it, oldest first. */
  latest(count: number, until: Date): Date[] {
    // Occurrences are whole seconds, and croner looks before the moment it is given.
    const reference = new Date(Math.floor(until.getTime() / 1_000) * 1_000 + 1_000)
    return this.#cron.previousRuns(count, reference).toReversed()
  }
}

/** A schedule as somebody defines it: refused at once if it never comes due, or not in a zone that there is. */
export function requiredSchedule(cron: string, timeZone: string): CronSchedule {
  const schedule = new CronSchedule(requiredCron('cron', cron), requiredTimeZone('timeZone', timeZone))
  // Without years, dates repeat: whether one comes at all does not depend on when it is asked.
  schedule.next(ANY_TIME)
  return schedule
}

/** The expression in its one spelling, so that the same schedule is the same text. */
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

/** Known to this process. Left as it is spelled: what an alias stands for changes with the years. */
export function requiredTimeZone(argument: string, value: unknown): string {
  const name = requiredText(argument, value, ZONE_LENGTH_MAX)
  try {
    ANY_TIME.toLocaleString('en', { timeZone: name })
  } catch {
    throw new InvalidArgumentError(argument, `expected the IANA name of a time zone, such as Africa/Cairo, got ${name}`)
  }
  return name
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
