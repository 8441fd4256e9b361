-- The inbox: what came in, once. Tables, indexes and guards; how a message gets in, and the marks of those who use it for
-- deduplication alone. How workers carry messages is in 007_inbox_work.sql.
--
--   inbox_messages   one row per message: (source, message_id) names it, and is refused a second time while the row is kept
--   inbox_events     the trail: contents that differ from the first, deaths, revivals
--
--   seen ──► processing ──► done        final; forgotten by retention
--     │          │
--     └──────────┴────────► dead ──► seen   by a person, who says why
--
-- A message that was enqueued has a topic and a payload: it is work, moved by claims. A message that was only sighted has
-- neither: it is known for deduplication, moved by marks, and no worker ever claims it; while nobody has begun it, retention
-- forgets it as it does what is done, for its next sighting gets the same answer. A crash leaves a claim that expires.

-- Tables --------------------------------------------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS inbox_messages (
  -- Compared and ordered byte by byte: two systems' ids mean nothing to a locale.
  source text COLLATE "C" NOT NULL,
  message_id text COLLATE "C" NOT NULL,
  topic text,
  payload jsonb,
  content_hash bytea,
  state text NOT NULL DEFAULT 'seen',
  sightings bigint NOT NULL DEFAULT 1,
  attempt_count integer NOT NULL DEFAULT 0,
  attempts_max integer NOT NULL DEFAULT 20,
  due_at timestamptz,
  first_seen_at timestamptz NOT NULL,
  last_seen_at timestamptz NOT NULL,
  ended_at timestamptz,
  last_error text,
  -- The claim.
  claimed_by text,
  fence uuid,
  claim_expires_at timestamptz,
  claimed_at timestamptz,
  PRIMARY KEY (source, message_id),
  CONSTRAINT inbox_messages_known_state CHECK (state IN ('seen', 'processing', 'done', 'dead')),
  CONSTRAINT inbox_messages_content_all_or_none CHECK (num_nonnulls(topic, payload, due_at) IN (0, 3)),
  CONSTRAINT inbox_messages_content_has_hash CHECK (payload IS NULL OR content_hash IS NOT NULL),
  CONSTRAINT inbox_messages_payload_is_object CHECK (jsonb_typeof(payload) = 'object'),
  CONSTRAINT inbox_messages_counts_not_negative CHECK (sightings >= 1 AND attempt_count >= 0 AND attempts_max >= 1),
  CONSTRAINT inbox_messages_claim_all_or_none
    CHECK (num_nonnulls(claimed_by, fence, claim_expires_at, claimed_at) IN (0, 4)),
  CONSTRAINT inbox_messages_work_in_process_is_claimed
    CHECK ((fence IS NOT NULL) = (state = 'processing' AND topic IS NOT NULL)),
  CONSTRAINT inbox_messages_ended_once_ended CHECK ((ended_at IS NOT NULL) = (state IN ('done', 'dead')))
)
-- Each message is claimed and acknowledged in place: room on the page for its versions, and a vacuum that keeps up.
WITH (
  fillfactor = 70,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 500,
  autovacuum_analyze_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 1
);
COMMENT ON TABLE inbox_messages IS 'Every message that came in and is not forgotten yet: the queue and the memory of duplicates in one.';
COMMENT ON COLUMN inbox_messages.topic IS 'What its handler is found by; null for a message known only for deduplication, which is never claimed.';
COMMENT ON COLUMN inbox_messages.content_hash IS 'SHA-256 of topic and payload: what "the same content" means. The first content counts.';
COMMENT ON COLUMN inbox_messages.sightings IS 'How often the message came in. Says nothing about attempts to handle it.';
COMMENT ON COLUMN inbox_messages.attempt_count IS 'How often it was claimed since it came in or was revived: counted by the claim, so that a crash counts.';
COMMENT ON COLUMN inbox_messages.attempts_max IS 'The limit that the latest claim was made with.';
COMMENT ON COLUMN inbox_messages.fence IS 'Fresh for each claim and known to the claimer alone: ack, abandon and fail must show it.';

