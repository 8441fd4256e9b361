import type { Clock } from '../core/index.js'
import { DatabaseError, isLeaseLostError, type Queryable } from '../db/index.js'
import { sleep, yieldToEventLoop, type Emitter } from '../worker/index.js'
import { completeOutboxAttempts, recordLateOutcome, renewOutboxLeases } from './db.js'
import type { RelayerEvent } from './events.js'
import type { HandlerTransaction } from './HandlerTransaction.js'
import type { LeasedItem } from './LeasedItem.js'
import type { AttemptOutcome, CompletionVerdict } from './types.js'

interface ItemCompleterOptions {
  readonly role: Queryable
  readonly workerId: string
  readonly relayer: { readonly leaseSeconds: number }
  readonly events: Emitter<RelayerEvent>
  readonly clock: Clock
  /** Called after a retry or an ordered item was recorded, because an item may have become due. */
  readonly onDue: () => void
  /** Maximum number of outcomes in one statement. @default 500 */
  readonly groupSize?: number
  /** Maximum number of statements at once. @default 2 */
  readonly parallel?: number
}

/**
 * Records outcomes in the ledger. Outcomes that arrive while a group is written form the next group. So under load many
 * outcomes share a statement, and an idle relayer records each outcome at once.
 *
 * A failed completion is retried *as a completion*, and the payment is not sent again. The lease token makes a repeated
 * completion idempotent. If the lease is lost, the outcome is saved as a late outcome.
 *
 * A row that another transaction has locked delays only its own outcome. After a lock timeout a renewal that does not
 * wait tells the locked rows of the group. The outcomes of the others are written, and the locked ones once their row is
 * free.
 */
export class ItemCompleter {
  readonly #options: ItemCompleterOptions
  #waiting: LeasedItem[] = []
  readonly #writing = new Map<readonly LeasedItem[], Promise<unknown>>()
  /** Outcomes whose row may be locked. */
  #locked: LeasedItem[] = []
  #unlocking: Promise<void> | undefined
  /** Outcomes to write alone: their own row is free, but a statement with them has waited too long for a lock. */
  readonly #alone: LeasedItem[] = []
  #aloneWriting = 0
  #lateSaves = 0
  readonly #lateWaiting: (() => void)[] = []
  readonly #savingLate = new Set<Promise<void>>()
  #gathering: Promise<void> | undefined
  #givingUp = new AbortController()

  constructor(options: ItemCompleterOptions) {
    this.#options = options
  }

