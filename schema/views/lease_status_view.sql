-- Leases at a glance.

CREATE OR REPLACE VIEW supervisor_lease_status WITH (security_barrier = true) AS
SELECT count(*) FILTER (WHERE l.expires_at > statement_timestamp()) AS held_count,
  count(*) FILTER (WHERE l.expires_at <= statement_timestamp()) AS expired_count
FROM symphony_leases l WHERE l.released_at IS NULL;
COMMENT ON VIEW supervisor_lease_status IS 'Leases that are held now, and those that ran out in their holder''s hands and that nobody has acquired since.';