CREATE TABLE IF NOT EXISTS inbox_events (
  event_id uuid PRIMARY KEY,
  source text COLLATE "C" NOT NULL,
  message_id text COLLATE "C" NOT NULL,
  event_type text NOT NULL,
  actor text NOT NULL,
  content_hash bytea,
  detail jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL,
  CONSTRAINT inbox_events_known_type CHECK (event_type IN ('CONTENT_DIFFERS', 'DIED', 'REVIVED')),
  CONSTRAINT inbox_events_hash_of_what_differs CHECK ((event_type = 'CONTENT_DIFFERS') = (content_hash IS NOT NULL))
);
COMMENT ON TABLE inbox_events IS 'What happened to messages beside their work: other contents under a known key, deaths, revivals. Kept for ever.';
COMMENT ON COLUMN inbox_events.content_hash IS 'The content that was refused; each is told once, however often it is sent.';

-- Indexes -------------------------------------------------------------------------------------------------------------

CREATE INDEX IF NOT EXISTS ix_inbox_claimable ON inbox_messages (due_at, first_seen_at)
  WHERE state = 'seen' AND topic IS NOT NULL;
CREATE INDEX IF NOT EXISTS ix_inbox_claim_expiry ON inbox_messages (claim_expires_at) WHERE fence IS NOT NULL;
CREATE INDEX IF NOT EXISTS ix_inbox_done ON inbox_messages (ended_at) WHERE state = 'done';
-- By the first sighting, although the last one decides: an indexed last_seen_at would make every repeat a costlier update.
CREATE INDEX IF NOT EXISTS ix_inbox_sighted ON inbox_messages (first_seen_at) WHERE state = 'seen' AND topic IS NULL;
CREATE INDEX IF NOT EXISTS ix_inbox_dead ON inbox_messages (ended_at) WHERE state = 'dead';
CREATE INDEX IF NOT EXISTS ix_inbox_events_by_message ON inbox_events (source, message_id, created_at);
CREATE UNIQUE INDEX IF NOT EXISTS ux_inbox_events_one_per_content ON inbox_events (source, message_id, content_hash)
  WHERE event_type = 'CONTENT_DIFFERS';

-- How a message gets in -----------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION inbox_content_hash(p_topic text, p_payload_text text) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
RETURN sha256(convert_to(concat(
  octet_length(p_topic), ':', p_topic, ',',
  octet_length(p_payload_text), ':', p_payload_text, ','), 'UTF8'));
COMMENT ON FUNCTION inbox_content_hash(text, text) IS 'SHA-256 of what a message says: its topic and payload, each behind its length.';

-- Each message is new, or known with the same content, or known with another: then the first content stays, the answer
-- says so, and an event is kept. It is no error, because an error would take the event back with it.
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
  v_ordinals integer[] := '{}';
  v_states text[] := '{}';
  v_sightings bigint[] := '{}';
  v_created boolean[] := '{}';
  v_differs boolean[] := '{}';
