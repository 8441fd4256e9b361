-- Attempts recorded per minute, for charts: the last 60 minutes, empty ones included. The view reads totals and
-- tallies, so its cost does not grow with the ledger.
CREATE OR REPLACE VIEW outbox_throughput WITH (security_barrier = true) AS
WITH recorded AS (
  SELECT o.minute, o.dispatched, o.retryable, o.failed, o.zombie_requeue, o.outcome_unknown FROM outbox_attempt_totals o
  WHERE o.minute > statement_timestamp() - interval '61 minutes'
  UNION ALL
  -- Sums the tallies per minute before the join below reads them. date_bin is faster than date_trunc.
  SELECT date_bin(interval '1 minute', t.recorded_at, timestamptz '2000-01-01 00:00:00+00'),
    sum(t.dispatched), sum(t.retryable), sum(t.failed), sum(t.zombie_requeue), sum(t.outcome_unknown)
  FROM outbox_attempt_tallies t GROUP BY 1
)
SELECT m.minute, COALESCE(sum(r.dispatched), 0)::bigint AS dispatched,
  COALESCE(sum(r.retryable), 0)::bigint AS retryable, COALESCE(sum(r.failed), 0)::bigint AS failed,
  COALESCE(sum(r.zombie_requeue), 0)::bigint AS zombie_requeue,
  COALESCE(sum(r.outcome_unknown), 0)::bigint AS outcome_unknown
FROM generate_series(
    date_trunc('minute', statement_timestamp(), 'UTC') - interval '59 minutes',
    date_trunc('minute', statement_timestamp(), 'UTC'), interval '1 minute') AS m(minute)
LEFT JOIN recorded r ON r.minute = m.minute
GROUP BY m.minute;
COMMENT ON VIEW outbox_throughput IS 'Attempts recorded in each of the last 60 minutes.';
