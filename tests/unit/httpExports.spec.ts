import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { ApiKeys } from '../../libs/access/index.js'
import { csvRecord } from '../../libs/core/index.js'
import { call } from '../../libs/db/index.js'
import type { HoldPage, Identity, OutboxPage } from '../../libs/http/index.js'
import { OneAtATime } from '../../libs/http/OneAtATime.js'
import {
  cancelOutboxItem,
  enqueuePaymentOutboxBatch,
  placeOutboxHold,
  recordOutboxReturn,
  type StatementLine,
} from '../../libs/outbox/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { useTestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { createKey, openHttpFixture, problemOf } from '../support/httpFixture.js'
import { buildInstruction, claimOnly, complete, enqueue } from '../support/outboxItems.js'
import { createPerson } from '../support/outboxPeople.js'

const db = await useTestDatabase()
const fixture = closeAfterAll(await openHttpFixture(db))

/** Number of rows of the exported list: more than two pages of 500. */
const ROWS = 1_001
const RAIL = 'exported'
beforeAll(async () => {
  const batch = Array.from({ length: ROWS }, (_, index) =>
    buildInstruction({
      railType: RAIL,
      participantId: index % 2 === 0 ? 'even' : 'odd',
      payload: { amount: `${index}.50`, currency: 'EUR', destination: 'DE89370400440532013000' },
    }),
  )
  for (const part of [batch.slice(0, 500), batch.slice(500)]) {
    await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), part)
  }
})

async function textAt(path: string, headers: Record<string, string> = {}): Promise<string> {
  const response = await fixture.call(path, { headers })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${path}: ${text}`)
  return text
}

async function listed(path: string): Promise<OutboxPage['items']> {
  const items: OutboxPage['items'][number][] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const page: OutboxPage = JSON.parse(await textAt(`${path}&limit=500${cursor === '' ? '' : `&cursor=${cursor}`}`))
    items.push(...page.items)
    cursor = page.next
  }
  return items
}

/** Reads CSV by RFC 4180, as records of cells by column. */
function recordsOf(csv: string): Record<string, string>[] {
  const rows: string[][] = [[]]
  for (const [, quoted, plain, end] of csv.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|$)/g)) {
    rows.at(-1)!.push(quoted?.replaceAll('""', '"') ?? plain ?? '')
    if (end === '\r\n') rows.push([])
  }
  const [columns = [], ...records] = rows.filter((row) => row.length > 1)
  return records.map((cells) => Object.fromEntries(columns.map((column, index) => [column, cells[index] ?? ''])))
}

describe('an export of a list over HTTP', () => {
  test('has the rows and values of all pages of the list, as NDJSON and as CSV', async () => {
    const items = await listed(`/v1/outbox?rail=${RAIL}`)
    expect(items).toHaveLength(ROWS)
    const lines = (await textAt(`/v1/outbox?rail=${RAIL}&format=ndjson`)).trimEnd().split('\n')
    expect(lines.map((line): unknown => JSON.parse(line))).toEqual(items)
    const response = await fixture.call(`/v1/outbox?rail=${RAIL}&format=csv`)
    expect(response.headers.get('content-type')).toBe('text/csv; charset=utf-8')
    expect(response.headers.get('content-disposition')).toBe('attachment; filename="outbox.csv"')
    const records = recordsOf(await response.text())
    expect(records.map(({ outboxId, amount }) => [outboxId, amount])).toEqual(
      items.map(({ outboxId, amount }) => [outboxId, amount]),
    )
    expect(records[0]).toMatchObject({
      currency: 'EUR',
      destinationWithheld: 'undeclared',
      returned: 'false',
      heldBy: '',
    })
  })

  test('exists for every list; its CSV header includes the columns of nested values', async () => {
    const lists = fixture.routes.filter(({ query }) => query !== undefined && 'limit' in query.properties)
    expect(lists.map(({ path }) => path)).toEqual(
      expect.arrayContaining(['/v1/outbox', '/v1/dlq', '/v1/holds', '/v1/inbox', '/v1/findings']),
    )
    for (const { path } of lists.filter((route) => !route.path.includes('{'))) {
      const [header = ''] = (await textAt(`${path}?format=csv`)).split('\r\n')
      expect([path, header]).toEqual([path, expect.stringMatching(/^[\w.]+(?:,[\w.]+)+$/)])
      const head = await fixture.call(`${path}?format=csv`, { method: 'HEAD' })
      expect([path, head.status, await head.text()]).toEqual([path, 200, ''])
    }
    expect(await textAt('/v1/holds?format=csv')).toContain('item.amount,')
    expect(await textAt('/v1/holds?format=csv')).toContain('proposal.proposalId,')
  })

  test('quotes special characters in CSV, and puts an apostrophe before text like a formula', async () => {
    const { control } = await createPerson(db, 'alice')
    const reasons = ['=HYPERLINK("http://x";"y")', '+1', '-1', '@SUM(1)', 'a "quoted", line', 'two\nlines', 'größer ✓']
    for (const reason of reasons) {
      const { outboxId } = await enqueue(db, { railType: 'formulas' })
      await placeOutboxHold(control, outboxId, reason)
    }
    const csv = await textAt('/v1/holds?rail=formulas&format=csv')
    const cells = recordsOf(csv).map((record) => record['item.holdReason'])
    expect(cells.toReversed()).toEqual(reasons.map((reason) => (/^[=+\-@]/.test(reason) ? `'${reason}` : reason)))
    const lines = (await textAt('/v1/holds?rail=formulas&format=ndjson')).trimEnd().split('\n')
    const held = lines.map((line): HoldPage['items'][number] => JSON.parse(line))
    expect(held.map(({ item }) => item.holdReason).toReversed()).toEqual(reasons)
    expect(csvRecord(['\tx', '\rx', '＝1', -5, null, [1, 'a'], { b: 2 }, 'a;b', 'plain 1'])).toBe(
      `"'\tx","'\rx","'＝1",-5,,"[1,""a""]","{""b"":2}","a;b",plain 1`,
    )
  })

  test('has only the rows of the participants to which its key is restricted', async () => {
    const { key } = await createKey(db, { owner: 'shop', scopes: ['read'], participants: ['odd'] })
    const text = await textAt(`/v1/outbox?rail=${RAIL}&format=csv`, { authorization: `Bearer ${key}` })
    expect([...new Set(recordsOf(text).map(({ participantId }) => participantId))]).toEqual(['odd'])
    expect(recordsOf(text)).toHaveLength(500)
  })

  test.each(['cursor=abc', 'limit=10'])(
    'takes no paging parameter: %s is refused (INVALID_QUERY)',
    async (parameter) => {
      expect(await problemOf(await fixture.call(`/v1/outbox?format=csv&${parameter}`))).toMatchObject({
        code: 'INVALID_QUERY',
        argument: parameter.split('=')[0],
      })
      expect(await problemOf(await fixture.call('/v1/outbox?format=xlsx'))).toMatchObject({ argument: 'format' })
      expect(await problemOf(await fixture.call('/v1/outbox?format=csv&state=NONE'))).toMatchObject({
        argument: 'state',
      })
    },
  )
})

