// A report every evening: a due job becomes a message, which a handler processes.
import { Symphony } from 'symphony-pg'
import { z } from 'zod'

const topics = { report: z.object({ title: z.string() }) }
await using symphony = new Symphony({ url: process.env['DATABASE_URL']!, topics })
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
// A job is identified by its name, so every start updates the same job.
const evening = { name: 'evening', cron: '0 18 * * *', timeZone: 'Africa/Nairobi' }
await symphony.scheduler.createOrUpdateJob({ ...evening, topic: 'report', payload: { title: 'Settlement' } })
const worker = symphony.worker({
  scheduler: true, // due jobs and timers become messages; any number of processes may run this
  topics: {
    report: async ({ payload }) => {
      const { heldCount } = await symphony.payments.status()
      console.log(`${payload.title}: ${heldCount} held`)
    },
  },
})
await worker.run({ signal: stop.signal })
