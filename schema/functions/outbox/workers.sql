-- A report is arbitrary JSON of a worker. Leaves out invalid entries, so that they never make a heartbeat fail.
CREATE OR REPLACE FUNCTION reported_breakers(p_detail jsonb) RETURNS TABLE (rail_type text, state text)
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT DISTINCT ON (1) r ->> 'railType', r ->> 'breaker' FROM jsonb_path_query(p_detail, 'lax $.rails[*]') AS r
  WHERE jsonb_typeof(r -> 'railType') = 'string' AND is_id(r ->> 'railType')
    AND r ->> 'breaker' IN ('closed', 'open', 'half-open')
  ORDER BY 1, 2
$$;
COMMENT ON FUNCTION reported_breakers(jsonb) IS
  'Internal: returns the state of each circuit breaker in the report of a worker.';

-- Compares the new report with the stored one. So a repeated heartbeat records no change twice, and a change that a
-- failed heartbeat did not record is recorded by the next heartbeat. A breaker without an earlier report was closed.
CREATE OR REPLACE FUNCTION record_breaker_changes(
  p_worker_id text, p_at timestamptz, p_before jsonb, p_after jsonb
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_rail text;
BEGIN
  FOR v_rail IN
    INSERT INTO outbox_breaker_changes AS c (rail_type, changed_at, worker_id, from_state, to_state)
    SELECT a.rail_type, p_at, p_worker_id, COALESCE(b.state, 'closed'), a.state
    FROM reported_breakers(p_after) a LEFT JOIN reported_breakers(p_before) b ON b.rail_type = a.rail_type
    WHERE a.state <> COALESCE(b.state, 'closed')
    ON CONFLICT DO NOTHING
    RETURNING c.rail_type
  LOOP
    -- SKIP LOCKED: workers whose breakers change at once would deadlock on each other's rows.
    DELETE FROM outbox_breaker_changes c WHERE c.ctid = ANY (ARRAY(
      SELECT o.ctid FROM outbox_breaker_changes o
      WHERE o.rail_type = v_rail AND o.changed_at < (
        SELECT k.changed_at FROM outbox_breaker_changes k WHERE k.rail_type = v_rail
        ORDER BY k.changed_at DESC OFFSET 999 LIMIT 1)
      FOR UPDATE SKIP LOCKED));
  END LOOP;
END
$$;
COMMENT ON FUNCTION record_breaker_changes(text, timestamptz, jsonb, jsonb) IS
  'Internal: stores the changes of circuit breakers between two reports of a worker, and keeps 1000 of each rail.';

CREATE OR REPLACE FUNCTION heartbeat_outbox_worker(p_worker_id text, p_detail jsonb DEFAULT '{}') RETURNS timestamptz
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_defect text := payload_defect(p_detail);
  v_before jsonb;
BEGIN
  PERFORM check_id('p_worker_id', p_worker_id);
  IF v_defect IS NOT NULL THEN
    PERFORM refuse_argument('p_detail', v_defect);
  END IF;
  PERFORM count_outbox_queue(50000);
  SELECT w.detail INTO v_before FROM outbox_workers w WHERE w.worker_id = p_worker_id FOR NO KEY UPDATE;
  INSERT INTO outbox_workers AS w (worker_id, started_at, last_seen_at, detail)
  VALUES (p_worker_id, v_now, v_now, p_detail)
  ON CONFLICT (worker_id) DO UPDATE
  SET started_at = CASE WHEN w.stopped_at IS NULL THEN w.started_at ELSE EXCLUDED.started_at END,
    last_seen_at = EXCLUDED.last_seen_at, detail = EXCLUDED.detail, stopped_at = NULL;
  PERFORM record_breaker_changes(p_worker_id, v_now, v_before, p_detail);
  -- SKIP LOCKED: workers that start at once after a long stop would deadlock on each other's rows.
  DELETE FROM outbox_workers w
  WHERE w.ctid = ANY (ARRAY(
    SELECT s.ctid FROM outbox_workers s WHERE s.last_seen_at < v_now - interval '1 day' FOR UPDATE SKIP LOCKED));
  RETURN v_now;
END
$$;
COMMENT ON FUNCTION heartbeat_outbox_worker(text, jsonb) IS
  'Records a heartbeat of a worker, with its report and the changes of its circuit breakers; removes workers without a '
  'heartbeat for a day. Returns the database time.';

CREATE OR REPLACE FUNCTION declare_outbox_rail(
  p_rail_type text, p_money boolean, p_fields jsonb, p_declared_by text, p_serving boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  -- From the least to the most strict. A forbidden field may be shown masked, an encrypted field never.
  v_classes CONSTANT text[] := ARRAY['public', 'masked', 'forbidden', 'encrypted'];
  v_defect text := payload_defect(p_fields);
  v_fields_kept integer;
BEGIN
  PERFORM check_id('p_rail_type', p_rail_type);
  PERFORM check_id('p_declared_by', p_declared_by);
  IF p_money IS NULL THEN
    PERFORM refuse_argument('p_money', 'true or false');
  END IF;
  IF p_serving IS NULL THEN
    PERFORM refuse_argument('p_serving', 'true or false');
  END IF;
  IF v_defect IS NOT NULL THEN
    PERFORM refuse_argument('p_fields', v_defect);
  END IF;
  IF EXISTS (
    SELECT FROM jsonb_each(p_fields) AS field(pointer, class)
    WHERE field.pointer COLLATE "C" !~ '^(/([^~/]|~[01])+){1,32}$'
      OR jsonb_typeof(field.class) <> 'string' OR field.class #>> '{}' <> ALL (v_classes)
  ) THEN
    PERFORM refuse_argument('p_fields',
      'an object from JSON pointer, such as /destination, to public, masked, forbidden or encrypted');
  END IF;
  -- A declaration cannot loosen an earlier one, so that a stolen login or an outdated process reveals nothing.
  INSERT INTO outbox_rails AS r
    (rail_type, money, fields, declared_by, declared_login, first_declared_at, last_declared_at, served_at)
  VALUES (p_rail_type, p_money, p_fields, p_declared_by, session_user, v_now, v_now, CASE WHEN p_serving THEN v_now END)
  ON CONFLICT (rail_type) DO UPDATE SET
    money = r.money OR EXCLUDED.money,
    fields = (
      SELECT COALESCE(jsonb_object_agg(merged.pointer, merged.class), '{}')
      FROM (
        SELECT field.pointer, v_classes[max(array_position(v_classes, field.class))] AS class
        FROM (SELECT * FROM jsonb_each_text(r.fields) UNION ALL SELECT * FROM jsonb_each_text(EXCLUDED.fields))
          AS field(pointer, class)
        GROUP BY field.pointer
      ) merged
    ),
    declared_by = EXCLUDED.declared_by,
    declared_login = EXCLUDED.declared_login,
    last_declared_at = EXCLUDED.last_declared_at,
    served_at = COALESCE(EXCLUDED.served_at, r.served_at)
  RETURNING (SELECT count(*) FROM jsonb_object_keys(fields)) INTO v_fields_kept;
  IF v_fields_kept > 1000 THEN
    PERFORM refuse_argument('p_fields', 'at most 1000 fields in all declarations of one rail');
  END IF;
END
$$;
COMMENT ON FUNCTION declare_outbox_rail(text, boolean, jsonb, text, boolean) IS
  'Records the field classes and the money flag of a rail. Of conflicting declarations the stricter value stays.';

CREATE OR REPLACE FUNCTION unserved_outbox_rails(p_rails text[]) RETURNS TABLE (rail_type text, served_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
  IF NOT is_id_list(p_rails) IS TRUE THEN
    PERFORM refuse_argument('p_rails', 'a plain list of 1 to 1000 rails');
  END IF;
  RETURN QUERY
  SELECT DISTINCT given.name, r.served_at
  FROM unnest(p_rails) AS given(name)
  LEFT JOIN outbox_rails r ON r.rail_type = given.name
  WHERE r.served_at IS NULL OR r.served_at < statement_timestamp() - interval '1 day';
END
$$;
COMMENT ON FUNCTION unserved_outbox_rails(text[]) IS
  'Returns the given rails that no worker has declared as served within a day, each with its served_at or null.';

CREATE OR REPLACE FUNCTION deregister_outbox_worker(p_worker_id text, p_detail jsonb DEFAULT '{}') RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_defect text := payload_defect(p_detail);
  v_before jsonb;
BEGIN
  PERFORM check_id('p_worker_id', p_worker_id);
  IF v_defect IS NOT NULL THEN
    PERFORM refuse_argument('p_detail', v_defect);
  END IF;
  SELECT w.detail INTO v_before FROM outbox_workers w WHERE w.worker_id = p_worker_id FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE outbox_workers w SET last_seen_at = v_now, stopped_at = v_now, detail = p_detail
  WHERE w.worker_id = p_worker_id;
  PERFORM record_breaker_changes(p_worker_id, v_now, v_before, p_detail);
  RETURN true;
END
$$;
COMMENT ON FUNCTION deregister_outbox_worker(text, jsonb) IS
  'Records that a worker stopped, with its last report; returns false if unknown. A heartbeat registers it again.';