BEGIN
  PERFORM check_inbox_messages(p_sources, p_message_ids, p_topics, p_payloads, p_not_before);
  v_now := clock_timestamp();
  -- In the order of their keys, so that two calls cannot deadlock.
  FOR v_given IN
    SELECT g.ordinal::integer AS ordinal, g.source, g.message_id, g.topic, g.payload, g.not_before
    FROM unnest(p_sources, p_message_ids, p_topics, p_payloads, p_not_before)
      WITH ORDINALITY AS g(source, message_id, topic, payload, not_before, ordinal)
    ORDER BY g.source COLLATE "C", g.message_id COLLATE "C", g.ordinal
  LOOP
    -- One microsecond apart, so that a batch is claimed in the order it was given.
    SELECT s.* INTO v_sighted
    FROM sight_inbox_message(v_given.source, v_given.message_id, v_given.topic, v_given.payload,
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
  FROM unnest(v_ordinals, v_states, v_sightings, v_created, v_differs) AS r(ordinal, state, sightings, created, content_differs)
  ORDER BY r.ordinal;
END
$$;
COMMENT ON FUNCTION enqueue_inbox_messages(text[], text[], text[], jsonb[], timestamptz[]) IS
  'Puts up to 1000 messages into the inbox, each once; rows come back in the order given.';

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
  'Puts one message into the inbox: a batch of one. The same message again changes nothing but its sightings.';

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
  -- Half a content would never equal the whole one that the same message is enqueued with, and the message would be lost.
  IF num_nonnulls(p_topic, p_payload) > 0 THEN
    IF NOT is_id(p_topic) THEN
      PERFORM refuse_argument('p_topic', 'beside a payload, 1 to 128 printable ASCII characters without spaces');
    END IF;
    IF v_defect IS NOT NULL THEN
      PERFORM refuse_argument('p_payload', v_defect);
    END IF;
    v_content_hash := inbox_content_hash(p_topic, p_payload::text);
  END IF;
  RETURN QUERY
  SELECT s.state, s.sightings, s.created, s.content_differs
  FROM sight_inbox_message(p_source, p_message_id, NULL, NULL, v_content_hash, NULL, clock_timestamp()) s;
END
$$;
COMMENT ON FUNCTION record_inbox_sighting(text, text, text, jsonb) IS
  'For deduplication alone: counts a sighting, and says what became of the message. A content is told whole, or not at all; only its hash is kept.';

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
      PERFORM refuse_argument(format('p_topic of item %s', v_ordinal), '1 to 128 printable ASCII characters without spaces');
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
  'Internal: raises 22023 for the first message that is not acceptable.';

-- The one place where a message is written down. `created` says that this call brought it in: as a sighting if no topic
-- is given, as work if one is. A message that was only sighted, and that nobody has begun, becomes work when it is
-- enqueued: who asks first whether a message is known, and then enqueues it, must not lose it.
CREATE OR REPLACE FUNCTION sight_inbox_message(
  p_source text, p_message_id text, p_topic text, p_payload jsonb, p_content_hash bytea, p_not_before timestamptz,
  p_now timestamptz
) RETURNS TABLE (state text, sightings bigint, created boolean, content_differs boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
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
    -- Not found: retention has removed it since the insert looked, and it is new after all.
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
      jsonb_build_object('kept_hash', encode(v_known.content_hash, 'hex'), 'refused_hash', encode(p_content_hash, 'hex'),
        'topic', p_topic, 'state', v_known.state), p_now)
    ON CONFLICT DO NOTHING;
  END IF;
  RETURN QUERY SELECT v_known.state, v_known.sightings + 1, v_becomes_work, v_differs;
END
$$;
COMMENT ON FUNCTION sight_inbox_message(text, text, text, jsonb, bytea, timestamptz, timestamptz) IS
  'Internal: brings a message in, or counts another sighting of it and compares contents.';

-- Wakes the workers. It only ever wakes: polling is what guarantees.
CREATE OR REPLACE FUNCTION wake_inbox_workers() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_enabled boolean;
BEGIN
  SELECT s.notify_enabled INTO v_enabled FROM symphony_settings s;
  -- A full notification queue would fail the COMMIT. And NOTIFY takes a cluster-wide lock at commit: while another writer
  -- is about to notify, this one need not, because who reads that notification too early polls.
  IF v_enabled AND pg_notification_queue_usage() < 0.5
    AND pg_try_advisory_xact_lock(1937337959, 'inbox_messages'::regclass::oid::integer)
  THEN
    NOTIFY inbox_ready, 'new_work';
  END IF;
END
$$;
COMMENT ON FUNCTION wake_inbox_workers() IS
  'Internal: NOTIFY inbox_ready, unless it is switched off, its queue is filling up, or another writer is about to.';

-- Marks: for those who use the inbox for deduplication alone ----------------------------------------------------------

CREATE OR REPLACE FUNCTION mark_inbox_processing(p_source text, p_message_id text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  PERFORM mark_inbox_message(p_source, p_message_id, 'processing', NULL);
END
$$;
COMMENT ON FUNCTION mark_inbox_processing(text, text) IS
  'A sighted message is being handled. Again after a crash, it counts another attempt. P7011 unknown, P7010 forbidden.';

CREATE OR REPLACE FUNCTION mark_inbox_processed(p_source text, p_message_id text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  PERFORM mark_inbox_message(p_source, p_message_id, 'done', NULL);
END
$$;
COMMENT ON FUNCTION mark_inbox_processed(text, text) IS
  'A message in process was handled, for good. P7011 unknown, P7010 forbidden.';

CREATE OR REPLACE FUNCTION mark_inbox_dead(p_source text, p_message_id text, p_error text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  IF NOT is_short_text(p_error, 2000) THEN
    PERFORM refuse_argument('p_error', 'text of 1 to 2000 characters');
  END IF;
  PERFORM mark_inbox_message(p_source, p_message_id, 'dead', p_error);
END
$$;
COMMENT ON FUNCTION mark_inbox_dead(text, text, text) IS
  'A message will not be handled until a person revives it. P7011 unknown, P7010 forbidden.';

CREATE OR REPLACE FUNCTION mark_inbox_message(p_source text, p_message_id text, p_state text, p_error text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
  v_known inbox_messages;
  v_now timestamptz;
BEGIN
  PERFORM check_inbox_key(p_source, p_message_id);
  v_known := lock_inbox_message(p_source, p_message_id);
  -- The same ending again changes nothing: the answer to the first call may have been lost.
  IF v_known.topic IS NULL AND v_known.state = p_state AND p_state <> 'processing' THEN
    RETURN;
  END IF;
  IF v_known.topic IS NOT NULL THEN
    RAISE EXCEPTION 'inbox message: it was enqueued, so its claims move it and no mark does'
      USING ERRCODE = 'P7010', DETAIL = json_build_object('from', v_known.state, 'to', p_state)::text,
        HINT = 'Claim it, and then ack, abandon or fail it. Marks are for messages known only for deduplication.';
  END IF;
  IF NOT (v_known.state = 'processing' OR (v_known.state = 'seen' AND p_state <> 'done')) THEN
    RAISE EXCEPTION 'inbox message: it is %, and cannot become %', v_known.state, p_state
      USING ERRCODE = 'P7010', DETAIL = json_build_object('from', v_known.state, 'to', p_state)::text,
        HINT = 'A message is seen, then processing, then done or dead. Done is final; a dead one is revived by a person.';
  END IF;
  v_now := clock_timestamp();
  UPDATE inbox_messages m
  SET state = p_state, last_error = COALESCE(p_error, m.last_error),
    attempt_count = m.attempt_count + CASE WHEN p_state = 'processing' THEN 1 ELSE 0 END,
    ended_at = CASE WHEN p_state <> 'processing' THEN v_now END
  WHERE m.source = p_source AND m.message_id = p_message_id;
  IF p_state = 'dead' THEN
    INSERT INTO inbox_events (event_id, source, message_id, event_type, actor, detail, created_at)
    VALUES (uuid_v7(), p_source, p_message_id, 'DIED', session_user,
      jsonb_build_object('attempts', v_known.attempt_count, 'error', p_error), v_now);
  END IF;
END
$$;
COMMENT ON FUNCTION mark_inbox_message(text, text, text, text) IS
  'Internal: moves a message that is known only for deduplication along the edges that exist, or raises P7010.';

CREATE OR REPLACE FUNCTION lock_inbox_message(p_source text, p_message_id text) RETURNS inbox_messages
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
  v_known inbox_messages;
BEGIN
  SELECT m.* INTO v_known FROM inbox_messages m
  WHERE m.source = p_source AND m.message_id = p_message_id FOR UPDATE;
  IF NOT FOUND THEN
    -- A frozen snapshot does not know a message that is younger than it is.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
      RAISE EXCEPTION 'the inbox message is unknown to the snapshot of this transaction'
        USING ERRCODE = 'serialization_failure', HINT = 'Retry the transaction, or run it under READ COMMITTED.';
    END IF;
    RAISE EXCEPTION 'there is no such inbox message'
      USING ERRCODE = 'P7011', HINT = 'It never came in under this source and id, or retention has removed it.';
  END IF;
  RETURN v_known;
END
$$;
COMMENT ON FUNCTION lock_inbox_message(text, text) IS 'Internal: locks a message and returns it, or raises P7011.';

-- Guards --------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE TRIGGER inbox_events_is_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON inbox_events
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE inbox_events ENABLE ALWAYS TRIGGER inbox_events_is_append_only;

CREATE OR REPLACE TRIGGER inbox_messages_is_not_truncated
  BEFORE TRUNCATE ON inbox_messages
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE inbox_messages ENABLE ALWAYS TRIGGER inbox_messages_is_not_truncated;

-- Whoever writes: what is done stays done, and what somebody has begun or has still to begin is not removed.
CREATE OR REPLACE TRIGGER inbox_messages_done_is_final
  BEFORE UPDATE ON inbox_messages
  FOR EACH ROW WHEN (OLD.state = 'done' AND NEW.state <> 'done') EXECUTE FUNCTION refuse_mutation();
ALTER TABLE inbox_messages ENABLE ALWAYS TRIGGER inbox_messages_done_is_final;

DROP TRIGGER IF EXISTS inbox_messages_only_done_is_removed ON inbox_messages;
CREATE OR REPLACE TRIGGER inbox_messages_unfinished_is_not_removed
  BEFORE DELETE ON inbox_messages
  FOR EACH ROW WHEN (OLD.state <> 'done' AND (OLD.state <> 'seen' OR OLD.topic IS NOT NULL)) EXECUTE FUNCTION refuse_mutation();
ALTER TABLE inbox_messages ENABLE ALWAYS TRIGGER inbox_messages_unfinished_is_not_removed;
