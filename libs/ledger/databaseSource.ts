import type { Queryable } from '../db/index.js'
import type { Block, Position } from './blocks.js'
import type { LedgerRow, Link } from './chain.js'
import {
  countRows,
  readAttemptLinks,
  readBlockPage,
  readEventLinks,
  readIdentityLinks,
  readIdentityLinksOf,
  readOrphanLinks,
} from './db.js'
import type { ChainSubjects, LedgerSource } from './LedgerSource.js'
import { RowStream } from './RowStream.js'

/**
 * The ledger in its database, page by page, so that one of any size is read in the same memory. Reads as symphony_auditor. It
 * promises nothing about what is written meanwhile: for one moment of a busy ledger, give it a transaction with a snapshot.
 */
export function databaseSource(role: Queryable): LedgerSource {
  return new DatabaseSource(role)
}

class DatabaseSource implements LedgerSource {
  readonly #role: Queryable
  /** The last row of the blocks that are known: rows are read ahead up to here, because what is sealed is there to be read. */
  #horizon: Position | undefined
  #sealed: RowStream | undefined

  constructor(role: Queryable) {
    this.#role = role
  }

  count(): Promise<number> {
    return countRows(this.#role)
  }

  async *blocks(afterNo: bigint): AsyncGenerator<Block> {
    for (let after = afterNo; ;) {
      const page = await readBlockPage(this.#role, after, BLOCKS_PER_PAGE)
      const last = page.at(-1)
      this.#horizon = last?.last
      yield* page
      if (last === undefined || page.length < BLOCKS_PER_PAGE) return
      after = last.no
    }
  }

  rowsBetween(after: Position | null, last: Position): AsyncGenerator<readonly LedgerRow[]> {
    if (this.#sealed?.standsAt(after) !== true) this.#sealed = new RowStream(this.#role, after)
    return this.#sealed.upTo(last, this.#horizon)
  }

  openRows(after: Position | null): AsyncGenerator<readonly LedgerRow[]> {
    return new RowStream(this.#role, after).upTo(null)
  }

  async *links(of?: ChainSubjects): AsyncGenerator<Link> {
    if (of === undefined) {
      yield* this.#itemLinks()
      yield* await readOrphanLinks(this.#role, LINKS_PER_PAGE)
    } else {
      const items = [...of.items]
      for (let at = 0; at < items.length; at += LINKS_PER_PAGE) {
        yield* await this.#linksOfItems(items.slice(at, at + LINKS_PER_PAGE))
      }
    }
    const subjects = of === undefined ? null : [...of.events]
    if (subjects?.length === 0) return
    for (let last: Link | undefined; ;) {
      const page: Link[] = await readEventLinks(this.#role, subjects, last, LINKS_PER_PAGE)
      yield* page
      if (page.length < LINKS_PER_PAGE) return
      last = page.at(-1)
    }
  }

  async *#itemLinks(): AsyncGenerator<Link> {
    for (let afterId: string | null = null; ;) {
      const identities: Link[] = await readIdentityLinks(this.#role, afterId, LINKS_PER_PAGE)
      const ids = identities.map(({ subject }) => subject)
      yield* inChains(identities, await readAttemptLinks(this.#role, ids))
      if (identities.length < LINKS_PER_PAGE) return
      afterId = ids.at(-1) ?? null
    }
  }

  /** Also those of items that have attempts and no identity. */
  async #linksOfItems(ids: readonly string[]): Promise<Link[]> {
    return [...inChains(await readIdentityLinksOf(this.#role, ids), await readAttemptLinks(this.#role, ids))]
  }
}

/** Both by subject, and as one: an identity before the attempts of its item. */
function* inChains(identities: readonly Link[], attempts: readonly Link[]): Generator<Link> {
  let next = 0
  for (const identity of identities) {
    while (next < attempts.length && attempts[next]!.subject < identity.subject) yield attempts[next++]!
    yield identity
    while (attempts[next]?.subject === identity.subject) yield attempts[next++]!
  }
  yield* attempts.slice(next)
}

const BLOCKS_PER_PAGE = 10
const LINKS_PER_PAGE = 2_000
