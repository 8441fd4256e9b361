-- Findings of a reconciliation, the returns and proposals that follow from them, and their closing.

CREATE OR REPLACE FUNCTION close_reconciliation_finding(p_finding_id uuid, p_reason text) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_finding reconciliation_findings;
  v_closing reconciliation_closings;
  v_detail jsonb;
  v_event_id uuid;
  v_now timestamptz;
BEGIN
  PERFORM require_read_committed();
  PERFORM check_text('p_reason', p_reason, 1000);
  SELECT * INTO v_finding FROM reconciliation_findings f WHERE f.finding_id = p_finding_id;
  IF v_finding.finding_id IS NULL THEN
    PERFORM refuse_argument('p_finding_id', 'the id of a finding');
  END IF;
  -- Locks the row of the finding's run, so that a second closing of the finding waits here and then finds the first.
  PERFORM 1 FROM reconciliation_runs r WHERE r.run_id = v_finding.run_id FOR NO KEY UPDATE;
  SELECT * INTO v_closing FROM reconciliation_closings c WHERE c.finding_id = p_finding_id;
  IF v_closing.finding_id IS NOT NULL THEN
    RAISE EXCEPTION 'HELD: finding %: % has closed it already', p_finding_id, v_closing.closed_by
      USING ERRCODE = 'P7006', HINT = 'Nothing is left to close. See the findings: symphony findings list.';
  END IF;
  v_now := clock_timestamp();
  v_detail := jsonb_build_object('finding_id', p_finding_id, 'run_id', v_finding.run_id, 'kind', v_finding.kind,
    'reason', p_reason, 'closed_at', epoch_micros(v_now));
  IF v_finding.outbox_id IS NULL THEN
    v_event_id := append_outbox_scope_event('FINDING_CLOSED', v_actor, 'finding:' || p_finding_id, v_detail);
  ELSE
    PERFORM lock_outbox_payment(v_finding.outbox_id);
    PERFORM lock_outbox_item(v_finding.outbox_id);
    SELECT e INTO v_event_id
    FROM append_outbox_events('FINDING_CLOSED', v_actor, ARRAY[v_finding.outbox_id], ARRAY[v_detail]) e;
  END IF;
  INSERT INTO reconciliation_closings (finding_id, event_id, closed_by, reason, closed_at)
  VALUES (p_finding_id, v_event_id, v_actor, p_reason, v_now);
  DELETE FROM reconciliation_open_findings o WHERE o.finding_id = p_finding_id;
  RETURN v_event_id;
END
$$;
COMMENT ON FUNCTION close_reconciliation_finding(uuid, text) IS
  'Closes a finding with a reason. The finding stays; the event FINDING_CLOSED names the person.';

CREATE OR REPLACE FUNCTION add_payment_findings(
  p_run_id uuid, p_kind text, p_severity text, p_outbox_ids uuid[], p_extra jsonb DEFAULT '{}'
) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
  INSERT INTO reconciliation_findings
    (finding_id, run_id, finding_key, kind, severity, outbox_id, detail, created_at)
  SELECT uuid_v7(), p_run_id, sha256(convert_to(ARRAY[p_kind, p_severity, g.outbox_id::text, e.keys]::text, 'UTF8')),
    p_kind, p_severity, g.outbox_id, jsonb_build_object('payment', describe_reconciled_payment(g.outbox_id), 'entries',
      COALESCE(e.entries, '[]')) || p_extra, clock_timestamp()
  FROM unnest(p_outbox_ids) AS g(outbox_id)
  CROSS JOIN LATERAL (
    SELECT string_agg(encode(d.entry_key, 'hex') || ':' || d.occurrence, ',' ORDER BY d.entry_key, d.occurrence)
        AS keys,
      jsonb_agg(describe_reconciled_entry(d) ORDER BY d.booked_on, d.position) AS entries
    FROM reconciliation_entries d WHERE d.outbox_id = g.outbox_id AND d.kind = 'payout' OFFSET 0
  ) e
  ON CONFLICT (finding_key) DO NOTHING
