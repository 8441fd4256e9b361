// pg-boss at its fastest documented setting: batches of 500 fetched and completed in one statement each, a new fetch at once
// after a full one, woken by NOTIFY; no retries, no expiry checks, no maintenance during a run.
import { createRequire } from 'node:module'
import { PgBoss } from 'pg-boss'

export const setting =
  'work() with batchSize 500, burstWhenBatchFull, 2 local workers, useListenNotify, 16 connections; supervise off; insert() for batches'
export const version = createRequire(import.meta.url)('./package.json').dependencies['pg-boss']

const QUEUE = 'pay'
const BATCH = 500

export async function open({ url }) {
  const boss = new PgBoss({ connectionString: url, max: 16, supervise: false, schedule: false, useListenNotify: true })
  boss.on('error', (error) => {
    throw error
  })
  await boss.start()
  await boss.createQueue(QUEUE, { notify: true, retryLimit: 0 })
  return {
    enqueue: (payload) => boss.send(QUEUE, payload),
    enqueueMany: (payloads) =>
      boss.insert(
        QUEUE,
        payloads.map((data) => ({ data })),
      ),
    work: async (onHandled) => {
      await boss.work(
        QUEUE,
        { batchSize: BATCH, burstWhenBatchFull: true, localConcurrency: 2, pollingIntervalSeconds: 0.5 },
        async (jobs) => {
          for (const { data } of jobs) onHandled(data)
        },
      )
      return { stop: () => boss.offWork(QUEUE, { wait: true }) }
    },
    unfinished: async () => {
      const { rows } = await boss
        .getDb()
        .executeSql("SELECT count(*) FROM pgboss.job WHERE name = 'pay' AND state < 'completed'", [])
      return Number(rows[0].count)
    },
    close: () => boss.stop({ graceful: false }),
  }
}
