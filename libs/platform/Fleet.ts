import { systemClock, type Clock } from '../core/index.js'
import { nextOutboxEvent } from '../outbox/index.js'
import {
  CircuitBreaker,
  PollLoop,
  settleWithin,
  Wakeup,
  type BreakerState,
  type PollResult,
  type Worker,
} from '../worker/index.js'
import type { DatabaseSet, Member } from './DatabaseSet.js'
import type { OnPlatformEvent } from './events.js'
import type { ResolvedPlatformOptions } from './options.js'
import { FairSlots } from './FairSlots.js'

/** Worker of one database, which runs one round at a time. */
export interface FleetWorker {
  /** Name in events: `relayer`, `repair` … */
  readonly name: string
  /** Interval between rounds without work. @default the platform's pollMs */
  readonly everyMs?: number
  /** Runs one round. Returns `pollAgain: true` if more work is certain. */
  readonly run: () => Promise<{ readonly pollAgain: boolean }>
  readonly stop: () => Promise<void>
}

export type WorkerFactory = (member: Member) => readonly FleetWorker[]

/** Time from a failure of a database to its first probe. Each failed probe doubles it, at most to 16 × this time. */
const DOWN_MS = 500
/** Maximum time that a probe of a failed database keeps its slot. After that the probe waits without a slot. */
const ANSWER_MS = 1_000
/**
 * Maximum number of rounds that a worker runs in one slot under `drain-first`, so that other databases get slots too.
 */
const ROUNDS_MAX = 100

/** Identities of the databases that fleets of this process serve. Only one fleet serves a database. */
const servedHere = new Set<string>()

/**
 * Runs workers for every database of a platform within one budget of connections. Each worker of each database has its
 * own loop and needs a slot for a round. A circuit breaker stops the workers of a failed database; failed databases are
 * probed one at a time. There is no order between databases.
 */
export class Fleet {
  readonly #databases: DatabaseSet
  readonly #createWorkers: WorkerFactory
  readonly #options: ResolvedPlatformOptions
  readonly #onEvent: OnPlatformEvent
  readonly #clock: Clock
  readonly #slots: FairSlots
  readonly #probes = new FairSlots(1)
  readonly #workers = new Map<Member, DatabaseWorkers>()
  /**
   * Members whose database another fleet of this process serves, each with a loop that checks whether the other fleet
   * has stopped.
   */
  readonly #waiting = new Map<Member, { readonly loop: PollLoop; readonly wakeup: Wakeup }>()
  readonly #down = new Set<Member>()
  #unfollow: (() => Promise<void>) | undefined

  constructor(
    databases: DatabaseSet,
    createWorkers: WorkerFactory,
    options: ResolvedPlatformOptions,
    onEvent: OnPlatformEvent = () => {},
    clock: Clock = systemClock,
  ) {
    this.#databases = databases
    this.#createWorkers = createWorkers
    this.#options = options
    this.#onEvent = onEvent
    this.#clock = clock
    const { connectionsMax, connectionsPerDatabase } = options
    this.#slots = new FairSlots(Math.floor(connectionsMax / connectionsPerDatabase), (identity) => this.#left(identity))
  }