/** Opens a server on which the second search waits until the test lets it continue. */
async function openWaiting(options: Parameters<typeof openHttpFixture>[1] = {}) {
  const readonly = db.as('symphony_readonly')
  const second = gate()
  const counts = { searches: 0 }
  const query: typeof readonly.query = async (text, values) => {
    if (text.includes('FROM (SELECT') && text.includes('ORDER BY s.place')) {
      counts.searches += 1
      if (counts.searches === 2) await second.opened
    }
    return readonly.query(text, values)
  }
  const server = await openHttpFixture(db, { ...options, roles: { readonly: { ...readonly, query } } })
  onTestFinished(async () => {
    second.open()
    await server.close()
  })
  return { server, second, counts }
}

describe('a running export', () => {
  const path = `/v1/outbox?rail=${RAIL}&format=ndjson`

  test('blocks a second export with the same key (429) until the first client disconnects', async () => {
    const { server, second, counts } = await openWaiting()
    const left = new AbortController()
    const first = await fetch(`${server.address}${path}`, {
      headers: { authorization: 'Bearer token-of-the-tests' },
      signal: left.signal,
    })
    expect(first.status).toBe(200)
    await expect.poll(() => counts.searches).toBe(2)
    const refused = await server.call(path)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '5'])
    const { key } = await createKey(db, { owner: 'other', scopes: ['read'] })
    const other = await server.call(path, { headers: { authorization: `Bearer ${key}` } })
    expect((await other.text()).trimEnd().split('\n')).toHaveLength(ROWS)
    expect(counts.searches).toBe(5)
    left.abort()
    await expect(first.text()).rejects.toThrow('aborted')
    second.open()
    await expect.poll(async () => (await server.call(path, { method: 'HEAD' })).status).toBe(200)
    const searches = counts.searches
    expect((await (await server.call(path)).text()).trimEnd().split('\n')).toHaveLength(ROWS)
    // The new export has read three pages, and the abandoned export no further page.
    expect(counts.searches).toBe(searches + 3)
  })

  test('is aborted when its key is revoked, so that the client sees a truncated file', async () => {
    const clock = { ms: 0, now: () => new Date(clock.ms), monotonicMs: () => clock.ms }
    const { server, second, counts } = await openWaiting({ clock })
    const { key, keyId } = await createKey(db, { owner: 'leaver', scopes: ['read'] })
    const response = await server.call(path, { headers: { authorization: `Bearer ${key}` } })
    await expect.poll(() => counts.searches).toBe(2)
    await new ApiKeys(db).revoke({ keyId })
    clock.ms += 5_000
    second.open()
    await expect(response.text()).rejects.toThrow('terminated')
    expect(counts.searches).toBe(2)
  })
})

