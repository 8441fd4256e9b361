-- Bank entries that name a payment, for every reader: no account and no reference, and amount and currency only unless
-- the rail's field classes hide them.
CREATE OR REPLACE VIEW reconciliation_payment_entries WITH (security_barrier = true) AS
SELECT e.run_id, e.outbox_id, r.rail_type, e.kind,
  CASE WHEN NOT COALESCE(ARRAY[f.fields ->> '/amount', f.fields ->> '/*'] && '{masked,forbidden,encrypted}', false)
    THEN e.amount END AS amount,
  CASE WHEN NOT COALESCE(ARRAY[f.fields ->> '/currency', f.fields ->> '/*'] && '{masked,forbidden,encrypted}', false)
    THEN e.currency END AS currency,
  e.booked_on, e.valued_on, e.return_code, e.position, r.created_at AS seen_at
FROM reconciliation_entries e
JOIN reconciliation_runs r ON r.run_id = e.run_id
LEFT JOIN outbox_rails f ON f.rail_type = r.rail_type
WHERE e.outbox_id IS NOT NULL;
COMMENT ON VIEW reconciliation_payment_entries IS
  'Bank entries that name a payment. Amount and currency are null if the field classes of the rail hide them.';
