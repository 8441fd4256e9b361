import type { BreakerState } from '../worker/index.js'
import type { AttemptState, FreezeCause } from './types.js'

/**
 * Events of a relayer. Each type reports one kind of fact. There is no listener by default; `libs/observability` turns
 * events into metrics and log lines. Events contain no payload.
 */
export type RelayerEvent =
  /**
   * A claim returned, with or without items. `takeovers`: expired leases that the claim wrote to the ledger, including
   * held and requeued items. `lagsMs`: time since the due time of each item whose last lease did not expire, by the
   * database's clock.
   */
  | {
      readonly type: 'outbox.claimed'
      readonly items: number
      readonly takeovers: number
      readonly claimMs: number
      readonly lagsMs: readonly number[]
    }
  /** A notification woke this worker. All notifications within the debounce time give one event. */
  | { readonly type: 'outbox.notified' }
  /** The connection for notifications opened or closed. Polling continues in both cases. */
  | { readonly type: 'outbox.listening'; readonly connected: boolean }
  /**
   * An item occupies one of its rail's slots from `dispatchStarted` to `dispatchFinished`, whether or not the rail is
   * called.
   */
  | {
      readonly type: 'outbox.dispatchStarted' | 'outbox.dispatchFinished'
      readonly railType: string
      readonly outboxId: string
    }
  /** A call of a rail ended, with or without an answer. */
  | {
      readonly type: 'outbox.called'
      readonly railType: string
      readonly outboxId: string
      readonly answer: 'success' | 'terminal' | 'retryable' | 'unknown' | 'notSent'
      readonly latencyMs: number
      /**
       * Error code, absent for a success. It is one of `RAIL_RESULT_CODES` if Symphony assigned the code, otherwise the
       * same text as `answer`.
       */
      readonly error?: string
    }
  /**
   * The rail answered with a code that its table does not list, or lists with another outcome. An operator should check
   * the table.
   */
  | { readonly type: 'outbox.unknownCode'; readonly railType: string; readonly outboxId: string; readonly code: string }
  /** The outcome of an attempt was recorded in the ledger. */
  | {
      readonly type: 'outbox.recorded'
      readonly railType: string
      readonly outboxId: string
      readonly state: AttemptState
      readonly held: boolean
      readonly attemptNo: number
      readonly sinceAcceptedMs: number
    }
  /** A repeated completion found the outcome of the same token in the ledger: the first answer was lost. */
  | {
      readonly type: 'outbox.alreadyRecorded'
      readonly railType: string
      readonly outboxId: string
      readonly state: AttemptState
      readonly sinceAcceptedMs: number
    }
  /**
   * The lease ended before the work: another worker may hold the item, or the item is terminal. This race is expected.
   * A definitive answer of the rail is saved as a late outcome.
   */
  | {
      readonly type: 'outbox.leaseLost'
      readonly outboxId: string
      readonly during: 'completion' | 'renewal' | 'dispatch'
    }
  /**
   * A late outcome was saved as evidence. `contradicts`: the late outcome differs from the recorded one, and an
   * operator must review both.
   */
  | { readonly type: 'outbox.lateOutcome'; readonly outboxId: string; readonly contradicts: boolean }
  /** The item was recorded as DISPATCHED, and a late outcome had reported a success under another rail reference. */
  | { readonly type: 'outbox.contradicted'; readonly railType: string; readonly outboxId: string }
  /** The unique index refused a second terminal outcome. */
  | { readonly type: 'outbox.terminalGuard'; readonly outboxId: string }
  /** The item is held: an operator must decide. */
  | { readonly type: 'outbox.held'; readonly railType: string; readonly outboxId: string; readonly reason: string }
  /** Unused leases were released, for example at a stop. */
  | { readonly type: 'outbox.released'; readonly items: number }
  /** The circuit breaker of a rail changed its state. */
  | { readonly type: 'outbox.breaker'; readonly railType: string; readonly state: BreakerState }
  /** The database's clock jumped against this process's. Claims pause until the leases of this worker have ended. */
  | { readonly type: 'outbox.clockJumped'; readonly byMs: number }
  /**
   * Dispatch is frozen: commits may have been lost, or an operator froze it. The relayer released its waiting items,
   * and claims nothing until the freeze is lifted.
   */
  | { readonly type: 'outbox.frozen'; readonly cause: FreezeCause; readonly reason: string; readonly since: Date }
  /** An operator lifted the freeze. */
  | { readonly type: 'outbox.freezeLifted' }
  /** An operation failed. `during` names the operation. */
  | { readonly type: 'outbox.fault'; readonly during: string; readonly error: unknown; readonly outboxId?: string }

export type OnRelayerEvent = (event: RelayerEvent) => void
