import type { JsonObject } from '../core/index.js'

export interface LeaseGrant {
  /** Secret of the holder, needed to renew and release the lease. Never log it or pass it on. */
  readonly leaseId: string
  readonly fencingToken: bigint
  readonly acquiredAt: Date
  /** Expiry by the database's clock, for display. */
  readonly expiresAt: Date
}

export interface LeaseRenewal {
  readonly fencingToken: bigint
  readonly expiresAt: Date
}

/** Reference to one lease. The secret `leaseId` proves that the caller holds it. */
export interface LeaseRef {
  readonly resource: string
  readonly owner: string
  readonly leaseId: string
}

export interface LeaseRequest {
  readonly resource: string
  readonly owner: string
  readonly durationMs: number
  readonly context?: JsonObject
}

/**
 * HELD: no other owner can acquire the lease. EXPIRED: the holder did not renew it, and no other owner has acquired it
 * yet.
 */
export type LeaseState = 'HELD' | 'EXPIRED' | 'RELEASED'

export interface LeaseStatus {
  readonly resource: string
  /** Current or last owner. */
  readonly owner: string
  readonly state: LeaseState
  readonly fencingToken: bigint
  readonly acquiredAt: Date
  readonly renewedAt: Date
  readonly expiresAt: Date
}

/** Numbers of leases: the row of the view `supervisor_lease_status`. */
export interface LeaseStats {
  readonly heldCount: bigint
  readonly expiredCount: bigint
}
