/**
 * What the simulated rail paid, in a place that Symphony's database knows nothing of: the truth that every proof is
 * reconciled with.
 */
export interface RailBook {
  /** Resolves when the payment is on disk, and not before. */
  pay(payment: BookPayment, signal: AbortSignal): Promise<BookReceipt>
  /** The rail's own reference of what was paid under ours. */
  find(reference: string, signal: AbortSignal): Promise<string | undefined>
  close(): Promise<void>
}

export interface BookPayment {
  /** Symphony's: the outbox id. */
  readonly reference: string
  readonly amount: string | null
  readonly currency: string | null
  /** Pay at most once under this reference: what it means for a rail to be idempotent. */
  readonly once: boolean
  /** A request that arrives later is refused. */
  readonly notAfter: Date
}

export type BookReceipt =
  | {
      readonly paid: true
      readonly railReference: string
      /** It had been paid before; nothing moved this time. */
      readonly repeated: boolean
    }
  /** It arrived after `notAfter`. */
  | { readonly paid: false }
