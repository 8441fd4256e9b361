-- Seals: blocks that close the ledger behind its writers, so that what is missing from its end is missed too.
--
-- Identities, attempts and events are covered; proposals are not, because every word of them is in an event. The chain
-- of hashes finds a row that was changed, and a gap; a block finds also that the last rows of a payment are gone, or all
-- of one. Whoever can rewrite rows can rewrite blocks: their heads are signed and kept outside (symphony ledger checkpoint).
--
-- The order is (recorded_xid, kind, id). A transaction's rows become visible when it commits, whenever that is, so the
-- order of writing is no order to cut by. But below the oldest number that is still running everything is decided: it is
-- committed and visible, or will never be. A block ends below that number, and no row can come to lie behind it.

CREATE OR REPLACE FUNCTION outbox_block_hash(
  p_block_no text, p_prev_hash text, p_row_count text, p_last_xid text, p_last_kind text, p_last_id text, p_root text,
  p_sealed_at text
) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
RETURN sha256(convert_to(concat(
  octet_length(p_block_no), ':', p_block_no, ',',
  octet_length(p_prev_hash), ':', p_prev_hash, ',',
  octet_length(p_row_count), ':', p_row_count, ',',
  octet_length(p_last_xid), ':', p_last_xid, ',',
  octet_length(p_last_kind), ':', p_last_kind, ',',
  octet_length(p_last_id), ':', p_last_id, ',',
  octet_length(p_root), ':', p_root, ',',
  octet_length(p_sealed_at), ':', p_sealed_at, ','), 'UTF8'));
COMMENT ON FUNCTION outbox_block_hash(text, text, text, text, text, text, text, text) IS
  'SHA-256 of a block and its predecessor.';

-- The first rows after a position whose transaction lies below a number, in order. The plan is pinned to the indexes: a
-- table that was analysed while empty would be read from end to end.
CREATE OR REPLACE FUNCTION unsealed_outbox_rows(
  p_after_xid bigint, p_after_kind smallint, p_after_id uuid, p_below_xid bigint, p_rows_max integer
) RETURNS TABLE (ordinal bigint, recorded_xid bigint, entry bytea)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: seal
  SELECT row_number() OVER (ORDER BY r.recorded_xid, r.kind, r.id), r.recorded_xid,
    int2send(r.kind) || uuid_send(r.id) || int8send(r.recorded_xid)
      -- Every entry is as long as every other, whatever somebody has put in the place of a hash.
      || CASE WHEN octet_length(r.row_hash) = 32 THEN r.row_hash ELSE sha256(COALESCE(r.row_hash, '')) END
  FROM (
    -- Each table gives its first rows, found and ordered by its index: what lies behind them, however much, is not read.
    SELECT u.* FROM (
      (SELECT i.recorded_xid, 1::smallint AS kind, i.outbox_id AS id, i.row_hash FROM payment_outbox_identities i
        WHERE i.recorded_xid >= p_after_xid AND i.recorded_xid < p_below_xid
          AND (i.recorded_xid, 1::smallint, i.outbox_id) > (p_after_xid, p_after_kind, p_after_id)
        ORDER BY i.recorded_xid, i.outbox_id LIMIT p_rows_max)
      UNION ALL
      (SELECT a.recorded_xid, 2::smallint, a.attempt_id, a.row_hash FROM payment_outbox_attempts a
        WHERE a.recorded_xid >= p_after_xid AND a.recorded_xid < p_below_xid
          AND (a.recorded_xid, 2::smallint, a.attempt_id) > (p_after_xid, p_after_kind, p_after_id)
        ORDER BY a.recorded_xid, a.attempt_id LIMIT p_rows_max)
      UNION ALL
      (SELECT e.recorded_xid, 3::smallint, e.event_id, e.row_hash FROM payment_outbox_events e
        WHERE e.recorded_xid >= p_after_xid AND e.recorded_xid < p_below_xid
          AND (e.recorded_xid, 3::smallint, e.event_id) > (p_after_xid, p_after_kind, p_after_id)
        ORDER BY e.recorded_xid, e.event_id LIMIT p_rows_max)
    ) u
    ORDER BY u.recorded_xid, u.kind, u.id
    LIMIT p_rows_max
  ) r
  ORDER BY 1
