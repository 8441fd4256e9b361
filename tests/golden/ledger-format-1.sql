-- Rows of the golden ledger of format 1. tests/contract/ledgerGolden.spec.ts inserts them, seals them and compares the result with
-- the export beside this file. Neither the rows nor the export may change.

INSERT INTO payment_outbox_identities (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, rail_type, ordered,
  redrive_of, content_hash, created_at, traceparent, is_message, key_scope, stream_position, outcome_topic,
  replaces, recorded_xid)
VALUES
  ('00000000-0000-7000-8000-000000000001', 'instruction-1', 'key-1', 'participant-1', 1, 'sepa', false,
    NULL, '\x00', '2026-02-03 04:05:06.789123+00', NULL, false, NULL, NULL, 'orders', NULL, 1000),
  ('ffffffff-ffff-7fff-bfff-ffffffffffff', U&'Überweisung \+01F4B6', U&'k\00e9y "2" \\ \2028', U&'\0928\092E', -9223372036854775808, 'sepa', true,
    '00000000-0000-7000-8000-000000000001', sha256('content'), '1969-12-31 23:59:59.999999+00',
    '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', true, 'key_1', 9223372036854775807,
    U&'th\00e8me \+01F4B6', '00000000-0000-7000-8000-000000000001', 1000),
  ('00000000-0000-7000-8000-000000000003', '', '', '', 0, '', false,
    NULL, '', '2000-01-01 00:00:00+00', NULL, false, '', 0, '', NULL, 4294967296);

INSERT INTO payment_outbox_attempts (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type,
  payload, attempt_no, state, claimed_at, completed_at, rail_reference, rail_code, error_code, error_message, latency_ms, worker_id,
  lease_token, created_at, action, outcome_unknown, recorded_xid)
VALUES
  ('00000000-0000-7000-8000-000000000011', '00000000-0000-7000-8000-000000000001', 'instruction-1', 'participant-1', 1, 'key-1', 'sepa',
    '{"z": [1, 1.10, -0.0000001, 12345678901234567890.12], "a": {"escape \" \\ \n \u001f": "\u20ac \ud83d\ude00 \u2028", "": null, "t": true}}',
    1, 'RETRYABLE', '2026-02-03 04:05:07+00', '2026-02-03 04:05:08.000001+00', NULL, 'AM04', 'BUSY', U&'zu wenig Guthaben \2013 später', 0, 'worker-1',
    '11111111-2222-4333-8444-555555555555', '2026-02-03 04:05:08.000001+00', 'sent', true, 1001),
  ('00000000-0000-7000-8000-000000000012', '00000000-0000-7000-8000-000000000001', 'instruction-1', 'participant-1', 1, 'key-1', 'sepa',
    '[]', 2147483647, 'DISPATCHED', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, '1999-12-31 23:59:59.999999+00', 'decided', false, 1001),
  ('00000000-0000-7000-8000-000000000013', 'ffffffff-ffff-7fff-bfff-ffffffffffff', '', '', -1, '', '',
    '"text"', 2, 'ZOMBIE_REQUEUE', '0001-01-01 00:00:00+00 BC', '294276-12-31 23:59:59.999999+00', '', '', '', '', 2147483647, '',
    '00000000-0000-0000-0000-000000000000', '2026-02-03 04:05:08+00', 'expired', true, 4294967297);

INSERT INTO payment_outbox_events (event_id, outbox_id, scope, event_no, event_type, attempt_id, actor, detail, created_at, recorded_xid)
VALUES
  ('00000000-0000-7000-8000-000000000021', '00000000-0000-7000-8000-000000000001', NULL, 1, 'HOLD_PLACED', NULL, 'olga',
    '{"reason": "a \"quoted\" reason\t\\"}', '2026-02-03 04:05:09.5+00', 1001),
  ('00000000-0000-7000-8000-000000000022', NULL, U&'rail:sepa \+01F3E6', 9223372036854775807, 'PAUSED',
    '00000000-0000-7000-8000-000000000011', U&'\041E\043B\044C\0433\0430', '{}', '2038-01-19 03:14:08+00', 4294967296);

-- Adds enough events for three levels of the hash tree.
INSERT INTO payment_outbox_events (event_id, outbox_id, event_no, event_type, actor, detail, created_at, recorded_xid)
SELECT ('00000000-0000-7000-8000-0000000001' || lpad(n::text, 2, '0'))::uuid, '00000000-0000-7000-8000-000000000001', n + 1,
  'LEASE_RENEWED', 'worker-1', jsonb_build_object('n', n), '2026-02-03 05:00:00+00'::timestamptz + n * interval '1 minute', 1002 + n / 4
FROM generate_series(1, 18) AS n;
