-- The totals of the status view, which come from a roll-up, equal the counts of the ledger.
SELECT format('attempts that ended as %s', t.state) AS object, COALESCE(l.attempts, 0)::text AS expected,
  t.total::text AS found
FROM supervisor_outbox_status s
CROSS JOIN LATERAL (VALUES
  ('DISPATCHED', s.dispatched_total),
  ('RETRYABLE', s.retryable_total),
  ('FAILED', s.failed_total),
  ('ZOMBIE_REQUEUE', s.zombie_requeue_total),
  ('CANCELLED', s.cancelled_total)
) AS t(state, total)
LEFT JOIN (
  SELECT a.state::text, count(*) AS attempts FROM payment_outbox_attempts a GROUP BY a.state
  UNION ALL
  SELECT 'CANCELLED', count(*) FROM payment_outbox_attempts a WHERE a.action = 'cancelled'
) l ON l.state = t.state
WHERE t.total <> COALESCE(l.attempts, 0)
UNION ALL
SELECT 'returned payments', l.payments::text, s.returned_total::text
FROM supervisor_outbox_status s
CROSS JOIN (
  SELECT count(DISTINCT e.outbox_id) AS payments FROM payment_outbox_events e WHERE e.event_type = 'RETURN_RECORDED'
) l
WHERE s.returned_total <> l.payments;
