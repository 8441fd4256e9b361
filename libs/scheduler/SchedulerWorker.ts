import { systemClock, type Clock } from '../core/index.js'
import type { Database, Listener, RoleHandle } from '../db/index.js'
import { guardListener, PollLoop, Wakeup, type PollResult, type Worker } from '../worker/index.js'
import { createJobRunsFromDueJobs } from './createJobRunsFromDueJobs.js'
import { enqueueDueJobRuns, enqueueDueTimers, nextSchedulerEvent } from './db.js'
import type { OnSchedulerEvent } from './events.js'
import { resolveSchedulerOptions, type ResolvedSchedulerOptions, type SchedulerOptions } from './options.js'
import type { EnqueuedWork } from './types.js'

export interface SchedulerCounts {
  readonly runsCreated: number
  readonly runsEnqueued: number
  readonly timersEnqueued: number
  /** Refused by the outbox. */
  readonly refused: number
  /** Surely not all that is due: another round is wanted at once. */
  readonly more: boolean
}

const EXECUTOR = 'symphony_executor'
const CHANNEL = 'scheduler_changed'

/**
 * Makes the runs of due jobs, and of due runs and timers messages of the outbox; sleeps exactly until the next of them. Start as
 * many as there are machines: they need not know of each other.
 *
 * It promises one run per occurrence and one message per run or timer, whatever is killed when. It does not promise to be on
 * time: what is due while no scheduler runs is done by the next one, as the job's policy says. It does not do the work: that is
 * for whoever carries the message, or claims what waits for a claim.
 */
export class SchedulerWorker implements Worker<SchedulerCounts> {
  readonly #database: Database
  readonly #role: RoleHandle
  readonly #options: ResolvedSchedulerOptions
  readonly #onEvent: OnSchedulerEvent
  readonly #wakeup: Wakeup
  readonly #loop: PollLoop
  #listener: Listener | undefined

  constructor(
    database: Database,
    options: SchedulerOptions = {},
    onEvent: OnSchedulerEvent = () => {},
    clock: Clock = systemClock,
  ) {
    this.#options = resolveSchedulerOptions(options)
    this.#database = database
    this.#role = database.as(EXECUTOR)
    this.#onEvent = guardListener(onEvent)
    this.#wakeup = new Wakeup(DEBOUNCE_MS, clock)
    this.#loop = new PollLoop({
      poll: () => this.#poll(),
      pollMs: this.#options.pollMs,
      wakeup: this.#wakeup,
      onError: (error) => this.#onEvent({ type: 'scheduler.fault', during: 'scheduling', error }),
    })
  }

  async start(): Promise<void> {
    if (this.#options.listen) await this.#listen()
    this.#loop.start()
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
    await this.#listener?.close()
    this.#listener = undefined
  }

  /** A batch of each: jobs, runs, timers. However much is due, a round is short, and a stop waits for no more than one. */
  async runOnce(): Promise<SchedulerCounts> {
    const { batchSize, missedAfterMs } = this.#options
    const { jobsDue, jobsLeft, runs } = await createJobRunsFromDueJobs(this.#role, {
      batchSize,
      missedAfterMs,
      runsMax: ROUND_RUNS_MAX,
      onEvent: this.#onEvent,
    })
    const enqueuedRuns = await enqueueDueJobRuns(this.#role, batchSize)
    const enqueuedTimers = await enqueueDueTimers(this.#role, batchSize)
    // Jobs whose runs another scheduler made do not count: they would be asked for again until it has committed.
    const moreJobs = runs.length > 0 && (jobsLeft > 0 || jobsDue === batchSize)
    return {
      runsCreated: runs.length,
      runsEnqueued: this.#tell('run', enqueuedRuns),
      timersEnqueued: this.#tell('timer', enqueuedTimers),
      refused: [...enqueuedRuns, ...enqueuedTimers].filter(({ outboxId }) => outboxId === null).length,
      more: moreJobs || enqueuedRuns.length === batchSize || enqueuedTimers.length === batchSize,
    }
  }

  async #poll(): Promise<PollResult> {
    if ((await this.runOnce()).more) return { pollAgain: true }
    const { at, observedAt } = await nextSchedulerEvent(this.#role, true)
    if (at === null) return { pollAgain: false }
    const dueInMs = at.getTime() - observedAt.getTime()
    // Due, and yet not found: another scheduler is about to commit it.
    return { pollAgain: false, exact: true, idleMs: dueInMs > 0 ? dueInMs : IN_OTHER_HANDS_MS }
  }

  /** Returns how many are messages now. */
  #tell(kind: 'timer' | 'run', work: readonly EnqueuedWork[]): number {
    let items = 0
    for (const one of work) {
      if (one.outboxId === null) this.#onEvent({ type: 'scheduler.refused', kind, id: one.id, error: one.error })
      else items += 1
    }
    if (items > 0) this.#onEvent({ type: 'scheduler.enqueued', kind, items })
    return items
  }

  async #listen(): Promise<void> {
    this.#listener ??= await this.#database.listenAsRole(
      EXECUTOR,
      CHANNEL,
      () => {
        this.#onEvent({ type: 'scheduler.notified' })
        this.#wakeup.notify()
      },
      {
        onStateChange: ({ state }) => {
          this.#onEvent({ type: 'scheduler.listening', connected: state === 'listening' })
          // Whatever was said while nobody listened is found by looking.
          if (state === 'listening') this.#wakeup.notify()
        },
      },
    )
  }
}

/** After so many runs of missed occurrences, those of the other jobs are for the next round. */
const ROUND_RUNS_MAX = 1_000
/** Notifications within this time count as one. */
const DEBOUNCE_MS = 30
const IN_OTHER_HANDS_MS = 50
