-- Enqueue: stores an instruction as a numbered item, exactly once.

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
  'Takes the next sequence number of a participant. Its row lock lasts until the caller''s transaction ends.';

-- Checks the key scope of an enqueue. A key scope names a caller of a gateway, and no other login has callers.
CREATE OR REPLACE FUNCTION require_key_scope(p_key_scope text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  -- 500 characters of 4 bytes and a key fit into an index entry, which PostgreSQL bounds at 2704 bytes.
  IF NOT is_short_text(p_key_scope, 500) THEN
    PERFORM refuse_argument('p_key_scope', 'text of 1 to 500 characters without control characters');
  END IF;
  IF NOT is_actor_gateway() THEN
    RAISE EXCEPTION 'a key scope names a caller of an HTTP gateway; the login % is not a gateway', session_user
      USING ERRCODE = 'insufficient_privilege',
        HINT = 'Leave p_key_scope out, or make the login a gateway: symphony deploy --create-login NAME=api';
  END IF;
END
$$;
COMMENT ON FUNCTION require_key_scope(text) IS
  'Internal: raises 22023 for an invalid key scope, 42501 for a login that is no gateway.';

-- An item is new, or known with the same content, or a conflict that refuses the whole call (P7004, P7014, P7017).
-- Locks are taken in a fixed order, so that two calls cannot deadlock: replaced payments by id, participants by name,
-- idempotency keys by name.
-- Unique indexes of the identities refuse a second item. Only a new identity takes a sequence number.
CREATE OR REPLACE FUNCTION enqueue_payment_outbox_batch(
  p_instruction_ids text[], p_participant_ids text[], p_idempotency_keys text[], p_rail_types text[],
  p_payloads jsonb[], p_not_before timestamptz[] DEFAULT NULL, p_ordered boolean[] DEFAULT NULL,
  p_trace_contexts text[] DEFAULT NULL, p_is_message boolean DEFAULT false, p_key_scope text DEFAULT NULL,
  p_outcome_topic text[] DEFAULT NULL, p_replaces uuid[] DEFAULT NULL
) RETURNS TABLE (ordinal integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
  created boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
  PERFORM check_outbox_items(
    p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads, p_not_before, p_ordered,
    p_trace_contexts, p_is_message, p_key_scope, p_outcome_topic, p_replaces);
  RETURN QUERY
  SELECT * FROM admit_outbox_items(
    p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads, p_not_before, p_ordered, NULL,
    p_trace_contexts, p_is_message, p_key_scope, NULL, p_outcome_topic, p_replaces);
END
$$;
COMMENT ON FUNCTION enqueue_payment_outbox_batch(
  text[], text[], text[], text[], jsonb[], timestamptz[], boolean[], text[], boolean, text, text[], uuid[]) IS
  'Enqueues up to 1000 payments or messages in one call; returns rows in the order given. Within p_key_scope a key may '
  'be used for one instruction only (P7014). The topic p_outcome_topic receives the outcomes of the payment; '
  'a replacement without one gets the topic of the replaced payment.';

CREATE OR REPLACE FUNCTION enqueue_payment_outbox(
  p_instruction_id text, p_participant_id text, p_idempotency_key text, p_rail_type text, p_payload jsonb,
  p_not_before timestamptz DEFAULT NULL, p_ordered boolean DEFAULT false, p_trace_context text DEFAULT NULL,
  p_is_message boolean DEFAULT false, p_key_scope text DEFAULT NULL, p_outcome_topic text DEFAULT NULL,
  p_replaces uuid DEFAULT NULL
) RETURNS TABLE (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, created boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  -- Builds each list once: two functions read it, and a list built in a call would be copied for each of them.
  v_instruction_ids CONSTANT text[] := ARRAY[p_instruction_id];
  v_participant_ids CONSTANT text[] := ARRAY[p_participant_id];
  v_idempotency_keys CONSTANT text[] := ARRAY[p_idempotency_key];
  v_rail_types CONSTANT text[] := ARRAY[p_rail_type];
  v_payloads CONSTANT jsonb[] := ARRAY[p_payload];
  v_not_before CONSTANT timestamptz[] := CASE WHEN p_not_before IS NOT NULL THEN ARRAY[p_not_before] END;
  v_ordered CONSTANT boolean[] := ARRAY[p_ordered];
  v_trace_contexts CONSTANT text[] := CASE WHEN p_trace_context IS NOT NULL THEN ARRAY[p_trace_context] END;
  v_outcome_topic CONSTANT text[] := CASE WHEN p_outcome_topic IS NOT NULL THEN ARRAY[p_outcome_topic] END;
  v_replaces CONSTANT uuid[] := CASE WHEN p_replaces IS NOT NULL THEN ARRAY[p_replaces] END;
BEGIN
  PERFORM check_outbox_items(
    v_instruction_ids, v_participant_ids, v_idempotency_keys, v_rail_types, v_payloads, v_not_before, v_ordered,
    v_trace_contexts, p_is_message, p_key_scope, v_outcome_topic, v_replaces);
  RETURN QUERY
  SELECT e.outbox_id, e.sequence_id, e.created_at, e.state, e.created
  FROM admit_outbox_items(
    v_instruction_ids, v_participant_ids, v_idempotency_keys, v_rail_types, v_payloads, v_not_before, v_ordered, NULL,
    v_trace_contexts, p_is_message, p_key_scope, NULL, v_outcome_topic, v_replaces) e;
END
$$;
COMMENT ON FUNCTION enqueue_payment_outbox(
  text, text, text, text, jsonb, timestamptz, boolean, text, boolean, text, text, uuid) IS
  'Enqueues one payment or message: a batch of one. A repeat with the same key and content returns the first item, '
  'also when it is terminal.';

CREATE OR REPLACE FUNCTION check_outbox_items(
  p_instruction_ids text[], p_participant_ids text[], p_idempotency_keys text[], p_rail_types text[],
  p_payloads jsonb[], p_not_before timestamptz[], p_ordered boolean[], p_trace_contexts text[], p_is_message boolean,
  p_key_scope text, p_outcome_topic text[], p_replaces uuid[]
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_count integer := cardinality(p_instruction_ids);
  v_list CONSTANT text := format('[1:%s]', v_count);
  v_dims text[];
  v_all_within_bounds boolean;
  v_all_ids text;
  v_all_payloads text;
  v_bad record;
  v_id_expected CONSTANT text := '1 to 128 printable ASCII characters without spaces';
  v_free_id_expected CONSTANT text := 'an id that does not start with ~outcomes~: only outcome messages have such ids';
BEGIN
  -- 1. Check the key scope and the shape of the lists.
  IF p_key_scope IS NOT NULL THEN
    PERFORM require_key_scope(p_key_scope);
  END IF;
  IF v_count IS NULL OR v_count NOT BETWEEN 1 AND 1000 THEN
    PERFORM refuse_argument('p_instruction_ids', 'an array of 1 to 1000 items');
  END IF;
  v_dims := ARRAY[
    array_dims(p_instruction_ids), array_dims(p_participant_ids), array_dims(p_idempotency_keys),
    array_dims(p_rail_types), array_dims(p_payloads),
    CASE WHEN p_not_before IS NULL THEN v_list ELSE array_dims(p_not_before) END,
    CASE WHEN p_ordered IS NULL THEN v_list ELSE array_dims(p_ordered) END,
    -- Only the length of this list is checked: invalid trace contexts become null.
    CASE WHEN p_trace_contexts IS NULL THEN v_list ELSE array_dims(p_trace_contexts) END,
    CASE WHEN p_outcome_topic IS NULL THEN v_list ELSE array_dims(p_outcome_topic) END,
    CASE WHEN p_replaces IS NULL THEN v_list ELSE array_dims(p_replaces) END];
  IF (v_list = ALL (v_dims)) IS NOT TRUE THEN
    SELECT g.name INTO v_bad
    FROM unnest('{p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads, p_not_before,
      p_ordered, p_trace_contexts, p_outcome_topic, p_replaces}'::text[], v_dims) AS g(name, dims)
    WHERE g.dims IS DISTINCT FROM v_list LIMIT 1;
    PERFORM refuse_argument(v_bad.name, 'a plain list, as long as p_instruction_ids');
  END IF;
  IF p_is_message IS NULL THEN
    PERFORM refuse_argument('p_is_message', 'true or false');
  END IF;
  IF p_is_message THEN
    IF num_nonnulls(VARIADIC p_replaces) > 0 THEN
      PERFORM refuse_argument('p_replaces', 'null for a message: only a payment replaces a payment');
    END IF;
    IF num_nonnulls(VARIADIC p_outcome_topic) > 0 THEN
      PERFORM refuse_argument('p_outcome_topic', 'null for a message: only payments have outcomes');
    END IF;
  ELSIF p_outcome_topic IS NOT NULL THEN
    SELECT g.ordinal INTO v_bad FROM unnest(p_outcome_topic) WITH ORDINALITY AS g(topic, ordinal)
    WHERE g.topic IS NOT NULL AND NOT is_id(g.topic) ORDER BY g.ordinal LIMIT 1;
    IF FOUND THEN
      PERFORM refuse_argument(format('p_outcome_topic of item %s', v_bad.ordinal), v_id_expected);
    END IF;
  END IF;
  -- 2. Check the joined text of all items, because starting a regular expression costs more than matching a longer
  -- text. Joining hides no illegal character and joins no two numbers, because each payload is an object.
  SELECT bool_and(COALESCE(g.is_within_bounds, false)), string_agg(g.ids, ''), string_agg(g.payload_text, '')
  INTO v_all_within_bounds, v_all_ids, v_all_payloads
  FROM (
    SELECT concat(g.instruction_id, g.participant_id, g.idempotency_key, g.rail_type) AS ids,
      -- Leaves out a long text: one kilobyte of stored numbers may be 8 MB as text.
      CASE WHEN octet_length(g.payload_text) <= 4096 THEN g.payload_text END AS payload_text,
      octet_length(g.instruction_id) BETWEEN 1 AND 128 AND octet_length(g.participant_id) BETWEEN 1 AND 128
        AND octet_length(g.idempotency_key) BETWEEN 1 AND 128 AND octet_length(g.rail_type) BETWEEN 1 AND 128
        AND strpos(g.idempotency_key, '~redrive~') = 0
        AND octet_length(g.payload_text) <= 4096 AND count_open_brackets(g.payload_text) <= 32
        AND COALESCE(g.not_before BETWEEN now() - interval '100 years' AND now() + interval '100 years', true)
        AND (p_ordered IS NULL OR g.ordered IS NOT NULL) AS is_within_bounds
    FROM (
      SELECT g.*, small_payload_text(g.payload) AS payload_text
      FROM unnest(p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads, p_not_before,
        p_ordered)
        AS g(instruction_id, participant_id, idempotency_key, rail_type, payload, not_before, ordered)
      OFFSET 0
    ) g
    OFFSET 0
  ) g;
  IF v_all_within_bounds AND v_all_ids COLLATE "C" !~ '[^!-~]' AND strpos(v_all_ids, '~outcomes~') = 0
    AND NOT shows_long_number(v_all_payloads)
  THEN
    RETURN;
  END IF;

  -- 3. Find the first invalid item with unnest(): each subscript would read a text array from its beginning.
  SELECT judged.ordinal, judged.refusal INTO v_bad
  FROM (
    SELECT g.ordinal,
      CASE
        WHEN NOT is_id(g.instruction_id) THEN ARRAY['p_instruction_id', v_id_expected]
        WHEN starts_with(g.instruction_id, '~outcomes~') THEN ARRAY['p_instruction_id', v_free_id_expected]
        WHEN NOT is_id(g.participant_id) THEN ARRAY['p_participant_id', v_id_expected]
        WHEN starts_with(g.participant_id, '~outcomes~') THEN ARRAY['p_participant_id', v_free_id_expected]
        WHEN NOT is_id(g.idempotency_key) THEN ARRAY['p_idempotency_key', v_id_expected]
        WHEN strpos(g.idempotency_key, '~redrive~') > 0 AND g.idempotency_key ~ '~redrive~[0-9]+$'
          THEN ARRAY['p_idempotency_key',
          'a key that does not end in ~redrive~ and a number: only a redrive creates such keys']
        WHEN NOT is_id(g.rail_type) THEN ARRAY['p_rail_type', v_id_expected]
        WHEN g.payload_defect IS NOT NULL THEN ARRAY['p_payload', g.payload_defect]
        -- Wide enough for any schedule, narrow enough to refuse milliseconds given as seconds, and infinity.
        WHEN g.not_before NOT BETWEEN now() - interval '100 years' AND now() + interval '100 years'
          THEN ARRAY['p_not_before', 'a time within 100 years of now']
        WHEN p_ordered IS NOT NULL AND g.ordered IS NULL THEN ARRAY['p_ordered', 'true or false']
      END AS refusal
    FROM (
      SELECT g.*, payload_defect(g.payload) AS payload_defect
      FROM unnest(p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads, p_not_before,
        p_ordered)
        WITH ORDINALITY
        AS g(instruction_id, participant_id, idempotency_key, rail_type, payload, not_before, ordered, ordinal)
      OFFSET 0
    ) g
    OFFSET 0
  ) judged
  WHERE judged.refusal IS NOT NULL
  ORDER BY judged.ordinal LIMIT 1;
  IF FOUND THEN
    PERFORM refuse_argument(format('%s of item %s', v_bad.refusal[1], v_bad.ordinal), v_bad.refusal[2]);
  END IF;
END
$$;
COMMENT ON FUNCTION check_outbox_items(text[], text[], text[], text[], jsonb[], timestamptz[], boolean[], text[],
  boolean, text, text[], uuid[]) IS
  'Internal: raises 22023 for the first invalid item.';

-- An item is new if its instruction and key have no identity and occur in no earlier item of the call. A new item must
-- not reuse a key that its caller has used for another instruction, in this call or before.
CREATE OR REPLACE FUNCTION find_new_outbox_items(p_instruction_ids text[], p_idempotency_keys text[], p_key_scope text)
RETURNS boolean[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_is_new boolean[];
  v_reused record;
BEGIN
  SELECT array_agg(l.is_new ORDER BY l.ordinal) INTO v_is_new
  FROM (
    SELECT g.ordinal,
      row_number() OVER (PARTITION BY g.instruction_id COLLATE "C", g.idempotency_key COLLATE "C"
        ORDER BY g.ordinal) = 1
        -- OFFSET 0 keeps one index lookup per item. Otherwise the planner may hash all identities, and a connection
        -- keeps that plan while they become millions.
        AND NOT EXISTS (
          SELECT 1 FROM payment_outbox_identities i
          WHERE i.instruction_id = g.instruction_id AND i.idempotency_key = g.idempotency_key OFFSET 0) AS is_new
    FROM unnest(p_instruction_ids, p_idempotency_keys) WITH ORDINALITY AS g(instruction_id, idempotency_key, ordinal)
  ) l;
  IF p_key_scope IS NULL THEN
    RETURN v_is_new;
  END IF;

  SELECT k.ordinal, k.first_instruction_id INTO v_reused
  FROM (
    SELECT g.ordinal, g.is_new, g.instruction_id, COALESCE(
        (SELECT i.instruction_id FROM payment_outbox_identities i
          WHERE i.key_scope = p_key_scope AND i.idempotency_key = g.idempotency_key),
        first_value(g.instruction_id) OVER (PARTITION BY g.idempotency_key COLLATE "C" ORDER BY g.ordinal)
      ) AS first_instruction_id
    FROM unnest(p_instruction_ids, p_idempotency_keys, v_is_new) WITH ORDINALITY
      AS g(instruction_id, idempotency_key, is_new, ordinal)
  ) k
  WHERE k.is_new AND k.first_instruction_id <> k.instruction_id
  ORDER BY k.ordinal LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'KEY_REUSED: item %: the caller has used this idempotency key for instruction %',
        v_reused.ordinal, v_reused.first_instruction_id
      USING ERRCODE = 'P7014', DETAIL = json_build_object(
          'ordinal', v_reused.ordinal, 'instruction_id', v_reused.first_instruction_id)::text,
        HINT = 'Repeat the first instruction to read its answer; use a new idempotency key for a new payment.';
  END IF;
  RETURN v_is_new;
END
$$;
COMMENT ON FUNCTION find_new_outbox_items(text[], text[], text) IS
  'Internal: returns for each item whether it is new. Raises P7014 for a new item under a key that its caller has used '
  'for another instruction.';

-- Groups the new items of a call by participant. Per new item: stream_nos (number of its stream), places (position
-- among the new items of the stream), follow_ordered (whether an earlier new item of the stream is ordered). Per
-- stream, in byte order of the names: participants and shares (count of new items). fresh has the new items by key and
-- instruction: every call inserts in this order, so that two calls cannot deadlock. The key comes first, because within
-- a key scope the key alone is unique.
CREATE OR REPLACE FUNCTION place_outbox_items(
  p_instruction_ids text[], p_participant_ids text[], p_idempotency_keys text[], p_ordered boolean[],
  p_is_new boolean[],
  OUT stream_nos integer[], OUT places integer[], OUT follow_ordered boolean[], OUT participants text[],
    OUT shares integer[], OUT fresh integer[]
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
BEGIN
  WITH placed AS MATERIALIZED (
    SELECT g.ordinal, g.participant_id, g.is_new,
      dense_rank() OVER (PARTITION BY g.is_new ORDER BY g.participant_id) AS stream_no,
      row_number() OVER stream AS place,
      COALESCE(bool_or(g.ordered) OVER (stream ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        false) AS follows_ordered
    FROM (
      SELECT n AS ordinal, p_participant_ids[n] COLLATE "C" AS participant_id, p_ordered[n] AS ordered,
        COALESCE(p_is_new[n], true) AS is_new
      FROM generate_series(1, cardinality(p_participant_ids)) AS n
      OFFSET 0
    ) g
    WINDOW stream AS (PARTITION BY g.is_new, g.participant_id ORDER BY g.ordinal)
  ), streams AS (
    SELECT p.participant_id, count(*)::integer AS share FROM placed p WHERE p.is_new GROUP BY 1 ORDER BY 1
  )
  SELECT array_agg(p.stream_no), array_agg(p.place), array_agg(p.follows_ordered),
    (SELECT array_agg(s.participant_id) FROM streams s), (SELECT array_agg(s.share) FROM streams s),
    ARRAY(SELECT n.ordinal FROM placed n WHERE n.is_new
      ORDER BY p_idempotency_keys[n.ordinal] COLLATE "C", p_instruction_ids[n.ordinal] COLLATE "C")
  INTO stream_nos, places, follow_ordered, participants, shares, fresh
  FROM (SELECT * FROM placed ORDER BY ordinal) p;
END
$$;
COMMENT ON FUNCTION place_outbox_items(text[], text[], text[], boolean[], boolean[]) IS
  'Internal: returns the stream and the position of each new item of a call. A null p_is_new means that all are new.';

-- Locks the participants' rows in the order given, as the UPDATE of admit_outbox_items does.
CREATE OR REPLACE FUNCTION reserve_outbox_numbers(p_participants text[], p_shares integer[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_next_numbers bigint[];
BEGIN
  WITH numbered AS (
    INSERT INTO participant_outbox_sequences AS s (participant_id, next_sequence_id)
    SELECT g.participant_id, g.share + 1 FROM unnest(p_participants, p_shares) AS g(participant_id, share)
    ON CONFLICT (participant_id) DO UPDATE SET next_sequence_id = s.next_sequence_id + EXCLUDED.next_sequence_id - 1
    RETURNING s.next_sequence_id
  )
  SELECT array_agg(n.next_sequence_id) INTO v_next_numbers FROM numbered n;
  RETURN v_next_numbers;
END
$$;
COMMENT ON FUNCTION reserve_outbox_numbers(text[], integer[]) IS
  'Internal: takes sequence numbers for participants, new ones included. Returns the next free number of each.';

CREATE OR REPLACE FUNCTION raise_idempotency_conflict(p_ordinal integer) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  RAISE EXCEPTION 'IDEMPOTENCY_CONFLICT: item %: this instruction and key already stand for another %', p_ordinal,
    'participant, rail, payload, kind or replaced payment'
    USING ERRCODE = 'P7004', DETAIL = json_build_object('ordinal', p_ordinal)::text,
      HINT = 'Use a new idempotency key for a new payment; repeat the first content to read the first answer.';
END
$$;
COMMENT ON FUNCTION raise_idempotency_conflict(integer) IS
  'Internal: raises P7004 for an item of an enqueue, with its position in the call.';

CREATE OR REPLACE FUNCTION report_outbox_items(
  p_instruction_ids text[], p_participant_ids text[], p_idempotency_keys text[], p_rail_types text[],
  p_payloads jsonb[],
  p_is_message boolean, p_is_new boolean[], p_replaces uuid[]
) RETURNS TABLE (ordinal integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
  created boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT k.ordinal, k.outbox_id, k.sequence_id, k.created_at,
    CASE WHEN k.differs THEN raise_idempotency_conflict(k.ordinal) ELSE k.state END, k.is_new
  FROM (
    SELECT n AS ordinal, i.outbox_id, i.sequence_id, i.created_at, COALESCE(a.state::text, 'PENDING') AS state,
      p_is_new[n] AS is_new, i.is_message <> p_is_message OR i.replaces IS DISTINCT FROM p_replaces[n]
        OR i.content_hash <> outbox_content_hash(p_participant_ids[n], p_rail_types[n], p_payloads[n]::text) AS differs
    FROM generate_series(1, cardinality(p_instruction_ids)) AS n
    -- Each OFFSET 0 keeps one index lookup per item, as in find_new_outbox_items.
    CROSS JOIN LATERAL (
      SELECT i.* FROM payment_outbox_identities i
      WHERE i.instruction_id = p_instruction_ids[n] AND i.idempotency_key = p_idempotency_keys[n] OFFSET 0) i
    LEFT JOIN LATERAL (
      SELECT a.state FROM payment_outbox_attempts a
      WHERE a.outbox_id = i.outbox_id AND a.state IN ('DISPATCHED', 'FAILED') OFFSET 0) a ON true
    -- The error names the first item that differs.
    ORDER BY n
  ) k;
END
$$;
COMMENT ON FUNCTION report_outbox_items(text[], text[], text[], text[], jsonb[], boolean, boolean[], uuid[]) IS
  'Internal: returns the rows of an enqueue that has known items. Raises P7004 for a known instruction and key with '
  'other content.';

-- Inserts checked items. Unless the first item is known, the first round inserts every item and relies on the unique
-- indexes of the identities. A conflict rolls the round back; later rounds first query which items are new. Statements
-- read the arrays by subscript. With a generic plan each access takes constant time, and the statement starts faster
-- than with unnest().
CREATE OR REPLACE FUNCTION admit_outbox_items(
  p_instruction_ids text[], p_participant_ids text[], p_idempotency_keys text[], p_rail_types text[],
  p_payloads jsonb[], p_not_before timestamptz[], p_ordered boolean[], p_redrive_of uuid, p_trace_contexts text[],
  p_is_message boolean, p_key_scope text, p_stream_position bigint, p_outcome_topic text[], p_replaces uuid[],
  p_is_held boolean DEFAULT false
) RETURNS TABLE (ordinal integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
  created boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_count CONSTANT integer := cardinality(p_instruction_ids);
  -- Null in the first round, which inserts every item.
  v_is_new boolean[];
  v_was_new boolean[];
  -- Lists as place_outbox_items returns them. The initial values are those for a call of one item.
  v_stream_nos integer[] := '{1}'::integer[];
  v_places integer[] := '{1}'::integer[];
  v_follow_ordered boolean[] := '{false}'::boolean[];
  v_participants text[] := p_participant_ids;
  v_shares integer[] := '{1}'::integer[];
  v_fresh integer[] := '{1}'::integer[];
  v_outcome_topic text[] := p_outcome_topic;
  -- Per stream: the next sequence number after this call; whether an ordered item is pending.
  v_next_numbers bigint[];
  v_has_ordered boolean[];
  v_now timestamptz;
  v_outbox_ids uuid[];
  v_has_pauses boolean;
  v_has_limits boolean := false;
  v_is_full_trail boolean;
BEGIN
  -- 1. Recognise a repeated call before anything is written.
  IF EXISTS (
    SELECT 1 FROM payment_outbox_identities i
    WHERE i.instruction_id = p_instruction_ids[1] AND i.idempotency_key = p_idempotency_keys[1])
  THEN
    v_is_new := CASE WHEN v_count = 1 THEN '{false}'
      ELSE find_new_outbox_items(p_instruction_ids, p_idempotency_keys, p_key_scope) END;
  END IF;

  WHILE COALESCE(true = ANY (v_is_new), true) LOOP
    IF p_replaces IS NOT NULL THEN
      v_outcome_topic := lock_replaced_outbox_payments(p_replaces, p_outcome_topic);
    END IF;
    IF v_count > 1 THEN
      SELECT * INTO v_stream_nos, v_places, v_follow_ordered, v_participants, v_shares, v_fresh
      FROM place_outbox_items(p_instruction_ids, p_participant_ids, p_idempotency_keys, p_ordered, v_is_new);
    END IF;
    BEGIN
      -- 2. Take sequence numbers, which locks the participants' rows in the order of their names.
      IF v_is_new IS NULL THEN
        WITH numbered AS (
          UPDATE participant_outbox_sequences s SET next_sequence_id = s.next_sequence_id + g.share
          FROM unnest(v_participants, v_shares) AS g(participant_id, share)
          -- A range instead of an equality. For an equality the planner may read all participants in index order; for
          -- the range it looks up each name.
          WHERE s.participant_id >= g.participant_id AND s.participant_id <= g.participant_id
          RETURNING s.next_sequence_id
        )
        SELECT array_agg(n.next_sequence_id) INTO v_next_numbers FROM numbered n;
        -- Fewer rows: a participant is new. Rolls the round back, because it may have locked a row whose name comes
        -- after the new one, and rows are locked in the order of names.
        IF cardinality(v_next_numbers) IS DISTINCT FROM cardinality(v_participants) THEN
          RAISE unique_violation;
        END IF;
      ELSE
        v_next_numbers := reserve_outbox_numbers(v_participants, v_shares);
      END IF;

      -- 3. Read settings, pauses, limits and ordered items. The snapshots from here on contain the items of every call
      -- that locked a participant's row before this one.
      SELECT clock_timestamp(), ARRAY(SELECT uuid_v7() FROM generate_series(1, v_count)), s.full_trail,
        EXISTS (SELECT 1 FROM outbox_pauses z WHERE z.kind IN ('participant', 'stream')),
        NOT p_is_message AND EXISTS (SELECT 1 FROM outbox_limits)
      INTO v_now, v_outbox_ids, v_is_full_trail, v_has_pauses, v_has_limits
      FROM symphony_settings s;
      IF true = ANY (p_ordered) THEN
        SELECT array_agg(EXISTS (
            SELECT 1 FROM payment_outbox_pending p WHERE p.participant_id = v_participants[n] AND p.ordered OFFSET 0)
              ORDER BY n)
        INTO v_has_ordered
        FROM generate_series(1, cardinality(v_participants)) AS n;
      END IF;

      -- 4. Write the rows.
      WITH fresh AS MATERIALIZED (
        SELECT g.*, outbox_content_hash(g.participant_id, g.rail_type, g.payload_text) AS content_hash,
          (g.ordered AND (g.follows_ordered OR g.has_ordered))
            OR (v_has_pauses AND is_outbox_paused(g.participant_id, g.ordered)) AS blocked
        FROM (
          SELECT p_instruction_ids[n] AS instruction_id, p_participant_ids[n] AS participant_id,
            p_idempotency_keys[n] AS idempotency_key, p_rail_types[n] AS rail_type, p_payloads[n] AS payload,
            p_payloads[n]::text AS payload_text, COALESCE(p_not_before[n], now()) AS next_attempt_at,
            COALESCE(p_ordered[n], false) AS ordered, trace_context_or_null(p_trace_contexts[n]) AS trace_context,
            v_next_numbers[v_stream_nos[n]] - v_shares[v_stream_nos[n]] + v_places[n] - 1 AS sequence_id,
            v_follow_ordered[n] AS follows_ordered, v_has_ordered[v_stream_nos[n]] AS has_ordered,
            v_outcome_topic[n] AS outcome_topic, p_replaces[n] AS replaces,
            -- Times are one microsecond apart, so that claims follow the order of the call.
            v_outbox_ids[n] AS outbox_id, v_now + n * interval '1 microsecond' AS created_at
          FROM (SELECT unnest(v_fresh) AS n) v
          -- OFFSET 0 keeps the planner from producing the payload's text twice: for the hash and for its length.
          OFFSET 0
        ) g
      ), queued AS (
        INSERT INTO payment_outbox_pending
          (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, next_attempt_at,
            created_at, ordered, blocked, block_unverified, trace_context, is_message, stream_position,
            outcome_topic)
        SELECT f.outbox_id, f.instruction_id, f.participant_id, f.sequence_id, f.idempotency_key, f.rail_type,
          f.payload,
          f.next_attempt_at, f.created_at, f.ordered, f.blocked,
          -- An item behind an ordered item of this call needs no verification: both commit together, so the transaction
          -- that ends the other one sees this one.
          f.blocked AND NOT (f.ordered AND f.follows_ordered), f.trace_context,
          p_is_message, p_stream_position, f.outcome_topic
        FROM fresh f
      )
      INSERT INTO payment_outbox_identities
        (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, rail_type, ordered, redrive_of,
          content_hash, created_at, traceparent, is_message, key_scope, stream_position, outcome_topic, replaces)
      SELECT f.outbox_id, f.instruction_id, f.idempotency_key, f.participant_id, f.sequence_id, f.rail_type, f.ordered,
        p_redrive_of, f.content_hash, f.created_at, left(f.trace_context, 55),
        p_is_message, p_key_scope, p_stream_position, f.outcome_topic, f.replaces
      FROM fresh f;
      EXIT;
    EXCEPTION WHEN unique_violation THEN
      -- 5. After a conflict, insert only the new items in the next round.
      v_was_new := v_is_new;
      v_is_new := find_new_outbox_items(p_instruction_ids, p_idempotency_keys, p_key_scope);
      v_is_full_trail := false;
      IF v_is_new = v_was_new THEN
        -- Under READ COMMITTED the query sees the identity that the other transaction inserted. Under a stricter level
        -- it never does.
        IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
          RAISE EXCEPTION 'another transaction enqueued the same instruction and key at the same time'
            USING ERRCODE = 'serialization_failure', HINT = 'Retry the transaction, or run it under READ COMMITTED.';
        END IF;
        -- Another constraint is violated, for example by a sequence number that a faulty restore assigns again.
        RAISE;
      END IF;
    END;
  END LOOP;

  -- 6. Check replacements, write the trail, apply the limits and answer.
  IF p_replaces IS NOT NULL THEN
    PERFORM check_outbox_replacements(v_outbox_ids);
  END IF;
  IF v_is_full_trail THEN
    PERFORM append_outbox_events('ENQUEUED', session_user::text, array_agg(p.outbox_id),
      array_agg(jsonb_strip_nulls(jsonb_build_object('next_attempt_at', epoch_micros(p.next_attempt_at), 'blocked',
      p.blocked, 'block_unverified', p.block_unverified,
        'trace_context', p.trace_context))))
    FROM payment_outbox_pending p WHERE p.outbox_id = ANY (v_outbox_ids);
  END IF;
  -- propose_payment_outbox applies the limits itself, so that one event holds the payment.
  IF v_has_limits AND NOT p_is_held THEN
    PERFORM apply_outbox_limits(v_outbox_ids, false);
  END IF;
  IF COALESCE(true = ALL (v_is_new), true) THEN
    RETURN QUERY
    SELECT n, v_outbox_ids[n], v_next_numbers[v_stream_nos[n]] - v_shares[v_stream_nos[n]] + v_places[n] - 1,
      v_now + n * interval '1 microsecond', 'PENDING', true
    FROM generate_series(1, v_count) AS n;
  ELSE
    RETURN QUERY
    SELECT * FROM report_outbox_items(
      p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads, p_is_message, v_is_new,
      p_replaces);
  END IF;
END
$$;
COMMENT ON FUNCTION admit_outbox_items(
  text[], text[], text[], text[], jsonb[], timestamptz[], boolean[], uuid, text[], boolean, text, bigint, text[],
  uuid[], boolean) IS
  'Internal: inserts new items with identity and sequence number, returns known items, raises on conflicts.';

-- Wakes idle workers. The notification only shortens the wait: polling finds due work.
CREATE OR REPLACE FUNCTION notify_outbox_pending() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT
AS $$
BEGIN
  -- A full notification queue would fail the COMMIT, and with it the enqueue. NOTIFY takes a cluster-wide lock at
  -- commit, so the advisory lock below lets only one of several concurrent writers notify. A worker that reads that
  -- notification too early finds the rest by polling. An attacker who holds the advisory lock only delays workers until
  -- their next poll.
  IF (SELECT CASE
        WHEN NOT s.notify_enabled OR pg_notification_queue_usage() >= 0.5 OR NOT EXISTS (SELECT 1 FROM enqueued)
          THEN false
        ELSE pg_try_advisory_xact_lock(1937337959, TG_RELID::integer)
      END FROM symphony_settings s)
  THEN
    NOTIFY outbox_pending, 'new_work';
  END IF;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION notify_outbox_pending() IS
  'Trigger: sends NOTIFY outbox_pending at most once per statement, and only if it inserted rows.';

CREATE OR REPLACE TRIGGER payment_outbox_pending_notifies
  AFTER INSERT ON payment_outbox_pending
  REFERENCING NEW TABLE AS enqueued
  FOR EACH STATEMENT EXECUTE FUNCTION notify_outbox_pending();
