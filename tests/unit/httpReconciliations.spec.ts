import { connect, type Socket } from 'node:net'
import { createServer } from 'node:http'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { enforceBodyDeadline } from '../../libs/http/bodyDeadline.js'
import { closeAfterAll } from '../support/afterAll.js'
import { useTestDatabase } from '../support/database.js'
import { bodyOf, createKey, openHttpFixture, problemOf } from '../support/httpFixture.js'
import { claimOnly, complete, enqueue } from '../support/outboxItems.js'
import { portOf } from '../support/portOf.js'

/** Tests of reconciliation over HTTP. Access is tested with all routes in httpAccess.spec.ts. */

const db = await useTestDatabase()
const fixture = closeAfterAll(await openHttpFixture(db, { limits: { statementMibMax: 1 } }))
const keys = { olga: '', pavel: '', rosa: '' }
beforeAll(async () => {
  for (const [owner, scopes] of [
    ['olga', ['read', 'operate', 'audit']],
    ['pavel', ['read', 'operate']],
    ['rosa', ['read']],
  ] as const) {
    keys[owner] = (await createKey(db, { owner, scopes })).key
  }
})

const RAIL = 'sepa'
const ACCOUNT = 'DE75512108001245126199'
let days = 0

/** Returns a day that no other test uses, so that statements of two tests do not overlap. */
function nextDay(): string {
  days += 1
  return new Date(Date.UTC(2030, 0, days)).toISOString().slice(0, 10)
}

async function dispatched(instructionId: string, railType = RAIL): Promise<string> {
  const { outboxId } = await enqueue(db, {
    instructionId,
    idempotencyKey: instructionId,
    railType,
    payload: { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' },
  })
  await complete(db, await claimOnly(db, railType), { state: 'DISPATCHED', railReference: `TX-${instructionId}` })
  return outboxId
}

/** Returns a line of a statement that shows a payment as booked. */
function line(outboxId: string, day: string, change: object = {}): string {
  const entry = { account: ACCOUNT, reference: outboxId.replaceAll('-', ''), amount: '12.50', currency: 'EUR' }
  return `${JSON.stringify({ ...entry, bankReference: `BK-${outboxId.slice(-8)}-${day}`, bookedOn: day, ...change })}\n`
}

interface Upload {
  readonly format?: string
  readonly type?: string
  readonly as?: keyof typeof keys
  readonly query?: string
  readonly rail?: string
}

function upload(
  file: string | Uint8Array,
  { format = 'ndjson', type, as = 'olga', query = '', rail = RAIL }: Upload = {},
) {
  return fixture.call(`/v1/reconciliations?rail=${rail}&format=${format}${query}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${keys[as]}`, 'content-type': type ?? 'application/octet-stream' },
    body: file,
  })
}

function read(path: string, as: keyof typeof keys = 'olga') {
  return fixture.call(path, { headers: { authorization: `Bearer ${keys[as]}` } })
}

/** Counts runs, findings, entries and staged entries. */
async function stored(): Promise<unknown> {
  const { rows } = await db.queryNoRole(
    `SELECT (SELECT count(*) FROM reconciliation_runs) AS runs, (SELECT count(*) FROM reconciliation_findings) AS findings,
       (SELECT count(*) FROM reconciliation_entries) AS entries, (SELECT count(*) FROM reconciliation_uploads) AS staged`,
  )
  return rows[0]
}

/** Runs the body and checks that it adds no run, finding, entry or staged entry. */
async function storesNothing(body: () => Promise<void>): Promise<void> {
  const before = await stored()
  await body()
  await expect.poll(stored).toEqual(before)
}

