import { DatabaseError, type Queryable } from '../../libs/db/index.js'
import {
  approveOutboxProposal,
  beginOutboxDispatch,
  cancelOutboxItem,
  checkDispatchEpoch,
  claimOutboxBatch,
  completeOutboxAttempts,
  enqueuePaymentOutboxBatch,
  freezeDispatch,
  holdLeasedOutboxItem,
  liftDispatchFreeze,
  pauseOutbox,
  placeOutboxHold,
  recordLateOutcome,
  redriveOutboxItem,
  releaseOutboxLease,
  renewOutboxLease,
  repairExpiredLeases,
  resolveOutboxHold,
  resumeOutbox,
  reviewOutboxContradiction,
  setParticipantOutboxPolicy,
  withdrawOutboxProposal,
  type AttemptOutcome,
  type ClaimedItem,
  type CompletionState,
  type DecisionResult,
} from '../../libs/outbox/index.js'
import type { TestDatabase } from './database.js'
import { buildInstruction, WORKER } from './outboxItems.js'

/** Connections that run the random steps. Each call may return another session. */
export interface RandomWorkers {
  readonly ingest: () => Queryable
  readonly executor: () => Queryable
  /** Connections of two people. */
  readonly people: readonly [() => Queryable, () => Queryable]
}

interface Lease {
  readonly outboxId: string
  readonly leaseToken: string
  readonly workerId: string
}

/**
 * Refusals that a random step may meet: an earlier step ended, held, leased or decided its item. With two actors, the
 * other one may have frozen dispatch (P7009), and a freeze and a completion may deadlock (40P01).
 */
const EXPECTED_REFUSALS: ReadonlySet<string | undefined> = new Set([
  'P7001',
  'P7002',
  'P7006',
  'P7007',
  'P7009',
  'P7013',
  '40P01',
])

/**
 * Runs every operation of the outbox in an order that a seed decides. Each step ends before the next begins.
 * Direct SQL changes only the expiry of leases, and the same step handles the expired leases. Functions write
 * everything else.
 */
export class RandomOutbox {
  readonly #db: TestDatabase
  readonly #workers: RandomWorkers
  readonly #random: () => number
  readonly #participants: readonly string[]
  readonly #rails: readonly string[]
  readonly #items: string[] = []
  readonly #leases: Lease[] = []
  readonly #proposals: string[] = []
  /** Steps to choose from. An entry that occurs several times is chosen more often. */
  readonly #steps: readonly (() => Promise<unknown>)[]

  constructor(db: TestDatabase, seed: number, workers: RandomWorkers) {
    this.#db = db
    this.#workers = workers
    this.#random = mulberry32(seed)
    const name = (kind: string) => [1, 2, 3].map((number) => `${kind}-${seed}-${number}`)
    this.#participants = name('participant')
    this.#rails = name('rail')
    const often = [() => this.#enqueue(), () => this.#claim(), () => this.#complete()]
    this.#steps = [
      ...often,
      ...often,
      ...often,
      ...often,
      () => this.#renew(),
      () => this.#release(),
      () => this.#begin(),
      () => this.#holdLeased(),
      () => this.#reportLate(),
      () => this.#expire(),
      () => this.#hold(),
      () => this.#resolve(),
      () => this.#resolve(),
      () => this.#redrive(),
      () => this.#approve(),
      () => this.#approve(),
      () => this.#withdraw(),
      () => this.#cancel(),
      () => this.#pause(),
      () => this.#resume(),
      () => this.#setPolicy(),
      () => this.#freeze(),
    ]
  }

  /** Runs every operation once, then random steps. */
  async run(steps: number, afterStep?: (step: number) => Promise<void>): Promise<void> {
    await this.#runEveryOperation()
    await this.runRandomSteps(steps, afterStep)
  }

  /** Runs random steps only. */
  async runRandomSteps(steps: number, afterStep?: (step: number) => Promise<void>): Promise<void> {
    for (let step = 0; step < steps; step++) {
      try {
        await this.#pick(this.#steps)()
      } catch (error) {
        if (!(error instanceof DatabaseError) || !EXPECTED_REFUSALS.has(error.sqlstate)) throw error
      }
      await afterStep?.(step)
    }
  }