  /** Number of queued outcomes and late outcomes that are not recorded yet. The transactions of handlers do not count. */
  get size(): number {
    let size = this.#waiting.length + this.#locked.length + this.#alone.length + this.#savingLate.size
    for (const group of this.#writing.keys()) size += group.length
    return size
  }

  /**
   * Queues an outcome. Outcomes of one event-loop turn share a group, because the quick calls of one claim often end in
   * the same turn. The outcome of a handler with a transaction is committed at once. Only in this case a promise is
   * returned.
   */
  submit(leased: LeasedItem, outcome: AttemptOutcome, transaction?: HandlerTransaction): Promise<void> | undefined {
    leased.outcome = outcome
    if (transaction !== undefined) return this.#commit(leased, outcome, transaction)
    this.#waiting.push(leased)
    if (this.#waiting.length === 1 && this.#canWrite) this.#gathering ??= this.#gather()
    return undefined
  }

  /**
   * Records a success in the transaction of its handler, never in a group. After a lost lease the transaction is rolled
   * back. No late outcome is then saved, because the handler's writes did not happen.
   */
  async #commit(leased: LeasedItem, outcome: AttemptOutcome, transaction: HandlerTransaction): Promise<void> {
    let verdict: CompletionVerdict
    try {
      verdict = await transaction.commit(outcome)
    } catch (error) {
      // Submits a retry, because the transaction may have been rolled back. If only the answer to its COMMIT was lost,
      // the lease token makes the retry ALREADY_RECORDED.
      return this.submit(leased, notCommitted(outcome, error))
    }
    if (verdict.verdict === 'LEASE_LOST') this.#reportLost(leased)
    else this.#report(leased, verdict, leased.ageMs(this.#options.clock.monotonicMs()))
    if (mayMakeDue(leased)) this.#options.onDue()
  }

  /** Waits until every queued outcome is recorded, or reported as a fault. */
  async drain(): Promise<void> {
    while (this.size > 0) {
      await Promise.all([this.#gathering, this.#unlocking, ...this.#writing.values(), ...this.#savingLate])
    }
    if (this.#givingUp.signal.aborted) this.#givingUp = new AbortController()
  }

  /** Makes failed completions faults instead of retries, until `drain` has emptied the queue. */
  giveUp(): void {
    this.#givingUp.abort()
    this.#lateSaves += this.#lateWaiting.length
    for (const begin of this.#lateWaiting.splice(0)) begin()
  }

  /** Saves an outcome that arrived after its call had ended. `drain` waits for it. */
  submitLate(outcome: AttemptOutcome): void {
    const saving = this.#saveLateOutcome(outcome).finally(() => this.#savingLate.delete(saving))
    this.#savingLate.add(saving)
  }

  /**
   * Saves an outcome that arrived without a live lease. Does not save an unknown outcome, because it is no evidence.
   */
  async #saveLateOutcome(outcome: AttemptOutcome): Promise<void> {
    if (outcome.outcomeUnknown === true) return
    const { role, workerId, events } = this.#options
    for (let failures = 0; ; failures += 1) {
      try {
        const { eventType } = await this.#inLateSlot(() => recordLateOutcome(role, workerId, outcome))
        events.emit({
          type: 'outbox.lateOutcome',
          outboxId: outcome.outboxId,
          contradicts: eventType === 'TERMINAL_BLOCKED',
        })
        return
      } catch (error) {
        if (!this.#canRepeat(error)) {
          events.emit({ type: 'outbox.fault', during: 'recording a late outcome', error, outboxId: outcome.outboxId })
          return
        }
        await sleep(backoffMs(failures), this.#givingUp.signal)
      }
    }
  }

  /** Bounds the late saves at once: each may wait for a lock and hold a connection. */
  async #inLateSlot<T>(save: () => Promise<T>): Promise<T> {
    if (this.#lateSaves < LATE_PARALLEL || this.#givingUp.signal.aborted) this.#lateSaves += 1
    else await new Promise<void>((resolve) => void this.#lateWaiting.push(resolve))
    try {
      return await save()
    } finally {
      const next = this.#lateWaiting.shift()
      // The next save takes over the slot.
      if (next === undefined) this.#lateSaves -= 1
      else next()
    }
  }

  get #canWrite(): boolean {
    return this.#writing.size - this.#aloneWriting < (this.#options.parallel ?? PARALLEL)
  }

  async #gather(): Promise<void> {
    await yieldToEventLoop()
    this.#gathering = undefined
    this.#writeGroups()
  }

  #writeGroups(): void {
    while (this.#waiting.length > 0 && this.#canWrite) this.#begin(this.#nextGroup())
    while (this.#alone.length > 0 && this.#aloneWriting < ALONE_PARALLEL) {
      this.#aloneWriting += 1
      this.#begin([this.#alone.shift()!], () => (this.#aloneWriting -= 1))
    }
    if (this.#locked.length > 0) this.#unlocking ??= this.#awaitUnlocks()
  }

  /**
   * Sorts a group that waited too long for a lock. Unordered outcomes beside a locked row return to the queue. The
   * others are written alone, because the locked row may not be their own: an ordered item also changes its successor.
   */
  async #sort(group: readonly LeasedItem[]): Promise<void> {
    const locked = await this.#findLocked(group)
    const isFree = (leased: LeasedItem) => locked.size > 0 && !locked.has(leased) && !leased.item.ordered
    this.#waiting.push(...group.filter(isFree))
    this.#locked.push(...group.filter((leased) => !isFree(leased)))
  }

  /** Writes each locked outcome after its row is free, without a connection that waits for the lock. */
  async #awaitUnlocks(): Promise<void> {
    while (this.#locked.length > 0) {
      const asked = [...this.#locked]
      const locked = await this.#findLocked(asked)
      const free = new Set(asked.filter((leased) => !locked.has(leased)))
      this.#locked = this.#locked.filter((leased) => !free.has(leased))
      this.#alone.push(...free)
      this.#writeGroups()
      if (this.#locked.length > 0) await sleep(LOCKED_RETRY_MS, this.#givingUp.signal)
    }
    this.#unlocking = undefined
  }

  /**
   * Returns the items that another transaction has locked, and renews the leases of the others. Returns none if the
   * database does not answer or after `giveUp`: the writes then wait for their locks.
   */
  async #findLocked(items: readonly LeasedItem[]): Promise<ReadonlySet<LeasedItem>> {
    const { role, workerId, relayer } = this.#options
    const locked = new Set<LeasedItem>()
    if (this.#givingUp.signal.aborted) return locked
    try {
      for (let start = 0; start < items.length; start += GROUP_SIZE) {
        const group = items.slice(start, start + GROUP_SIZE)
        const leases = group.map(({ item }) => item)
        const renewals = await renewOutboxLeases(role, leases, workerId, relayer.leaseSeconds)
        for (const [index, { renewed }] of renewals.entries()) if (renewed === null) locked.add(group[index]!)
      }
    } catch {
      locked.clear()
    }
    return locked
  }

  #begin(group: readonly LeasedItem[], onEnd?: () => void): void {
    const writing = this.#write(group).finally(() => {
      this.#writing.delete(group)
      onEnd?.()
      if (group.some(mayMakeDue)) this.#options.onDue()
      this.#writeGroups()
    })
    this.#writing.set(group, writing)
  }

  /**
   * Takes the next group. If many outcomes wait, successes get a group of their own, because the database has a fast
   * path for them.
   */
  #nextGroup(): LeasedItem[] {
    const { groupSize = GROUP_SIZE } = this.#options
    if (this.#waiting.length < FAST_PATH_GROUP_MIN) return this.#waiting.splice(0, groupSize)
    const group: LeasedItem[] = []
    const others: LeasedItem[] = []
    const isOfSuccesses = isSuccess(this.#waiting[0]!)
    for (const leased of this.#waiting) {
      if (group.length < groupSize && isSuccess(leased) === isOfSuccesses) group.push(leased)
      else others.push(leased)
    }
    this.#waiting = others
    return group
  }

  /** Writes a group. Returns the error if the database did not answer and `giveUp` was called. */
  async #write(group: readonly LeasedItem[]): Promise<unknown> {
    const { role, workerId } = this.#options
    for (let failures = 0; ; failures += 1) {
      try {
        this.#settle(group, await completeOutboxAttempts(role, workerId, group.map(outcomeOf)))
        return undefined
      } catch (error) {
        const canRepeat = this.#canRepeat(error)
        if (isLockTimeout(error) && (canRepeat || group.length > 1)) {
          await sleep(backoffMs(failures), this.#givingUp.signal)
          await this.#sort(group)
          return undefined
        }
        if (canRepeat) await sleep(backoffMs(failures), this.#givingUp.signal)
        else if (group.length > 1 && !isTransient(error)) return this.#writeOneByOne(group)
        else {
          this.#reportUnrecorded(group, error)
          return isTransient(error) ? error : undefined
        }
      }
    }
  }

  /** Writes each outcome alone, so that one invalid outcome does not block the others. */
  async #writeOneByOne(group: readonly LeasedItem[]): Promise<unknown> {
    for (const [index, leased] of group.entries()) {
      const error = await this.#write([leased])
      if (error === undefined) continue
      // Each further outcome would wait as long for the database.
      this.#reportUnrecorded(group.slice(index + 1), error)
      return error
    }
    return undefined
  }

  #canRepeat(error: unknown): boolean {
    return !this.#givingUp.signal.aborted && isTransient(error)
  }

  /** Reports the verdicts, and begins to save late outcomes. */
  #settle(group: readonly LeasedItem[], verdicts: readonly CompletionVerdict[]): void {
    const nowMs = this.#options.clock.monotonicMs()
    for (const [index, leased] of group.entries()) {
      const verdict = verdicts[index]!
      if (verdict.verdict === 'LEASE_LOST') this.#saveLost(leased)
      else this.#report(leased, verdict, leased.ageMs(nowMs))
    }
  }

  #report(
    leased: LeasedItem,
    verdict: Exclude<CompletionVerdict, { readonly verdict: 'LEASE_LOST' }>,
    sinceAcceptedMs: number,
  ): void {
    const { events } = this.#options
    const { railType } = leased.item
    const { outboxId, state, contradicted } = verdict
    if (verdict.verdict === 'ALREADY_RECORDED') {
      events.emit({ type: 'outbox.alreadyRecorded', railType, outboxId, state, sinceAcceptedMs })
    } else {
      const { held, attemptNo } = verdict
      events.emit({ type: 'outbox.recorded', railType, outboxId, state, held, attemptNo, sinceAcceptedMs })
    }
    if (contradicted) events.emit({ type: 'outbox.contradicted', railType, outboxId })
    if (verdict.verdict === 'RECORDED' && verdict.held) {
      const reason = outcomeOf(leased).holdReason ?? DECIDED_BY_DATABASE
      events.emit({ type: 'outbox.held', railType, outboxId, reason })
    }
  }

