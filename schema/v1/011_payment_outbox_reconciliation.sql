-- Reconciliation of the ledger with statements of the bank: runs, the entries that name our payments, findings and
-- their closings. The functions are in schema/functions/reconciliation.

CREATE TABLE IF NOT EXISTS reconciliation_runs (
  run_id uuid PRIMARY KEY,
  rail_type text NOT NULL,
  format text NOT NULL,
  file_sha256 bytea NOT NULL,
  reading_sha256 bytea NOT NULL,
  statement_ids text[] NOT NULL,
  accounts text[] NOT NULL,
  period_from timestamptz NOT NULL,
  period_to timestamptz NOT NULL,
  settlement_days integer NOT NULL,
  keep_unknown boolean NOT NULL,
  checked_from timestamptz NOT NULL,
  checked_to timestamptz NOT NULL,
  entries bigint NOT NULL,
  counts jsonb NOT NULL,
  unknown_sums jsonb NOT NULL,
  entries_sha256 bytea NOT NULL,
  findings_sha256 bytea NOT NULL,
  event_id uuid NOT NULL,
  actor text NOT NULL,
  created_at timestamptz NOT NULL,
  CONSTRAINT reconciliation_runs_known_format CHECK (format IN ('camt053', 'camt054', 'csv', 'ndjson', 'rail')),
  CONSTRAINT reconciliation_runs_period_not_empty CHECK (period_from < period_to),
  CONSTRAINT reconciliation_runs_settlement_in_range CHECK (settlement_days BETWEEN 0 AND 60)
);
COMMENT ON TABLE reconciliation_runs IS
  'One row per comparison of a statement with the ledger. The event RECONCILED, which is sealed, repeats the row.';
COMMENT ON COLUMN reconciliation_runs.format IS 'Format of the statement; rail: entries that the rail''s API listed.';
COMMENT ON COLUMN reconciliation_runs.reading_sha256 IS
  'SHA-256 of the options of the reader: format, columns, decimal mark, date format, pattern of the reference.';
COMMENT ON COLUMN reconciliation_runs.accounts IS 'Accounts of the statements, sorted.';
COMMENT ON COLUMN reconciliation_runs.period_to IS 'End of the statements'' period, exclusive.';
COMMENT ON COLUMN reconciliation_runs.keep_unknown IS
  'Whether the run stored unknown entries: debits that name none of our payments.';
COMMENT ON COLUMN reconciliation_runs.checked_from IS
  'Payments dispatched from this time until checked_to had to be in a statement.';
COMMENT ON COLUMN reconciliation_runs.entries IS 'Booked debits and reversals in the statement.';
COMMENT ON COLUMN reconciliation_runs.counts IS
  'Number of payments or entries per kind of finding, of matched payments, and of debits of other rails.';
COMMENT ON COLUMN reconciliation_runs.unknown_sums IS 'Sum of the unknown entries, per currency.';
COMMENT ON COLUMN reconciliation_runs.entries_sha256 IS 'Digest of the rows of reconciliation_entries of this run.';
COMMENT ON COLUMN reconciliation_runs.findings_sha256 IS 'Digest of the rows of reconciliation_findings of this run.';

-- Contains a hash of the accounts, because an index row holds at most 2,704 bytes, and a file up to 1,000 accounts.
CREATE UNIQUE INDEX IF NOT EXISTS ux_reconciliation_runs_one_per_file ON reconciliation_runs (
  file_sha256, reading_sha256, rail_type, hash_array_extended(accounts, 0), settlement_days, period_from, period_to,
  keep_unknown);
COMMENT ON INDEX ux_reconciliation_runs_one_per_file IS
  'Uniqueness and repeats: one run per file and options. One entry per run.';