describe('a statement uploaded over HTTP', () => {
  test('is compared; the finding shows the payment and its bank entries, and can be closed once', async () => {
    const [day, outboxId] = [nextDay(), await dispatched('twice')]
    const file = line(outboxId, day) + line(outboxId, day, { bankReference: 'BK-again' })
    const answer = await bodyOf(await upload(file))
    expect(answer).toMatchObject({
      repeated: false,
      dryRun: false,
      entries: 2,
      counts: { matched: 0, paidTwice: 1 },
      findings: [{ kind: 'paid_twice', outboxId }],
    })
    const run = `/v1/reconciliations/${String(answer['runId'])}`
    expect(await bodyOf(await read(run, 'rosa'))).toMatchObject({ railType: RAIL, actor: 'olga', openFindings: 1 })
    const findings = await itemsOf(await read(`/v1/findings?state=open&run=${String(answer['runId'])}`))
    expect(findings).toMatchObject([
      {
        kind: 'paid_twice',
        severity: 'critical',
        payment: { state: 'DISPATCHED', amount: '12.50', instructionId: 'twice', railReference: 'TX-twice' },
        entries: [{ bankReference: expect.stringContaining('BK-') }, { bankReference: 'BK-again', amount: '12.50' }],
        closed: null,
      },
    ])
    expect(await bodyOf(await read(`/v1/outbox/${outboxId}`))).toMatchObject({
      bankEntries: [
        { bookedOn: day, amount: '12.50' },
        { bookedOn: day, amount: '12.50' },
      ],
      findings: [{ kind: 'paid_twice' }],
    })
    const close = `/v1/findings/${String(findings[0]?.['findingId'])}/close`
    const closed = await post(close, { reason: 'returned by the bank' }, 'pavel')
    expect(await bodyOf(closed)).toMatchObject({ eventId: expect.any(String) })
    expect(await problemOf(await post(close, { reason: 'again' }))).toMatchObject({ code: 'DECISION_REFUSED' })
    expect(await itemsOf(await read(`/v1/findings?state=open&run=${String(answer['runId'])}`))).toEqual([])
    expect(await itemsOf(await read('/v1/findings?state=closed&kind=paid_twice'))).toMatchObject([
      { closed: { by: 'pavel', reason: 'returned by the bank' } },
    ])
    expect(await bodyOf(await read(run))).toMatchObject({ openFindings: 0 })
  })

  test('shows account and references only to a key with the scope audit', async () => {
    const [day, outboxId] = [nextDay(), await dispatched('hidden')]
    const answer = await upload(line(outboxId, day, { amount: '99.00', bankReference: 'BK-hidden' }), { as: 'pavel' })
    const seen = [
      await answer.text(),
      await (await read('/v1/findings', 'rosa')).text(),
      await (await read(`/v1/outbox/${outboxId}`, 'rosa')).text(),
    ]
    for (const text of seen) {
      expect(text).toContain('99.00')
      expect(text).not.toContain('BK-hidden')
      expect(text).not.toContain(outboxId.replaceAll('-', ''))
    }
    expect(await itemsOf(await read('/v1/findings?kind=amount_differs', 'rosa'))).toMatchObject([
      {
        outboxId,
        payment: { state: 'DISPATCHED', amount: '12.50', instructionId: 'hidden' },
        entries: [{ amount: '99.00', bookedOn: day, account: null, bankReference: null, reference: null }],
      },
    ])
    expect(await (await read('/v1/findings')).text()).toContain('BK-hidden')
  })

  test('shows amounts that the rail hides only to a key with the scope audit, also in a dry run', async () => {
    const [rail, day] = ['masked', nextDay()]
    await db.queryNoRole(
      `INSERT INTO outbox_rails (rail_type, money, fields, declared_by, declared_login, first_declared_at, last_declared_at)
       VALUES ($1, true, '{"/amount": "masked"}', 'worker-1', 'relayer', now(), now())`,
      [rail],
    )
    const outboxId = await dispatched('masked', rail)
    const file = line(outboxId, day, { amount: '99.00' })
    for (const query of ['&dryRun=true', '']) {
      const answer = await bodyOf(await upload(file, { as: 'pavel', rail, query }))
      expect(answer['findings']).toMatchObject([
        {
          kind: 'amount_differs',
          payment: { amount: null, currency: 'EUR', instructionId: 'masked' },
          entries: [{ amount: null, currency: 'EUR', bookedOn: day }],
        },
      ])
    }
    const repeated = await bodyOf(await upload(file, { rail }))
    expect(repeated['findings']).toMatchObject([{ payment: { amount: '12.50' }, entries: [{ amount: '99.00' }] }])
    const { rows } = await db
      .as('symphony_readonly')
      .query(`SELECT amount, currency FROM ${db.schema}.reconciliation_payment_entries WHERE outbox_id = $1`, [
        outboxId,
      ])
    expect(rows).toEqual([{ amount: null, currency: 'EUR' }])
  })

  test('is answered with the first run when it is sent again', async () => {
    const file = line(await dispatched('again'), nextDay())
    const first = await bodyOf(await upload(file))
    expect(await bodyOf(await upload(file, { as: 'pavel' }))).toMatchObject({ runId: first['runId'], repeated: true })
  })

  test('is not stored in a dry run', async () => {
    const file = line(await dispatched('dry'), nextDay(), { amount: '1.00' })
    await storesNothing(async () => {
      expect(await bodyOf(await upload(file, { query: '&dryRun=true' }))).toMatchObject({
        runId: null,
        dryRun: true,
        counts: { amountDiffers: 1 },
        findings: [{ findingId: null, kind: 'amount_differs' }],
      })
    })
  })

  test('may be larger than the body limit of other routes', async () => {
    const file = longStatement(await dispatched('large'), nextDay())
    expect(file.length).toBeGreaterThan(600_000)
    expect(await bodyOf(await upload(file))).toMatchObject({
      counts: { matched: 1, unknownEntry: 5_100 },
      unknownSums: { EUR: '63750' },
    })
  })
})

