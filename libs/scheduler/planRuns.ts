import { CronSchedule } from './cron.js'
import type { DueJob } from './types.js'

export interface PlannedRuns {
  /** Those to be run, oldest first. */
  readonly occurrences: readonly Date[]
  readonly nextDueAt: Date
  /** Whether an occurrence came longer ago than a scheduler that is merely busy would explain. */
  readonly missed: boolean
}

/** The most runs that `all` makes at once: the newest ones. */
export const MISSED_RUNS_MAX = 1_000

/**
 * Which runs of a due job to make now. An occurrence at most `missedAfterMs` old is on time and is run, whatever the policy, each
 * of them. If the oldest is older, nobody was there, and the policy decides: `skip` makes those that are on time only, `once`
 * the latest, `all` the newest thousand.
 */
export function planRuns(job: DueJob, missedAfterMs: number): PlannedRuns {
  const { nextDueAt: promised, observedAt: now } = job
  const schedule = new CronSchedule(job.cron, job.timeZone)
  const onTimeFrom = new Date(now.getTime() - missedAfterMs)
  const missed = promised < onTimeFrom
  const following = schedule.next(promised)
  // The usual case: one has come, the next is ahead.
  if (following > now) {
    return { occurrences: missed && job.missedRuns === 'skip' ? [] : [promised], nextDueAt: following, missed }
  }
  const nextDueAt = schedule.next(now)
  if (!missed) return { occurrences: between(schedule, promised, now), nextDueAt, missed }
  switch (job.missedRuns) {
    case 'skip': {
      const first = schedule.next(new Date(onTimeFrom.getTime() - 1))
      return { occurrences: first > now ? [] : between(schedule, first, now), nextDueAt, missed }
    }
    case 'once':
      return { occurrences: schedule.latest(1, now), nextDueAt, missed }
    case 'all':
      return {
        occurrences: [promised, ...newestAfter(schedule, promised, now)].slice(-MISSED_RUNS_MAX),
        nextDueAt,
        missed,
      }
  }
}

/** Looks back further and further: an occurrence takes a third of a millisecond to find, and usually a few were missed. */
function newestAfter(schedule: CronSchedule, promised: Date, now: Date): Date[] {
  for (let count = 16; ; count *= 4) {
    const found = schedule.latest(Math.min(count, MISSED_RUNS_MAX), now)
    const later = found.filter((one) => one > promised)
    if (later.length < found.length || count >= MISSED_RUNS_MAX) return later
  }
}

/** From an occurrence to a moment, both included. */
function between(schedule: CronSchedule, first: Date, until: Date): Date[] {
  const found: Date[] = []
  for (let at = first; at <= until; at = schedule.next(at)) found.push(at)
  return found
}
