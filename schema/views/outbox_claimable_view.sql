-- The one definition of a claimable item. The planner replaces the view by its query, so that the partial index
-- ix_pending_claimable serves it, and FOR UPDATE locks the rows of the table.

CREATE OR REPLACE VIEW claimable_outbox_items AS
SELECT p.ctid AS place, p.rail_type, p.is_message, p.next_attempt_at, p.created_at, p.sequence_id, p.participant_id,
  p.ordered
FROM payment_outbox_pending p
WHERE p.lease_token IS NULL AND p.hold_reason IS NULL AND NOT p.blocked;
COMMENT ON VIEW claimable_outbox_items IS
  'Internal: pending items without a lease, a hold or an unfinished predecessor, due or not.';