describe('runs and findings over HTTP', () => {
  test('are paged; findings have the highest severity first, runs the newest first', async () => {
    const day = nextDay()
    const [first, second] = [await dispatched('page-1'), await dispatched('page-2')]
    const reversed = { direction: 'credit', reversal: true, returnCode: 'AC04', bankReference: 'BK-page-return' }
    const file = [line(first, day), line(first, day, reversed), line(second, day, { amount: '13.00' })].join('')
    const { runId } = await bodyOf(await upload(file))
    const query = `/v1/findings?run=${String(runId)}`
    const all = await itemsOf(await read(query))
    expect(all.map(({ kind }) => kind)).toEqual(['amount_differs', 'reversed'])
    const page = await bodyOf(await read(`${query}&limit=1`))
    expect(page).toMatchObject({ items: [all[0]], next: expect.any(String) })
    const rest = await bodyOf(await read(`${query}&limit=1&cursor=${String(page['next'])}`))
    expect(rest).toMatchObject({ items: [all[1]] })
    const runs = await bodyOf(await read('/v1/reconciliations?limit=1'))
    expect(runs).toMatchObject({ items: [{ runId }], next: expect.any(String) })
    const older = await itemsOf(await read(`/v1/reconciliations?limit=1&cursor=${String(runs['next'])}`))
    expect(older).toMatchObject([{ runId: expect.not.stringMatching(String(runId)) }])
    expect(await itemsOf(await read('/v1/reconciliations?rail=another'))).toEqual([])
    expect(await problemOf(await read(`/v1/findings?cursor=${String(runs['next'])}`))).toMatchObject({
      code: 'INVALID_QUERY',
    })
  })

  test('are refused if unknown: RUN_NOT_FOUND to read a run, INVALID_ARGUMENT to close a finding', async () => {
    const id = '01981f0e-7c00-7000-8000-000000000001'
    expect(await problemOf(await read(`/v1/reconciliations/${id}`))).toMatchObject({ code: 'RUN_NOT_FOUND' })
    expect(await problemOf(await post(`/v1/findings/${id}/close`, { reason: 'x' }))).toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
  })
})

