import {
  boundedInteger,
  createWorkerId,
  LEASE_DURATION_MS,
  requiredId,
  requireKnownOptions,
  type Clock,
  type JsonObject,
} from '../core/index.js'
import type { OnLeaseEvent } from './events.js'
import type { LeaseRequest } from './types.js'

export interface LeasesOptions {
  /** Listener of events. @default none */
  readonly onEvent?: OnLeaseEvent
  /** Clock, for tests. @default systemClock */
  readonly clock?: Clock
}

export interface AcquireOptions {
  /**
   * Duration of the lease without renewal, in milliseconds: 1000 to 3600000. With a longer lease, other owners wait
   * longer after a crash of the holder. A shorter lease needs more renewals and tolerates less delay of the database.
   */
  readonly durationMs: number
  /**
   * Milliseconds between renewals, from 100 to half of the duration. A shorter interval notices failures sooner and
   * leaves time for more attempts, but runs more queries. @default a third of the duration
   */
  readonly renewEveryMs?: number
  /**
   * Name of the holder. Acquiring again under the same name takes the lease from its former holder, so processes must
   * not share a name. @default host, pid and a UUID, new for each call
   */
  readonly owner?: string
  /** Information about the holder for operators and auditors: a plain object, up to 64 KiB as JSON. @default {} */
  readonly context?: JsonObject
}

/**
 * Options of `runAsLeader`. The owner cannot be chosen, because two runs under one name would take the lease from each
 * other for ever.
 */
export interface LeaderOptions {
  /** As in `AcquireOptions`. @default 15000 */
  readonly durationMs?: number
  /** As in `AcquireOptions`. @default a third of the duration */
  readonly renewEveryMs?: number
  /** As in `AcquireOptions`. @default {} */
  readonly context?: JsonObject
  /** Milliseconds between attempts while another owner leads, 100 to 600000. @default 1000 */
  readonly retryMs?: number
  /** Signal that ends the wait for leadership and asks the leader's function to end. @default none */
  readonly signal?: AbortSignal
}

interface ResolvedLeaderOptions {
  readonly acquire: AcquireOptions & { readonly owner: string }
  readonly retryMs: number
  readonly stop: AbortSignal
}

interface ResolvedAcquireOptions {
  readonly request: LeaseRequest
  readonly renewEveryMs: number
}

const ACQUIRE_OPTIONS = Object.keys({
  durationMs: true,
  renewEveryMs: true,
  owner: true,
  context: true,
} satisfies Record<keyof AcquireOptions, true>)

const LEADER_OPTIONS = Object.keys({
  durationMs: true,
  renewEveryMs: true,
  context: true,
  retryMs: true,
  signal: true,
} satisfies Record<keyof LeaderOptions, true>)

/** Checks the options before any side effect. `acquireLease` checks them again. */
export function resolveAcquireOptions(resource: string, options: AcquireOptions): ResolvedAcquireOptions {
  requireKnownOptions(options, ACQUIRE_OPTIONS)
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

/**
 * Resolves the options. All attempts use one owner name. If the answer to an attempt is lost, the next attempt under
 * the same name gets the lease again. Under another name it would wait until that lease expires.
 */
export function resolveLeaderOptions(resource: string, given: LeaderOptions): ResolvedLeaderOptions {
  requireKnownOptions(given, LEADER_OPTIONS)
  const { durationMs = 15_000, retryMs = 1_000, signal, ...others } = given
  const acquire = { ...others, durationMs, owner: createWorkerId() }
  resolveAcquireOptions(resource, acquire)
  return {
    acquire,
    retryMs: boundedInteger('retryMs', retryMs, { min: 100, max: 600_000 }),
    stop: signal ?? new AbortController().signal,
  }
}

/**
 * Returns the time for which a lease is trusted, counted from before its request was sent. The database counts from a
 * later moment. The margin covers a late timer, clock drift, and the time that the holder needs to stop.
 */
export function trustedLeaseMs(durationMs: number): number {
  return durationMs - Math.min(10_000, durationMs / 10)
}

/** Returns the maximum wait for a renewal's answer, and the delay after a failed renewal. */
export function renewalTimeouts(renewEveryMs: number): { readonly answerMs: number; readonly retryMs: number } {
  return { answerMs: renewEveryMs / 2, retryMs: Math.min(5_000, renewEveryMs / 10) }
}
