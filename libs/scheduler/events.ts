import type { MissedRuns } from './types.js'

/** Events of a scheduler. Each type reports one kind of fact. Events contain no payload. */
export type SchedulerEvent =
  /** This scheduler created runs of due jobs. Another scheduler may have created further runs. */
  | {
      readonly type: 'scheduler.runsCreated'
      readonly jobs: number
      readonly runs: number
      /** Lag of each run behind its occurrence, by the database's clock. */
      readonly lagsMs: readonly number[]
    }
  /** No scheduler ran when the job was due, so its `missedRuns` policy was applied. */
  | {
      readonly type: 'scheduler.missed'
      readonly jobName: string
      readonly since: Date
      readonly policy: MissedRuns
      readonly runs: number
    }
  /** This process cannot parse the job's expression or time zone; it tries again in a minute. Correct the job. */
  | { readonly type: 'scheduler.invalidSchedule'; readonly jobName: string; readonly error: unknown }
  /** Due timers or runs became messages of the outbox. */
  | { readonly type: 'scheduler.enqueued'; readonly kind: 'timer' | 'run'; readonly items: number }
  /** The outbox refused a timer or run, which is now FAILED. */
  | { readonly type: 'scheduler.refused'; readonly kind: 'timer' | 'run'; readonly id: string; readonly error: string }
  /** A notification arrived: a timer, run or job is due within a minute. */
  | { readonly type: 'scheduler.notified' }
  /** The LISTEN connection opened or closed. Polling continues in both cases. */
  | { readonly type: 'scheduler.listening'; readonly connected: boolean }
  /** A round failed. The next round processes the same timers, runs and jobs. */
  | { readonly type: 'scheduler.fault'; readonly during: string; readonly error: unknown }

export type OnSchedulerEvent = (event: SchedulerEvent) => void
