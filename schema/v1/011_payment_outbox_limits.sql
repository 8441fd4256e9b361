-- Limits of the payment outbox: rules, their proposals and the usage of windows. The functions are in
-- schema/functions/outbox/limits.sql.

CREATE TABLE IF NOT EXISTS outbox_limits (
  limit_name text PRIMARY KEY,
  kind text NOT NULL,
  rail_type text,
  participant_id text,
  currency text,
  limit_value numeric NOT NULL,
  window_seconds integer,
  approvals integer,
  set_by text NOT NULL,
  set_at timestamptz NOT NULL,
  CONSTRAINT outbox_limits_known_kind CHECK (kind IN ('approval', 'amount', 'count')),
  CONSTRAINT outbox_limits_names_rail_or_participant CHECK (num_nonnulls(rail_type, participant_id) >= 1),
  CONSTRAINT outbox_limits_currency_unless_count CHECK ((kind = 'count') = (currency IS NULL)),
  CONSTRAINT outbox_limits_window_unless_approval CHECK ((kind = 'approval') = (window_seconds IS NULL)),
  CONSTRAINT outbox_limits_approvals_of_approval CHECK ((kind = 'approval') = (approvals IS NOT NULL)),
  CONSTRAINT outbox_limits_one_or_two_approvals CHECK (approvals IN (1, 2)),
  CONSTRAINT outbox_limits_not_negative CHECK (limit_value >= 0 AND limit_value < 1e18)
);
COMMENT ON TABLE outbox_limits IS
  'Rules in force, which hold payments at enqueue. Events of the scope limit:NAME keep every rule that was ever set.';
COMMENT ON COLUMN outbox_limits.kind IS
  'approval: holds a payment above the limit. amount, count: holds payments beyond the sum or the number of a window.';
COMMENT ON COLUMN outbox_limits.limit_value IS 'Amount in the currency; for the kind count a number of payments.';
COMMENT ON COLUMN outbox_limits.window_seconds IS 'Length of the rolling window; null for the kind approval.';
COMMENT ON COLUMN outbox_limits.approvals IS
  'Number of people who release a payment above the limit: 1 or 2; null for the other kinds.';
COMMENT ON COLUMN outbox_limits.set_at IS
  'Time at which a second person approved the rule. Earlier values of outbox_limit_usage.exceeded_at no longer hold '
  'payments.';

CREATE TABLE IF NOT EXISTS outbox_limit_proposals (
  proposal_id uuid PRIMARY KEY,
  limit_name text NOT NULL,
  rule jsonb,
  reason text NOT NULL,
  proposed_by text NOT NULL,
  proposed_at timestamptz NOT NULL,
  proposed_xid xid8 NOT NULL,
  status text NOT NULL DEFAULT 'OPEN',
  decided_by text,
  decided_at timestamptz,
  CONSTRAINT outbox_limit_proposals_known_status CHECK (status IN ('OPEN', 'APPROVED', 'WITHDRAWN')),
  CONSTRAINT outbox_limit_proposals_two_people CHECK (status <> 'APPROVED'
    OR person_key(decided_by) <> person_key(proposed_by))
);
COMMENT ON TABLE outbox_limit_proposals IS 'Proposals to set or remove a limit: open, approved or withdrawn.';
COMMENT ON COLUMN outbox_limit_proposals.rule IS
  'Columns of the proposed rule, as in outbox_limits; null for a removal.';

-- A bucket may have several rows. A writer that finds the row of a bucket locked adds a row instead of waiting. So a
-- limit of a whole rail never makes two transactions wait for each other.
CREATE TABLE IF NOT EXISTS outbox_limit_usage (
  limit_name text NOT NULL,
  expires_at timestamptz NOT NULL,
  slot_id uuid NOT NULL,
  used numeric NOT NULL,
  exceeded_at timestamptz,
  PRIMARY KEY (limit_name, expires_at, slot_id),
  CONSTRAINT outbox_limit_usage_not_negative CHECK (used >= 0)
)
WITH (fillfactor = 50);
COMMENT ON TABLE outbox_limit_usage IS
  'Payments that count against a limit, in buckets of a hundredth of its window. Repair deletes expired buckets.';
COMMENT ON COLUMN outbox_limit_usage.expires_at IS
  'End of the bucket plus the window: until then the whole bucket counts.';
COMMENT ON COLUMN outbox_limit_usage.used IS
  'Sum of amounts for a limit of kind amount; number of payments for kind count.';
COMMENT ON COLUMN outbox_limit_usage.exceeded_at IS
  'Time at which a payment exceeded the limit. Later payments are held until the bucket expires or the limit is set '
  'again.';

CREATE INDEX IF NOT EXISTS ix_limits_by_participant ON outbox_limits (participant_id)
  WHERE participant_id IS NOT NULL;
COMMENT ON INDEX ix_limits_by_participant IS 'Enqueue: the limits of a participant. One entry per such limit.';
CREATE INDEX IF NOT EXISTS ix_limits_by_rail ON outbox_limits (rail_type) WHERE participant_id IS NULL;
COMMENT ON INDEX ix_limits_by_rail IS 'Enqueue: the limits of a whole rail. One entry per such limit.';
CREATE UNIQUE INDEX IF NOT EXISTS ux_limit_proposals_one_open_per_limit
  ON outbox_limit_proposals (limit_name) WHERE status = 'OPEN';
COMMENT ON INDEX ux_limit_proposals_one_open_per_limit IS
  'Decisions: refuses a second open proposal for one limit. One entry per open proposal.';
CREATE INDEX IF NOT EXISTS ix_limit_usage_expired ON outbox_limit_usage (expires_at);
COMMENT ON INDEX ix_limit_usage_expired IS 'Lease repair: expired buckets. One entry per bucket.';
