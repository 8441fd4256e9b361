/**
 * Scheduler in the database: timers (once) and jobs (by cron).
 *
 * | state of a timer or run | next state | after a crash |
 * | --- | --- | --- |
 * | READY | ENQUEUED: a scheduler enqueues its message when it is due. CLAIMED: a claim leases it. | stays READY |
 * | CLAIMED | DONE by `ack`, READY by `abandon`, FAILED by `fail` | a claim after its lease expires abandons it |
 * | DONE, ENQUEUED, FAILED, CANCELLED | none: terminal, until retention deletes the row | stays as it is |
 *
 * `cancelTimer` makes a timer CANCELLED. An abandoned run becomes CANCELLED instead of READY if its job was deleted. A
 * timer or run that is abandoned after its 20th claim becomes FAILED.
 *
 * A job is ACTIVE or PAUSED, and has one next due time. One call creates its runs and updates that time. The call
 * succeeds only if the job is unchanged since the scheduler read it, so each occurrence has one run even with many
 * schedulers. A message has the id of its timer or run, so a repeated enqueue returns the first message.
 */
export {
  abandonJobRuns,
  abandonTimers,
  ackJobRuns,
  ackTimers,
  claimJobRuns,
  claimTimers,
  failJobRuns,
  failTimers,
} from './claims.js'
export type { AbandonOptions, SchedulerClaimOptions } from './claims.js'
export { createJobRunsFromDueJobs } from './createJobRunsFromDueJobs.js'
export type { CreateJobRunsOptions, JobRunsFromDueJobs } from './createJobRunsFromDueJobs.js'
export {
  cancelTimer,
  createOrUpdateJob,
  deleteJob,
  enqueueDueJobRuns,
  enqueueDueTimers,
  getNextEventTime,
  pauseJob,
  purgeFinishedJobRuns,
  purgeFinishedTimers,
  readJob,
  readJobRuns,
  readJobs,
  readSchedulerStats,
  readTimer,
  readTimers,
  resumeJob,
  scheduleTimer,
  triggerJob,
} from './db.js'
export type { JobRunFilter, TimerFilter } from './db.js'
export type { OnSchedulerEvent, SchedulerEvent } from './events.js'
export type { SchedulerOptions } from './options.js'
export { MISSED_RUNS_MAX } from './createJobRunsFromDueJobs.js'
export { readJobRunPage, readJobViews, readTimerPage } from './reads.js'
export type { JobRunView, JobView, TimeCursor, WithCursor, TimerView } from './reads.js'
export { SchedulerStore } from './SchedulerStore.js'
export type { SchedulerClaim } from './SchedulerStore.js'
export { SchedulerWorker } from './SchedulerWorker.js'
export type { SchedulerCounts } from './SchedulerWorker.js'
export { WORK_STATES } from './types.js'
export type {
  ClaimedJobRun,
  ClaimedTimer,
  CreatedJobRun,
  DefinedJob,
  Delivery,
  EnqueuedWork,
  JobDefinition,
  JobRunClaim,
  JobRunStatus,
  JobState,
  JobStatus,
  MissedRuns,
  ScheduledClaim,
  ScheduledMessage,
  SchedulerStats,
  TimerClaim,
  TimerDefinition,
  TimerStatus,
  WorkState,
} from './types.js'
