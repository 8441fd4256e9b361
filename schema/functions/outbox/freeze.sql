-- The restore guard. A restored backup, or a standby that was promoted before everything had reached it, does not know
-- payments that were made: its queue says "send", and the rail was already told. So the database remembers on which server
-- it was last seen at work, and nothing is dispatched on another one until it is certain that nothing was lost, or a person
-- has looked.
--
--   an epoch    one run of one server: opened by the first claim or check after each start, never reopened
--   a beat      the workers' heartbeat, counted within its epoch; workers remember the last one they were told of
--   a freeze    no claim gives anything and no announced call may begin; everything else goes on: enqueueing, completing,
--               renewing, releasing, repairing. Every item that waited is marked as unknown: its rail's policy decides
--
-- What is compared: the server that answers now with the one of the last epoch, which the data itself brought along (a
-- dump restored elsewhere, a recovery to a point in time, a failover), and what a worker remembers with what the data still
-- knows (an older copy of the same server, which by itself looks like a restart). docs/operate/restore.md says what neither
-- can see.

-- Functions -----------------------------------------------------------------------------------------------------------

-- Called by workers when they start, when the server behind their connection has changed, and with every heartbeat. What
-- they remember is what an earlier call told them; the first call has nothing to show.
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
  IF NOT is_id(p_worker_id) THEN
    PERFORM refuse_argument('p_worker_id', '1 to 128 printable ASCII characters without spaces');
  END IF;
  IF num_nulls(p_epoch_id, p_beat_no, p_beat_at) <> 3 THEN
    IF p_epoch_id IS NULL THEN
      PERFORM refuse_argument('p_epoch_id', 'the epoch of the heartbeat that is remembered');
    END IF;
    IF p_beat_no IS NULL OR p_beat_no < 0 THEN
      PERFORM refuse_argument('p_beat_no', 'the number of the heartbeat that is remembered, 0 or more');
    END IF;
    IF p_beat_at IS NULL OR p_beat_at NOT BETWEEN now() - interval '100 years' AND now() + interval '100 years' THEN
      PERFORM refuse_argument('p_beat_at', 'a time within 100 years of now');
    END IF;
  END IF;
  SELECT e.frozen_at INTO v_frozen_before FROM dispatch_epochs e ORDER BY e.epoch_no DESC LIMIT 1;
  v_epoch := current_dispatch_epoch(p_worker_id);
  IF v_epoch.frozen THEN
    -- Not by the call that froze it: a queue too long to be marked within the time of one statement stays frozen.
    IF v_epoch.frozen_at = v_frozen_before THEN
      PERFORM mark_frozen_outbox_items(v_epoch.epoch_no, p_worker_id);
    END IF;
  ELSIF p_epoch_id IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM dispatch_epochs e WHERE e.epoch_id = p_epoch_id AND e.beat_no >= p_beat_no)
    -- A worker that was away meanwhile brings no news: whoever lifted a freeze since has decided about that loss.
    AND p_beat_at > COALESCE((SELECT max(e.lifted_at) FROM dispatch_epochs e), '-infinity')
  THEN
    PERFORM freeze_dispatch_epoch(v_epoch.epoch_no, 'LOST_COMMITS',
      format('worker %s was told of heartbeat %s at %s, and this database does not know it: it is an earlier state',
        p_worker_id, p_beat_no, to_char(p_beat_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')), p_worker_id);
  END IF;
  v_now := clock_timestamp();
  -- A fleet that beats all at once writes once a second, and nobody waits for the one who does.
  UPDATE dispatch_epochs e SET beat_no = e.beat_no + 1, beat_at = v_now, synchronous = v_synchronous
  WHERE e.ctid = ANY (ARRAY(
    SELECT n.ctid FROM dispatch_epochs n
    WHERE n.epoch_no = v_epoch.epoch_no
      AND (n.beat_no = 0 OR n.synchronous <> v_synchronous OR n.beat_at NOT BETWEEN v_now - interval '1 second' AND v_now)
    FOR NO KEY UPDATE SKIP LOCKED));
  RETURN QUERY
  SELECT e.epoch_id, e.beat_no, e.beat_at, CASE WHEN e.frozen THEN e.frozen_at END,
    CASE WHEN e.frozen THEN e.freeze_cause END, CASE WHEN e.frozen THEN e.freeze_reason END, e.marked_at IS NOT NULL
  FROM dispatch_epochs e WHERE e.epoch_no = v_epoch.epoch_no;
END
$$;
COMMENT ON FUNCTION check_dispatch_epoch(text, uuid, bigint, timestamptz) IS
  'Compares the server and what a worker remembers with what is known here; freezes dispatch where commits may have been lost. A heartbeat.';

CREATE OR REPLACE FUNCTION freeze_dispatch(p_reason text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
DECLARE
  v_actor text := outbox_actor();
  v_epoch dispatch_epochs;
BEGIN
  IF NOT is_short_text(p_reason, 1000) THEN
    PERFORM refuse_argument('p_reason', 'text of 1 to 1000 characters');
  END IF;
  v_epoch := current_dispatch_epoch(v_actor);
  RETURN freeze_dispatch_epoch(v_epoch.epoch_no, 'OPERATOR', p_reason, v_actor);
END
$$;
COMMENT ON FUNCTION freeze_dispatch(text) IS
  'Freezes dispatch after a restore that nothing else can notice; false when it already is. What waits will be marked as unknown.';

CREATE OR REPLACE FUNCTION lift_dispatch_freeze(p_reason text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_epoch dispatch_epochs;
BEGIN
  IF NOT is_short_text(p_reason, 1000) THEN
    PERFORM refuse_argument('p_reason', 'text of 1 to 1000 characters');
  END IF;
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
  'Lets dispatch go on after a person has compared the books; false when it was not frozen. What was marked as unknown stays so.';

-- Behind them.

-- What every announced call asks before it begins, and every claim whose own look did not find dispatch open. One row, by its
-- index, and nothing of it has to be fetched from a file: that the server was started again, that this is another server, or
-- another database of it, shows in what every session knows. Its callers have pinned the shape of plans, and pay for that once.
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
  WHERE e.server_started_at = pg_postmaster_start_time() AND e.database_name = current_database() AND e.table_oid = e.own_oid;
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
  'Internal: whether anything may be claimed now; raises P7009 for a worker that shows an epoch which is over or frozen.';

CREATE OR REPLACE FUNCTION raise_dispatch_frozen(p_frozen boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  IF p_frozen THEN
    RAISE EXCEPTION 'DISPATCH_FROZEN: dispatch is frozen: commits may have been lost, and a person must look first'
      USING ERRCODE = 'P7009', HINT = 'See: symphony freeze show. When the books agree: symphony freeze lift --reason ….';
  END IF;
  RAISE EXCEPTION 'DISPATCH_FROZEN: dispatch is closed to this worker: the server has changed since it last looked'
    USING ERRCODE = 'P7009', HINT = 'Call check_dispatch_epoch with what it last answered.';
END
$$;
COMMENT ON FUNCTION raise_dispatch_frozen(boolean) IS 'Internal: raises P7009, saying which it is.';

-- The newest epoch, if it is of this run of this server; else the one that begins now.
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
COMMENT ON FUNCTION current_dispatch_epoch(text) IS 'Internal: the epoch of this run of the server, begun if it is the first call in it.';

-- A start, a failover, a restore: which of them it was is judged here, once.
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
  -- The one that the caller has seen, not the newest: another session may have begun this epoch meanwhile.
  SELECT * INTO v_last FROM dispatch_epochs e WHERE e.epoch_no = p_last_epoch_no;
  SELECT s.system_identifier, s.timeline, s.database_oid, s.recovery_target INTO v_server FROM dispatch_server() s;
  -- A freeze outlives a restart. A racing session that begins the same epoch waits here, and finds it begun.
  INSERT INTO dispatch_epochs
    (epoch_no, epoch_id, began_at, system_identifier, timeline, database_oid, server_started_at, database_name, table_oid,
      beat_at, synchronous, frozen_at, freeze_cause, freeze_reason, frozen_by, marked_at, items_marked)
  SELECT v_epoch_no, gen_random_uuid(), v_now, v_server.system_identifier, v_server.timeline, v_server.database_oid,
    pg_postmaster_start_time(), current_database(), 'dispatch_epochs'::regclass, v_now, is_replicated_synchronously(),
    f.frozen_at, f.freeze_cause, f.freeze_reason, f.frozen_by, f.marked_at, f.items_marked
  FROM (SELECT 1) AS one
  LEFT JOIN dispatch_epochs f ON f.epoch_no = p_last_epoch_no AND f.frozen
  ON CONFLICT (epoch_no) DO NOTHING;
  IF NOT FOUND OR p_last_epoch_no IS NULL THEN
    RETURN;
  END IF;
  -- What is not known on one side is not compared.
  IF v_server.system_identifier <> v_last.system_identifier THEN
    v_cause := 'ANOTHER_SERVER';
    v_reason := format('the server with system identifier %s does the work of %s', v_server.system_identifier, v_last.system_identifier);
  ELSIF v_server.database_oid <> v_last.database_oid THEN
    v_cause := 'ANOTHER_DATABASE';
    v_reason := format('the database %s is a copy or a restored dump: its oid is %s and was %s', current_database(),
      v_server.database_oid, v_last.database_oid);
  ELSIF v_server.timeline < v_last.timeline THEN
    v_cause := 'LOWER_TIMELINE';
    v_reason := format('the server is on timeline %s and was on %s', v_server.timeline, v_last.timeline);
  ELSIF v_server.timeline > v_last.timeline THEN
    -- A standby that every commit had to reach lost nothing. Not so where a point was chosen to recover to; and an old
    -- heartbeat says nothing about the moment of the failover: what was restored from an archive has one, too.
    v_doubt := CASE
      WHEN v_server.recovery_target IS NOT NULL THEN format('it was recovered to a chosen point (%s)', v_server.recovery_target)
      WHEN NOT v_last.synchronous THEN 'replication was not synchronous at the last heartbeat'
      WHEN v_last.beat_at < v_now - interval '5 minutes' THEN 'the last heartbeat was more than five minutes ago'
    END;
    v_cause := CASE WHEN v_doubt IS NOT NULL THEN 'NEW_TIMELINE' END;
    v_reason := format('timeline %s follows %s, and %s', v_server.timeline, v_last.timeline, v_doubt);
  END IF;
  IF v_cause IS NOT NULL THEN
    PERFORM freeze_dispatch_epoch(v_epoch_no, v_cause, v_reason, p_actor);
  END IF;
END
$$;
COMMENT ON FUNCTION begin_dispatch_epoch(integer, text) IS
  'Internal: writes down on which server the work goes on, and freezes it unless the one before surely lost nothing.';

-- A provider may withhold what a server says of itself. Then it is not known, which is worse than known and not an error.
CREATE OR REPLACE FUNCTION dispatch_server()
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
    -- Not that of the last checkpoint, which is one behind for a while after a promotion.
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
COMMENT ON FUNCTION dispatch_server() IS 'Internal: which server, timeline and database this is, and whether it was recovered to a chosen point.';

CREATE OR REPLACE FUNCTION is_replicated_synchronously() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT btrim(current_setting('synchronous_standby_names')) <> ''
    AND current_setting('synchronous_commit') IN ('on', 'remote_write', 'remote_apply')
$$;
COMMENT ON FUNCTION is_replicated_synchronously() IS 'Internal: whether the commits of this session wait for a standby.';

CREATE OR REPLACE FUNCTION freeze_dispatch_epoch(p_epoch_no integer, p_cause text, p_reason text, p_actor text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_cause text;
BEGIN
  -- A new cause takes the place of one that was there when the server was started: what came since is to be marked, too.
  SELECT e.freeze_cause INTO v_cause FROM dispatch_epochs e WHERE e.epoch_no = p_epoch_no AND e.frozen;
  UPDATE dispatch_epochs e
  SET frozen_at = clock_timestamp(), freeze_cause = p_cause, freeze_reason = p_reason, frozen_by = p_actor,
    marked_at = NULL, items_marked = NULL, lifted_at = NULL, lifted_by = NULL, lift_reason = NULL
  WHERE e.epoch_no = p_epoch_no AND (NOT e.frozen OR p_cause NOT IN ('LOST_COMMITS', 'OPERATOR'));
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM append_outbox_scope_event('PAUSED', p_actor, 'dispatch',
    jsonb_strip_nulls(jsonb_build_object('reason', p_reason, 'cause', p_cause, 'frozen_before_as', v_cause)));
  RETURN true;
END
$$;
COMMENT ON FUNCTION freeze_dispatch_epoch(integer, text, text, text) IS 'Internal: freezes dispatch, with its event; false when it already was.';

-- Each item that waited when dispatch was frozen. Locked in the order in which completions lock, so that the two cannot
-- deadlock; one session does it, and the others need not wait for it.
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
    UPDATE payment_outbox_pending p SET outcome_unknown = true WHERE p.created_at <= v_frozen_at AND NOT p.outcome_unknown
    RETURNING p.outbox_id
  )
  -- Ids are collected for the full trail only: a long queue would be a large array.
  SELECT count(*), array_agg(m.outbox_id) FILTER (WHERE (SELECT s.full_trail FROM symphony_settings s))
  INTO v_count, v_marked FROM marked m;
  PERFORM append_trail_events('MARKED_UNKNOWN', p_actor, v_marked, NULL);
  UPDATE dispatch_epochs e SET marked_at = clock_timestamp(), items_marked = v_count WHERE e.epoch_no = p_epoch_no;
  PERFORM append_outbox_scope_event('PAUSED', p_actor, 'dispatch',
    jsonb_build_object('items_marked', v_count, 'frozen_at', epoch_micros(v_frozen_at)));
END
$$;
COMMENT ON FUNCTION mark_frozen_outbox_items(integer, text) IS 'Internal: marks every item that waited at the freeze as of unknown outcome, with an event.';
