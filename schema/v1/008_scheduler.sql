-- The scheduler: tables and indexes. Its functions are in schema/functions/scheduler.
--
--   scheduler_timers      something to be done once, at a moment
--   scheduler_jobs        something to be done again and again: a cron expression, and when it is due next
--   scheduler_job_runs    one row per occurrence of a job, made by the scheduler or by a person who triggered it
--
-- A due timer or run either becomes a message of the outbox, in the transaction that marks it ENQUEUED, or is claimed
-- under a lease by whoever works it off. A crash leaves a row that is READY, or a lease that expires. Cron expressions are
-- read by the scheduler processes; here they are text, and what counts is next_due_at. A job that no scheduler could read
-- keeps it, and is put off beside it: the occurrence is not forgotten because nobody knew what came after it.

-- Tables --------------------------------------------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS scheduler_timers (
  timer_id uuid PRIMARY KEY,
  topic text NOT NULL,
  participant_id text,
  payload jsonb NOT NULL,
  delivery text NOT NULL,
  due_at timestamptz NOT NULL,
  state text NOT NULL DEFAULT 'READY',
  attempt_count integer NOT NULL DEFAULT 0,
  claimed_by text,
  lease_token uuid,
  lease_expires_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  error_message text,
  outbox_id uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT scheduler_timers_known_state
    CHECK (state IN ('READY', 'CLAIMED', 'DONE', 'ENQUEUED', 'FAILED', 'CANCELLED')),
  CONSTRAINT scheduler_timers_to_the_outbox_or_claimed CHECK (delivery IN ('outbox', 'claim')),
  CONSTRAINT scheduler_timers_payload_is_object CHECK (jsonb_typeof(payload) = 'object'),
  CONSTRAINT scheduler_timers_attempt_count_within_ceiling CHECK (attempt_count BETWEEN 0 AND 20),
  CONSTRAINT scheduler_timers_leased_while_claimed
    CHECK (num_nonnulls(claimed_by, lease_token, lease_expires_at) = CASE WHEN state = 'CLAIMED' THEN 3 ELSE 0 END),
  CONSTRAINT scheduler_timers_end_when_finished CHECK ((state IN ('READY', 'CLAIMED')) = (finished_at IS NULL)),
  CONSTRAINT scheduler_timers_enqueued_names_its_item CHECK ((state = 'ENQUEUED') = (outbox_id IS NOT NULL))
);
COMMENT ON TABLE scheduler_timers IS 'What is to be done once, at a moment. Rows stay until retention removes what has ended.';
COMMENT ON COLUMN scheduler_timers.topic IS 'The rail_type of the message that the timer becomes.';
COMMENT ON COLUMN scheduler_timers.participant_id IS 'Whose stream the message belongs to; null: its own, so that no row is hot.';
COMMENT ON COLUMN scheduler_timers.delivery IS 'outbox: the scheduler makes it a message; claim: it waits for whoever claims it.';
COMMENT ON COLUMN scheduler_timers.attempt_count IS 'Claims so far, counted when claimed, so that a crash counts.';
COMMENT ON COLUMN scheduler_timers.lease_token IS 'The fence: fresh for each claim, known to the claimer alone.';
COMMENT ON COLUMN scheduler_timers.outbox_id IS 'The outbox item that it became.';

CREATE TABLE IF NOT EXISTS scheduler_jobs (
  job_name text PRIMARY KEY,
  cron text NOT NULL,
  time_zone text NOT NULL,
  topic text NOT NULL,
  participant_id text,
  payload jsonb NOT NULL,
  delivery text NOT NULL,
  missed_runs text NOT NULL,
  state text NOT NULL DEFAULT 'ACTIVE',
  next_due_at timestamptz NOT NULL,
  revision bigint NOT NULL DEFAULT 1,
  schedule_error text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  postponed_until timestamptz,
  CONSTRAINT scheduler_jobs_active_or_paused CHECK (state IN ('ACTIVE', 'PAUSED')),
  CONSTRAINT scheduler_jobs_to_the_outbox_or_claimed CHECK (delivery IN ('outbox', 'claim')),
  CONSTRAINT scheduler_jobs_skip_once_or_all CHECK (missed_runs IN ('skip', 'once', 'all')),
  CONSTRAINT scheduler_jobs_payload_is_object CHECK (jsonb_typeof(payload) = 'object')
);
COMMENT ON TABLE scheduler_jobs IS 'What is to be done again and again. Its name is its identity.';
COMMENT ON COLUMN scheduler_jobs.next_due_at IS 'The next occurrence. The scheduler makes the run and moves this in one call.';
COMMENT ON COLUMN scheduler_jobs.postponed_until IS
  'Not looked at before this, although it is due: no scheduler could read it. Null for a job that can be read.';
