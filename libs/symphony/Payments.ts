import { InvalidArgumentError, requireKnownOptions } from '../core/index.js'
import { requireTransaction, withSchema, type RoleHandle } from '../db/index.js'
import {
  cancelOutboxInstruction,
  cancelOutboxItem,
  readAttempts,
  readItemEvents,
  readItems,
  readItemViews,
  readOutboxStatus,
  searchItems,
  type CancelledItem,
  type ItemEvent,
  type ItemSearch,
  type ItemStatus,
  type ItemView,
  type LedgerAttempt,
  type OutboxStatus,
} from '../outbox/index.js'
import { requiredTx, type EnqueueOptions } from './options.js'

/** Outbox id or instruction id of a payment. */
export type PaymentKey = { readonly outboxId: string } | { readonly instructionId: string }

export type PaymentSearch = Partial<Omit<ItemSearch, 'before' | 'limit'>>

/** Attempt or event of a payment, as the ledger recorded it. */
export type PaymentEvent =
  | { readonly kind: 'attempt'; readonly at: Date; readonly attempt: LedgerAttempt }
  | { readonly kind: 'event'; readonly at: Date; readonly event: ItemEvent }

/** Payment to cancel, by its outbox id, or by its instruction id and key, and the reason. */
export type Cancellation = (
  | { readonly outboxId: string }
  | {
      readonly instructionId: string
      /** @default instructionId */
      readonly idempotencyKey?: string
    }
) & {
  /** Reason, recorded in the ledger for ever. */
  readonly reason: string
}

/**
 * Reads and cancels payments. To read, the login needs `symphony_readonly`. Payloads and lease tokens are never
 * returned.
 */
export class Payments {
  readonly #role: () => RoleHandle
  readonly #schema: string | undefined

  /**
   * @param role throws if there is no database. Only reads call it, so `cancel`, which uses the transaction of the
   *   caller, works without a database.
   */
  constructor(role: () => RoleHandle, schema?: string) {
    this.#role = role
    this.#schema = schema
  }

  get #readonly(): RoleHandle {
    return this.#role()
  }

  /**
   * Cancels a payment in your transaction, with which the cancellation is committed or rolled back. The transaction
   * needs `symphony_ingest` and READ COMMITTED. The payment ends FAILED with the error code CANCELLED. By instruction
   * id and key, cancels the newest item of the payment. Throws `NotCancellableError` if a call may have paid it or may
   * still pay it, or if it has ended.
   */
  async cancel(cancellation: Cancellation, options: EnqueueOptions): Promise<CancelledItem> {
    const tx = requiredTx(options, '{ tx } with the transaction to cancel in')
    requireTransaction(tx)
    requireKnownOptions(cancellation, CANCELLATION_FIELDS, 'cancellation.')
    requireOneKey(cancellation)
    // Must not await before the statement is sent. Otherwise a caller that forgot to await cancel() would send COMMIT
    // first.
    const role = this.#schema === undefined ? tx : withSchema(tx, this.#schema)
    const { reason } = cancellation
    if ('outboxId' in cancellation) return cancelOutboxItem(role, cancellation.outboxId, reason)
    const { instructionId, idempotencyKey = instructionId } = cancellation
    return cancelOutboxInstruction(role, instructionId, idempotencyKey, reason)
  }

  /** Returns the item with this outbox id, or the newest item of the instruction; undefined if there is none. */
  async get(key: PaymentKey): Promise<ItemStatus | undefined> {
    requireKnownOptions(key, ['outboxId', 'instructionId'], 'key.')
    requireOneKey(key)
    const [newest] = await readItems(this.#readonly, key)
    return newest
  }

  /** Returns all attempts and events of one item, oldest first. */
  async timeline({ outboxId }: { readonly outboxId: string }): Promise<PaymentEvent[]> {
    const [attempts, events] = await Promise.all([
      readAttempts(this.#readonly, outboxId),
      readItemEvents(this.#readonly, outboxId),
    ])
    return [
      ...attempts.map((attempt) => ({ kind: 'attempt' as const, at: attempt.completedAt ?? BEFORE_ALL, attempt })),
      ...events.map((event) => ({ kind: 'event' as const, at: event.createdAt, event })),
    ].toSorted((a, b) => a.at.getTime() - b.at.getTime())
  }

  /**
   * Returns matching payments, newest first; with the state FAILED, latest failure first. Without a filter: every
   * payment. To read fewer, leave the loop.
   */
  async *search(search: PaymentSearch = {}): AsyncIterable<ItemView> {
    // Refuses unknown filters, because a misspelt filter would find every payment.
    requireKnownOptions(search, PAYMENT_FILTERS)
    let before: string | undefined
    do {
      const place = before === undefined ? {} : { before }
      const page = await searchItems(this.#readonly, { ...search, limit: PAGE_LENGTH, ...place })
      yield* await readItemViews(this.#readonly, page.ids)
      before = page.next ?? undefined
    } while (before !== undefined)
  }

  /** Returns the counts and ages of the queue. */
  status(): Promise<OutboxStatus> {
    return readOutboxStatus(this.#readonly)
  }
}

function requireOneKey(key: PaymentKey): void {
  if ('outboxId' in key === 'instructionId' in key)
    throw new InvalidArgumentError('key', 'expected either outboxId or instructionId')
}

const CANCELLATION_FIELDS: readonly string[] = ['outboxId', 'instructionId', 'idempotencyKey', 'reason']

const PAYMENT_FILTERS: readonly string[] = Object.keys({
  state: true,
  kind: true,
  railType: true,
  participants: true,
  since: true,
  until: true,
  createdFrom: true,
  createdTo: true,
  errorCode: true,
  undecided: true,
  returned: true,
} satisfies Record<keyof PaymentSearch, true>)

/** Filters of a search that has a fixed state. */
export const FILTERS_OF_A_STATE = PAYMENT_FILTERS.filter((name) => name !== 'state' && name !== 'returned')

const PAGE_LENGTH = 100
const BEFORE_ALL = new Date(0)
