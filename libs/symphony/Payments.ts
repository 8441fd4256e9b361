import { InvalidArgumentError, requireKnownOptions } from '../core/index.js'
import type { RoleHandle } from '../db/index.js'
import {
  readAttempts,
  readItemEvents,
  readItems,
  readItemViews,
  readOutboxStatus,
  searchItems,
  type ItemEvent,
  type ItemSearch,
  type ItemStatus,
  type ItemView,
  type LedgerAttempt,
  type OutboxStatus,
} from '../outbox/index.js'

/** Outbox id or instruction id of a payment. */
export type PaymentKey = { readonly outboxId: string } | { readonly instructionId: string }

export type PaymentSearch = Partial<Omit<ItemSearch, 'before'>>

/** Attempt or event of a payment, as the ledger recorded it. */
export type PaymentEvent =
  | { readonly kind: 'attempt'; readonly at: Date; readonly attempt: LedgerAttempt }
  | { readonly kind: 'event'; readonly at: Date; readonly event: ItemEvent }

/** Reads payments. The login needs `symphony_readonly`. Payloads and lease tokens are never returned. */
export class Payments {
  readonly #readonly: RoleHandle

  constructor(readonly: RoleHandle) {
    this.#readonly = readonly
  }

  /** Returns the newest item of the payment; undefined if the database does not know it. */
  async get(key: PaymentKey): Promise<ItemStatus | undefined> {
    if ('outboxId' in key === 'instructionId' in key)
      throw new InvalidArgumentError('key', 'expected either outboxId or instructionId')
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

  /** Returns matching payments, newest first, page by page. Without a filter: every payment. */
  async *search(search: PaymentSearch = {}): AsyncIterable<ItemView> {
    // Refuses unknown filters, because a misspelt filter would find every payment.
    requireKnownOptions(search, PAYMENT_FILTERS)
    const { limit = PAGE_LENGTH, ...filter } = search
    let before: string | undefined
    do {
      const page = await searchItems(this.#readonly, { ...filter, limit, ...(before === undefined ? {} : { before }) })
      yield* await readItemViews(this.#readonly, page.ids)
      before = page.next ?? undefined
    } while (before !== undefined)
  }

  /** Returns the counts and ages of the queue. */
  status(): Promise<OutboxStatus> {
    return readOutboxStatus(this.#readonly)
  }
}

/** Filters of a search. */
const PAYMENT_FILTERS: readonly string[] = Object.keys({
  state: true,
  railType: true,
  participants: true,
  since: true,
  until: true,
  errorCode: true,
  undecided: true,
  returned: true,
  limit: true,
} satisfies Record<keyof PaymentSearch, true>)

/** Filters of a search that has a fixed state. */
export const FILTERS_OF_A_STATE = PAYMENT_FILTERS.filter((name) => name !== 'state' && name !== 'returned')

const PAGE_LENGTH = 100
const BEFORE_ALL = new Date(0)
