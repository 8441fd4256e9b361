-- The payment outbox: tables, indexes and guards. Its functions are in schema/functions/outbox.
--
--   payment_outbox_identities   one permanent row per item: instruction, key, participant and sequence number
--   payment_outbox_pending      the queue: one row per item until its terminal outcome; leased means in flight
--   payment_outbox_attempts     the ledger: one immutable row per attempt, sealed in blocks
--   payment_outbox_events       ledger events: late outcomes, holds, decisions, pauses
--
-- A crash of a worker leaves a pending row with a lease that expires, and no other incomplete state.

-- Types ---------------------------------------------------------------------------------------------------------------

DO $$
BEGIN
  IF to_regtype('outbox_attempt_state') IS NULL THEN
    CREATE TYPE outbox_attempt_state AS ENUM ('DISPATCHING', 'DISPATCHED', 'RETRYABLE', 'FAILED', 'ZOMBIE_REQUEUE');
  END IF;
END
$$;
COMMENT ON TYPE outbox_attempt_state IS
  'Outcome of an attempt. DISPATCHING is a historical name that is never stored: in flight means leased.';

-- Tables --------------------------------------------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS symphony_settings (
  singleton boolean PRIMARY KEY DEFAULT true,
  notify_enabled boolean NOT NULL DEFAULT true,
  full_trail boolean NOT NULL DEFAULT false,
  actor_gateways text[] NOT NULL DEFAULT '{}',
  naming_gateways text[] NOT NULL DEFAULT '{}',
  CONSTRAINT symphony_settings_is_one_row CHECK (singleton)
);
INSERT INTO symphony_settings DEFAULT VALUES ON CONFLICT DO NOTHING;
COMMENT ON TABLE symphony_settings IS 'Settings of this deployment: one row, changed by the owner only.';
COMMENT ON COLUMN symphony_settings.notify_enabled IS
  'Whether functions send NOTIFY on outbox_pending, inbox_ready and scheduler_changed.';
COMMENT ON COLUMN symphony_settings.full_trail IS
  'Whether every change of a pending row is written to payment_outbox_events. A change of this setting is also an '
  'event.';
COMMENT ON COLUMN symphony_settings.actor_gateways IS
  'Logins of the HTTP API. Such a login acts as the owner of the API key in the setting symphony.api_key.';
COMMENT ON COLUMN symphony_settings.naming_gateways IS
  'Gateways that may also name a person without an API key, in the setting symphony.actor. The database cannot verify '
  'that name.';

CREATE TABLE IF NOT EXISTS participant_outbox_sequences (
  participant_id text PRIMARY KEY,
  next_sequence_id bigint NOT NULL,
  CONSTRAINT participant_outbox_sequences_start_at_one CHECK (next_sequence_id >= 1)
) WITH (fillfactor = 50);
COMMENT ON TABLE participant_outbox_sequences IS 'Next sequence number of each participant, without gaps.';

CREATE TABLE IF NOT EXISTS participant_outbox_policies (
  participant_id text PRIMARY KEY,
  on_ordered_failure text NOT NULL,
  CONSTRAINT participant_outbox_policies_continue_or_halt CHECK (on_ordered_failure IN ('continue', 'halt'))
);
COMMENT ON TABLE participant_outbox_policies IS
  'Effect of a FAILED item on the participant''s ordered stream: continue or halt. No row means continue.';

CREATE TABLE IF NOT EXISTS payment_outbox_identities (
  outbox_id uuid PRIMARY KEY,
  instruction_id text NOT NULL,
  idempotency_key text NOT NULL,
  participant_id text NOT NULL,
  sequence_id bigint NOT NULL,
  rail_type text NOT NULL,
  ordered boolean NOT NULL DEFAULT false,
  redrive_of uuid,
  content_hash bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  traceparent text,
  is_message boolean NOT NULL DEFAULT false,
  key_scope text,
  stream_position bigint,
  outcome_topic text,
  replaces uuid,
  recorded_xid bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
  CONSTRAINT payment_outbox_identities_one_per_key UNIQUE (instruction_id, idempotency_key),
  CONSTRAINT payment_outbox_identities_one_per_number UNIQUE (participant_id, sequence_id)
);
COMMENT ON TABLE payment_outbox_identities IS
  'One permanent row per item, which recognises a repeated instruction and key also after the item is terminal.';
COMMENT ON COLUMN payment_outbox_identities.content_hash IS
  'SHA-256 of participant, rail and payload, to compare the content of a repeated enqueue.';
COMMENT ON COLUMN payment_outbox_identities.is_message IS
  'Whether the item is a message, not a payment. A redrive inherits it.';
COMMENT ON COLUMN payment_outbox_identities.stream_position IS
  'Position in the ordered stream if it is not sequence_id: a redrive takes the position of the failed item.';
COMMENT ON COLUMN payment_outbox_identities.outcome_topic IS
  'Topic that receives the outcomes of this payment; null for none. A message that reports an outcome has its own '
  'topic here; other messages have null.';