CREATE TABLE IF NOT EXISTS reconciliation_entries (
  entry_key bytea NOT NULL,
  occurrence integer NOT NULL,
  run_id uuid NOT NULL,
  kind text NOT NULL,
  outbox_id uuid,
  account text,
  bank_reference text,
  reference text,
  amount numeric,
  currency text,
  booked_on date,
  valued_on date,
  return_code text,
  position bigint NOT NULL,
  PRIMARY KEY (entry_key, occurrence),
  CONSTRAINT reconciliation_entries_known_kind CHECK (kind IN ('payout', 'reversal', 'debit_reversal'))
);
COMMENT ON TABLE reconciliation_entries IS
  'Booked entries of statements that name one of our payments; unknown entries only if the run kept them.';
COMMENT ON COLUMN reconciliation_entries.entry_key IS
  'Id of the payment that the entry names, and SHA-256 of kind, account, bank reference (without one the booking '
  'date), amount and currency. Without a payment only the SHA-256, which then covers the reference too. An entry that '
  'a second file repeats has the same key. The id keeps the keys of one statement together in the index.';
COMMENT ON COLUMN reconciliation_entries.occurrence IS
  'Number (1, 2, …) of the entry among the entries of its file with the same key.';
COMMENT ON COLUMN reconciliation_entries.run_id IS 'First run that saw the entry.';
COMMENT ON COLUMN reconciliation_entries.kind IS
  'payout: a debit. reversal: a credit that returns a debit. debit_reversal: a debit that is marked as a reversal.';

CREATE TABLE IF NOT EXISTS reconciliation_findings (
  finding_id uuid PRIMARY KEY,
  run_id uuid NOT NULL,
  finding_key bytea NOT NULL,
  kind text NOT NULL,
  severity text NOT NULL,
  outbox_id uuid,
  detail jsonb NOT NULL,
  created_at timestamptz NOT NULL,
  CONSTRAINT reconciliation_findings_once UNIQUE (finding_key),
  CONSTRAINT reconciliation_findings_known_kind CHECK (kind IN ('paid_twice', 'paid_not_recorded',
    'recorded_not_paid', 'amount_differs', 'reversed', 'unknown_entry')),
  CONSTRAINT reconciliation_findings_known_severity CHECK (severity IN ('critical', 'warning', 'info'))
);
COMMENT ON TABLE reconciliation_findings IS 'Differences between statements and the ledger, each reported once.';
COMMENT ON COLUMN reconciliation_findings.finding_key IS
  'SHA-256 of kind, severity, payment and entries. A later run does not report the same difference again.';
COMMENT ON COLUMN reconciliation_findings.detail IS 'The payment and the entries, as they were at the time of the run.';

CREATE TABLE IF NOT EXISTS reconciliation_closings (
  finding_id uuid PRIMARY KEY,
  event_id uuid NOT NULL,
  closed_by text NOT NULL,
  reason text NOT NULL,
  closed_at timestamptz NOT NULL
);
COMMENT ON TABLE reconciliation_closings IS 'Findings that a person closed. The event FINDING_CLOSED repeats the row.';

CREATE TABLE IF NOT EXISTS reconciliation_open_findings (
  finding_id uuid PRIMARY KEY,
  kind text NOT NULL,
  severity text NOT NULL,
  created_at timestamptz NOT NULL
);
COMMENT ON TABLE reconciliation_open_findings IS
  'Findings that no person has closed, in a table of their own, so that the status does not read closed ones.';

-- UNLOGGED: a crash of the server empties the table, and the caller reads the statement again.
CREATE UNLOGGED TABLE IF NOT EXISTS reconciliation_uploads (
  upload_id uuid NOT NULL,
  position bigint NOT NULL,
  entry_key bytea NOT NULL,
  kind text NOT NULL,
  outbox_id uuid,
  rail_type text,
  account text,
  bank_reference text,
  reference text,
  amount numeric,
  currency text,
  booked_on date,
  valued_on date,
  return_code text,
  is_matched boolean NOT NULL DEFAULT false,
  PRIMARY KEY (upload_id, position)
);
COMMENT ON TABLE reconciliation_uploads IS
  'Entries of a statement that is being read. The end of the run deletes them, or lease repair after a day.';
