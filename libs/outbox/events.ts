import type { BreakerState } from '../worker/index.js'
import type { AttemptState, FreezeCause } from './types.js'

/**
 * What a relayer says about its work, one event per fact. Nothing listens by default; `libs/observability` turns these into
 * metrics and log lines. None carries a payload.
 */
export type RelayerEvent =
  /**
   * A claim came back, empty or not. `takeovers`: expired leases it wrote to the ledger, also where they ended in a
   * hold or went back to the queue. `lagsMs`: of each item whose last lease did not expire, how long it had been due, by the
   * database's clock.
   */
  | {
      readonly type: 'claimed'
      readonly items: number
      readonly takeovers: number
      readonly claimMs: number
      readonly lagsMs: readonly number[]
    }
  /** Notifications woke this worker: one event for all that arrived within the debounce. */
  | { readonly type: 'notified' }
  /** Notifications can be heard, or no longer; polling goes on in any case. */
  | { readonly type: 'listening'; readonly connected: boolean }
  /** An item occupies one of its rail's slots from `dispatchStarted` to `dispatchFinished`, whether or not the rail is called. */
  | { readonly type: 'dispatchStarted' | 'dispatchFinished'; readonly railType: string; readonly outboxId: string }
  /** A rail was called and answered, or did not. */
  | {
      readonly type: 'called'
      readonly railType: string
      readonly outboxId: string
      readonly answer: 'success' | 'terminal' | 'retryable' | 'unknown' | 'notSent'
      readonly latencyMs: number
      /** Absent for a success. One of `RAIL_RESULT_CODES` if Symphony classified the answer; else the same as `answer`. */
      readonly error?: string
    }
  /** An answer with a code that the rail's table does not know, or that disagrees with it. Somebody should look. */
  | { readonly type: 'unknownCode'; readonly railType: string; readonly outboxId: string; readonly code: string }
  /** The ledger has it. */
  | {
      readonly type: 'recorded'
      readonly railType: string
      readonly outboxId: string
      readonly state: AttemptState
      readonly held: boolean
      readonly attemptNo: number
      readonly sinceAcceptedMs: number
    }
  /** The answer to a completion was lost, and the same token was told that its outcome stands. */
  | {
      readonly type: 'alreadyRecorded'
      readonly railType: string
      readonly outboxId: string
      readonly state: AttemptState
      readonly sinceAcceptedMs: number
    }
  /** A race, not an error: someone else holds or has ended the item. What was learned is kept as evidence. */
  | { readonly type: 'leaseLost'; readonly outboxId: string; readonly during: 'completion' | 'renewal' | 'dispatch' }
  /** A late outcome was kept as evidence. `contradicts`: it differs from the recorded outcome, and an operator must review it. */
  | { readonly type: 'lateOutcome'; readonly outboxId: string; readonly contradicts: boolean }
  /** The item was recorded as DISPATCHED, and a late outcome had reported a success under another rail reference. */
  | { readonly type: 'contradicted'; readonly railType: string; readonly outboxId: string }
  /** The index that forbids a second ending refused one. */
  | { readonly type: 'terminalGuard'; readonly outboxId: string }
  /** The item waits for a person from now on. */
  | { readonly type: 'held'; readonly railType: string; readonly outboxId: string; readonly reason: string }
  /** Leases that were given back unused, as when the process stops. */
  | { readonly type: 'released'; readonly items: number }
  /** A rail that fails again and again gets a rest; after it, one call tries. */
  | { readonly type: 'breaker'; readonly railType: string; readonly state: BreakerState }
  /** The database's clock moved against this process's: claims pause until the leases in hand have surely ended. */
  | { readonly type: 'clockJumped'; readonly byMs: number }
  /** Commits may have been lost: nothing is claimed until a person has looked. What waited in this process was given back. */
  | { readonly type: 'frozen'; readonly cause: FreezeCause; readonly reason: string; readonly since: Date }
  /** An operator lifted the freeze. */
  | { readonly type: 'freezeLifted' }
  /** Something failed that a retry is not known to mend. `during` says what was being done. */
  | { readonly type: 'fault'; readonly during: string; readonly error: unknown; readonly outboxId?: string }

export type OnRelayerEvent = (event: RelayerEvent) => void