function caller(owner: string): Identity {
  const access = { scopes: ['read'], participants: null, apiKey: null, expiresAt: null } as const
  return { via: 'token', owner, keyScope: owner, ...access }
}

test('OneAtATime refuses a caller above its maximum (RATE_LIMITED) until another caller ends', () => {
  const exports = new OneAtATime('export', 2)
  const ends = ['one', 'two'].map((owner) => exports.begin(caller(owner)))
  expect(() => exports.begin(caller('three'))).toThrow(expect.objectContaining({ code: 'RATE_LIMITED' }))
  ends[0]!()
  exports.begin(caller('three'))
  expect(() => exports.begin(caller('one'))).toThrow(expect.objectContaining({ code: 'RATE_LIMITED' }))
})

const end = async (rail: string, state: 'DISPATCHED' | 'FAILED') =>
  complete(db, await claimOnly(db, rail), {
    state,
    ...(state === 'FAILED' ? { errorCode: 'REFUSED' } : { railReference: `TX-${rail}` }),
  })
const now = async () => {
  const { rows } = await db.queryNoRole<{ at: Date }>('SELECT clock_timestamp() AS at FROM pg_sleep(0.005)')
  return rows[0]!.at
}

function statementAt(name: string, period = 'from=2026-01-01&to=2026-02-01'): string {
  return `/v1/participants/${name}/statement?${period}`
}

