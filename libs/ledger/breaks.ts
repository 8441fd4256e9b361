import { TABLE_OF } from './formats.js'
import type { LedgerRow } from './LedgerRow.js'

/** A place where the ledger is not what it was, and how that shows. */
export interface LedgerBreak {
  readonly table:
    | 'payment_outbox_identities'
    | 'payment_outbox_attempts'
    | 'payment_outbox_events'
    | 'payment_outbox_blocks'
    | 'checkpoints'
  /** The number of the block that is, or covers, the place; null where no block does. */
  readonly block: string | null
  /** The item or scope; the id of a row that is gone; the line of a checkpoint. */
  readonly subject: string
  /** `identity`, `attempt 3`, `event 2`, `block 7`, `line 4`. */
  readonly position: string
  readonly why: string
}

/** Counts everything and keeps the first hundred: a destroyed ledger must not exhaust the memory of who looks at it. */
export class BreakTally {
  readonly shown: LedgerBreak[] = []
  count = 0

  add(found: LedgerBreak): void {
    this.count += 1
    if (this.shown.length < BREAKS_SHOWN_MAX) this.shown.push(found)
  }
}

/** `identity`, `attempt 3`, `event 2`: the place of a row in what is about its subject. */
export function placeOf({ kind, number }: Pick<LedgerRow, 'kind' | 'number'>): string {
  return kind === 'identity' ? 'identity' : `${kind} ${number}`
}

export function breakOfRow(row: LedgerRow, block: string | null, why: string): LedgerBreak {
  return { table: TABLE_OF[row.kind], block, subject: row.subject, position: placeOf(row), why }
}

export function describeBreak({ table, block, subject, position, why }: LedgerBreak): string {
  const where = table === 'payment_outbox_blocks' || table === 'checkpoints' ? '' : ` ${subject}`
  return `${table}${where} ${position}${block === null || position === `block ${block}` ? '' : ` (block ${block})`}: ${why}`
}

const BREAKS_SHOWN_MAX = 100
