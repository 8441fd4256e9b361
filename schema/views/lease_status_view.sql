-- Status of the leases.

CREATE OR REPLACE VIEW supervisor_lease_status WITH (security_barrier = true) AS
WITH held AS (
  SELECT count(*) AS total FROM symphony_leases l WHERE l.released_at IS NULL AND l.expires_at > statement_timestamp()
), expired AS (
  SELECT count(*) AS total FROM symphony_leases l WHERE l.released_at IS NULL AND l.expires_at <= statement_timestamp()
)
SELECT h.total AS held_count, e.total AS expired_count FROM held h CROSS JOIN expired e;
COMMENT ON VIEW supervisor_lease_status IS
  'Number of held leases, and of leases that expired and were not acquired again.';
