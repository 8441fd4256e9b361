-- Sealing of the ledger in blocks, which hold a hash of each row. docs/internals/ledger-chain.md describes them.
--
-- A block covers identities, attempts and events in the order (recorded_xid, kind, id). Transactions commit in any
-- order, but below the oldest running transaction each row is either visible or rolled back. A block ends below that
-- transaction, so no row can appear inside it later.
--
-- A superuser can rewrite rows and blocks. The heads of blocks are therefore signed and kept outside the database
-- (symphony ledger checkpoint).

-- Kinds: 1 identity, 2 attempt, 3 event. An entry is kind, id, recorded_xid and the SHA-256 of the row in PostgreSQL's
-- binary form of a record. The lists of columns are format 1; libs/ledger/formats.ts has the same lists, and a test
-- compares them. A changed list is a new format: verification of a block uses the lists of its format.
CREATE OR REPLACE FUNCTION outbox_block_entries(
  p_after_xid bigint, p_after_kind smallint, p_after_id uuid, p_last_xid bigint, p_last_kind smallint, p_last_id uuid,
  p_rows_max integer
) RETURNS TABLE (recorded_xid bigint, entry bytea)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: seal
  SELECT r.recorded_xid, int2send(r.kind) || uuid_send(r.id) || int8send(r.recorded_xid) || r.hash
  FROM (
    SELECT i.recorded_xid, 1::smallint AS kind, i.outbox_id AS id, sha256(record_send(ROW(i.outbox_id, i.instruction_id,
      i.idempotency_key,
      i.participant_id, i.sequence_id, i.rail_type, i.ordered, i.redrive_of, i.content_hash, i.created_at, i.is_message,
      i.key_scope, i.stream_position, i.outcome_topic, i.replaces))) AS hash
    FROM (
      SELECT * FROM payment_outbox_identities i
      WHERE i.recorded_xid >= p_after_xid AND i.recorded_xid <= p_last_xid
        AND (i.recorded_xid, 1::smallint, i.outbox_id) > (p_after_xid, p_after_kind, p_after_id)
        AND (i.recorded_xid, 1::smallint, i.outbox_id) <= (p_last_xid, p_last_kind, p_last_id)
      ORDER BY i.recorded_xid, i.outbox_id LIMIT p_rows_max
    ) i
    UNION ALL
    SELECT a.recorded_xid, 2::smallint, a.attempt_id, sha256(record_send(ROW(a.attempt_id, a.outbox_id,
      a.instruction_id,
      a.participant_id, a.sequence_id, a.idempotency_key, a.rail_type, a.payload, a.attempt_no, a.state::text,
      a.claimed_at,
      a.completed_at, a.rail_reference, a.rail_code, a.error_code, a.error_message, a.latency_ms, a.worker_id,
      sha256(uuid_send(a.lease_token)), a.created_at, a.action, a.outcome_unknown)))
    FROM (
      SELECT * FROM payment_outbox_attempts a
      WHERE a.recorded_xid >= p_after_xid AND a.recorded_xid <= p_last_xid
        AND (a.recorded_xid, 2::smallint, a.attempt_id) > (p_after_xid, p_after_kind, p_after_id)
        AND (a.recorded_xid, 2::smallint, a.attempt_id) <= (p_last_xid, p_last_kind, p_last_id)
      ORDER BY a.recorded_xid, a.attempt_id LIMIT p_rows_max
    ) a
    UNION ALL
    SELECT e.recorded_xid, 3::smallint, e.event_id, sha256(record_send(ROW(e.event_id, e.outbox_id, e.scope, e.event_no,
      e.event_type, e.attempt_id, e.actor, e.detail, e.created_at)))
    FROM (
      SELECT * FROM payment_outbox_events e
      WHERE e.recorded_xid >= p_after_xid AND e.recorded_xid <= p_last_xid
        AND (e.recorded_xid, 3::smallint, e.event_id) > (p_after_xid, p_after_kind, p_after_id)
        AND (e.recorded_xid, 3::smallint, e.event_id) <= (p_last_xid, p_last_kind, p_last_id)
      ORDER BY e.recorded_xid, e.event_id LIMIT p_rows_max
    ) e
    ORDER BY recorded_xid, kind, id
    LIMIT p_rows_max
  ) r
