// pg-boss in its fastest documented setting: one statement fetches or completes a batch of 500, another fetch follows a
// full batch at once, NOTIFY wakes the workers. No retries, expiry checks or maintenance during a run. Two settings
// refuse a second job with the same key, like Symphony. With the key `id` the caller chooses the primary key. With
// `singletonKey` the queue has the policy `exclusive`, the only policy that keeps a key unique until its job has ended.
import { createHash } from 'node:crypto'
import { createRequire } from 'node:module'
import { PgBoss } from 'pg-boss'

export const settingOf = (key) =>
  `work() with batchSize 500, burstWhenBatchFull, 2 local workers, useListenNotify, 16 connections; supervise off; insert() for batches; ${KEYS[key]}`
export const version = createRequire(import.meta.url)('./package.json').dependencies['pg-boss']

const QUEUE = 'pay'
const BATCH = 500
const KEYS = {
  undefined: 'no key',
  id: "each job's id derived from its key by SHA-1",
  singletonKey: 'policy exclusive, a singletonKey per job',
}

export async function open({ url, key }) {
  const boss = new PgBoss({ connectionString: url, max: 16, supervise: false, schedule: false, useListenNotify: true })
  boss.on('error', (error) => {
    throw error
  })
  await boss.start()
  await boss.createQueue(QUEUE, {
    notify: true,
    retryLimit: 0,
    ...(key === 'singletonKey' ? { policy: 'exclusive' } : {}),
  })
  return {
    enqueue: (payload) => boss.send(QUEUE, payload, keyOf(key, payload)),
    enqueueMany: (payloads) =>
      boss.insert(
        QUEUE,
        payloads.map((data) => ({ data, ...keyOf(key, data) })),
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

function keyOf(key, { n }) {
  if (key === 'id') return { id: uuidOf(`i-${n}`) }
  return key === 'singletonKey' ? { singletonKey: `i-${n}` } : {}
}

/** Derives a UUID (in the form of version 5) from a key, because pg-boss requires UUIDs as ids. */
function uuidOf(text) {
  const hex = createHash('sha1').update(text).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