describe('an upload of a statement', () => {
  test.each([
    ['camt053', 'application/json'],
    ['camt053', 'text/csv'],
    ['camt054', 'application/x-ndjson'],
    ['csv', 'application/xml'],
    ['ndjson', 'text/plain; charset=utf-8'],
  ])('is refused and stores nothing with the format %s and the media type %s (415)', async (format, type) => {
    await storesNothing(async () => {
      expect(await problemOf(await upload('{}', { format, type }))).toMatchObject({
        status: 415,
        code: 'UNSUPPORTED_MEDIA_TYPE',
        detail: expect.stringContaining('application/octet-stream'),
      })
    })
  })

  test('is refused by other routes (415)', async () => {
    const headers = { 'content-type': 'application/xml' }
    const answer = await fixture.call('/v1/pauses', { method: 'POST', headers, body: '<a/>' })
    expect(await problemOf(answer)).toMatchObject({ code: 'UNSUPPORTED_MEDIA_TYPE' })
  })

  test.each([
    ['rail', '/v1/reconciliations?format=csv'],
    ['format', '/v1/reconciliations?rail=sepa'],
    ['format', '/v1/reconciliations?rail=sepa&format=mt940'],
    ['settlementDays', '/v1/reconciliations?rail=sepa&format=csv&settlementDays=61'],
    ['decimal', '/v1/reconciliations?rail=sepa&format=csv&decimal=;'],
    ['referencePattern', '/v1/reconciliations?rail=sepa&format=csv&referencePattern=(a*)*b'],
  ])('is refused with a problem that names the query parameter %s: %s', async (argument, path) => {
    const answer = await fixture.call(path, { method: 'POST', headers: { 'content-type': 'text/csv' }, body: 'a' })
    expect(await problemOf(answer)).toMatchObject({ status: 400, code: 'INVALID_QUERY', argument })
  })

  test('is refused and stores nothing above the maximum size (413), with or without Content-Length', async () => {
    const [day, outboxId] = [nextDay(), await dispatched('too-large')]
    const file = Buffer.from(line(outboxId, day).repeat(8_000))
    expect(file.length).toBeGreaterThan(1_048_576)
    await storesNothing(async () => {
      const chunked = fetch(`${fixture.address}/v1/reconciliations?rail=${RAIL}&format=ndjson`, {
        method: 'POST',
        headers: { authorization: `Bearer ${keys.olga}`, 'content-type': 'application/x-ndjson' },
        body: new Blob([file]).stream(),
        duplex: 'half',
      })
      for (const answer of [await chunked, await upload(file)]) {
        expect(await problemOf(answer)).toMatchObject({
          status: 413,
          code: 'BODY_TOO_LARGE',
          detail: expect.stringContaining('1 MiB (--statement-mib-max)'),
        })
      }
    })
  })

  test('is refused while the same key uploads another one (429); another key may upload', async () => {
    const text = longStatement(await dispatched('busy'), nextDay())
    const first = await beginUpload(text.length)
    first.write(text.slice(0, -20))
    await expect.poll(staged).toBeGreaterThan(0)
    const refused = await upload(text)
    expect(refused.headers.get('retry-after')).toBe('5')
    expect(await problemOf(refused)).toMatchObject({ status: 429, code: 'RATE_LIMITED' })
    expect((await upload(text, { as: 'pavel' })).status).toBe(200)
    first.write(text.slice(-20))
    expect(await answerOf(first)).toMatch(/^HTTP\/1\.1 200 [^]*"repeated":true/)
    expect((await upload(text)).status).toBe(200)
  })

  test('is discarded when the client disconnects, and the key may upload again', async () => {
    const text = longStatement(await dispatched('aborted'), nextDay())
    await storesNothing(async () => {
      const first = await beginUpload(text.length)
      first.write(text.slice(0, -20))
      await expect.poll(staged).toBeGreaterThan(0)
      first.destroy()
    })
    expect(await bodyOf(await upload(text))).toMatchObject({ repeated: false, counts: { matched: 1 } })
    expect(fixture.logged()).not.toContain('request_failed')
  })
})

/** Returns a statement with so many entries that some are staged before the end of the file is read. */
function longStatement(outboxId: string, day: string): string {
  const others = Array.from({ length: 5_100 }, (_, index) =>
    line(outboxId, day, { reference: `salary ${index}`, bankReference: `BK-${outboxId.slice(-4)}-${index}` }),
  )
  return line(outboxId, day) + others.join('')
}

async function staged(): Promise<number> {
  const { rows } = await db.queryNoRole<{ count: bigint }>('SELECT count(*) FROM reconciliation_uploads')
  return Number(rows[0]?.count)
}

const HEAD = '<?xml version="1.0" encoding="UTF-8"?>'
const CAMT = `${HEAD}<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt>`