  async start(): Promise<void> {
    this.#unfollow ??= await this.#databases.follow({
      added: async (member) => this.#startWorkers(member),
      removed: async (member) => this.#stopWorkers(member),
    })
  }

  /** Stops all workers. Waits for running rounds. */
  async stop(): Promise<void> {
    await this.#unfollow?.()
    this.#unfollow = undefined
  }

  /** Databases that are served now, and whether they answer. */
  get served(): readonly { readonly database: string; readonly up: boolean }[] {
    return [...this.#workers].map(([{ name }, { breaker }]) => ({ database: name, up: breaker.state === 'closed' }))
  }

  #startWorkers(member: Member): void {
    if (!servedHere.has(member.identity)) return this.#runWorkers(member)
    // Emits no event if this fleet itself serves the database under an earlier URL, because it is about to stop those
    // workers.
    const isOurs = [...this.#workers.keys()].some(({ identity }) => identity === member.identity)
    if (!isOurs) this.#onEvent({ type: 'platform.alreadyServed', database: member.name })
    this.#waitFor(member)
  }

  /** Starts the workers after the other fleet has stopped. Polls, because the other fleet does not report its stop. */
  #waitFor(member: Member): void {
    const wakeup = new Wakeup(0, this.#clock)
    const loop: PollLoop = new PollLoop({
      poll: async () => {
        if (!servedHere.has(member.identity)) {
          this.#runWorkers(member)
          this.#waiting.delete(member)
          // Not awaited, because stop() waits for this poll.
          void loop.stop()
        }
        return { pollAgain: false }
      },
      pollMs: this.#options.pollMs,
      wakeup,
      onError: (error) => this.#onEvent({ type: 'platform.fault', database: member.name, worker: 'serve', error }),
    })
    this.#waiting.set(member, { loop, wakeup })
    loop.start()
  }

  #runWorkers(member: Member): void {
    const workers = this.#createWorkers(member)
    servedHere.add(member.identity)
    const breaker = new CircuitBreaker({
      failuresMax: 1,
      openMs: DOWN_MS,
      clock: this.#clock,
      onChange: (state) => this.#changed(member, state),
    })
    const loops = workers.map(
      (worker) =>
        new PollLoop({
          poll: (signal) => this.#poll(member, worker, breaker, signal),
          pollMs: worker.everyMs ?? this.#options.pollMs,
          wakeup: new Wakeup(0, this.#clock),
          onError: (error) =>
            this.#onEvent({ type: 'platform.fault', database: member.name, worker: worker.name, error }),
        }),
    )
    this.#workers.set(member, { breaker, workers, loops })
    for (const loop of loops) loop.start()
  }

  async #stopWorkers(member: Member): Promise<void> {
    await this.#waiting.get(member)?.loop.stop()
    this.#waiting.delete(member)
    const served = this.#workers.get(member)
    if (served === undefined) return
    // Stops loops and workers in parallel. A loop waits for its round, and a round that waits for a lost database ends
    // only when its worker stops.
    await Promise.all([...served.loops, ...served.workers].map((one) => one.stop()))
    member.database.closeIdle()
    this.#workers.delete(member)
    this.#down.delete(member)
    servedHere.delete(member.identity)
    for (const { wakeup } of this.#waiting.values()) wakeup.notify()
  }

  async #poll(member: Member, worker: FleetWorker, breaker: CircuitBreaker, signal: AbortSignal): Promise<PollResult> {
    if (breaker.state !== 'closed' && !(await this.#isBack(member, breaker, signal))) {
      // While another worker probes this database, the time of the next probe is unknown.
      return { pollAgain: false, idleMs: breaker.state === 'open' ? breaker.openForMs : undefined }
    }
    const end = await this.#slots.acquire(member.identity, signal)
    if (end === undefined) return { pollAgain: false }
    try {
      const roundsMax = this.#options.selection === 'drain-first' ? ROUNDS_MAX : 1
      let pollAgain = true
      for (let round = 0; pollAgain && round < roundsMax && !signal.aborted; round++) {
        pollAgain = (await worker.run()).pollAgain
      }
      breaker.succeeded()
      return { pollAgain }
    } catch (error) {
      breaker.failed()
      throw error
    } finally {
      end()
    }
  }

  /**
   * Probes a failed database. The probe holds a slot, because it needs a connection. Databases are probed one at a
   * time, and a slow answer is awaited without a slot, so all failed databases together occupy at most one slot.
   */
  async #isBack({ identity, database }: Member, breaker: CircuitBreaker, signal: AbortSignal): Promise<boolean> {
    if (breaker.admits(1) === 0) return false
    breaker.started()
    const endProbe = await this.#probes.acquire(identity, signal)
    const end = endProbe === undefined ? undefined : await this.#slots.acquire(identity, signal)
    if (end === undefined) {
      endProbe?.()
      breaker.abandoned()
      return false
    }
    const answered = nextOutboxEvent(database.as(EXECUTOR))
    await settleWithin(answered, ANSWER_MS)
    end()
    endProbe?.()
    try {
      await answered
      breaker.succeeded()
      return true
    } catch {
      breaker.failed()
      return false
    } finally {
      // The answer may have arrived after the slot was released. Its connection must not stay open without a slot.
      this.#left(identity)
    }
  }

  /** Closes the connections of a database that left its slot, if all databases together may exceed `connectionsMax`. */
  #left(identity: string): void {
    const { connectionsMax, connectionsPerDatabase } = this.#options
    if (this.#workers.size * connectionsPerDatabase <= connectionsMax) return
    for (const member of this.#workers.keys()) if (member.identity === identity) member.database.closeIdle()
  }

  /** Sends one event per change. A probe that fails again is no change. */
  #changed(member: Member, state: BreakerState): void {
    const { name: database } = member
    if (state === 'open' && !this.#down.has(member)) {
      this.#down.add(member)
      this.#onEvent({ type: 'platform.databaseDown', database })
    }
    if (state === 'closed' && this.#down.delete(member)) this.#onEvent({ type: 'platform.databaseUp', database })
  }
}

interface DatabaseWorkers {
  readonly breaker: CircuitBreaker
  readonly workers: readonly FleetWorker[]
  readonly loops: readonly PollLoop[]
}

const EXECUTOR = 'symphony_executor'

/**
 * Adapts a worker (relayer, repair, inbox, scheduler) for a fleet. `isBusy` returns, from the counts of a round,
 * whether to poll again.
 */
export function toFleetWorker<Counts>(
  name: string,
  worker: Pick<Worker<Counts>, 'runOnce' | 'stop'>,
  isBusy: (counts: Counts) => boolean,
  everyMs?: number,
): FleetWorker {
  return {
    name,
    ...(everyMs === undefined ? {} : { everyMs }),
    run: async () => ({ pollAgain: isBusy(await worker.runOnce()) }),
    stop: () => worker.stop(),
  }
}
