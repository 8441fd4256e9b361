-- Views for operators and dashboards. They run with their owner's rights, as security barriers, and call only built-in
-- functions. They show no lease token, and of a payload only amount, currency and the end of the destination, as the
-- rail's field classes allow.

CREATE OR REPLACE VIEW outbox_queue_parts WITH (security_barrier = true) AS
-- Groups by boolean expressions: the planner estimates two values for each, so it groups by hash and does not sort.
SELECT p.rail_type, p.is_message, p.outcome_unknown, p.hold_reason, p.blocked, p.lease_token IS NOT NULL AS leased,
  COALESCE(p.lease_expires_at <= statement_timestamp(), false) AS expired,
  p.next_attempt_at > statement_timestamp() AS later, p.attempt_count > 0 AS attempted,
  count(*) AS items, min(p.created_at) AS created_at, min(p.next_attempt_at) AS next_attempt_at,
  min(p.held_at) AS held_at, min(p.lease_expires_at) AS lease_expires_at
FROM payment_outbox_pending p GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9;
COMMENT ON VIEW outbox_queue_parts IS
  'Internal: numbers of pending items, one row per rail and combination of their states. Reads every '
  'pending item.';

CREATE OR REPLACE VIEW outbox_queue_status WITH (security_barrier = true) AS
WITH stored AS (
  -- Stored counts of a large queue. They are valid for twice the planned time until the next count, plus 10 s.
  SELECT c.counted_at, c.parts FROM outbox_queue_counts c
  WHERE c.parts IS NOT NULL AND statement_timestamp()
    BETWEEN c.counted_at AND c.counted_at + 2 * c.count_again_after + interval '10 seconds'
), combination AS (
  SELECT r.*, s.counted_at FROM stored s CROSS JOIN LATERAL jsonb_to_recordset(s.parts) AS r(rail_type text,
    is_message boolean, outcome_unknown boolean, hold_reason text, blocked boolean, leased boolean, expired boolean,
    later boolean, attempted boolean, items bigint, created_at timestamptz, next_attempt_at timestamptz,
    held_at timestamptz, lease_expires_at timestamptz)
  UNION ALL
  SELECT q.*, statement_timestamp() FROM outbox_queue_parts q WHERE NOT EXISTS (SELECT 1 FROM stored)
)
SELECT i.*,
  CASE
    WHEN i.expired THEN 'EXPIRED'
    WHEN i.leased THEN 'LEASED'
    WHEN i.hold_reason IS NOT NULL THEN 'HELD'
    WHEN i.blocked THEN 'BLOCKED'
    WHEN i.later THEN 'SCHEDULED'
    ELSE 'DUE'
  END AS state
FROM combination i;
COMMENT ON VIEW outbox_queue_status IS
  'Numbers of pending items by rail and state. A queue of more than 50,000 items is counted every few seconds.';
COMMENT ON COLUMN outbox_queue_status.counted_at IS
  'Time of the count; now for a small queue, which each reader counts.';