COMMENT ON COLUMN payment_outbox_identities.replaces IS
  'First item of the payment that this payment replaces, for example after a return.';
COMMENT ON COLUMN payment_outbox_identities.redrive_of IS
  'FAILED item that this item redrives.';
COMMENT ON COLUMN payment_outbox_identities.traceparent IS
  'W3C traceparent of the request that enqueued the item, for its redrives. The hashes of blocks do not cover it.';
COMMENT ON COLUMN payment_outbox_identities.key_scope IS
  'Caller of the HTTP API whose idempotency key this is; null for SQL callers and redrives.';
COMMENT ON COLUMN payment_outbox_identities.recorded_xid IS
  'Transaction that wrote the row, which decides its position in the blocks.';

CREATE TABLE IF NOT EXISTS payment_outbox_pending (
  outbox_id uuid PRIMARY KEY,
  instruction_id text NOT NULL,
  participant_id text NOT NULL,
  sequence_id bigint NOT NULL,
  idempotency_key text NOT NULL,
  rail_type text NOT NULL,
  payload jsonb NOT NULL,
  attempt_count integer NOT NULL DEFAULT 0,
  next_attempt_at timestamptz NOT NULL DEFAULT now(),
  created_at timestamptz NOT NULL DEFAULT now(),
  -- The lease.
  claimed_by text,
  lease_token uuid,
  lease_expires_at timestamptz,
  claimed_at timestamptz,
  dispatch_mark text,
  -- Knowledge about the outcome.
  outcome_unknown boolean NOT NULL DEFAULT false,
  expiry_streak integer NOT NULL DEFAULT 0,
  late_outcome jsonb,
  -- Reasons that prevent a claim.
  hold_reason text,
  held_by text,
  held_at timestamptz,
  ordered boolean NOT NULL DEFAULT false,
  blocked boolean NOT NULL DEFAULT false,
  block_unverified boolean NOT NULL DEFAULT false,
  trace_context text,
  is_message boolean NOT NULL DEFAULT false,
  stream_position bigint,
  outcome_topic text,
  CONSTRAINT ux_pending_participant_sequence UNIQUE (participant_id, sequence_id),
  CONSTRAINT payment_outbox_pending_one_per_key UNIQUE (instruction_id, idempotency_key),
  CONSTRAINT payment_outbox_pending_payload_is_object CHECK (jsonb_typeof(payload) = 'object'),
  CONSTRAINT payment_outbox_pending_attempt_count_within_ceiling CHECK (attempt_count BETWEEN 0 AND 20),
  CONSTRAINT payment_outbox_pending_lease_all_or_none
    CHECK (num_nonnulls(claimed_by, lease_token, lease_expires_at) IN (0, 3)),
  CONSTRAINT payment_outbox_pending_mark_only_while_leased
    CHECK (dispatch_mark IS NULL OR (lease_token IS NOT NULL AND dispatch_mark IN ('awaited', 'begun'))),
  CONSTRAINT payment_outbox_pending_hold_all_or_none CHECK (num_nonnulls(hold_reason, held_by, held_at) IN (0, 3)),
  CONSTRAINT payment_outbox_pending_only_blocked_is_unverified CHECK (blocked OR NOT block_unverified)
)
-- Each lease updates the row. fillfactor leaves space for the new versions on the same page.
WITH (
  fillfactor = 70,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 500,
  autovacuum_analyze_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 1
);
COMMENT ON TABLE payment_outbox_pending IS
  'The queue: every item until its terminal outcome. A claim sets a lease in the row and does not remove the row.';
COMMENT ON COLUMN payment_outbox_pending.attempt_count IS
  'Highest attempt number, at most 20. A cache: completion and repair read the number from the ledger.';
COMMENT ON COLUMN payment_outbox_pending.claimed_by IS
  'Worker that holds the lease. A leased item is in flight.';
COMMENT ON COLUMN payment_outbox_pending.lease_token IS
  'Random token of the claim, known to its worker only, that fences completion.';
COMMENT ON COLUMN payment_outbox_pending.dispatch_mark IS
  'For rails with marked dispatch: awaited until begin_outbox_dispatch, then begun; null for other rails and without a '
  'lease.';
COMMENT ON COLUMN payment_outbox_pending.outcome_unknown IS
  'Whether the rail may have acted without a definitive answer. A success, a definitive answer or an operator clears '
  'it.';
COMMENT ON COLUMN payment_outbox_pending.expiry_streak IS
  'Number of consecutive expired leases. It grows if the payload crashes its worker.';
COMMENT ON COLUMN payment_outbox_pending.late_outcome IS
  'Outcome that a worker reported after it lost its lease. If it is a success, the next claimer records it without '
  'calling the rail.';
COMMENT ON COLUMN payment_outbox_pending.is_message IS 'Copy of the identity''s is_message, for the claim.';
COMMENT ON COLUMN payment_outbox_pending.stream_position IS
  'Copy of the identity''s stream_position; null means sequence_id.';