COMMENT ON COLUMN scheduler_jobs.revision IS
  'Grows with every change. Runs are made only from the revision that they were computed from: the fence of the schedulers.';
COMMENT ON COLUMN scheduler_jobs.missed_runs IS 'What becomes of occurrences nobody was there for: skip, once (the latest), all.';
COMMENT ON COLUMN scheduler_jobs.schedule_error IS 'Why the last scheduler that tried could not read the expression; null when one could.';

CREATE TABLE IF NOT EXISTS scheduler_job_runs (
  run_id uuid PRIMARY KEY,
  job_name text NOT NULL,
  scheduled_for timestamptz NOT NULL,
  triggered_by text,
  topic text NOT NULL,
  participant_id text,
  payload jsonb NOT NULL,
  delivery text NOT NULL,
  due_at timestamptz NOT NULL,
  state text NOT NULL DEFAULT 'READY',
  attempt_count integer NOT NULL DEFAULT 0,
  claimed_by text,
  lease_token uuid,
  lease_expires_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  error_message text,
  outbox_id uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT scheduler_job_runs_one_per_occurrence UNIQUE (job_name, scheduled_for),
  CONSTRAINT scheduler_job_runs_known_state
    CHECK (state IN ('READY', 'CLAIMED', 'DONE', 'ENQUEUED', 'FAILED', 'CANCELLED')),
  CONSTRAINT scheduler_job_runs_to_the_outbox_or_claimed CHECK (delivery IN ('outbox', 'claim')),
  CONSTRAINT scheduler_job_runs_payload_is_object CHECK (jsonb_typeof(payload) = 'object'),
  CONSTRAINT scheduler_job_runs_attempt_count_within_ceiling CHECK (attempt_count BETWEEN 0 AND 20),
  CONSTRAINT scheduler_job_runs_leased_while_claimed
    CHECK (num_nonnulls(claimed_by, lease_token, lease_expires_at) = CASE WHEN state = 'CLAIMED' THEN 3 ELSE 0 END),
  CONSTRAINT scheduler_job_runs_end_when_finished CHECK ((state IN ('READY', 'CLAIMED')) = (finished_at IS NULL)),
  CONSTRAINT scheduler_job_runs_enqueued_names_its_item CHECK ((state = 'ENQUEUED') = (outbox_id IS NOT NULL))
);
COMMENT ON TABLE scheduler_job_runs IS
  'One row per occurrence of a job, with the topic and payload the job had then. It outlives the job, until retention.';
COMMENT ON COLUMN scheduler_job_runs.scheduled_for IS 'The instant of the occurrence, however late the run is.';
COMMENT ON COLUMN scheduler_job_runs.triggered_by IS 'Who asked for the run; null: the schedule did.';
COMMENT ON COLUMN scheduler_job_runs.lease_token IS 'The fence: fresh for each claim, known to the claimer alone.';
COMMENT ON COLUMN scheduler_job_runs.due_at IS 'When it may be claimed: at first the occurrence, later the retry of an abandoned run.';

-- Indexes -------------------------------------------------------------------------------------------------------------

-- Two each for what is ready: who claims takes all, and the scheduler must not read past those that wait for claimers.
CREATE INDEX IF NOT EXISTS ix_timers_ready ON scheduler_timers (due_at, timer_id) WHERE state = 'READY';
CREATE INDEX IF NOT EXISTS ix_timers_ready_for_outbox
  ON scheduler_timers (due_at, timer_id) WHERE state = 'READY' AND delivery = 'outbox';
CREATE INDEX IF NOT EXISTS ix_timers_leased ON scheduler_timers (lease_expires_at) WHERE state = 'CLAIMED';
CREATE INDEX IF NOT EXISTS ix_timers_finished ON scheduler_timers (finished_at) WHERE finished_at IS NOT NULL;

-- GREATEST passes over a null: a job that was not put off is looked at when it is due.
CREATE INDEX IF NOT EXISTS ix_jobs_looked_at
  ON scheduler_jobs (GREATEST(next_due_at, postponed_until)) WHERE state = 'ACTIVE';
CREATE INDEX IF NOT EXISTS ix_job_runs_ready ON scheduler_job_runs (due_at, run_id) WHERE state = 'READY';
CREATE INDEX IF NOT EXISTS ix_job_runs_ready_for_outbox
  ON scheduler_job_runs (due_at, run_id) WHERE state = 'READY' AND delivery = 'outbox';
CREATE INDEX IF NOT EXISTS ix_job_runs_leased ON scheduler_job_runs (lease_expires_at) WHERE state = 'CLAIMED';
CREATE INDEX IF NOT EXISTS ix_job_runs_finished ON scheduler_job_runs (finished_at) WHERE finished_at IS NOT NULL;