CREATE OR REPLACE VIEW supervisor_outbox_status WITH (security_barrier = true) AS
WITH part AS (
  SELECT i.*,
    CASE
      WHEN i.leased OR i.hold_reason IS NULL THEN NULL
      -- Symphony places holds for these reasons. All other reasons come from operators and rails.
      WHEN i.hold_reason IN ('OUTCOME_UNKNOWN', 'FAILED_WHILE_OUTCOME_UNKNOWN', 'RETRY_CEILING',
        'REPEATED_LEASE_EXPIRY', 'EARLIER_ITEM_PAID', 'FIELD_KEY_MISSING', 'FIELD_KEY_DESTROYED', 'FIELD_UNREADABLE',
        'RAIL_REFERENCE_INVALID', 'AMOUNT_APPROVAL', 'LIMIT_EXCEEDED', 'LIMIT_UNREADABLE', 'OUTCOME_NOT_DELIVERED')
      THEN i.hold_reason
      ELSE 'other'
    END AS held_for
  FROM outbox_queue_status i
), kind_queue AS (
  -- One row for payments, one for messages.
  SELECT g.is_message, sum(g.items) AS pending_count,
    sum(g.items) FILTER (WHERE g.state = 'DUE') AS due_unleased_count,
    sum(g.items) FILTER (WHERE g.state = 'LEASED') AS leased_count,
    sum(g.items) FILTER (WHERE g.state = 'EXPIRED') AS expired_lease_count,
    sum(g.items) FILTER (WHERE g.state = 'SCHEDULED') AS scheduled_count,
    sum(g.items) FILTER (WHERE g.state = 'BLOCKED') AS blocked_count,
    sum(g.items) FILTER (WHERE g.state = 'HELD') AS held_count,
    sum(g.items) FILTER (WHERE g.outcome_unknown) AS outcome_unknown_count,
    sum(g.items) FILTER (WHERE g.held_for = 'OUTCOME_UNKNOWN') AS held_outcome_unknown_count,
    sum(g.items) FILTER (WHERE g.held_for = 'FAILED_WHILE_OUTCOME_UNKNOWN') AS held_failed_unknown_count,
    sum(g.items) FILTER (WHERE g.held_for = 'RETRY_CEILING') AS held_retry_ceiling_count,
    sum(g.items) FILTER (WHERE g.held_for = 'REPEATED_LEASE_EXPIRY') AS held_lease_expiry_count,
    sum(g.items) FILTER (WHERE g.held_for = 'EARLIER_ITEM_PAID') AS held_earlier_paid_count,
    sum(g.items) FILTER (WHERE g.held_for = 'FIELD_KEY_MISSING') AS held_field_key_missing_count,
    sum(g.items) FILTER (WHERE g.held_for = 'FIELD_KEY_DESTROYED') AS held_field_key_destroyed_count,
    sum(g.items) FILTER (WHERE g.held_for = 'FIELD_UNREADABLE') AS held_field_unreadable_count,
    sum(g.items) FILTER (WHERE g.held_for = 'RAIL_REFERENCE_INVALID') AS held_reference_invalid_count,
    sum(g.items) FILTER (WHERE g.held_for = 'AMOUNT_APPROVAL') AS held_amount_approval_count,
    sum(g.items) FILTER (WHERE g.held_for = 'LIMIT_EXCEEDED') AS held_limit_exceeded_count,
    sum(g.items) FILTER (WHERE g.held_for = 'LIMIT_UNREADABLE') AS held_limit_unreadable_count,
    sum(g.items) FILTER (WHERE g.held_for = 'OUTCOME_NOT_DELIVERED') AS held_outcome_not_delivered_count,
    sum(g.items) FILTER (WHERE g.held_for = 'other') AS held_other_count,
    min(g.counted_at) AS counted_at, min(g.created_at) AS pending_since,
    min(g.held_at) FILTER (WHERE g.state = 'HELD') AS held_since,
    min(g.lease_expires_at) FILTER (WHERE g.state = 'EXPIRED') AS expired_since,
    min(g.next_attempt_at) FILTER (WHERE g.state = 'DUE') AS due_since,
    -- An item that is scheduled for later and was never attempted is not late.
    min(g.created_at) FILTER (WHERE g.attempted OR NOT g.later) AS unfinished_since
  FROM part g GROUP BY g.is_message
), queue AS (
  SELECT COALESCE(sum(k.pending_count), 0)::bigint AS pending_count,
    COALESCE(sum(k.due_unleased_count), 0)::bigint AS due_unleased_count,
    COALESCE(sum(k.leased_count), 0)::bigint AS leased_count,
    COALESCE(sum(k.expired_lease_count), 0)::bigint AS expired_lease_count,
    COALESCE(sum(k.scheduled_count), 0)::bigint AS scheduled_count,
    COALESCE(sum(k.blocked_count), 0)::bigint AS blocked_count,
    COALESCE(sum(k.held_count), 0)::bigint AS held_count,
    COALESCE(sum(k.outcome_unknown_count), 0)::bigint AS outcome_unknown_count,
    COALESCE(sum(k.held_outcome_unknown_count), 0)::bigint AS held_outcome_unknown_count,
    COALESCE(sum(k.held_failed_unknown_count), 0)::bigint AS held_failed_unknown_count,
    COALESCE(sum(k.held_retry_ceiling_count), 0)::bigint AS held_retry_ceiling_count,
    COALESCE(sum(k.held_lease_expiry_count), 0)::bigint AS held_lease_expiry_count,
    COALESCE(sum(k.held_earlier_paid_count), 0)::bigint AS held_earlier_paid_count,
    COALESCE(sum(k.held_field_key_missing_count), 0)::bigint AS held_field_key_missing_count,
    COALESCE(sum(k.held_field_key_destroyed_count), 0)::bigint AS held_field_key_destroyed_count,
    COALESCE(sum(k.held_field_unreadable_count), 0)::bigint AS held_field_unreadable_count,
    COALESCE(sum(k.held_reference_invalid_count), 0)::bigint AS held_reference_invalid_count,
    COALESCE(sum(k.held_amount_approval_count), 0)::bigint AS held_amount_approval_count,
    COALESCE(sum(k.held_limit_exceeded_count), 0)::bigint AS held_limit_exceeded_count,
    COALESCE(sum(k.held_limit_unreadable_count), 0)::bigint AS held_limit_unreadable_count,
    COALESCE(sum(k.held_outcome_not_delivered_count), 0)::bigint AS held_outcome_not_delivered_count,
    COALESCE(sum(k.held_other_count), 0)::bigint AS held_other_count,
    min(k.counted_at) AS counted_at, min(k.pending_since) AS pending_since, min(k.held_since) AS held_since,
    min(k.expired_since) AS expired_since, min(k.due_since) AS due_since, min(k.unfinished_since) AS unfinished_since
  FROM kind_queue k
), recorded AS (
  -- Totals per minute, and the tallies that are not yet added to them.
  SELECT o.minute AS at, o.is_message, o.dispatched, o.retryable, o.failed, o.zombie_requeue, o.returned, o.cancelled
  FROM outbox_attempt_totals o
  UNION ALL
  SELECT t.recorded_at, t.is_message, t.dispatched, t.retryable, t.failed, t.zombie_requeue, t.returned, t.cancelled
  FROM outbox_attempt_tallies t
), kind_ledger AS (
  SELECT r.is_message, sum(r.dispatched) AS dispatched_total, sum(r.retryable) AS retryable_total,
    sum(r.failed) AS failed_total, sum(r.zombie_requeue) AS zombie_requeue_total, sum(r.returned) AS returned_total,
    sum(r.cancelled) AS cancelled_total,
    sum(r.dispatched) FILTER (WHERE w.last_hour) AS dispatched_last_hour,
    sum(r.retryable) FILTER (WHERE w.last_hour) AS retryable_last_hour,
    sum(r.failed) FILTER (WHERE w.last_hour) AS failed_last_hour,
    sum(r.cancelled) FILTER (WHERE w.last_hour) AS cancelled_last_hour,
    sum(r.dispatched) FILTER (WHERE w.recently) AS dispatched_recently,
    sum(r.retryable) FILTER (WHERE w.recently) AS retryable_recently,
    sum(r.failed - r.cancelled) FILTER (WHERE w.recently) AS failed_recently,
    min(r.at) FILTER (WHERE r.retryable > 0 AND w.recently) AS retryable_since,
    min(r.at) FILTER (WHERE r.failed > r.cancelled AND w.recently) AS failed_since
  FROM recorded r
  CROSS JOIN LATERAL (
    SELECT r.at > statement_timestamp() - interval '1 hour' AS last_hour,
      r.at > statement_timestamp() - interval '15 minutes' AS recently
  ) w
  GROUP BY r.is_message
), ledger AS (
  SELECT COALESCE(sum(k.dispatched_total), 0)::bigint AS dispatched_total,
    COALESCE(sum(k.retryable_total), 0)::bigint AS retryable_total,
    COALESCE(sum(k.failed_total), 0)::bigint AS failed_total,
    COALESCE(sum(k.zombie_requeue_total), 0)::bigint AS zombie_requeue_total,
    COALESCE(sum(k.returned_total), 0)::bigint AS returned_total,
    COALESCE(sum(k.cancelled_total), 0)::bigint AS cancelled_total,
    COALESCE(sum(k.dispatched_last_hour), 0)::bigint AS dispatched_last_hour,
    COALESCE(sum(k.retryable_last_hour), 0)::bigint AS retryable_last_hour,
    COALESCE(sum(k.failed_last_hour), 0)::bigint AS failed_last_hour,
    COALESCE(sum(k.cancelled_last_hour), 0)::bigint AS cancelled_last_hour,
    COALESCE(sum(k.dispatched_recently), 0)::bigint AS dispatched_recently,
    COALESCE(sum(k.retryable_recently), 0)::bigint AS retryable_recently,
    COALESCE(sum(k.failed_recently), 0)::bigint AS failed_recently,
    min(k.retryable_since) AS retryable_since, min(k.failed_since) AS failed_since
  FROM kind_ledger k
), contradiction AS (
  SELECT count(*) AS contradictions_total,
    count(*) FILTER (WHERE c.reviewed_at IS NULL) AS unreviewed_contradiction_count,
    COALESCE(extract(epoch FROM statement_timestamp()
      - min(c.recorded_at) FILTER (WHERE c.reviewed_at IS NULL)), 0)::double precision
      AS oldest_unreviewed_contradiction_age_seconds
  FROM outbox_contradictions c
), worker AS (
  -- A worker's report is arbitrary JSON. The view ignores values that are not numbers and clamps the others, so that
  -- no report makes it fail.
  SELECT count(*) FILTER (WHERE w.stopped_at IS NULL AND w.last_seen_at > statement_timestamp() - interval '1 minute')
      AS alive_count,
    max(w.last_seen_at) AS last_seen_at,
    max(w.last_seen_at - make_interval(secs => CASE
      WHEN jsonb_typeof(w.detail -> 'unknownCode' -> 'secondsAgo') = 'number'
      THEN LEAST(GREATEST((w.detail -> 'unknownCode' ->> 'secondsAgo')::numeric, 0), 1000000)::double precision
    END)) AS unknown_code_at,
    max(w.last_seen_at - make_interval(secs => CASE
      WHEN jsonb_typeof(w.detail -> 'clockJump' -> 'secondsAgo') = 'number'
      THEN LEAST(GREATEST((w.detail -> 'clockJump' ->> 'secondsAgo')::numeric, 0), 1000000)::double precision
    END)) AS clock_jump_at
  FROM outbox_workers w
), verification AS (
  SELECT v.break_count, v.verified_at,
    CASE WHEN v.break_count > 0 THEN (
      SELECT min(b.verified_at) FROM ledger_verifications b
      WHERE b.verified_at > COALESCE(
        (SELECT max(g.verified_at) FROM ledger_verifications g WHERE g.break_count = 0), '-infinity')
    ) END AS broken_since
  FROM ledger_verifications v ORDER BY v.verified_at DESC LIMIT 1
), kind AS (
  SELECT jsonb_object_agg(g.kind, jsonb_build_object(
      'pending', COALESCE(q.pending_count, 0), 'due', COALESCE(q.due_unleased_count, 0),
      'leased', COALESCE(q.leased_count, 0), 'expired', COALESCE(q.expired_lease_count, 0),
      'blocked', COALESCE(q.blocked_count, 0), 'held', COALESCE(q.held_count, 0),
      'unknown', COALESCE(q.outcome_unknown_count, 0),
      'pendingSeconds', COALESCE(extract(epoch FROM statement_timestamp() - q.pending_since), 0),
      'dueSeconds', COALESCE(extract(epoch FROM statement_timestamp() - q.due_since), 0),
      'unfinishedSeconds', COALESCE(extract(epoch FROM statement_timestamp() - q.unfinished_since), 0),
      'heldSeconds', COALESCE(extract(epoch FROM statement_timestamp() - q.held_since), 0),
      'expiredSeconds', COALESCE(extract(epoch FROM statement_timestamp() - q.expired_since), 0),
      'withoutWorkerSeconds', CASE WHEN q.due_since IS NULL OR w.alive_count > 0 THEN 0
        ELSE extract(epoch FROM statement_timestamp() - GREATEST(q.due_since, w.last_seen_at)) END
    ) || jsonb_build_object(
      'dispatched', COALESCE(l.dispatched_total, 0), 'retryable', COALESCE(l.retryable_total, 0),
      'failed', COALESCE(l.failed_total, 0), 'requeued', COALESCE(l.zombie_requeue_total, 0),
      'cancelled', COALESCE(l.cancelled_total, 0),
      'deadLastHour', COALESCE(l.failed_last_hour - l.cancelled_last_hour, 0),
      'dispatchedRecently', COALESCE(l.dispatched_recently, 0),
      'retryableRecently', COALESCE(l.retryable_recently, 0), 'failedRecently', COALESCE(l.failed_recently, 0),
      'retryableRecentlySeconds', COALESCE(extract(epoch FROM statement_timestamp() - l.retryable_since), 0),
      'failedRecentlySeconds', COALESCE(extract(epoch FROM statement_timestamp() - l.failed_since), 0)
    )) AS kinds
  FROM (VALUES ('payment', false), ('message', true)) AS g(kind, is_message)
  LEFT JOIN kind_queue q ON q.is_message = g.is_message
  LEFT JOIN kind_ledger l ON l.is_message = g.is_message
  CROSS JOIN worker w
)
SELECT q.pending_count, q.due_unleased_count, q.leased_count, q.expired_lease_count, q.scheduled_count, q.blocked_count,
  q.held_count,
  COALESCE(extract(epoch FROM statement_timestamp() - q.pending_since), 0)::double precision
    AS oldest_pending_age_seconds,
  COALESCE(extract(epoch FROM statement_timestamp() - q.due_since), 0)::double precision AS oldest_due_age_seconds,
  l.dispatched_total, l.retryable_total,
  l.failed_total, l.zombie_requeue_total, l.dispatched_last_hour, l.retryable_last_hour, l.failed_last_hour,
  l.failed_total AS dlq_depth, q.outcome_unknown_count, q.held_outcome_unknown_count, q.held_failed_unknown_count,
  q.held_retry_ceiling_count, q.held_lease_expiry_count, q.held_earlier_paid_count,
  q.held_other_count,
  w.alive_count AS workers_alive_count,
  q.held_field_key_missing_count, q.held_field_key_destroyed_count, q.held_field_unreadable_count,
  c.contradictions_total, c.unreviewed_contradiction_count, c.oldest_unreviewed_contradiction_age_seconds,
  COALESCE(extract(epoch FROM statement_timestamp() - q.held_since), 0)::double precision AS oldest_hold_age_seconds,
  COALESCE(extract(epoch FROM statement_timestamp() - q.expired_since), 0)::double precision
    AS oldest_expired_lease_age_seconds,
  CASE WHEN q.due_since IS NULL OR w.alive_count > 0 THEN 0
    ELSE extract(epoch FROM statement_timestamp() - GREATEST(q.due_since, w.last_seen_at))
  END::double precision AS due_without_worker_seconds,
  l.dispatched_recently, l.retryable_recently, l.failed_recently,
  COALESCE(extract(epoch FROM statement_timestamp() - l.retryable_since), 0)::double precision
    AS retryable_recently_age_seconds,
  COALESCE(extract(epoch FROM statement_timestamp() - l.failed_since), 0)::double precision
    AS failed_recently_age_seconds,
  extract(epoch FROM statement_timestamp() - w.unknown_code_at)::double precision AS last_unknown_code_age_seconds,
  extract(epoch FROM statement_timestamp() - w.clock_jump_at)::double precision AS last_clock_jump_age_seconds,
  v.break_count AS ledger_break_count, v.verified_at AS ledger_verified_at,
  extract(epoch FROM statement_timestamp() - v.broken_since)::double precision AS ledger_broken_age_seconds,
  COALESCE(extract(epoch FROM statement_timestamp() - q.unfinished_since), 0)::double precision
    AS oldest_unfinished_age_seconds,
  COALESCE((
    SELECT extract(epoch FROM statement_timestamp() - z.paused_at) FROM outbox_pauses z WHERE z.kind = 'all'
  ), 0)::double precision AS all_paused_age_seconds,
  q.held_reference_invalid_count, l.returned_total, q.held_amount_approval_count, q.held_limit_exceeded_count,
  q.held_limit_unreadable_count, l.cancelled_total, l.cancelled_last_hour, q.held_outcome_not_delivered_count, k.kinds,
  COALESCE(extract(epoch FROM statement_timestamp() - q.counted_at), 0)::double precision AS counts_age_seconds
