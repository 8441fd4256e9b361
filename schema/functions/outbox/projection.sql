-- Projection of sealed blocks into payment_search, outbox_series, outbox_attempt_series and outbox_worker_series.
--
-- Blocks are projected in their order, each in one transaction with the position, so every row counts once. The counts
-- depend on the rows of the block only. The state of an item is read from the queue and the ledger at that moment:
-- each later change of the state writes a ledger row, which projects the item again.

CREATE OR REPLACE FUNCTION outbox_block_rows(p_entries bytea) RETURNS TABLE (kind smallint, id uuid)
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT get_byte(p_entries, n)::smallint, encode(substring(p_entries FROM n + 2 FOR 16), 'hex')::uuid
  FROM generate_series(1, octet_length(p_entries), 58) AS n
$$;
COMMENT ON FUNCTION outbox_block_rows(bytea) IS
  'Internal: returns the kinds and ids of the rows that the entries of a block name.';

CREATE OR REPLACE FUNCTION latency_range(p_latency_ms integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (ARRAY[1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 7000,
  10000, 15000, 20000, 30000, 50000, 70000, 100000, 150000, 200000, 300000, 500000, 700000, 1000000, 2147483647])[
  width_bucket(p_latency_ms - 1, ARRAY[1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500,
    2000, 3000, 5000, 7000, 10000, 15000, 20000, 30000, 50000, 70000, 100000, 150000, 200000, 300000, 500000, 700000,
    1000000]) + 1];
COMMENT ON FUNCTION latency_range(integer) IS
  'Internal: returns the upper end, included, of the range of latencies that this one belongs to.';

CREATE OR REPLACE FUNCTION project_outbox_search(p_entries bytea) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
BEGIN
  INSERT INTO payment_search AS s (outbox_id, is_message, instruction_id, idempotency_key, participant_id, rail_type,
    state, error_code, rail_reference, returned, amount, currency)
  SELECT i.outbox_id, i.is_message, i.instruction_id, i.idempotency_key, i.participant_id, i.rail_type,
    CASE
      WHEN p.hold_reason IS NOT NULL THEN 'HELD'
      WHEN p.outbox_id IS NULL AND a.action = 'cancelled' THEN 'CANCELLED'
      WHEN p.outbox_id IS NULL AND a.state IN ('DISPATCHED', 'FAILED') THEN a.state::text
      ELSE 'PENDING'
    END,
    a.error_code, a.rail_reference,
    EXISTS (SELECT 1 FROM payment_outbox_events e
      WHERE e.outbox_id = i.outbox_id AND e.event_type = 'RETURN_RECORDED' OFFSET 0),
    CASE WHEN m.currency IS NOT NULL THEN m.amount END, m.currency
  FROM (
    SELECT r.id AS outbox_id FROM outbox_block_rows(p_entries) r WHERE r.kind = 1
    UNION
    SELECT a.outbox_id FROM outbox_block_rows(p_entries) r
    JOIN payment_outbox_attempts a ON a.attempt_id = r.id WHERE r.kind = 2
    UNION
    SELECT e.outbox_id FROM outbox_block_rows(p_entries) r
    JOIN payment_outbox_events e ON e.event_id = r.id WHERE r.kind = 3 AND e.outbox_id IS NOT NULL
  ) t
  JOIN payment_outbox_identities i ON i.outbox_id = t.outbox_id
  LEFT JOIN payment_outbox_pending p ON p.outbox_id = t.outbox_id
  LEFT JOIN LATERAL (
    SELECT a.state, a.action, a.error_code, a.rail_reference, a.payload FROM payment_outbox_attempts a
    WHERE a.outbox_id = t.outbox_id ORDER BY a.attempt_no DESC LIMIT 1
  ) a ON true
  LEFT JOIN LATERAL (
    -- Leaves out amount and currency if the rail's field classes hide either. The classes may become stricter after the
    -- row is stored, and the row keeps the amount. So reads check the classes again.
    SELECT payload_amount(COALESCE(p.payload, a.payload)) AS amount,
      payload_currency(COALESCE(p.payload, a.payload)) AS currency
    WHERE NOT i.is_message AND NOT EXISTS (SELECT 1 FROM outbox_rails r WHERE r.rail_type = i.rail_type
      AND ARRAY[r.fields ->> '/amount', r.fields ->> '/currency', r.fields ->> '/*'] && '{masked,forbidden,encrypted}')
  ) m ON true
  ON CONFLICT (outbox_id) DO UPDATE
  SET state = EXCLUDED.state, error_code = EXCLUDED.error_code, rail_reference = EXCLUDED.rail_reference,
    returned = EXCLUDED.returned
  WHERE (s.state, s.error_code, s.rail_reference, s.returned)
    IS DISTINCT FROM (EXCLUDED.state, EXCLUDED.error_code, EXCLUDED.rail_reference, EXCLUDED.returned);
END
$$;
COMMENT ON FUNCTION project_outbox_search(bytea) IS
  'Internal: inserts or updates the search rows of the items that a block names.';

CREATE OR REPLACE FUNCTION project_outbox_series(p_entries bytea) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
BEGIN
  WITH fact AS (
    SELECT i.created_at AS at, i.rail_type, i.participant_id, i.is_message, 1 AS enqueued, 0 AS dispatched, 0 AS failed,
      0 AS cancelled, 0 AS retried, 0 AS unknown, 0 AS held, 0 AS returned
    FROM outbox_block_rows(p_entries) r JOIN payment_outbox_identities i ON i.outbox_id = r.id WHERE r.kind = 1
    UNION ALL
    SELECT COALESCE(a.completed_at, a.created_at), i.rail_type, i.participant_id, i.is_message, 0,
      (a.state = 'DISPATCHED')::integer, (a.state = 'FAILED' AND a.action <> 'cancelled')::integer,
      (a.action = 'cancelled')::integer, (a.state IN ('RETRYABLE', 'ZOMBIE_REQUEUE'))::integer,
      a.outcome_unknown::integer, 0, 0
    FROM outbox_block_rows(p_entries) r
    JOIN payment_outbox_attempts a ON a.attempt_id = r.id
    JOIN payment_outbox_identities i ON i.outbox_id = a.outbox_id WHERE r.kind = 2
    UNION ALL
    SELECT e.created_at, i.rail_type, i.participant_id, i.is_message, 0, 0, 0, 0, 0, 0,
      (e.event_type = 'HOLD_PLACED')::integer, (e.event_type = 'RETURN_RECORDED')::integer
    FROM outbox_block_rows(p_entries) r
    JOIN payment_outbox_events e ON e.event_id = r.id
    JOIN payment_outbox_identities i ON i.outbox_id = e.outbox_id
    WHERE r.kind = 3 AND e.event_type IN ('HOLD_PLACED', 'RETURN_RECORDED')
  ), minute AS (
    SELECT date_bin(interval '1 minute', f.at, timestamptz '2000-01-01 00:00:00+00') AS at, f.rail_type,
      f.participant_id, f.is_message, sum(f.enqueued) AS enqueued, sum(f.dispatched) AS dispatched,
      sum(f.failed) AS failed, sum(f.cancelled) AS cancelled, sum(f.retried) AS retried, sum(f.unknown) AS unknown,
      sum(f.held) AS held, sum(f.returned) AS returned
    -- A superuser may have written an infinite time, which has no minute.
    FROM fact f WHERE isfinite(f.at) GROUP BY 1, 2, 3, 4
  )
  INSERT INTO outbox_series AS s (grain, participant_id, starts_at, rail_type, is_message, enqueued, dispatched, failed,
    cancelled, retried, unknown, held, returned)
  SELECT g.grain, w.participant_id, date_trunc(g.grain, m.at, 'UTC'), m.rail_type, m.is_message, sum(m.enqueued),
    sum(m.dispatched), sum(m.failed), sum(m.cancelled), sum(m.retried), sum(m.unknown), sum(m.held), sum(m.returned)
  FROM minute m
  CROSS JOIN LATERAL (VALUES (m.participant_id), ('')) AS w(participant_id)
  CROSS JOIN (VALUES ('minute'), ('hour'), ('day')) AS g(grain)
  GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
  ON CONFLICT (grain, participant_id, starts_at, rail_type, is_message) DO UPDATE
  SET enqueued = s.enqueued + EXCLUDED.enqueued, dispatched = s.dispatched + EXCLUDED.dispatched,
    failed = s.failed + EXCLUDED.failed, cancelled = s.cancelled + EXCLUDED.cancelled,
    retried = s.retried + EXCLUDED.retried, unknown = s.unknown + EXCLUDED.unknown, held = s.held + EXCLUDED.held,
    returned = s.returned + EXCLUDED.returned;

  WITH fact AS MATERIALIZED (
    SELECT COALESCE(a.completed_at, a.created_at) AS at, a.rail_type, a.error_code, a.latency_ms, a.state,
      CASE WHEN a.lease_token IS NOT NULL THEN a.worker_id END AS worker_id
    FROM outbox_block_rows(p_entries) r JOIN payment_outbox_attempts a ON a.attempt_id = r.id
    WHERE r.kind = 2 AND isfinite(COALESCE(a.completed_at, a.created_at))
  ), worker AS (
    INSERT INTO outbox_worker_series AS s (starts_at, rail_type, worker_id, dispatched, failed, retried)
    SELECT date_bin(interval '5 minutes', f.at, timestamptz '2000-01-01 00:00:00+00'), f.rail_type, f.worker_id,
      count(*) FILTER (WHERE f.state = 'DISPATCHED'), count(*) FILTER (WHERE f.state = 'FAILED'),
      count(*) FILTER (WHERE f.state IN ('RETRYABLE', 'ZOMBIE_REQUEUE'))
    FROM fact f WHERE f.worker_id IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (starts_at, rail_type, worker_id) DO UPDATE
    SET dispatched = s.dispatched + EXCLUDED.dispatched, failed = s.failed + EXCLUDED.failed,
      retried = s.retried + EXCLUDED.retried
  )
  INSERT INTO outbox_attempt_series AS s (grain, rail_type, starts_at, error_code, latency_to_ms, attempts)
  SELECT g.grain, m.rail_type, date_trunc(g.grain, m.at, 'UTC'), m.error_code, m.latency_to_ms, sum(m.attempts)
  FROM (
    SELECT date_bin(interval '1 minute', f.at, timestamptz '2000-01-01 00:00:00+00') AS at, f.rail_type,
      COALESCE(f.error_code, '') AS error_code, COALESCE(latency_range(f.latency_ms), 0) AS latency_to_ms,
      count(*) AS attempts
    FROM fact f GROUP BY 1, 2, 3, 4
  ) m
  CROSS JOIN (VALUES ('minute'), ('hour'), ('day')) AS g(grain)
  GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
  ON CONFLICT (grain, rail_type, starts_at, error_code, latency_to_ms) DO UPDATE
  SET attempts = s.attempts + EXCLUDED.attempts;
END
$$;
COMMENT ON FUNCTION project_outbox_series(bytea) IS
  'Internal: adds the rows that a block names to the counts per minute, five minutes, hour and day.';

CREATE OR REPLACE FUNCTION project_ledger_block() RETURNS TABLE (block_no bigint, row_count integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_last bigint;
  v_block record;
BEGIN
  -- One caller at a time projects. The others return no row.
  SELECT p.last_block INTO v_last FROM ledger_projection p FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  -- The concatenation detoasts the value once. Otherwise each entry would detoast it again.
  SELECT b.block_no, b.row_count, b.sealed_at, b.entries || ''::bytea AS entries INTO v_block
  FROM payment_outbox_blocks b WHERE b.block_no > v_last ORDER BY b.block_no LIMIT 1;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  PERFORM project_outbox_search(v_block.entries);
  PERFORM project_outbox_series(v_block.entries);
  UPDATE ledger_projection p SET last_block = v_block.block_no, projected_to = v_block.sealed_at;
  RETURN QUERY SELECT v_block.block_no, v_block.row_count;
END
$$;
COMMENT ON FUNCTION project_ledger_block() IS
  'Adds the next sealed block to the search table and to the counts per minute, five minutes, hour and day. Returns no '
  'row if there is none, or another session projects.';

CREATE OR REPLACE FUNCTION rebuild_ledger_projection() RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_last bigint;
BEGIN
  PERFORM outbox_actor();
  SELECT p.last_block INTO v_last FROM ledger_projection p FOR UPDATE;
  TRUNCATE payment_search, payment_search_destinations, outbox_series, outbox_attempt_series,
    outbox_worker_series;
  UPDATE ledger_projection p SET last_block = 0, projected_to = NULL, hashed_block = 0, hash_key = NULL;
  RETURN v_last;
END
$$;
COMMENT ON FUNCTION rebuild_ledger_projection() IS
  'Empties the search table and the counts. Workers fill them again from the first block. Returns the number of the '
  'block that had been reached.';

CREATE OR REPLACE FUNCTION store_search_destinations(
  p_block_no bigint, p_hash_key text, p_outbox_ids uuid[], p_destination_hmacs bytea[]
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
BEGIN
  PERFORM check_number('p_block_no', p_block_no, 1, 9223372036854775807);
  IF p_hash_key IS NULL OR p_hash_key !~ '^[0-9a-f]{16}$' THEN
    PERFORM refuse_argument('p_hash_key', '16 hexadecimal digits');
  END IF;
  IF p_outbox_ids IS NULL OR cardinality(p_outbox_ids) > 100000 OR array_ndims(p_outbox_ids) > 1
    OR array_position(p_outbox_ids, NULL) IS NOT NULL
  THEN
    PERFORM refuse_argument('p_outbox_ids', 'a plain list of at most 100000 outbox ids');
  END IF;
  IF p_destination_hmacs IS NULL OR array_dims(p_destination_hmacs) IS DISTINCT FROM array_dims(p_outbox_ids)
    OR EXISTS (SELECT 1 FROM unnest(p_destination_hmacs) h WHERE octet_length(h) IS DISTINCT FROM 32)
  THEN
    PERFORM refuse_argument('p_destination_hmacs', 'one hash of 32 bytes per outbox id');
  END IF;
  -- Only one of several processes stores the block. A process that read it before a rebuild, or has another key, stores
  -- nothing.
  UPDATE ledger_projection p SET hashed_block = p_block_no, hash_key = p_hash_key
  WHERE p.hashed_block = p_block_no - 1 AND p.last_block >= p_block_no
    AND COALESCE(p.hash_key, p_hash_key) = p_hash_key;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  INSERT INTO payment_search_destinations (destination_hmac, outbox_id)
  SELECT g.hmac, g.outbox_id FROM unnest(p_destination_hmacs, p_outbox_ids) AS g(hmac, outbox_id)
  ON CONFLICT DO NOTHING;
  RETURN true;
END
$$;
COMMENT ON FUNCTION store_search_destinations(bigint, text, uuid[], bytea[]) IS
  'Stores the hashes of the destinations of the next block; returns false if it is not the next one, or if the stored '
  'hashes have another key.';

CREATE OR REPLACE FUNCTION purge_ledger_projection(p_retention_seconds integer, p_batch_size integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
DECLARE
  v_now CONSTANT timestamptz := clock_timestamp();
  v_deleted integer := 0;
  v_rows integer;
  v_kept record;
BEGIN
  IF p_retention_seconds IS NULL OR p_retention_seconds NOT BETWEEN 60 AND 315360000 THEN
    PERFORM refuse_argument('p_retention_seconds', '60 (a minute) to 315360000 (ten years)');
  END IF;
  PERFORM check_number('p_batch_size', p_batch_size, 1, 1000);
  DELETE FROM payment_search s WHERE s.outbox_id = ANY (ARRAY(
    SELECT o.outbox_id FROM payment_search o
    WHERE o.outbox_id < uuid_v7_floor(v_now - make_interval(secs => p_retention_seconds)) AND o.state <> 'HELD'
    ORDER BY o.outbox_id LIMIT p_batch_size FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_deleted = ROW_COUNT;
  DELETE FROM payment_search_destinations s WHERE s.ctid = ANY (ARRAY(
    SELECT o.ctid FROM payment_search_destinations o
    WHERE o.outbox_id < uuid_v7_floor(v_now - make_interval(secs => p_retention_seconds))
    ORDER BY o.outbox_id LIMIT p_batch_size - v_deleted FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_rows = ROW_COUNT;
  v_deleted := v_deleted + v_rows;
  DELETE FROM outbox_worker_series s WHERE s.ctid = ANY (ARRAY(
    SELECT o.ctid FROM outbox_worker_series o WHERE o.starts_at < v_now - interval '1 day'
    ORDER BY o.starts_at LIMIT p_batch_size - v_deleted FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_rows = ROW_COUNT;
  v_deleted := v_deleted + v_rows;
  FOR v_kept IN
    SELECT g.grain, v_now - g.kept AS since
    FROM (VALUES ('minute', interval '8 days'), ('hour', interval '100 days'), ('day', interval '3650 days'))
      AS g(grain, kept)
  LOOP
    DELETE FROM outbox_series s WHERE s.ctid = ANY (ARRAY(
      SELECT o.ctid FROM outbox_series o WHERE o.grain = v_kept.grain AND o.starts_at < v_kept.since
      ORDER BY o.starts_at LIMIT p_batch_size - v_deleted FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    v_deleted := v_deleted + v_rows;
    DELETE FROM outbox_attempt_series s WHERE s.ctid = ANY (ARRAY(
      SELECT o.ctid FROM outbox_attempt_series o WHERE o.grain = v_kept.grain AND o.starts_at < v_kept.since
      ORDER BY o.starts_at LIMIT p_batch_size - v_deleted FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    v_deleted := v_deleted + v_rows;
  END LOOP;
  RETURN v_deleted;
END
$$;
COMMENT ON FUNCTION purge_ledger_projection(integer, integer) IS
  'Deletes search rows (not of held items) and hashes of destinations of items older than the retention, counts of '
  'workers after a day, and other counts per minute after 8 days, per hour after 100 and per day after 3650, at most '
  'the batch size; returns their number. The ledger keeps all items and attempts.';
