import type { MissedRuns } from './types.js'

/** What a scheduler says about its work, one event per fact. Nothing listens by default. None carries a payload. */
export type SchedulerEvent =
  /** Jobs were due; those runs are this scheduler's. Another one may have made the others. */
  | {
      readonly type: 'runsCreated'
      readonly jobs: number
      readonly runs: number
      /** Of each run, how long its occurrence had passed, by the database's clock. */
      readonly lagsMs: readonly number[]
    }
  /** Nobody was there when the job was due; its policy was applied. */
  | {
      readonly type: 'missed'
      readonly jobName: string
      readonly since: Date
      readonly policy: MissedRuns
      readonly runs: number
    }
  /** This process cannot read the job's expression or zone; it is tried again in a minute. Somebody should look. */
  | { readonly type: 'unreadable'; readonly jobName: string; readonly error: unknown }
  /** Due items are messages of the outbox now. */
  | { readonly type: 'enqueued'; readonly kind: 'timer' | 'run'; readonly items: number }
  /** The outbox refused one; it has failed. */
  | { readonly type: 'refused'; readonly kind: 'timer' | 'run'; readonly id: string; readonly error: string }
  /** A notification was heard: something comes nearer than was known. */
  | { readonly type: 'notified' }
  /** Notifications can be heard, or no longer; polling goes on in any case. */
  | { readonly type: 'listening'; readonly connected: boolean }
  /** A round failed; the next one will find the same work. */
  | { readonly type: 'fault'; readonly during: string; readonly error: unknown }

export type OnSchedulerEvent = (event: SchedulerEvent) => void