FROM queue q CROSS JOIN ledger l CROSS JOIN contradiction c CROSS JOIN worker w CROSS JOIN kind k
LEFT JOIN verification v ON true;
COMMENT ON VIEW supervisor_outbox_status IS
  'Status of the queue in one row. Each pending item is in exactly one of due, leased, expired, scheduled, blocked, '
  'held.';
COMMENT ON COLUMN supervisor_outbox_status.kinds IS
  'The counts and ages of payments and of messages apart: an object with the keys payment and message.';
COMMENT ON COLUMN supervisor_outbox_status.counts_age_seconds IS
  'Time since the pending items were counted. A queue of more than 50,000 items is counted every few seconds; 0 for a '
  'smaller queue, which each reader counts.';
COMMENT ON COLUMN supervisor_outbox_status.dlq_depth IS 'Number of items that ended FAILED, cancelled ones included.';
COMMENT ON COLUMN supervisor_outbox_status.cancelled_total IS 'Number of items that were cancelled.';
COMMENT ON COLUMN supervisor_outbox_status.returned_total IS
  'Number of DISPATCHED payments of which the rail returned money. Sums of amounts would mix currencies.';
COMMENT ON COLUMN supervisor_outbox_status.oldest_unfinished_age_seconds IS
  'Age since creation of the oldest item without a terminal outcome, blocked and held items included. An item '
  'scheduled for later and never attempted does not count.';
