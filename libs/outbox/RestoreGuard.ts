import type { Clock } from '../core/index.js'
import type { Queryable } from '../db/index.js'
import type { Emitter } from '../worker/index.js'
import { checkDispatchEpoch } from './operate.js'
import type { RelayerEvent } from './events.js'
import type { EpochFile } from './EpochFile.js'
import type { DispatchFreeze, EpochRecord } from './types.js'

interface RestoreGuardOptions {
  readonly role: Queryable
  readonly workerId: string
  readonly events: Emitter<RelayerEvent>
  readonly clock: Clock
  /**
   * Maximum age of the last check. A claim checks again after this time, because a relayer that only calls `runOnce()`
   * has no heartbeat that would repeat the check.
   */
  readonly heartbeatMs: number
  /** File that keeps the record for the next process. Without it, the record ends with the process. */
  readonly epochFile: EpochFile | undefined
  /** Called when a check finds a new freeze. */
  readonly onFrozen: () => Promise<void>
}

/**
 * Compares this worker's record of the database with the database. A server cannot tell a restore to an older state
 * from a restart, so only a record outside the database reveals lost commits. The worker claims nothing from a server
 * epoch that it has not compared.
 */
export class RestoreGuard {
  readonly #options: RestoreGuardOptions
  #record: EpochRecord | undefined
  #freeze: DispatchFreeze | undefined
  /** Time of the last check by the process's clock. Undefined if the next claim must check. */
  #checkedAtMs: number | undefined
  #checking: Promise<void> | undefined

  constructor(options: RestoreGuardOptions) {
    this.#options = options
  }

  /** Argument of every claim. The database refuses the claim if the server epoch has changed since the check. */
  get claimEpoch(): { readonly epochId?: string } {
    return this.#record === undefined ? {} : { epochId: this.#record.epochId }
  }

  /** Returns whether dispatch is open. Checks again if the last check is too old, or if dispatch was frozen then. */
  async canClaim(): Promise<boolean> {
    const { clock, heartbeatMs } = this.#options
    const isFresh = this.#checkedAtMs !== undefined && clock.monotonicMs() - this.#checkedAtMs < heartbeatMs
    if (!isFresh || this.#freeze !== undefined) await this.check()
    return this.#freeze === undefined
  }

  /** Makes the next claim check first, because the database refused a claim or a dispatch. */
  invalidate(): void {
    this.#checkedAtMs = undefined
  }

  /** Runs one check at a time. Otherwise a slow answer could replace a newer record by an older one. */
  async check(): Promise<void> {
    this.#checking ??= this.#compare().finally(() => {
      this.#checking = undefined
    })
    await this.#checking
  }

  async #compare(): Promise<void> {
    const { role, workerId, clock, epochFile } = this.#options
    this.#record ??= await epochFile?.load()
    // A call that freezes dispatch does not mark the waiting items; the second call does. Marking may time out, which
    // must not undo the freeze.
    for (const _ of ['freezing', 'marking']) {
      const { record, freeze, marked } = await checkDispatchEpoch(role, workerId, this.#record)
      this.#record = record
      this.#checkedAtMs = clock.monotonicMs()
      await this.#setFreeze(freeze)
      await this.#save(record)
      if (freeze === undefined || marked) return
    }
  }

  /** Saves the record. A failed save is only reported: the record in memory stays valid, so dispatch continues. */
  async #save(record: EpochRecord): Promise<void> {
    const { epochFile, events } = this.#options
    try {
      await epochFile?.save(record)
    } catch (error) {
      events.emit({ type: 'outbox.fault', during: 'saving epoch', error })
    }
  }

  async #setFreeze(freeze: DispatchFreeze | undefined): Promise<void> {
    const { events, onFrozen } = this.#options
    const isNew = this.#freeze?.frozenAt.getTime() !== freeze?.frozenAt.getTime()
    this.#freeze = freeze
    if (!isNew) return
    if (freeze === undefined) return events.emit({ type: 'outbox.freezeLifted' })
    const { cause, reason, frozenAt } = freeze
    events.emit({ type: 'outbox.frozen', cause, reason, since: frozenAt })
    await onFrozen()
  }
}
