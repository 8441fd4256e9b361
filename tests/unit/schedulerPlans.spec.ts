import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { createJob } from '../support/scheduled.js'
import { insertMany, PlanRecorder, scansOf } from '../support/plans.js'
import { WORKER } from '../support/outboxItems.js'

/**
 * Timers and job runs share a table. A call for one kind reads only its own rows, by an index. The table is analysed
 * while empty and then filled with 48,000 tasks. Every task of the other kind is due, expired or old enough to purge,
 * and no task of the same kind is. The tests count rows, not time.
 */

const BATCH = 50
/** Maximum number of rows per scan: six reads of each row, such as before, under and after its lock. */
const ROWS_MAX = 6 * BATCH

const KINDS = [
  { kind: 'timer', plural: 'timers', jobName: null },
  { kind: 'run', plural: 'job_runs', jobName: 'crowd' },
] as const
type Kind = (typeof KINDS)[number]

interface Operation {
  readonly name: (kind: Kind) => string
  readonly prepare: (db: TestDatabase, kind: Kind) => Promise<readonly unknown[]>
}

const OPERATIONS: Readonly<Record<string, Operation>> = {
  'claim of due tasks': {
    name: ({ plural }) => `claim_${plural}`,
    prepare: async (db, kind) => {
      await insertDue(db, kind, 'claim')
      return [BATCH, WORKER, 600]
    },
  },
  'claim of expired tasks': {
    name: ({ plural }) => `claim_${plural}`,
    prepare: async (db, kind) => {
      const [ids] = await claimed(db, kind)
      await db.queryNoRole(`UPDATE scheduler_tasks SET lease_expires_at = now() WHERE task_id = ANY ($1)`, [ids])
      return [BATCH, WORKER, 600]
    },
  },
  'enqueue of due tasks': {
    name: ({ plural }) => `enqueue_due_${plural}`,
    prepare: async (db, kind) => {
      await insertDue(db, kind, 'outbox')
      return [BATCH]
    },
  },
  'enqueue without a due task': { name: ({ plural }) => `enqueue_due_${plural}`, prepare: async () => [1_000] },
  ack: { name: ({ plural }) => `ack_${plural}`, prepare: claimed },
  abandon: { name: ({ plural }) => `abandon_${plural}`, prepare: claimed },
  fail: { name: ({ plural }) => `fail_${plural}`, prepare: claimed },
  'the next event': { name: () => 'next_scheduler_event', prepare: async () => [] },
  'the next event of the outbox': { name: () => 'next_scheduler_event', prepare: async () => [true] },
  purge: {
    name: ({ plural }) => `purge_finished_${plural}`,
    prepare: async (db, kind) => {
      const [ids] = await claimed(db, kind)
      await db.queryNoRole(
        `UPDATE scheduler_tasks SET state = 'DONE', finished_at = now() - interval '9 days', claimed_by = NULL,
           lease_token = NULL, lease_expires_at = NULL WHERE task_id = ANY ($1)`,
        [ids],
      )
      return [86_400, BATCH]
    },
  },
}

