-- Staging of a statement: the caller sends its booked debits and reversals in batches, each in a short transaction, so
-- that reading a long statement delays no sealing. finish_reconciliation compares them.

CREATE OR REPLACE FUNCTION stage_reconciliation_entries(
  p_entry_kinds text[], p_accounts text[], p_bank_references text[], p_shown_references text[],
  p_candidates text[], p_entry_amounts numeric[], p_entry_currencies text[], p_booked_on date[], p_valued_on date[],
  p_return_codes text[], p_positions bigint[],
  p_upload_id uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_upload_id CONSTANT uuid := COALESCE(p_upload_id, uuid_v7());
  v_list CONSTANT text := array_dims(p_positions);
  v_problem text[];
BEGIN
  -- 1. Check the lists.
  PERFORM outbox_actor();
  IF v_upload_id <= uuid_v7_floor(clock_timestamp() - interval '1 day')
    OR v_upload_id >= uuid_v7_floor(clock_timestamp() + interval '1 day')
  THEN
    PERFORM refuse_argument('p_upload_id', 'null for a new upload, or the id of an upload of the last day');
  END IF;
  IF p_positions IS NULL OR cardinality(p_positions) > 10000 OR v_list <> format('[1:%s]', cardinality(p_positions))
  THEN
    PERFORM refuse_argument('p_positions', 'a plain list of at most 10000 numbers');
  END IF;
  v_problem := CASE
    WHEN p_entry_kinds IS NULL OR array_dims(p_entry_kinds) IS DISTINCT FROM v_list THEN '{p_entry_kinds}'::text[]
    WHEN p_accounts IS NULL OR array_dims(p_accounts) IS DISTINCT FROM v_list THEN '{p_accounts}'
    WHEN p_bank_references IS NULL OR array_dims(p_bank_references) IS DISTINCT FROM v_list THEN '{p_bank_references}'
    WHEN p_shown_references IS NULL OR array_dims(p_shown_references) IS DISTINCT FROM v_list
      THEN '{p_shown_references}'
    WHEN p_candidates IS NULL OR array_dims(p_candidates) IS DISTINCT FROM v_list THEN '{p_candidates}'
    WHEN p_entry_amounts IS NULL OR array_dims(p_entry_amounts) IS DISTINCT FROM v_list THEN '{p_entry_amounts}'
    WHEN p_entry_currencies IS NULL OR array_dims(p_entry_currencies) IS DISTINCT FROM v_list
      THEN '{p_entry_currencies}'
    WHEN p_booked_on IS NULL OR array_dims(p_booked_on) IS DISTINCT FROM v_list THEN '{p_booked_on}'
    WHEN p_valued_on IS NULL OR array_dims(p_valued_on) IS DISTINCT FROM v_list THEN '{p_valued_on}'
    WHEN p_return_codes IS NULL OR array_dims(p_return_codes) IS DISTINCT FROM v_list THEN '{p_return_codes}'
  END;
  IF v_problem IS NOT NULL THEN
    PERFORM refuse_argument(v_problem[1], 'a plain list, as long as p_positions');
  END IF;

  -- 2. Check their values.
  SELECT CASE
      WHEN g.position IS NULL OR g.position < 1 THEN ARRAY['p_positions', 'numbers from 1']
      WHEN g.kind IS NULL OR g.kind NOT IN ('payout', 'reversal', 'debit_reversal')
        THEN ARRAY['p_entry_kinds', 'payout, reversal or debit_reversal']
      WHEN g.account IS NOT NULL AND NOT is_short_text(g.account, 64)
        THEN ARRAY['p_accounts', 'text of 1 to 64 characters, or null']
      WHEN g.bank_reference IS NOT NULL AND NOT is_short_text(g.bank_reference, 200)
        THEN ARRAY['p_bank_references', 'text of 1 to 200 characters, or null']
      WHEN g.reference IS NOT NULL AND NOT is_short_text(g.reference, 200)
        THEN ARRAY['p_shown_references', 'text of 1 to 200 characters, or null']
      -- 20 ids of 36 characters and 19 commas are 739 bytes. translate() is faster than a regex.
      WHEN octet_length(g.candidates) > 739 OR octet_length(g.candidates) % 37 <> 36
        OR translate(g.candidates, '123456789abcdef', '000000000000000')
          <> left(repeat('00000000-0000-0000-0000-000000000000,', 20), octet_length(g.candidates))
        THEN ARRAY['p_candidates', 'at most 20 outbox ids, separated by commas, or null']
      -- NaN is above every number.
      WHEN g.amount < 0 OR g.amount >= 1e18 OR scale(g.amount) > 6
        THEN ARRAY['p_entry_amounts', 'amounts below 10^18 with at most 6 decimals, or null']
      WHEN g.currency COLLATE "C" !~ '^[A-Z]{3}$' THEN ARRAY['p_entry_currencies', 'three capital letters, or null']
      WHEN NOT isfinite(g.booked_on) OR abs(g.booked_on - current_date) > 36525
        THEN ARRAY['p_booked_on', 'dates within 100 years, or null']
      WHEN NOT isfinite(g.valued_on) OR abs(g.valued_on - current_date) > 36525
        THEN ARRAY['p_valued_on', 'dates within 100 years, or null']
      WHEN g.return_code IS NOT NULL AND NOT is_short_text(g.return_code, 35)
        THEN ARRAY['p_return_codes', 'text of 1 to 35 characters, or null']
    END AS problem INTO v_problem
  FROM unnest(p_positions, p_entry_kinds, p_accounts, p_bank_references, p_shown_references, p_candidates,
    p_entry_amounts, p_entry_currencies, p_booked_on, p_valued_on, p_return_codes) AS g(position, kind,
    account, bank_reference, reference, candidates, amount, currency, booked_on, valued_on, return_code)
  ORDER BY problem NULLS LAST LIMIT 1;
  IF v_problem IS NOT NULL THEN
    PERFORM refuse_argument(v_problem[1], v_problem[2]);
  END IF;

  -- 3. Store the entries, each with the first of its references that is a payment of ours. A repeated call, after a
  -- connection was lost, stores nothing twice.
  INSERT INTO reconciliation_uploads
    (upload_id, position, entry_key, kind, outbox_id, rail_type, account, bank_reference, reference, amount, currency,
      booked_on, valued_on, return_code, is_matched)
  SELECT v_upload_id, g.position, COALESCE(uuid_send(payment.outbox_id), '') || sha256(record_send(ROW(g.kind,
      g.account, g.bank_reference, CASE WHEN g.bank_reference IS NULL THEN g.booked_on END, trim_scale(g.amount),
      g.currency, CASE WHEN payment.outbox_id IS NULL THEN g.reference END))),
    g.kind, payment.outbox_id, payment.rail_type, g.account, g.bank_reference, g.reference, g.amount, g.currency,
    g.booked_on, g.valued_on, g.return_code, COALESCE(g.amount = ledger.amount AND g.currency = ledger.currency, false)
  FROM unnest(p_positions, p_entry_kinds, p_accounts, p_bank_references, p_shown_references, p_candidates,
    p_entry_amounts, p_entry_currencies, p_booked_on, p_valued_on, p_return_codes) AS g(position, kind,
    account, bank_reference, reference, candidates, amount, currency, booked_on, valued_on, return_code)
  LEFT JOIN LATERAL (
    SELECT i.outbox_id, i.rail_type
    FROM unnest(string_to_array(g.candidates, ',')::uuid[]) WITH ORDINALITY AS c(outbox_id, place)
    CROSS JOIN LATERAL (
      SELECT n.outbox_id, n.rail_type FROM payment_outbox_identities n
      WHERE n.outbox_id = c.outbox_id AND NOT n.is_message OFFSET 0
    ) i
    ORDER BY c.place LIMIT 1
  ) payment ON true
  LEFT JOIN LATERAL (
    SELECT payload_amount(a.payload) AS amount, payload_currency(a.payload) AS currency
    FROM payment_outbox_attempts a
    WHERE g.kind = 'payout' AND a.outbox_id = payment.outbox_id AND a.state = 'DISPATCHED' OFFSET 0
  ) ledger ON true
  ON CONFLICT (upload_id, position) DO NOTHING;
  RETURN v_upload_id;
END
$$;
COMMENT ON FUNCTION stage_reconciliation_entries(text[], text[], text[], text[], text[], numeric[], text[], date[],
  date[], text[], bigint[], uuid) IS
  'Stores entries of a statement until finish_reconciliation compares them. Returns the id of the upload, which '
  'further batches name.';

CREATE OR REPLACE FUNCTION discard_reconciliation_upload(p_upload_id uuid) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_deleted bigint;
BEGIN
  PERFORM outbox_actor();
  IF p_upload_id IS NULL THEN
    PERFORM refuse_argument('p_upload_id', 'the id of an upload');
  END IF;
  DELETE FROM reconciliation_upload_payments p WHERE p.upload_id = p_upload_id;
  DELETE FROM reconciliation_uploads u WHERE u.upload_id = p_upload_id;
  GET DIAGNOSTICS v_deleted = ROW_COUNT;
  RETURN v_deleted;
END
$$;
COMMENT ON FUNCTION discard_reconciliation_upload(uuid) IS 'Deletes the entries of an upload. Returns their number.';

-- The caller decrypts the amounts of these payments and passes them to annotate_reconciliation_payments.
CREATE OR REPLACE FUNCTION unreadable_reconciliation_payments(
  p_upload_id uuid, p_rail_type text, p_max_rows integer, p_after uuid DEFAULT NULL
) RETURNS TABLE (outbox_id uuid, payload jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
BEGIN
  IF p_upload_id IS NULL THEN
    PERFORM refuse_argument('p_upload_id', 'the id of an upload');
  END IF;
  PERFORM check_id('p_rail_type', p_rail_type);
  PERFORM check_number('p_max_rows', p_max_rows, 1, 1000);
  RETURN QUERY
  SELECT DISTINCT ON (u.outbox_id) u.outbox_id, a.payload
  FROM reconciliation_uploads u
  CROSS JOIN LATERAL (
    SELECT t.payload FROM payment_outbox_attempts t
    WHERE t.outbox_id = u.outbox_id AND t.state IN ('DISPATCHED', 'FAILED')
    UNION ALL
    SELECT p.payload FROM payment_outbox_pending p WHERE p.outbox_id = u.outbox_id
    OFFSET 0
  ) a
  WHERE u.upload_id = p_upload_id AND u.rail_type = p_rail_type AND u.kind = 'payout' AND NOT u.is_matched
    AND u.outbox_id > COALESCE(p_after, '00000000-0000-0000-0000-000000000000')
    AND (payload_amount(a.payload) IS NULL OR payload_currency(a.payload) IS NULL)
  ORDER BY u.outbox_id LIMIT p_max_rows;
END
$$;
COMMENT ON FUNCTION unreadable_reconciliation_payments(uuid, text, integer, uuid) IS
  'Returns the payments of an upload whose amount or currency SQL cannot read, in the order of their ids.';

CREATE OR REPLACE FUNCTION annotate_reconciliation_payments(
  p_upload_id uuid, p_outbox_ids uuid[], p_entry_amounts numeric[], p_entry_currencies text[], p_covered boolean[]
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_list CONSTANT text := array_dims(p_outbox_ids);
BEGIN
  PERFORM outbox_actor();
  IF p_upload_id IS NULL THEN
    PERFORM refuse_argument('p_upload_id', 'the id of an upload');
  END IF;
  IF p_outbox_ids IS NULL OR cardinality(p_outbox_ids) > 10000 OR v_list <> format('[1:%s]', cardinality(p_outbox_ids))
    OR array_position(p_outbox_ids, NULL) IS NOT NULL
  THEN
    PERFORM refuse_argument('p_outbox_ids', 'a plain list of at most 10000 outbox ids');
  END IF;
  IF p_entry_amounts IS NULL OR array_dims(p_entry_amounts) IS DISTINCT FROM v_list
    OR EXISTS (SELECT 1 FROM unnest(p_entry_amounts) a WHERE a < 0 OR a >= 1e18 OR scale(a) > 6)
  THEN
    PERFORM refuse_argument('p_entry_amounts',
      'a plain list, as long as p_outbox_ids, of amounts below 10^18 with at most 6 decimals, or null');
  END IF;
  IF p_entry_currencies IS NULL OR array_dims(p_entry_currencies) IS DISTINCT FROM v_list
    OR EXISTS (SELECT 1 FROM unnest(p_entry_currencies) c WHERE c COLLATE "C" !~ '^[A-Z]{3}$')
  THEN
    PERFORM refuse_argument('p_entry_currencies',
      'a plain list, as long as p_outbox_ids, of three capital letters, or null');
  END IF;
  IF p_covered IS NULL OR array_dims(p_covered) IS DISTINCT FROM v_list OR array_position(p_covered, NULL) IS NOT NULL
  THEN
    PERFORM refuse_argument('p_covered', 'a plain list, as long as p_outbox_ids, of true or false');
  END IF;
  -- An annotation of the amount, which is always covered, stays covered: the statement names that payment.
  INSERT INTO reconciliation_upload_payments (upload_id, outbox_id, amount, currency, covered)
  SELECT DISTINCT ON (g.outbox_id) p_upload_id, g.outbox_id, g.amount, g.currency, g.covered
  FROM unnest(p_outbox_ids, p_entry_amounts, p_entry_currencies, p_covered) AS g(outbox_id, amount, currency, covered)
  ORDER BY g.outbox_id
  ON CONFLICT (upload_id, outbox_id) DO UPDATE SET amount = COALESCE(EXCLUDED.amount,
    reconciliation_upload_payments.amount), currency = COALESCE(EXCLUDED.currency,
    reconciliation_upload_payments.currency), covered = EXCLUDED.covered OR reconciliation_upload_payments.covered;
END
$$;
COMMENT ON FUNCTION annotate_reconciliation_payments(uuid, uuid[], numeric[], text[], boolean[]) IS
  'Adds facts about payments that SQL cannot read: amount and currency, and whether the statement covers the payment.';

CREATE OR REPLACE FUNCTION payload_currency(p_payload jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN (p_payload ->> 'currency') COLLATE "C" ~ '^[A-Z]{3}$' THEN p_payload ->> 'currency' END;
COMMENT ON FUNCTION payload_currency(jsonb) IS
  'Returns the currency of a payment''s payload, or null if it is unreadable.';

CREATE OR REPLACE FUNCTION prune_reconciliation_uploads() RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
  DELETE FROM reconciliation_upload_payments p
  WHERE p.upload_id < uuid_v7_floor(clock_timestamp() - interval '1 day');
  DELETE FROM reconciliation_uploads u
  WHERE u.ctid = ANY (ARRAY(
    SELECT v.ctid FROM reconciliation_uploads v
    WHERE v.upload_id < uuid_v7_floor(clock_timestamp() - interval '1 day') LIMIT 10000));
$$;
COMMENT ON FUNCTION prune_reconciliation_uploads() IS
  'Internal: deletes staged entries of uploads that are older than a day, at most 10,000 in one call.';
