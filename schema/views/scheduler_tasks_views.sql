-- Tasks by kind, for readers: every column but the lease token, which would let a reader end a claim. The views are no
-- security barriers, because a barrier keeps a page from using the order of an index. Each role that reads one view
-- reads the same columns of the other, so no row needs hiding.

CREATE OR REPLACE VIEW scheduler_timers AS
SELECT t.task_id AS timer_id, t.topic, t.participant_id, t.payload, t.delivery, t.due_at, t.state, t.attempt_count,
  t.claimed_by, t.lease_expires_at, t.started_at, t.finished_at, t.error_message, t.outbox_id, t.created_at
FROM scheduler_tasks t WHERE t.kind = 'timer';
COMMENT ON VIEW scheduler_timers IS 'Timers: single work at a given time.';

CREATE OR REPLACE VIEW scheduler_job_runs AS
SELECT t.task_id AS run_id, t.job_name, t.scheduled_for, t.triggered_by, t.topic, t.participant_id, t.payload,
  t.delivery, t.due_at, t.state, t.attempt_count, t.claimed_by, t.lease_expires_at, t.started_at, t.finished_at,
  t.error_message, t.outbox_id, t.created_at
FROM scheduler_tasks t WHERE t.kind = 'run';
COMMENT ON VIEW scheduler_job_runs IS 'One row per occurrence of a job, and per run that a person triggered.';
