import type { JsonObject } from '../core/index.js'

/** What the database gives to whoever acquires a resource. */
export interface LeaseGrant {
  /** Known to this holder alone: whoever has it can renew and release. Never log it, never hand it on. */
  readonly leaseId: string
  readonly fencingToken: bigint
  readonly acquiredAt: Date
  /** By the database's clock; for display. */
  readonly expiresAt: Date
}

export interface LeaseRenewal {
  readonly fencingToken: bigint
  readonly expiresAt: Date
}

/** Names one lease. Its secret `leaseId` shows that the caller holds it. */
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

/** HELD: nobody else can have it. EXPIRED: its holder did not come back, and nobody has taken it yet. */
export type LeaseState = 'HELD' | 'EXPIRED' | 'RELEASED'

/** A resource as those see it who only watch. */
export interface LeaseStatus {
  readonly resource: string
  /** Who holds it, or held it last. */
  readonly owner: string
  readonly state: LeaseState
  readonly fencingToken: bigint
  readonly acquiredAt: Date
  readonly renewedAt: Date
  readonly expiresAt: Date
}

/** Leases at a glance: one row of the view `supervisor_lease_status`. */
export interface LeaseStats {
  readonly heldCount: bigint
  readonly expiredCount: bigint
}
