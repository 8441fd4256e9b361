import { requireKnownOptions } from '../core/index.js'
import { requireTransaction, withSchema, type Database, type Queryable, type RoleHandle, type Tx } from '../db/index.js'
import { loadTopics, requireTopicPayload, type KnownContracts, type TopicContracts } from '../rails/index.js'
import * as verbs from './claims.js'
import { createJobRunsFromDueJobs, type CreateJobRunsOptions } from './createJobRunsFromDueJobs.js'
import * as db from './db.js'
import type {
  ClaimedJobRun,
  ClaimedTimer,
  CreatedJobRun,
  DefinedJob,
  JobDefinition,
  JobRunClaim,
  JobRunStatus,
  JobStatus,
  TimerClaim,
  TimerDefinition,
  TimerStatus,
} from './types.js'

export interface SchedulerClaim extends verbs.SchedulerClaimOptions {
  readonly batchSize: number
  readonly workerId: string
  /** Seconds of the lease. @default 60 */
  readonly leaseSeconds?: number
}

/**
 * Scheduler of one database. Each method uses the role that it needs: ingest for timers, control for jobs, executor for
 * claims and retention, readonly for reads. A `SchedulerWorker` turns due timers and jobs into runs and messages.
 */
export class SchedulerStore<const Topics extends TopicContracts = TopicContracts> {
  readonly #topics: KnownContracts
  readonly #ingest: RoleHandle
  readonly #control: Queryable
  readonly #executor: Queryable
  readonly #readonly: Queryable

  /** @param options `topics`: schemas by topic, which check the payloads of timers and jobs. @default no check */
  constructor(database: Database, options: { readonly topics?: Topics } = {}) {
    this.#topics = loadTopics(options.topics ?? {})
    this.#ingest = database.as('symphony_ingest')
    this.#control = database.as('symphony_control')
    this.#executor = database.as('symphony_executor')
    this.#readonly = database.as('symphony_readonly')
  }