COMMENT ON COLUMN supervisor_outbox_status.due_without_worker_seconds IS
  'Time during which items have been due without a heartbeat of any relayer; 0 while one is alive, or no item is due.';
COMMENT ON COLUMN supervisor_outbox_status.failed_recently IS
  'FAILED attempts of the last 15 minutes without cancellations; dispatched_recently and retryable_recently count the '
  'same time. The columns …_recently_age_seconds are the age of the first such attempt in that time.';
COMMENT ON COLUMN supervisor_outbox_status.last_unknown_code_age_seconds IS
  'Time since a worker received a code that its rail''s table does not contain; null without such a report in the last '
  'day.';
COMMENT ON COLUMN supervisor_outbox_status.last_clock_jump_age_seconds IS
  'Time since a worker saw database and process clocks diverge; null without such a report in the last day.';
COMMENT ON COLUMN supervisor_outbox_status.ledger_break_count IS
  'Breaks that the latest verification of the ledger found; null before the first verification.';
COMMENT ON COLUMN supervisor_outbox_status.ledger_broken_age_seconds IS
  'Time since verifications began to find breaks; null if the latest verification found none.';
COMMENT ON COLUMN supervisor_outbox_status.unreviewed_contradiction_count IS
  'Number of contradictions that no operator has reviewed.';
