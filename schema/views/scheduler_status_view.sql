-- Status of the scheduler, without finished tasks.

CREATE OR REPLACE VIEW supervisor_scheduler_status WITH (security_barrier = true) AS
WITH job AS (
  SELECT count(*) AS active, count(*) FILTER (WHERE j.schedule_error IS NOT NULL) AS unreadable,
    count(*) FILTER (WHERE GREATEST(j.next_due_at, j.postponed_until) <= statement_timestamp()) AS due,
    min(GREATEST(j.next_due_at, j.postponed_until)) AS first_due_at
  FROM scheduler_jobs j WHERE j.state = 'ACTIVE'
), timer AS (
  SELECT count(*) AS ready, min(t.due_at) FILTER (WHERE t.delivery = 'outbox') AS first_due_at
  FROM scheduler_tasks t WHERE t.kind = 'timer' AND t.state = 'READY'
), run AS (
  SELECT count(*) AS ready, min(r.due_at) FILTER (WHERE r.delivery = 'outbox') AS first_due_at
  FROM scheduler_tasks r WHERE r.kind = 'run' AND r.state = 'READY'
)
SELECT j.active AS active_jobs_count, j.due AS due_jobs_count, j.unreadable AS unreadable_jobs_count,
  t.ready AS ready_timers_count, r.ready AS ready_runs_count,
  GREATEST(COALESCE(extract(epoch FROM statement_timestamp()
    - LEAST(j.first_due_at, t.first_due_at, r.first_due_at)), 0), 0)::double precision AS lag_seconds
FROM job j CROSS JOIN timer t CROSS JOIN run r;
COMMENT ON VIEW supervisor_scheduler_status IS 'Status of the scheduler in one row.';
COMMENT ON COLUMN supervisor_scheduler_status.lag_seconds IS
  'Time since the oldest due job, timer or run became due. Tasks with delivery claim do not count.';