  /** Schedules a timer, in the caller's transaction if `tx` is given. */
  async scheduleTimer(given: TimerDefinition<Topics>, options: { readonly tx?: Tx } = {}): Promise<string> {
    const tx = this.#txOf(options)
    requireKnownOptions(given, TIMER_FIELDS, 'timer.')
    const timer: TimerDefinition = given
    const checking = requireTopicPayload(this.#topics, timer)
    if (checking !== undefined) {
      await checking
      // The transaction of a caller that did not await may have ended meanwhile.
      requireTransaction(tx)
    }
    return db.scheduleTimer(withSchema(tx, this.#ingest.schema), timer)
  }

  async cancelTimer(timerId: string, options: { readonly tx?: Tx } = {}): Promise<boolean> {
    return db.cancelTimer(withSchema(this.#txOf(options), this.#ingest.schema), timerId)
  }

  async claimTimers(claim: SchedulerClaim): Promise<ClaimedTimer[]> {
    requireKnownOptions(claim, CLAIM_OPTIONS)
    const { batchSize, workerId, leaseSeconds = 60, ...options } = claim
    return verbs.claimTimers(this.#executor, batchSize, workerId, leaseSeconds, options)
  }

  ackTimers(claims: readonly TimerClaim[], workerId: string): Promise<string[]> {
    return verbs.ackTimers(this.#executor, claims, workerId)
  }

  abandonTimers(claims: readonly TimerClaim[], workerId: string, options?: verbs.AbandonOptions): Promise<string[]> {
    return verbs.abandonTimers(this.#executor, claims, workerId, options)
  }

  failTimers(claims: readonly TimerClaim[], workerId: string, error?: string): Promise<string[]> {
    return verbs.failTimers(this.#executor, claims, workerId, error)
  }

  async createOrUpdateJob(given: JobDefinition<Topics>): Promise<DefinedJob> {
    requireKnownOptions(given, JOB_FIELDS, 'job.')
    const job: JobDefinition = given
    await requireTopicPayload(this.#topics, job)
    return db.createOrUpdateJob(this.#control, job)
  }

  pauseJob(name: string): Promise<boolean> {
    return db.pauseJob(this.#control, name)
  }

  resumeJob(name: string): Promise<boolean> {
    return db.resumeJob(this.#control, name)
  }

  triggerJob(name: string): Promise<CreatedJobRun> {
    return db.triggerJob(this.#control, name)
  }

  deleteJob(name: string): Promise<{ readonly deleted: boolean; readonly runsRemoved: number }> {
    return db.deleteJob(this.#control, name)
  }

  /** Creates the runs of due jobs. Returns only the runs that this call created, not those of another scheduler. */
  async createJobRunsFromDueJobs(options?: CreateJobRunsOptions): Promise<readonly CreatedJobRun[]> {
    return (await createJobRunsFromDueJobs(this.#executor, options)).runs
  }

  async claimJobRuns(claim: SchedulerClaim): Promise<ClaimedJobRun[]> {
    requireKnownOptions(claim, CLAIM_OPTIONS)
    const { batchSize, workerId, leaseSeconds = 60, ...options } = claim
    return verbs.claimJobRuns(this.#executor, batchSize, workerId, leaseSeconds, options)
  }

  ackJobRuns(claims: readonly JobRunClaim[], workerId: string): Promise<string[]> {
    return verbs.ackJobRuns(this.#executor, claims, workerId)
  }

  abandonJobRuns(claims: readonly JobRunClaim[], workerId: string, options?: verbs.AbandonOptions): Promise<string[]> {
    return verbs.abandonJobRuns(this.#executor, claims, workerId, options)
  }

  failJobRuns(claims: readonly JobRunClaim[], workerId: string, error?: string): Promise<string[]> {
    return verbs.failJobRuns(this.#executor, claims, workerId, error)
  }

  getNextEventTime(): Promise<Date | null> {
    return db.getNextEventTime(this.#executor)
  }

  purgeFinishedTimers(retentionSeconds: number, batchSize: number): Promise<number> {
    return db.purgeFinishedTimers(this.#executor, retentionSeconds, batchSize)
  }

  purgeFinishedJobRuns(retentionSeconds: number, batchSize: number): Promise<number> {
    return db.purgeFinishedJobRuns(this.#executor, retentionSeconds, batchSize)
  }

  readTimer(timerId: string): Promise<TimerStatus | undefined> {
    return db.readTimer(this.#readonly, timerId)
  }

  readTimers(filter: db.TimerFilter): Promise<TimerStatus[]> {
    return db.readTimers(this.#readonly, filter)
  }

  readJob(name: string): Promise<JobStatus | undefined> {
    return db.readJob(this.#readonly, name)
  }

  readJobs(): Promise<JobStatus[]> {
    return db.readJobs(this.#readonly)
  }

  readJobRuns(filter?: db.JobRunFilter): Promise<JobRunStatus[]> {
    return db.readJobRuns(this.#readonly, filter)
  }

  /** Refuses other options. With a misspelt `tx`, the timer would commit outside the caller's transaction. */
  #txOf(options: { readonly tx?: Tx }): Tx {
    requireKnownOptions(options, ['tx'], 'options.')
    const { tx = this.#ingest } = options
    requireTransaction(tx)
    return tx
  }
}

const CLAIM_OPTIONS = Object.keys({
  batchSize: true,
  workerId: true,
  leaseSeconds: true,
  topics: true,
} satisfies Record<keyof SchedulerClaim, true>)
const MESSAGE_FIELDS = { topic: true, payload: true, participantId: true, delivery: true } as const
const TIMER_FIELDS = Object.keys({
  ...MESSAGE_FIELDS,
  dueAt: true,
  timerId: true,
} satisfies Record<keyof TimerDefinition, true>)
const JOB_FIELDS = Object.keys({
  ...MESSAGE_FIELDS,
  name: true,
  cron: true,
  timeZone: true,
  missedRuns: true,
} satisfies Record<keyof JobDefinition, true>)
