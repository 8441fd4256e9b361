import type { JsonObject } from '../core/index.js'
import type { TopicContracts, TopicWithPayload } from '../rails/index.js'

/**
 * What becomes of a timer or run that is due. `outbox`: a scheduler makes it a message of the outbox, topic as rail. `claim`: it
 * waits for whoever claims it with `claimTimers` or `claimJobRuns`.
 */
export type Delivery = 'outbox' | 'claim'

/** What becomes of occurrences for which no scheduler was there: none, the latest one, or all of them up to a bound. */
export type MissedRuns = 'skip' | 'once' | 'all'

export type JobState = 'ACTIVE' | 'PAUSED'

/** READY and CLAIMED are pending; the others have ended. */
export const WORK_STATES = ['READY', 'CLAIMED', 'DONE', 'ENQUEUED', 'FAILED', 'CANCELLED'] as const
export type WorkState = (typeof WORK_STATES)[number]

/** Message of a timer or a job, enqueued when it is due. */
export type ScheduledMessage<Topics extends TopicContracts = TopicContracts> = TopicWithPayload<Topics> & {
  /** Owner of the stream of the message. @default its own, so that no stream is hot */
  readonly participantId?: string
  /** @default 'outbox' */
  readonly delivery?: Delivery
}

export type TimerDefinition<Topics extends TopicContracts = TopicContracts> = ScheduledMessage<Topics> & {
  /** A past time is due at once. */
  readonly dueAt: Date
  /**
   * UUID that the caller chooses before the call. The same timer under it again is the same timer, so a call whose answer was
   * lost can be repeated. Another timer under it is refused. @default a new one, which the call returns
   */
  readonly timerId?: string
}

export type JobDefinition<Topics extends TopicContracts = TopicContracts> = ScheduledMessage<Topics> & {
  /** Identity of the job: defining it again updates it. */
  readonly name: string
  /** Five fields, or six with the seconds first, or a macro such as `@daily`. */
  readonly cron: string
  /** IANA name. @default 'UTC' */
  readonly timeZone?: string
  /** @default 'once' */
  readonly missedRuns?: MissedRuns
}

export interface DefinedJob {
  readonly nextDueAt: Date
  readonly state: JobState
  /** False: it was known, and is updated. */
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
  /** Not looked at before this, although it is due: no scheduler could read it. */
  readonly postponedUntil: Date | null
  /** Grows with every change. */
  readonly revision: bigint
  /** Why no scheduler could read its expression, when last tried. */
  readonly scheduleError: string | null
}

/** A job whose occurrence has come, as a scheduler sees it. */
export interface DueJob {
  readonly name: string
  readonly cron: string
  readonly timeZone: string
  readonly missedRuns: MissedRuns
  readonly nextDueAt: Date
  readonly revision: bigint
  /** The database's clock. */
  readonly observedAt: Date
}

/** What shows that one has claimed something: its id, and the token of the claim. */
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
  /** How often it was claimed, this time included. */
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

/** Claimed timer or claimed run of a job. */
export type ScheduledClaim = ClaimedTimer | ClaimedJobRun

/** What became of an item that was due: the outbox item that it is now, or why the outbox refused it. */
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
  /** Who asked for it; null: the schedule. */
  readonly triggeredBy: string | null
  readonly topic: string
  readonly delivery: Delivery
  readonly state: WorkState
  readonly attemptCount: number
  readonly startedAt: Date | null
  /** Of a run that is in the outbox: when its message ended there. */
  readonly finishedAt: Date | null
  readonly error: string | null
  readonly outboxId: string | null
  /** What the outbox says of its message: the state of the latest attempt, or PENDING before the first. */
  readonly outboxState: string | null
}

/** Counts and lag of the scheduler: the row of the view `supervisor_scheduler_status`. */
export interface SchedulerStats {
  readonly activeJobsCount: bigint
  readonly dueJobsCount: bigint
  readonly unreadableJobsCount: bigint
  readonly readyTimersCount: bigint
  readonly readyRunsCount: bigint
  /** How long the first thing that a scheduler has to do has been due. */
  readonly lagSeconds: number
}
