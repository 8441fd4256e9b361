-- Receives messages: as work for a handler, or for deduplication only.

CREATE OR REPLACE FUNCTION inbox_content_hash(p_topic text, p_payload_text text) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
RETURN sha256(convert_to(concat(
  octet_length(p_topic), ':', p_topic, ',',
  octet_length(p_payload_text), ':', p_payload_text, ','), 'UTF8'));
COMMENT ON FUNCTION inbox_content_hash(text, text) IS
  'Returns the SHA-256 of topic and payload of a message, each preceded by its length.';

-- A message is new, known with the same content, or known with another content. In the last case the first content
-- stays, content_differs is true, and an event is recorded. No error is raised: it would roll the event back.
CREATE OR REPLACE FUNCTION enqueue_inbox_messages(
  p_sources text[], p_message_ids text[], p_topics text[], p_payloads jsonb[], p_not_before timestamptz[] DEFAULT NULL
) RETURNS TABLE (ordinal integer, state text, sightings bigint, created boolean, content_differs boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_given record;
  v_sighted record;
  v_ordinals integer[] := '{}'::integer[];
  v_states text[] := '{}'::text[];
  v_sightings bigint[] := '{}'::bigint[];
  v_created boolean[] := '{}'::boolean[];
  v_differs boolean[] := '{}'::boolean[];
BEGIN
  PERFORM check_inbox_messages(p_sources, p_message_ids, p_topics, p_payloads, p_not_before);
  v_now := clock_timestamp();
  -- Sorted by key, so that two calls cannot deadlock.
  FOR v_given IN
    SELECT g.ordinal::integer AS ordinal, g.source, g.message_id, g.topic, g.payload, g.not_before
    FROM unnest(p_sources, p_message_ids, p_topics, p_payloads, p_not_before)
      WITH ORDINALITY AS g(source, message_id, topic, payload, not_before, ordinal)
    ORDER BY g.source COLLATE "C", g.message_id COLLATE "C", g.ordinal
  LOOP
    -- Passes times one microsecond apart, so that claims keep the order of the batch.
    SELECT s.* INTO v_sighted
    FROM upsert_inbox_message(v_given.source, v_given.message_id, v_given.topic, v_given.payload,
      inbox_content_hash(v_given.topic, v_given.payload::text), v_given.not_before,
      v_now + v_given.ordinal * interval '1 microsecond') s;
    v_ordinals := v_ordinals || v_given.ordinal;
    v_states := v_states || v_sighted.state;
    v_sightings := v_sightings || v_sighted.sightings;
    v_created := v_created || v_sighted.created;
    v_differs := v_differs || v_sighted.content_differs;
  END LOOP;
  IF true = ANY (v_created) THEN
    PERFORM wake_inbox_workers();
  END IF;
  RETURN QUERY
  SELECT r.ordinal, r.state, r.sightings, r.created, r.content_differs
  FROM unnest(v_ordinals, v_states, v_sightings, v_created, v_differs)
    AS r(ordinal, state, sightings, created, content_differs)
  ORDER BY r.ordinal;
END
$$;
COMMENT ON FUNCTION enqueue_inbox_messages(text[], text[], text[], jsonb[], timestamptz[]) IS
  'Receives up to 1000 messages, each stored once; returns rows in the order given.';

CREATE OR REPLACE FUNCTION enqueue_inbox_message(
  p_source text, p_message_id text, p_topic text, p_payload jsonb, p_not_before timestamptz DEFAULT NULL
) RETURNS TABLE (state text, sightings bigint, created boolean, content_differs boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT e.state, e.sightings, e.created, e.content_differs
  FROM enqueue_inbox_messages(
    ARRAY[p_source], ARRAY[p_message_id], ARRAY[p_topic], ARRAY[p_payload], ARRAY[p_not_before]) e;
END
$$;
COMMENT ON FUNCTION enqueue_inbox_message(text, text, text, jsonb, timestamptz) IS
  'Receives one message: a batch of one. A repeat only counts another sighting.';

CREATE OR REPLACE FUNCTION record_inbox_sighting(
  p_source text, p_message_id text, p_topic text DEFAULT NULL, p_payload jsonb DEFAULT NULL
) RETURNS TABLE (state text, sightings bigint, created boolean, content_differs boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_content_hash bytea;
  v_defect text := payload_defect(p_payload);
BEGIN
  PERFORM check_inbox_key(p_source, p_message_id);
  -- The hash of only a topic or only a payload would differ from that of a later enqueue, and the message would never
  -- become work.
  IF num_nonnulls(p_topic, p_payload) > 0 THEN
    IF NOT is_id(p_topic) THEN
      PERFORM refuse_argument('p_topic', 'with a payload, 1 to 128 printable ASCII characters without spaces');
    END IF;
    IF v_defect IS NOT NULL THEN
      PERFORM refuse_argument('p_payload', v_defect);
    END IF;
    v_content_hash := inbox_content_hash(p_topic, p_payload::text);
  END IF;
  RETURN QUERY
  SELECT s.state, s.sightings, s.created, s.content_differs
  FROM upsert_inbox_message(p_source, p_message_id, NULL, NULL, v_content_hash, NULL, clock_timestamp()) s;
END
$$;
COMMENT ON FUNCTION record_inbox_sighting(text, text, text, jsonb) IS
  'Counts a sighting and returns the state, for deduplication only. Takes topic and payload together, and stores only '
  'their hash.';

CREATE OR REPLACE FUNCTION check_inbox_key(p_source text, p_message_id text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_id_expected CONSTANT text := '1 to 255 characters, not blank, without control characters';
BEGIN
  IF NOT is_inbox_id(p_source) THEN
    PERFORM refuse_argument('p_source', v_id_expected);
  END IF;
  IF NOT is_inbox_id(p_message_id) THEN
    PERFORM refuse_argument('p_message_id', v_id_expected);
  END IF;
END
$$;
COMMENT ON FUNCTION check_inbox_key(text, text) IS 'Internal: raises 22023 unless both parts of a key are well-formed.';

CREATE OR REPLACE FUNCTION check_inbox_messages(
  p_sources text[], p_message_ids text[], p_topics text[], p_payloads jsonb[], p_not_before timestamptz[]
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_count integer := cardinality(p_sources);
  v_list CONSTANT text := format('[1:%s]', v_count);
  v_misshapen text;
  v_payload_defect text;
  v_id_expected CONSTANT text := '1 to 255 characters, not blank, without control characters';
BEGIN
  IF v_count IS NULL OR v_count NOT BETWEEN 1 AND 1000 THEN
    PERFORM refuse_argument('p_sources', 'an array of 1 to 1000 items');
  END IF;
  v_misshapen := CASE
    WHEN array_dims(p_sources) IS DISTINCT FROM v_list THEN 'p_sources'
    WHEN array_dims(p_message_ids) IS DISTINCT FROM v_list THEN 'p_message_ids'
    WHEN array_dims(p_topics) IS DISTINCT FROM v_list THEN 'p_topics'
    WHEN array_dims(p_payloads) IS DISTINCT FROM v_list THEN 'p_payloads'
    WHEN p_not_before IS NOT NULL AND array_dims(p_not_before) IS DISTINCT FROM v_list THEN 'p_not_before'
  END;
  IF v_misshapen IS NOT NULL THEN
    PERFORM refuse_argument(v_misshapen, 'a plain list, as long as p_sources');
  END IF;
  FOR v_ordinal IN 1 .. v_count LOOP
    IF NOT is_inbox_id(p_sources[v_ordinal]) THEN
      PERFORM refuse_argument(format('p_source of item %s', v_ordinal), v_id_expected);
    END IF;
    IF NOT is_inbox_id(p_message_ids[v_ordinal]) THEN
      PERFORM refuse_argument(format('p_message_id of item %s', v_ordinal), v_id_expected);
    END IF;
    IF NOT is_id(p_topics[v_ordinal]) THEN
      PERFORM refuse_argument(format('p_topic of item %s', v_ordinal),
        '1 to 128 printable ASCII characters without spaces');
    END IF;
    v_payload_defect := payload_defect(p_payloads[v_ordinal]);
    IF v_payload_defect IS NOT NULL THEN
      PERFORM refuse_argument(format('p_payload of item %s', v_ordinal), v_payload_defect);
    END IF;
    IF p_not_before[v_ordinal] NOT BETWEEN now() - interval '100 years' AND now() + interval '100 years' THEN
      PERFORM refuse_argument(format('p_not_before of item %s', v_ordinal), 'a time within 100 years of now');
    END IF;
  END LOOP;
END
$$;
COMMENT ON FUNCTION check_inbox_messages(text[], text[], text[], jsonb[], timestamptz[]) IS
  'Internal: raises 22023 for the first invalid message.';

-- The only function that inserts messages. `created` is true if this call inserted the message, or turned a sighted
-- message into work for a handler. A caller may therefore record a sighting first and enqueue later.
CREATE OR REPLACE FUNCTION upsert_inbox_message(
  p_source text, p_message_id text, p_topic text, p_payload jsonb, p_content_hash bytea, p_not_before timestamptz,
  p_now timestamptz
) RETURNS TABLE (state text, sightings bigint, created boolean, content_differs boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_due_at CONSTANT timestamptz := CASE WHEN p_topic IS NOT NULL THEN COALESCE(p_not_before, p_now) END;
  v_known inbox_messages;
  v_differs boolean;
  v_becomes_work boolean;
BEGIN
  LOOP
    INSERT INTO inbox_messages (source, message_id, topic, payload, content_hash, due_at, first_seen_at, last_seen_at)
    VALUES (p_source, p_message_id, p_topic, p_payload, p_content_hash, v_due_at, p_now, p_now)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
      RETURN QUERY SELECT 'seen', 1::bigint, true, false;
      RETURN;
    END IF;
    SELECT m.* INTO v_known FROM inbox_messages m
    WHERE m.source = p_source AND m.message_id = p_message_id FOR UPDATE;
    -- Not found: the INSERT met a row that retention has removed since. Tries the INSERT again.
    EXIT WHEN FOUND;
  END LOOP;
  v_differs := COALESCE(v_known.content_hash <> p_content_hash, false);
  v_becomes_work := p_topic IS NOT NULL AND v_known.topic IS NULL AND v_known.state = 'seen' AND NOT v_differs;
  UPDATE inbox_messages m
  SET sightings = m.sightings + 1, last_seen_at = GREATEST(m.last_seen_at, p_now),
    content_hash = COALESCE(m.content_hash, p_content_hash),
    topic = CASE WHEN v_becomes_work THEN p_topic ELSE m.topic END,
    payload = CASE WHEN v_becomes_work THEN p_payload ELSE m.payload END,
    due_at = CASE WHEN v_becomes_work THEN v_due_at ELSE m.due_at END
  WHERE m.source = p_source AND m.message_id = p_message_id;
  IF v_differs THEN
    INSERT INTO inbox_events (event_id, source, message_id, event_type, actor, content_hash, detail, created_at)
    VALUES (uuid_v7(), p_source, p_message_id, 'CONTENT_DIFFERS', session_user, p_content_hash,
      jsonb_build_object('kept_hash', encode(v_known.content_hash, 'hex'),
        'refused_hash', encode(p_content_hash, 'hex'), 'topic', p_topic, 'state', v_known.state), p_now)
    ON CONFLICT DO NOTHING;
  END IF;
  RETURN QUERY SELECT v_known.state, v_known.sightings + 1, v_becomes_work, v_differs;
END
$$;
COMMENT ON FUNCTION upsert_inbox_message(text, text, text, jsonb, bytea, timestamptz, timestamptz) IS
  'Internal: inserts a message, or counts another sighting of it and compares contents.';

-- Wakes idle workers. The notification only shortens the wait: polling finds due work.
CREATE OR REPLACE FUNCTION wake_inbox_workers() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_enabled boolean;
BEGIN
  SELECT s.notify_enabled INTO v_enabled FROM symphony_settings s;
  -- A full notification queue would fail the COMMIT. NOTIFY takes a cluster-wide lock at commit, so only one of several
  -- concurrent writers notifies. A worker that reads that notification too early finds the rest by polling.
  IF v_enabled AND pg_notification_queue_usage() < 0.5
    AND pg_try_advisory_xact_lock(1937337959, 'inbox_messages'::regclass::oid::integer)
  THEN
    NOTIFY inbox_ready, 'new_work';
  END IF;
END
$$;
COMMENT ON FUNCTION wake_inbox_workers() IS
  'Internal: sends NOTIFY inbox_ready, unless it is switched off, its queue is half full, or another writer sends it.';
