// Reads payments of a ledger for generated statements.

const PAGE_ROWS = 20_000

/**
 * Returns the last payments of a rail, in the order of their ids. `auditor` is a handle of symphony_auditor or of a
 * superuser.
 */
export async function readLedgerPayments(auditor, rail, count = Infinity) {
  const payments = []
  while (payments.length < count) {
    const values = [rail, payments.at(-1)?.outboxId ?? null, Math.min(PAGE_ROWS, count - payments.length)]
    const { rows } = await auditor.query(pageOf(auditor.schema), values)
    if (rows.length === 0) break
    payments.push(...rows)
  }
  return payments.toReversed()
}

function pageOf(schema) {
  const own = `"${schema.replaceAll('"', '""')}"`
  return `
SELECT i.outbox_id AS "outboxId", coalesce(a.payload, p.payload) ->> 'amount' AS amount,
  coalesce(a.payload, p.payload) ->> 'currency' AS currency, coalesce(a.state::text, 'PENDING') AS state,
  a.completed_at AS "completedAt"
FROM ${own}.payment_outbox_identities i
LEFT JOIN ${own}.payment_outbox_attempts a ON a.outbox_id = i.outbox_id AND a.state IN ('DISPATCHED', 'FAILED')
LEFT JOIN ${own}.payment_outbox_pending p ON p.outbox_id = i.outbox_id
WHERE i.rail_type = $1 AND ($2::uuid IS NULL OR i.outbox_id < $2) ORDER BY i.outbox_id DESC LIMIT $3`
}
