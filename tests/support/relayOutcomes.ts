/** Outcome of a payment in the ledger, in the rail book and in the adapters. */
export interface RelayOutcome {
  /** `DISPATCHED by first`; inquiries that came too early to be believed are left out. */
  readonly attempts: readonly string[]
  /** The workers that called the rail, once for each call. */
  readonly calls: readonly string[]
  /** How often the rail moved the money. */
  readonly paid: number
  /** Why it is held, and whether its outcome counts as unknown; undefined when it has ended. */
  readonly pending: { readonly hold_reason: string | null; readonly outcome_unknown: boolean } | undefined
}

/** The first worker dispatched the payment, once. */
export const DISPATCHED_ONCE: RelayOutcome = {
  attempts: ['DISPATCHED by first'],
  calls: ['first'],
  paid: 1,
  pending: undefined,
}

/** The first worker lost it, the second sent it again: under the same reference, where that had been paid already. */
export const SENT_AGAIN: RelayOutcome = {
  attempts: ['ZOMBIE_REQUEUE by first', 'DISPATCHED by second'],
  calls: ['first', 'second'],
  paid: 1,
  pending: undefined,
}

/** The first worker lost it before it had called the rail. */
export const SENT_BY_SECOND: RelayOutcome = { ...SENT_AGAIN, calls: ['second'] }

/** The first worker lost it after the rail had paid; the second was told so by the rail and sent nothing. */
export const FOUND_BY_INQUIRY: RelayOutcome = { ...SENT_AGAIN, calls: ['first'] }

/** The first worker lost it, nobody can say what the rail did, and nobody but a person may go on. */
export const HELD: RelayOutcome = {
  attempts: ['ZOMBIE_REQUEUE by first'],
  calls: ['first'],
  paid: 1,
  pending: { hold_reason: 'OUTCOME_UNKNOWN', outcome_unknown: true },
}
