import type { Queryable } from '../../libs/db/index.js'

/*
 * Times of one sequence: microseconds since its start, by PostgreSQL's clock. A fuzz never waits for a clock, so a slow
 * machine cannot change its result. Past and future times are days away, and a jump of the clock is longer than that. A
 * time that PostgreSQL computes is a `Rule`, a range after a known time, until it is read.
 */

export const SECOND = 1_000_000
const FAR = 500_000 * SECOND
export const JUMP = 2 * FAR
/** A time that is less than this in the future could become due during the sequence. */
export const SOON = 3600 * SECOND

/** Expected range of a time, counted from the call, or from the last attempt or claim in the row. */
export interface Rule {
  readonly since: 'call' | 'attempt' | 'claim'
  readonly min: number
  readonly max: number
  /** Earliest time, which overrides the range. */
  readonly notBefore?: number
}

export type Time = number | Rule

export const NOW: Rule = { since: 'call', min: 0, max: 0 }

/** Known times: the clock before and after the call, and times in the row. */
export interface Known {
  readonly call: readonly [number, number]
  readonly attempt?: number | null
  readonly claim?: number | null
}

export class Timeline {
  #start = 0
  #ticks = 0

  async begin(superuser: Queryable): Promise<void> {
    const { rows } = await superuser.query<{ start: bigint }>('SELECT epoch_micros(clock_timestamp()) AS start')
    // Rounds down to whole milliseconds, the unit of a Date.
    this.#start = Math.floor(Number(rows[0]!.start) / 1_000) * 1_000
  }

  /** Microseconds from 1970 to the start. */
  get start(): number {
    return this.#start
  }

  /** Returns a unique past time. */
  past(): number {
    return -FAR + ++this.#ticks * SECOND
  }

  future(): number {
    return FAR + ++this.#ticks * SECOND
  }

  toDate(time: number): Date {
    return new Date((this.#start + time) / 1_000)
  }

  fromDate(date: Date): number {
    return date.getTime() * 1_000 - this.#start
  }
}

export function exactly(since: Rule['since'], micros: number): Rule {
  return { since, min: micros, max: micros }
}

/** Returns the range of the backoff: 5 s, 10 s, 20 s … at most 300 s, shortened by up to 20 %. */
export function backoff(since: Rule['since'], attemptNo: number): Rule {
  const max = Math.min(5 * 2 ** (attemptNo - 1), 300) * SECOND
  return { since, min: max * 0.8, max }
}

/** Returns a difference if the time is outside its expected range. */
export function timeDifference(what: string, expected: Time, actual: number | null, known: Known): string[] {
  const [min, max] = rangeOf(expected, known)
  if (actual !== null && actual >= min && actual <= max) return []
  return [`${what} ${actual}, expected ${min === max ? min : `${min} to ${max}`}`]
}

function rangeOf(expected: Time, known: Known): [number, number] {
  if (typeof expected === 'number') return [expected, expected]
  const { since, min, max, notBefore = -Infinity } = expected
  if (since !== 'call') return [known[since]! + min, known[since]! + max]
  return [Math.max(notBefore, known.call[0] + min), Math.max(notBefore, known.call[1] + max)]
}

/** Returns a time that was read from the database. Every time is read after each step. */
export function at(time: Time): number {
  if (typeof time !== 'number') throw new Error('the time was not read yet')
  return time
}

/** Rounds down to milliseconds, for the comparison with a Date. */
export function toMilliseconds(micros: number | null): string {
  return micros === null ? 'never' : String(Math.floor(micros / 1_000))
}
