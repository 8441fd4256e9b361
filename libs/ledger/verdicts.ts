export type InvariantId = 'I1' | 'I2' | 'I3' | 'I4' | 'I5' | 'I6' | 'I7' | 'I8' | 'I9' | 'I10'

export interface InvariantVerdict {
  readonly id: InvariantId
  readonly sentence: string
  readonly ok: boolean
  /** What breaks it: ids, or what was counted. The first ten. */
  readonly found: readonly string[]
}

export const INVARIANTS: Readonly<Record<InvariantId, string>> = Object.freeze({
  I1: 'everything accepted is pending or has ended',
  I2: 'a payment ends at most once',
  I3: 'each DISPATCHED payment is in the rail’s book under its reference',
  I4: 'the rail paid each reference at most once',
  I5: 'no FAILED payment was paid',
  I6: 'attempts and events are numbered 1, 2, 3 …',
  I7: 'sequences have no gap',
  I8: 'no lease stands long after its end',
  I9: 'no row of the ledger was changed',
  I10: 'after healing, everything drains',
})

export function verdict(id: InvariantId, found: readonly string[]): InvariantVerdict {
  return { id, sentence: INVARIANTS[id], ok: found.length === 0, found: found.slice(0, FOUND_SHOWN_MAX) }
}

const FOUND_SHOWN_MAX = 10
