import type { Queryable } from '../../libs/db/index.js'

/**
 * Times of one sequence: microseconds since it began, by PostgreSQL's clock.
 *
 * Nothing in a fuzz waits for a clock, and no slow machine changes what it finds. What is past is long past, what is to come
 * is far away, and a jump of the clock always crosses the present without ever meeting it. A time that the model cannot
 * know, because only PostgreSQL's clock does, is a `Rule` until it was read: it must follow from something that can be read.
 */
export const SECOND = 1_000_000
const FAR = 500_000 * SECOND
export const JUMP = 2 * FAR
/** What is due sooner than that could come due while the sequence is played. */
export const SOON = 3600 * SECOND

/** At least and at most so long after the call, or after the attempt or claim that the row tells of. */
export interface Rule {
  readonly since: 'call' | 'attempt' | 'claim'
  readonly min: number
  readonly max: number
  /** But not before this. */
  readonly notBefore?: number
}

export type Time = number | Rule

export const NOW: Rule = { since: 'call', min: 0, max: 0 }

/** What can be read: the clock before and after the call, and what the row tells. */
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
    // Whole milliseconds: a Date can say them.
    this.#start = Math.floor(Number(rows[0]!.start) / 1_000) * 1_000
  }

  /** Microseconds from 1970 to the beginning. */
  get start(): number {
    return this.#start
  }

  /** A past moment like no other. */
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

/** 5 s, 10 s, 20 s … at most 300 s, shortened by up to a fifth. */
export function backoff(since: Rule['since'], attemptNo: number): Rule {
  const max = Math.min(5 * 2 ** (attemptNo - 1), 300) * SECOND
  return { since, min: max * 0.8, max }
}

/** What is expected of this time and is not so; nothing if all is well. */
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

/** Between two steps every time has been read. */
export function at(time: Time): number {
  if (typeof time !== 'number') throw new Error('a time that was not read yet')
  return time
}

/** For comparing with a Date, which has milliseconds. */
export function toMilliseconds(micros: number | null): string {
  return micros === null ? 'never' : String(Math.floor(micros / 1_000))
}
