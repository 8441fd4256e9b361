// One fleet over three PostgreSQL clusters, sharded by participant: node examples/shards/main.mjs, or npm run shards.
// While payments run, one cluster fails over to its standby at another address; the others are not affected.
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { PlatformDiscovery, SymphonyFleet } from 'symphony-pg/platform'
import { Shard } from './Shard.mjs'

const PAYMENTS = 900
const folder = await mkdtemp(join(tmpdir(), 'symphony-shards-'))
// As root, this process runs the servers under another account, which must be able to enter the folder.
await chmod(folder, 0o711)
const shards = ['north', 'south', 'west'].map((name) => new Shard(name, folder))
const south = shards[1]

/**
 * Returns the current primary of each cluster. In production, read it from a registry, DNS, or a file that Patroni's
 * callbacks write.
 */
class ShardDirectory extends PlatformDiscovery {
  async databases() {
    return shards.map(({ name, url }) => ({ name, url }))
  }
}

/** Rail book: references paid by the rail, with participant and time. */
const book = new Map()
const bank = {
  type: 'bank',
  onUnknown: 'resend',
  timeoutMs: 1_000,
  dispatch: async ({ reference, participantId }) => {
    await sleep(5)
    // Idempotent: the same reference is paid once.
    if (!book.has(reference)) book.set(reference, { participantId, atMs: performance.now() })
    return { outcome: 'success', reference: `paid-${reference}` }
  },
}

let fleet
try {
  for (const shard of shards) await shard.start()
  await south.follow()

  const discovery = new ShardDirectory()
  fleet = new SymphonyFleet({ discovery, rails: [bank], refreshMs: 250, leaseSeconds: 5, pollMs: 100 })
  await fleet.worker().start()

  const placed = new Map(shards.map(({ name }) => [name, 0]))
  let [failedOver, lostAtMs, backAtMs] = [Promise.resolve(0), 0, 0]
  for (let number = 1; number <= PAYMENTS; number += 1) {
    const payment = paymentOf(number)
    // All payments of a participant go to the same cluster, whichever process enqueues them.
    await insist(() => {
      const shard = fleet.forKey(payment.participantId)
      return shard.transaction((tx) => shard.enqueue(payment, { tx }))
    })
    const name = nameForKey(payment.participantId)
    placed.set(name, placed.get(name) + 1)
    if (number === PAYMENTS / 3) {
      lostAtMs = performance.now()
      failedOver = south.failOver().then(() => (backAtMs = performance.now()))
    }
  }
  await failedOver
  while ((await waiting()) > 0) await sleep(50)

  const meanwhile = [...book.values()].filter(
    ({ participantId, atMs }) => atMs > lostAtMs && atMs < backAtMs && nameForKey(participantId) !== south.name,
  )
  for (const [name, count] of placed) console.log(`${name}: ${count} payments`)
  console.log(`south failed over; meanwhile the others made ${meanwhile.length > 0 ? 'payments' : 'no payment'}`)
  console.log(`${book.size} of ${PAYMENTS} payments are in the rail book`)
  if (book.size !== PAYMENTS || meanwhile.length === 0) process.exitCode = 1
} finally {
  await fleet?.close()
  for (const shard of shards) await shard.stop()
  await rm(folder, { recursive: true, force: true })
}

function paymentOf(number) {
  return {
    instructionId: `payment-${number}`,
    participantId: `participant-${number % 60}`,
    railType: 'bank',
    payload: { amount: '1.00', currency: 'EUR', destination: 'DE89370400440532013000' },
  }
}

/** Returns the name of the shard of a key. */
function nameForKey(key) {
  return fleet.names.find((name) => fleet.of(name) === fleet.forKey(key))
}

/** Returns the number of pending payments in all clusters. */
async function waiting() {
  const statuses = fleet.names.map((name) => fleet.of(name).payments.status())
  const counts = await Promise.all(statuses).catch(() => [{ pendingCount: 1n }])
  return counts.reduce((sum, { pendingCount }) => sum + Number(pendingCount), 0)
}

/** Repeats a call that got no answer. This is safe, because the repeated call has the same id. */
async function insist(call) {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (error.disposition !== 'retry' && error.disposition !== 'unknown') throw error
      await sleep(100)
    }
  }
}
