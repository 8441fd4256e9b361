import type { Clock, JsonObject } from '../core/index.js'
import { DatabaseError, type Queryable } from '../db/index.js'
import type { LoadedRail } from '../rails/index.js'
import { PollLoop, settleWithin, Wakeup, type Emitter, type PollResult } from '../worker/index.js'
import type { RelayerEvent } from './events.js'
import { declareOutboxRails, deregisterOutboxWorker, heartbeatOutboxWorker } from './operate.js'

interface WorkerHeartbeatOptions {
  readonly role: Queryable
  readonly workerId: string
  readonly heartbeatMs: number
  readonly rails: readonly LoadedRail[]
  readonly clock: Clock
  readonly events: Emitter<RelayerEvent>
  readonly readLoad: () => JsonObject
  /**
   * Called after each heartbeat, with the database's time in the answer and the process's time just before the request.
   */
  readonly onBeat: (databaseNow: Date, sentAtMs: number) => Promise<void>
}

/**
 * Reports this worker to the database: load, last unknown code, last clock jump, and rails. A change of a circuit
 * breaker is reported at once. A worker deregisters when it stops, so that it does not count as dead.
 */
export class WorkerHeartbeat {
  readonly #options: WorkerHeartbeatOptions
  readonly #loop: PollLoop
  readonly #wakeup: Wakeup
  /** Whether a heartbeat was recorded since the start. */
  #isRegistered = false
  /** Last heartbeat that `beat` sent. */
  #beating: Promise<unknown> | undefined
  #railsDeclaredAtMs = -Infinity
  #unknownCode: { readonly atMs: number; readonly railType: string; readonly code: string } | undefined
  #clockJump: { readonly atMs: number; readonly byMs: number } | undefined

  constructor(options: WorkerHeartbeatOptions) {
    this.#options = options
    this.#wakeup = new Wakeup(BREAKER_DEBOUNCE_MS, options.clock)
    this.#loop = new PollLoop({
      poll: () => this.#beat(),
      pollMs: options.heartbeatMs,
      wakeup: this.#wakeup,
      onError: (error) => this.#reportFault(error),
    })
    options.events.on((event) => this.#record(event))
  }

  start(): void {
    this.#loop.start()
  }

  async stop(): Promise<void> {
    // A heartbeat on a dead connection ends only at its timeout.
    await settleWithin(Promise.all([this.#loop.stop(), this.#beating]), DEREGISTER_MS)
    if (this.#isRegistered) await settleWithin(this.#deregister(), DEREGISTER_MS)
    this.#isRegistered = false
  }

  /**
   * Sends one heartbeat, without `start`. Throws if the database does not answer, so that a fleet counts it as down. Only
   * reports other failures, because dispatch must not depend on them.
   */
  async beat(): Promise<void> {
    this.#beating = this.#beat()
    try {
      await this.#beating
    } catch (error) {
      if (error instanceof DatabaseError && error.disposition !== 'fatal') throw error
      this.#reportFault(error)
    }
  }

  /** Declares the rails that this worker serves, unless it has declared them within the last hour. */
  async declareRails(): Promise<void> {
    const { role, workerId, rails, clock } = this.#options
    const nowMs = clock.monotonicMs()
    if (nowMs - this.#railsDeclaredAtMs < RAILS_DECLARED_EVERY_MS) return
    await declareOutboxRails(role, rails, workerId, { serving: true })
    this.#railsDeclaredAtMs = nowMs
  }

  /**
   * Declares the rails before `start()` returns, so that an API that starts next does not warn of them. The heartbeat
   * repeats a failed declaration.
   */
  async declareRailsAtStart(): Promise<void> {
    try {
      await this.declareRails()
    } catch (error) {
      this.#reportFault(error)
    }
  }

  async #beat(): Promise<PollResult> {
    const { role, workerId, clock, onBeat } = this.#options
    const sentAtMs = clock.monotonicMs()
    const databaseNow = await heartbeatOutboxWorker(role, workerId, this.#report())
    this.#isRegistered = true
    await onBeat(databaseNow, sentAtMs)
    await this.declareRails()
    return { pollAgain: false }
  }

  /** Deregisters on a best-effort basis. A worker that cannot deregister is shown as dead since its last heartbeat. */
  async #deregister(): Promise<void> {
    const { role, workerId, events } = this.#options
    try {
      await deregisterOutboxWorker(role, workerId, this.#report())
    } catch (error) {
      events.emit({ type: 'outbox.fault', during: 'deregistering this worker', error })
    }
  }

  #record(event: RelayerEvent): void {
    const { clock } = this.#options
    if (event.type === 'outbox.breaker') {
      this.#wakeup.notify()
    } else if (event.type === 'outbox.unknownCode') {
      const { railType, code } = event
      this.#unknownCode = { atMs: clock.monotonicMs(), railType, code }
    } else if (event.type === 'outbox.clockJumped') {
      this.#clockJump = { atMs: clock.monotonicMs(), byMs: event.byMs }
    }
  }

  /** Returns the report. It holds ages instead of times, because the process's clock may differ from the database's. */
  #report(): JsonObject {
    const { clock, readLoad } = this.#options
    const secondsAgo = (atMs: number) => Math.round(clock.monotonicMs() - atMs) / 1_000
    const [code, jump] = [this.#unknownCode, this.#clockJump]
    return {
      ...readLoad(),
      ...(code === undefined
        ? {}
        : { unknownCode: { secondsAgo: secondsAgo(code.atMs), railType: code.railType, code: code.code } }),
      ...(jump === undefined ? {} : { clockJump: { secondsAgo: secondsAgo(jump.atMs), byMs: jump.byMs } }),
    }
  }

  #reportFault(error: unknown): void {
    this.#options.events.emit({ type: 'outbox.fault', during: 'sending heartbeat', error })
  }
}

/**
 * Breaker changes within this time share a heartbeat, so that breakers that flap cause at most ten heartbeats per
 * second.
 */
const BREAKER_DEBOUNCE_MS = 100
const RAILS_DECLARED_EVERY_MS = 3_600_000
const DEREGISTER_MS = 2_000