$$;
COMMENT ON FUNCTION outbox_block_entries(bigint, smallint, uuid, bigint, smallint, uuid, integer) IS
  'Internal: returns the entries of the ledger''s rows after one position and up to another, in the order of blocks.';

-- A leaf of the tree is the SHA-256 of four entries. An inner node is the SHA-256 of four nodes of the level below.
CREATE OR REPLACE FUNCTION outbox_block_root(p_entries bytea) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_level bytea := p_entries;
  v_width integer := 4 * 58;
BEGIN
  LOOP
    SELECT string_agg(sha256(substring(v_level FROM n FOR v_width)), '' ORDER BY n) INTO v_level
    FROM generate_series(1, octet_length(v_level), v_width) AS n;
    EXIT WHEN COALESCE(octet_length(v_level), 0) <= 32;
    v_width := 4 * 32;
  END LOOP;
  RETURN v_level;
END
$$;
COMMENT ON FUNCTION outbox_block_root(bytea) IS 'Internal: returns the root of the hash tree over a block''s entries.';

CREATE OR REPLACE FUNCTION outbox_block_hash(p_block payment_outbox_blocks) RETURNS bytea
LANGUAGE sql STABLE
RETURN sha256(record_send(ROW((p_block).block_no, (p_block).format, (p_block).prev_hash, (p_block).row_count,
  (p_block).last_xid, (p_block).last_kind, (p_block).last_id, (p_block).root, (p_block).sealed_at)));
COMMENT ON FUNCTION outbox_block_hash(payment_outbox_blocks) IS 'Internal: returns the SHA-256 of the head of a block.';

-- record_send uses client_encoding: in another encoding the same row has other bytes and another hash.
CREATE OR REPLACE FUNCTION require_utf8_session() RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  IF pg_client_encoding() <> 'UTF8' THEN
    RAISE EXCEPTION 'the ledger is sealed and verified in UTF8, and client_encoding is %', pg_client_encoding()
      USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'SET client_encoding TO UTF8 in this session.';
  END IF;
END
$$;
COMMENT ON FUNCTION require_utf8_session() IS 'Internal: raises 55000 unless client_encoding is UTF8.';

