import type { JsonObject } from '../core/index.js'
import type { TopicContracts, TopicWithPayload } from '../rails/index.js'

/**
 * Delivery of a due timer or run. `outbox`: a scheduler turns it into an outbox message, with the topic as rail.
 * `claim`: it waits for `claimTimers` or `claimJobRuns`.
 */
export type Delivery = 'outbox' | 'claim'

/** Policy for occurrences that no scheduler processed in time: run none, the latest, or all up to a limit. */
export type MissedRuns = 'skip' | 'once' | 'all'

export type JobState = 'ACTIVE' | 'PAUSED'

/** States of timers and runs. READY and CLAIMED are pending; the others are terminal. */
export const WORK_STATES = ['READY', 'CLAIMED', 'DONE', 'ENQUEUED', 'FAILED', 'CANCELLED'] as const
export type WorkState = (typeof WORK_STATES)[number]

/** Message of a timer or a job, enqueued when due. */
export type ScheduledMessage<Topics extends TopicContracts = TopicContracts> = TopicWithPayload<Topics> & {
  /** Id of the message's stream. @default a separate stream, so that messages do not wait for each other */
  readonly participantId?: string
  /** Delivery of the due message. @default 'outbox' */
  readonly delivery?: Delivery
}

export type TimerDefinition<Topics extends TopicContracts = TopicContracts> = ScheduledMessage<Topics> & {
  /** Due time. A past time is due at once. */
  readonly dueAt: Date
  /**
   * UUID chosen by the caller, so that a call without an answer can be repeated. A repeated call with this UUID and the
   * same values schedules no second timer; with other values it is refused. @default a new UUID
   */
  readonly timerId?: string
}

export type JobDefinition<Topics extends TopicContracts = TopicContracts> = ScheduledMessage<Topics> & {
  /** Name of the job. A second definition with the same name updates the job. */
  readonly name: string
  /** Five fields, or six with the seconds first, or a macro such as `@daily`. */
  readonly cron: string
  /** IANA name. @default 'UTC' */
  readonly timeZone?: string
  /** Policy for missed occurrences. @default 'once' */
  readonly missedRuns?: MissedRuns
}

export interface DefinedJob {
  readonly nextDueAt: Date
  readonly state: JobState
  /** False if the job existed and was updated. */
  readonly created: boolean
}

export interface JobStatus {
  readonly name: string
  readonly cron: string
  readonly timeZone: string
  readonly topic: string
  readonly participantId: string | null
  readonly delivery: Delivery
  readonly missedRuns: MissedRuns
  readonly state: JobState
  readonly nextDueAt: Date
  /** Time before which no scheduler tries the job again, because its schedule could not be parsed. */
  readonly postponedUntil: Date | null
  /** Revision of the job, which grows with every change. */
  readonly revision: bigint
  /** Error of the last failed parse of the schedule. */
  readonly scheduleError: string | null
}

export interface DueJob {
  readonly name: string
  readonly cron: string
  readonly timeZone: string
  readonly missedRuns: MissedRuns
  readonly nextDueAt: Date
  readonly revision: bigint
  /** Database time of the read. */
  readonly observedAt: Date
}

/** Claim on a timer: its id and its lease token. */
export interface TimerClaim {
  readonly timerId: string
  readonly leaseToken: string
}

export interface JobRunClaim {
  readonly runId: string
  readonly leaseToken: string
}

interface ClaimedWork {
  readonly topic: string
  readonly participantId: string | null
  readonly payload: JsonObject
  /** Number of claims, including this one. */
  readonly attemptCount: number
  readonly leaseToken: string
  readonly leaseExpiresAt: Date
}

export interface ClaimedTimer extends ClaimedWork {
  readonly timerId: string
  readonly dueAt: Date
}

export interface ClaimedJobRun extends ClaimedWork {
  readonly runId: string
  readonly jobName: string
  readonly scheduledFor: Date
}

export type ScheduledClaim = ClaimedTimer | ClaimedJobRun

/** Result of enqueueing a due timer or run: its outbox item, or the outbox's refusal. */
export type EnqueuedWork =
  | { readonly id: string; readonly topic: string; readonly outboxId: string }
  | { readonly id: string; readonly topic: string; readonly outboxId: null; readonly error: string }

export interface CreatedJobRun {
  readonly runId: string
  readonly jobName: string
  readonly scheduledFor: Date
}

export interface TimerStatus {
  readonly timerId: string
  readonly topic: string
  readonly delivery: Delivery
  readonly dueAt: Date
  readonly state: WorkState
  readonly attemptCount: number
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
  readonly error: string | null
  readonly outboxId: string | null
}

export interface JobRunStatus {
  readonly runId: string
  readonly jobName: string
  readonly scheduledFor: Date
  /** Operator who triggered the run; null if the schedule did. */
  readonly triggeredBy: string | null
  readonly topic: string
  readonly delivery: Delivery
  readonly state: WorkState
  readonly attemptCount: number
  readonly startedAt: Date | null
  /** End of the run; for a run in the outbox, the end of its message. */
  readonly finishedAt: Date | null
  readonly error: string | null
  readonly outboxId: string | null
  /** State of the message's latest attempt in the outbox; PENDING before the first; null if the run has no message. */
  readonly outboxState: string | null
}

/** Counts and lag of the scheduler: the row of the view `supervisor_scheduler_status`. */
export interface SchedulerStats {
  readonly activeJobsCount: bigint
  readonly dueJobsCount: bigint
  readonly unreadableJobsCount: bigint
  readonly readyTimersCount: bigint
  readonly readyRunsCount: bigint
  /** Time since the oldest due timer, run or job became due. */
  readonly lagSeconds: number
}