COMMENT ON COLUMN payment_outbox_pending.outcome_topic IS 'Copy of the identity''s outcome_topic, for the completion.';
COMMENT ON COLUMN payment_outbox_pending.blocked IS
  'Whether the item waits for an earlier ordered item or for the end of a pause.';
COMMENT ON COLUMN payment_outbox_pending.block_unverified IS
  'Whether the transaction that set blocked may have missed a concurrent commit. The next claim or repair verifies it.';
COMMENT ON COLUMN payment_outbox_pending.trace_context IS
  'W3C traceparent and, after a space, tracestate of the request that enqueued the item. Each attempt is a span of '
  'that trace.';

CREATE TABLE IF NOT EXISTS payment_outbox_attempts (
  attempt_id uuid PRIMARY KEY,
  outbox_id uuid NOT NULL,
  instruction_id text NOT NULL,
  participant_id text NOT NULL,
  sequence_id bigint NOT NULL,
  idempotency_key text NOT NULL,
  rail_type text NOT NULL,
  payload jsonb NOT NULL,
  attempt_no integer NOT NULL,
  state outbox_attempt_state NOT NULL,
  claimed_at timestamptz,
  completed_at timestamptz,
  rail_reference text,
  rail_code text,
  error_code text,
  error_message text,
  latency_ms integer,
  worker_id text,
  lease_token uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  action text NOT NULL,
  outcome_unknown boolean NOT NULL,
  recorded_xid bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
  CONSTRAINT payment_outbox_attempts_numbered_from_one CHECK (attempt_no >= 1),
  CONSTRAINT payment_outbox_attempts_latency_not_negative CHECK (latency_ms >= 0),
  CONSTRAINT payment_outbox_attempts_dispatching_is_not_stored CHECK (state <> 'DISPATCHING'),
  CONSTRAINT payment_outbox_attempts_known_action CHECK (action IN ('sent', 'inquired', 'not_sent', 'decided',
    'expired', 'cancelled')),
  CONSTRAINT payment_outbox_attempts_terminal_is_known CHECK (NOT outcome_unknown OR state IN ('RETRYABLE',
    'ZOMBIE_REQUEUE'))
)
-- Insert-only: vacuum only updates the visibility map and freezes rows.
WITH (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
COMMENT ON TABLE payment_outbox_attempts IS
  'The ledger: one immutable row per attempt, numbered 1, 2, 3 … per item.';
COMMENT ON COLUMN payment_outbox_attempts.claimed_at IS
  'Time at which the item was claimed for this attempt; null for a decision or a cancellation.';
COMMENT ON COLUMN payment_outbox_attempts.action IS
  'Action of this attempt: sent = the rail was called; inquired = the rail was only asked about an earlier call; '
  'not_sent = the attempt ended before the call; decided = two people decided; expired = the lease expired; '
  'cancelled = the application or an operator cancelled the item, which no call had paid or could still pay.';
COMMENT ON COLUMN payment_outbox_attempts.outcome_unknown IS
  'True if the rail may have paid and the outcome was unknown after this attempt.';
COMMENT ON COLUMN payment_outbox_attempts.recorded_xid IS
  'Transaction that wrote the row, which decides its position in the blocks.';

CREATE TABLE IF NOT EXISTS payment_outbox_events (
  event_id uuid PRIMARY KEY,
  outbox_id uuid,
  scope text,
  event_no bigint NOT NULL,
  event_type text NOT NULL,
  attempt_id uuid,
  actor text NOT NULL,
  detail jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT now(),
  recorded_xid bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
  CONSTRAINT payment_outbox_events_about_item_or_scope CHECK (num_nonnulls(outbox_id, scope) = 1),
  CONSTRAINT payment_outbox_events_one_number_per_item UNIQUE (outbox_id, event_no),
  CONSTRAINT payment_outbox_events_one_number_per_scope UNIQUE (scope, event_no),
  CONSTRAINT payment_outbox_events_known_type CHECK (event_type IN (
    'LATE_OUTCOME', 'TERMINAL_BLOCKED', 'HOLD_PLACED', 'HOLD_RESOLVED',
    'DECISION_PROPOSED', 'DECISION_WITHDRAWN', 'REDRIVE_PROPOSED', 'REDRIVE_CREATED',
    'PAUSED', 'RESUMED', 'POLICY_SET',
    'ENQUEUED', 'LEASE_CLAIMED', 'LEASE_RELEASED', 'LEASE_RENEWED', 'LEASE_EXPIRED_REPAIRED',
    'ATTEMPT_COMPLETED', 'RESCHEDULED', 'UNBLOCKED', 'DISPATCH_BEGUN', 'CONTRADICTION_REVIEWED',
    'BLOCKED', 'MARKED_UNKNOWN', 'FULL_TRAIL_SET', 'RETURN_RECORDED', 'LIMIT_PROPOSED', 'LIMIT_SET',
    'LIMIT_WITHDRAWN', 'DECISION_APPROVED', 'RECONCILED', 'FINDING_CLOSED',
    'NOTE_ADDED'))
);
COMMENT ON TABLE payment_outbox_events IS
  'Ledger events: late outcomes, holds, decisions, pauses; with full_trail also every change of a pending row.';
COMMENT ON COLUMN payment_outbox_events.scope IS
  'Subject of an event that is not about one item: rail:NAME, participant:ID, stream:ID, policy:ID, limit:NAME, '
  'reconciliation:RAIL, finding:ID, all (a pause of everything), dispatch (a freeze), or full_trail (a change of that '
  'setting).';
COMMENT ON COLUMN payment_outbox_events.recorded_xid IS
  'Transaction that wrote the row, which decides its position in the blocks.';

CREATE TABLE IF NOT EXISTS payment_outbox_proposals (
  proposal_id uuid PRIMARY KEY,
  outbox_id uuid NOT NULL,
  decision text NOT NULL,
  reason text NOT NULL,
  rail_reference text,
  proposed_by text NOT NULL,
  proposed_at timestamptz NOT NULL,
  proposed_xid xid8 NOT NULL,
  approvals integer NOT NULL DEFAULT 1,
  first_approved_by text,
  status text NOT NULL DEFAULT 'OPEN',
  decided_by text,
  decided_at timestamptz,
  CONSTRAINT payment_outbox_proposals_one_or_two_approvals CHECK (approvals IN (1, 2)),
  CONSTRAINT payment_outbox_proposals_known_decision CHECK (decision IN ('DISPATCHED', 'FAILED', 'RETRY', 'REDRIVE')),
  CONSTRAINT payment_outbox_proposals_known_status CHECK (status IN ('OPEN', 'APPROVED', 'WITHDRAWN')),
  CONSTRAINT payment_outbox_proposals_reference_for_dispatched
    CHECK ((decision = 'DISPATCHED') = (rail_reference IS NOT NULL)),
  CONSTRAINT payment_outbox_proposals_two_people CHECK (status <> 'APPROVED'
    OR person_key(decided_by) <> person_key(proposed_by)),
  CONSTRAINT payment_outbox_proposals_two_approvers CHECK (status <> 'APPROVED' OR approvals = 1
    OR person_key(decided_by) <> person_key(first_approved_by) AND first_approved_by IS NOT NULL)
);
COMMENT ON TABLE payment_outbox_proposals IS 'Proposals of two-person decisions: open, approved or withdrawn.';
COMMENT ON COLUMN payment_outbox_proposals.approvals IS
  'Number of people who must approve: 2 for a decision that a reconciliation proposed, and for a payment that a person '
  'entered above a limit that asks for two; else 1.';

CREATE TABLE IF NOT EXISTS outbox_contradictions (
  event_id uuid PRIMARY KEY,
  outbox_id uuid NOT NULL,
  recorded_at timestamptz NOT NULL,
  reviewed_at timestamptz,
  reviewed_by text,
  review_reason text,
  CONSTRAINT outbox_contradictions_review_all_or_none CHECK (num_nonnulls(reviewed_at, reviewed_by,
    review_reason) IN (0, 3))
);
COMMENT ON TABLE outbox_contradictions IS
  'One row per TERMINAL_BLOCKED event, and the review of an operator. The status view counts these rows instead of '
  'the ledger.';

CREATE TABLE IF NOT EXISTS outbox_pauses (
  kind text NOT NULL,
  name text NOT NULL,
  reason text NOT NULL,
  paused_by text NOT NULL,
  paused_at timestamptz NOT NULL,
  PRIMARY KEY (kind, name),
  CONSTRAINT outbox_pauses_known_kind CHECK (kind IN ('rail', 'participant', 'stream', 'all')),
  CONSTRAINT outbox_pauses_one_of_all CHECK (kind <> 'all' OR name = 'all')
);
COMMENT ON TABLE outbox_pauses IS
  'Pauses: claims leave out a rail, a participant, the ordered stream of a participant, or all items. Live leases '
  'continue.';

CREATE TABLE IF NOT EXISTS outbox_workers (
  worker_id text PRIMARY KEY,
  started_at timestamptz NOT NULL,
  last_seen_at timestamptz NOT NULL,
  detail jsonb NOT NULL,
  stopped_at timestamptz
);
COMMENT ON COLUMN outbox_workers.stopped_at IS
  'Time at which the worker deregistered. Lists omit the worker; alerts use its last report for a day.';
COMMENT ON TABLE outbox_workers IS
  'Latest heartbeat of each worker. A worker without a row may still claim and complete.';

CREATE TABLE IF NOT EXISTS outbox_breaker_changes (
  rail_type text COLLATE "C" NOT NULL,
  changed_at timestamptz NOT NULL,
  worker_id text COLLATE "C" NOT NULL,
  from_state text NOT NULL,
  to_state text NOT NULL,
  PRIMARY KEY (rail_type, changed_at, worker_id),
  CONSTRAINT outbox_breaker_changes_known_states
    CHECK (from_state IN ('closed', 'open', 'half-open') AND to_state IN ('closed', 'open', 'half-open'))
);
COMMENT ON TABLE outbox_breaker_changes IS
  'Changes of the circuit breakers of workers, by their heartbeats: the newest 1000 of each rail.';

CREATE TABLE IF NOT EXISTS outbox_rails (
  rail_type text PRIMARY KEY,
  money boolean NOT NULL,
  fields jsonb NOT NULL,
  declared_by text NOT NULL,
  declared_login text NOT NULL,
  first_declared_at timestamptz NOT NULL,
  last_declared_at timestamptz NOT NULL,
  served_at timestamptz,
  CONSTRAINT outbox_rails_fields_is_object CHECK (jsonb_typeof(fields) = 'object')
);
COMMENT ON TABLE outbox_rails IS
  'Rails as processes declared them: field classes and the money flag. Conflicting declarations keep the stricter '
  'value.';
COMMENT ON COLUMN outbox_rails.money IS
  'Whether the rail moves money. False only if every declaration was false, as for a rail of messages.';
COMMENT ON COLUMN outbox_rails.fields IS
  'Class of each payload field, by JSON pointer: public, masked, forbidden or encrypted. A field without an entry is '
  'public.';
COMMENT ON COLUMN outbox_rails.declared_by IS
  'Name of the process that made the last declaration, as that process gave it.';
COMMENT ON COLUMN outbox_rails.declared_login IS 'Database login of that process.';
COMMENT ON COLUMN outbox_rails.served_at IS
  'Time of the latest declaration by a worker that serves the rail; null if only an API declared it.';

-- Each call that records attempts inserts one row of counts, and repair later adds the rows to totals per minute. With
-- a single counter row, all completions would wait for it. Counting the ledger would take longer each day.
CREATE TABLE IF NOT EXISTS outbox_attempt_tallies (
  recorded_at timestamptz NOT NULL,
  dispatched bigint NOT NULL DEFAULT 0,
  retryable bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL DEFAULT 0,
  zombie_requeue bigint NOT NULL DEFAULT 0,
  outcome_unknown bigint NOT NULL DEFAULT 0,
  returned bigint NOT NULL DEFAULT 0,
  cancelled bigint NOT NULL DEFAULT 0,
  is_message boolean NOT NULL DEFAULT false
);
COMMENT ON COLUMN outbox_attempt_tallies.outcome_unknown IS
  'Attempts among retryable and zombie_requeue that left the outcome unknown.';
COMMENT ON COLUMN outbox_attempt_tallies.returned IS 'Payments whose first return was recorded.';
COMMENT ON COLUMN outbox_attempt_tallies.cancelled IS 'Attempts among failed that are cancellations.';
COMMENT ON TABLE outbox_attempt_tallies IS
  'Counts of attempts, one row per call that recorded them. Repair adds them to outbox_attempt_totals.';

CREATE TABLE IF NOT EXISTS outbox_attempt_totals (
  minute timestamptz NOT NULL,
  dispatched bigint NOT NULL DEFAULT 0,
  retryable bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL DEFAULT 0,
  zombie_requeue bigint NOT NULL DEFAULT 0,
  outcome_unknown bigint NOT NULL DEFAULT 0,
  returned bigint NOT NULL DEFAULT 0,
  cancelled bigint NOT NULL DEFAULT 0,
  is_message boolean NOT NULL DEFAULT false,
  PRIMARY KEY (minute, is_message)
);
COMMENT ON COLUMN outbox_attempt_totals.outcome_unknown IS
  'Attempts among retryable and zombie_requeue that left the outcome unknown.';
COMMENT ON COLUMN outbox_attempt_totals.returned IS 'Payments whose first return was recorded.';
COMMENT ON COLUMN outbox_attempt_totals.cancelled IS 'Attempts among failed that are cancellations.';
COMMENT ON TABLE outbox_attempt_totals IS
  'Attempts per minute. Minutes older than two hours are added to the row -infinity.';

CREATE TABLE IF NOT EXISTS outbox_queue_counts (
  singleton boolean PRIMARY KEY DEFAULT true,
  counted_at timestamptz NOT NULL DEFAULT '-infinity',
  count_again_after interval NOT NULL DEFAULT '0',
  parts jsonb,
  CONSTRAINT outbox_queue_counts_is_one_row CHECK (singleton)
);
INSERT INTO outbox_queue_counts DEFAULT VALUES ON CONFLICT DO NOTHING;
COMMENT ON TABLE outbox_queue_counts IS
  'One row: the last counts of a large queue. Heartbeats write it, and outbox_queue_status reads it.';
COMMENT ON COLUMN outbox_queue_counts.count_again_after IS
  'Time until the next count: 20 times as long as the count took, so at most 5 % of one core; at least 5 s.';
COMMENT ON COLUMN outbox_queue_counts.parts IS
  'Rows of outbox_queue_parts as JSON; null for a small queue, which each reader counts.';

CREATE TABLE IF NOT EXISTS dispatch_epochs (
  epoch_no integer PRIMARY KEY,
  epoch_id uuid NOT NULL,
  began_at timestamptz NOT NULL,
  -- The server and the database.
  system_identifier bigint,
  timeline integer,
  database_oid oid NOT NULL,
  -- The run of the server. A claim compares these columns without reading a file or a catalog.
  server_started_at timestamptz NOT NULL,
  database_name text NOT NULL,
  table_oid oid NOT NULL,
  -- The heartbeat.
  beat_no bigint NOT NULL DEFAULT 0,
  beat_at timestamptz NOT NULL,
  synchronous boolean NOT NULL,
  -- The freeze.
  frozen_at timestamptz,
  freeze_cause text,
  freeze_reason text,
  frozen_by text,
  marked_at timestamptz,
  items_marked bigint,
  lifted_at timestamptz,
  lifted_by text,
  lift_reason text,
  frozen boolean NOT NULL GENERATED ALWAYS AS (frozen_at IS NOT NULL AND lifted_at IS NULL) STORED,
  CONSTRAINT dispatch_epochs_one_per_id UNIQUE (epoch_id),
  CONSTRAINT dispatch_epochs_beats_count_up CHECK (beat_no >= 0),
  CONSTRAINT dispatch_epochs_freeze_all_or_none
    CHECK (num_nonnulls(frozen_at, freeze_cause, freeze_reason, frozen_by) IN (0, 4)),
  CONSTRAINT dispatch_epochs_known_cause CHECK (freeze_cause IN (
    'ANOTHER_SERVER', 'ANOTHER_DATABASE', 'LOWER_TIMELINE', 'NEW_TIMELINE', 'LOST_COMMITS', 'OPERATOR')),
  CONSTRAINT dispatch_epochs_lift_all_or_none
    CHECK (num_nonnulls(lifted_at, lifted_by, lift_reason) IN (0, 3) AND (lifted_at IS NULL OR frozen_at IS NOT NULL)),
  CONSTRAINT dispatch_epochs_lifted_only_when_marked CHECK (lifted_at IS NULL OR marked_at IS NOT NULL)
)
-- Heartbeats update the newest row. fillfactor leaves space for the new versions on the same page.
WITH (fillfactor = 20);
COMMENT ON TABLE dispatch_epochs IS
  'One row per run of a server on which this database dispatched, with its heartbeats and its freeze. The newest row '
  'is in force.';
COMMENT ON COLUMN dispatch_epochs.epoch_id IS
  'Random id, so that a restored copy never creates the same epoch. Workers send it with each claim.';
COMMENT ON COLUMN dispatch_epochs.system_identifier IS
  'System identifier from pg_control_system(); null if the server does not allow the call. Null is not compared.';
COMMENT ON COLUMN dispatch_epochs.timeline IS
  'Timeline of the WAL: a promotion and a recovery to a point in time begin a new one.';
COMMENT ON COLUMN dispatch_epochs.beat_no IS
  'Number of heartbeats in this epoch. If a worker has received a higher number, commits were lost.';
COMMENT ON COLUMN dispatch_epochs.synchronous IS 'Whether commits waited for a standby at the last heartbeat.';
COMMENT ON COLUMN dispatch_epochs.marked_at IS
  'Time at which the outcomes of pending items were marked as unknown. Only then can the freeze be lifted.';
COMMENT ON COLUMN dispatch_epochs.items_marked IS
  'Number of items whose outcome this freeze marked as unknown.';
COMMENT ON COLUMN dispatch_epochs.frozen IS 'Whether dispatch is stopped until an operator lifts the freeze.';

CREATE TABLE IF NOT EXISTS payment_outbox_blocks (
  block_no bigint PRIMARY KEY,
  format integer NOT NULL,
  row_count integer NOT NULL,
  last_xid bigint NOT NULL,
  last_kind smallint NOT NULL,
  last_id uuid NOT NULL,
  entries bytea NOT NULL,
  root bytea NOT NULL,
  prev_hash bytea,
  block_hash bytea NOT NULL,
  sealed_at timestamptz NOT NULL,
  CONSTRAINT payment_outbox_blocks_numbered_from_one CHECK (block_no >= 1),
  CONSTRAINT payment_outbox_blocks_not_empty CHECK (row_count >= 1),
  CONSTRAINT payment_outbox_blocks_known_kind CHECK (last_kind BETWEEN 1 AND 3),
  CONSTRAINT payment_outbox_blocks_one_entry_per_row CHECK (octet_length(entries) = 58 * row_count)
);
-- Hashes do not compress, and trying to compress takes as long as computing the block. A separate statement, because
-- PostgreSQL 15 has no STORAGE in CREATE TABLE.
ALTER TABLE payment_outbox_blocks ALTER COLUMN entries SET STORAGE EXTERNAL;
COMMENT ON TABLE payment_outbox_blocks IS
  'Blocks that seal the ledger. Each covers the rows after the previous block up to its own end.';
COMMENT ON COLUMN payment_outbox_blocks.last_xid IS
  'End of the block, with last_kind and last_id, in the order (recorded_xid, kind, id). A full block ends with its '
  'last row. A partial block covers all transactions before the oldest one that was running when it was sealed.';
COMMENT ON COLUMN payment_outbox_blocks.last_kind IS '1 identity, 2 attempt, 3 event.';
COMMENT ON COLUMN payment_outbox_blocks.format IS
  'Version of the column lists that the hashes of rows cover; see outbox_block_entries.';
COMMENT ON COLUMN payment_outbox_blocks.entries IS
  'Per row in order: kind (2 bytes), id (16), recorded_xid (8), SHA-256 of the row (32).';
COMMENT ON COLUMN payment_outbox_blocks.root IS 'Root of the hash tree over the entries; see outbox_block_root.';
COMMENT ON COLUMN payment_outbox_blocks.block_hash IS
  'SHA-256 over the other columns except entries, which root covers; see outbox_block_hash.';

CREATE TABLE IF NOT EXISTS ledger_verifications (
  verification_id uuid PRIMARY KEY,
  verified_at timestamptz NOT NULL,
  verified_by text NOT NULL,
  rows_checked bigint NOT NULL,
  break_count bigint NOT NULL,
  CONSTRAINT ledger_verifications_not_negative CHECK (rows_checked >= 0 AND break_count >= 0)
);
COMMENT ON TABLE ledger_verifications IS
  'One row per verification of the ledger, reported by the login that verified. The latest one decides the alert.';

CREATE TABLE IF NOT EXISTS ledger_verification_passes (
  singleton boolean PRIMARY KEY DEFAULT true,
  last_block bigint NOT NULL DEFAULT 0,
  rows_checked bigint NOT NULL DEFAULT 0,
  break_count bigint NOT NULL DEFAULT 0,
  began_at timestamptz,
  next_at timestamptz NOT NULL DEFAULT '-infinity',
  CONSTRAINT ledger_verification_passes_is_one_row CHECK (singleton)
);
INSERT INTO ledger_verification_passes DEFAULT VALUES ON CONFLICT DO NOTHING;
COMMENT ON TABLE ledger_verification_passes IS
  'Position of the background verification: one row. Its results are in ledger_verifications.';
COMMENT ON COLUMN ledger_verification_passes.last_block IS 'Last block that this pass compared with its rows.';
COMMENT ON COLUMN ledger_verification_passes.next_at IS
  'Earliest time at which the next block is compared, which limits the rate.';

-- Indexes -------------------------------------------------------------------------------------------------------------

CREATE INDEX IF NOT EXISTS ix_pending_claimable
  ON payment_outbox_pending (rail_type, is_message, next_attempt_at, created_at, sequence_id)
  WHERE lease_token IS NULL AND hold_reason IS NULL AND NOT blocked;
COMMENT ON INDEX ix_pending_claimable IS
  'Claim: due items in order. Rail and kind are the first columns, so that a claim reads no other rail or kind. One '
  'entry per enqueue; a lease removes it.';

CREATE INDEX IF NOT EXISTS ix_pending_lease_expired
  ON payment_outbox_pending (lease_expires_at) WHERE lease_expires_at IS NOT NULL;
COMMENT ON INDEX ix_pending_lease_expired IS
  'Lease repair, takeover by a claim, status: expired leases. One entry per lease.';
CREATE INDEX IF NOT EXISTS ix_pending_ordered
  ON payment_outbox_pending (participant_id, COALESCE(stream_position, sequence_id)) WHERE ordered;
COMMENT ON INDEX ix_pending_ordered IS
  'Enqueue, claim, redrive and the advance of a stream: the first ordered item of a participant. One entry per '
  'ordered item.';
CREATE INDEX IF NOT EXISTS ix_pending_block_unverified
  ON payment_outbox_pending (participant_id, sequence_id) WHERE block_unverified;
COMMENT ON INDEX ix_pending_block_unverified IS
  'Claim and lease repair: blocked items to verify. Nearly always empty.';

CREATE UNIQUE INDEX IF NOT EXISTS ix_attempts_by_outbox ON payment_outbox_attempts (outbox_id, attempt_no);
COMMENT ON INDEX ix_attempts_by_outbox IS
  'Completion, repair and timelines: the attempts of one item. Refuses a second attempt with the same number. One '
  'entry per attempt.';
CREATE UNIQUE INDEX IF NOT EXISTS payment_outbox_attempts_one_terminal_per_outbox
  ON payment_outbox_attempts (outbox_id) WHERE state IN ('DISPATCHED', 'FAILED');
COMMENT ON INDEX payment_outbox_attempts_one_terminal_per_outbox IS
  'A second terminal outcome of one item is refused by this index. Enqueue, redrive and status read it. One entry per '
  'terminal item.';

CREATE INDEX IF NOT EXISTS ix_attempts_failed
  ON payment_outbox_attempts (attempt_id) WHERE state = 'FAILED' AND attempt_no >= 1;
COMMENT ON INDEX ix_attempts_failed IS
  'List of FAILED items, the latest first. Only that list repeats attempt_no >= 1, so no other query uses this index. '
  'One entry per failure.';

CREATE INDEX IF NOT EXISTS ix_attempts_by_rail_reference
  ON payment_outbox_attempts (rail_reference) WHERE rail_reference IS NOT NULL;
COMMENT ON INDEX ix_attempts_by_rail_reference IS
  'Search by the reference of the rail. One entry per attempt with a reference.';

CREATE UNIQUE INDEX IF NOT EXISTS payment_outbox_identities_one_instruction_per_scoped_key
  ON payment_outbox_identities (key_scope, idempotency_key) WHERE key_scope IS NOT NULL;
COMMENT ON INDEX payment_outbox_identities_one_instruction_per_scoped_key IS
  'Refuses a second instruction under one idempotency key of an HTTP caller; finds such a key. One entry per item '
  'enqueued over HTTP; none for SQL callers.';
CREATE UNIQUE INDEX IF NOT EXISTS ux_proposals_one_open_per_item
  ON payment_outbox_proposals (outbox_id) WHERE status = 'OPEN';
COMMENT ON INDEX ux_proposals_one_open_per_item IS
  'Decisions: refuses a second open proposal for one item. One entry per open proposal.';
CREATE INDEX IF NOT EXISTS ix_identities_redrive_of
  ON payment_outbox_identities (redrive_of) WHERE redrive_of IS NOT NULL;
COMMENT ON INDEX ix_identities_redrive_of IS
  'Redrive, timelines and the list of FAILED items: the redrives of an item. One entry per redrive.';
CREATE INDEX IF NOT EXISTS ix_events_returned
  ON payment_outbox_events (outbox_id) WHERE event_type = 'RETURN_RECORDED';
COMMENT ON INDEX ix_events_returned IS
  'Returns: those of one payment, and the list of returned payments, newest first. One entry per return.';

CREATE INDEX IF NOT EXISTS ix_identities_replaces
  ON payment_outbox_identities (replaces) WHERE replaces IS NOT NULL;
COMMENT ON INDEX ix_identities_replaces IS
  'Enqueue, redrive and timelines: the payment that replaces an item. One entry per replacement.';

-- recorded_xid grows, so inserts append to the end of these indexes. Rows of one transaction share one index entry.
CREATE INDEX IF NOT EXISTS ix_identities_recorded ON payment_outbox_identities (recorded_xid);
COMMENT ON INDEX ix_identities_recorded IS
  'Sealing: rows after a given transaction, in order. About six bytes per row.';
CREATE INDEX IF NOT EXISTS ix_attempts_recorded ON payment_outbox_attempts (recorded_xid);
COMMENT ON INDEX ix_attempts_recorded IS 'Sealing: rows after a given transaction, in order. About six bytes per row.';
CREATE INDEX IF NOT EXISTS ix_events_recorded ON payment_outbox_events (recorded_xid);
COMMENT ON INDEX ix_events_recorded IS 'Sealing: rows after a given transaction, in order. About six bytes per row.';
CREATE INDEX IF NOT EXISTS ix_blocks_by_last_xid ON payment_outbox_blocks (last_xid);
COMMENT ON INDEX ix_blocks_by_last_xid IS
  'Verification of one payment: the block that covers a row. One entry per block.';
CREATE INDEX IF NOT EXISTS ix_ledger_verifications_by_time ON ledger_verifications (verified_at);
COMMENT ON INDEX ix_ledger_verifications_by_time IS
  'Status: the last verification of the ledger. One entry per verification.';

-- Triggers ------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE TRIGGER payment_outbox_identities_is_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON payment_outbox_identities
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE payment_outbox_identities ENABLE ALWAYS TRIGGER payment_outbox_identities_is_append_only;

CREATE OR REPLACE TRIGGER payment_outbox_attempts_is_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON payment_outbox_attempts
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE payment_outbox_attempts ENABLE ALWAYS TRIGGER payment_outbox_attempts_is_append_only;

CREATE OR REPLACE TRIGGER payment_outbox_events_is_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON payment_outbox_events
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE payment_outbox_events ENABLE ALWAYS TRIGGER payment_outbox_events_is_append_only;

CREATE OR REPLACE TRIGGER payment_outbox_pending_is_not_truncated
  BEFORE TRUNCATE ON payment_outbox_pending
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE payment_outbox_pending ENABLE ALWAYS TRIGGER payment_outbox_pending_is_not_truncated;

CREATE OR REPLACE TRIGGER participant_outbox_sequences_is_not_truncated
  BEFORE TRUNCATE ON participant_outbox_sequences
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE participant_outbox_sequences ENABLE ALWAYS TRIGGER participant_outbox_sequences_is_not_truncated;

CREATE OR REPLACE TRIGGER ledger_verifications_is_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_verifications
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE ledger_verifications ENABLE ALWAYS TRIGGER ledger_verifications_is_append_only;

CREATE OR REPLACE TRIGGER payment_outbox_blocks_is_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON payment_outbox_blocks
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE payment_outbox_blocks ENABLE ALWAYS TRIGGER payment_outbox_blocks_is_append_only;
