import type { Clock } from '../core/index.js'
import type { Queryable } from '../db/index.js'
import { checkDispatchEpoch } from './operate.js'
import type { OnRelayerEvent } from './events.js'
import type { DispatchFreeze, EpochKeeper, EpochMemory } from './types.js'

export interface DispatchGuardOptions {
  readonly role: Queryable
  readonly workerId: string
  readonly onEvent: OnRelayerEvent
  readonly clock: Clock
  /** A memory older than this is refreshed before the next claim: rounds without a heartbeat have no other. */
  readonly heartbeatMs: number
  /** Absent: the memory ends with this process. */
  readonly keeper: EpochKeeper | undefined
  /** Dispatch was open, as far as this worker knew, and is not. */
  readonly onFrozen: () => Promise<void>
}

/**
 * What this worker remembers of the database, held against what the database knows. An older copy of a server looks like a
 * restart to itself; only somebody who saw what came after can tell. It promises that no claim is made on a run of a server
 * that was not compared with this memory, which ends with the process unless somebody keeps it.
 */
export class DispatchGuard {
  readonly #options: DispatchGuardOptions
  #memory: EpochMemory | undefined
  #freeze: DispatchFreeze | undefined
  /** When it was last asked, by this process's clock; undefined when it must be asked again. */
  #checkedAtMs: number | undefined
  #checking: Promise<void> | undefined

  constructor(options: DispatchGuardOptions) {
    this.#options = options
  }

  /** Goes with every claim: the database refuses it if the server has changed since. */
  get shown(): { readonly epochId?: string } {
    return this.#memory === undefined ? {} : { epochId: this.#memory.epochId }
  }

  /** Asks where it is not known, or not any more; and while it is frozen: a person may have lifted it. */
  async mayClaim(): Promise<boolean> {
    const { clock, heartbeatMs } = this.#options
    const isFresh = this.#checkedAtMs !== undefined && clock.monotonicMs() - this.#checkedAtMs < heartbeatMs
    if (!isFresh || this.#freeze !== undefined) await this.check()
    return this.#freeze === undefined
  }

  /** The database refused to let anything depart: why, it says when it is asked. */
  refused(): void {
    this.#checkedAtMs = undefined
  }

  /** One at a time: two answers that overtake each other would make an old memory the newer one. */
  async check(): Promise<void> {
    this.#checking ??= this.#look().finally(() => {
      this.#checking = undefined
    })
    await this.#checking
  }

  async #look(): Promise<void> {
    const { role, workerId, clock, keeper } = this.#options
    this.#memory ??= await keeper?.load()
    // The call that freezes does not mark what waits: that may take long, and must not undo the freeze if it takes too long.
    for (const _ of ['freezing', 'marking']) {
      const { memory, freeze, marked } = await checkDispatchEpoch(role, workerId, this.#memory)
      this.#memory = memory
      this.#checkedAtMs = clock.monotonicMs()
      await this.#hear(freeze)
      await this.#keep(memory)
      if (freeze === undefined || marked) return
    }
  }

  /** A disk that is full keeps nobody from working: the memory of this process is what it was. */
  async #keep(memory: EpochMemory): Promise<void> {
    const { keeper, onEvent } = this.#options
    try {
      await keeper?.save(memory)
    } catch (error) {
      onEvent({ type: 'fault', during: 'keeping the memory of the database', error })
    }
  }

  async #hear(freeze: DispatchFreeze | undefined): Promise<void> {
    const { onEvent, onFrozen } = this.#options
    const isNews = this.#freeze?.frozenAt.getTime() !== freeze?.frozenAt.getTime()
    this.#freeze = freeze
    if (!isNews) return
    if (freeze === undefined) return onEvent({ type: 'thawed' })
    const { cause, reason, frozenAt } = freeze
    onEvent({ type: 'frozen', cause, reason, since: frozenAt })
    await onFrozen()
  }
}
