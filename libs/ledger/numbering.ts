import type { LedgerRow } from './LedgerRow.js'
import { integerOf } from './record.js'

/** The numbers of each participant's items, of which none may be missing. Keeps one entry per participant. */
export class Sequences {
  readonly #taken = new Map<string, { count: bigint; last: bigint }>()

  see(row: LedgerRow): void {
    if (row.kind !== 'identity') return
    const participant = row.field('participant_id') ?? ''
    const number = integerOf(row.field('sequence_id'))
    const taken = this.#taken.get(participant)
    if (taken === undefined) this.#taken.set(participant, { count: 1n, last: number })
    else {
      taken.count += 1n
      if (number > taken.last) taken.last = number
    }
  }

  /** No number is taken twice (a constraint), so as many as the highest are all of them. */
  gaps(): string[] {
    return [...this.#taken].filter(([, { count, last }]) => count !== last).map(([participant]) => participant)
  }
}

/**
 * The attempts of each item: numbered 1, 2, 3 …, with at most one ending. An item that has ended and has all its numbers is
 * forgotten, so that only open items take memory; a row that follows makes it suspected. Among given items none is forgotten.
 */
export class AttemptNumbers {
  readonly #among: ReadonlySet<string> | undefined
  readonly #items = new Map<string, { count: bigint; last: bigint; endings: number }>()

  constructor(among?: ReadonlySet<string>) {
    this.#among = among
  }

  see(row: LedgerRow): void {
    if (row.kind !== 'attempt') return
    const { subject, number, ends } = row
    if (this.#among?.has(subject) === false) return
    const item = this.#items.get(subject) ?? { count: 0n, last: 0n, endings: 0 }
    item.count += 1n
    if (number > item.last) item.last = number
    if (ends) item.endings += 1
    if (this.#among === undefined && item.endings === 1 && item.count === item.last) this.#items.delete(subject)
    else this.#items.set(subject, item)
  }

  gaps(): string[] {
    return [...this.#items].filter(([, { count, last }]) => count !== last).map(([subject]) => subject)
  }

  doubleEndings(): string[] {
    return [...this.#items].filter(([, { endings }]) => endings > 1).map(([subject]) => subject)
  }
}
