-- Status of the inbox. Done messages are not counted, because retention may keep millions of them.

CREATE OR REPLACE VIEW supervisor_inbox_status WITH (security_barrier = true) AS
WITH waiting AS (
  SELECT count(*) AS total, count(*) FILTER (WHERE m.due_at <= statement_timestamp()) AS due,
    min(m.due_at) AS first_due_at
  FROM inbox_messages m WHERE m.state = 'seen' AND m.topic IS NOT NULL
), claimed AS (
  SELECT count(*) AS total, count(*) FILTER (WHERE m.claim_expires_at <= statement_timestamp()) AS expired
  FROM inbox_messages m WHERE m.fence IS NOT NULL
), recently_dead AS (
  SELECT count(*) AS total, min(m.ended_at) AS since
  FROM inbox_messages m WHERE m.state = 'dead' AND m.ended_at > statement_timestamp() - interval '15 minutes'
)
SELECT w.total AS waiting_count, w.due AS due_count, c.total AS processing_count, c.expired AS expired_claim_count,
  (SELECT count(*) FROM inbox_messages m WHERE m.state = 'dead') AS dead_count,
  GREATEST(COALESCE(extract(epoch FROM statement_timestamp() - w.first_due_at), 0), 0)::double precision
    AS oldest_due_age_seconds,
  d.total AS recently_dead_count,
  COALESCE(extract(epoch FROM statement_timestamp() - d.since), 0)::double precision AS recently_dead_age_seconds
FROM waiting w CROSS JOIN claimed c CROSS JOIN recently_dead d;
COMMENT ON COLUMN supervisor_inbox_status.recently_dead_count IS
  'Messages that became dead within the last 15 minutes and are still dead.';
COMMENT ON VIEW supervisor_inbox_status IS
  'Status of the inbox in one row: waiting, claimed and dead messages. Each count reads a partial index.';
