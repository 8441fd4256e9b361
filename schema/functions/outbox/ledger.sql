-- Content hashes of items, and the functions that append events.

CREATE OR REPLACE FUNCTION epoch_micros(p_time timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (extract(epoch FROM p_time) * 1000000)::bigint;
COMMENT ON FUNCTION epoch_micros(timestamptz) IS 'Returns the microseconds since 1970-01-01 UTC.';

CREATE OR REPLACE FUNCTION outbox_content_hash(p_participant_id text, p_rail_type text,
  p_payload_text text) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
RETURN sha256(convert_to(concat(
  octet_length(p_participant_id), ':', p_participant_id, ',',
  octet_length(p_rail_type), ':', p_rail_type, ',',
  octet_length(p_payload_text), ':', p_payload_text, ','), 'UTF8'));
COMMENT ON FUNCTION outbox_content_hash(text, text, text) IS
  'Returns the SHA-256 of the content that an idempotency key stands for: participant, rail and payload.';

-- Appends one event per item. The caller holds the lock that orders the item's events (lock_outbox_item). The
-- application learns of a hold, a release from it, and a return of money. So this function also sends the outcome
-- messages about these events.
CREATE OR REPLACE FUNCTION append_outbox_events(
  p_event_type text, p_actor text, p_outbox_ids uuid[], p_details jsonb[], p_attempt_ids uuid[] DEFAULT NULL
) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_outcome CONSTANT text := CASE
    WHEN p_event_type = 'HOLD_PLACED' THEN 'HELD'
    WHEN p_event_type = 'HOLD_RESOLVED' AND p_details[1] ->> 'decision' = 'RETRY' THEN 'RELEASED'
    WHEN p_event_type = 'RETURN_RECORDED' THEN 'RETURNED'
  END;
BEGIN
  RETURN QUERY
  INSERT INTO payment_outbox_events
    (event_id, outbox_id, event_no, event_type, attempt_id, actor, detail, created_at)
  SELECT uuid_v7(), given.outbox_id, COALESCE(last.event_no, 0) + 1, p_event_type, given.attempt_id, p_actor,
    COALESCE(given.detail, '{}'), clock_timestamp()
  FROM unnest(p_outbox_ids, p_details, p_attempt_ids) AS given(outbox_id, detail, attempt_id)
  LEFT JOIN LATERAL (
    SELECT v.event_no FROM payment_outbox_events v
    WHERE v.outbox_id = given.outbox_id ORDER BY v.event_no DESC LIMIT 1
  ) last ON true
  RETURNING event_id;
  IF v_outcome IS NOT NULL AND p_outbox_ids IS NOT NULL THEN
    PERFORM send_outcome_messages(p_outbox_ids, v_outcome, p_attempt_ids, p_details);
  END IF;
END
$$;
COMMENT ON FUNCTION append_outbox_events(text, text, uuid[], jsonb[], uuid[]) IS
  'Internal: appends one event per item and returns their ids. Sends outcome messages about holds and returns.';

-- A lock of the caller, such as that on a row of outbox_pauses, orders two writers of one scope. Without it, the unique
-- event number would refuse the second event.
CREATE OR REPLACE FUNCTION append_outbox_scope_event(p_event_type text, p_actor text, p_scope text, p_detail jsonb)
RETURNS uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
  INSERT INTO payment_outbox_events (event_id, scope, event_no, event_type, actor, detail, created_at)
  VALUES (uuid_v7(), p_scope,
    COALESCE((SELECT v.event_no FROM payment_outbox_events v WHERE v.scope = p_scope ORDER BY v.event_no DESC LIMIT 1),
      0) + 1,
    p_event_type, p_actor, p_detail, clock_timestamp())
  RETURNING event_id
$$;
COMMENT ON FUNCTION append_outbox_scope_event(text, text, text, jsonb) IS
  'Internal: appends one event about a scope other than an item, such as a rail or a participant; returns its id.';

-- Functions on the hot path read full_trail themselves, because this call costs more.
CREATE OR REPLACE FUNCTION append_trail_events(p_event_type text, p_actor text, p_outbox_ids uuid[],
  p_detail jsonb) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT append_outbox_events(p_event_type, p_actor, p_outbox_ids,
    array_fill(p_detail, ARRAY[COALESCE(cardinality(p_outbox_ids), 0)]))
  FROM symphony_settings s WHERE s.full_trail
$$;
COMMENT ON FUNCTION append_trail_events(text, text, uuid[], jsonb) IS
  'Internal: appends the same event for each item if the full trail is on.';

-- Returns the detail of HOLD_PLACED. The full trail needs the time of the hold, which is earlier than that of the
-- event.
CREATE OR REPLACE FUNCTION outbox_hold_detail(p_reason text, p_held_at timestamptz) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT jsonb_build_object('reason', p_reason)
    || CASE WHEN (SELECT s.full_trail FROM symphony_settings s) THEN jsonb_build_object('held_at',
      epoch_micros(p_held_at)) ELSE '{}' END
$$;
COMMENT ON FUNCTION outbox_hold_detail(text, timestamptz) IS
  'Internal: returns the detail of HOLD_PLACED: the reason and, if the full trail is on, the time.';

-- Records when the full trail was switched, so that a replay knows whether the events of an item are complete.
CREATE OR REPLACE FUNCTION record_full_trail() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT
AS $$
BEGIN
  PERFORM append_outbox_scope_event('FULL_TRAIL_SET', session_user::text, 'full_trail',
    jsonb_build_object('full_trail', NEW.full_trail));
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION record_full_trail() IS 'Trigger: appends an event when symphony_settings.full_trail changes.';

CREATE OR REPLACE TRIGGER symphony_settings_record_full_trail
  AFTER UPDATE OF full_trail ON symphony_settings
  FOR EACH ROW WHEN (OLD.full_trail <> NEW.full_trail) EXECUTE FUNCTION record_full_trail();
ALTER TABLE symphony_settings ENABLE ALWAYS TRIGGER symphony_settings_record_full_trail;
