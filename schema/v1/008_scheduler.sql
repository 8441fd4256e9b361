-- The scheduler: tables and indexes. Its functions are in schema/functions/scheduler, its views in schema/views.
--
--   scheduler_jobs     cron schedules: an expression and the next due time
--   scheduler_tasks    timers, and runs of jobs, one per occurrence; the views scheduler_timers and scheduler_job_runs
--                      show each kind
--
-- A due task either becomes a message of the outbox, in the transaction that marks it ENQUEUED, or a worker claims it
-- under a lease. A crash leaves a READY row, or a lease that expires. Scheduler processes parse the cron expressions;
-- the database only compares times. A job whose expression a scheduler cannot parse is ignored until postponed_until
-- and keeps next_due_at, so that its occurrence is late and not lost.

-- Tables --------------------------------------------------------------------------------------------------------------

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
COMMENT ON TABLE scheduler_jobs IS 'Cron schedules, each identified by its name.';
COMMENT ON COLUMN scheduler_jobs.next_due_at IS
  'Next occurrence. The scheduler creates its run and advances this time in one call.';
COMMENT ON COLUMN scheduler_jobs.postponed_until IS
  'Time before which schedulers ignore the job, because its expression could not be parsed; else null.';
COMMENT ON COLUMN scheduler_jobs.revision IS
  'Grows with every change. A scheduler creates runs only while the job has the revision that it read.';
COMMENT ON COLUMN scheduler_jobs.missed_runs IS
  'Treatment of occurrences that were missed while no scheduler ran: skip, once (the latest), all.';
COMMENT ON COLUMN scheduler_jobs.schedule_error IS
  'Reason why the latest scheduler could not parse the expression; null if it could.';

CREATE TABLE IF NOT EXISTS scheduler_tasks (
  task_id uuid PRIMARY KEY,
  kind text NOT NULL DEFAULT 'timer',
  job_name text,
  scheduled_for timestamptz,
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
  CONSTRAINT scheduler_tasks_timer_or_run CHECK (CASE kind
    WHEN 'timer' THEN num_nonnulls(job_name, scheduled_for, triggered_by) = 0
    WHEN 'run' THEN num_nonnulls(job_name, scheduled_for) = 2
    ELSE false END),
  CONSTRAINT scheduler_tasks_known_state
    CHECK (state IN ('READY', 'CLAIMED', 'DONE', 'ENQUEUED', 'FAILED', 'CANCELLED')),
  CONSTRAINT scheduler_tasks_to_the_outbox_or_claimed CHECK (delivery IN ('outbox', 'claim')),
  CONSTRAINT scheduler_tasks_payload_is_object CHECK (jsonb_typeof(payload) = 'object'),
  CONSTRAINT scheduler_tasks_attempt_count_within_ceiling CHECK (attempt_count BETWEEN 0 AND 20),
  CONSTRAINT scheduler_tasks_leased_while_claimed
    CHECK (num_nonnulls(claimed_by, lease_token, lease_expires_at) = CASE WHEN state = 'CLAIMED' THEN 3 ELSE 0 END),
  CONSTRAINT scheduler_tasks_end_when_finished CHECK ((state IN ('READY', 'CLAIMED')) = (finished_at IS NULL)),
  CONSTRAINT scheduler_tasks_enqueued_names_its_item CHECK ((state = 'ENQUEUED') = (outbox_id IS NOT NULL))
);
COMMENT ON TABLE scheduler_tasks IS
  'Timers and runs of jobs. A run copies topic and payload of its job. Retention removes finished rows.';
COMMENT ON COLUMN scheduler_tasks.kind IS
  'timer, or run of a job. The indexes by state begin with it, so that a claim of one kind does not read the other.';
COMMENT ON COLUMN scheduler_tasks.job_name IS 'Job of a run; null for a timer. The job may have been deleted.';
COMMENT ON COLUMN scheduler_tasks.scheduled_for IS 'Instant of the occurrence, also of a late run; null for a timer.';
COMMENT ON COLUMN scheduler_tasks.triggered_by IS 'Actor who triggered the run; null if the schedule created it.';
COMMENT ON COLUMN scheduler_tasks.topic IS
  'rail_type of the message that the task becomes. A claim can be limited to some topics.';
COMMENT ON COLUMN scheduler_tasks.participant_id IS
  'Participant of the message. If null, the task id is the participant, so that messages do not wait for the same '
  'sequence row.';
COMMENT ON COLUMN scheduler_tasks.delivery IS
  'outbox: the scheduler enqueues it as a message, unless a worker claims it first; claim: only a worker claims it.';
COMMENT ON COLUMN scheduler_tasks.due_at IS
  'Earliest time at which the task is enqueued or claimed: the time of the timer or occurrence, or of the retry.';
COMMENT ON COLUMN scheduler_tasks.attempt_count IS
  'Number of claims. A claim counts at once, so that a crash counts.';
COMMENT ON COLUMN scheduler_tasks.lease_token IS
  'Random token of the claim, known to its worker only. Ack, abandon and fail need it.';
COMMENT ON COLUMN scheduler_tasks.outbox_id IS 'Outbox item that the task became.';

-- Indexes -------------------------------------------------------------------------------------------------------------

CREATE UNIQUE INDEX IF NOT EXISTS scheduler_job_runs_one_per_occurrence
  ON scheduler_tasks (job_name, scheduled_for) WHERE job_name IS NOT NULL;
COMMENT ON INDEX scheduler_job_runs_one_per_occurrence IS
  'Refuses a second run of one occurrence; finds the runs of a job.';
-- READY tasks have two indexes. A claim reads tasks of both deliveries. The scheduler reads only those with delivery
-- outbox.
CREATE INDEX IF NOT EXISTS ix_tasks_ready ON scheduler_tasks (kind, due_at, task_id) WHERE state = 'READY';
COMMENT ON INDEX ix_tasks_ready IS 'Claims of due tasks, the next due time, and the list of ready timers.';
CREATE INDEX IF NOT EXISTS ix_tasks_ready_for_outbox
  ON scheduler_tasks (kind, due_at, task_id) WHERE state = 'READY' AND delivery = 'outbox';
COMMENT ON INDEX ix_tasks_ready_for_outbox IS 'Scheduler: due tasks that it enqueues in the outbox.';
CREATE INDEX IF NOT EXISTS ix_tasks_leased ON scheduler_tasks (kind, lease_expires_at) WHERE state = 'CLAIMED';
COMMENT ON INDEX ix_tasks_leased IS 'Tasks whose claim expired, and the next expiry.';
CREATE INDEX IF NOT EXISTS ix_tasks_finished ON scheduler_tasks (kind, finished_at) WHERE finished_at IS NOT NULL;
COMMENT ON INDEX ix_tasks_finished IS 'Retention: tasks that finished before a time.';

-- GREATEST ignores a null: a job that is not postponed is due at next_due_at.
CREATE INDEX IF NOT EXISTS ix_jobs_looked_at
  ON scheduler_jobs (GREATEST(next_due_at, postponed_until)) WHERE state = 'ACTIVE';
COMMENT ON INDEX ix_jobs_looked_at IS 'Scheduler: jobs that are due, and the next due time. One entry per active job.';
