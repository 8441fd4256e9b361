import {
  boundedInteger,
  createWorkerId,
  LEASE_DURATION_MS,
  requiredId,
  type Clock,
  type JsonObject,
} from '../core/index.js'
import type { OnLeaseEvent } from './events.js'
import type { LeaseRequest } from './types.js'

export interface LeasesOptions {
  /** @default nobody listens */
  readonly onEvent?: OnLeaseEvent
  /** For tests that move time. @default the system's */
  readonly clock?: Clock
}

export interface AcquireOptions {
  /**
   * How long the lease lasts without renewal: 1000 to 3600000. Longer: after a crash of the holder the others wait longer.
   * Shorter: more renewals, and less patience with a slow database.
   */
  readonly durationMs: number
  /**
   * How often it renews itself: 100 to half of the duration. Shorter: a failure is noticed sooner and there is time for more
   * attempts, at the price of more queries. @default a third of the duration
   */
  readonly renewEveryMs?: number
  /**
   * Who holds it. Acquiring again under the same name takes the lease from its former holder, so a name that two may use at
   * once is no protection. @default a fresh one for each call: host, pid and a UUID
   */
  readonly owner?: string
  /** What others may know of the holder: a plain object, up to 64 KiB as JSON. Visible to operators and auditors. @default {} */
  readonly context?: JsonObject
}

/** No owner: two runs under one name would take the lease from each other for ever. */
export interface LeaderOptions {
  /** As in `AcquireOptions`. @default 15000 */
  readonly durationMs?: number
  /** As in `AcquireOptions`. @default a third of the duration */
  readonly renewEveryMs?: number
  /** As in `AcquireOptions`. @default {} */
  readonly context?: JsonObject
  /** How often to ask for the lease while another leads: 100 to 600000. @default 1000 */
  readonly retryMs?: number
  /** Ends the wait for leadership, and asks the leader's function to end. @default never */
  readonly signal?: AbortSignal
}

interface ResolvedLeaderOptions {
  readonly acquire: Required<Pick<AcquireOptions, 'owner'>> & AcquireOptions
  readonly retryMs: number
  readonly stop: AbortSignal
}

/** What is asked of the database, and what this process does about it. */
interface ResolvedAcquireOptions {
  readonly request: LeaseRequest
  readonly renewEveryMs: number
}

/** Checked again by the wrapper; here so that a bad argument is refused before there is anything to undo. */
export function resolveAcquireOptions(resource: string, options: AcquireOptions): ResolvedAcquireOptions {
  const durationMs = boundedInteger('durationMs', options.durationMs, LEASE_DURATION_MS)
  const renewEveryMs = options.renewEveryMs ?? Math.floor(durationMs / 3)
  return {
    request: {
      resource: requiredId('resource', resource),
      owner: requiredId('owner', options.owner ?? createWorkerId()),
      durationMs,
      ...(options.context === undefined ? {} : { context: options.context }),
    },
    renewEveryMs: boundedInteger('renewEveryMs', renewEveryMs, { min: 100, max: Math.floor(durationMs / 2) }),
  }
}

/** One owner for all its terms: after an answer that was lost on the way, it need not wait for its own lease to expire. */
export function resolveLeaderOptions(resource: string, given: LeaderOptions): ResolvedLeaderOptions {
  const { durationMs = 15_000, retryMs = 1_000, signal, ...others } = given
  const { request, renewEveryMs } = resolveAcquireOptions(resource, { ...others, durationMs })
  return {
    acquire: { ...request, renewEveryMs },
    retryMs: boundedInteger('retryMs', retryMs, { min: 100, max: 600_000 }),
    stop: signal ?? new AbortController().signal,
  }
}

/**
 * Returns how long a lease is trusted, counted from before its request was sent. The database counts from a later moment. The
 * margin covers a late timer, clocks of different speed, and the time that the holder needs to stop.
 */
export function trustedLeaseMs(durationMs: number): number {
  return durationMs - Math.min(10_000, durationMs / 10)
}

/** How long an attempt to renew may stay unanswered, and how soon after a failure the next one is made. */
export function renewalTimeouts(renewEveryMs: number): { readonly answerMs: number; readonly retryMs: number } {
  return { answerMs: renewEveryMs / 2, retryMs: Math.min(5_000, renewEveryMs / 10) }
}
