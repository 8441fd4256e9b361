import { beforeAll, expect, test } from 'vitest'
import { useTestDatabase } from '../support/database.js'
import { enqueue } from '../support/outboxItems.js'
import { insertMany, PlanRecorder, scansOf } from '../support/plans.js'

/**
 * Status views are read every few seconds, so their cost must not grow with the ledger or with finished inbox messages,
 * timers and job runs. The tests count scans and rows on tables that hold mostly finished rows.
 */

const ENDED = 5_000
const db = await useTestDatabase({ countBranches: false })
beforeAll(async () => {
  const client = await db.connect()
  await insertMany(client, 'inbox_messages', INBOX)
  await insertMany(client, 'scheduler_tasks', TIMERS)
  await insertMany(client, 'scheduler_tasks', RUNS)
  await client.query('ANALYZE inbox_messages; ANALYZE scheduler_tasks')
  await client.end()
  await enqueue(db)
})

const LEDGER_TABLES = ['payment_outbox_attempts', 'payment_outbox_identities', 'payment_outbox_events']

test.each([
  'supervisor_outbox_status',
  'supervisor_inbox_status',
  'supervisor_scheduler_status',
  'supervisor_lease_status',
])('%s does not read attempts, identities or events', async (view) => {
  const recorder = await PlanRecorder.open(db, 'symphony_readonly')
  const execution = await recorder.run(`SELECT * FROM ${db.qualify(view)}`)
  await recorder.close()
  expect(LEDGER_TABLES.flatMap((table) => scansOf(execution, table))).toEqual([])
  expect(execution.scanned.filter((table) => LEDGER_TABLES.includes(table))).toEqual([])
})

test.each([
  ['supervisor_inbox_status', ['inbox_messages']],
  ['supervisor_scheduler_status', ['scheduler_tasks']],
])('%s reads waiting rows, not finished ones', async (view, tables) => {
  const recorder = await PlanRecorder.open(db, 'symphony_readonly')
  const execution = await recorder.run(`SELECT * FROM ${db.qualify(view)}`)
  await recorder.close()
  expect(execution.scanned.filter((table) => tables.includes(table))).toEqual([])
  const rows = tables.flatMap((table) => scansOf(execution, table)).reduce((sum, { rows: read }) => sum + read, 0)
  expect(rows).toBeGreaterThan(0)
  expect(rows).toBeLessThan(ENDED / 10)
})

const INBOX = `
  INSERT INTO inbox_messages (source, message_id, topic, payload, content_hash, state, due_at, first_seen_at, last_seen_at, ended_at)
  SELECT 's', 'm-' || n, 't', '{}', sha256('x'), CASE WHEN n <= 20 THEN 'seen' ELSE 'done' END, now(), now(), now(),
    CASE WHEN n > 20 THEN now() END
  FROM generate_series(1, ${ENDED}) n`

const TIMERS = `
  INSERT INTO scheduler_timers (timer_id, topic, payload, delivery, due_at, state, finished_at)
  SELECT gen_random_uuid(), 't', '{}', 'outbox', now(), CASE WHEN n <= 20 THEN 'READY' ELSE 'CANCELLED' END,
    CASE WHEN n > 20 THEN now() END
  FROM generate_series(1, ${ENDED}) n`

const RUNS = `
  INSERT INTO scheduler_tasks (task_id, kind, job_name, scheduled_for, topic, payload, delivery, due_at, state, finished_at)
  SELECT gen_random_uuid(), 'run', 'j', now() + n * interval '1 second', 't', '{}', 'outbox', now(),
    CASE WHEN n <= 20 THEN 'READY' ELSE 'CANCELLED' END, CASE WHEN n > 20 THEN now() END
  FROM generate_series(1, ${ENDED}) n`
