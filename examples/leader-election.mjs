// Two candidates run, and one leads. When the leader stops, the other candidate takes over with a greater fencing
// token.
import { Symphony } from 'symphony-pg'
import { deploy } from 'symphony-pg/admin'

const url = process.env.DATABASE_URL ?? 'embedded:.symphony'
await deploy({ url })

// Each candidate has its own connections, like a separate process.
const candidate = (name) => {
  const symphony = new Symphony({ url })
  const stop = new AbortController()
  let report
  const elected = new Promise((resolve) => (report = resolve))
  const lead = async ({ signal, fencingToken }) => {
    console.log(`${name} leads`)
    report(fencingToken)
    // Works until the signal aborts, for example because the lease is lost. Pass the token to the system that you write
    // to.
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    console.log(`${name} steps down`)
  }
  const ended = symphony.leases.runAsLeader('billing', lead, { signal: stop.signal, durationMs: 30_000, retryMs: 100 })
  const leave = async () => {
    stop.abort()
    await ended
    await symphony.close()
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
