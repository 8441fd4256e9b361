import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

// Steps with a relayer or lease repair that no worker of the scenario runs.
export function relayingSteps(tools) {
  const { outbox, rails, repair, database, as, buildPayment, admin, faulty, onceAt, planted, sleep, workerId, rail } =
    tools
  const { handlerRole } = tools
  const quick = { workerId, leaseSeconds: 5, listen: false, pollMs: 20, heartbeatMs: 200, shutdownMs: 1_000 }
  const enqueue = (...payments) => outbox.enqueuePaymentOutboxBatch(as('ingest'), payments)
  const relayer = (given, options = {}, onEvent = () => {}, over = database) =>
    new outbox.OutboxRelayer(over, rails.loadRails(given), { ...quick, ...options }, onEvent)
  const booked = async ({ messageId }, { tx }) => {
    await tx.query('INSERT INTO shop.effects (source, message_id) VALUES ($1, $2)', ['booked', messageId])
    await sleep(50)
  }
  /** Locks an item for a while, as a person with an open transaction does. */
  const hold = (outboxId) =>
    admin(
      `BEGIN; SELECT FROM payment_outbox_pending WHERE outbox_id = '${outboxId}' FOR UPDATE; SELECT pg_sleep(0.8); COMMIT`,
    )
  const untilSettled = async (ids) => {
    for (let look = 0; look < 100; look += 1) {
      const rows = await admin(
        'SELECT 1 FROM payment_outbox_pending WHERE outbox_id = ANY ($1::uuid[]) AND lease_token IS NOT NULL',
        [ids],
      )
      if (rows.length === 0) return
      await sleep(20)
    }
  }

  return {
    'a round': async () => {
      await enqueue(buildPayment(), buildPayment())
      await relayer([rail()]).runOnce()
    },
    'a heartbeat and a stop, as in a fleet': async () => {
      const worker = relayer([rail()])
      await worker.beat()
      await worker.stop()
    },
    'a start and a stop, listening': async () => {
      const worker = relayer([rail()], { listen: true })
      await worker.start()
      await enqueue(buildPayment())
      await sleep(200)
      await worker.stop()
    },
    'a stop without waiting': async () => {
      const slow = rail()
      const begun = deferred()
      const worker = relayer(
        [
          {
            ...slow,
            timeoutMs: 5_000,
            concurrency: 1,
            dispatch: async (request, context) => {
              begun.resolve()
              await untilAborted(context.signal)
              return slow.dispatch(request, context)
            },
          },
        ],
        { shutdownMs: 0 },
      )
      await enqueue(buildPayment(), buildPayment(), buildPayment())
      await worker.start()
      await begun.promise
      await worker.stop()
    },
    'a rail with a masked field and a schema': async () => {
      const schema = { '~standard': { version: 1, vendor: 'drill', validate: async (value) => ({ value }) } }
      await enqueue(buildPayment())
      await relayer([{ ...rail(), fields: { '/memo': 'masked' }, payload: schema }]).runOnce()
    },
    'a rail paused in one process': async () => {
      const worker = relayer([rail()])
      await worker.pauseRail('resend')
      await worker.pauseRail('resend')
      worker.resumeRail('resend')
    },
    'a call longer than half of its lease': async () => {
      const slow = rail()
      const worker = relayer(
        [
          {
            ...slow,
            timeoutMs: 5_000,
            dispatch: async (request, context) => {
              await sleep(800)
              return slow.dispatch(request, context)
            },
          },
        ],
        { leaseSeconds: 1 },
      )
      await enqueue(buildPayment())
      await worker.runOnce()
    },
    'a lease that expires during a call, with database errors': async () => {
      const paying = rail()
      const faults = [onceAt('complete_outbox_packed'), onceAt('record_late_outcome')]
      const over = faulty((text) => faults.map((fault) => fault(text)).find((error) => error !== undefined))
      const worker = relayer(
        [
          {
            ...paying,
            dispatch: async (request, context) => {
              const answer = await paying.dispatch(request, context)
              await admin(
                `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE outbox_id = $1`,
                [request.reference],
              )
              return answer
            },
          },
        ],
        {},
        () => {},
        over,
      )
      await enqueue(buildPayment())
      await worker.runOnce()
    },
    'outcomes recorded one by one after a refused batch': async () => {
      let refusals = 0
      const over = faulty((text, values) => {
        const isGroup = text.includes('"complete_outbox_packed"') && values[0].length > 1
        return isGroup && (refusals += 1) === 1 ? planted('fatal') : undefined
      })
      const paying = rail()
      const all = deferred()
      const waiting = new Set(
        (await enqueue(buildPayment(), buildPayment(), buildPayment())).map(({ outboxId }) => outboxId),
      )
      // The calls return together, so that they form one batch. The step does not wait for items of earlier steps.
      const together = async (request, context) => {
        const answer = await paying.dispatch(request, context)
        if (!waiting.delete(request.reference)) return answer
        if (waiting.size === 0) all.resolve()
        await all.promise
        return answer
      }
      const worker = relayer([{ ...paying, timeoutMs: 2_000, dispatch: together }], {}, () => {}, over)
      for (let round = 0; round < 10 && waiting.size > 0; round += 1) await worker.runOnce()
    },
    'an outcome whose row is locked at first': async () => {
      let isLocked = true
      const over = faulty((text) => {
        if (!isLocked || !text.includes('"complete_outbox_packed"')) return undefined
        isLocked = false
        return tools.planted('retry', 'LOCK_NOT_AVAILABLE')
      })
      await enqueue(buildPayment(), buildPayment())
      await relayer([rail()], {}, () => {}, over).runOnce()
    },
    'outcomes beside a row that stays locked': async () => {
      const items = await enqueue(...Array.from({ length: 5 }, () => buildPayment()))
      const impatient = tools.db.openDatabase({ url: tools.url, schema: tools.schema, lockTimeoutMs: 50 })
      const paying = rail()
      let holding = Promise.resolve()
      let isHeld = false
      const dispatch = async (request, context) => {
        const answer = await paying.dispatch(request, context)
        if (request.reference !== items[0].outboxId) return answer
        if (!isHeld) holding = hold(request.reference)
        isHeld = true
        await sleep(200)
        return answer
      }
      await relayer([{ ...paying, timeoutMs: 5_000, dispatch }], {}, () => {}, impatient).runOnce()
      await holding
      await impatient.close()
    },
    'a claim answered after a stop has begun, whose item is locked': async () => {
      const [asked, stopping] = [deferred(), deferred()]
      let holding = Promise.resolve()
      let isHeld = false
      const over = faulty(async (text) => {
        if (text.includes('release_outbox_leases') && !isHeld) {
          isHeld = true
          holding = hold(outboxId)
          await sleep(200)
        }
        if (!text.includes('claim_outbox_packed')) return
        asked.resolve()
        await Promise.race([stopping.promise, sleep(2_000)])
      })
      const worker = relayer([rail()], {}, () => {}, over)
      const [{ outboxId }] = await enqueue(buildPayment())
      await worker.start()
      await asked.promise
      const stopped = worker.stop()
      stopping.resolve()
      await stopped
      await holding
      await untilSettled([outboxId])
    },
    'late outcomes of several lost leases': async () => {
      const items = await enqueue(...Array.from({ length: 5 }, () => buildPayment()))
      const waiting = new Set(items.map(({ outboxId }) => outboxId))
      const paying = rail()
      const expired = deferred()
      // The calls return together, after their leases have expired.
      const dispatch = async (request, context) => {
        const answer = await paying.dispatch(request, context)
        if (!waiting.delete(request.reference)) return answer
        if (waiting.size === 0) {
          await admin(
            `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE outbox_id = ANY ($1::uuid[])`,
            [items.map(({ outboxId }) => outboxId)],
          )
          expired.resolve()
        }
        await expired.promise
        return answer
      }
      const worker = relayer([{ ...paying, timeoutMs: 5_000, dispatch }])
      for (let round = 0; round < 10 && waiting.size > 0; round += 1) await worker.runOnce()
    },
    'an unknown outcome on a hold rail': async () => {
      const [{ outboxId }] = await enqueue(buildPayment({ railType: 'hold' }))
      await admin('UPDATE payment_outbox_pending SET outcome_unknown = true WHERE outbox_id = $1', [outboxId])
      await relayer([rail({ type: 'hold', onUnknown: 'hold' })]).runOnce()
    },
    'a call with a dispatch mark': async () => {
      await enqueue(buildPayment({ railType: 'hold' }))
      await relayer([rail({ type: 'hold', onUnknown: 'hold' })]).runOnce()
    },
    'a rail with an inquiry': async () => {
      const [{ outboxId }] = await enqueue(buildPayment({ railType: 'inquire' }))
      await admin('UPDATE payment_outbox_pending SET outcome_unknown = true WHERE outbox_id = $1', [outboxId])
      await relayer([rail({ type: 'inquire', onUnknown: 'inquire', settleMs: 300 })]).runOnce()
    },
    'a freeze, detected and lifted': async () => {
      const folder = await mkdtemp(join(tmpdir(), 'symphony-epoch-'))
      const worker = relayer([rail()], { epochFile: join(folder, 'epoch.json'), heartbeatMs: 100 })
      await worker.runOnce()
      await outbox.freezeDispatch(as('control'), 'a drill')
      await sleep(120)
      await worker.runOnce()
      await outbox.liftDispatchFreeze(as('control'), 'the drill is over')
      await worker.runOnce()
    },
    'an attempt as a span': async () => {
      const { trace } = await import('@opentelemetry/api')
      const { BasicTracerProvider } = await import('@opentelemetry/sdk-trace-base')
      trace.setGlobalTracerProvider(new BasicTracerProvider())
      await enqueue(buildPayment())
      await relayer([rail()]).runOnce()
      trace.disable()
    },
    'handlers by topic': async () => {
      await enqueue(buildPayment())
      await relayer(outbox.topicRails({ resend: refuse })).runOnce()
    },
    'more handlers with a transaction than may open one at once': async () => {
      const store = new outbox.OutboxStore(database)
      const messages = Array.from({ length: 8 }, () => ({ topic: 'booked', payload: {} }))
      for (const message of messages) await store.enqueue(message)
      await relayer(outbox.topicRails({ booked }), { handlerRole }).runOnce()
    },
    'lease repair': async () => {
      const worker = new repair.LeaseRepairWorker(as('executor'), { workerId, intervalMs: 100 })
      const [item] = await tools.claimed()
      await admin(
        `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE outbox_id = $1`,
        [item.outboxId],
      )
      await worker.start()
      await untilSettled([item.outboxId])
      await worker.stop()
      await worker.runOnce()
    },
  }
}

function deferred() {
  let resolve
  const promise = new Promise((done) => (resolve = done))
  return { promise, resolve }
}

function untilAborted(signal) {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** Fails with a retryable error. A success without the rail would be in the ledger, but not in the rail book. */
async function refuse() {
  throw new Error('not now')
}
