// Two processes want to lead, one does; when it stops, the other takes over, with a greater token.
import { Leases, openDatabase } from 'symphony-pg'
import { deploy } from 'symphony-pg/deployment'
import { startEmbedded } from '@symphony-pg/embedded'

const url = process.env.DATABASE_URL ?? (await startEmbedded({ dataDir: '.symphony' })).url
await deploy({ url })

// Each with a database of its own, as two processes would have.
const candidate = (name) => {
  const database = openDatabase({ url })
  const stop = new AbortController()
  let report
  const elected = new Promise((resolve) => (report = resolve))
  const lead = async ({ signal, fencingToken }) => {
    console.log(`${name} leads`)
    report(fencingToken)
    // The work of a leader: until the signal, which also aborts if the lease is lost. Show the token to what you write to.
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    console.log(`${name} steps down`)
  }
  const leases = new Leases(database.as('symphony_executor'))
  const ended = leases.runAsLeader('billing', lead, { signal: stop.signal, durationMs: 30_000, retryMs: 100 })
  const leave = async () => {
    stop.abort()
    await ended
    await database.close()
  }
  return { elected, leave }
}

const ada = candidate('Ada')
const first = await ada.elected
const grace = candidate('Grace')
await ada.leave()
const second = await grace.elected
console.log(`the token grew: ${second > first}`)
await grace.leave()

/* prints
Ada leads
Ada steps down
Grace leads
the token grew: true
Grace steps down
*/