/** Files that no reader accepts, each with its format. */
const HOSTILE: Readonly<Record<string, readonly [string, string | Uint8Array]>> = {
  'a statement cut off in an element': ['camt053', `${CAMT}<Stmt><Id>secret-42</I`],
  'a statement cut off after an element': ['camt053', `${CAMT}<Stmt><Id>secret-42</Id>`],
  'an entity bomb': ['camt053', `<!DOCTYPE a [<!ENTITY b "secret-42"><!ENTITY c "&b;&b;">]>${CAMT}&c;`],
  'an external entity': ['camt054', `<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>`],
  'elements 100,000 levels deep': ['camt053', `${HEAD}${'<a>'.repeat(100_000)}`],
  'another document': ['camt053', `${HEAD}<html><body>secret-42</body></html>`],
  'CSV instead of XML': ['camt053', 'reference,amount\nsecret-42,1.00\n'],
  'XML instead of NDJSON': ['ndjson', `${CAMT}secret-42`],
  'compressed bytes': ['camt053', Uint8Array.from([0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 3, 0x4b])],
  'bytes that are no UTF-8': ['ndjson', Uint8Array.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d])],
  'NUL bytes': ['ndjson', '{"reference":"\0"}\n'],
  'one line of 500,000 characters': ['ndjson', `{"reference":"${'x'.repeat(500_000)}"}`],
  '100,000 open brackets': ['ndjson', '['.repeat(100_000)],
  'an amount that is a number': ['ndjson', '{"reference":"secret-42","amount":12.5}'],
  'an amount with an exponent': ['ndjson', '{"amount":"1e400","currency":"EUR","bookedOn":"2030-01-01"}'],
  'an unknown field': ['ndjson', '{"__proto__":{"admin":true}}'],
  'nothing at all': ['camt053', ''],
}

describe('hostile files uploaded as statements', () => {
  test.each(Object.entries(HOSTILE))(
    'are refused with the position of the fault, and nothing is stored: %s',
    async (_, [format, file]) => {
      await storesNothing(async () => {
        const { code, status, detail = '' } = await problemOf(await upload(file, { format }))
        expect([code, status]).toEqual(['STATEMENT_INVALID', 422])
        expect(detail).toMatch(/(?:line|byte) \d+/)
        expect(detail).not.toMatch(/secret-42|root:|admin/)
      })
      expect((await read('/v1/me')).status).toBe(200)
    },
  )
})

test('enforceBodyDeadline emits clientError for a late body (ERR_HTTP_REQUEST_TIMEOUT)', async () => {
  const server = createServer((request) => void request.resume())
  enforceBodyDeadline(server, 50)
  const expired: string[] = []
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    expired.push(error.code ?? '')
    socket.destroy()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const socket = connect(portOf(server), '127.0.0.1')
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf')
  await new Promise((resolve) => socket.once('close', resolve))
  expect(expired).toEqual(['ERR_HTTP_REQUEST_TIMEOUT'])
})

function post(path: string, body: object, as: keyof typeof keys = 'olga') {
  const headers = { authorization: `Bearer ${keys[as]}`, 'content-type': 'application/json' }
  return fixture.call(path, { method: 'POST', headers, body: JSON.stringify(body) })
}

async function itemsOf(response: Response): Promise<readonly Record<string, unknown>[]> {
  const { items } = await bodyOf(response)
  if (!Array.isArray(items)) throw new Error('the answer has no items')
  return items
}

/** Opens a connection and sends the headers of an upload by olga. */
async function beginUpload(bytes: number): Promise<Socket> {
  const { hostname, port } = new URL(fixture.address)
  const socket = connect(Number(port), hostname)
  onTestFinished(() => void socket.destroy())
  await new Promise<void>((resolve) => socket.once('connect', resolve))
  socket.write(
    `POST /v1/reconciliations?rail=${RAIL}&format=ndjson HTTP/1.1\r\nHost: x\r\nConnection: close\r\n` +
      `Authorization: Bearer ${keys.olga}\r\nContent-Type: application/x-ndjson\r\nContent-Length: ${bytes}\r\n\r\n`,
  )
  return socket
}

function answerOf(socket: Socket): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = ''
    socket.on('data', (chunk) => (answer += chunk.toString('utf8')))
    socket.once('close', () => resolve(answer))
    socket.once('error', reject)
  })
}
