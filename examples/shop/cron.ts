// A report every evening: a due job becomes a message, and a handler does the work.
import { Symphony } from 'symphony-pg'
import { z } from 'zod'

const topics = { report: z.object({ title: z.string() }) }
await using symphony = new Symphony({ url: process.env['DATABASE_URL']!, topics })
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
// The name is the identity of a job: every start defines it, and there is one.
const evening = { name: 'evening', cron: '0 18 * * *', timeZone: 'Africa/Nairobi' }
await symphony.scheduler.createOrUpdateJob({ ...evening, topic: 'report', payload: { title: 'Settlement' } })
const worker = symphony.worker({
  scheduler: true, // due jobs and timers become messages; any number of processes may do it
  topics: {
    report: async ({ payload }) => {
      const { heldCount } = await symphony.payments.status()
      console.log(`${payload.title}: ${heldCount} held`)
    },
  },
})
await worker.run({ signal: stop.signal })
