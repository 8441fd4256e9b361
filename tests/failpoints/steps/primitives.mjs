// Steps for calls of scheduler, inbox and leases that no worker of the scenario makes, and for faults of their workers.
import { randomUUID } from 'node:crypto'

export function primitiveSteps(tools) {
  const { scheduler, inbox, lease, core, database, as, admin, faulty, onceAt, sleep, workerId, handlerRole } = tools
  const store = new scheduler.SchedulerStore(database)
  const long = new Date('2100-01-01T00:00:00Z')
  const createTimer = (of = topic()) =>
    store.scheduleTimer({ topic: of, payload: {}, dueAt: new Date(), delivery: 'claim' })
  const claimTimers = (of) => store.claimTimers({ batchSize: 10, workerId, topics: [of] })
  const createJob = async (overrides = {}) => {
    const name = topic()
    await store.createOrUpdateJob({
      name,
      cron: '0 0 1 1 *',
      topic: name,
      payload: {},
      delivery: 'claim',
      ...overrides,
    })
    return name
  }
  const createMessage = async (of) => {
    const key = { source: 'step', messageId: randomUUID() }
    await inbox.enqueueInboxMessage(as('ingest'), { ...key, topic: of, payload: {} })
    return key
  }
  const inboxWorker = (handlers, options = {}, over = database) =>
    new inbox.InboxWorker(over, handlers, {
      workerId,
      handlerRole,
      leaseSeconds: 2,
      pollMs: 20,
      attemptsMax: 1_000,
      listen: false,
      ...options,
    })

  return {
    'timers that are claimed': async () => {
      const of = topic()
      await store.cancelTimer(await createTimer(of))
      for (const _ of [1, 2, 3]) await createTimer(of)
      const [one, two, three] = await claimTimers(of)
      await store.ackTimers([one], workerId)
      await store.failTimers([two], workerId, 'no use')
      await store.abandonTimers([three], workerId)
    },
    'a timer and a job whose topic has a schema': async () => {
      const typed = new scheduler.SchedulerStore(database, { topics: tools.topics })
      const message = { topic: 'scheduled', payload: {}, delivery: 'claim' }
      await typed.cancelTimer(await typed.scheduleTimer({ ...message, dueAt: long }))
      const name = topic()
      await typed.createOrUpdateJob({ ...message, name, cron: '0 0 1 1 *' })
      await typed.deleteJob(name)
    },
    'jobs and their runs': async () => {
      const name = await createJob()
      await store.pauseJob(name)
      await store.resumeJob(name)
      for (const _ of [1, 2]) await store.triggerJob(name)
      const [one, two] = await store.claimJobRuns({ batchSize: 10, workerId, topics: [name] })
      await store.ackJobRuns([one], workerId)
      await store.abandonJobRuns([two], workerId)
      await store.createJobRunsFromDueJobs()
      await store.deleteJob(name)
    },
    'a job with an invalid schedule': async () => {
      const name = await createJob()
      await admin(
        `UPDATE scheduler_jobs SET cron = 'nonsense', next_due_at = clock_timestamp() - interval '1 second' WHERE job_name = $1`,
        [name],
      )
      await new scheduler.SchedulerWorker(database, { pollMs: 100 }).runOnce()
      await store.deleteJob(name)
    },
    'purges of the scheduler': async () => {
      await store.purgeFinishedTimers(86_400, 10)
      await store.purgeFinishedJobRuns(86_400, 10)
      await store.getNextEventTime()
    },
    'a scheduler that starts and stops': async () => {
      const worker = new scheduler.SchedulerWorker(database, { pollMs: 50 })
      await worker.start()
      await store.scheduleTimer({ topic: 'scheduled', payload: tools.buildPayment().payload, dueAt: new Date() })
      await sleep(150)
      await worker.stop()
    },
    'the inbox for deduplication alone': async () => {
      const known = new inbox.Inbox(database)
      const key = { source: 'step', messageId: randomUUID() }
      await known.alreadyProcessed(key)
      await inbox.recordInboxSighting(as('executor'), key)
      await inbox.markInboxProcessing(as('executor'), key)
      await inbox.markInboxProcessed(as('executor'), key)
      const other = { source: 'step', messageId: randomUUID() }
      await inbox.recordInboxSighting(as('executor'), other)
      await inbox.markInboxDead(as('executor'), other, 'no use')
      await inbox.reviveInboxMessage(as('control'), other, 'of use after all')
      await inbox.purgeInboxMessages(as('executor'), 86_400, 10)
    },
    'messages that are dead-lettered, have no handler or cannot start': async () => {
      const of = topic()
      await createMessage(of)
      await inboxWorker({
        [of]: async () => {
          throw new core.PermanentFailureError('no use')
        },
      }).runOnce()
      await createMessage(topic())
      await inboxWorker({ [of]: async () => {} }).runOnce()
      await createMessage(of)
      const over = faulty(onceAt('abandon_inbox_messages'))
      await inboxWorker({ [of]: async () => {} }, { handlerRole: 'never_granted' }, over).runOnce()
    },
    'messages whose handler fails or is aborted': async () => {
      const of = topic()
      await createMessage(of)
      await inboxWorker({
        [of]: async () => {
          throw new Error('not now')
        },
      }).runOnce()
      await createMessage(of)
      const slow = inboxWorker({ [of]: async (_, { signal }) => untilAborted(signal) }, { listen: true, shutdownMs: 0 })
      await slow.start()
      await sleep(150)
      await slow.stop()
    },
    'messages by direct calls': async () => {
      const of = topic()
      await inbox.enqueueInboxMessages(as('ingest'), [
        { source: 'step', messageId: randomUUID(), topic: of, payload: {}, notBefore: long },
      ])
      await inbox.nextInboxEvent(as('executor'))
    },
    'a lease acquired, renewed and released': async () => {
      const leases = new lease.Leases(as('executor'))
      const held = await leases.acquire(topic(), { owner: workerId, durationMs: 1_000, renewEveryMs: 100 })
      await held.tryRenewNow()
      await sleep(250)
      await held.release()
      const disposed = await leases.acquire(topic(), { owner: workerId, durationMs: 1_000, renewEveryMs: 100 })
      await disposed[Symbol.asyncDispose]()
    },
    'leases that are held or acquired while they are closed': async () => {
      const slow = faulty(async (text) => void (text.includes('"acquire_lease"') && (await sleep(100))))
      const leases = new lease.Leases(slow.as('symphony_executor'))
      await leases.acquire(topic(), { owner: workerId, durationMs: 2_000, renewEveryMs: 500 })
      const acquiring = leases.acquire(topic(), { owner: workerId, durationMs: 2_000, renewEveryMs: 500 })
      await Promise.all([leases.close(), acquiring.catch(() => {})])
    },
    'a lease that expired before its answer': async () => {
      const slow = faulty(async (text) => void (text.includes('"acquire_lease"') && (await sleep(1_100))))
      await new lease.Leases(slow.as('symphony_executor')).acquire(topic(), { owner: workerId, durationMs: 1_000 })
    },
    'leaders, one after the other': async () => {
      const resource = topic()
      const leases = new lease.Leases(as('executor'))
      const first = await leases.acquire(resource, { owner: 'another', durationMs: 1_000, renewEveryMs: 300 })
      const led = leases.runAsLeader(resource, async ({ throwIfLost }) => throwIfLost(), {
        durationMs: 1_000,
        renewEveryMs: 300,
        retryMs: 100,
      })
      await sleep(120)
      await first.release()
      await led
      // Aborts while the lease is being acquired.
      const stopping = new AbortController()
      const over = faulty((text) => void (text.includes('"acquire_lease"') && stopping.abort()))
      const late = new lease.Leases(over.as('symphony_executor'))
      await late.runAsLeader(topic(), async () => {}, { durationMs: 1_000, signal: stopping.signal })
    },
    'purges of leases': async () => {
      await lease.purgeIdleLeases(as('executor'), 3_600, 10)
    },
  }
}

function untilAborted(signal) {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** Returns a unique topic. */
function topic() {
  return `step-${randomUUID()}`
}