$$;
COMMENT ON FUNCTION unsealed_outbox_rows(bigint, smallint, uuid, bigint, integer) IS
  'Internal: rows of the ledger after a position and below a transaction, in the order of blocks, as entries of one.';

-- Closes one block off the hot path: it takes no lock that a writer of the ledger would wait for. Of several callers one
-- seals; the others find its block locked, or their number taken, and go on without.
CREATE OR REPLACE FUNCTION seal_ledger_block(p_rows_max integer)
RETURNS TABLE (block_no bigint, row_count integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_last_no bigint;
  v_xid bigint := 0;
  v_kind smallint := 0;
  v_id uuid := '00000000-0000-0000-0000-000000000000'::uuid;
  v_prev_hash bytea;
  v_horizon bigint;
  v_below bigint;
BEGIN
  IF p_rows_max IS NULL OR p_rows_max NOT BETWEEN 1 AND 100000 THEN
    PERFORM refuse_argument('p_rows_max', 'a whole number from 1 to 100000');
  END IF;
  SELECT max(b.block_no) INTO v_last_no FROM payment_outbox_blocks b;
  IF v_last_no IS NOT NULL THEN
    SELECT b.last_xid, b.last_kind, b.last_id, b.block_hash INTO v_xid, v_kind, v_id, v_prev_hash
    FROM payment_outbox_blocks b WHERE b.block_no = v_last_no FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      RETURN;
    END IF;
  END IF;
  -- Read before the rows: whatever lies below it is visible to every later look.
  v_horizon := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
  -- What is sealed lay below the horizon of its time, and the horizon only rises; unless the rows were copied to a server
  -- that counts from an earlier number. What it writes would lie behind the last block, in none.
  IF v_horizon <= v_xid THEN
    RAISE EXCEPTION 'the last block ends at transaction %, and this server has only reached %', v_xid, v_horizon
      USING ERRCODE = 'object_not_in_prerequisite_state',
        HINT = 'The rows were copied from another server. Raise the number here (pg_resetwal -x) above the last block''s.';
  END IF;
  -- A long backlog is not read to its end for each block: the window widens until it holds enough.
  v_below := v_xid + p_rows_max;
  WHILE v_below < v_horizon
    AND (SELECT count(*) FROM unsealed_outbox_rows(v_xid, v_kind, v_id, v_below, p_rows_max)) < p_rows_max
  LOOP
    v_below := v_xid + 4 * (v_below - v_xid);
  END LOOP;
  RETURN QUERY
  WITH content AS MATERIALIZED (
    SELECT count(*)::integer AS row_count, max(r.recorded_xid) AS last_xid, string_agg(r.entry, '' ORDER BY r.ordinal) AS entries,
      clock_timestamp() AS sealed_at
    FROM unsealed_outbox_rows(v_xid, v_kind, v_id, LEAST(v_below, v_horizon), p_rows_max) r
  ), ended AS MATERIALIZED (
    -- The last entry says where the block ends.
    SELECT c.*, sha256(c.entries) AS root, get_byte(c.entries, 58 * c.row_count - 57)::smallint AS last_kind,
      encode(substring(c.entries FROM 58 * c.row_count - 55 FOR 16), 'hex')::uuid AS last_id
    FROM content c WHERE c.row_count > 0
  )
  INSERT INTO payment_outbox_blocks AS b
    (block_no, row_count, last_xid, last_kind, last_id, entries, root, prev_hash, block_hash, sealed_at)
  SELECT COALESCE(v_last_no, 0) + 1, z.row_count, z.last_xid, z.last_kind, z.last_id, z.entries, z.root, v_prev_hash,
    outbox_block_hash((COALESCE(v_last_no, 0) + 1)::text, encode(v_prev_hash, 'hex'), z.row_count::text, z.last_xid::text,
      z.last_kind::text, z.last_id::text, encode(z.root, 'hex'), epoch_micros(z.sealed_at)::text),
    z.sealed_at
  FROM ended z
  ON CONFLICT DO NOTHING
  RETURNING b.block_no, b.row_count;
END
$$;
COMMENT ON FUNCTION seal_ledger_block(integer) IS
  'Seals the next rows of the ledger whose transactions are all decided; no row if there are none, or another is at it.';

-- Names the transaction that keeps the ledger from being sealed. Everybody may see the id of a session's transaction, its user and
-- its application; the start of the transaction only members of pg_read_all_stats, so that the age may be null.
CREATE OR REPLACE FUNCTION ledger_sealing_status()
RETURNS TABLE (
  unsealed_age_seconds double precision, blocker_pid integer, blocker_user text, blocker_application text,
  blocker_database text, blocker_age_seconds double precision, blocker_prepared text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: ordered
#variable_conflict use_column
DECLARE
  v_now CONSTANT timestamptz := clock_timestamp();
  v_horizon CONSTANT xid8 := pg_snapshot_xmin(pg_current_snapshot());
  v_last payment_outbox_blocks;
  v_first record;
BEGIN
  SELECT * INTO v_last FROM payment_outbox_blocks b ORDER BY b.block_no DESC LIMIT 1;
  v_last.last_xid := COALESCE(v_last.last_xid, 0);
  v_last.last_kind := COALESCE(v_last.last_kind, 0::smallint);
  v_last.last_id := COALESCE(v_last.last_id, '00000000-0000-0000-0000-000000000000');
  SELECT r.recorded_xid, r.created_at INTO v_first FROM (
    (SELECT i.recorded_xid, i.created_at FROM payment_outbox_identities i
      WHERE i.recorded_xid >= v_last.last_xid
        AND (i.recorded_xid, 1::smallint, i.outbox_id) > (v_last.last_xid, v_last.last_kind, v_last.last_id)
      ORDER BY i.recorded_xid LIMIT 1)
    UNION ALL
    (SELECT a.recorded_xid, a.created_at FROM payment_outbox_attempts a
      WHERE a.recorded_xid >= v_last.last_xid
        AND (a.recorded_xid, 2::smallint, a.attempt_id) > (v_last.last_xid, v_last.last_kind, v_last.last_id)
      ORDER BY a.recorded_xid LIMIT 1)
    UNION ALL
    (SELECT e.recorded_xid, e.created_at FROM payment_outbox_events e
      WHERE e.recorded_xid >= v_last.last_xid
        AND (e.recorded_xid, 3::smallint, e.event_id) > (v_last.last_xid, v_last.last_kind, v_last.last_id)
      ORDER BY e.recorded_xid LIMIT 1)
  ) r ORDER BY r.created_at LIMIT 1;
  unsealed_age_seconds := COALESCE(GREATEST(extract(epoch FROM v_now - v_first.created_at), 0), 0);
  -- Below the horizon every row can be sealed: then no transaction is in the way, and the sealer is late or does not run.
  SELECT t.pid, t.username, t.application, t.datname, t.age_seconds, t.gid
  INTO blocker_pid, blocker_user, blocker_application, blocker_database, blocker_age_seconds, blocker_prepared
  FROM (
    SELECT a.pid, a.usename::text AS username, a.application_name AS application, a.datname::text AS datname,
      extract(epoch FROM v_now - a.xact_start)::double precision AS age_seconds, NULL::text AS gid
    FROM pg_stat_activity a WHERE a.backend_xid = v_horizon::xid
    UNION ALL
    SELECT NULL, x.owner::text, NULL, x.database::text, extract(epoch FROM v_now - x.prepared)::double precision, x.gid
    FROM pg_prepared_xacts x WHERE x.transaction = v_horizon::xid
  ) t
  WHERE v_first.recorded_xid >= v_horizon::text::bigint LIMIT 1;
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION ledger_sealing_status() IS
  'Age of the oldest row of the ledger that is in no block, and the session or prepared transaction that keeps it from being sealed.';

CREATE OR REPLACE FUNCTION record_ledger_verification(p_rows_checked bigint, p_break_count bigint) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
BEGIN
  IF p_rows_checked IS NULL OR p_rows_checked < 0 THEN
    PERFORM refuse_argument('p_rows_checked', '0 or more');
  END IF;
  IF p_break_count IS NULL OR p_break_count < 0 THEN
    PERFORM refuse_argument('p_break_count', '0 or more');
  END IF;
  INSERT INTO ledger_verifications (verification_id, verified_at, verified_by, rows_checked, break_count)
  VALUES (uuid_v7(), v_now, session_user, p_rows_checked, p_break_count);
  RETURN v_now;
END
$$;
COMMENT ON FUNCTION record_ledger_verification(bigint, bigint) IS
  'Records what a verification of the ledger found; returns when. Every process derives its alert from the last record.';
