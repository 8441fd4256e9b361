import type { LossReason } from './LostLeaseError.js'

/**
 * Events of leases. Each type reports one kind of fact. There is no listener by default. Events contain no context and
 * no lease id.
 */
export type LeaseEvent =
  /** The owner acquired the lease of a resource. */
  | {
      readonly type: 'lease.acquired'
      readonly resource: string
      readonly owner: string
      readonly fencingToken: bigint
    }
  /** The lease was renewed, with a greater fencing token. */
  | { readonly type: 'lease.renewed'; readonly resource: string; readonly owner: string; readonly fencingToken: bigint }
  /** The lease ended. `released` is the intended end. */
  | { readonly type: 'lease.ended'; readonly resource: string; readonly owner: string; readonly reason: LossReason }
  /** A leader's function failed after its lease was lost. It is called again when the lease is regained. */
  | { readonly type: 'lease.interrupted'; readonly resource: string; readonly owner: string; readonly error: unknown }
  /** A request failed. Renewals and the wait for leadership are retried. */
  | { readonly type: 'lease.fault'; readonly resource: string; readonly during: string; readonly error: unknown }

export type OnLeaseEvent = (event: LeaseEvent) => void
