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
import { Turns } from './Turns.js'

/** Something that works on one database, one round at a time. */
export interface FleetWorker {
  /** For events: `relayer`, `repair` … */
  readonly name: string
  /** How often it is due when it has nothing to do. @default the platform's pollMs */
  readonly everyMs?: number
  /** Runs one round. Sets `pollAgain` if more work is certain. */
  readonly run: () => Promise<{ readonly pollAgain: boolean }>
  readonly stop: () => Promise<void>
}

/** Makes the workers of one database. */
export type Serve = (member: Member) => readonly FleetWorker[]

/** How long a database that failed is left alone at first; this doubles, at most sixteenfold. */
const DOWN_MS = 500
/** Who was down and does not answer for so long is waited for outside the turns. */
const ANSWER_MS = 1_000
/** Who drains keeps its turn for this many rounds at the most, so that the others come at all. */
const ROUNDS_MAX = 100

/** What this process serves, over all its fleets: one database, one dispatcher. */
const servedHere = new Set<string>()

/**
 * One set of workers over every database of a platform, within one budget of connections. Each worker of each database has a
 * loop of its own; a turn is what it needs to work. A database that fails is left alone by a breaker and asked again, one such
 * database at a time. It does not promise an order between databases.
 */
export class Fleet {
  readonly #databases: DatabaseSet
  readonly #serve: Serve
  readonly #options: ResolvedPlatformOptions
  readonly #onEvent: OnPlatformEvent
  readonly #clock: Clock
  readonly #turns: Turns
  readonly #probes = new Turns(1)
  readonly #crews = new Map<Member, Crew>()
  /** Those whose database somebody else of this process serves, each with what asks again. */
  readonly #waiting = new Map<Member, { readonly loop: PollLoop; readonly wakeup: Wakeup }>()
  readonly #down = new Set<Member>()
  #unfollow: (() => Promise<void>) | undefined

  constructor(
    databases: DatabaseSet,
    serve: Serve,
    options: ResolvedPlatformOptions,
    onEvent: OnPlatformEvent = () => {},
    clock: Clock = systemClock,
  ) {
    this.#databases = databases
    this.#serve = serve
    this.#options = options
    this.#onEvent = onEvent
    this.#clock = clock
    const { connectionsMax, connectionsPerDatabase } = options
    this.#turns = new Turns(Math.floor(connectionsMax / connectionsPerDatabase), (identity) => this.#left(identity))
  }

  async start(): Promise<void> {
    this.#unfollow ??= await this.#databases.follow({
      added: async (member) => this.#enlist(member),
      removed: async (member) => this.#dismiss(member),
    })
  }

  /** Waits for the rounds in hand. */
  async stop(): Promise<void> {
    await this.#unfollow?.()
    this.#unfollow = undefined
  }

  /** The databases that are served now, and whether they answer. */
  get served(): readonly { readonly database: string; readonly up: boolean }[] {
    return [...this.#crews].map(([{ name }, { breaker }]) => ({ database: name, up: breaker.state === 'closed' }))
  }

  #enlist(member: Member): void {
    if (!servedHere.has(member.identity)) return this.#putToWork(member)
    // Without a word if it is this fleet that is about to let go of it: the same database, reached in another way now.
    const isOurs = [...this.#crews.keys()].some(({ identity }) => identity === member.identity)
    if (!isOurs) this.#onEvent({ type: 'servedElsewhere', database: member.name })
    this.#waitFor(member)
  }

  /** Until whoever serves the database has let go of it; asked with the poll, because another fleet does not tell. */
  #waitFor(member: Member): void {
    const wakeup = new Wakeup(0, this.#clock)
    const loop: PollLoop = new PollLoop({
      poll: async () => {
        if (!servedHere.has(member.identity)) {
          this.#putToWork(member)
          this.#waiting.delete(member)
          // Not awaited: it waits for this very turn.
          void loop.stop()
        }
        return { pollAgain: false }
      },
      pollMs: this.#options.pollMs,
      wakeup,
      onError: (error) => this.#onEvent({ type: 'fault', database: member.name, worker: 'serve', error }),
    })
    this.#waiting.set(member, { loop, wakeup })
    loop.start()
  }

  #putToWork(member: Member): void {
    const workers = this.#serve(member)
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
          onError: (error) => this.#onEvent({ type: 'fault', database: member.name, worker: worker.name, error }),
        }),
    )
    this.#crews.set(member, { breaker, workers, loops })
    for (const loop of loops) loop.start()
  }

  async #dismiss(member: Member): Promise<void> {
    await this.#waiting.get(member)?.loop.stop()
    this.#waiting.delete(member)
    const crew = this.#crews.get(member)
    if (crew === undefined) return
    // Side by side: a round that waits for a database which is gone ends when its worker is told to stop.
    await Promise.all([...crew.loops, ...crew.workers].map((one) => one.stop()))
    member.database.closeIdle()
    this.#crews.delete(member)
    this.#down.delete(member)
    servedHere.delete(member.identity)
    for (const { wakeup } of this.#waiting.values()) wakeup.notify()
  }

  async #poll(member: Member, worker: FleetWorker, breaker: CircuitBreaker, signal: AbortSignal): Promise<PollResult> {
    if (breaker.state !== 'closed' && !(await this.#isBack(member, breaker, signal))) {
      // While another worker of this database asks, nothing says how long that takes.
      return { pollAgain: false, idleMs: breaker.state === 'open' ? breaker.openForMs : undefined }
    }
    const end = await this.#turns.take(member.identity, signal)
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
   * Asks a database that was down. That takes a connection, and so a turn, like any work; but they are asked one at a time, and
   * who is slow to answer is waited for outside the turns: however many are dead, they keep one turn from the others, briefly.
   */
  async #isBack({ identity, database }: Member, breaker: CircuitBreaker, signal: AbortSignal): Promise<boolean> {
    if (breaker.admits(1) === 0) return false
    breaker.started()
    const endProbe = await this.#probes.take(identity, signal)
    const end = endProbe === undefined ? undefined : await this.#turns.take(identity, signal)
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
      // A late answer came by a connection that nobody has a turn for.
      this.#left(identity)
    }
  }

  /** With more databases than connections, each gives its own back after its turn. */
  #left(identity: string): void {
    const { connectionsMax, connectionsPerDatabase } = this.#options
    if (this.#crews.size * connectionsPerDatabase <= connectionsMax) return
    for (const member of this.#crews.keys()) if (member.identity === identity) member.database.closeIdle()
  }

  /** Said once each time: that it was asked again and is still down is no news. */
  #changed(member: Member, state: BreakerState): void {
    const { name: database } = member
    if (state === 'open' && !this.#down.has(member)) {
      this.#down.add(member)
      this.#onEvent({ type: 'databaseDown', database })
    }
    if (state === 'closed' && this.#down.delete(member)) this.#onEvent({ type: 'databaseUp', database })
  }
}

interface Crew {
  readonly breaker: CircuitBreaker
  readonly workers: readonly FleetWorker[]
  readonly loops: readonly PollLoop[]
}

const EXECUTOR = 'symphony_executor'

/**
 * Any worker of the house, for a fleet: relayer, repair, inbox, scheduler. `isBusy` says by its counts whether there may be
 * more to do at once.
 */
export function fleetWorker<Counts>(
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