  /**
   * Covers every kind of attempt, event and decision, and leaves an item in each state. The random steps do not use its
   * items.
   */
  async #runEveryOperation(): Promise<void> {
    const operations = new EveryOperation(this.#db, this.#workers)
    await operations.exhaustAttempts(false)
    await operations.exhaustAttempts(true)
    await operations.decide()
    await operations.redrive()
    await operations.cancel()
    await operations.freeze()
    await operations.lease()
    await operations.order()
    await operations.redriveInOrder()
  }

  async #enqueue(): Promise<void> {
    const isMessage = this.#chance(0.2)
    const instructions = Array.from({ length: this.#int(1, 4) }, () =>
      buildInstruction({
        participantId: this.#pick(this.#participants),
        railType: this.#pick(this.#rails),
        ordered: this.#chance(0.4),
        payload: { amount: this.#int(1, 1e6) / 100, text: 'à 5 €\n', n: this.#int(0, 9) },
        ...(this.#chance(0.1) ? { notBefore: new Date(Date.now() + 86_400_000) } : {}),
        ...(this.#chance(0.2) ? { traceContext: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01 vendor=1` } : {}),
        ...(!isMessage && this.#chance(0.2) ? { outcomeTopic: this.#pick(this.#rails) } : {}),
      }),
    )
    const items = await enqueuePaymentOutboxBatch(this.#workers.ingest(), instructions, { isMessage })
    this.#items.push(...items.map((item) => item.outboxId))
  }

  async #claim(): Promise<void> {
    const workerId = `worker-${this.#int(1, 3)}`
    const rails = this.#chance(0.5) ? { rails: [this.#pick(this.#rails)] } : { rails: this.#rails }
    const marked = this.#chance(0.3) ? { markedRails: [this.#pick(this.#rails)] } : {}
    const items = await claimOutboxBatch(this.#workers.executor(), this.#int(1, 5), workerId, this.#int(60, 3600), {
      ...rails,
      ...marked,
    })
    this.#leases.push(...items.map(({ outboxId, leaseToken }) => ({ outboxId, leaseToken, workerId })))
  }

  async #complete(): Promise<void> {
    const { workerId } = this.#pick(this.#leases)
    const recent = this.#leases.slice(-10).filter((lease) => lease.workerId === workerId)
    if (recent.length === 0) return
    await completeOutboxAttempts(
      this.#workers.executor(),
      workerId,
      recent.slice(0, this.#int(1, 5)).map((lease) => this.#outcome(lease)),
    )
  }

  #outcome({ outboxId, leaseToken }: Lease): AttemptOutcome {
    const state = this.#pick(['DISPATCHED', 'FAILED', 'RETRYABLE', 'RETRYABLE'] as const)
    return {
      outboxId,
      leaseToken,
      state,
      railReference: this.#chance(0.7) ? `reference ${this.#int(1, 99)} ß` : null,
      railCode: this.#chance(0.3) ? 'AC04' : null,
      errorCode: this.#chance(0.3) ? 'BUSY' : null,
      errorMessage: this.#chance(0.3) ? 'zu spät,\n"leider"' : null,
      latencyMs: this.#chance(0.5) ? this.#int(0, 5000) : null,
      retryDelaySeconds: this.#chance(0.8) ? 0 : null,
      outcomeUnknown: this.#pick([null, null, true, false]),
      holdReason: state !== 'DISPATCHED' && this.#chance(0.2) ? 'a person must look' : null,
    }
  }

  async #renew(): Promise<void> {
    const lease = this.#pick(this.#leases.slice(-5))
    await renewOutboxLease(this.#workers.executor(), lease, lease.workerId, this.#int(60, 3600))
  }

  async #release(): Promise<void> {
    const lease = this.#pick(this.#leases.slice(-5))
    await releaseOutboxLease(this.#workers.executor(), lease, lease.workerId)
  }

  async #begin(): Promise<void> {
    const lease = this.#pick(this.#leases.slice(-5))
    await beginOutboxDispatch(this.#workers.executor(), lease, lease.workerId)
  }

  async #holdLeased(): Promise<void> {
    const lease = this.#pick(this.#leases.slice(-5))
    await holdLeasedOutboxItem(this.#workers.executor(), lease, lease.workerId, 'not mine to send')
  }

  async #reportLate(): Promise<void> {
    const { outboxId, leaseToken, workerId } = this.#pick(this.#leases)
    const state = this.#pick(['DISPATCHED', 'FAILED', 'RETRYABLE', 'RETRYABLE'] as const)
    await recordLateOutcome(this.#workers.executor(), workerId, {
      outboxId,
      leaseToken,
      state,
      railReference: `late ${this.#int(1, 3)}`,
      latencyMs: this.#int(0, 100),
    })
  }

