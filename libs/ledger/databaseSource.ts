import type { Queryable } from '../db/index.js'
import { KINDS, type Block, type Position } from './blocks.js'
import type { LedgerRow, RowKind } from './chain.js'
import {
  countRows,
  readAttemptLinks,
  readBlockPage,
  readEventLinks,
  readIdentityLinks,
  readOpenRowPage,
  readOrphanLinks,
  readRowKeys,
  readRowsById,
} from './db.js'
import type { LedgerSource, Link } from './LedgerSource.js'

/**
 * The ledger in its database, page by page, so that one of any size is read in the same memory. Reads as symphony_auditor. It
 * promises nothing about what is written meanwhile: for one moment of a busy ledger, give it a transaction with a snapshot.
 */
export function databaseSource(role: Queryable): LedgerSource {
  return {
    count: () => countRows(role),
    blocks: (afterNo) => blocks(role, afterNo),
    rowsBetween: (after, last) => rowsBetween(role, after, last),
    openRows: (after) => openRows(role, after),
    links: () => links(role),
  }
}

async function* blocks(role: Queryable, afterNo: bigint): AsyncGenerator<Block> {
  for (let after = afterNo; ;) {
    const page = await readBlockPage(role, after, BLOCKS_PER_PAGE)
    yield* page
    const last = page.at(-1)
    if (last === undefined || page.length < BLOCKS_PER_PAGE) return
    after = last.no
  }
}

/** First which rows there are, in order, then their contents a few at a time: a block's payloads may be more than fit. */
async function* rowsBetween(role: Queryable, after: Position | null, last: Position): AsyncGenerator<LedgerRow> {
  const keys = await readRowKeys(role, after, last)
  for (let at = 0; at < keys.length; at += ROWS_PER_PAGE) {
    const page = keys.slice(at, at + ROWS_PER_PAGE)
    const rows = new Map<string, LedgerRow>()
    for (const kind of KINDS) {
      for (const row of await readRowsById(role, kind, idsOf(page, kind))) rows.set(`${kind} ${row.id}`, row)
    }
    for (const { kind, id } of page) {
      const row = rows.get(`${kind} ${id}`)
      if (row !== undefined) yield row
    }
  }
}

function idsOf(keys: readonly { readonly kind: RowKind; readonly id: string }[], kind: RowKind): string[] {
  return keys.filter((key) => key.kind === kind).map(({ id }) => id)
}

async function* openRows(role: Queryable, after: Position | null): AsyncGenerator<LedgerRow> {
  for (const kind of KINDS) {
    for (let afterId: string | null = null; ;) {
      const page: LedgerRow[] = await readOpenRowPage(role, kind, after, afterId, ROWS_PER_PAGE)
      yield* page
      if (page.length < ROWS_PER_PAGE) break
      afterId = page.at(-1)?.id ?? null
    }
  }
}

async function* links(role: Queryable): AsyncGenerator<Link> {
  yield* itemLinks(role)
  yield* await readOrphanLinks(role, LINKS_PER_PAGE)
  let last: Link | undefined
  for (;;) {
    const page = await readEventLinks(role, last, LINKS_PER_PAGE)
    yield* page
    if (page.length < LINKS_PER_PAGE) return
    last = page.at(-1)
  }
}

async function* itemLinks(role: Queryable): AsyncGenerator<Link> {
  for (let afterId: string | null = null; ;) {
    const identities: Link[] = await readIdentityLinks(role, afterId, LINKS_PER_PAGE)
    const ids = identities.map(({ subject }) => subject)
    const attempts = (await readAttemptLinks(role, ids))[Symbol.iterator]()
    let next = attempts.next()
    for (const identity of identities) {
      yield identity
      for (; next.done !== true && next.value.subject === identity.subject; next = attempts.next()) yield next.value
    }
    if (identities.length < LINKS_PER_PAGE) return
    afterId = ids.at(-1) ?? null
  }
}

const BLOCKS_PER_PAGE = 10
const ROWS_PER_PAGE = 500
const LINKS_PER_PAGE = 2_000
