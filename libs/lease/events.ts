import type { LossReason } from './LostLeaseError.js'

/** What becomes of leases, one event per fact. Nothing listens by default. None carries a context or a lease id. */
export type LeaseEvent =
  /** The resource is this owner's. */
  | {
      readonly type: 'lease.acquired'
      readonly resource: string
      readonly owner: string
      readonly fencingToken: bigint
    }
  /** It stays so, under a greater token. */
  | { readonly type: 'lease.renewed'; readonly resource: string; readonly owner: string; readonly fencingToken: bigint }
  /** It ended, by whatever reason; `released` is the one that was wished for. */
  | { readonly type: 'lease.ended'; readonly resource: string; readonly owner: string; readonly reason: LossReason }
  /** A leader's function failed after its lease was lost; it will be called again when the lease is regained. */
  | { readonly type: 'lease.interrupted'; readonly resource: string; readonly owner: string; readonly error: unknown }
  /** A request failed. Renewals and the wait for leadership are tried again. */
  | { readonly type: 'lease.fault'; readonly resource: string; readonly during: string; readonly error: unknown }

export type OnLeaseEvent = (event: LeaseEvent) => void
