-- The restore guard. A restored backup, or a standby promoted before all commits had reached it, may lack outcomes of
-- payments that the rail has made. Its queue would send them again. The database therefore records the server it runs
-- on. On another server dispatch starts only if no commit can be lost, or after an operator has lifted the freeze.
--
--   epoch    one run of one server: the first claim or check after each start begins it
--   beat     heartbeat of the workers, numbered within its epoch; each worker keeps the latest number it received
--   freeze   claims return nothing and no marked dispatch begins; enqueue, complete, renew, release and repair stay
--            possible. The outcome of every pending item becomes unknown, so that the policy of its rail decides
--
-- Two comparisons find a loss. The server differs from the server of the last epoch after a dump restored elsewhere, a
-- recovery to a point in time, or a failover. An older copy on the same server, which looks like a restart, lacks a
-- worker's last heartbeat. docs/operate/restore.md lists the cases that neither comparison finds.

-- Workers call this function when they start, when their server has changed, and with each heartbeat. The arguments are
-- the values that the worker's previous call returned, null at the first call.
CREATE OR REPLACE FUNCTION check_dispatch_epoch(
  p_worker_id text, p_epoch_id uuid DEFAULT NULL, p_beat_no bigint DEFAULT NULL, p_beat_at timestamptz DEFAULT NULL
) RETURNS TABLE (
  epoch_id uuid, beat_no bigint, beat_at timestamptz, frozen_at timestamptz, freeze_cause text, freeze_reason text,
  marked boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_epoch dispatch_epochs;
  v_frozen_before timestamptz;
  v_synchronous CONSTANT boolean := is_replicated_synchronously();
  v_now timestamptz;
BEGIN
  PERFORM check_id('p_worker_id', p_worker_id);
  IF num_nulls(p_epoch_id, p_beat_no, p_beat_at) <> 3 THEN
    IF p_epoch_id IS NULL THEN
      PERFORM refuse_argument('p_epoch_id', 'the epoch_id of the previous call');
    END IF;
    IF p_beat_no IS NULL OR p_beat_no < 0 THEN
      PERFORM refuse_argument('p_beat_no', 'the beat_no of the previous call, 0 or more');
    END IF;
    PERFORM check_time('p_beat_at', p_beat_at);
  END IF;
  SELECT e.frozen_at INTO v_frozen_before FROM dispatch_epochs e ORDER BY e.epoch_no DESC LIMIT 1;
  v_epoch := current_dispatch_epoch(p_worker_id);
  IF p_epoch_id IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM dispatch_epochs e WHERE e.epoch_id = p_epoch_id AND e.beat_no >= p_beat_no)
    -- A heartbeat from before the latest lift shows no new loss: the operator has decided about the earlier loss. Nor
    -- does one from before a freeze in force, which has marked what that loss concerns.
    AND p_beat_at > COALESCE((SELECT max(e.lifted_at) FROM dispatch_epochs e), '-infinity')
    AND (NOT v_epoch.frozen OR p_beat_at > v_epoch.frozen_at)
  THEN
    PERFORM freeze_dispatch_epoch(v_epoch.epoch_no, 'LOST_COMMITS',
      format('worker %s received heartbeat %s at %s, which this database does not have: its data is older',
        p_worker_id, p_beat_no, to_char(p_beat_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')), p_worker_id);
  -- The call that freezes does not mark items, because a statement_timeout in a long queue would roll the freeze back.
  ELSIF v_epoch.frozen AND v_epoch.frozen_at = v_frozen_before THEN
    PERFORM mark_frozen_outbox_items(v_epoch.epoch_no, p_worker_id);
  END IF;
  v_now := clock_timestamp();
  -- At most one write per second, and no worker waits for the write of another.
  UPDATE dispatch_epochs e SET beat_no = e.beat_no + 1, beat_at = v_now, synchronous = v_synchronous
  WHERE e.ctid = ANY (ARRAY(
    SELECT n.ctid FROM dispatch_epochs n
    WHERE n.epoch_no = v_epoch.epoch_no
      AND (n.beat_no = 0 OR n.synchronous <> v_synchronous
        OR n.beat_at NOT BETWEEN v_now - interval '1 second' AND v_now)
    FOR NO KEY UPDATE SKIP LOCKED));
  RETURN QUERY
  SELECT e.epoch_id, e.beat_no, e.beat_at, CASE WHEN e.frozen THEN e.frozen_at END,
    CASE WHEN e.frozen THEN e.freeze_cause END, CASE WHEN e.frozen THEN e.freeze_reason END, e.marked_at IS NOT NULL
  FROM dispatch_epochs e WHERE e.epoch_no = v_epoch.epoch_no;
END
$$;
COMMENT ON FUNCTION check_dispatch_epoch(text, uuid, bigint, timestamptz) IS
  'Records a heartbeat. Compares the server and the worker''s previous heartbeat with the data; freezes dispatch if '
  'commits may be lost.';

CREATE OR REPLACE FUNCTION freeze_dispatch(p_reason text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
DECLARE
  v_actor text := outbox_actor();
  v_epoch dispatch_epochs;
BEGIN
  PERFORM check_text('p_reason', p_reason, 1000);
  v_epoch := current_dispatch_epoch(v_actor);
  RETURN freeze_dispatch_epoch(v_epoch.epoch_no, 'OPERATOR', p_reason, v_actor);
END
$$;
COMMENT ON FUNCTION freeze_dispatch(text) IS
  'Freezes dispatch, for a restore that no check finds; returns false if it is already frozen. The outcome of pending '
  'items becomes unknown.';

CREATE OR REPLACE FUNCTION lift_dispatch_freeze(p_reason text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_epoch dispatch_epochs;
BEGIN
  PERFORM check_text('p_reason', p_reason, 1000);
  SELECT * INTO v_epoch FROM dispatch_epochs e ORDER BY e.epoch_no DESC LIMIT 1 FOR UPDATE;
  IF v_epoch.frozen IS NOT TRUE THEN
    RETURN false;
  END IF;
  PERFORM mark_frozen_outbox_items(v_epoch.epoch_no, v_actor);
  UPDATE dispatch_epochs e SET lifted_at = clock_timestamp(), lifted_by = v_actor, lift_reason = p_reason
  WHERE e.epoch_no = v_epoch.epoch_no;
  PERFORM append_outbox_scope_event('RESUMED', v_actor, 'dispatch', jsonb_build_object('reason', p_reason,
    'cause', v_epoch.freeze_cause, 'frozen_at', epoch_micros(v_epoch.frozen_at)));
  PERFORM wake_outbox_workers();
  RETURN true;
END
$$;
COMMENT ON FUNCTION lift_dispatch_freeze(text) IS
  'Lifts the freeze, after an operator has compared the ledger with the rail; returns false if not frozen. The outcome '
  'of marked items stays unknown.';

-- Called before each marked dispatch, and by a claim that read no open epoch. Start time, database and table oid show
-- another server or database without reading a file. The function uses the planner settings of its caller.
CREATE OR REPLACE FUNCTION is_dispatch_open(p_epoch_id uuid, p_actor text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_epoch_id uuid;
  v_frozen boolean;
  v_epoch dispatch_epochs;
BEGIN
  SELECT e.epoch_id, e.frozen INTO v_epoch_id, v_frozen
  FROM (SELECT n.*, n.tableoid AS own_oid FROM dispatch_epochs n ORDER BY n.epoch_no DESC LIMIT 1) e
  WHERE e.server_started_at = pg_postmaster_start_time() AND e.database_name = current_database()
    AND e.table_oid = e.own_oid;
  IF p_epoch_id IS NOT NULL AND (v_epoch_id IS DISTINCT FROM p_epoch_id OR v_frozen) THEN
    PERFORM raise_dispatch_frozen(v_frozen);
  END IF;
  IF v_epoch_id IS NULL THEN
    v_epoch := current_dispatch_epoch(p_actor);
    v_frozen := v_epoch.frozen;
  END IF;
  RETURN NOT v_frozen;
END
$$;
COMMENT ON FUNCTION is_dispatch_open(uuid, text) IS
  'Internal: returns whether claims are allowed now; raises P7009 for a worker with an ended or frozen epoch.';

CREATE OR REPLACE FUNCTION raise_dispatch_frozen(p_frozen boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  IF p_frozen THEN
    RAISE EXCEPTION 'DISPATCH_FROZEN: dispatch is frozen, because commits may have been lost'
      USING ERRCODE = 'P7009', HINT = 'Run symphony freeze show and compare the ledger with the rail. '
        'Then run symphony freeze lift --reason ….';
  END IF;
  RAISE EXCEPTION 'DISPATCH_FROZEN: the server has changed since the last heartbeat of this worker'
    USING ERRCODE = 'P7009', HINT = 'Call check_dispatch_epoch with the values of its previous answer.';
END
$$;
COMMENT ON FUNCTION raise_dispatch_frozen(boolean) IS
  'Internal: raises P7009 for a freeze, or for a server that has changed.';

CREATE OR REPLACE FUNCTION current_dispatch_epoch(p_actor text) RETURNS dispatch_epochs
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_epoch dispatch_epochs;
BEGIN
  SELECT * INTO v_epoch FROM dispatch_epochs e ORDER BY e.epoch_no DESC LIMIT 1;
  IF v_epoch.server_started_at = pg_postmaster_start_time() AND v_epoch.database_name = current_database()
    AND v_epoch.table_oid = 'dispatch_epochs'::regclass
  THEN
    RETURN v_epoch;
  END IF;
  PERFORM begin_dispatch_epoch(v_epoch.epoch_no, p_actor);
  SELECT * INTO v_epoch FROM dispatch_epochs e ORDER BY e.epoch_no DESC LIMIT 1;
  RETURN v_epoch;
END
$$;
COMMENT ON FUNCTION current_dispatch_epoch(text) IS
  'Internal: returns the epoch of this run of the server; the first call begins it.';

-- Distinguishes a start, a failover and a restore.
CREATE OR REPLACE FUNCTION begin_dispatch_epoch(p_last_epoch_no integer, p_actor text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_last dispatch_epochs;
  v_epoch_no CONSTANT integer := COALESCE(p_last_epoch_no, 0) + 1;
  v_server record;
  v_cause text;
  v_reason text;
  v_doubt text;
BEGIN
  -- Reads the epoch that the caller saw, not the newest: a concurrent session may already have begun the next one.
  SELECT * INTO v_last FROM dispatch_epochs e WHERE e.epoch_no = p_last_epoch_no;
  SELECT s.system_identifier, s.timeline, s.database_oid, s.recovery_target INTO v_server FROM server_identity() s;
  -- The new epoch copies a freeze, which outlives a restart. A concurrent session that begins the same epoch waits here
  -- and finds a conflict.
  INSERT INTO dispatch_epochs
    (epoch_no, epoch_id, began_at, system_identifier, timeline, database_oid, server_started_at, database_name,
      table_oid, beat_at, synchronous, frozen_at, freeze_cause, freeze_reason, frozen_by, marked_at, items_marked)
  SELECT v_epoch_no, gen_random_uuid(), v_now, v_server.system_identifier, v_server.timeline, v_server.database_oid,
    pg_postmaster_start_time(), current_database(), 'dispatch_epochs'::regclass, v_now, is_replicated_synchronously(),
    f.frozen_at, f.freeze_cause, f.freeze_reason, f.frozen_by, f.marked_at, f.items_marked
  FROM (SELECT 1) AS one
  LEFT JOIN dispatch_epochs f ON f.epoch_no = p_last_epoch_no AND f.frozen
  ON CONFLICT (epoch_no) DO NOTHING;
  IF NOT FOUND OR p_last_epoch_no IS NULL THEN
    RETURN;
  END IF;
  -- A null on either side means unknown and counts as equal.
  IF v_server.system_identifier <> v_last.system_identifier THEN
    v_cause := 'ANOTHER_SERVER';
    v_reason := format('the server has system identifier %s, the previous one had %s',
      v_server.system_identifier, v_last.system_identifier);
  ELSIF v_server.database_oid <> v_last.database_oid THEN
    v_cause := 'ANOTHER_DATABASE';
    v_reason := format('the database %s is a copy or a restored dump: its oid is %s and was %s', current_database(),
      v_server.database_oid, v_last.database_oid);
  ELSIF v_server.timeline < v_last.timeline THEN
    v_cause := 'LOWER_TIMELINE';
    v_reason := format('the server is on timeline %s and was on %s', v_server.timeline, v_last.timeline);
  ELSIF v_server.timeline > v_last.timeline THEN
    -- A synchronous standby has every commit, but a recovery target discards commits even so. An old heartbeat, as in a
    -- backup, does not show whether replication was synchronous at the failover.
    v_doubt := CASE
      WHEN v_server.recovery_target IS NOT NULL
      THEN format('it was recovered to a chosen point (%s)', v_server.recovery_target)
      WHEN NOT v_last.synchronous THEN 'replication was not synchronous at the last heartbeat'
      WHEN v_last.beat_at < v_now - interval '5 minutes' THEN 'the last heartbeat was more than five minutes ago'
    END;
    v_cause := CASE WHEN v_doubt IS NOT NULL THEN 'NEW_TIMELINE' END;
    v_reason := format('timeline %s follows %s, and %s', v_server.timeline, v_last.timeline, v_doubt);
  END IF;
  IF v_cause IS NOT NULL THEN
    -- Commits after that heartbeat may be missing, so an operator compares the rail's records from then on.
    PERFORM freeze_dispatch_epoch(v_epoch_no, v_cause, format('%s; the last earlier heartbeat was at %s', v_reason,
      to_char(v_last.beat_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')), p_actor);
  END IF;
END
$$;
COMMENT ON FUNCTION begin_dispatch_epoch(integer, text) IS
  'Internal: records the server of a new epoch, and freezes dispatch unless no commit can have been lost.';

-- A hosting provider may not allow the functions that this one calls. An unavailable value is null, not an error.
CREATE OR REPLACE FUNCTION server_identity()
RETURNS TABLE (system_identifier bigint, timeline integer, database_oid oid, recovery_target text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_system_identifier bigint;
  v_timeline integer;
BEGIN
  BEGIN
    SELECT c.system_identifier INTO v_system_identifier FROM pg_control_system() c;
  EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
    v_system_identifier := NULL;
  END;
  BEGIN
    -- Reads the timeline from the WAL, because that of the last checkpoint is outdated for a while after a promotion.
    v_timeline := ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer;
  EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
    v_timeline := NULL;
  END;
  RETURN QUERY
  SELECT v_system_identifier, v_timeline, d.oid, (
    SELECT string_agg(t.name, ', ' ORDER BY t.name)
    FROM unnest(ARRAY['recovery_target', 'recovery_target_lsn', 'recovery_target_name', 'recovery_target_time',
      'recovery_target_xid']) AS t(name)
    WHERE COALESCE(current_setting(t.name, true), '') <> '')
  FROM pg_database d WHERE d.datname = current_database();
END
$$;
COMMENT ON FUNCTION server_identity() IS
  'Internal: returns system identifier, timeline, database oid and recovery target of this server.';

CREATE OR REPLACE FUNCTION is_replicated_synchronously() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT btrim(current_setting('synchronous_standby_names')) <> ''
    AND current_setting('synchronous_commit') IN ('on', 'remote_write', 'remote_apply')
$$;
COMMENT ON FUNCTION is_replicated_synchronously() IS
  'Internal: returns whether the commits of this session wait for a standby.';

CREATE OR REPLACE FUNCTION freeze_dispatch_epoch(p_epoch_no integer, p_cause text, p_reason text, p_actor text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_cause text;
BEGIN
  SELECT e.freeze_cause INTO v_cause FROM dispatch_epochs e WHERE e.epoch_no = p_epoch_no AND e.frozen;
  -- A loss replaces an earlier freeze and its time, so that items enqueued since the earlier freeze are marked too. A
  -- freeze by an operator does not: it would mark items that no worker can have sent.
  UPDATE dispatch_epochs e
  SET frozen_at = clock_timestamp(), freeze_cause = p_cause, freeze_reason = p_reason, frozen_by = p_actor,
    marked_at = NULL, items_marked = NULL, lifted_at = NULL, lifted_by = NULL, lift_reason = NULL
  WHERE e.epoch_no = p_epoch_no AND (NOT e.frozen OR p_cause <> 'OPERATOR');
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM append_outbox_scope_event('PAUSED', p_actor, 'dispatch',
    jsonb_strip_nulls(jsonb_build_object('reason', p_reason, 'cause', p_cause, 'frozen_before_as', v_cause)));
  RETURN true;
END
$$;
COMMENT ON FUNCTION freeze_dispatch_epoch(integer, text, text, text) IS
  'Internal: freezes dispatch and appends the event. Returns false if dispatch is already frozen and the cause is '
  'OPERATOR.';

-- Marks the items that were pending at the freeze. Locks in the same order as completions, so that the two cannot
-- deadlock. One session marks; the others do not wait for it.
CREATE OR REPLACE FUNCTION mark_frozen_outbox_items(p_epoch_no integer, p_actor text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_frozen_at timestamptz;
  v_count bigint;
  v_marked uuid[];
BEGIN
  SELECT e.frozen_at INTO v_frozen_at FROM dispatch_epochs e
  WHERE e.epoch_no = p_epoch_no AND e.marked_at IS NULL FOR UPDATE SKIP LOCKED;
  IF v_frozen_at IS NULL THEN
    RETURN;
  END IF;
  PERFORM 1 FROM payment_outbox_pending p
  WHERE p.created_at <= v_frozen_at AND NOT p.outcome_unknown ORDER BY p.outbox_id FOR NO KEY UPDATE;
  WITH marked AS (
    UPDATE payment_outbox_pending p SET outcome_unknown = true
    WHERE p.created_at <= v_frozen_at AND NOT p.outcome_unknown
    RETURNING p.outbox_id
  )
  -- Collects ids for the full trail only: the array of a long queue would be large.
  SELECT count(*), array_agg(m.outbox_id) FILTER (WHERE (SELECT s.full_trail FROM symphony_settings s))
  INTO v_count, v_marked FROM marked m;
  PERFORM append_trail_events('MARKED_UNKNOWN', p_actor, v_marked, NULL);
  UPDATE dispatch_epochs e SET marked_at = clock_timestamp(), items_marked = v_count WHERE e.epoch_no = p_epoch_no;
  PERFORM append_outbox_scope_event('PAUSED', p_actor, 'dispatch',
    jsonb_build_object('items_marked', v_count, 'frozen_at', epoch_micros(v_frozen_at)));
END
$$;
COMMENT ON FUNCTION mark_frozen_outbox_items(integer, text) IS
  'Internal: marks the outcome of every item that was pending at the freeze as unknown; appends an event.';
