// Runs relayers in separate processes. They drain the items that this process enqueues. Each runs bench/symphony.mjs,
// the program with which `npm run bench` compares Symphony to its peers.
import { setTimeout as sleep } from 'node:timers/promises'
import { enqueueMany } from '../../dist/libs/outbox/index.js'
import { startContender } from '../contenderProcess.mjs'

const SYMPHONY = { name: 'symphony', module: new URL('../symphony.mjs', import.meta.url) }

export async function withWorkers(url, count, body) {
  const workers = []
  try {
    while (workers.length < count) workers.push(await startContender(SYMPHONY, url))
    return await body(workers)
  } finally {
    for (const worker of workers) await worker.end()
  }
}

/** Waits until the workers together have handled `count` items, then until the queue is empty. */
export async function untilDone(workers, client, count, { pollMs = 10, onPoll = () => {} } = {}) {
  for (;;) {
    const progress = await Promise.all(workers.map(({ ask }) => ask('progress')))
    onPoll(progress)
    if (progress.reduce((sum, { handled }) => sum + handled, 0) >= count) break
    await sleep(pollMs)
  }
  while ((await client.query('SELECT FROM payment_outbox_pending LIMIT 1')).rowCount > 0) await sleep(1)
}

/** Enqueues one payment per number, for the contender's rail and a thousand participants. */
export async function enqueueNumbers(ingest, from, count) {
  await enqueueMany(
    Array.from({ length: count }, (_, n) => ({
      instructionId: `i-${from + n}`,
      idempotencyKey: 'key',
      participantId: `p-${(from + n) % 1_000}`,
      railType: 'noop',
      payload: { n: from + n, amount: '12.34', currency: 'EUR', destination: 'DE89370400440532013000' },
    })),
    { tx: ingest },
  )
}