COMMENT ON COLUMN supervisor_outbox_status.all_paused_age_seconds IS
  'Time since everything was paused; 0 while it is not.';
COMMENT ON COLUMN supervisor_outbox_status.workers_alive_count IS
  'Relayers with a heartbeat in the last minute; each sends one every ten seconds.';

CREATE OR REPLACE VIEW outbox_operational_status WITH (security_barrier = true) AS
SELECT i.outbox_id, i.instruction_id, i.idempotency_key, i.participant_id, i.sequence_id, i.rail_type, i.created_at,
  i.ordered, i.redrive_of,
  CASE
    WHEN p.outbox_id IS NULL THEN a.state::text
    WHEN p.lease_expires_at <= statement_timestamp() THEN 'EXPIRED'
    WHEN p.lease_token IS NOT NULL THEN 'LEASED'
    WHEN p.hold_reason IS NOT NULL THEN 'HELD'
    WHEN p.blocked THEN 'BLOCKED'
    WHEN p.next_attempt_at > statement_timestamp() THEN 'SCHEDULED'
    ELSE 'DUE'
  END AS state,
  p.next_attempt_at, p.next_attempt_at - statement_timestamp() AS time_to_due,
  p.claimed_by, p.claimed_at, p.lease_expires_at,
  extract(epoch FROM statement_timestamp() - p.claimed_at)::double precision AS lease_age_seconds,
  p.outcome_unknown, p.expiry_streak, p.hold_reason, p.held_by, p.held_at,
  a.attempt_no AS last_attempt_no, a.state AS last_attempt_state, a.completed_at AS last_attempt_at,
  a.rail_reference AS last_rail_reference, a.rail_code AS last_rail_code, a.error_code AS last_error_code, i.is_message,
  a.action AS last_attempt_action, a.outcome_unknown AS last_attempt_outcome_unknown,
  -- An amount or a currency that is not of the expected form may be ciphertext or a secret, so the view hides it.
  CASE WHEN NOT d.amount_secret AND (d.payload ->> 'amount') COLLATE "C" ~ '^-?[0-9]{1,18}(\.[0-9]{1,18})?$'
    THEN d.payload ->> 'amount' END AS amount,
  CASE WHEN NOT d.currency_secret AND (d.payload ->> 'currency') COLLATE "C" ~ '^[A-Z]{3}$'
    THEN d.payload ->> 'currency' END AS currency,
  CASE
    WHEN d.destination_withheld IS NOT NULL OR jsonb_typeof(d.payload -> 'destination') IS DISTINCT FROM 'string'
    THEN NULL
    -- The last four characters of a short value would be most of it.
    WHEN char_length(d.payload ->> 'destination') < 12
      OR right(d.payload ->> 'destination', 4) COLLATE "C" !~ '^[!-~]{4}$'
    THEN '••••'
    ELSE '••••' || right(d.payload ->> 'destination', 4)
  END AS destination,
  d.destination_withheld,
  f.epoch_no AS freeze_epoch_no, f.freeze_cause, f.freeze_reason, f.frozen_at,
  back.total IS NOT NULL AS returned, CASE WHEN NOT d.amount_secret THEN back.total END AS returned_amount, i.replaces