describe.each(KINDS)('$plural in a shared table', (kind) => {
  let db: TestDatabase
  beforeAll(async () => {
    // Branch counts would make the functions read other tables.
    db = await createTestDatabase({ countBranches: false })
    await createJob(db, { name: 'crowd' })
    const client = await db.connect()
    await client.query('ANALYZE scheduler_tasks, scheduler_jobs')
    for (const crowd of KINDS) await insertMany(client, 'scheduler_tasks', crowdOf(crowd, crowd !== kind))
    await client.end()
  })
  afterAll(() => db.drop())

  test.each(Object.keys(OPERATIONS))('%s reads only its own rows, by an index', async (what) => {
    const { name, prepare } = OPERATIONS[what]!
    const values = await prepare(db, kind)
    const recorder = await PlanRecorder.open(db, 'symphony_executor')
    const placeholders = values.map((_, index) => `$${index + 1}`).join(', ')
    const execution = await recorder.run(`SELECT * FROM ${db.qualify(name(kind))}(${placeholders})`, values)
    await recorder.close()
    expect(execution.scanned).not.toContain('scheduler_tasks')
    const scans = scansOf(execution, 'scheduler_tasks')
    expect(scans.length).toBeGreaterThan(0)
    expect(scans.filter(({ type, rows }) => type === 'Seq Scan' || rows > ROWS_MAX)).toEqual([])
  })

  // A plain SELECT has no planner settings and needs statistics. This test runs last, because the functions must not
  // need them.
  test.each([
    ['ready timers', `scheduler_timers WHERE state = 'READY' ORDER BY due_at, timer_id`],
    ['runs of one job', `scheduler_job_runs WHERE job_name = 'crowd' ORDER BY scheduled_for DESC`],
  ])('a page of %s is read in the order of an index', async (_what, page) => {
    await db.queryNoRole('ANALYZE scheduler_tasks')
    const recorder = await PlanRecorder.open(db, 'symphony_readonly')
    const execution = await recorder.run(`SELECT topic FROM ${page} LIMIT ${BATCH}`)
    await recorder.close()
    expect(scansOf(execution, 'scheduler_tasks').map(({ rows }) => rows)).toEqual([BATCH])
  })
})

/** Returns an INSERT of ready, claimed and finished tasks. If `due`, they are due, expired or old enough to purge. */
function crowdOf({ kind, jobName }: Kind, due: boolean): string {
  return `
    INSERT INTO scheduler_tasks (task_id, kind, job_name, scheduled_for, topic, payload, delivery, due_at, state, claimed_by,
      lease_token, lease_expires_at, finished_at)
    SELECT gen_random_uuid(), c.kind, c.job_name, CASE WHEN c.job_name IS NOT NULL THEN now() + n * interval '1 second' END, 't', '{}',
      CASE WHEN n % 2 = 0 THEN 'outbox' ELSE 'claim' END, c.moment, s.state, CASE WHEN s.state = 'CLAIMED' THEN 'w' END,
      CASE WHEN s.state = 'CLAIMED' THEN gen_random_uuid() END, CASE WHEN s.state = 'CLAIMED' THEN c.moment END,
      CASE WHEN s.state = 'DONE' THEN c.moment END
    FROM generate_series(1, 24000) n,
      LATERAL (SELECT CASE n % 3 WHEN 0 THEN 'READY' WHEN 1 THEN 'CLAIMED' ELSE 'DONE' END) AS s(state),
      (SELECT '${kind}', ${jobName === null ? 'NULL' : `'${jobName}'`}::text, now() ${due ? '-' : '+'} interval '5 days')
        AS c(kind, job_name, moment)`
}

/** Inserts tasks that are due before every other task. */
async function insertDue(db: TestDatabase, { kind, jobName }: Kind, delivery: string): Promise<void> {
  await db.queryNoRole(
    `INSERT INTO scheduler_tasks (task_id, kind, job_name, scheduled_for, topic, payload, delivery, due_at)
     SELECT gen_random_uuid(), $3, $1::text, CASE WHEN $1::text IS NOT NULL THEN clock_timestamp() - n * interval '1 second' END,
       't', '{}', $2, now() - interval '9 days' FROM generate_series(1, ${BATCH}) n`,
    [jobName, delivery, kind],
  )
}

async function claimed(db: TestDatabase, kind: Kind): Promise<[ids: string[], tokens: string[], worker: string]> {
  await insertDue(db, kind, 'claim')
  const id = kind.kind === 'timer' ? 'timer_id' : 'run_id'
  const { rows } = await db.queryNoRole<{ id: string; lease_token: string }>(
    `SELECT ${id} AS id, lease_token FROM claim_${kind.plural}($1, $2, 600)`,
    [BATCH, WORKER],
  )
  expect(rows).toHaveLength(BATCH)
  return [rows.map((row) => row.id), rows.map((row) => row.lease_token), WORKER]
}
