import { BATCH_SIZE, boundedInteger, LEASE_SECONDS, requiredId, type JsonObject } from '../core/index.js'
import { call, type Queryable } from '../db/index.js'
import { claimColumns, optionalErrorText, optionalTopics, retryDelay } from './arguments.js'
import type { ClaimedJobRun, ClaimedTimer, JobRunClaim, TimerClaim } from './types.js'

/**
 * Claims timers and runs under a lease, and ends them by lease token, as symphony_executor. The results omit ids whose
 * lease the caller does not hold.
 */

export interface SchedulerClaimOptions {
  /** Topics to claim. @default all */
  readonly topics?: readonly string[]
}

interface ClaimedRow {
  readonly topic: string
  readonly participant_id: string | null
  readonly payload: JsonObject
  readonly attempt_count: number
  readonly lease_token: string
  readonly lease_expires_at: Date
}

interface ClaimedTimerRow extends ClaimedRow {
  readonly timer_id: string
  readonly due_at: Date
}

interface ClaimedJobRunRow extends ClaimedRow {
  readonly run_id: string
  readonly job_name: string
  readonly scheduled_for: Date
}

/** Leases due timers to one worker, longest due first. */
export async function claimTimers(
  role: Queryable,
  batchSize: number,
  workerId: string,
  leaseSeconds: number,
  options: SchedulerClaimOptions = {},
): Promise<ClaimedTimer[]> {
  const values = claimValues(batchSize, workerId, leaseSeconds, options)
  const rows = await call<ClaimedTimerRow>(role, 'claim_timers', values)
  return rows.map(toClaimedTimer)
}

/** Leases due runs to one worker, longest due first. */
export async function claimJobRuns(
  role: Queryable,
  batchSize: number,
  workerId: string,
  leaseSeconds: number,
  options: SchedulerClaimOptions = {},
): Promise<ClaimedJobRun[]> {
  const values = claimValues(batchSize, workerId, leaseSeconds, options)
  const rows = await call<ClaimedJobRunRow>(role, 'claim_job_runs', values)
  return rows.map(toClaimedJobRun)
}

function claimValues(
  batchSize: number,
  workerId: string,
  leaseSeconds: number,
  { topics }: SchedulerClaimOptions,
): unknown[] {
  return [
    boundedInteger('batchSize', batchSize, BATCH_SIZE),
    requiredId('workerId', workerId),
    boundedInteger('leaseSeconds', leaseSeconds, LEASE_SECONDS),
    optionalTopics(topics),
  ]
}

function toClaimedTimer(row: ClaimedTimerRow): ClaimedTimer {
  return { timerId: row.timer_id, dueAt: row.due_at, ...toClaimed(row) }
}

function toClaimedJobRun(row: ClaimedJobRunRow): ClaimedJobRun {
  return { runId: row.run_id, jobName: row.job_name, scheduledFor: row.scheduled_for, ...toClaimed(row) }
}

function toClaimed(row: ClaimedRow) {
  return {
    topic: row.topic,
    participantId: row.participant_id,
    payload: row.payload,
    attemptCount: row.attempt_count,
    leaseToken: row.lease_token,
    leaseExpiresAt: row.lease_expires_at,
  }
}

export interface AbandonOptions {
  readonly error?: string
  /** Seconds until the next claim. @default 0 */
  readonly retryDelaySeconds?: number
}

/** Ends timers as DONE. Returns the changed ids. */
export async function ackTimers(role: Queryable, claims: readonly TimerClaim[], workerId: string): Promise<string[]> {
  return endClaims(role, 'ack_timers', timerClaims(claims), workerId, [])
}

/** Sets timers back to READY. Returns the changed ids. A timer in its twentieth claim becomes FAILED instead. */
export async function abandonTimers(
  role: Queryable,
  claims: readonly TimerClaim[],
  workerId: string,
  options: AbandonOptions = {},
): Promise<string[]> {
  return endClaims(role, 'abandon_timers', timerClaims(claims), workerId, abandonValues(options))
}

/** Ends timers as FAILED. Returns the changed ids. */
export async function failTimers(
  role: Queryable,
  claims: readonly TimerClaim[],
  workerId: string,
  error?: string,
): Promise<string[]> {
  return endClaims(role, 'fail_timers', timerClaims(claims), workerId, [optionalErrorText(error)])
}

export async function ackJobRuns(role: Queryable, claims: readonly JobRunClaim[], workerId: string): Promise<string[]> {
  return endClaims(role, 'ack_job_runs', runClaims(claims), workerId, [])
}

/** Sets runs back to READY, or to FAILED after the twentieth claim. Cancels a run whose job was deleted meanwhile. */
export async function abandonJobRuns(
  role: Queryable,
  claims: readonly JobRunClaim[],
  workerId: string,
  options: AbandonOptions = {},
): Promise<string[]> {
  return endClaims(role, 'abandon_job_runs', runClaims(claims), workerId, abandonValues(options))
}

export async function failJobRuns(
  role: Queryable,
  claims: readonly JobRunClaim[],
  workerId: string,
  error?: string,
): Promise<string[]> {
  return endClaims(role, 'fail_job_runs', runClaims(claims), workerId, [optionalErrorText(error)])
}

type Claims = readonly (readonly [id: string, leaseToken: string])[]

function timerClaims(claims: readonly TimerClaim[]): Claims {
  return claims.map(({ timerId, leaseToken }) => [timerId, leaseToken])
}

function runClaims(claims: readonly JobRunClaim[]): Claims {
  return claims.map(({ runId, leaseToken }) => [runId, leaseToken])
}

function abandonValues({ error, retryDelaySeconds }: AbandonOptions): unknown[] {
  return [optionalErrorText(error), retryDelay(retryDelaySeconds)]
}

async function endClaims(
  role: Queryable,
  functionName: string,
  claims: Claims,
  workerId: string,
  rest: readonly unknown[],
): Promise<string[]> {
  const worker = requiredId('workerId', workerId)
  const { ids, leaseTokens } = claimColumns('claims', claims)
  if (ids.length === 0) return []
  const rows = await call<Record<string, string>>(role, functionName, [ids, leaseTokens, worker, ...rest])
  return rows.flatMap((row) => Object.values(row))
}
