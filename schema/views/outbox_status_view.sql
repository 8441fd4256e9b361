-- Views for operators and dashboards. They run with their owner's rights, as security barriers, and call only built-in
-- functions. They show no lease token, and of a payload only amount, currency and the end of the destination, as the
-- rail's field classes allow.

CREATE OR REPLACE VIEW supervisor_outbox_status WITH (security_barrier = true) AS
WITH item AS (
  SELECT p.created_at, p.next_attempt_at, p.outcome_unknown, p.held_at, p.lease_expires_at, p.attempt_count,
    CASE WHEN p.lease_token IS NULL THEN p.hold_reason END AS held_for,
    CASE
      WHEN p.lease_expires_at <= statement_timestamp() THEN 'EXPIRED'
      WHEN p.lease_token IS NOT NULL THEN 'LEASED'
      WHEN p.hold_reason IS NOT NULL THEN 'HELD'
      WHEN p.blocked THEN 'BLOCKED'
      WHEN p.next_attempt_at > statement_timestamp() THEN 'SCHEDULED'
      ELSE 'DUE'
    END AS state
  FROM payment_outbox_pending p
), queue AS (
  SELECT count(*) AS pending_count,
    count(*) FILTER (WHERE i.state = 'DUE') AS due_unleased_count,
    count(*) FILTER (WHERE i.state = 'LEASED') AS leased_count,
    count(*) FILTER (WHERE i.state = 'EXPIRED') AS expired_lease_count,
    count(*) FILTER (WHERE i.state = 'SCHEDULED') AS scheduled_count,
    count(*) FILTER (WHERE i.state = 'BLOCKED') AS blocked_count,
    count(*) FILTER (WHERE i.state = 'HELD') AS held_count,
    COALESCE(extract(epoch FROM statement_timestamp() - min(i.created_at)), 0)::double precision
      AS oldest_pending_age_seconds,
    COALESCE(extract(epoch FROM statement_timestamp()
      - min(i.next_attempt_at) FILTER (WHERE i.state = 'DUE')), 0)::double precision AS oldest_due_age_seconds,
    count(*) FILTER (WHERE i.outcome_unknown) AS outcome_unknown_count,
    -- Symphony places holds for these reasons. All other reasons come from operators.
    count(*) FILTER (WHERE i.held_for = 'OUTCOME_UNKNOWN') AS held_outcome_unknown_count,
    count(*) FILTER (WHERE i.held_for = 'FAILED_WHILE_OUTCOME_UNKNOWN') AS held_failed_unknown_count,
    count(*) FILTER (WHERE i.held_for = 'RETRY_CEILING') AS held_retry_ceiling_count,
    count(*) FILTER (WHERE i.held_for = 'REPEATED_LEASE_EXPIRY') AS held_lease_expiry_count,
    count(*) FILTER (WHERE i.held_for = 'EARLIER_ITEM_PAID') AS held_earlier_paid_count,
    count(*) FILTER (WHERE i.held_for = 'FIELD_KEY_MISSING') AS held_field_key_missing_count,
    count(*) FILTER (WHERE i.held_for = 'FIELD_KEY_DESTROYED') AS held_field_key_destroyed_count,
    count(*) FILTER (WHERE i.held_for = 'FIELD_UNREADABLE') AS held_field_unreadable_count,
    count(*) FILTER (WHERE i.held_for = 'RAIL_REFERENCE_INVALID') AS held_reference_invalid_count,
    count(*) FILTER (WHERE i.held_for = 'AMOUNT_APPROVAL') AS held_amount_approval_count,
    count(*) FILTER (WHERE i.held_for = 'LIMIT_EXCEEDED') AS held_limit_exceeded_count,
    count(*) FILTER (WHERE i.held_for = 'LIMIT_UNREADABLE') AS held_limit_unreadable_count,
    min(i.held_at) FILTER (WHERE i.state = 'HELD') AS held_since,
    min(i.lease_expires_at) FILTER (WHERE i.state = 'EXPIRED') AS expired_since,
    min(i.next_attempt_at) FILTER (WHERE i.state = 'DUE') AS due_since,
    -- An item that is scheduled for later and was never attempted is not late.
    min(i.created_at) FILTER (WHERE i.attempt_count > 0 OR i.next_attempt_at <= statement_timestamp())
      AS unfinished_since
  FROM item i
), recorded AS (
  -- Totals per minute, and the tallies that are not yet added to them.
  SELECT o.minute AS at, o.dispatched, o.retryable, o.failed, o.zombie_requeue, o.returned, o.cancelled
  FROM outbox_attempt_totals o
  UNION ALL
  SELECT t.recorded_at, t.dispatched, t.retryable, t.failed, t.zombie_requeue, t.returned, t.cancelled
  FROM outbox_attempt_tallies t
), ledger AS (
  SELECT COALESCE(sum(r.dispatched), 0)::bigint AS dispatched_total,
    COALESCE(sum(r.retryable), 0)::bigint AS retryable_total,
    COALESCE(sum(r.failed), 0)::bigint AS failed_total,
    COALESCE(sum(r.zombie_requeue), 0)::bigint AS zombie_requeue_total,
    COALESCE(sum(r.returned), 0)::bigint AS returned_total,
    COALESCE(sum(r.dispatched) FILTER (WHERE w.last_hour), 0)::bigint AS dispatched_last_hour,
    COALESCE(sum(r.retryable) FILTER (WHERE w.last_hour), 0)::bigint AS retryable_last_hour,
    COALESCE(sum(r.failed) FILTER (WHERE w.last_hour), 0)::bigint AS failed_last_hour,
    COALESCE(sum(r.cancelled), 0)::bigint AS cancelled_total,
    COALESCE(sum(r.cancelled) FILTER (WHERE w.last_hour), 0)::bigint AS cancelled_last_hour,
    COALESCE(sum(r.dispatched) FILTER (WHERE w.recently), 0)::bigint AS dispatched_recently,
    COALESCE(sum(r.retryable) FILTER (WHERE w.recently), 0)::bigint AS retryable_recently,
    COALESCE(sum(r.failed - r.cancelled) FILTER (WHERE w.recently), 0)::bigint AS failed_recently,
    min(r.at) FILTER (WHERE r.retryable > 0 AND w.recently) AS retryable_since,
    min(r.at) FILTER (WHERE r.failed > r.cancelled AND w.recently) AS failed_since
  FROM recorded r
  CROSS JOIN LATERAL (
    SELECT r.at > statement_timestamp() - interval '1 hour' AS last_hour,
      r.at > statement_timestamp() - interval '15 minutes' AS recently
  ) w
), contradiction AS (
  SELECT count(*) AS contradictions_total,
    count(*) FILTER (WHERE c.reviewed_at IS NULL) AS unreviewed_contradiction_count,
    COALESCE(extract(epoch FROM statement_timestamp()
      - min(c.recorded_at) FILTER (WHERE c.reviewed_at IS NULL)), 0)::double precision
      AS oldest_unreviewed_contradiction_age_seconds
  FROM outbox_contradictions c
), worker AS (
  -- A worker's report is arbitrary JSON. The view ignores values of another type or out of range, so that it cannot
  -- fail.
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
)
SELECT q.pending_count, q.due_unleased_count, q.leased_count, q.expired_lease_count, q.scheduled_count, q.blocked_count,
  q.held_count, q.oldest_pending_age_seconds, q.oldest_due_age_seconds, l.dispatched_total, l.retryable_total,
  l.failed_total, l.zombie_requeue_total, l.dispatched_last_hour, l.retryable_last_hour, l.failed_last_hour,
  l.failed_total AS dlq_depth, q.outcome_unknown_count, q.held_outcome_unknown_count, q.held_failed_unknown_count,
  q.held_retry_ceiling_count, q.held_lease_expiry_count, q.held_earlier_paid_count,
  q.held_count - q.held_outcome_unknown_count - q.held_failed_unknown_count - q.held_retry_ceiling_count
    - q.held_lease_expiry_count - q.held_earlier_paid_count - q.held_field_key_missing_count
    - q.held_field_key_destroyed_count - q.held_field_unreadable_count - q.held_reference_invalid_count
    - q.held_amount_approval_count - q.held_limit_exceeded_count - q.held_limit_unreadable_count
    AS held_other_count,
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
  q.held_limit_unreadable_count, l.cancelled_total, l.cancelled_last_hour
FROM queue q CROSS JOIN ledger l CROSS JOIN contradiction c CROSS JOIN worker w LEFT JOIN verification v ON true;
COMMENT ON VIEW supervisor_outbox_status IS
  'Status of the queue in one row. Each pending item is in exactly one of due, leased, expired, scheduled, blocked, '
  'held.';
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
  'Time since the first verification that found a break after the last one without a break; null if the latest found '
  'none.';
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
  -- A value of another form may be ciphertext or secret, so the view hides it.
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
