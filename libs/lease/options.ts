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
  /** As in `AcquireOptions`. @default {} */
  readonly context?: JsonObject
  /** How often to ask for the lease while another leads: 100 to 600000. @default 1000 */
  readonly retryMs?: number
  /** Ends the wait for leadership, and asks the leader's function to end. @default never */
  readonly signal?: AbortSignal
}

export interface ResolvedLeaderOptions {
  readonly request: LeaseRequest
  readonly retryMs: number
  readonly stop: AbortSignal
}

/** Checked again by the wrapper; here so that a bad argument is refused before there is anything to undo. */
export function resolveLeaseRequest(resource: string, options: AcquireOptions): LeaseRequest {
  return {
    resource: requiredId('resource', resource),
    owner: requiredId('owner', options.owner ?? createWorkerId()),
    durationMs: boundedInteger('durationMs', options.durationMs, LEASE_DURATION_MS),
    ...(options.context === undefined ? {} : { context: options.context }),
  }
}

/** One owner for all its terms: after an answer that was lost on the way, it need not wait for its own lease to expire. */
export function resolveLeaderOptions(resource: string, given: LeaderOptions): ResolvedLeaderOptions {
  return {
    request: resolveLeaseRequest(resource, {
      durationMs: given.durationMs ?? 15_000,
      ...(given.context === undefined ? {} : { context: given.context }),
    }),
    retryMs: boundedInteger('retryMs', given.retryMs ?? 1_000, { min: 100, max: 600_000 }),
    stop: given.signal ?? new AbortController().signal,
  }
}

/**
 * How long a lease is trusted, counted from the moment before it was asked for: the database counts from a later one. The
 * margin is for a late timer, for clocks that do not run equally fast, and for what it takes to stop.
 */
export function trustMs(durationMs: number): number {
  return durationMs - Math.min(10_000, durationMs / 10)
}

/** When a renewal is due, and how patient it is: two of three may fail before the lease is in danger. */
export function renewalTimes(durationMs: number): { everyMs: number; answerMs: number; retryMs: number } {
  return { everyMs: durationMs / 3, answerMs: durationMs / 6, retryMs: Math.min(5_000, durationMs / 30) }
}
