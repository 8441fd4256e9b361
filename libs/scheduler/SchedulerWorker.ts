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
  /** Number of timers and runs that the outbox refused. */
  readonly refused: number
  /** Whether more timers, runs or jobs are probably due, so that the next round starts at once. */
  readonly more: boolean
}

const EXECUTOR = 'symphony_executor'
const CHANNEL = 'scheduler_changed'

/**
 * Creates the runs of due jobs, turns due runs and timers into outbox messages, and sleeps until the next due time. Any
 * number of schedulers may run without coordination.
 *
 * The scheduler guarantees one run per occurrence and one message per run or timer, even if processes are killed. It
 * does not guarantee punctuality: if no scheduler ran at the due time, the next one applies the job's `missedRuns`
 * policy. The work itself is done by the handler of the message, or by the worker that claims the timer or run.
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

  /**
   * Processes one batch each of jobs, runs and timers. Batches keep a round short, because `stop()` waits for the
   * current round.
   */
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
    // If no run was created, another scheduler may be creating the runs of these jobs. The jobs look due until that
    // scheduler commits, so they do not count as more work.
    const moreJobs = runs.length > 0 && (jobsLeft > 0 || jobsDue === batchSize)
    return {
      runsCreated: runs.length,
      runsEnqueued: this.#emitEnqueued('run', enqueuedRuns),
      timersEnqueued: this.#emitEnqueued('timer', enqueuedTimers),
      refused: [...enqueuedRuns, ...enqueuedTimers].filter(({ outboxId }) => outboxId === null).length,
      more: moreJobs || enqueuedRuns.length === batchSize || enqueuedTimers.length === batchSize,
    }
  }

  async #poll(): Promise<PollResult> {
    if ((await this.runOnce()).more) return { pollAgain: true }
    const { at, observedAt } = await nextSchedulerEvent(this.#role, true)
    if (at === null) return { pollAgain: false }
    const dueInMs = at.getTime() - observedAt.getTime()
    // If work is due and this round did not find it, another scheduler is probably processing it and has not committed
    // yet, or another transaction has locked its participant. The loop then polls again soon.
    return { pollAgain: false, exact: true, idleMs: dueInMs > 0 ? dueInMs : UNCOMMITTED_RETRY_MS }
  }

  /** Emits the events of enqueued and refused work. Returns the number of new messages. */
  #emitEnqueued(kind: 'timer' | 'run', work: readonly EnqueuedWork[]): number {
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
          // Notifications may have been missed while the connection was down.
          if (state === 'listening') this.#wakeup.notify()
        },
      },
    )
  }
}

/** Number of runs created in a round after which further due jobs wait for the next round. */
const ROUND_RUNS_MAX = 1_000
const DEBOUNCE_MS = 30
const UNCOMMITTED_RETRY_MS = 50
