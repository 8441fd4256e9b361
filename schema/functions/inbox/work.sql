-- Claims of inbox messages: claim, ack, abandon, fail. A claim sets a fence in the row and removes nothing, so a crash
-- costs one claim length and one attempt, never a message. A call with an outdated fence neither changes
-- nor returns the message.

CREATE OR REPLACE FUNCTION claim_inbox_batch(
  p_batch_size integer, p_worker_id text, p_lease_seconds integer, p_attempts_max integer DEFAULT 20
) RETURNS TABLE (
  source text, message_id text, topic text, payload jsonb, attempt_count integer, attempts_max integer,
  sightings bigint, fence uuid, claim_expires_at timestamptz, claimed_at timestamptz, first_seen_at timestamptz,
  taken_over boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: claim
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_expired tid[];
  v_taken_over text[] := '{}'::text[];
  v_rows tid[] := '{}'::tid[];
  v_exhausted tid[];
BEGIN
  PERFORM check_number('p_batch_size', p_batch_size, 1, 1000);
  PERFORM check_id('p_worker_id', p_worker_id);
  PERFORM check_number('p_lease_seconds', p_lease_seconds, 1, 3600);
  PERFORM check_number('p_attempts_max', p_attempts_max, 1, 1000);

  -- Two queries, because "unclaimed or expired" in one condition can use neither index. Expired claims come first,
  -- because they have waited longest. last_error records the expiry.
  v_expired := ARRAY(
    SELECT m.ctid FROM inbox_messages m
    WHERE m.fence IS NOT NULL AND m.claim_expires_at <= v_now
    ORDER BY m.claim_expires_at LIMIT p_batch_size FOR UPDATE SKIP LOCKED);
  IF cardinality(v_expired) > 0 THEN
    WITH expired AS (
      UPDATE inbox_messages m
      SET state = 'seen', claimed_by = NULL, fence = NULL, claim_expires_at = NULL, claimed_at = NULL,
        last_error = format('attempt %s: the claim of worker %s expired before it answered',
          m.attempt_count, m.claimed_by)
      WHERE m.ctid = ANY (v_expired)
      RETURNING m.ctid AS place, m.source, m.message_id
    )
    SELECT array_agg(e.place), array_agg(format('%L,%L', e.source, e.message_id)) INTO v_rows, v_taken_over
    FROM expired e;
  END IF;
  v_rows := v_rows || ARRAY(
    SELECT m.ctid FROM inbox_messages m
    WHERE m.state = 'seen' AND m.topic IS NOT NULL AND m.due_at <= v_now AND m.ctid <> ALL (v_rows)
    ORDER BY m.due_at, m.first_seen_at LIMIT p_batch_size - cardinality(v_rows) FOR UPDATE SKIP LOCKED);

  v_exhausted := ARRAY(
    SELECT m.ctid FROM inbox_messages m WHERE m.ctid = ANY (v_rows) AND m.attempt_count >= p_attempts_max);
  IF cardinality(v_exhausted) > 0 THEN
    PERFORM dead_letter_inbox_messages(
      v_exhausted, array_fill(NULL::text, ARRAY[cardinality(v_exhausted)]), p_worker_id);
  END IF;

  -- Reads the clock again after the locks, so that the claim has its full length.
  v_now := clock_timestamp();
  RETURN QUERY
  WITH claimed AS (
    UPDATE inbox_messages m
    SET state = 'processing', attempt_count = m.attempt_count + 1, attempts_max = p_attempts_max,
      claimed_by = p_worker_id, fence = gen_random_uuid(), claimed_at = v_now,
      claim_expires_at = v_now + make_interval(secs => p_lease_seconds)
    WHERE m.ctid = ANY (v_rows) AND m.state = 'seen'
    RETURNING m.*
  )
  SELECT c.source, c.message_id, c.topic, c.payload, c.attempt_count, c.attempts_max, c.sightings, c.fence,
    c.claim_expires_at, c.claimed_at, c.first_seen_at, format('%L,%L', c.source, c.message_id) = ANY (v_taken_over)
  FROM claimed c
  -- UPDATE … RETURNING has no order of its own.
  ORDER BY c.due_at, c.first_seen_at;
END
$$;
COMMENT ON FUNCTION claim_inbox_batch(integer, text, integer, integer) IS
  'Claims due messages for one worker, first in, first out, each with its fence. A message at its attempt limit '
  'becomes dead.';

-- A message without a new error keeps its last error.
CREATE OR REPLACE FUNCTION dead_letter_inbox_messages(p_places tid[], p_errors text[], p_actor text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_now CONSTANT timestamptz := clock_timestamp();
BEGIN
  WITH dead AS (
    UPDATE inbox_messages m
    SET state = 'dead', ended_at = v_now, claimed_by = NULL, fence = NULL, claim_expires_at = NULL, claimed_at = NULL,
      last_error = COALESCE(g.error, m.last_error, 'no error was reported')
    FROM unnest(p_places, p_errors) AS g(place, error)
    WHERE m.ctid = g.place
    RETURNING m.source, m.message_id, m.attempt_count, m.last_error
  )
  INSERT INTO inbox_events (event_id, source, message_id, event_type, actor, detail, created_at)
  SELECT uuid_v7(), b.source, b.message_id, 'DIED', p_actor,
    jsonb_build_object('attempts', b.attempt_count, 'error', b.last_error), v_now
  FROM dead b;
END
$$;
COMMENT ON FUNCTION dead_letter_inbox_messages(tid[], text[], text) IS
  'Internal: makes locked messages dead, each with its last error and an event.';

CREATE OR REPLACE FUNCTION ack_inbox_messages(p_sources text[], p_message_ids text[], p_fences uuid[], p_worker_id text)
RETURNS TABLE (ordinal integer, source text, message_id text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_places tid[];
BEGIN
  PERFORM check_inbox_claims(p_sources, p_message_ids, p_fences, p_worker_id);
  v_places := lock_live_inbox_claims(p_sources, p_message_ids, p_fences, p_worker_id);
  UPDATE inbox_messages m
  SET state = 'done', ended_at = clock_timestamp(), claimed_by = NULL, fence = NULL, claim_expires_at = NULL,
    claimed_at = NULL
  WHERE m.ctid = ANY (v_places);
  RETURN QUERY
  SELECT g.ordinal::integer, g.source, g.message_id
  FROM unnest(p_sources, p_message_ids, v_places) WITH ORDINALITY AS g(source, message_id, place, ordinal)
  WHERE g.place IS NOT NULL ORDER BY g.ordinal;
END
$$;
COMMENT ON FUNCTION ack_inbox_messages(text[], text[], uuid[], text) IS
  'Ends live claims as done, which is final. Returns the messages that it ended; the others do not change.';

CREATE OR REPLACE FUNCTION abandon_inbox_messages(
  p_sources text[], p_message_ids text[], p_fences uuid[], p_worker_id text,
  p_errors text[] DEFAULT NULL, p_retry_delays_seconds integer[] DEFAULT NULL, p_costs_attempt boolean DEFAULT true
) RETURNS TABLE (ordinal integer, source text, message_id text, state text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_places tid[];
  v_spent tid[] := '{}'::tid[];
  v_spent_errors text[];
  v_now timestamptz;
BEGIN
  PERFORM check_inbox_claims(p_sources, p_message_ids, p_fences, p_worker_id);
  PERFORM check_inbox_errors(p_errors, cardinality(p_sources));
  IF p_retry_delays_seconds IS NOT NULL THEN
    IF array_dims(p_retry_delays_seconds) IS DISTINCT FROM array_dims(p_sources)
      OR EXISTS (SELECT 1 FROM unnest(p_retry_delays_seconds) AS d(seconds) WHERE d.seconds NOT BETWEEN 0 AND 2592000)
    THEN
      PERFORM refuse_argument('p_retry_delays_seconds', 'for each message null or 0 to 2592000');
    END IF;
  END IF;
  IF p_costs_attempt IS NULL THEN
    PERFORM refuse_argument('p_costs_attempt', 'true or false');
  END IF;
  v_places := lock_live_inbox_claims(p_sources, p_message_ids, p_fences, p_worker_id);
  IF p_costs_attempt THEN
    SELECT COALESCE(array_agg(g.place), '{}'), COALESCE(array_agg(g.error), '{}') INTO v_spent, v_spent_errors
    FROM unnest(v_places, p_errors) AS g(place, error)
    JOIN inbox_messages m ON m.ctid = g.place
    WHERE m.attempt_count >= m.attempts_max;
  END IF;
  IF cardinality(v_spent) > 0 THEN
    PERFORM dead_letter_inbox_messages(v_spent, v_spent_errors, p_worker_id);
  END IF;
  v_now := clock_timestamp();
  UPDATE inbox_messages m
  SET state = 'seen', claimed_by = NULL, fence = NULL, claim_expires_at = NULL, claimed_at = NULL,
    attempt_count = m.attempt_count - CASE WHEN p_costs_attempt THEN 0 ELSE 1 END,
    last_error = COALESCE(g.error, m.last_error),
    due_at = v_now + COALESCE(make_interval(secs => g.delay_seconds), outbox_backoff(m.attempt_count, m.fence))
  FROM unnest(v_places, p_errors, p_retry_delays_seconds) AS g(place, error, delay_seconds)
  WHERE m.ctid = g.place AND m.state = 'processing';
  RETURN QUERY
  SELECT g.ordinal::integer, g.source, g.message_id, CASE WHEN g.place = ANY (v_spent) THEN 'dead' ELSE 'seen' END
  FROM unnest(p_sources, p_message_ids, v_places) WITH ORDINALITY AS g(source, message_id, place, ordinal)
  WHERE g.place IS NOT NULL ORDER BY g.ordinal;
END
$$;
COMMENT ON FUNCTION abandon_inbox_messages(text[], text[], uuid[], text, text[], integer[], boolean) IS
  'Ends live claims without success: a message is due again after the given delay or a growing one, or dead at the '
  'attempt limit. Returns the changed messages.';

CREATE OR REPLACE FUNCTION fail_inbox_messages(
  p_sources text[], p_message_ids text[], p_fences uuid[], p_worker_id text, p_errors text[] DEFAULT NULL
) RETURNS TABLE (ordinal integer, source text, message_id text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_places tid[];
BEGIN
  PERFORM check_inbox_claims(p_sources, p_message_ids, p_fences, p_worker_id);
  PERFORM check_inbox_errors(p_errors, cardinality(p_sources));
  v_places := lock_live_inbox_claims(p_sources, p_message_ids, p_fences, p_worker_id);
  PERFORM dead_letter_inbox_messages(
    v_places, COALESCE(p_errors, array_fill(NULL::text, ARRAY[cardinality(p_sources)])), p_worker_id);
  RETURN QUERY
  SELECT g.ordinal::integer, g.source, g.message_id
  FROM unnest(p_sources, p_message_ids, v_places) WITH ORDINALITY AS g(source, message_id, place, ordinal)
  WHERE g.place IS NOT NULL ORDER BY g.ordinal;
END
$$;
COMMENT ON FUNCTION fail_inbox_messages(text[], text[], uuid[], text, text[]) IS
  'Ends live claims as dead at once, with the error. Returns the messages that it ended.';

CREATE OR REPLACE FUNCTION next_inbox_event() RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: ordered
  SELECT LEAST(
    (SELECT min(m.due_at) FROM inbox_messages m WHERE m.state = 'seen' AND m.topic IS NOT NULL),
    (SELECT min(m.claim_expires_at) FROM inbox_messages m WHERE m.fence IS NOT NULL))
$$;
COMMENT ON FUNCTION next_inbox_event() IS
  'Returns the next due time of a message or expiry of a claim; null if there is none.';

-- Removes done messages and messages that were only sighted. A repeat within the retention is recognised as a
-- duplicate, a later one is new. A processing message stays, because its outcome is unknown. A dead one stays until an
-- operator decides.
CREATE OR REPLACE FUNCTION purge_inbox_messages(p_keep_seconds integer, p_batch_size integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: claim
#variable_conflict use_column
DECLARE
  v_before timestamptz;
  v_rows tid[];
BEGIN
  IF p_keep_seconds IS NULL OR p_keep_seconds NOT BETWEEN 1 AND 315576000 THEN
    PERFORM refuse_argument('p_keep_seconds', '1 to 315576000 (ten years)');
  END IF;
  PERFORM check_number('p_batch_size', p_batch_size, 1, 1000);
  v_before := clock_timestamp() - make_interval(secs => p_keep_seconds);
  v_rows := ARRAY(
    SELECT m.ctid FROM inbox_messages m WHERE m.state = 'done' AND m.ended_at <= v_before
    ORDER BY m.ended_at LIMIT p_batch_size FOR UPDATE SKIP LOCKED);
  v_rows := v_rows || ARRAY(
    SELECT m.ctid FROM inbox_messages m
    WHERE m.state = 'seen' AND m.topic IS NULL AND m.first_seen_at <= v_before AND m.last_seen_at <= v_before
    ORDER BY m.first_seen_at LIMIT p_batch_size - cardinality(v_rows) FOR UPDATE SKIP LOCKED);
  DELETE FROM inbox_messages m WHERE m.ctid = ANY (v_rows);
  RETURN cardinality(v_rows);
END
$$;
COMMENT ON FUNCTION purge_inbox_messages(integer, integer) IS
  'Removes one batch of messages that were done, or last sighted, at least p_keep_seconds ago; returns their number.';

CREATE OR REPLACE FUNCTION revive_inbox_message(p_source text, p_message_id text, p_reason text) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_known inbox_messages;
  v_event_id uuid := uuid_v7();
  v_now timestamptz;
BEGIN
  PERFORM check_inbox_key(p_source, p_message_id);
  PERFORM check_text('p_reason', p_reason, 1000);
  v_known := lock_inbox_message(p_source, p_message_id);
  IF v_known.state <> 'dead' THEN
    RAISE EXCEPTION 'INBOX_TRANSITION: the inbox message is %; only a dead message can be revived', v_known.state
      USING ERRCODE = 'P7010', DETAIL = json_build_object('from', v_known.state, 'to', 'seen')::text;
  END IF;
  v_now := clock_timestamp();
  UPDATE inbox_messages m
  SET state = 'seen', ended_at = NULL, attempt_count = 0, due_at = CASE WHEN m.topic IS NOT NULL THEN v_now END
  WHERE m.source = p_source AND m.message_id = p_message_id;
  INSERT INTO inbox_events (event_id, source, message_id, event_type, actor, detail, created_at)
  VALUES (v_event_id, p_source, p_message_id, 'REVIVED', v_actor,
    jsonb_build_object('reason', p_reason, 'attempts', v_known.attempt_count, 'error', v_known.last_error), v_now);
  PERFORM wake_inbox_workers();
  RETURN v_event_id;
END
$$;
COMMENT ON FUNCTION revive_inbox_message(text, text, text) IS
  'Returns a dead message to the state seen and resets its attempts; an enqueued message is due at once. An event '
  'records the actor and the reason.';

CREATE OR REPLACE FUNCTION check_inbox_claims(p_sources text[], p_message_ids text[], p_fences uuid[], p_worker_id text)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_count integer := cardinality(p_sources);
  v_list CONSTANT text := format('[1:%s]', v_count);
  v_ids_expected CONSTANT text :=
    'a plain list of 1 to 1000, each of 1 to 255 characters, not blank, without control characters';
BEGIN
  IF v_count IS NULL OR v_count NOT BETWEEN 1 AND 1000 OR array_dims(p_sources) <> v_list
    OR NOT (SELECT bool_and(is_inbox_id(g.id)) FROM unnest(p_sources) AS g(id))
  THEN
    PERFORM refuse_argument('p_sources', v_ids_expected);
  END IF;
  IF array_dims(p_message_ids) IS DISTINCT FROM v_list
    OR NOT (SELECT bool_and(is_inbox_id(g.id)) FROM unnest(p_message_ids) AS g(id))
  THEN
    PERFORM refuse_argument('p_message_ids', v_ids_expected);
  END IF;
  IF array_dims(p_fences) IS DISTINCT FROM v_list OR num_nulls(VARIADIC p_fences) > 0 THEN
    PERFORM refuse_argument('p_fences', 'one fence for each message, none of them null');
  END IF;
  PERFORM check_id('p_worker_id', p_worker_id);
END
$$;
COMMENT ON FUNCTION check_inbox_claims(text[], text[], uuid[], text) IS
  'Internal: raises 22023 unless keys, fences and worker are well-formed.';

CREATE OR REPLACE FUNCTION check_inbox_errors(p_errors text[], p_count integer) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  IF p_errors IS NOT NULL AND (array_dims(p_errors) IS DISTINCT FROM format('[1:%s]', p_count) OR EXISTS (
    SELECT 1 FROM unnest(p_errors) AS g(error) WHERE g.error IS NOT NULL AND NOT is_short_text(g.error, 2000)))
  THEN
    PERFORM refuse_argument('p_errors', 'for each message null or text of 1 to 2000 characters');
  END IF;
END
$$;
COMMENT ON FUNCTION check_inbox_errors(text[], integer) IS
  'Internal: raises 22023 unless each error is null or short text.';

-- Locks messages in the order of their keys, so that two calls cannot deadlock. Returns one ctid per key: the row, if
-- this worker and fence hold a live claim, else null. If a claim is listed twice, the first counts. The clock is read
-- after the locks.
CREATE OR REPLACE FUNCTION lock_live_inbox_claims(
  p_sources text[], p_message_ids text[], p_fences uuid[], p_worker_id text
) RETURNS tid[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_ordinals integer[];
  v_places tid[];
  v_expiries timestamptz[];
  v_now timestamptz;
BEGIN
  SELECT array_agg(l.ordinal ORDER BY l.ordinal), array_agg(l.place ORDER BY l.ordinal),
    array_agg(l.claim_expires_at ORDER BY l.ordinal)
  INTO v_ordinals, v_places, v_expiries
  FROM (
    SELECT g.ordinal::integer AS ordinal,
      CASE WHEN m.fence = g.fence AND m.claimed_by = p_worker_id THEN m.place END AS place, m.claim_expires_at
    FROM (
      SELECT i.source, i.message_id, i.fence, i.ordinal
      FROM unnest(p_sources, p_message_ids, p_fences) WITH ORDINALITY AS i(source, message_id, fence, ordinal)
      ORDER BY i.source COLLATE "C", i.message_id COLLATE "C"
    ) g
    LEFT JOIN LATERAL (
      SELECT q.ctid AS place, q.fence, q.claimed_by, q.claim_expires_at
      FROM inbox_messages q WHERE q.source = g.source AND q.message_id = g.message_id OFFSET 0 FOR UPDATE
    ) m ON true
  ) l;
  v_now := clock_timestamp();
  RETURN ARRAY(
    SELECT CASE WHEN l.expiry > v_now AND l.ordinal = min(l.ordinal) OVER (PARTITION BY l.place) THEN l.place END
    FROM unnest(v_ordinals, v_places, v_expiries) AS l(ordinal, place, expiry)
    ORDER BY l.ordinal);
END
$$;
COMMENT ON FUNCTION lock_live_inbox_claims(text[], text[], uuid[], text) IS
  'Internal: locks messages; returns the rows whose live claim this worker and fence hold.';
