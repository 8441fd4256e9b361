-- enqueue_payment_outbox_batch, claim_outbox_batch and complete_outbox_attempts with their answer in one row, because a
-- client spends time on each column of each row. Spaces separate fields and line ends separate items: ids contain
-- neither. Times in these lines are microseconds since 1970.

CREATE OR REPLACE FUNCTION enqueue_outbox_packed(
  p_instruction_ids text[], p_participant_ids text[], p_idempotency_keys text[], p_rail_types text[],
  p_payloads jsonb[], p_not_before timestamptz[] DEFAULT NULL, p_ordered boolean[] DEFAULT NULL,
  p_trace_contexts text[] DEFAULT NULL, p_is_message boolean DEFAULT false, p_key_scope text DEFAULT NULL,
  p_outcome_topic text[] DEFAULT NULL, p_replaces uuid[] DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_items text;
BEGIN
  PERFORM check_outbox_items(
    p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads, p_not_before, p_ordered,
    p_trace_contexts, p_is_message, p_key_scope, p_outcome_topic, p_replaces);
  SELECT string_agg(
    concat_ws(' ', e.outbox_id, e.sequence_id, (date_part('epoch', e.created_at) * 1000000)::bigint, e.state,
      e.created), chr(10))
  INTO v_items
  FROM admit_outbox_items(
    p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads, p_not_before, p_ordered, NULL,
    p_trace_contexts, p_is_message, p_key_scope, NULL, p_outcome_topic, p_replaces) e;
  RETURN v_items;
END
$$;
COMMENT ON FUNCTION enqueue_outbox_packed(
  text[], text[], text[], text[], jsonb[], timestamptz[], boolean[], text[], boolean, text, text[], uuid[]) IS
  'Like enqueue_payment_outbox_batch. Returns one line per item, in order: outbox_id, sequence_id, created_at, state, '
  'created.';

-- The column exceptions holds the items with rare properties (unknown outcome, takeover, ordered stream, trace) and the
-- takeovers that were not leased.
CREATE OR REPLACE FUNCTION claim_outbox_packed(
  p_batch_size integer, p_worker_id text, p_lease_seconds integer, p_rails text[] DEFAULT NULL,
  p_marked_rails text[] DEFAULT NULL, p_report_unleased boolean DEFAULT false, p_epoch_id uuid DEFAULT NULL,
  p_is_message boolean DEFAULT NULL,
  OUT items text, OUT payloads text, OUT lease_expires_at timestamptz, OUT claimed_at timestamptz, OUT exceptions text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
  SELECT
    string_agg(concat_ws(' ', c.outbox_id, c.instruction_id, c.participant_id, c.sequence_id, c.idempotency_key,
      c.rail_type, c.attempt_count, c.lease_token, (date_part('epoch', c.created_at) * 1000000)::bigint,
      (date_part('epoch', c.due_at) * 1000000)::bigint), chr(10)) FILTER (WHERE c.lease_token IS NOT NULL),
    '[' || string_agg(c.payload::text, ',') FILTER (WHERE c.lease_token IS NOT NULL) || ']',
    min(c.lease_expires_at), min(c.claimed_at),
    jsonb_agg(jsonb_build_object(
      'ordinal', CASE WHEN c.lease_token IS NOT NULL THEN c.ordinal END, 'outbox_id', c.outbox_id,
      'rail_type', c.rail_type, 'outcome_unknown', c.outcome_unknown, 'expiry_streak', c.expiry_streak,
      'taken_over', c.taken_over, 'ordered', c.ordered, 'evidence', c.evidence, 'trace_context', c.trace_context,
      'hold_reason', c.hold_reason))
      FILTER (WHERE c.outcome_unknown OR c.expiry_streak > 0 OR c.taken_over OR c.ordered OR c.evidence IS NOT NULL
        OR c.trace_context IS NOT NULL OR c.lease_token IS NULL)::text
  INTO items, payloads, lease_expires_at, claimed_at, exceptions
  FROM claim_outbox_batch(
    p_batch_size, p_worker_id, p_lease_seconds, p_rails, p_marked_rails, p_report_unleased, p_epoch_id, p_is_message)
    WITH ORDINALITY AS c(outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload,
      attempt_count, lease_token, lease_expires_at, claimed_at, outcome_unknown, expiry_streak, taken_over, ordered,
      evidence, created_at, due_at, trace_context, hold_reason, ordinal);
END
$$;
COMMENT ON FUNCTION claim_outbox_packed(integer, text, integer, text[], text[], boolean, uuid, boolean) IS
  'Like claim_outbox_batch. Returns one line per leased item, a JSON array of payloads, and JSON for items with rare '
  'properties.';

CREATE OR REPLACE FUNCTION complete_outbox_packed(
  p_outbox_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_states text[],
  p_rail_references text[] DEFAULT NULL, p_rail_codes text[] DEFAULT NULL,
  p_error_codes text[] DEFAULT NULL, p_error_messages text[] DEFAULT NULL,
  p_latencies_ms integer[] DEFAULT NULL, p_retry_delays_seconds integer[] DEFAULT NULL,
  p_outcomes_unknown boolean[] DEFAULT NULL, p_hold_reasons text[] DEFAULT NULL, p_is_message boolean DEFAULT NULL,
  p_actions text[] DEFAULT NULL,
  OUT attempt_nos text, OUT exceptions text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
  SELECT string_agg(c.attempt_no::text, ' ') FILTER (WHERE c.is_plain),
    jsonb_agg(to_jsonb(c) - 'is_plain') FILTER (WHERE NOT c.is_plain)::text
  INTO attempt_nos, exceptions
  FROM (
    SELECT c.*, c.verdict = 'RECORDED' AND c.state = 'DISPATCHED' AND NOT c.contradicted AS is_plain
    FROM complete_outbox_attempts(
      p_outbox_ids, p_lease_tokens, p_worker_id, p_states, p_rail_references, p_rail_codes, p_error_codes,
      p_error_messages, p_latencies_ms, p_retry_delays_seconds, p_outcomes_unknown, p_hold_reasons, p_is_message,
      p_actions) c
  ) c;
END
$$;
COMMENT ON FUNCTION complete_outbox_packed(
  uuid[], uuid[], text, text[], text[], text[], text[], text[], integer[], integer[], boolean[], text[], boolean,
  text[]) IS
  'Like complete_outbox_attempts. Returns the attempt numbers of items recorded as DISPATCHED, in order, and JSON for '
  'all others.';
