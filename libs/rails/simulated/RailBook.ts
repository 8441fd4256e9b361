/** Payments of the simulated rail, stored outside Symphony's database. Tests reconcile the ledger with it. */
export interface RailBook {
  /** Records a payment. Resolves only when the payment is on disk. */
  pay(payment: BookPayment, signal: AbortSignal): Promise<BookReceipt>
  /** Returns the rail's own reference of the first payment under Symphony's reference; undefined if there is none. */
  find(reference: string, signal: AbortSignal): Promise<string | undefined>
  /** Returns payments in the order of the book, from 0 or the `next` of an earlier page. */
  page(from: number, signal: AbortSignal): Promise<BookPage>
  close(): Promise<void>
}

export interface BookPage {
  readonly entries: readonly BookEntry[]
  /** Start of the next page; null after the last one. */
  readonly next: number | null
}

export interface BookEntry {
  readonly reference: string
  readonly railReference: string
  readonly amount: string | null
  readonly currency: string | null
  /** Time in ISO 8601. */
  readonly at: string
}

export interface BookPayment {
  /** Symphony's reference: the outbox id. */
  readonly reference: string
  readonly amount: string | null
  readonly currency: string | null
  /** Whether to pay at most once under this reference, as an idempotent rail does. */
  readonly once: boolean
  /** Time after which the request is refused. */
  readonly notAfter: Date
}

export type BookReceipt =
  | {
      readonly paid: true
      readonly railReference: string
      /** Whether the reference had already been paid, so that nothing was paid this time. */
      readonly repeated: boolean
    }
  /** The request arrived after `notAfter`. */
  | { readonly paid: false }
