-- Tasks by kind, without the lease token, which would let a reader end a claim. The views are not security barriers,
-- because a barrier would prevent a sorted page from using the order of an index. Each role that reads one view also
-- reads the other, so no row is secret.

CREATE OR REPLACE VIEW scheduler_timers AS
SELECT t.task_id AS timer_id, t.topic, t.participant_id, t.payload, t.delivery, t.due_at, t.state, t.attempt_count,
  t.claimed_by, t.lease_expires_at, t.started_at, t.finished_at, t.error_message, t.outbox_id, t.created_at
FROM scheduler_tasks t WHERE t.kind = 'timer';
COMMENT ON VIEW scheduler_timers IS 'Timers: messages scheduled for one time each.';

CREATE OR REPLACE VIEW scheduler_job_runs AS
SELECT t.task_id AS run_id, t.job_name, t.scheduled_for, t.triggered_by, t.topic, t.participant_id, t.payload,
  t.delivery, t.due_at, t.state, t.attempt_count, t.claimed_by, t.lease_expires_at, t.started_at, t.finished_at,
  t.error_message, t.outbox_id, t.created_at
FROM scheduler_tasks t WHERE t.kind = 'run';
COMMENT ON VIEW scheduler_job_runs IS 'Runs of jobs: one row per occurrence, and per run that an operator triggered.';
