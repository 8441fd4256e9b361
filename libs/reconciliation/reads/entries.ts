import { isoMicros, qualify, type Queryable } from '../../db/index.js'

/** Entry of a statement that names a payment, without the texts of the bank. */
export interface PaymentEntry {
  /** First run that saw the entry. */
  readonly runId: string
  /** Time of that run. */
  readonly seenAt: string
  /** `payout`: the bank paid. `reversal`: it sent the money back. `debit_reversal`: a debit marked as a reversal. */
  readonly kind: 'payout' | 'reversal' | 'debit_reversal'
  /** Null if the statement has none, or if the rail's field classes hide amounts. */
  readonly amount: string | null
  readonly currency: string | null
  /** `YYYY-MM-DD`, as the valuedOn date. */
  readonly bookedOn: string | null
  readonly valuedOn: string | null
  readonly returnCode: string | null
}

/** Returns the bank entries of an item, in the order in which runs saw them, at most 100. */
export async function readPaymentEntries(role: Queryable, outboxId: string): Promise<PaymentEntry[]> {
  const { rows } = await role.query<PaymentEntry>(
    `SELECT e.run_id AS "runId", ${isoMicros('r.created_at')} AS "seenAt", e.kind,
       CASE WHEN NOT COALESCE(ARRAY[f.fields ->> '/amount', f.fields ->> '/*'] && '{masked,forbidden,encrypted}', false)
         THEN e.amount::text END AS amount,
       CASE WHEN NOT COALESCE(ARRAY[f.fields ->> '/currency', f.fields ->> '/*'] && '{masked,forbidden,encrypted}', false)
         THEN e.currency END AS currency,
       to_char(e.booked_on, 'YYYY-MM-DD') AS "bookedOn", to_char(e.valued_on, 'YYYY-MM-DD') AS "valuedOn",
       e.return_code AS "returnCode"
     FROM ${qualify(role, 'reconciliation_entries')} e
     JOIN ${qualify(role, 'reconciliation_runs')} r ON r.run_id = e.run_id
     LEFT JOIN ${qualify(role, 'outbox_rails')} f ON f.rail_type = r.rail_type
     WHERE e.outbox_id = $1 ORDER BY r.created_at, e.position LIMIT 100`,
    [outboxId],
  )
  return rows
}
