// One leader among any number of processes, and one holder of a lease.
import { Symphony, type Leadership } from 'symphony-pg'
import { oneRound, stop } from './round.js'

await using symphony = new Symphony({ url: process.env['DATABASE_URL']! })
const lead = async ({ signal, fencingToken }: Leadership) => {
  while (!signal.aborted) await oneRound(signal, fencingToken)
}
await symphony.leases.runAsLeader('billing', lead, { signal: stop.signal })

await using lease = await symphony.leases.acquire('nightly-report', { durationMs: 30_000 })
console.log(lease === null ? 'another process holds the lease' : 'this process holds the lease')