  #saveLost(leased: LeasedItem): void {
    this.#reportLost(leased)
    this.submitLate(outcomeOf(leased))
  }

  /** Reports a lost lease, unless a renewal has reported it already. */
  #reportLost(leased: LeasedItem): void {
    const { outboxId } = leased.item
    if (leased.markLost()) this.#options.events.emit({ type: 'outbox.leaseLost', outboxId, during: 'completion' })
  }

  #reportUnrecorded(group: readonly LeasedItem[], error: unknown): void {
    const { events } = this.#options
    for (const { item } of group) {
      const { outboxId } = item
      if (error instanceof DatabaseError && error.constraint === TERMINAL_GUARD) {
        events.emit({ type: 'outbox.terminalGuard', outboxId })
      } else {
        events.emit({ type: 'outbox.fault', during: 'completing', error, outboxId })
      }
    }
  }
}

function outcomeOf({ outcome }: LeasedItem): AttemptOutcome {
  return outcome!
}

/** Returns the outcome of a handler that succeeded, but whose transaction was not committed. */
function notCommitted({ outboxId, leaseToken, latencyMs }: AttemptOutcome, error: unknown): AttemptOutcome {
  const errorMessage = error instanceof Error ? error.message : String(error)
  const timing = latencyMs === undefined ? {} : { latencyMs }
  return { outboxId, leaseToken, state: 'RETRYABLE', errorCode: 'HANDLER_FAILED', errorMessage, ...timing }
}