  /**
   * Expires the leases of up to three items. In half of the cases a claim handles them; lease repair handles the rest.
   */
  async #expire(): Promise<void> {
    const { rows } = await this.#db.queryNoRole<{ outbox_id: string }>(
      `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second'
       WHERE lease_token IS NOT NULL AND outbox_id = ANY ($1) RETURNING outbox_id`,
      [[this.#pick(this.#items), this.#pick(this.#items), this.#pick(this.#items)]],
    )
    if (rows.length === 0) return
    if (this.#chance(0.5)) await this.#claim()
    await repairExpiredLeases(this.#workers.executor(), 100, 'repairer')
  }

  async #hold(): Promise<void> {
    await placeOutboxHold(this.#person(), this.#pick(this.#items), 'looks wrong')
  }

  async #resolve(): Promise<void> {
    const { rows } = await this.#db.queryNoRole<{ outbox_id: string }>(
      'SELECT outbox_id FROM payment_outbox_pending WHERE hold_reason IS NOT NULL AND outbox_id = ANY ($1) ORDER BY 1',
      [this.#items],
    )
    const outboxId = this.#pick(rows.map((row) => row.outbox_id))
    const decision = this.#pick(['RETRY', 'RETRY', 'FAILED', 'DISPATCHED'] as const)
    const reference = decision === 'DISPATCHED' ? 'from the statement' : null
    this.#note(await resolveOutboxHold(this.#person(), outboxId, decision, 'as agreed', reference))
  }

  async #redrive(): Promise<void> {
    const { rows } = await this.#db.queryNoRole<{ outbox_id: string }>(
      `SELECT outbox_id FROM payment_outbox_attempts WHERE state = 'FAILED' AND outbox_id = ANY ($1) ORDER BY 1`,
      [this.#items],
    )
    this.#note(await redriveOutboxItem(this.#person(), this.#pick(rows.map((row) => row.outbox_id)), 'once more'))
  }

  #note({ proposalId }: DecisionResult): void {
    if (proposalId !== null) this.#proposals.push(proposalId)
  }

  async #approve(): Promise<void> {
    const { redrivenAs } = await approveOutboxProposal(this.#person(), this.#pick(this.#proposals.slice(-4)))
    if (redrivenAs !== null) this.#items.push(redrivenAs)
  }

  async #withdraw(): Promise<void> {
    await withdrawOutboxProposal(this.#person(), this.#pick(this.#proposals.slice(-4)), 'not like this')
  }

  async #cancel(): Promise<void> {
    const role = this.#chance(0.5) ? this.#workers.ingest() : this.#person()
    await cancelOutboxItem(role, this.#pick(this.#items), 'not needed')
  }

  async #pause(): Promise<void> {
    const kind = this.#pick(['rail', 'participant', 'stream'] as const)
    await pauseOutbox(this.#person(), kind, this.#pick(kind === 'rail' ? this.#rails : this.#participants), 'wait')
  }

  /** Resumes everything, because a paused outbox does little. */
  async #resume(): Promise<void> {
    const person = this.#person()
    for (const rail of this.#rails) await resumeOutbox(person, 'rail', rail, 'go on')
    for (const participant of this.#participants) {
      await resumeOutbox(person, 'participant', participant, 'go on')
      await resumeOutbox(person, 'stream', participant, 'go on')
    }
  }

  /** Freezes dispatch, which marks the outcome of every pending item as unknown, and lifts the freeze. */
  async #freeze(): Promise<void> {
    await freezeDispatch(this.#person(), 'restored by hand')
    await checkDispatchEpoch(this.#workers.executor(), 'worker-1')
    await liftDispatchFreeze(this.#person(), 'the books agree')
  }

  async #setPolicy(): Promise<void> {
    const policy = this.#pick(['continue', 'halt'] as const)
    await setParticipantOutboxPolicy(this.#person(), this.#pick(this.#participants), policy)
  }

  #person(): Queryable {
    return this.#pick(this.#workers.people)()
  }

  #int(min: number, max: number): number {
    return min + Math.floor(this.#random() * (max - min + 1))
  }

  #chance(probability: number): boolean {
    return this.#random() < probability
  }

  #pick<T>(choices: readonly T[]): T {
    if (choices.length === 0) throw new NothingToDo()
    return choices[this.#int(0, choices.length - 1)]!
  }
}

