import type { Clock } from '../core/index.js'
import { DatabaseError, isLeaseLostError, type Queryable } from '../db/index.js'
import { sleep, turnOfEventLoop } from '../worker/index.js'
import { completeOutboxAttempts, recordLateOutcome } from './db.js'
import type { OnRelayerEvent } from './events.js'
import type { AttemptOutcome, CompletionVerdict } from './types.js'

export interface CompletionQueueOptions {
  readonly role: Queryable
  readonly workerId: string
  readonly onEvent: OnRelayerEvent
  readonly clock: Clock
  /** How many outcomes go into one statement. */
  readonly groupSize: number
  /** How many statements may be under way at once. */
  readonly parallel: number
}

export interface Completion {
  readonly outcome: AttemptOutcome
  readonly railType: string
  /** When the item was accepted, by this process's monotonic clock. */
  readonly acceptedAtMs: number
  /** A renewal has found the lease lost and said so. The outcome is still worth keeping; the loss is not news. */
  readonly leaseKnownLost: boolean
  /** Called when it is recorded, or kept as evidence, or given up with an event. */
  readonly onSettled: (() => void) | undefined
}

/**
 * Brings outcomes into the ledger. While one group is being written the next one gathers, so that under load many finish in
 * one statement, and when idle one goes at once.
 *
 * A completion that fails on the way is retried *as a completion*: the payment is never sent again for it. The same token
 * asked twice is told that its outcome stands, so nothing is recorded twice. When the lease is lost, what was learned is kept
 * as late evidence.
 */
export class CompletionQueue {
  readonly #options: CompletionQueueOptions
  #waiting: Completion[] = []
  readonly #writing = new Set<Promise<void>>()
  readonly #givingUp = new AbortController()

  constructor(options: CompletionQueueOptions) {
    this.#options = options
  }

  /** Outcomes not in the ledger yet. */
  get size(): number {
    return this.#waiting.length + this.#unwritten
  }

  #unwritten = 0
  #gathering: Promise<void> | undefined

  /** What is submitted in one turn of the event loop goes into one group: a claim's no-op calls all end in the same one. */
  submit(completion: Completion): void {
    this.#waiting.push(completion)
    if (this.#waiting.length === 1 && this.#writing.size < this.#options.parallel) this.#gathering ??= this.#gather()
  }

  async #gather(): Promise<void> {
    await turnOfEventLoop()
    this.#gathering = undefined
    this.#pump()
  }

