-- Enqueue: from an instruction to a numbered item in the queue, once and for ever.

CREATE OR REPLACE FUNCTION bump_participant_outbox_seq(p_participant_id text) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_sequence_id bigint;
BEGIN
  IF NOT is_id(p_participant_id) THEN
    PERFORM refuse_argument('p_participant_id', '1 to 128 printable ASCII characters without spaces');
  END IF;
  INSERT INTO participant_outbox_sequences AS s (participant_id, next_sequence_id)
  VALUES (p_participant_id, 2)
  ON CONFLICT (participant_id) DO UPDATE SET next_sequence_id = s.next_sequence_id + 1
  RETURNING s.next_sequence_id - 1 INTO v_sequence_id;
  RETURN v_sequence_id;
END
$$;
COMMENT ON FUNCTION bump_participant_outbox_seq(text) IS
  'Takes the next number of a participant''s stream. Its row lock lasts until the caller''s transaction ends.';

-- The one way in, for many items at once. Each item is new, or the same as before, or a conflict (P7004, which refuses
-- the whole call). Locks are taken in a fixed order, participants by name and then keys by name, so that two calls
-- cannot deadlock. Identities decide: their unique key is what refuses a second item, and only for a new identity is a
-- number taken.
DROP FUNCTION IF EXISTS enqueue_payment_outbox_batch(text[], text[], text[], text[], jsonb[], timestamptz[], boolean[]);
CREATE OR REPLACE FUNCTION enqueue_payment_outbox_batch(
  p_instruction_ids text[], p_participant_ids text[], p_idempotency_keys text[], p_rail_types text[],
  p_payloads jsonb[], p_not_before timestamptz[] DEFAULT NULL, p_ordered boolean[] DEFAULT NULL,
  p_trace_contexts text[] DEFAULT NULL
) RETURNS TABLE (ordinal integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, created boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
  PERFORM check_outbox_items(
    p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads, p_not_before, p_ordered,
    p_trace_contexts);
  RETURN QUERY
  SELECT * FROM admit_outbox_items(
    p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads, p_not_before, p_ordered, NULL,
    p_trace_contexts);
END
$$;
COMMENT ON FUNCTION enqueue_payment_outbox_batch(text[], text[], text[], text[], jsonb[], timestamptz[], boolean[], text[]) IS
  'Enqueues up to 1000 items in one call; rows come back in the order given. A trace context that is none is dropped.';

DROP FUNCTION IF EXISTS enqueue_payment_outbox(text, text, text, text, jsonb, timestamptz, boolean);
CREATE OR REPLACE FUNCTION enqueue_payment_outbox(
  p_instruction_id text, p_participant_id text, p_idempotency_key text, p_rail_type text, p_payload jsonb,
  p_not_before timestamptz DEFAULT NULL, p_ordered boolean DEFAULT false, p_trace_context text DEFAULT NULL
) RETURNS TABLE (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, created boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT e.outbox_id, e.sequence_id, e.created_at, e.state, e.created
  FROM enqueue_payment_outbox_batch(
    ARRAY[p_instruction_id], ARRAY[p_participant_id], ARRAY[p_idempotency_key], ARRAY[p_rail_type],
    ARRAY[p_payload], ARRAY[p_not_before], ARRAY[p_ordered], ARRAY[p_trace_context]) e;
END
$$;
COMMENT ON FUNCTION enqueue_payment_outbox(text, text, text, text, jsonb, timestamptz, boolean, text) IS
  'Enqueues one item: a batch of one. The same key and content again returns the first item, also after it has ended.';

DROP FUNCTION IF EXISTS check_outbox_items(text[], text[], text[], text[], jsonb[], timestamptz[], boolean[]);
CREATE OR REPLACE FUNCTION check_outbox_items(
  p_instruction_ids text[], p_participant_ids text[], p_idempotency_keys text[], p_rail_types text[],
  p_payloads jsonb[], p_not_before timestamptz[], p_ordered boolean[], p_trace_contexts text[]
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_count integer := cardinality(p_instruction_ids);
  v_list CONSTANT text := format('[1:%s]', v_count);
  v_misshapen text;
  v_bad record;
  v_id_expected CONSTANT text := '1 to 128 printable ASCII characters without spaces';
BEGIN
  IF v_count IS NULL OR v_count NOT BETWEEN 1 AND 1000 THEN
    PERFORM refuse_argument('p_instruction_ids', 'an array of 1 to 1000 items');
  END IF;
  v_misshapen := CASE
    WHEN array_dims(p_instruction_ids) IS DISTINCT FROM v_list THEN 'p_instruction_ids'
    WHEN array_dims(p_participant_ids) IS DISTINCT FROM v_list THEN 'p_participant_ids'
    WHEN array_dims(p_idempotency_keys) IS DISTINCT FROM v_list THEN 'p_idempotency_keys'
    WHEN array_dims(p_rail_types) IS DISTINCT FROM v_list THEN 'p_rail_types'
    WHEN array_dims(p_payloads) IS DISTINCT FROM v_list THEN 'p_payloads'
    WHEN p_not_before IS NOT NULL AND array_dims(p_not_before) IS DISTINCT FROM v_list THEN 'p_not_before'
    WHEN p_ordered IS NOT NULL AND array_dims(p_ordered) IS DISTINCT FROM v_list THEN 'p_ordered'
    -- The list is the caller's own; what stands in it is not, and is judged by nobody here.
    WHEN p_trace_contexts IS NOT NULL AND array_dims(p_trace_contexts) IS DISTINCT FROM v_list THEN 'p_trace_contexts'
  END;
  IF v_misshapen IS NOT NULL THEN
    PERFORM refuse_argument(v_misshapen, 'a plain list, as long as p_instruction_ids');
  END IF;
  -- One pass over all items: an array of texts is read from its beginning for each element that is asked for by number.
  SELECT g.ordinal,
    CASE
      WHEN NOT is_id(g.instruction_id) THEN ARRAY['p_instruction_id', v_id_expected]
      WHEN NOT is_id(g.participant_id) THEN ARRAY['p_participant_id', v_id_expected]
      WHEN NOT is_id(g.idempotency_key) THEN ARRAY['p_idempotency_key', v_id_expected]
      WHEN g.idempotency_key ~ '~redrive~[0-9]+$' THEN ARRAY['p_idempotency_key',
        'a key that does not end in ~redrive~ and a number: those are made by redrive alone']
      WHEN NOT is_id(g.rail_type) THEN ARRAY['p_rail_type', v_id_expected]
      WHEN payload_defect(g.payload) IS NOT NULL THEN ARRAY['p_payload', payload_defect(g.payload)]
      -- Far enough for any schedule, near enough that a unit mistaken for another is refused. Infinity is neither.
      WHEN g.not_before NOT BETWEEN now() - interval '100 years' AND now() + interval '100 years'
        THEN ARRAY['p_not_before', 'a time within 100 years of now']
      WHEN p_ordered IS NOT NULL AND g.ordered IS NULL THEN ARRAY['p_ordered', 'true or false']
    END AS refusal
  INTO v_bad
  FROM unnest(p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads, p_not_before, p_ordered)
    WITH ORDINALITY
    AS g(instruction_id, participant_id, idempotency_key, rail_type, payload, not_before, ordered, ordinal)
  WHERE NOT (is_id(g.instruction_id) AND is_id(g.participant_id) AND is_id(g.idempotency_key)
    AND g.idempotency_key !~ '~redrive~[0-9]+$' AND is_id(g.rail_type) AND payload_defect(g.payload) IS NULL
    AND COALESCE(g.not_before BETWEEN now() - interval '100 years' AND now() + interval '100 years', true)
    AND (p_ordered IS NULL OR g.ordered IS NOT NULL))
  ORDER BY g.ordinal LIMIT 1;
  IF FOUND THEN
    PERFORM refuse_argument(format('%s of item %s', v_bad.refusal[1], v_bad.ordinal), v_bad.refusal[2]);
  END IF;
END
$$;
COMMENT ON FUNCTION check_outbox_items(text[], text[], text[], text[], jsonb[], timestamptz[], boolean[], text[]) IS
  'Internal: raises 22023 for the first item that is not acceptable.';

-- Admits checked items. Set-based first; if another transaction took one of the keys in the instant between the look
-- and the insert, everything is undone and done again, and then the key is seen.
DROP FUNCTION IF EXISTS admit_outbox_items(text[], text[], text[], text[], jsonb[], timestamptz[], boolean[], uuid);
CREATE OR REPLACE FUNCTION admit_outbox_items(
  p_instruction_ids text[], p_participant_ids text[], p_idempotency_keys text[], p_rail_types text[],
  p_payloads jsonb[], p_not_before timestamptz[], p_ordered boolean[], p_redrive_of uuid, p_trace_contexts text[]
) RETURNS TABLE (ordinal integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, created boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_material = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
  v_content_hashes bytea[];
  v_fresh_ordinals integer[];
  v_outbox_ids uuid[];
  v_sequence_ids bigint[];
  v_created_at timestamptz[];
  v_conflict integer;
  v_full_trail boolean;
BEGIN
  v_content_hashes := ARRAY(
    SELECT outbox_content_hash(g.participant_id, g.rail_type, g.payload::text)
    FROM unnest(p_participant_ids, p_rail_types, p_payloads) WITH ORDINALITY AS g(participant_id, rail_type, payload, ordinal)
    ORDER BY g.ordinal);
  -- Each round that is undone was undone by a key that is now visible, so there are never more rounds than items.
  FOR v_round IN 0 .. cardinality(p_instruction_ids) LOOP
    -- Which keys are new, and the first item to bear each of them.
    v_fresh_ordinals := ARRAY(
      SELECT min(g.ordinal)
      FROM unnest(p_instruction_ids, p_idempotency_keys) WITH ORDINALITY AS g(instruction_id, idempotency_key, ordinal)
      WHERE NOT EXISTS (
        SELECT 1 FROM payment_outbox_identities i
        WHERE i.instruction_id = g.instruction_id AND i.idempotency_key = g.idempotency_key)
      GROUP BY g.instruction_id, g.idempotency_key);
    EXIT WHEN cardinality(v_fresh_ordinals) = 0;
    BEGIN
      SELECT n.outbox_ids, n.sequence_ids, n.created_at INTO v_outbox_ids, v_sequence_ids, v_created_at
      FROM insert_outbox_items(v_fresh_ordinals, v_content_hashes, p_instruction_ids, p_participant_ids,
        p_idempotency_keys, p_rail_types, p_payloads, p_not_before, p_ordered, p_redrive_of, p_trace_contexts) n;
      EXIT;
    EXCEPTION WHEN unique_violation THEN
      -- After as many rounds as items it was no key: something else, such as a number that a careless restore hands out
      -- again, refuses the item, and the caller must hear of it.
      IF v_round = cardinality(p_instruction_ids) THEN
        RAISE;
      END IF;
      -- Under READ COMMITTED the next look sees the key that won. Under a stricter level it never will.
      IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'another transaction enqueued the same instruction and key at the same time'
          USING ERRCODE = 'serialization_failure', HINT = 'Retry the transaction, or run it under READ COMMITTED.';
      END IF;
      v_outbox_ids := NULL;
    END;
  END LOOP;

  SELECT s.full_trail INTO v_full_trail FROM symphony_settings s;
  IF v_full_trail AND v_outbox_ids IS NOT NULL THEN
    PERFORM append_outbox_events('ENQUEUED', session_user::text, array_agg(p.outbox_id),
      array_agg(jsonb_build_object('next_attempt_at', epoch_micros(p.next_attempt_at), 'blocked', p.blocked)))
    FROM payment_outbox_pending p WHERE p.outbox_id = ANY (v_outbox_ids);
  END IF;

  -- Nearly always all of them are new: nothing can conflict, and everything is known.
  IF cardinality(v_outbox_ids) = cardinality(p_instruction_ids) THEN
    RETURN QUERY
    SELECT n.ordinal::integer, n.outbox_id, n.sequence_id, n.created_at, 'PENDING', true
    FROM unnest(v_outbox_ids, v_sequence_ids, v_created_at) WITH ORDINALITY AS n(outbox_id, sequence_id, created_at, ordinal);
    RETURN;
  END IF;

  SELECT min(g.ordinal) INTO v_conflict
  FROM unnest(p_instruction_ids, p_idempotency_keys, v_content_hashes)
    WITH ORDINALITY AS g(instruction_id, idempotency_key, content_hash, ordinal)
  JOIN payment_outbox_identities i
    ON i.instruction_id = g.instruction_id AND i.idempotency_key = g.idempotency_key
  WHERE i.content_hash <> g.content_hash;
  IF v_conflict IS NOT NULL THEN
    RAISE EXCEPTION 'item %: this instruction and key already stand for another participant, rail or payload', v_conflict
      USING ERRCODE = 'P7004', DETAIL = json_build_object('ordinal', v_conflict)::text,
        HINT = 'Use a new idempotency key for a new payment; repeat the first content to read the first answer.';
  END IF;

  RETURN QUERY
  SELECT g.ordinal::integer, i.outbox_id, i.sequence_id, i.created_at, COALESCE(a.state::text, 'PENDING'),
    v_outbox_ids IS NOT NULL AND i.outbox_id = ANY (v_outbox_ids) AND g.ordinal = ANY (v_fresh_ordinals)
  FROM unnest(p_instruction_ids, p_idempotency_keys) WITH ORDINALITY AS g(instruction_id, idempotency_key, ordinal)
  JOIN payment_outbox_identities i
    ON i.instruction_id = g.instruction_id AND i.idempotency_key = g.idempotency_key
  LEFT JOIN payment_outbox_attempts a ON a.outbox_id = i.outbox_id AND a.state IN ('DISPATCHED', 'FAILED')
  ORDER BY g.ordinal;
END
$$;
COMMENT ON FUNCTION admit_outbox_items(text[], text[], text[], text[], jsonb[], timestamptz[], boolean[], uuid, text[]) IS
  'Internal: inserts what is new, reports what is known, refuses what conflicts.';

DROP FUNCTION IF EXISTS
  insert_outbox_items(integer[], bytea[], text[], text[], text[], text[], jsonb[], timestamptz[], boolean[], uuid);
DROP FUNCTION IF EXISTS
  insert_outbox_items(integer[], bytea[], text[], text[], text[], text[], jsonb[], timestamptz[], boolean[], uuid, text[]);
CREATE OR REPLACE FUNCTION insert_outbox_items(
  p_ordinals integer[], p_content_hashes bytea[], p_instruction_ids text[], p_participant_ids text[],
  p_idempotency_keys text[], p_rail_types text[], p_payloads jsonb[], p_not_before timestamptz[], p_ordered boolean[],
  p_redrive_of uuid, p_trace_contexts text[]
) RETURNS TABLE (outbox_ids uuid[], sequence_ids bigint[], created_at timestamptz[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_material = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
  v_all CONSTANT boolean := cardinality(p_ordinals) = cardinality(p_instruction_ids);
  v_participants CONSTANT text[] := ARRAY(
    SELECT DISTINCT g.participant_id COLLATE "C"
    FROM unnest(p_participant_ids) WITH ORDINALITY AS g(participant_id, ordinal)
    WHERE v_all OR g.ordinal = ANY (p_ordinals)
    ORDER BY 1);
  v_now timestamptz;
  v_gates_exist boolean;
BEGIN
  -- The participants' rows are locked before a number is read, in the order of their names.
  INSERT INTO participant_outbox_sequences (participant_id, next_sequence_id)
  SELECT g.participant_id, 1 FROM unnest(v_participants) AS g(participant_id)
  ON CONFLICT DO NOTHING;
  PERFORM 1 FROM unnest(v_participants) AS g(participant_id)
  CROSS JOIN LATERAL (
    SELECT 1 FROM participant_outbox_sequences s WHERE s.participant_id = g.participant_id FOR UPDATE
  ) locked;
  v_now := clock_timestamp();

  v_gates_exist := EXISTS (SELECT 1 FROM outbox_pauses z WHERE z.kind IN ('participant', 'stream'));

  RETURN QUERY
  WITH numbered AS MATERIALIZED (
    SELECT g.ordinal, uuid_v7() AS outbox_id, g.instruction_id, g.idempotency_key, g.participant_id, g.rail_type, g.payload,
      g.content_hash, trace_context_or_null(g.trace_context) AS trace_context, COALESCE(g.ordered, false) AS ordered, COALESCE(g.not_before, now()) AS next_attempt_at,
      -- One microsecond apart, so that a batch is claimed in the order it was given.
      v_now + g.ordinal * interval '1 microsecond' AS created_at,
      s.next_sequence_id - 1 + row_number() OVER stream AS sequence_id,
      COALESCE(bool_or(g.ordered) OVER (stream ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), false) AS follows_ordered
    FROM unnest(p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads, p_not_before,
        p_ordered, p_content_hashes, p_trace_contexts) WITH ORDINALITY
      AS g(instruction_id, participant_id, idempotency_key, rail_type, payload, not_before, ordered, content_hash,
        trace_context, ordinal)
    JOIN participant_outbox_sequences s ON s.participant_id = g.participant_id
    WHERE v_all OR g.ordinal = ANY (p_ordinals)
    WINDOW stream AS (PARTITION BY g.participant_id ORDER BY g.ordinal)
  ), fresh AS MATERIALIZED (
    SELECT n.*,
      outbox_identity_hash(n.outbox_id::text, n.instruction_id, n.idempotency_key, n.participant_id,
        n.sequence_id::text, n.rail_type, n.ordered::text, p_redrive_of::text, encode(n.content_hash, 'hex'),
        epoch_micros(n.created_at)::text) AS row_hash,
      (n.ordered AND (n.follows_ordered OR EXISTS (
          SELECT 1 FROM payment_outbox_pending p WHERE p.participant_id = n.participant_id AND p.ordered)))
        OR (v_gates_exist AND EXISTS (
          SELECT 1 FROM outbox_pauses z
          WHERE z.name = n.participant_id AND (z.kind = 'participant' OR (z.kind = 'stream' AND n.ordered)))) AS blocked
    FROM numbered n
  ), identified AS (
    INSERT INTO payment_outbox_identities
      (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, rail_type, ordered, redrive_of,
        content_hash, created_at, row_hash, traceparent)
    SELECT f.outbox_id, f.instruction_id, f.idempotency_key, f.participant_id, f.sequence_id, f.rail_type, f.ordered,
      p_redrive_of, f.content_hash, f.created_at, f.row_hash, left(f.trace_context, 55)
    FROM fresh f
    ORDER BY f.instruction_id COLLATE "C", f.idempotency_key COLLATE "C"
  ), bumped AS (
    UPDATE participant_outbox_sequences s SET next_sequence_id = taken.last + 1
    FROM (SELECT f.participant_id, max(f.sequence_id) AS last FROM fresh f GROUP BY f.participant_id) taken
    WHERE s.participant_id = taken.participant_id
  ), queued AS (
    INSERT INTO payment_outbox_pending
      (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, next_attempt_at,
        created_at, ordered, blocked, block_unverified, identity_hash, trace_context)
    SELECT f.outbox_id, f.instruction_id, f.participant_id, f.sequence_id, f.idempotency_key, f.rail_type, f.payload,
      f.next_attempt_at, f.created_at, f.ordered, f.blocked, f.blocked, f.row_hash, f.trace_context
    FROM fresh f
    -- Its keys are unique too, and written in the same order: which of the two inserts runs first is the planner's choice.
    ORDER BY f.instruction_id COLLATE "C", f.idempotency_key COLLATE "C"
  )
  SELECT array_agg(f.outbox_id), array_agg(f.sequence_id), array_agg(f.created_at)
  FROM (SELECT f.outbox_id, f.sequence_id, f.created_at FROM fresh f ORDER BY f.ordinal) f;
END
$$;
COMMENT ON FUNCTION insert_outbox_items(integer[], bytea[], text[], text[], text[], text[], jsonb[], timestamptz[], boolean[], uuid, text[]) IS
  'Internal: writes identities, takes their numbers and queues them, for the given ordinals.';

-- Wakes the workers. It only ever wakes: polling is what guarantees.
CREATE OR REPLACE FUNCTION notify_outbox_pending() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT
AS $$
DECLARE
  v_enabled boolean;
BEGIN
  IF NOT EXISTS (SELECT 1 FROM enqueued) THEN
    RETURN NULL;
  END IF;
  SELECT s.notify_enabled INTO v_enabled FROM symphony_settings s;
  -- A full notification queue fails the COMMIT, and with it the payment.
  IF NOT v_enabled OR pg_notification_queue_usage() >= 0.5 THEN
    RETURN NULL;
  END IF;
  -- NOTIFY takes a cluster-wide lock at commit. While another writer is about to notify, this one need not: who reads
  -- that notification before this commit finds this row at the next poll. An attacker who holds this lock gains that
  -- delay and nothing else.
  IF pg_try_advisory_xact_lock(1937337959, TG_RELID::integer) THEN
    NOTIFY outbox_pending, 'new_work';
  END IF;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION notify_outbox_pending() IS 'Trigger: NOTIFY outbox_pending at most once a statement, and never for an empty one.';

CREATE OR REPLACE TRIGGER payment_outbox_pending_notifies
  AFTER INSERT ON payment_outbox_pending
  REFERENCING NEW TABLE AS enqueued
  FOR EACH STATEMENT EXECUTE FUNCTION notify_outbox_pending();