$$;
COMMENT ON FUNCTION add_payment_findings(uuid, text, text, uuid[], jsonb) IS
  'Internal: records a finding about each payment with its booked debits, unless an earlier run recorded the same.';

CREATE OR REPLACE FUNCTION add_entry_finding(
  p_run_id uuid, p_kind text, p_severity text, p_entry reconciliation_entries, p_extra jsonb
) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
  INSERT INTO reconciliation_findings
    (finding_id, run_id, finding_key, kind, severity, outbox_id, detail, created_at)
  VALUES (uuid_v7(), p_run_id, sha256(convert_to(ARRAY[p_kind, p_severity, p_entry.outbox_id::text,
      encode(p_entry.entry_key, 'hex') || ':' || p_entry.occurrence]::text, 'UTF8')),
    p_kind, p_severity, p_entry.outbox_id, jsonb_build_object('payment',
      describe_reconciled_payment(p_entry.outbox_id), 'entries', jsonb_build_array(describe_reconciled_entry(p_entry)))
      || p_extra, clock_timestamp())
  ON CONFLICT (finding_key) DO NOTHING
$$;
COMMENT ON FUNCTION add_entry_finding(uuid, text, text, reconciliation_entries, jsonb) IS
  'Internal: records a finding about one entry.';

CREATE OR REPLACE FUNCTION describe_reconciled_payment(p_outbox_id uuid) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
  SELECT jsonb_build_object('state', COALESCE(a.state::text, CASE WHEN q.hold_reason IS NULL THEN 'PENDING'
      ELSE 'HELD' END), 'amount', payload_amount(COALESCE(a.payload, q.payload))::text, 'currency',
    payload_currency(COALESCE(a.payload, q.payload)), 'instructionId', i.instruction_id, 'idempotencyKey',
    i.idempotency_key, 'participantId', i.participant_id, 'railReference', a.rail_reference, 'completedAt',
    to_char(a.completed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
  FROM payment_outbox_identities i
  LEFT JOIN LATERAL (
    SELECT t.* FROM payment_outbox_attempts t
    WHERE t.outbox_id = i.outbox_id AND t.state IN ('DISPATCHED', 'FAILED') OFFSET 0
  ) a ON true
  LEFT JOIN LATERAL (SELECT p.* FROM payment_outbox_pending p WHERE p.outbox_id = i.outbox_id OFFSET 0) q ON true
  WHERE i.outbox_id = p_outbox_id
$$;
COMMENT ON FUNCTION describe_reconciled_payment(uuid) IS
  'Internal: returns ids, state, amount and rail reference of a payment in the ledger, for a finding.';

CREATE OR REPLACE FUNCTION describe_reconciled_entry(p_entry reconciliation_entries) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
RETURN jsonb_build_object('kind', p_entry.kind, 'account', p_entry.account, 'bankReference', p_entry.bank_reference,
  'reference', p_entry.reference, 'amount', p_entry.amount::text, 'currency', p_entry.currency, 'bookedOn',
  to_char(p_entry.booked_on, 'YYYY-MM-DD'), 'valuedOn', to_char(p_entry.valued_on, 'YYYY-MM-DD'));
COMMENT ON FUNCTION describe_reconciled_entry(reconciliation_entries) IS
  'Internal: returns the data of an entry of a statement, for a finding.';

-- Records the return of a reversed payment, unless the entry is a debit, or the bank paid twice or another amount. In
-- the last two cases the reversal may correct the fault of the bank, and the payment is not returned.
CREATE OR REPLACE FUNCTION return_reversed_payment(p_entry reconciliation_entries) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_payment jsonb := describe_reconciled_payment(p_entry.outbox_id);
  v_debits record;
  v_event_id uuid;
BEGIN
  IF p_entry.kind = 'debit_reversal' THEN
    RETURN jsonb_build_object('note', 'No return was recorded: the entry is a debit. Ask the bank what it reverses.');
  END IF;
  SELECT count(*) AS debits, min(d.amount) AS amount, min(d.currency) AS currency INTO v_debits
  FROM reconciliation_entries d WHERE d.outbox_id = p_entry.outbox_id AND d.kind = 'payout';
  IF v_debits.debits > 1 THEN
    RETURN jsonb_build_object('note', 'No return was recorded: the bank paid twice, and this may correct it.');
  END IF;
  -- SQL cannot read an encrypted amount. The run that compared the debit could, and recorded a finding.
  IF (v_payment ->> 'amount')::numeric <> v_debits.amount OR v_payment ->> 'currency' <> v_debits.currency
    OR EXISTS (
      SELECT 1 FROM reconciliation_findings f WHERE f.outbox_id = p_entry.outbox_id AND f.kind = 'amount_differs')
  THEN
    RETURN jsonb_build_object('note', 'No return was recorded: the bank paid another amount, and this may correct it.');
  END IF;
  BEGIN
    SELECT r.event_id INTO v_event_id
    -- A return has at most four decimals, and a statement may write further zeros.
    FROM record_outbox_return(p_entry.outbox_id,
      CASE WHEN scale(p_entry.amount) > 4 THEN trim_scale(p_entry.amount) ELSE p_entry.amount END, p_entry.currency,
      COALESCE(p_entry.return_code, 'REVERSED'),
      COALESCE(p_entry.bank_reference, encode(p_entry.entry_key, 'hex'))
        || CASE WHEN p_entry.occurrence > 1 THEN ' #' || p_entry.occurrence ELSE '' END,
      p_entry.booked_on::timestamp AT TIME ZONE 'UTC') r;
  EXCEPTION WHEN SQLSTATE 'P7001' OR SQLSTATE 'P7004' OR SQLSTATE 'P7006' OR SQLSTATE 'P7015' OR SQLSTATE '22023' THEN
    RETURN jsonb_build_object('note', format('No return was recorded: %s', SQLERRM));
  END;
  RETURN jsonb_build_object('returnEventId', v_event_id);
END
$$;
COMMENT ON FUNCTION return_reversed_payment(reconciliation_entries) IS
  'Internal: records the return of a reversed payment, or says in a note why not.';

-- A statement ends no payment: it only proposes DISPATCHED for a held one. Two people other than the run's actor must
-- approve, because the actor may be a machine. Every reader sees the proposal. So it contains no amount, and only the
-- bank's reference of the entry.
CREATE OR REPLACE FUNCTION propose_paid_payment(p_outbox_id uuid, p_run reconciliation_runs) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_entry reconciliation_entries;
  v_proposal_id uuid;
BEGIN
  IF EXISTS (SELECT 1 FROM reconciliation_findings f WHERE f.outbox_id = p_outbox_id AND f.kind = 'amount_differs') THEN
    RETURN jsonb_build_object('note', 'No decision was proposed: the bank paid another amount. Ask the bank first.');
  END IF;
  SELECT * INTO v_entry FROM reconciliation_entries d WHERE d.outbox_id = p_outbox_id AND d.kind = 'payout' LIMIT 1;
  BEGIN
    PERFORM lock_held_outbox_item(p_outbox_id, p_run.actor, 'DISPATCHED');
    PERFORM require_no_open_proposal(p_outbox_id);
    v_proposal_id := propose_outbox_decision(p_outbox_id, 'DISPATCHED', format(
      'The bank booked a debit on %s. Reconciliation run %s, entry %s of the statement.',
      to_char(v_entry.booked_on, 'YYYY-MM-DD'), p_run.run_id, v_entry.position),
      COALESCE(v_entry.bank_reference, p_outbox_id::text), p_run.actor, 2);
  EXCEPTION WHEN SQLSTATE 'P7001' OR SQLSTATE 'P7006' THEN
    RETURN jsonb_build_object('note', format('No decision was proposed: %s', SQLERRM));
  END;
  RETURN jsonb_build_object('proposalId', v_proposal_id);
END
$$;
COMMENT ON FUNCTION propose_paid_payment(uuid, reconciliation_runs) IS
  'Internal: proposes DISPATCHED for a held payment that the bank paid, or says in a note why not.';