describe('a statement of a participant', () => {
  const participantId = 'planted'
  const pay = async (amount: string, currency: string, state: 'DISPATCHED' | 'FAILED' | 'none' = 'none') => {
    const item = await enqueue(db, { participantId, payload: { amount, currency, destination: 'account-1' } })
    if (state !== 'none') await end(item.railType, state)
    return item
  }

  test('has the payments and returns of the period, and its sums equal the ledger', async () => {
    const early = await pay('100.00', 'EUR', 'DISPATCHED')
    const carried = await pay('7.25', 'EUR')
    await pay('1', 'JPY', 'FAILED')
    const from = await now()
    await end(carried.railType, 'DISPATCHED')
    await pay('0.10', 'EUR', 'DISPATCHED')
    await pay('0.20', 'EUR', 'DISPATCHED')
    await pay('500', 'JPY', 'FAILED')
    const open = await pay('9.99', 'EUR')
    const cancelled = await pay('3.00', 'EUR')
    await cancelOutboxItem(db.as('symphony_ingest'), cancelled.outboxId, 'not needed')
    const { control } = await createPerson(db, 'bob')
    const back = { outboxId: early.outboxId, amount: '40.00', currency: 'EUR', code: 'AC04', reference: 'RT-1' }
    await recordOutboxReturn(control, back)
    const to = await now()
    await end(open.railType, 'DISPATCHED')
    await pay('77', 'EUR', 'DISPATCHED')
    await recordOutboxReturn(control, { ...back, amount: '1.00', reference: 'RT-2' })

    const path = `/v1/participants/${participantId}/statement?from=${from.toISOString()}&to=${to.toISOString()}`
    const lines = (await textAt(`${path}&format=ndjson`)).trimEnd().split('\n')
    const statement = lines.map((line): StatementLine => JSON.parse(line))
    const own = statement.filter(({ outboxId }) => outboxId !== null)
    expect(own.map(({ type, state, amount }) => [type, state, amount])).toEqual([
      ['return', 'RETURNED', '40.00'],
      ['payment', 'DISPATCHED', '7.25'],
      ['payment', 'DISPATCHED', '0.10'],
      ['payment', 'DISPATCHED', '0.20'],
      ['payment', 'FAILED', '500'],
      ['payment', 'PENDING', '9.99'],
      ['payment', 'CANCELLED', '3.00'],
    ])
    const sums = statement.filter(({ outboxId }) => outboxId === null)
    expect(sums.map(({ type, state, currency, count, amount }) => [type, state, currency, count, amount])).toEqual([
      ['opening', null, 'EUR', 1, '7.25'],
      ['created', null, 'EUR', 4, '13.29'],
      ['created', null, 'JPY', 1, '500'],
      ['total', 'CANCELLED', 'EUR', 1, '3.00'],
      ['total', 'DISPATCHED', 'EUR', 3, '7.55'],
      ['total', 'FAILED', 'JPY', 1, '500'],
      ['total', 'PENDING', 'EUR', 1, '9.99'],
      ['total', 'RETURNED', 'EUR', 1, '40.00'],
      ['closing', null, 'EUR', 1, '9.99'],
    ])
    const { rows } = await db.queryNoRole(
      `SELECT count(*)::int AS count, sum((payload ->> 'amount')::numeric)::text AS amount FROM payment_outbox_attempts
       WHERE participant_id = $1 AND state = 'DISPATCHED' AND completed_at >= $2 AND completed_at < $3`,
      [participantId, from, to],
    )
    expect(sums).toContainEqual(expect.objectContaining({ type: 'total', state: 'DISPATCHED', ...rows[0] }))
    const csv = recordsOf(await textAt(path))
    expect(csv.map(({ type, amount }) => [type, amount])).toEqual(statement.map(({ type, amount }) => [type, amount]))
  })

  test('shows no amount that the rail’s field classes withhold, and counts such payments apart', async () => {
    const owner = { participantId: 'discreet', railType: 'discreet-rail' }
    const fields = JSON.stringify({ '/amount': 'masked' })
    await call(db.as('symphony_executor'), 'declare_outbox_rail', [owner.railType, true, fields, 'w', true])
    const { outboxId } = await enqueue(db, { ...owner, payload: { amount: '31.40', currency: 'EUR' } })
    const { participantId: of } = await enqueue(db, {
      participantId: owner.participantId,
      payload: { amount: '1.00', currency: 'EUR' },
    })
    await end(owner.railType, 'DISPATCHED')
    const { control } = await createPerson(db, 'dora')
    const back = { outboxId, amount: '27.10', currency: 'EUR', code: 'AC04', reference: 'RT-9' }
    await recordOutboxReturn(control, back)
    const path = statementAt(of, 'from=2020-01-01&to=2100-01-01')
    const csv = await textAt(path)
    expect(
      recordsOf(csv).map(({ type, state, currency, count, amount }) => [type, state, currency, count, amount]),
    ).toEqual([
      ['payment', 'DISPATCHED', 'EUR', '1', ''],
      ['return', 'RETURNED', 'EUR', '1', ''],
      ['payment', 'PENDING', 'EUR', '1', '1.00'],
      ['created', '', 'EUR', '1', '1.00'],
      ['created', '', '', '1', ''],
      ['total', 'DISPATCHED', '', '1', ''],
      ['total', 'PENDING', 'EUR', '1', '1.00'],
      ['total', 'RETURNED', '', '1', ''],
      ['closing', '', 'EUR', '1', '1.00'],
    ])
    const texts = [csv, await textAt(`${path}&format=ndjson`)]
    for (const format of ['csv', 'ndjson'])
      texts.push(await textAt(`/v1/outbox?rail=${owner.railType}&format=${format}`))
    for (const text of texts) {
      expect(text).toContain(outboxId)
      expect(text).not.toMatch(/31\.40|27\.10/)
    }
  })

  test('is refused for an unknown participant, one that the key may not see, and an invalid period', async () => {
    expect(await problemOf(await fixture.call(statementAt('nobody-here')))).toMatchObject({ code: 'UNKNOWN_NAME' })
    for (const period of ['from=2026-02-30&to=2026-03-01', 'from=2026-02-01&to=2026-02-01', 'from=2026-02-01']) {
      const problem = await problemOf(await fixture.call(statementAt('even', period)))
      expect([period, problem.code]).toEqual([period, 'INVALID_QUERY'])
    }
    const { key } = await createKey(db, { owner: 'shop', scopes: ['read'], participants: ['odd'] })
    const headers = { authorization: `Bearer ${key}` }
    expect(await problemOf(await fixture.call(statementAt('even'), { headers }))).toMatchObject({
      code: 'PARTICIPANT_REFUSED',
    })
    expect((await fixture.call(statementAt('odd'), { headers })).status).toBe(200)
  })
})
