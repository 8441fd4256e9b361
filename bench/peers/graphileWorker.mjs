// graphile-worker in its fastest documented setting (its "performance" page): a local queue of 500 jobs, completions
// grouped without delay, no queue name. With the key `jobKey` each job has a unique key, like each payment of Symphony.
import { createRequire } from 'node:module'
import { Logger, makeWorkerUtils, run, runMigrations } from 'graphile-worker'

export const settingOf = (key) =>
  `localQueue 500, completeJobBatchDelay 0, failJobBatchDelay 0, 24 jobs at once, 16 connections; ${key === undefined ? 'no key' : 'a jobKey per job'}`
export const version = createRequire(import.meta.url)('./package.json').dependencies['graphile-worker']

const CONCURRENT_JOBS = 24
const silent = new Logger(() => () => {})

export async function open({ url, pg, key }) {
  const specOf = key === undefined ? () => ({}) : ({ n }) => ({ jobKey: `i-${n}` })
  const pool = new pg.Pool({ connectionString: url, max: 16 })
  await runMigrations({ pgPool: pool, logger: silent })
  const utils = await makeWorkerUtils({ pgPool: pool, logger: silent })
  return {
    enqueue: (payload) => utils.addJob('pay', payload, specOf(payload)),
    enqueueMany: (payloads) =>
      utils.addJobs(payloads.map((payload) => ({ identifier: 'pay', payload, ...specOf(payload) }))),
    work: async (onHandled) => {
      const runner = await run({
        pgPool: pool,
        taskList: { pay: (payload) => onHandled(payload) },
        noHandleSignals: true,
        preset: {
          worker: {
            concurrentJobs: CONCURRENT_JOBS,
            localQueue: { size: 500 },
            completeJobBatchDelay: 0,
            failJobBatchDelay: 0,
          },
        },
        logger: silent,
      })
      return { stop: () => runner.stop() }
    },
    unfinished: async () =>
      Number((await pool.query('SELECT count(*) FROM graphile_worker._private_jobs')).rows[0].count),
    close: async () => {
      await utils.release()
      await pool.end()
    },
  }
}
