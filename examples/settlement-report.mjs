// A report every evening at 18:00 in Nairobi: a cron job becomes a message, which a handler processes.
import { Symphony } from 'symphony-pg'
import { deploy } from 'symphony-pg/admin'

const url = process.env.DATABASE_URL ?? 'embedded:.symphony'
await deploy({ url })

const bank = { type: 'bank', onUnknown: 'hold', dispatch: ({ reference }) => ({ outcome: 'success', reference }) }
const symphony = new Symphony({ url, rails: [bank] })
const worker = symphony.worker({
  scheduler: true,
  topics: {
    'settlement-report': async ({ payload }) => {
      const { dispatchedTotal, heldCount } = await symphony.payments.status()
      console.log(`${payload.title}: ${dispatchedTotal} settled, ${heldCount} held`)
    },
  },
})

const job = {
  cron: '0 18 * * *',
  timeZone: 'Africa/Nairobi',
  topic: 'settlement-report',
  payload: { title: 'Settlement' },
}
// A job is identified by its name, so every start of the program updates the same job.
await symphony.scheduler.createOrUpdateJob({ name: 'evening-settlement', ...job })
const { nextDueAt } = await symphony.scheduler.readJob('evening-settlement')
console.log(`next: ${nextDueAt.toISOString().slice(11, 16)} UTC`)

const payload = { amount: '10.00', currency: 'KES', destination: 'ACC-100200' }
const payments = ['INV-1', 'INV-2', 'INV-3'].map((instructionId) => ({
  railType: 'bank',
  instructionId,
  participantId: 'ACME',
  payload,
}))
await symphony.transaction((tx) => symphony.enqueueMany(payments, { tx }))
await worker.runOnce()

// The example does not wait for the evening: an operator triggers a run.
await symphony.scheduler.triggerJob('evening-settlement')
await worker.runOnce()
await symphony.close()

/* prints
next: 15:00 UTC
Settlement: 3 settled, 0 held
*/
