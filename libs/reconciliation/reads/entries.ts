import { isoMicros, qualify, type Queryable } from '../../db/index.js'

/** Entry of a statement that names a payment, without texts of the bank. */
export interface PaymentEntry {
  /** First run that contained the entry. */
  readonly runId: string
  /** Time of the run. */
  readonly seenAt: string
  /**
   * `payout`: the bank paid. `reversal`: the bank returned the money. `debit_reversal`: a debit marked as a reversal.
   */
  readonly kind: 'payout' | 'reversal' | 'debit_reversal'
  /** Null if the statement has no amount, or if the rail's field classes hide it. */
  readonly amount: string | null
  readonly currency: string | null
  /** `YYYY-MM-DD`, like `valuedOn`. */
  readonly bookedOn: string | null
  readonly valuedOn: string | null
  readonly returnCode: string | null
}

/** Returns the first 100 bank entries of an item, in the order of their runs. */
export async function readPaymentEntries(role: Queryable, outboxId: string): Promise<PaymentEntry[]> {
  const { rows } = await role.query<PaymentEntry>(
    `SELECT e.run_id AS "runId", ${isoMicros('e.seen_at')} AS "seenAt", e.kind, e.amount::text AS amount, e.currency,
       to_char(e.booked_on, 'YYYY-MM-DD') AS "bookedOn", to_char(e.valued_on, 'YYYY-MM-DD') AS "valuedOn",
       e.return_code AS "returnCode"
     FROM ${qualify(role, 'reconciliation_payment_entries')} e
     WHERE e.outbox_id = $1 ORDER BY e.seen_at, e.position LIMIT 100`,
    [outboxId],
  )
  return rows
}
