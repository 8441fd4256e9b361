import type { LedgerRow } from './chain.js'

/** The numbers of each participant's items, of which none may be missing. Keeps one entry per participant. */
export class Sequences {
  readonly #taken = new Map<string, { count: bigint; last: bigint }>()

  see({ kind, fields }: LedgerRow): void {
    if (kind !== 'identity') return
    const participant = fields[3] ?? ''
    const number = BigInt(fields[4] ?? 0)
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
