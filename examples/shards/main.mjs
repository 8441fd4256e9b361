// One fleet over three PostgreSQL clusters, sharded by participant: node examples/shards/main.mjs, or npm run shards. In the midst
// of the payments one cluster fails over to its standby, at another address; the others do not notice.
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { enqueue } from 'symphony-pg'
import { OutboxRelayer, readOutboxStatus } from 'symphony-pg/outbox'
import { addPostgresPlatform, PlatformDiscovery, PlatformServices, toFleetWorker } from 'symphony-pg/platform'
import { loadRails } from 'symphony-pg/rails'
import { Shard } from './Shard.mjs'

const PAYMENTS = 900
const folder = await mkdtemp(join(tmpdir(), 'symphony-shards-'))
// As root, the servers run as another account, which must be able to pass.
await chmod(folder, 0o711)
const shards = ['north', 'south', 'west'].map((name) => new Shard(name, folder))
const south = shards[1]

/** Says where the primary of each cluster is now. In life: from a registry, DNS, or a file that Patroni's callbacks write. */
class ShardDirectory extends PlatformDiscovery {
  async databases() {
    return shards.map(({ name, url }) => ({ name, url }))
  }
}

/** The rail, and its book: which references it has paid, for whom, and when. */
const book = new Map()
const rails = loadRails([
  {
    type: 'bank',
    onUnknown: 'resend',
    timeoutMs: 1_000,
    dispatch: async ({ reference, participantId }) => {
      await sleep(5)
      // Idempotent: the same reference is paid once.
      if (!book.has(reference)) book.set(reference, { participantId, atMs: performance.now() })
      return { outcome: 'success', reference: `paid-${reference}` }
    },
  },
])

let platform
try {
  for (const shard of shards) await shard.start()
  await south.follow()

  platform = addPostgresPlatform(new PlatformServices(), {
    discovery: new ShardDirectory(),
    refreshMs: 250,
    leaseSeconds: 5,
    pollMs: 100,
  })
  await platform.start()
  await platform.serve(({ database }, { leaseSeconds }) => [
    toFleetWorker(
      'relayer',
      new OutboxRelayer(database, rails, { leaseSeconds, listen: false }),
      ({ claimed }) => claimed > 0,
    ),
  ])

  const placed = new Map(shards.map(({ name }) => [name, 0]))
  let [failedOver, lostAtMs, backAtMs] = [Promise.resolve(0), 0, 0]
  for (let number = 1; number <= PAYMENTS; number += 1) {
    const payment = paymentOf(number)
    // Every payment of a participant goes to the same cluster, whichever process enqueues it, and however often.
    const shardOf = () => platform.databases.forKey(payment.participantId)
    await insist(() => enqueue(payment, { tx: shardOf().database.as('symphony_ingest') }))
    placed.set(shardOf().name, placed.get(shardOf().name) + 1)
    if (number === PAYMENTS / 3) {
      lostAtMs = performance.now()
      failedOver = south.failOver().then(() => (backAtMs = performance.now()))
    }
  }
  await failedOver
  while ((await waiting()) > 0) await sleep(50)

  const meanwhile = [...book.values()].filter(
    ({ participantId, atMs }) =>
      atMs > lostAtMs && atMs < backAtMs && platform.databases.forKey(participantId).name !== south.name,
  )
  for (const [name, count] of placed) console.log(`${name}: ${count} payments`)
  console.log(`south failed over; meanwhile the others made ${meanwhile.length > 0 ? 'payments' : 'no payment'}`)
  console.log(`${book.size} of ${PAYMENTS} payments are in the rail's book`)
  if (book.size !== PAYMENTS || meanwhile.length === 0) process.exitCode = 1
} finally {
  await platform?.stop()
  for (const shard of shards) await shard.stop()
  await rm(folder, { recursive: true, force: true })
}

function paymentOf(number) {
  return {
    instructionId: `payment-${number}`,
    idempotencyKey: `payment-${number}`,
    participantId: `participant-${number % 60}`,
    railType: 'bank',
    payload: { amount: '1.00', currency: 'EUR', destination: 'DE89370400440532013000' },
  }
}

/** What is left on all of them. */
async function waiting() {
  const statuses = platform.databases.members.map(({ database }) => readOutboxStatus(database.as('symphony_readonly')))
  const counts = await Promise.all(statuses).catch(() => [{ pendingCount: 1n }])
  return counts.reduce((sum, { pendingCount }) => sum + Number(pendingCount), 0)
}

/** A client that was not answered asks again under the same id. */
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