COMMENT ON COLUMN reconciliation_uploads.upload_id IS 'UUID of version 7: lease repair reads the age from it.';
COMMENT ON COLUMN reconciliation_uploads.outbox_id IS 'First of the entry''s references that is a payment of ours.';
COMMENT ON COLUMN reconciliation_uploads.is_matched IS
  'Whether the entry is a debit of a DISPATCHED payment with the same amount and currency, as read when it was staged. '
  'A match is final, because DISPATCHED is final.';

CREATE UNLOGGED TABLE IF NOT EXISTS reconciliation_upload_payments (
  upload_id uuid NOT NULL,
  outbox_id uuid NOT NULL,
  amount numeric,
  currency text,
  covered boolean NOT NULL,
  PRIMARY KEY (upload_id, outbox_id)
);
COMMENT ON TABLE reconciliation_upload_payments IS
  'Facts about payments that only the caller knows: decrypted amounts, and whether the statement''s accounts pay them.';

CREATE INDEX IF NOT EXISTS ix_reconciliation_entries_by_payment ON reconciliation_entries (outbox_id)
  WHERE outbox_id IS NOT NULL;
COMMENT ON INDEX ix_reconciliation_entries_by_payment IS
  'Reconciliation and timeline: entries of a payment. One entry per entry of a statement that names a payment.';
CREATE INDEX IF NOT EXISTS ix_reconciliation_entries_by_run ON reconciliation_entries (run_id);
COMMENT ON INDEX ix_reconciliation_entries_by_run IS 'Verification: entries of a run. One entry per row.';
CREATE INDEX IF NOT EXISTS ix_reconciliation_uploads_unmatched ON reconciliation_uploads (upload_id, outbox_id)
  WHERE NOT is_matched;
COMMENT ON INDEX ix_reconciliation_uploads_unmatched IS
  'Decryption of amounts: payments of an upload, by page. One entry per staged entry that is not matched.';
CREATE INDEX IF NOT EXISTS ix_reconciliation_open_findings ON reconciliation_open_findings (kind, severity, created_at);
COMMENT ON INDEX ix_reconciliation_open_findings IS
  'Metrics: number of open findings per kind, and the oldest critical one. One entry per open finding.';
CREATE INDEX IF NOT EXISTS ix_reconciliation_open_findings_by_severity
  ON reconciliation_open_findings (severity, finding_id);
COMMENT ON INDEX ix_reconciliation_open_findings_by_severity IS
  'Lists: open findings, the most severe and newest first. One entry per open finding.';
CREATE INDEX IF NOT EXISTS ix_reconciliation_findings_by_severity ON reconciliation_findings (severity, finding_id);
COMMENT ON INDEX ix_reconciliation_findings_by_severity IS
  'Lists: findings, the most severe and newest first. One entry per row.';
CREATE INDEX IF NOT EXISTS ix_reconciliation_findings_by_run ON reconciliation_findings (run_id);
COMMENT ON INDEX ix_reconciliation_findings_by_run IS 'Lists and verification: findings of a run. One entry per row.';
CREATE INDEX IF NOT EXISTS ix_reconciliation_findings_by_payment ON reconciliation_findings (outbox_id)
  WHERE outbox_id IS NOT NULL;
COMMENT ON INDEX ix_reconciliation_findings_by_payment IS
  'Timeline: findings of a payment. One entry per finding about a payment.';

CREATE OR REPLACE TRIGGER reconciliation_runs_is_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON reconciliation_runs
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE reconciliation_runs ENABLE ALWAYS TRIGGER reconciliation_runs_is_append_only;
CREATE OR REPLACE TRIGGER reconciliation_entries_is_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON reconciliation_entries
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE reconciliation_entries ENABLE ALWAYS TRIGGER reconciliation_entries_is_append_only;
CREATE OR REPLACE TRIGGER reconciliation_findings_is_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON reconciliation_findings
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE reconciliation_findings ENABLE ALWAYS TRIGGER reconciliation_findings_is_append_only;
CREATE OR REPLACE TRIGGER reconciliation_closings_is_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON reconciliation_closings
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE reconciliation_closings ENABLE ALWAYS TRIGGER reconciliation_closings_is_append_only;
