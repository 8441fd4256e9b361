-- Comparison of a statement with the ledger of one rail.
--
-- Per payment, from the booked debits that any run has seen:
--   paid_twice          two or more debits
--   paid_not_recorded   one debit, and the payment is not DISPATCHED
--   amount_differs      one debit with another amount or currency, whatever the state of the payment
--   matched             one debit, DISPATCHED, same amount and currency
--   recorded_not_paid   DISPATCHED in the checked time, no debit
-- Per entry: reversed (the bank returned the money) and unknown_entry (a debit without a reference of ours).

CREATE OR REPLACE FUNCTION finish_reconciliation(
  p_upload_id uuid, p_entries bigint, p_rail_type text, p_format text, p_file_hash bytea, p_statement_ids text[],
  p_accounts text[], p_period_from timestamptz, p_period_to timestamptz, p_settlement_days integer,
  p_keep_unknown boolean, p_dry_run boolean, p_reading_hash bytea, p_covered_from timestamptz DEFAULT NULL
) RETURNS TABLE (
  run_id uuid, repeated boolean, matched bigint, paid_twice bigint, paid_not_recorded bigint, recorded_not_paid bigint,
  amount_differs bigint, reversed bigint, unknown_entry bigint, other_rails bigint, unknown_sums jsonb, findings jsonb
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_run reconciliation_runs;
  v_known reconciliation_runs;
  v_findings jsonb;
BEGIN
  -- 1. Check the arguments.
  PERFORM require_read_committed();
  PERFORM require_utf8_session();
  v_run := new_reconciliation_run(p_upload_id, p_entries, p_rail_type, p_format, p_file_hash, p_statement_ids,
    p_accounts, p_period_from, p_period_to, p_settlement_days);
  IF p_keep_unknown IS NULL THEN
    PERFORM refuse_argument('p_keep_unknown', 'true or false');
  END IF;
  v_run.keep_unknown := p_keep_unknown;
  IF octet_length(p_reading_hash) IS DISTINCT FROM 32 THEN
    PERFORM refuse_argument('p_reading_hash', 'a SHA-256, 32 bytes');
  END IF;
  v_run.reading_sha256 := p_reading_hash;
  IF p_dry_run IS NULL THEN
    PERFORM refuse_argument('p_dry_run', 'true or false');
  END IF;
  IF p_covered_from IS NOT NULL THEN
    PERFORM check_time('p_covered_from', p_covered_from);
  END IF;

  -- 2. Recognise a repeat. The lock lets one run at a time compare, so that two processes with one file make one run.
  LOCK TABLE reconciliation_runs IN SHARE ROW EXCLUSIVE MODE;
  SELECT r.* INTO v_known FROM reconciliation_runs r
  WHERE r.file_sha256 = v_run.file_sha256 AND r.rail_type = v_run.rail_type AND r.accounts = v_run.accounts
    AND r.settlement_days = v_run.settlement_days AND r.reading_sha256 = v_run.reading_sha256
    AND r.period_from = v_run.period_from AND r.period_to = v_run.period_to AND r.keep_unknown = v_run.keep_unknown;
  IF v_known.run_id IS NOT NULL THEN
    v_run := v_known;
  ELSE
    SELECT w.checked_from, w.checked_to INTO v_run.checked_from, v_run.checked_to
    FROM reconciliation_window(p_rail_type, v_run.accounts, p_period_from, p_period_to, p_settlement_days) w;
    -- A run that committed after the caller read the window can move its start back. The caller has not annotated the
    -- payments of that time, so those of other accounts would seem to be missing.
    IF p_covered_from > v_run.checked_from THEN
      RAISE EXCEPTION 'a concurrent run has extended the checked time of rail % to %', p_rail_type, v_run.checked_from
        USING ERRCODE = 'serialization_failure', HINT = 'Run symphony reconcile again. Nothing was recorded.';
    END IF;
    -- 3. Compare. A dry run raises active_sql_transaction, which undoes its writes and keeps the variables. No
    -- statement inside raises that code.
    BEGIN
      v_run := compare_reconciliation(v_run, p_upload_id);
      IF p_dry_run THEN
        SELECT jsonb_agg(jsonb_build_object('kind', f.kind, 'severity', f.severity, 'outboxId', f.outbox_id)
          || f.detail ORDER BY f.rank, f.finding_id) INTO v_findings
        FROM (
          SELECT g.*, array_position('{critical,warning,info}', g.severity) AS rank FROM reconciliation_findings g
          WHERE g.run_id = v_run.run_id ORDER BY rank, g.finding_id LIMIT 100
        ) f;
        v_run.run_id := NULL;
        RAISE EXCEPTION 'dry run' USING ERRCODE = 'active_sql_transaction';
      END IF;
    EXCEPTION WHEN active_sql_transaction THEN
      NULL;
    END;
  END IF;

  -- 4. Delete the staged entries and answer.
  PERFORM discard_reconciliation_upload(p_upload_id);
  RETURN QUERY
  SELECT v_run.run_id, v_known.run_id IS NOT NULL, c.matched, c.paid_twice, c.paid_not_recorded, c.recorded_not_paid,
    c.amount_differs, c.reversed, c.unknown_entry, c.other_rails, v_run.unknown_sums,
    CASE WHEN p_dry_run AND v_known.run_id IS NULL THEN COALESCE(v_findings, '[]') END
  FROM jsonb_to_record(v_run.counts) AS c(matched bigint, paid_twice bigint, paid_not_recorded bigint,
    recorded_not_paid bigint, amount_differs bigint, reversed bigint, unknown_entry bigint, other_rails bigint);
END
$$;
COMMENT ON FUNCTION finish_reconciliation(uuid, bigint, text, text, bytea, text[], text[], timestamptz, timestamptz,
  integer, boolean, boolean, bytea, timestamptz) IS
  'Compares the entries of an upload with the ledger of a rail, and records the run with its findings. The same file '
  'with the same options again returns the first run. A dry run records nothing. p_covered_from is the start of the '
  'window in which the caller has annotated payments of other accounts; 40001 if the window has grown since.';

-- The window ends p_settlement_days before the period ends. It begins at the end of the previous run's window, if that
-- run's period began earlier and either overlaps this one or ended at most four days (a weekend with holidays) before
-- it. Otherwise it begins with the period. If statements were loaded newest first, several windows of such runs end
-- where no other continues, and this one begins at the first of these ends.
CREATE OR REPLACE FUNCTION reconciliation_window(
  p_rail_type text, p_accounts text[], p_period_from timestamptz, p_period_to timestamptz, p_settlement_days integer
) RETURNS TABLE (checked_from timestamptz, checked_to timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_before timestamptz;
BEGIN
  PERFORM check_id('p_rail_type', p_rail_type);
  PERFORM check_time('p_period_from', p_period_from);
  PERFORM check_time('p_period_to', p_period_to);
  PERFORM check_number('p_settlement_days', p_settlement_days, 0, 60);
  PERFORM check_bank_texts('p_accounts', p_accounts, 64);
  SELECT min(r.checked_to) INTO v_before FROM reconciliation_runs r
  WHERE r.rail_type = p_rail_type AND r.accounts = sorted_accounts(p_accounts) AND r.period_from < p_period_from
    AND r.period_to >= p_period_from - interval '4 days'
    AND NOT EXISTS (
      SELECT 1 FROM reconciliation_runs n
      WHERE n.rail_type = r.rail_type AND n.accounts = r.accounts AND n.period_from < p_period_from
        AND n.period_to >= p_period_from - interval '4 days'
        AND n.checked_from <= r.checked_to AND n.checked_to > r.checked_to);
  RETURN QUERY SELECT LEAST(p_period_from, v_before),
    GREATEST(p_period_to - make_interval(days => p_settlement_days), LEAST(p_period_from, v_before));
END
$$;
COMMENT ON FUNCTION reconciliation_window(text, text[], timestamptz, timestamptz, integer) IS
  'Returns the times between which a payment must have been dispatched to be in a statement of this period.';

CREATE OR REPLACE FUNCTION reconciliation_digests(p_run_id uuid)
RETURNS TABLE (entries_sha256 bytea, findings_sha256 bytea)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
BEGIN
  IF p_run_id IS NULL THEN
    PERFORM refuse_argument('p_run_id', 'the id of a run');
  END IF;
  RETURN QUERY
  SELECT
    (SELECT sha256(COALESCE(string_agg(sha256(record_send(e)), '' ORDER BY e.entry_key, e.occurrence), ''))
     FROM reconciliation_entries e WHERE e.run_id = p_run_id),
    (SELECT sha256(COALESCE(string_agg(sha256(record_send(f)), '' ORDER BY f.finding_id), ''))
     FROM reconciliation_findings f WHERE f.run_id = p_run_id);
END
$$;
COMMENT ON FUNCTION reconciliation_digests(uuid) IS
  'Returns the digests of the entries and findings of a run: SHA-256 of the SHA-256 of each row, in order.';

CREATE OR REPLACE FUNCTION new_reconciliation_run(
  p_upload_id uuid, p_entries bigint, p_rail_type text, p_format text, p_file_hash bytea, p_statement_ids text[],
  p_accounts text[], p_period_from timestamptz, p_period_to timestamptz, p_settlement_days integer
) RETURNS reconciliation_runs
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_run reconciliation_runs;
BEGIN
  IF p_upload_id IS NULL THEN
    PERFORM refuse_argument('p_upload_id', 'the id of an upload');
  END IF;
  PERFORM check_number('p_entries', p_entries, 0, 1000000000);
  PERFORM check_id('p_rail_type', p_rail_type);
  IF p_format IS NULL OR p_format NOT IN ('camt053', 'camt054', 'csv', 'ndjson', 'rail') THEN
    PERFORM refuse_argument('p_format', 'camt053, camt054, csv, ndjson or rail');
  END IF;
  IF octet_length(p_file_hash) IS DISTINCT FROM 32 THEN
    PERFORM refuse_argument('p_file_hash', 'a SHA-256, 32 bytes');
  END IF;
  PERFORM check_bank_texts('p_statement_ids', p_statement_ids, 140);
  PERFORM check_bank_texts('p_accounts', p_accounts, 64);
  PERFORM check_time('p_period_from', p_period_from);
  PERFORM check_time('p_period_to', p_period_to);
  IF p_period_from >= p_period_to THEN
    PERFORM refuse_argument('p_period_to', 'a time after p_period_from');
  END IF;
  PERFORM check_number('p_settlement_days', p_settlement_days, 0, 60);
  v_run.run_id := uuid_v7();
  v_run.rail_type := p_rail_type;
  v_run.format := p_format;
  v_run.file_sha256 := p_file_hash;
  v_run.statement_ids := p_statement_ids;
  v_run.accounts := sorted_accounts(p_accounts);
  v_run.period_from := p_period_from;
  v_run.period_to := p_period_to;
  v_run.settlement_days := p_settlement_days;
  v_run.entries := p_entries;
  v_run.actor := outbox_actor();
  RETURN v_run;
END
$$;
COMMENT ON FUNCTION new_reconciliation_run(uuid, bigint, text, text, bytea, text[], text[], timestamptz, timestamptz,
  integer) IS 'Internal: checks the arguments of a run and returns its row, which is not stored.';

CREATE OR REPLACE FUNCTION sorted_accounts(p_accounts text[]) RETURNS text[]
LANGUAGE sql IMMUTABLE
RETURN ARRAY(SELECT a FROM unnest(p_accounts) a GROUP BY a ORDER BY a COLLATE "C");
COMMENT ON FUNCTION sorted_accounts(text[]) IS 'Internal: returns each account once, sorted, as runs store them.';

CREATE OR REPLACE FUNCTION check_bank_texts(p_argument text, p_values text[], p_length_max integer) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  IF p_values IS NULL OR array_dims(p_values) <> format('[1:%s]', cardinality(p_values)) OR cardinality(p_values) > 1000
    OR EXISTS (SELECT 1 FROM unnest(p_values) v WHERE NOT is_short_text(v, p_length_max))
  THEN
    PERFORM refuse_argument(p_argument, format('a plain list of at most 1000 texts of 1 to %s characters',
      p_length_max));
  END IF;
END
$$;
COMMENT ON FUNCTION check_bank_texts(text, text[], integer) IS
  'Internal: raises 22023 unless the value is a list of short texts.';

CREATE OR REPLACE FUNCTION compare_reconciliation(
  p_run reconciliation_runs, p_upload_id uuid
) RETURNS reconciliation_runs
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_run reconciliation_runs := p_run;
  v_staged record;
  v_paid record;
  v_missing uuid[];
BEGIN
  -- 1. Count the staged entries, so that a part of a statement is never compared.
  SELECT count(*) AS entries, count(*) FILTER (WHERE u.kind = 'payout' AND u.outbox_id IS NULL) AS unknown,
    count(*) FILTER (WHERE u.kind = 'payout' AND u.rail_type <> v_run.rail_type) AS other_rails,
    count(*) FILTER (WHERE u.kind <> 'payout' AND u.rail_type = v_run.rail_type) AS reversed
  INTO v_staged
  FROM reconciliation_uploads u WHERE u.upload_id = p_upload_id;
  IF v_staged.entries <> v_run.entries THEN
    RAISE EXCEPTION 'UPLOAD_INCOMPLETE: upload %: the statement has % entries, and % are staged', p_upload_id,
        v_run.entries, v_staged.entries
      USING ERRCODE = 'P7018', HINT = 'Read the statement again: symphony reconcile. Nothing was recorded.';
  END IF;
  SELECT COALESCE(jsonb_object_agg(s.currency, s.amount), '{}') INTO v_run.unknown_sums
  FROM (
    SELECT COALESCE(u.currency, '') AS currency, trim_scale(sum(u.amount))::text AS amount
    FROM reconciliation_uploads u WHERE u.upload_id = p_upload_id AND u.kind = 'payout' AND u.outbox_id IS NULL
    GROUP BY 1
  ) s;

  -- 2. Keep the entries that no earlier run has seen.
  INSERT INTO reconciliation_entries
    (entry_key, occurrence, run_id, kind, outbox_id, account, bank_reference, reference, amount, currency, booked_on,
      valued_on, return_code, position)
  SELECT u.entry_key, u.occurrence, v_run.run_id, u.kind, u.outbox_id, u.account, u.bank_reference, u.reference,
    u.amount, u.currency, u.booked_on, u.valued_on, u.return_code, u.position
  FROM (
    SELECT g.*, row_number() OVER (PARTITION BY g.entry_key ORDER BY g.position) AS occurrence
    FROM reconciliation_uploads g WHERE g.upload_id = p_upload_id
  ) u
  WHERE u.rail_type = v_run.rail_type OR (v_run.keep_unknown AND u.outbox_id IS NULL AND u.kind = 'payout')
  ON CONFLICT (entry_key, occurrence) DO NOTHING;

  -- 3. Judge the payments that the statement names.
  SELECT * INTO v_paid FROM judge_reconciled_payments(p_upload_id, v_run.rail_type);
  IF v_paid.unreadable IS NOT NULL THEN
    RAISE EXCEPTION 'AMOUNT_UNREADABLE: outbox item %: its amount or currency cannot be read, as of % payments',
        v_paid.unreadable[1], cardinality(v_paid.unreadable)
      USING ERRCODE = 'P7019', HINT = 'Give the master keys if the rail encrypts amounts. Nothing was recorded.';
  END IF;
  PERFORM add_payment_findings(v_run.run_id, 'paid_twice', 'critical', v_paid.twice);
  PERFORM add_payment_findings(v_run.run_id, 'amount_differs', 'critical', v_paid.differs);
  PERFORM add_payment_findings(v_run.run_id, 'paid_not_recorded', 'critical', v_paid.failed);
  PERFORM add_payment_findings(v_run.run_id, 'paid_not_recorded', 'warning', v_paid.pending);

  -- 4. Find DISPATCHED payments without a debit.
  v_missing := ARRAY(SELECT m FROM missing_reconciled_payments(p_upload_id, v_run.rail_type, v_run.checked_from,
    v_run.checked_to) m);
  PERFORM add_payment_findings(v_run.run_id, 'recorded_not_paid', 'critical', v_missing);

  -- 5. Record returns, propose decisions about held payments, and list unknown entries. Returns and proposals lock
  -- payments, so they come last.
  PERFORM add_entry_finding(v_run.run_id, 'unknown_entry', 'info', e, '{}')
  FROM reconciliation_entries e WHERE e.run_id = v_run.run_id AND e.outbox_id IS NULL;
  PERFORM add_entry_finding(v_run.run_id, 'reversed', 'warning', e, return_reversed_payment(e))
  FROM reconciliation_entries e WHERE e.run_id = v_run.run_id AND e.kind <> 'payout' ORDER BY e.outbox_id, e.position;
  PERFORM add_payment_findings(v_run.run_id, 'paid_not_recorded', 'warning', ARRAY[h.outbox_id],
    propose_paid_payment(h.outbox_id, v_run))
  FROM unnest(v_paid.held) AS h(outbox_id) ORDER BY h.outbox_id;
  PERFORM add_payment_findings(v_run.run_id, 'paid_not_recorded', 'warning', v_paid.uncompared, jsonb_build_object(
    'note', 'No decision was proposed: the amount of the payment cannot be read. Compare it with the entries first.'));

  -- 6. Record the run.
  v_run.counts := jsonb_build_object('matched', v_paid.matched, 'paid_twice', COALESCE(cardinality(v_paid.twice), 0),
    'paid_not_recorded', COALESCE(cardinality(v_paid.failed), 0) + COALESCE(cardinality(v_paid.pending), 0)
      + COALESCE(cardinality(v_paid.held), 0) + COALESCE(cardinality(v_paid.uncompared), 0),
    'recorded_not_paid', cardinality(v_missing), 'amount_differs', COALESCE(cardinality(v_paid.differs), 0),
    'reversed', v_staged.reversed, 'unknown_entry', v_staged.unknown, 'other_rails', v_staged.other_rails);
  SELECT d.entries_sha256, d.findings_sha256 INTO v_run.entries_sha256, v_run.findings_sha256
  FROM reconciliation_digests(v_run.run_id) d;
  INSERT INTO reconciliation_open_findings (finding_id, kind, severity, created_at)
  SELECT f.finding_id, f.kind, f.severity, f.created_at FROM reconciliation_findings f WHERE f.run_id = v_run.run_id;
  v_run.created_at := clock_timestamp();
  v_run.event_id := append_outbox_scope_event('RECONCILED', v_run.actor, 'reconciliation:' || v_run.rail_type,
    describe_reconciliation_run(v_run));
  INSERT INTO reconciliation_runs SELECT v_run.*;
  RETURN v_run;
END
$$;
COMMENT ON FUNCTION compare_reconciliation(reconciliation_runs, uuid) IS
  'Internal: compares the staged entries with the ledger and records run, entries, findings, returns and proposals.';

-- Encodes times and hashes itself, because to_jsonb depends on bytea_output and TimeZone.
-- libs/ledger/db.ts compares each run with its event by the same expression.
CREATE OR REPLACE FUNCTION describe_reconciliation_run(p_run reconciliation_runs) RETURNS jsonb
LANGUAGE sql STABLE
RETURN to_jsonb(p_run) - '{event_id,actor}'::text[] || jsonb_build_object(
  'file_sha256', encode((p_run).file_sha256, 'hex'), 'reading_sha256', encode((p_run).reading_sha256, 'hex'),
  'entries_sha256', encode((p_run).entries_sha256, 'hex'), 'findings_sha256', encode((p_run).findings_sha256, 'hex'),
  'period_from', epoch_micros((p_run).period_from), 'period_to', epoch_micros((p_run).period_to),
  'checked_from', epoch_micros((p_run).checked_from), 'checked_to', epoch_micros((p_run).checked_to),
  'created_at', epoch_micros((p_run).created_at));
COMMENT ON FUNCTION describe_reconciliation_run(reconciliation_runs) IS
  'Internal: returns the detail of the event RECONCILED, which repeats the row of a run.';

CREATE OR REPLACE FUNCTION judge_reconciled_payments(
  p_upload_id uuid, p_rail_type text, OUT matched bigint, OUT twice uuid[], OUT differs uuid[], OUT unreadable uuid[],
  OUT failed uuid[], OUT pending uuid[], OUT held uuid[], OUT uncompared uuid[]
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
  SELECT count(*) FILTER (WHERE j.verdict = 'matched'), array_agg(j.outbox_id) FILTER (WHERE j.verdict = 'twice'),
    array_agg(j.outbox_id) FILTER (WHERE j.verdict = 'differs' OR j.differs),
    array_agg(j.outbox_id) FILTER (WHERE j.verdict = 'unreadable'),
    array_agg(j.outbox_id) FILTER (WHERE j.verdict = 'failed'),
    array_agg(j.outbox_id) FILTER (WHERE j.verdict = 'pending'),
    array_agg(j.outbox_id) FILTER (WHERE j.verdict = 'held'),
    array_agg(j.outbox_id) FILTER (WHERE j.verdict = 'uncompared')
  FROM (
    SELECT t.outbox_id, CASE
        WHEN e.debits > 1 THEN 'twice'
        WHEN t.is_matched THEN 'matched'
        WHEN a.state = 'FAILED' THEN 'failed'
        WHEN a.state IS NULL AND q.hold_reason IS NULL THEN 'pending'
        WHEN a.state IS NULL
          THEN CASE WHEN p.amount IS NULL OR p.currency IS NULL THEN 'uncompared' ELSE 'held' END
        -- A covered annotation without an amount means that the key was destroyed, so there is nothing to compare. One
        -- that is not covered only says that another account pays.
        WHEN p.amount IS NULL OR p.currency IS NULL THEN CASE WHEN n.covered THEN 'matched' ELSE 'unreadable' END
        WHEN e.amount = p.amount AND e.currency = p.currency THEN 'matched'
        ELSE 'differs'
      END AS verdict,
      -- Also of a payment that is not DISPATCHED, if its amount can be read.
      e.debits = 1 AND NOT t.is_matched AND p.amount IS NOT NULL AND p.currency IS NOT NULL
        AND (e.amount = p.amount AND e.currency = p.currency) IS NOT TRUE AS differs
    FROM (
      -- If several entries name a payment, the verdict is twice, whichever entry is taken. Sorted by id, because the
      -- rows that the next joins read are in this order too.
      SELECT DISTINCT ON (u.outbox_id) u.outbox_id, u.is_matched FROM reconciliation_uploads u
      WHERE u.upload_id = p_upload_id AND u.kind = 'payout' AND u.rail_type = p_rail_type ORDER BY u.outbox_id
    ) t
    CROSS JOIN LATERAL (
      SELECT count(*) AS debits, min(d.amount) AS amount, min(d.currency) AS currency FROM reconciliation_entries d
      WHERE d.outbox_id = t.outbox_id AND d.kind = 'payout' OFFSET 0
    ) e
    LEFT JOIN LATERAL (
      SELECT s.state::text AS state, payload_amount(s.payload) AS amount, payload_currency(s.payload) AS currency
      FROM payment_outbox_attempts s
      WHERE NOT t.is_matched AND s.outbox_id = t.outbox_id AND s.state IN ('DISPATCHED', 'FAILED') OFFSET 0
    ) a ON true
    LEFT JOIN LATERAL (
      SELECT w.hold_reason, payload_amount(w.payload) AS amount, payload_currency(w.payload) AS currency
      FROM payment_outbox_pending w
      WHERE NOT t.is_matched AND a.state IS NULL AND w.outbox_id = t.outbox_id OFFSET 0
    ) q ON true
    LEFT JOIN LATERAL (
      SELECT x.amount, x.currency, x.covered FROM reconciliation_upload_payments x
      WHERE NOT t.is_matched AND x.upload_id = p_upload_id AND x.outbox_id = t.outbox_id OFFSET 0
    ) n ON true
    CROSS JOIN LATERAL (
      SELECT COALESCE(n.amount, a.amount, q.amount) AS amount, COALESCE(n.currency, a.currency, q.currency) AS currency
    ) p
  ) j
$$;
COMMENT ON FUNCTION judge_reconciled_payments(uuid, text) IS
  'Internal: compares each payment that an upload names with the booked debits of all runs.';

-- Searches attempts by id, a UUID of version 7 made when the attempt ends. The hour allows for a clock that was set
-- back.
CREATE OR REPLACE FUNCTION missing_reconciled_payments(
  p_upload_id uuid, p_rail_type text, p_checked_from timestamptz, p_checked_to timestamptz
) RETURNS SETOF uuid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
  SELECT a.outbox_id
  FROM (
    SELECT t.outbox_id FROM payment_outbox_attempts t
    WHERE t.attempt_id >= uuid_v7_floor(p_checked_from - interval '1 hour')
      AND t.attempt_id < uuid_v7_floor(p_checked_to + interval '1 hour')
      AND t.state = 'DISPATCHED' AND t.rail_type = p_rail_type
      AND t.completed_at >= p_checked_from AND t.completed_at < p_checked_to
      AND NOT EXISTS (
        SELECT 1 FROM reconciliation_entries d WHERE d.outbox_id = t.outbox_id AND d.kind = 'payout' OFFSET 0)
    -- Almost every payment has an entry. OFFSET 0 lets only the others reach the next conditions.
    OFFSET 0
  ) a
  WHERE NOT EXISTS (
      SELECT 1 FROM reconciliation_upload_payments x
      WHERE x.upload_id = p_upload_id AND x.outbox_id = a.outbox_id AND NOT x.covered OFFSET 0)
    AND NOT EXISTS (
      SELECT 1 FROM payment_outbox_identities i WHERE i.outbox_id = a.outbox_id AND i.is_message OFFSET 0)
$$;
COMMENT ON FUNCTION missing_reconciled_payments(uuid, text, timestamptz, timestamptz) IS
  'Internal: returns the payments of a rail that were dispatched in this time and that no booked debit names.';
