// Runs every worker of the core in one process: relayer, lease repair, scheduler, inbox, a leader. Exits when stdin
// closes. The crash-point scenario starts it on an instrumented build; its argument holds addresses and names.
import { setTimeout as sleep } from 'node:timers/promises'

const { dist, url, schema, bookUrl, workerId, handlerRole } = JSON.parse(process.argv[2])
const load = (module) => import(`${dist}/libs/${module}/index.js`)
const { openDatabase } = await load('db')
const { OutboxRelayer, topicRails } = await load('outbox')
const { loadRails, simulatedRail } = await load('rails')
const { LeaseRepairWorker } = await load('repair')
const { SchedulerWorker } = await load('scheduler')
const { InboxWorker } = await load('inbox')
const { Leases } = await load('lease')

const database = openDatabase({ url, schema })
const executor = database.as('symphony_executor')
const quick = { bookUrl, latencyMs: { min: 1, max: 3 }, timeoutMs: 300 }
const rails = loadRails([
  simulatedRail({ ...quick, type: 'inquire', onUnknown: 'inquire', settleMs: 300 }),
  simulatedRail({ ...quick, type: 'resend', onUnknown: 'resend' }),
  simulatedRail({ ...quick, type: 'hold', onUnknown: 'hold' }),
  // Timers and job runs make messages, which a payment rail does not claim.
  { ...simulatedRail({ ...quick, type: 'scheduled', onUnknown: 'resend' }), money: false },
  ...topicRails({
    booked: async ({ messageId, payload, attempt }, { tx }) => {
      await tx.query('INSERT INTO shop.effects (source, message_id) VALUES ($1, $2)', ['booked', messageId])
      if (payload.failsFirst === true && attempt === 1) throw new Error('the first attempt fails')
    },
  }),
])
const handlers = {
  effect: async ({ source, messageId, attemptCount, payload }, { tx }) => {
    await tx.query('INSERT INTO shop.effects (source, message_id) VALUES ($1, $2)', [source, messageId])
    if (payload.failsFirst === true && attemptCount === 1) throw new Error('the first attempt fails')
  },
}
const workers = [
  new OutboxRelayer(database, rails, {
    workerId,
    handlerRole,
    leaseSeconds: 3,
    pollMs: 50,
    heartbeatMs: 200,
    shutdownMs: 1_000,
  }),
  new LeaseRepairWorker(executor, { workerId, intervalMs: 100 }),
  new SchedulerWorker(database, { pollMs: 100 }),
  new InboxWorker(database, handlers, { workerId, handlerRole, leaseSeconds: 1, pollMs: 50, attemptsMax: 1_000 }),
]
const leases = new Leases(executor)
const stopping = new AbortController()
const leading = leases.runAsLeader(
  'leader',
  async ({ fencingToken, signal }) => {
    for (let turn = 0; turn < 20 && !signal.aborted && !stopping.signal.aborted; turn += 1) {
      await database
        .as(handlerRole)
        .query('INSERT INTO shop.led (token, worker) VALUES ($1, $2)', [fencingToken, workerId])
      await sleep(20)
    }
  },
  { durationMs: 1_000, renewEveryMs: 100, retryMs: 100, signal: stopping.signal },
)

let started
async function end() {
  await started
  stopping.abort()
  await Promise.all(workers.map((worker) => worker.stop()))
  await leading
  await database.close()
  process.exit(0)
}
process.stdin.on('end', () => void end())
process.stdin.resume()
started = Promise.all(workers.map((worker) => worker.start()))
await started
