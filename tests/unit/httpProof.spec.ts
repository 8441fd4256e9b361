import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checkProof } from '../../libs/dashboard/data/ledgerProof.js'
import type { Proof } from '../../libs/http/index.js'
import { enqueuePaymentOutboxBatch, placeOutboxHold, resolveOutboxHold } from '../../libs/outbox/index.js'
import { loadRails, maskPayloadText } from '../../libs/rails/index.js'
import { openHttpFixture, problemOf, type HttpFixture } from '../support/httpFixture.js'
import { LedgerFixture } from '../support/ledgerFixture.js'
import {
  buildInstruction,
  claimOnly,
  complete,
  enqueue,
  enqueueAndFail,
  makeDueAndClaim,
  type Enqueued,
} from '../support/outboxItems.js'
import { createPerson, type Person } from '../support/outboxPeople.js'

/** Tests of GET /v1/outbox/{outboxId}/proof: its pages and their size. */

const PAGE_BYTES_MAX = 65_536
const MASKING = loadRails([
  {
    type: 'masking',
    onUnknown: 'resend',
    money: false,
    fields: { '/iban': 'masked' },
    dispatch: () => ({ outcome: 'terminal', code: 'NO' }),
  },
])

let ledger: LedgerFixture
let http: HttpFixture
let ann: Person
beforeAll(async () => {
  ledger = await LedgerFixture.open()
  ann = await createPerson(ledger.db, 'anna')
  http = await openHttpFixture(ledger.db, {
    api: {
      protection: {
        encrypt: async (_tx, instructions) => instructions,
        maskFor: async (_role, railType) => (text) => maskPayloadText(text, MASKING.get(railType)?.fields ?? []),
      },
    },
  })
})
afterAll(async () => {
  await http.close()
  await ledger.close()
})

/** Enqueues this many other items. */
async function fill(rows: number): Promise<void> {
  for (let left = rows; left > 0; left -= 1_000) {
    const instructions = Array.from({ length: Math.min(left, 1_000) }, () => buildInstruction())
    await enqueuePaymentOutboxBatch(ledger.db.as('symphony_ingest'), instructions)
  }
}

/** Seals a block of more than 128 rows, so that the proof of a row has three groups of up to four hashes. */
async function sealWithOthers(): Promise<void> {
  await fill(130)
  await ledger.sealAll(10_000)
}

/** Enqueues a payment with one attempt and this many events, each in its own transaction. */
async function enqueueWithEvents(
  events: number,
  { reason = 'wait', afterEach = async () => {} }: { reason?: string; afterEach?: () => Promise<void> } = {},
): Promise<Enqueued> {
  const item = await enqueueAndFail(ledger.db, 1)
  for (let number = 1; number <= events; number += 1) {
    if (number % 2 === 1) await placeOutboxHold(ann.control, item.outboxId, reason)
    else await resolveOutboxHold(ann.control, item.outboxId, 'RETRY', reason)
    await afterEach()
  }
  return item
}

interface Pages {
  readonly joined: Proof
  readonly sizes: readonly number[]
}

/** Reads all pages and joins them as the dashboard does. */
async function pagesOf(outboxId: string, query = ''): Promise<Pages> {
  const pages: Proof[] = []
  const sizes: number[] = []
  for (let cursor = ''; ;) {
    const response = await http.call(`/v1/outbox/${outboxId}/proof?${query}${cursor}`)
    const text = await response.text()
    expect([response.status, text]).toEqual([200, text])
    const page: Proof = JSON.parse(text)
    pages.push(page)
    sizes.push(Buffer.byteLength(text))
    if (page.next === null) break
    cursor = `&cursor=${page.next}`
  }
  const blocks = new Map(pages.flatMap((page) => page.blocks.map((block) => [block.no, block] as const)))
  return {
    joined: { outboxId, rows: pages.flatMap(({ rows }) => rows), blocks: [...blocks.values()], next: null },
    sizes,
  }
}

async function expectSound({ joined }: Pages, rows: number): Promise<void> {
  const checked = await checkProof(joined)
  expect([checked.length, checked.filter(({ defect, block }) => defect !== undefined || block === null)]).toEqual([
    rows,
    [],
  ])
}

