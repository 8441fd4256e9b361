/**
 * The scheduler: timers (once) and jobs (by cron), in the database.
 *
 * | state of a timer or run | who moves it | a crash there leaves |
 * | --- | --- | --- |
 * | READY | when due: a scheduler makes it a message (ENQUEUED), or a claim leases it | the row |
 * | CLAIMED | its holder: `ack` (DONE), `abandon` (READY), `fail` (FAILED); anybody once the lease expired | a lease that expires |
 * | DONE, ENQUEUED, FAILED | nobody; retention removes it | the row |
 * | CANCELLED | nobody. A timer by `cancelTimer`; a run that comes back after its job was deleted | the row |
 *
 * A job is ACTIVE or PAUSED, and has one next due time. Its runs are made in the call that moves that time, and only by the
 * scheduler whose view of the job was still true: one run per occurrence, however many schedulers there are. A message has the
 * id of its timer or run, so a repeat would find the first.
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
