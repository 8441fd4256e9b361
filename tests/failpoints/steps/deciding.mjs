// Steps for producers, direct lease calls and decisions.
import { randomUUID } from 'node:crypto'

export function decidingSteps(tools) {
  const { outbox, database, db, rails, rail, as, buildPayment, claimed, workerId, secondUrl, schema } = tools
  /** Runs an action as another person, with another login. */
  const asSecondPerson = async (act) => {
    const other = db.openDatabase({ url: secondUrl, schema })
    try {
      return await act(other.as('symphony_control'))
    } finally {
      await other.close()
    }
  }
  const checks = (type) => ({ rails: rails.loadRails([rail({ type, payload: tools.topics.scheduled })]) })
  const createQueuedOne = async () => (await outbox.enqueuePaymentOutbox(as('ingest'), buildPayment())).outboxId

  return {
    producing: async () => {
      const protection = { encrypt: async (_tx, instructions) => instructions }
      await outbox.enqueue(buildPayment(), { tx: as('ingest'), protection })
      await outbox.enqueueMany([buildPayment(), buildPayment()], { tx: as('ingest') })
      await database.transactionAsRole('symphony_ingest', (tx) => outbox.enqueue(buildPayment(), { tx }))
    },
    'payments checked by their rails': async () => {
      const known = buildPayment()
      await outbox.enqueueChecked(as('ingest'), [known], checks('resend'))
      await database.transactionAsRole('symphony_ingest', async (tx) => {
        await outbox.enqueueChecked(tx, [known], checks('another'))
        await refused('INVALID_PAYLOAD', outbox.enqueueChecked(tx, [buildPayment()], checks('another')))
      })
    },
    'the outbox as a message queue': async () => {
      const store = new outbox.OutboxStore(database, { owner: workerId, topics: tools.topics })
      await store.enqueue({ topic: 'scheduled', payload: buildPayment().payload })
      const messages = await store.claim({ batchSize: 100, topics: ['scheduled'] })
      await store.abandon(messages, { delaySeconds: 0 })
    },
    'leases by direct calls': async () => {
      const [one, two, ...others] = await claimed(2)
      const executor = as('executor')
      await outbox.renewOutboxLease(executor, one, workerId, 60)
      await outbox.renewOutboxLeases(executor, [one, two], workerId, 60)
      await outbox.releaseOutboxLease(executor, one, workerId)
      await outbox.releaseOutboxLeases(executor, [two, ...others], workerId)
    },
    'outcomes by direct calls': async () => {
      const [one, two, three, ...others] = await claimed(3)
      const executor = as('executor')
      await outbox.beginOutboxDispatch(executor, one, workerId)
      await outbox.completeOutboxAttempt(executor, workerId, again(one))
      await outbox.recordLateOutcome(executor, workerId, again(one))
      await outbox.completeOutboxAttempts(executor, workerId, [again(two), ...others.map(again)])
      await outbox.holdLeasedOutboxItem(executor, three, workerId, 'looked odd')
    },
    'heartbeats and reads of a worker': async () => {
      const executor = as('executor')
      await outbox.heartbeatOutboxWorker(executor, workerId, { running: 0 })
      await outbox.checkDispatchEpoch(executor, workerId)
      await outbox.nextOutboxEvent(executor, ['resend'])
      await outbox.repairExpiredLeases(executor, 10, workerId)
    },
    'a cancellation': async () => {
      const payment = buildPayment()
      await outbox.enqueuePaymentOutbox(as('ingest'), payment)
      const { instructionId, idempotencyKey } = payment
      await outbox.cancelOutboxInstruction(as('ingest'), instructionId, idempotencyKey, 'the order was cancelled')
      await outbox.cancelOutboxItem(as('control'), await createQueuedOne(), 'a mistake')
    },
    'a hold by one person': async () => {
      const outboxId = await createQueuedOne()
      await outbox.noteOutboxItem(as('control'), outboxId, 'to be looked at')
      await outbox.placeOutboxHold(as('control'), outboxId, 'to be looked at')
      await outbox.resolveOutboxHold(as('control'), outboxId, 'RETRY', 'looked at')
    },
    'a decision by two people': async () => {
      const outboxId = await createQueuedOne()
      await outbox.placeOutboxHold(as('control'), outboxId, 'to be looked at')
      const first = await outbox.resolveOutboxHold(as('control'), outboxId, 'FAILED', 'a mistake')
      await outbox.withdrawOutboxProposal(as('control'), first.proposalId, 'or not')
      const second = await outbox.resolveOutboxHold(as('control'), outboxId, 'FAILED', 'a mistake after all')
      await asSecondPerson((control) => outbox.approveOutboxProposal(control, second.proposalId))
      const redrive = await outbox.redriveOutboxItem(as('control'), outboxId, 'it was none')
      await asSecondPerson((control) => outbox.approveOutboxProposal(control, redrive.proposalId))
    },
    'a payment by two people': async () => {
      const payment = buildPayment()
      const item = await outbox.proposeChecked(as('ingest'), payment, 'entered by hand', checks('resend'))
      await asSecondPerson((control) => outbox.approveOutboxProposal(control, item.proposalId))
      await outbox.proposePaymentOutbox(as('ingest'), payment, 'entered by hand')
    },
    'a limit by two people': async () => {
      const name = randomUUID()
      const rule = { kind: 'count', limit: '10', railType: 'drill', windowSeconds: 60 }
      const first = await outbox.proposeOutboxLimit(as('control'), name, rule, 'a drill')
      await outbox.withdrawOutboxLimit(as('control'), first, 'or not')
      const second = await outbox.proposeOutboxLimit(as('control'), name, rule, 'a drill after all')
      await asSecondPerson((control) => outbox.approveOutboxLimit(control, second))
      const removal = await outbox.proposeOutboxLimit(as('control'), name, null, 'the drill is over')
      await asSecondPerson((control) => outbox.approveOutboxLimit(control, removal))
    },
    'a failure and its redrive': async () => {
      const [item, ...others] = await claimed()
      await outbox.completeOutboxAttempts(as('executor'), workerId, [failed(item), ...others.map(again)])
      await outbox.redriveOutboxItem(as('control'), item.outboxId, 'again')
    },
    'a failure, its return and its replacement': async () => {
      const [item, ...others] = await claimed()
      await outbox.completeOutboxAttempts(as('executor'), workerId, [failed(item), ...others.map(again)])
      const money = { amount: '1', currency: 'EUR', code: 'AC04', reference: 'RT-1' }
      await refused('P7001', outbox.recordOutboxReturn(as('control'), { outboxId: item.outboxId, ...money }))
      const replacement = { ...buildPayment(), participantId: item.participantId, replaces: item.outboxId }
      await outbox.enqueuePaymentOutbox(as('ingest'), replacement)
      await outbox.readReplacements(as('readonly'), [item.outboxId])
    },
    'a contradiction that does not exist': async () => {
      await refused('22023', outbox.reviewOutboxContradiction(as('control'), randomUUID(), 'compared'))
    },
    'pauses and policies': async () => {
      await outbox.requireKnownName(as('control'), 'rail', 'resend')
      await outbox.readSkippedHead(as('control'), 'no-such-name')
      await refused('UNKNOWN_NAME', outbox.requireKnownName(as('control'), 'rail', 'no-such-name'))
      await refused('UNKNOWN_NAME', outbox.requireKnownName(as('control'), 'participant', 'no-such-name'))
      await refused('UNKNOWN_NAME', outbox.requireKnownSearch(as('control'), { railType: 'no-such-name' }))
      await refused('UNKNOWN_NAME', outbox.requireKnownSearch(as('control'), { participants: ['no-such-name'] }))
      // The rail name `drill` is used only here: a crash between these two calls leaves the pause, which makes the name
      // known.
      await outbox.pauseOutbox(as('control'), 'rail', 'drill', 'a drill')
      await outbox.resumeOutbox(as('control'), 'rail', 'drill', 'the drill is over')
      await outbox.setParticipantOutboxPolicy(as('control'), 'drill', 'continue')
    },
  }
}

/** Expects an error with this code, and rethrows any other. */
async function refused(code, call) {
  try {
    await call
  } catch (error) {
    if (error.code !== code && error.sqlstate !== code) throw error
    return
  }
  throw new Error(`the call was not refused with ${code}`)
}

function outcomeOf({ outboxId, leaseToken }, state, errorCode) {
  return { outboxId, leaseToken, state, errorCode }
}

function failed(item) {
  return outcomeOf(item, 'FAILED', 'REFUSED')
}

function again(item) {
  return outcomeOf(item, 'RETRYABLE', 'LATER')
}