describe('GET /v1/outbox/{outboxId}/proof', () => {
  test('splits a proof of 20 attempts, 20 events and 39 blocks into pages of at most 64 KiB', async () => {
    const item = await enqueueWithEvents(20, { afterEach: sealWithOthers })
    for (let number = 2; number <= 20; number += 1) {
      await complete(ledger.db, await makeDueAndClaim(ledger.db, item), { state: 'RETRYABLE', errorCode: 'BUSY' })
      await sealWithOthers()
    }
    const pages = await pagesOf(item.outboxId)
    await expectSound(pages, 41)
    expect(pages.joined.blocks.length).toBe(39)
    expect(pages.sizes.length).toBe(2)
    expect(Math.max(...pages.sizes)).toBeLessThan(PAGE_BYTES_MAX)
  })

  test('returns less than 8 KiB for two rows in blocks of 10,000 rows', async () => {
    const item = await enqueue(ledger.db)
    await fill(9_999)
    expect(await ledger.seal(10_000)).toEqual([10_000])
    await complete(ledger.db, await claimOnly(ledger.db, item.railType), { state: 'DISPATCHED', railReference: 'TX-1' })
    await fill(9_999)
    expect(await ledger.seal(10_000)).toEqual([10_000])
    const pages = await pagesOf(item.outboxId)
    await expectSound(pages, 2)
    expect(pages.joined.blocks.length).toBe(2)
    expect(pages.sizes.length).toBe(1)
    expect(pages.sizes[0]).toBeLessThan(8_192)
  })

  test('returns one row per page for large payloads', async () => {
    const item = await enqueueAndFail(ledger.db, 3, { payload: { note: 'x'.repeat(60_000) } })
    await ledger.sealAll()
    const pages = await pagesOf(item.outboxId)
    await expectSound(pages, 4)
    expect(pages.sizes.length).toBe(4)
  })

  test('counts bytes, not characters, of masked payloads towards the page size', async () => {
    const payload = { iban: 'DE89370400440532013000', note: '€'.repeat(9_000) }
    const item = await enqueueAndFail(ledger.db, 4, { railType: 'masking', payload })
    const { joined, sizes } = await pagesOf(item.outboxId)
    expect([joined.rows.length, sizes.length]).toEqual([5, 2])
    expect(Math.max(...sizes)).toBeLessThan(PAGE_BYTES_MAX)
  })

  test('counts the headers of ledger blocks towards the page size', async () => {
    // A page of these rows fits into 64 KiB only without the headers of their blocks.
    const item = await enqueueWithEvents(40, { reason: 'x'.repeat(1_000) })
    await ledger.sealAll(1)
    const pages = await pagesOf(item.outboxId)
    await expectSound(pages, 42)
    expect(Math.max(...pages.sizes)).toBeLessThan(PAGE_BYTES_MAX)
  })

  test.each([
    [32, 1],
    [33, 2],
    [64, 2],
    [65, 3],
  ])('splits %i small rows into %i pages', async (rows, pages) => {
    const item = await enqueueWithEvents(rows - 2)
    const { joined, sizes } = await pagesOf(item.outboxId)
    expect([joined.rows.length, sizes.length]).toEqual([rows, pages])
  })

  test.each([
    ['text that no list returned', 'made-up'],
    ['the cursor of another list', cursorOf('outbox', '01981f0e-0000-7000-8000-000000000000')],
    ['a row of an unknown kind', cursorOf('proof', 'block', '1')],
    ['an attempt that does not exist', cursorOf('proof', 'attempt', '7')],
    ['a number that is too large', cursorOf('proof', 'event', '999999999999999999')],
    ['a number below zero', cursorOf('proof', 'attempt', '-1')],
  ])('refuses a cursor that this list did not return (INVALID_QUERY): %s', async (_what, cursor) => {
    const { outboxId } = await enqueueAndFail(ledger.db, 1)
    const problem = await problemOf(await http.call(`/v1/outbox/${outboxId}/proof?cursor=${cursor}`))
    expect(problem).toMatchObject({ status: 400, code: 'INVALID_QUERY', argument: 'cursor' })
  })

  test('returns no rows after the last row', async () => {
    const { outboxId } = await enqueueAndFail(ledger.db, 1)
    const response = await http.call(`/v1/outbox/${outboxId}/proof?cursor=${cursorOf('proof', 'attempt', '1')}`)
    expect(JSON.parse(await response.text())).toEqual({ outboxId, rows: [], blocks: [], next: null })
  })
})

function cursorOf(...words: readonly string[]): string {
  return Buffer.from(JSON.stringify(words)).toString('base64url')
}