  /** Waits for everything that was submitted; stops trying when the signal aborts. */
  async drain(giveUp: AbortSignal): Promise<void> {
    const stop = () => this.#givingUp.abort()
    if (giveUp.aborted) stop()
    giveUp.addEventListener('abort', stop, { once: true })
    while (this.size > 0) await Promise.all([this.#gathering, ...this.#writing])
    giveUp.removeEventListener('abort', stop)
  }

  #pump(): void {
    while (this.#waiting.length > 0 && this.#writing.size < this.#options.parallel) {
      const group = this.#nextGroup()
      this.#unwritten += group.length
      const writing = this.#write(group).finally(() => {
        this.#unwritten -= group.length
        this.#writing.delete(writing)
        for (const { onSettled } of group) onSettled?.()
        this.#pump()
      })
      this.#writing.add(writing)
    }
  }

  /** What its rail paid goes by a shorter way in the database, if nothing else goes with it; of a few it would not be worth a statement. */
  #nextGroup(): Completion[] {
    const { groupSize } = this.#options
    if (this.#waiting.length < SEPARATED_FROM) return this.#waiting.splice(0, groupSize)
    const group: Completion[] = []
    const others: Completion[] = []
    const goesAlong = isPaid(this.#waiting[0])
    for (const waiting of this.#waiting) {
      if (group.length < groupSize && isPaid(waiting) === goesAlong) group.push(waiting)
      else others.push(waiting)
    }
    this.#waiting = others
    return group
  }

  async #write(group: readonly Completion[]): Promise<void> {
    const { role, workerId } = this.#options
    for (let failures = 0; ; failures += 1) {
      try {
        const outcomes = group.map(({ outcome }) => outcome)
        const verdicts = await completeOutboxAttempts(role, workerId, outcomes)
        const keeping = verdicts.flatMap((verdict, index) => this.#settle(group[index], verdict) ?? [])
        if (keeping.length > 0) await Promise.all(keeping)
        return
      } catch (error) {
        if (isTransient(error) && !this.#givingUp.signal.aborted)
          await sleep(backoffMs(failures), this.#givingUp.signal)
        else if (group.length > 1) return this.#writeOneByOne(group)
        else return this.#reportLost(group, error)
      }
    }
  }

  /** One outcome that cannot be recorded must not keep the others from it. */
  async #writeOneByOne(group: readonly Completion[]): Promise<void> {
    for (const waiting of group) await this.#write([waiting])
  }

  /** Returns what is left to be done, if anything. */
  #settle(waiting: Completion | undefined, verdict: CompletionVerdict): Promise<void> | undefined {
    if (waiting === undefined) return undefined
    const { onEvent, clock } = this.#options
    const { outcome, railType } = waiting
    const sinceAcceptedMs = clock.monotonicMs() - waiting.acceptedAtMs
    switch (verdict.verdict) {
      case 'RECORDED': {
        const { outboxId, state, held, attemptNo, contradicted } = verdict
        onEvent({ type: 'recorded', railType, outboxId, state, held, attemptNo, sinceAcceptedMs })
        if (contradicted) onEvent({ type: 'contradicted', railType, outboxId })
        if (held) onEvent({ type: 'held', railType, outboxId, reason: outcome.holdReason ?? DECIDED_BY_DATABASE })
        return undefined
      }
      case 'ALREADY_RECORDED':
        onEvent({
          type: 'alreadyRecorded',
          railType,
          outboxId: verdict.outboxId,
          state: verdict.state,
          sinceAcceptedMs,
        })
        if (verdict.contradicted) onEvent({ type: 'contradicted', railType, outboxId: verdict.outboxId })
        return undefined
      case 'LEASE_LOST':
        if (!waiting.leaseKnownLost) onEvent({ type: 'leaseLost', outboxId: verdict.outboxId, during: 'completion' })
        return this.keepAsEvidence(outcome)
    }
  }

  /** What a worker learned without a live lease. An answer that nobody knows is no evidence. */
  async keepAsEvidence(outcome: AttemptOutcome): Promise<void> {
    if (outcome.outcomeUnknown === true) return
    const { role, workerId, onEvent } = this.#options
    for (let failures = 0; ; failures += 1) {
      try {
        const { eventType } = await recordLateOutcome(role, workerId, outcome)
        onEvent({ type: 'lateOutcome', outboxId: outcome.outboxId, contradicts: eventType === 'TERMINAL_BLOCKED' })
        return
      } catch (error) {
        if (!isTransient(error) || this.#givingUp.signal.aborted) {
          onEvent({ type: 'fault', during: 'recording a late outcome', error, outboxId: outcome.outboxId })
          return
        }
        await sleep(backoffMs(failures), this.#givingUp.signal)
      }
    }
  }

  #reportLost(group: readonly Completion[], error: unknown): void {
    const { onEvent } = this.#options
    for (const { outcome } of group) {
      if (error instanceof DatabaseError && error.constraint === TERMINAL_GUARD) {
        onEvent({ type: 'terminalGuard', outboxId: outcome.outboxId })
      } else {
        onEvent({ type: 'fault', during: 'completing', error, outboxId: outcome.outboxId })
      }
    }
  }
}

/** Nothing happened, or it may have: either way the same completion may be asked again, because the token tells. */
function isTransient(error: unknown): boolean {
  return error instanceof DatabaseError && error.disposition !== 'fatal' && !isLeaseLostError(error)
}

function isPaid(waiting: Completion | undefined): boolean {
  return waiting?.outcome.state === 'DISPATCHED'
}

const SEPARATED_FROM = 50

function backoffMs(failures: number): number {
  return Math.min(50 * 2 ** failures, 1_000)
}

/** The reason is in the row and its event; the answer to a claim or a completion says only that there is one. */
export const DECIDED_BY_DATABASE = 'decided by the database'

const TERMINAL_GUARD = 'payment_outbox_attempts_one_terminal_per_outbox'
