/**
 * Scheduler in the database: timers (once) and jobs (by cron).
 *
 * | state of a timer or run | moved by | a crash there leaves |
 * | --- | --- | --- |
 * | READY | a scheduler makes it a message when due (ENQUEUED), or a claim leases it | the row |
 * | CLAIMED | its holder by `ack` (DONE), `abandon` (READY), `fail` (FAILED); another claim after the lease expires | a lease that expires |
 * | DONE, ENQUEUED, FAILED | terminal; retention removes it | the row |
 * | CANCELLED | terminal: a timer by `cancelTimer`, or a run that returns from a claim after its job was deleted | the row |
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