-- Seals one block. No writer of the ledger waits for it. Of several callers one seals; the others find the last block
-- locked, or the number taken, and return no row.
CREATE OR REPLACE FUNCTION seal_ledger_block(p_rows_max integer, p_interval_ms integer DEFAULT 0)
RETURNS TABLE (block_no bigint, row_count integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_last payment_outbox_blocks;
  v_block payment_outbox_blocks;
  v_horizon bigint;
BEGIN
  IF p_rows_max IS NULL OR p_rows_max NOT BETWEEN 1 AND 100000 THEN
    PERFORM refuse_argument('p_rows_max', 'a whole number from 1 to 100000');
  END IF;
  IF p_interval_ms IS NULL OR p_interval_ms NOT BETWEEN 0 AND 3600000 THEN
    PERFORM refuse_argument('p_interval_ms', 'a whole number from 0 to 3600000');
  END IF;
  PERFORM require_utf8_session();

  -- 1. Lock the last block.
  SELECT max(b.block_no) INTO v_last.block_no FROM payment_outbox_blocks b;
  IF v_last.block_no IS NOT NULL THEN
    SELECT b.row_count, b.last_xid, b.last_kind, b.last_id, b.block_hash, b.sealed_at
    INTO v_last.row_count, v_last.last_xid, v_last.last_kind, v_last.last_id, v_last.block_hash, v_last.sealed_at
    FROM payment_outbox_blocks b WHERE b.block_no = v_last.block_no FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      RETURN;
    END IF;
    -- Without an interval between partial blocks, each of many workers would add a small one. If the
    -- clock was set back, sealed_at may be in the future; the interval is then ignored.
    IF v_last.row_count < p_rows_max
      AND clock_timestamp() >= v_last.sealed_at
      AND clock_timestamp() < v_last.sealed_at + make_interval(secs => p_interval_ms / 1000.0)
    THEN
      RETURN;
    END IF;
  END IF;
  v_last.last_xid := COALESCE(v_last.last_xid, 0);

  -- 2. Read the horizon, the oldest running transaction, before the rows: the next statement sees each row below it.
  v_horizon := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
  -- The horizon of one server only rises. If the rows were copied to a server with lower transaction numbers, its new
  -- rows would sort before the end of the last block.
  IF v_horizon <= v_last.last_xid THEN
    RAISE EXCEPTION 'the last block ends at transaction %, and this server has only reached %', v_last.last_xid,
      v_horizon
      USING ERRCODE = 'object_not_in_prerequisite_state',
        HINT = 'The rows were copied from another server. Raise the next transaction id past the last block '
          '(pg_resetwal -x).';
  END IF;

  -- 3. Write the block.
  SELECT string_agg(e.entry, '' ORDER BY e.ordinality), count(*), max(e.recorded_xid)
  INTO v_block.entries, v_block.row_count, v_block.last_xid
  FROM outbox_block_entries(v_last.last_xid, COALESCE(v_last.last_kind, 0::smallint),
    COALESCE(v_last.last_id, '00000000-0000-0000-0000-000000000000'), v_horizon - 1, 3::smallint,
    'ffffffff-ffff-ffff-ffff-ffffffffffff', p_rows_max) WITH ORDINALITY e;
  IF v_block.row_count = 0 THEN
    RETURN;
  END IF;
  v_block.block_no := COALESCE(v_last.block_no, 0) + 1;
  v_block.format := 1;
  IF v_block.row_count < p_rows_max THEN
    -- A partial block covers everything below the horizon, so that a row added there later is detected.
    v_block.last_xid := v_horizon - 1;
    v_block.last_kind := 3;
    v_block.last_id := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  ELSE
    -- A full block ends with its last entry.
    v_block.last_kind := get_byte(v_block.entries, 58 * v_block.row_count - 57);
    v_block.last_id := encode(substring(v_block.entries FROM 58 * v_block.row_count - 55 FOR 16), 'hex')::uuid;
  END IF;
  v_block.root := outbox_block_root(v_block.entries);
  v_block.prev_hash := v_last.block_hash;
  v_block.sealed_at := clock_timestamp();
  v_block.block_hash := outbox_block_hash(v_block);
  RETURN QUERY
  INSERT INTO payment_outbox_blocks AS b SELECT v_block.* ON CONFLICT DO NOTHING RETURNING b.block_no, b.row_count;
END
$$;
COMMENT ON FUNCTION seal_ledger_block(integer, integer) IS
  'Seals the next rows of the ledger whose transactions have ended. Returns no row if there is nothing to seal, '
  'another session seals, or the last block is partial and younger than the interval.';

-- One pass covers all blocks, then the next pass begins; ledger_verification_passes stores the position. Workers may
-- call this function at any rate: it limits the rate itself.
--
-- The function finds a change by a superuser who left these functions unchanged. symphony ledger verify does not rely
-- on these functions, because it recomputes the hashes outside the database.
CREATE OR REPLACE FUNCTION verify_ledger_block(p_rows_per_second integer, p_pass_seconds integer)
RETURNS TABLE (block_no bigint, row_count integer, breaks text[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_pass ledger_verification_passes;
  v_before payment_outbox_blocks;
  v_block payment_outbox_blocks;
  v_now CONSTANT timestamptz := clock_timestamp();
  v_entries bytea;
  v_count integer;
  v_breaks text[] := '{}'::text[];
BEGIN
  IF p_rows_per_second IS NULL OR p_rows_per_second NOT BETWEEN 1 AND 1000000 THEN
    PERFORM refuse_argument('p_rows_per_second', 'a whole number from 1 to 1000000');
  END IF;
  IF p_pass_seconds IS NULL OR p_pass_seconds NOT BETWEEN 0 AND 2592000 THEN
    PERFORM refuse_argument('p_pass_seconds', 'a whole number from 0 to 2592000');
  END IF;
  PERFORM require_utf8_session();
  SELECT * INTO v_pass FROM ledger_verification_passes p WHERE p.next_at <= v_now FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN;
  END IF;

  -- 1. End the pass after the last block.
  SELECT * INTO v_block FROM payment_outbox_blocks b WHERE b.block_no > v_pass.last_block ORDER BY b.block_no LIMIT 1;
  IF NOT FOUND THEN
    IF v_pass.last_block > 0 THEN
      PERFORM record_ledger_verification(v_pass.rows_checked, v_pass.break_count);
    END IF;
    UPDATE ledger_verification_passes p
    SET last_block = 0, rows_checked = 0, break_count = 0, began_at = NULL,
      next_at = GREATEST(v_now + interval '1 second', p.began_at + make_interval(secs => p_pass_seconds));
    RETURN;
  END IF;

  -- 2. Check the block itself.
  SELECT * INTO v_before
  FROM payment_outbox_blocks b WHERE b.block_no < v_block.block_no ORDER BY b.block_no DESC LIMIT 1;
  IF v_block.block_no <> v_pass.last_block + 1 OR v_block.prev_hash IS DISTINCT FROM v_before.block_hash THEN
    v_breaks := v_breaks || format('block %s: does not follow the block before it', v_block.block_no);
  END IF;
  IF v_block.format <> 1 OR v_block.block_hash IS DISTINCT FROM outbox_block_hash(v_block)
    OR v_block.root IS DISTINCT FROM outbox_block_root(v_block.entries)
  THEN
    v_breaks := v_breaks || format('block %s: differs from its hash', v_block.block_no);
  END IF;

  -- 3. Compare the entries of the block with its rows.
  SELECT COALESCE(string_agg(e.entry, '' ORDER BY e.ordinality), ''), count(*) INTO v_entries, v_count
  FROM outbox_block_entries(COALESCE(v_before.last_xid, '-9223372036854775808'),
    COALESCE(v_before.last_kind, 0::smallint), COALESCE(v_before.last_id, '00000000-0000-0000-0000-000000000000'),
    v_block.last_xid, v_block.last_kind, v_block.last_id, 1000000) WITH ORDINALITY e;
  IF v_entries <> v_block.entries THEN
    v_breaks := v_breaks || ARRAY(
      SELECT format('%s %s: %s', (ARRAY['identity', 'attempt', 'event'])[get_byte(COALESCE(s.entry, f.entry), 1)],
        encode(substring(COALESCE(s.entry, f.entry) FROM 3 FOR 16), 'hex')::uuid,
        CASE WHEN f.entry IS NULL THEN 'sealed, and missing' WHEN s.entry IS NULL
          THEN 'was not there when its block was sealed'
          ELSE 'differs from what was sealed' END)
      FROM (SELECT substring(v_block.entries FROM n FOR 58) AS entry
        FROM generate_series(1, octet_length(v_block.entries), 58) AS n) s
      FULL JOIN (SELECT substring(v_entries FROM n FOR 58) AS entry
        FROM generate_series(1, octet_length(v_entries), 58) AS n) f
        ON substring(f.entry FROM 1 FOR 18) = substring(s.entry FROM 1 FOR 18)
      WHERE f.entry IS DISTINCT FROM s.entry
        -- If blocks before this one are missing, their rows appear here and are not reported again.
        AND (s.entry IS NOT NULL OR v_block.block_no = COALESCE(v_before.block_no, 0) + 1)
      LIMIT 100);
  END IF;

  -- 4. Move the position of the pass.
  UPDATE ledger_verification_passes p
  SET last_block = v_block.block_no, rows_checked = p.rows_checked + v_count, began_at = COALESCE(p.began_at, v_now),
    break_count = p.break_count + cardinality(v_breaks),
    -- A block counts as at least 50 rows. After idle time the rate may be exceeded by the rows of one second.
    next_at = GREATEST(p.next_at, v_now - interval '1 second')
      + make_interval(secs => GREATEST(v_count, 50)::double precision / p_rows_per_second)
  RETURNING p.* INTO v_pass;
  IF v_breaks <> '{}' THEN
    -- Recorded at once, so that the alert does not wait for the end of the pass.
    PERFORM record_ledger_verification(v_pass.rows_checked, v_pass.break_count);
  END IF;
  RETURN QUERY SELECT v_block.block_no, v_count, v_breaks;
END
$$;
COMMENT ON FUNCTION verify_ledger_block(integer, integer) IS
  'Compares the next block of the ledger with its rows, at a limited rate, and records each break and each completed '
  'pass. Returns no row if no block is due, or another session verifies.';

-- Any role may read the transaction id, user and application of a session. The start of its transaction needs
-- pg_read_all_stats, so the age may be null.
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
  -- If the oldest unsealed row is below the horizon, no transaction blocks sealing: the sealer is late or does not run.
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
  'Returns the age of the oldest unsealed row of the ledger, and the session or prepared transaction that prevents its '
  'sealing.';

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
  'Records the result of a verification of the ledger; returns the time. Every process derives its alert from the last '
  'record.';