/** Runs every operation of the outbox once, always in the same order. */
class EveryOperation {
  readonly #workers: RandomWorkers
  readonly #db: TestDatabase
  #visits = 0

  constructor(db: TestDatabase, workers: RandomWorkers) {
    this.#db = db
    this.#workers = workers
  }

  /** Makes 20 attempts of one item. The last makes it FAILED, or holds it if its outcome is unknown. */
  async exhaustAttempts(outcomeUnknown: boolean): Promise<void> {
    const railType = await this.#enqueue()
    for (let attempt = 1; attempt <= 20; attempt++) {
      await this.#complete(await this.#claim(railType), { state: 'RETRYABLE', outcomeUnknown, retryDelaySeconds: 0 })
    }
  }

  /** Makes every decision, withdraws proposals, and reports late outcomes before and after a terminal one. */
  async decide(): Promise<void> {
    for (const decision of ['DISPATCHED', 'FAILED', 'RETRY'] as const) {
      const lease = await this.#claim(await this.#enqueue())
      await this.#complete(lease, { state: 'RETRYABLE', outcomeUnknown: true, holdReason: 'no answer' })
      await this.#reportLate(lease, 'RETRYABLE')
      const reference = decision === 'DISPATCHED' ? 'from the statement' : null
      const propose = () =>
        resolveOutboxHold(this.#workers.people[0](), lease.outboxId, decision, 'as agreed', reference)
      const first = await propose()
      await withdrawOutboxProposal(this.#workers.people[1](), first.proposalId!, 'not like this')
      const second = await propose()
      await approveOutboxProposal(this.#workers.people[1](), second.proposalId!)
      await this.#reportLate(lease, decision === 'FAILED' ? 'DISPATCHED' : 'FAILED')
    }
    const lease = await this.#claim(await this.#enqueue(new Date(Date.now() - 1_000)))
    await placeOutboxHold(this.#workers.people[0](), lease.outboxId, 'looks wrong')
    await this.#complete(lease, { state: 'RETRYABLE' })
    await resolveOutboxHold(this.#workers.people[0](), lease.outboxId, 'RETRY', 'looks right')
  }

  /** Cancels an item of an ordered stream, and a held one with a proposal. Leaves an item with an outcome topic. */
  async cancel(): Promise<void> {
    const railType = await this.#enqueue(undefined, true)
    const [held] = await enqueuePaymentOutboxBatch(this.#workers.ingest(), [
      buildInstruction({ participantId: railType, railType, ordered: true }),
    ])
    const [head] = await claimOutboxBatch(this.#workers.executor(), 1, WORKER, 600, { rails: [railType] })
    await this.#complete(head!, { state: 'RETRYABLE', railCode: 'BUSY' })
    await cancelOutboxItem(this.#workers.ingest(), head!.outboxId, 'not needed')
    const person = this.#workers.people[0]()
    await placeOutboxHold(person, held!.outboxId, 'looks wrong')
    await resolveOutboxHold(person, held!.outboxId, 'FAILED', 'as agreed')
    await cancelOutboxItem(person, held!.outboxId, 'not needed either')
    await enqueuePaymentOutboxBatch(this.#workers.ingest(), [buildInstruction({ outcomeTopic: 'orders' })])
  }

  async redrive(): Promise<void> {
    const lease = await this.#claim(await this.#enqueue())
    await this.#complete(lease, { state: 'FAILED', railCode: 'AC04', errorCode: 'CLOSED', latencyMs: 12 })
    const { proposalId } = await redriveOutboxItem(this.#workers.people[0](), lease.outboxId, 'once more')
    await approveOutboxProposal(this.#workers.people[1](), proposalId!)
  }

  /** Ends leases in every way, and leaves one open. */
  async lease(): Promise<void> {
    const executor = this.#workers.executor
    const released = await this.#claim(await this.#enqueue())
    await renewOutboxLease(executor(), released, WORKER, 3_600)
    await releaseOutboxLease(executor(), released, WORKER)

    const begun = await this.#claim(await this.#enqueue(), true)
    await beginOutboxDispatch(executor(), begun, WORKER)
    await holdLeasedOutboxItem(executor(), begun, WORKER, 'no answer')

    const repaired = await this.#claim(await this.#enqueue())
    await this.#db.expireLease(repaired.outboxId)
    await repairExpiredLeases(executor(), 100, 'repairer')

    const takenOver = await this.#claim(await this.#enqueue())
    await this.#db.expireLease(takenOver.outboxId)
    const again = await this.#claim(takenOver.railType)
    await this.#complete(again, { state: 'DISPATCHED', railReference: 'r-1', errorMessage: 'zu spät,\n"leider"' })

    await this.#claim(await this.#enqueue())
  }

  /** Halts and resumes a stream, pauses participants and rails, and leaves a pending item. */
  async order(): Promise<void> {
    const [first, second] = this.#workers.people
    const railType = await this.#enqueue(undefined, true)
    const participantId = railType
    for (const _ of [1, 2, 3]) {
      await enqueuePaymentOutboxBatch(this.#workers.ingest(), [
        buildInstruction({ participantId, railType, ordered: true }),
      ])
    }
    await setParticipantOutboxPolicy(first(), participantId, 'halt')
    await this.#complete(await this.#claim(railType), { state: 'FAILED' })
    await resumeOutbox(second(), 'stream', participantId, 'go on')
    await this.#complete(await this.#claim(railType), { state: 'DISPATCHED' })
    for (const kind of ['rail', 'participant', 'stream'] as const) {
      await pauseOutbox(first(), kind, railType, 'please wait')
      await resumeOutbox(second(), kind, railType, 'go on')
    }
  }

  /** Redrives the failed head of a halted stream. Two blocked items are left. */
  async redriveInOrder(): Promise<void> {
    const [first, second] = this.#workers.people
    const railType = await this.#enqueue(undefined, true)
    await enqueuePaymentOutboxBatch(this.#workers.ingest(), [
      buildInstruction({ participantId: railType, railType, ordered: true }),
    ])
    await setParticipantOutboxPolicy(first(), railType, 'halt')
    const failed = await this.#claim(railType)
    await this.#complete(failed, { state: 'FAILED' })
    const { proposalId } = await redriveOutboxItem(first(), failed.outboxId, 'once more, in its place')
    await approveOutboxProposal(second(), proposalId!)
  }

  /** Leaves an item that a freeze has marked unknown. */
  async freeze(): Promise<void> {
    await this.#enqueue()
    await freezeDispatch(this.#workers.people[0](), 'restored by hand')
    await checkDispatchEpoch(this.#workers.executor(), WORKER)
    await liftDispatchFreeze(this.#workers.people[1](), 'the books agree')
  }

  /** Enqueues an item on a new rail, for a participant of the same name. */
  async #enqueue(notBefore?: Date, ordered = false): Promise<string> {
    const railType = `tour-${++this.#visits}`
    await enqueuePaymentOutboxBatch(this.#workers.ingest(), [
      buildInstruction({
        railType,
        participantId: railType,
        ordered,
        ...(notBefore === undefined ? {} : { notBefore }),
      }),
    ])
    return railType
  }

  async #claim(railType: string, marked = false): Promise<ClaimedItem> {
    const [item] = await claimOutboxBatch(this.#workers.executor(), 1, WORKER, 600, {
      rails: [railType],
      ...(marked ? { markedRails: [railType] } : {}),
    })
    return item!
  }

  async #complete(
    { outboxId, leaseToken }: ClaimedItem,
    outcome: Omit<AttemptOutcome, 'outboxId' | 'leaseToken'>,
  ): Promise<void> {
    await completeOutboxAttempts(this.#workers.executor(), WORKER, [{ outboxId, leaseToken, ...outcome }])
  }

  async #reportLate({ outboxId, leaseToken }: ClaimedItem, state: CompletionState): Promise<void> {
    const late = { outboxId, leaseToken, state, railReference: 'late' }
    const { eventId, eventType } = await recordLateOutcome(this.#workers.executor(), WORKER, late)
    if (eventType === 'TERMINAL_BLOCKED')
      await reviewOutboxContradiction(this.#workers.people[0](), eventId, 'compared')
  }
}

/** Error of a step that has no item yet. It counts as refused. */
class NothingToDo extends DatabaseError {
  constructor() {
    super('NOTHING_TO_DO', 'nothing to do this with yet', { disposition: 'fatal', sqlstate: 'P7006' })
  }
}

/** Returns a generator that repeats its numbers for a seed. */
function mulberry32(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