FROM payment_outbox_identities i
LEFT JOIN payment_outbox_pending p ON p.outbox_id = i.outbox_id
LEFT JOIN LATERAL (
  SELECT t.attempt_no, t.state, t.completed_at, t.rail_reference, t.rail_code, t.error_code, t.action,
    t.outcome_unknown, t.payload
  FROM payment_outbox_attempts t WHERE t.outbox_id = i.outbox_id ORDER BY t.attempt_no DESC LIMIT 1
) a ON true
LEFT JOIN outbox_rails r ON r.rail_type = i.rail_type
CROSS JOIN LATERAL (
  SELECT COALESCE(p.payload, a.payload) AS payload,
    COALESCE(ARRAY[r.fields ->> '/amount', r.fields ->> '/*'] && '{masked,forbidden,encrypted}', false)
      AS amount_secret,
    COALESCE(ARRAY[r.fields ->> '/currency', r.fields ->> '/*'] && '{masked,forbidden,encrypted}', false)
      AS currency_secret,
    CASE
      WHEN r.rail_type IS NULL THEN 'undeclared'
      WHEN 'encrypted' IN (r.fields ->> '/destination', r.fields ->> '/*') THEN 'encrypted'
      WHEN 'forbidden' IN (r.fields ->> '/destination', r.fields ->> '/*') THEN 'forbidden'
      WHEN starts_with(COALESCE(p.payload, a.payload) ->> 'destination', 'symphony.sealed.') THEN 'encrypted'
    END AS destination_withheld
) d
-- The freeze that made the outcome unknown, also after it was lifted. Null if an attempt followed the freeze, or if an
-- earlier attempt had already left the outcome unknown.
LEFT JOIN LATERAL (
  SELECT e.epoch_no, e.freeze_cause, e.freeze_reason, e.frozen_at FROM dispatch_epochs e
  WHERE p.outcome_unknown AND e.marked_at IS NOT NULL AND e.frozen_at >= p.created_at
    AND (a.completed_at IS NULL OR a.completed_at <= e.frozen_at) AND a.outcome_unknown IS NOT TRUE
  ORDER BY e.epoch_no DESC LIMIT 1
) f ON true
LEFT JOIN LATERAL (
  SELECT e.detail ->> 'returned_total' AS total FROM payment_outbox_events e
  WHERE e.outbox_id = i.outbox_id AND e.event_type = 'RETURN_RECORDED' ORDER BY e.event_no DESC LIMIT 1
) back ON true;
COMMENT ON VIEW outbox_operational_status IS
  'One row per item, pending or terminal, with its state and its latest attempt.';
COMMENT ON COLUMN outbox_operational_status.amount IS
  'Amount in the payload, if its field class is public or the rail is undeclared.';
COMMENT ON COLUMN outbox_operational_status.destination IS
  'Masked destination. Shows the last four characters of one with at least twelve, if its field class is public or '
  'masked.';
COMMENT ON COLUMN outbox_operational_status.destination_withheld IS
  'Reason why no destination is shown: encrypted, forbidden, or undeclared while no process has declared the rail.';
COMMENT ON COLUMN outbox_operational_status.returned IS 'Whether the rail returned money of the payment.';
COMMENT ON COLUMN outbox_operational_status.returned_amount IS
  'Sum of the returns, if the field class of the amount is public; null without a return.';
COMMENT ON COLUMN outbox_operational_status.replaces IS
  'Payment that this item replaces: a FAILED one, or one that the rail returned.';
COMMENT ON COLUMN outbox_operational_status.freeze_epoch_no IS
  'Latest epoch whose freeze made the outcome of this item unknown; else null.';
