/** Outcome of a payment in the ledger, in the rail book and in the adapters. */
export interface RelayOutcome {
  /**
   * Attempts such as `DISPATCHED by first`. Attempts with the code INQUIRY_TOO_EARLY are omitted, because their number
   * depends on timing.
   */
  readonly attempts: readonly string[]
  /** Workers that called the rail, one entry per call. */
  readonly calls: readonly string[]
  /** Number of payments by the rail. */
  readonly paid: number
  /** Hold reason and unknown outcome. Undefined for a terminal item. */
  readonly pending: { readonly hold_reason: string | null; readonly outcome_unknown: boolean } | undefined
}

/** The first worker dispatched the payment, once. */
export const DISPATCHED_ONCE: RelayOutcome = {
  attempts: ['DISPATCHED by first'],
  calls: ['first'],
  paid: 1,
  pending: undefined,
}

/** The first worker lost its lease, and the second sent the payment again under the same reference. */
export const SENT_AGAIN: RelayOutcome = {
  attempts: ['ZOMBIE_REQUEUE by first', 'DISPATCHED by second'],
  calls: ['first', 'second'],
  paid: 1,
  pending: undefined,
}

/** The first worker lost its lease before it called the rail. */
export const SENT_BY_SECOND: RelayOutcome = { ...SENT_AGAIN, calls: ['second'] }

/** The first worker lost its lease after the rail paid. The second inquired and sent nothing. */
export const FOUND_BY_INQUIRY: RelayOutcome = { ...SENT_AGAIN, calls: ['first'] }

/** The first worker lost its lease. The outcome is unknown, and people must decide. */
export const HELD: RelayOutcome = {
  attempts: ['ZOMBIE_REQUEUE by first'],
  calls: ['first'],
  paid: 1,
  pending: { hold_reason: 'OUTCOME_UNKNOWN', outcome_unknown: true },
}
