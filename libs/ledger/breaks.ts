import { TABLE_OF } from './formats.js'
import type { LedgerRow } from './LedgerRow.js'

/** Difference between the ledger and its hashes, and its place. */
export interface LedgerBreak {
  readonly table:
    | 'payment_outbox_identities'
    | 'payment_outbox_attempts'
    | 'payment_outbox_events'
    | 'payment_outbox_blocks'
    | 'checkpoints'
    | `reconciliation_${'runs' | 'entries' | 'findings' | 'closings'}`
  /** Number of the block that covers the place; null if no block covers it. */
  readonly block: string | null
  /**
   * Subject of the break: an item or scope, the id of a missing row, the line of a checkpoint, or the id of a run or
   * finding of reconciliation.
   */
  readonly subject: string
  /** Place within the subject: `identity`, `attempt 3`, `event 2`, `block 7`, `line 4`, `run`, `finding`. */
  readonly position: string
  readonly why: string
}

/** Counts all breaks and keeps the first hundred, so that a destroyed ledger does not exhaust memory. */
export class BreakTally {
  readonly shown: LedgerBreak[] = []
  count = 0

  add(found: LedgerBreak): void {
    this.count += 1
    if (this.shown.length < BREAKS_SHOWN_MAX) this.shown.push(found)
  }
}

/** Returns the place of a row among the rows of its subject: `identity`, `attempt 3` or `event 2`. */
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
