// Every evening at six in Nairobi, a report of what was settled: a cron job becomes a message, and a handler does the work.
import { enqueue, openDatabase, SchedulerStore, topicRails } from 'symphony-pg'
import { deploy } from 'symphony-pg/deployment'
import { startEmbedded } from '@symphony-pg/embedded'
import { OutboxRelayer, readOutboxStatus } from 'symphony-pg/outbox'
import { loadRails } from 'symphony-pg/rails'
import { SchedulerWorker } from 'symphony-pg/scheduler'

const url = process.env.DATABASE_URL ?? (await startEmbedded({ dataDir: '.symphony' })).url
await deploy({ url })
const database = openDatabase({ url })

const bank = { type: 'bank', onUnknown: 'hold', dispatch: ({ reference }) => ({ outcome: 'success', reference }) }
const reports = topicRails({
  'settlement-report': async ({ payload }) => {
    const { dispatchedTotal, heldCount } = await readOutboxStatus(database.as('symphony_readonly'))
    console.log(`${payload.title}: ${dispatchedTotal} settled, ${heldCount} held`)
  },
})
const relayer = new OutboxRelayer(database, loadRails([bank, ...reports]))
const scheduler = new SchedulerWorker(database)

const store = new SchedulerStore(database)
const job = {
  cron: '0 18 * * *',
  timeZone: 'Africa/Nairobi',
  topic: 'settlement-report',
  payload: { title: 'Settlement' },
}
// The name is its identity: every start of the program defines it, and there is one.
await store.createOrUpdateJob({ name: 'evening-settlement', ...job })
const { nextDueAt } = await store.readJob('evening-settlement')
console.log(`next: ${nextDueAt.toISOString().slice(11, 16)} UTC`)

for (const invoice of ['INV-1', 'INV-2', 'INV-3']) {
  const names = { instructionId: invoice, participantId: 'ACME', idempotencyKey: `${invoice}/1`, railType: 'bank' }
  const payload = { amount: '10.00', currency: 'KES', destination: 'ACC-100200' }
  await enqueue({ ...names, payload }, { tx: database.as('symphony_ingest') })
}
await relayer.runOnce()

// Nobody waits for the evening here: a person asks for a run now. On schedule it is the same from here on.
await store.triggerJob('evening-settlement')
await scheduler.runOnce()
await relayer.runOnce()

await relayer.stop()
await database.close()

/* prints
next: 15:00 UTC
Settlement: 3 settled, 0 held
*/
