import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { pathToFileURL } from 'node:url'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { createOrUpdateJob } from '../../libs/scheduler/index.js'
import { builtPath } from '../support/builtPath.js'
import { type TestLogin, useTestDatabase } from '../support/database.js'
import { buildJobDefinition } from '../support/scheduled.js'

/*
 * Kills scheduler processes one after the other while jobs are due every second. The long form runs ten processes and
 * 100 jobs for the given time: SYMPHONY_TEST_SCHEDULER_SECONDS=60 npx vitest run <this file>
 */

const asked = process.env['SYMPHONY_TEST_SCHEDULER_SECONDS']
const SCALE =
  asked === undefined ? { processes: 4, jobs: 40, seconds: 3 } : { processes: 10, jobs: 100, seconds: Number(asked) }

const db = await useTestDatabase()
let login: TestLogin
beforeAll(async () => {
  login = await db.createLogin('scheduler', { roles: ['symphony_executor'] })
})

const PROGRAM = `
const [, database, scheduler, url, schema] = process.argv
const { openDatabase } = await import(database)
const { SchedulerWorker } = await import(scheduler)
const worker = new SchedulerWorker(openDatabase({ url, schema, connectionsMax: 1 }), { pollMs: 500 })
await worker.start()
console.log('started')
`

function startScheduler(): ChildProcess {
  const entryPoints = ['libs/db/index.js', 'libs/scheduler/index.js'].map((path) => pathToFileURL(builtPath(path)).href)
  return spawn(process.execPath, ['--input-type=module', '--eval', PROGRAM, ...entryPoints, login.url, db.schema], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

async function killed(child: ChildProcess): Promise<void> {
  const exit = once(child, 'exit')
  child.kill('SIGKILL')
  await exit
}

interface JobRow {
  readonly job_name: string
  readonly runs: number
  /** Number of occurrences from the first run to the last one before `next_due_at`. */
  readonly occurrences: number
  readonly enqueued: number
  readonly messages: number
}

test(
  `PRIM-POSTGRES-SCHED-009 ${SCALE.processes} killed schedulers create one run per occurrence`,
  { timeout: (SCALE.seconds + 110) * 1_000 },
  async () => {
    const control = db.as('symphony_control')
    for (let job = 0; job < SCALE.jobs; job += 1) {
      await createOrUpdateJob(
        control,
        buildJobDefinition({ cron: '* * * * * *', missedRuns: 'all', topic: 'every-second' }),
      )
    }
    const fleet = Array.from({ length: SCALE.processes }, startScheduler)
    onTestFinished(() => fleet.forEach((child) => child.kill('SIGKILL')))
    await Promise.all(fleet.map((child) => once(child.stdout!, 'data')))
    const { rows: begun } = await db.queryNoRole<{ now: Date }>('SELECT clock_timestamp() AS now')
    const isOver = async () => {
      const { rows } = await db.queryNoRole(
        `SELECT 1 FROM scheduler_jobs WHERE next_due_at < $1::timestamptz + make_interval(secs => $2)`,
        [begun[0]!.now, SCALE.seconds],
      )
      return rows.length === 0
    }
    let kills = 0
    while (!(await isOver())) {
      const victim = Math.floor(Math.random() * fleet.length)
      await killed(fleet[victim]!)
      kills += 1
      fleet[victim] = startScheduler()
      await once(fleet[victim].stdout!, 'data')
    }
    await db.queryNoRole(`UPDATE scheduler_jobs SET state = 'PAUSED'`)
    const unfinished = async () =>
      (await db.queryNoRole(`SELECT 1 FROM scheduler_job_runs WHERE state <> 'ENQUEUED' LIMIT 1`)).rows.length
    await expect.poll(unfinished, { timeout: 60_000, interval: 100 }).toBe(0)
    await Promise.all(fleet.map(killed))

    const { rows } = await db.queryNoRole<JobRow>(
      `SELECT j.job_name, count(*)::int AS runs,
         extract(epoch FROM j.next_due_at - min(r.scheduled_for))::int AS occurrences,
         count(r.outbox_id)::int AS enqueued, count(i.outbox_id)::int AS messages
       FROM scheduler_jobs j JOIN scheduler_job_runs r USING (job_name)
       LEFT JOIN payment_outbox_identities i ON i.instruction_id = r.run_id::text
       GROUP BY j.job_name`,
    )
    expect(rows).toHaveLength(SCALE.jobs)
    expect(kills).toBeGreaterThan(0)
    const wrong = rows.filter(
      ({ runs, occurrences, enqueued, messages }) => runs !== occurrences || enqueued !== runs || messages !== runs,
    )
    expect(wrong).toEqual([])
    expect(Math.min(...rows.map(({ runs }) => runs))).toBeGreaterThanOrEqual(SCALE.seconds)
    const { rows: all } = await db.queryNoRole<{ items: number }>(
      `SELECT count(*)::int AS items FROM payment_outbox_identities WHERE rail_type = 'every-second'`,
    )
    const total = rows.reduce((sum, { runs }) => sum + runs, 0)
    expect(all).toEqual([{ items: total }])
    process.stdout.write(`schedulers: ${total} runs of ${SCALE.jobs} jobs, ${kills} kills\n`)
  },
)