function isSuccess(leased: LeasedItem): boolean {
  return outcomeOf(leased).state === 'DISPATCHED'
}

/** Returns true for a retry, which gets a new due time, and for an ordered item, which may unblock its successor. */
function mayMakeDue(leased: LeasedItem): boolean {
  return leased.item.ordered || outcomeOf(leased).state === 'RETRYABLE'
}

/**
 * Returns true for `retry` and `unknown` errors. A completion may be repeated after them, because the lease token makes
 * it idempotent.
 */
function isTransient(error: unknown): boolean {
  return error instanceof DatabaseError && error.disposition !== 'fatal' && !isLeaseLostError(error)
}

function isLockTimeout(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === 'LOCK_NOT_AVAILABLE'
}

function backoffMs(failures: number): number {
  return Math.min(50 * 2 ** failures, 1_000)
}

const GROUP_SIZE = 500
const PARALLEL = 2
/** Maximum number of outcomes that are written alone at once. Each may wait for a lock and hold a connection. */
const ALONE_PARALLEL = 4
/** Maximum number of late outcomes that are saved at once. */
const LATE_PARALLEL = 2
const LOCKED_RETRY_MS = 500
/**
 * Minimum number of waiting outcomes for a separate group of successes. With fewer, a second statement costs more than
 * the fast path saves.
 */
const FAST_PATH_GROUP_MIN = 50

/**
 * Reason in the event `outbox.held` for a hold that the database placed. A verdict does not contain the real reason;
 * the pending row and the ledger event do.
 */
const DECIDED_BY_DATABASE = 'decided by the database'

const TERMINAL_GUARD = 'payment_outbox_attempts_one_terminal_per_outbox'
