import { randomUUID } from 'node:crypto'
import { connect } from 'node:net'
import { Registry } from 'prom-client'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { readSystemStatus } from '../../libs/symphony/index.js'
import { openDatabase, type Database } from '../../libs/db/index.js'
import { MetricsEndpoint } from '../../libs/http/index.js'
import { OutboxMetrics } from '../../libs/observability/index.js'
import { readOutboxStatus } from '../../libs/outbox/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { useTestDatabase } from '../support/database.js'
import { bodyOf, gatewayOf, openHttpFixture, problemOf, TOKEN } from '../support/httpFixture.js'
import { claimOnly, complete, enqueue } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { TcpProxy } from '../support/tcpProxy.js'

const db = await useTestDatabase()
const fixture = closeAfterAll(await openHttpFixture(db))

/** Idempotency key of the running test. One caller can use a key for one instruction only. */
let key: string
beforeEach(() => {
  key = `key-${randomUUID()}`
})

/** Returns a unique instruction as a client sends it. */
function body(overrides: Record<string, unknown> = {}) {
  const unique = randomUUID()
  return {
    instructionId: `instruction-${unique}`,
    participantId: `participant-${unique}`,
    railType: `rail-${unique}`,
    payload: { amount: '12.50', currency: 'EUR' },
    ...overrides,
  }
}

/** Returns a body of this many bytes. */
function padded(bytes: number): string {
  return `{"instructionId":"a"${' '.repeat(bytes - 21)}}`
}

async function countWaiting(): Promise<number> {
  const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
  return (await db.queryNoRole(waiting)).rows.length
}

async function countItems(instructionId: string): Promise<number> {
  const { rows } = await db.queryNoRole('SELECT 1 FROM payment_outbox_identities WHERE instruction_id = $1', [
    instructionId,
  ])
  return rows.length
}

describe('POST /v1/instructions', () => {
  test('answers 201 for a new instruction, with its sequence number, location and state', async () => {
    const instruction = body()
    const response = await fixture.post(instruction, key)
    expect(response.status).toBe(201)
    expect(response.headers.get('location')).toBe(`/v1/instructions/${instruction.instructionId}`)
    expect(await bodyOf(response)).toEqual({
      instructionId: instruction.instructionId,
      outboxId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      sequenceId: '1',
      createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
      state: 'PENDING',
      created: true,
      warnings: [expect.objectContaining({ code: 'RAIL_NOT_SERVED' })],
    })
  })

  test('answers after the commit, so that another connection sees the item at once', async () => {
    const instruction = body()
    await fixture.post(instruction, key)
    expect(await countItems(instruction.instructionId)).toBe(1)
  })

  test('answers 200 with the first item for a repetition, whatever the state of the item', async () => {
    const instruction = body()
    const first = await bodyOf(await fixture.post(instruction, key))
    const again = await fixture.post(instruction, key)
    expect(again.status).toBe(200)
    expect(await bodyOf(again)).toEqual({ ...first, created: false })
    await complete(db, await claimOnly(db, instruction.railType), { state: 'FAILED', errorCode: 'REFUSED' })
    const ended = await fixture.post(instruction, key)
    expect(ended.status).toBe(200)
    expect(await bodyOf(ended)).toEqual({ ...first, created: false, state: 'FAILED', warnings: undefined })
  })

  test('creates a second item of the same instruction for a second key', async () => {
    const instruction = body()
    await fixture.post(instruction, key)
    expect((await fixture.post(instruction, `${key}-2`)).status).toBe(201)
    expect(await countItems(instruction.instructionId)).toBe(2)
  })

  test.each([
    ['another payload', { payload: { amount: '12.51', currency: 'EUR' } }],
    ['another participant', { participantId: 'another-participant' }],
    ['another rail', { railType: 'another-rail' }],
  ])('answers 409 for the same key with %s, and keeps the first item', async (_, change) => {
    const instruction = body()
    await fixture.post(instruction, key)
    const response = await fixture.post({ ...instruction, ...change }, key)
    expect(await problemOf(response)).toMatchObject({ status: 409, code: 'IDEMPOTENCY_CONFLICT' })
    expect(await countItems(instruction.instructionId)).toBe(1)
  })

  test('stores notBefore and ordered of the instruction', async () => {
    const instruction = body({ notBefore: '2099-12-31T23:59:59+01:00', ordered: true })
    await fixture.post(instruction, key)
    const { rows } = await db.queryNoRole(
      'SELECT ordered, next_attempt_at FROM payment_outbox_pending WHERE instruction_id = $1',
      [instruction.instructionId],
    )
    expect(rows).toEqual([{ ordered: true, next_attempt_at: new Date('2099-12-31T22:59:59Z') }])
  })

  test.each([
    ['an instructionId that is null', { instructionId: null }, 'instructionId'],
    ['an instructionId with a space', { instructionId: 'a b' }, 'instructionId'],
    ['an instructionId that is a number', { instructionId: 7 }, 'instructionId'],
    ['an instructionId of 129 characters', { instructionId: 'x'.repeat(129) }, 'instructionId'],
    ['a participantId that is null', { participantId: null }, 'participantId'],
    ['a railType that is empty', { railType: '' }, 'railType'],
    ['a payload that is missing', { payload: undefined }, 'payload'],
    ['a payload that is text', { payload: 'amount=1' }, 'payload'],
    ['a payload that is an array', { payload: [] }, 'payload'],
    ['a payload of more than 64 KiB', { payload: { note: 'x'.repeat(65_536) } }, 'payload'],
    ['a payload with a NUL', { payload: { note: 'a\u0000b' } }, 'body.payload.note'],
    ['a notBefore without an offset', { notBefore: '2099-12-31T23:59:59' }, 'notBefore'],
    ['a notBefore that is a number', { notBefore: 4_102_444_799 }, 'notBefore'],
    ['a notBefore that is no day', { notBefore: '2099-13-31T23:59:59Z' }, 'notBefore'],
    ['an ordered that is text', { ordered: 'true' }, 'ordered'],
    ['an unknown field', { notbefore: '2099-12-31T23:59:59Z' }, 'notbefore'],
    ['a key beside the header', { idempotencyKey: 'key-2' }, 'idempotencyKey'],
    ['the topic of alert notices as railType', { railType: 'symphony.alerts' }, 'railType'],
    ['the topic of alert notices as outcomeTopic', { outcomeTopic: 'symphony.alerts' }, 'outcomeTopic'],
    ['an instructionId of alert notices', { instructionId: 'alert:ops:X:1:firing' }, 'instructionId'],
  ])('answers 422 for %s and names the field', async (_, change, argument) => {
    const response = await fixture.post(body(change), key)
    expect(await problemOf(response)).toMatchObject({ status: 422, code: 'INVALID_INSTRUCTION', argument })
  })

  test.each([
    ['a key twice', '{"instructionId":"a","instructionId":"b"}'],
    ['a key twice in the payload', '{"payload":{"amount":"1","amount":"2"}}'],
    ['a number with more digits than a double has', '{"payload":{"amount":12345678901234567890.12}}'],
    ['a key __proto__', '{"payload":{"__proto__":{"admin":true}}}'],
    ['a payload that is too deep', `{"payload":${'{"a":'.repeat(40)}1${'}'.repeat(40)}}`],
    ['an array instead of an object', '[]'],
    ['null instead of an object', 'null'],
  ])('answers 422 for JSON with %s', async (_, text) => {
    expect(await problemOf(await fixture.post(text, key))).toMatchObject({ status: 422, code: 'INVALID_INSTRUCTION' })
  })

  test('accepts a payload of depth 32 and refuses one of depth 33', async () => {
    const nested = (depth: number): unknown => (depth === 1 ? {} : { a: nested(depth - 1) })
    expect((await fixture.post(body({ payload: nested(32) }), key)).status).toBe(201)
    expect((await fixture.post(body({ payload: nested(33) }), `${key}-2`)).status).toBe(422)
  })

  test.each([
    ['with a space', 'a b'],
    ['of 129 characters', 'x'.repeat(129)],
    ['that is reserved for redrives', 'key~redrive~1'],
  ])('answers 422 for an Idempotency-Key %s', async (_, wrong) => {
    const problem = await problemOf(await fixture.post(body(), wrong))
    expect(problem).toMatchObject({ status: 422, code: 'INVALID_INSTRUCTION', argument: 'idempotencyKey' })
  })

  test('accepts an Idempotency-Key of 128 characters', async () => {
    expect((await fixture.post(body(), 'x'.repeat(128))).status).toBe(201)
  })

  test('answers 400 without an Idempotency-Key', async () => {
    expect(await problemOf(await fixture.post(body()))).toMatchObject({ status: 400, code: 'IDEMPOTENCY_KEY_MISSING' })
    expect(await problemOf(await fixture.post(body(), ''))).toMatchObject({
      status: 400,
      code: 'IDEMPOTENCY_KEY_MISSING',
    })
  })

  test.each([
    ['nothing', ''],
    ['half an object', '{"instructionId":'],
    ['text', 'pay me'],
    ['two documents', '{}{}'],
  ])('answers 400 for a body of %s', async (_, text) => {
    expect(await problemOf(await fixture.post(text, key))).toMatchObject({ status: 400, code: 'MALFORMED_JSON' })
  })

  test('answers 413 for a body over 256 KiB, and 422 for an invalid body of 256 KiB', async () => {
    expect(await problemOf(await fixture.post(padded(262_145), key))).toMatchObject({
      status: 413,
      code: 'BODY_TOO_LARGE',
    })
    expect((await fixture.post(padded(262_144), key)).status).toBe(422)
  })

  test.each(['text/plain', 'application/x-www-form-urlencoded', 'application/xml'])(
    'answers 415 for %s',
    async (type) => {
      const response = await fixture.call('/v1/instructions', {
        method: 'POST',
        headers: { 'content-type': type, 'idempotency-key': key },
        body: JSON.stringify(body()),
      })
      expect(await problemOf(response)).toMatchObject({ status: 415, code: 'UNSUPPORTED_MEDIA_TYPE' })
    },
  )

  test('accepts application/json with a charset', async () => {
    const response = await fixture.call('/v1/instructions', {
      method: 'POST',
      headers: { 'content-type': 'application/json; charset=utf-8', 'idempotency-key': key },
      body: JSON.stringify(body()),
    })
    expect(response.status).toBe(201)
  })
})

describe('GET /v1/instructions/{instructionId}', () => {
  test('returns every item of the instruction with its attempts', async () => {
    const instruction = body()
    await fixture.post(instruction, key)
    const lease = await claimOnly(db, instruction.railType)
    await complete(db, lease, { state: 'DISPATCHED', railReference: 'TX-1', railCode: 'PAID', latencyMs: 12 })
    await fixture.post(instruction, `${key}-2`)
    const response = await fixture.call(`/v1/instructions/${instruction.instructionId}`)
    expect(response.status).toBe(200)
    const { instructionId, items } = await bodyOf(response)
    expect(instructionId).toBe(instruction.instructionId)
    expect(items).toMatchObject([
      { idempotencyKey: `${key}-2`, state: 'DUE', sequenceId: '2', attempts: [] },
      {
        idempotencyKey: key,
        state: 'DISPATCHED',
        sequenceId: '1',
        lastRailReference: 'TX-1',
        attempts: [{ attemptNo: 1, state: 'DISPATCHED', railReference: 'TX-1', railCode: 'PAID', latencyMs: 12 }],
      },
    ])
  })

  test('returns neither payload nor lease token', async () => {
    const instruction = body({ payload: { secret: 'CANARY-4111' } })
    await fixture.post(instruction, key)
    const { leaseToken } = await claimOnly(db, instruction.railType)
    const text = await (await fixture.call(`/v1/instructions/${instruction.instructionId}`)).text()
    expect(text).toContain('LEASED')
    expect(text).not.toContain('CANARY')
    expect(text).not.toContain(leaseToken)
  })

  test.each(['a/b', '?x=1#y', '100%', '~!$&', '%'.repeat(128)])(
    'finds an instruction by its URL-encoded id: %s',
    async (instructionId) => {
      await fixture.post(body({ instructionId }), key)
      const response = await fixture.call(`/v1/instructions/${encodeURIComponent(instructionId)}`)
      expect(await bodyOf(response)).toMatchObject({ instructionId, items: [{ idempotencyKey: key }] })
    },
  )

  test('answers 404 for an unknown instruction and 422 for an invalid id', async () => {
    expect(await problemOf(await fixture.call('/v1/instructions/unknown-instruction'))).toMatchObject({
      status: 404,
      code: 'INSTRUCTION_NOT_FOUND',
    })
    expect(await problemOf(await fixture.call('/v1/instructions/a%20b'))).toMatchObject({ status: 422 })
  })

  test('answers 400 for a path that cannot be decoded, and 404 for an unknown path', async () => {
    expect(await problemOf(await fixture.call('/v1/instructions/%ZZ'))).toMatchObject({
      status: 400,
      code: 'BAD_REQUEST',
    })
    expect(await problemOf(await fixture.call('/v2/instructions'))).toMatchObject({ status: 404, code: 'NOT_FOUND' })
  })
})

describe('every path of the API', () => {
  test('answers 405 with Allow for a method that it has no route for', async () => {
    for (const path of new Set(fixture.routes.map((route) => route.path))) {
      const methods = fixture.routes.filter((route) => route.path === path).map(({ method }) => method)
      const response = await fixture.call(`${path.replaceAll(/\{\w+\}/g, 'x')}?a=b`, { method: 'PATCH' })
      expect([path, response.headers.get('allow')?.split(', ')]).toEqual([path, expect.arrayContaining(methods)])
      expect(await problemOf(response)).toMatchObject({ status: 405, code: 'METHOD_NOT_ALLOWED' })
    }
    expect((await fixture.call('/openapi.json', { method: 'POST' })).headers.get('allow')).toBe('GET, HEAD')
  })
})

describe('HEAD of every route', () => {
  test('answers like GET, without a body and with the same access rules', async () => {
    const got = fixture.routes.filter(({ method }) => method === 'GET')
    for (const { path, access } of got) {
      const url = `${fixture.address}${path.replaceAll(/\{\w+\}/g, 'x')}`
      const unknown = await fetch(url, { method: 'HEAD' })
      expect([path, unknown.status]).toEqual([path, access === 'open' ? 200 : 401])
      const end = new AbortController()
      const headers = { authorization: `Bearer ${TOKEN}` }
      const get = await fetch(url, { headers, signal: end.signal })
      const head = await fetch(url, { method: 'HEAD', headers })
      expect([path, head.status, head.headers.get('content-type')?.split(';')[0]]).toEqual([
        path,
        get.status,
        get.headers.get('content-type')?.split(';')[0],
      ])
      expect(await head.text()).toBe('')
      end.abort()
    }
    expect(got.length).toBeGreaterThan(10)
    expect((await fetch(`${fixture.address}/openapi.json`, { method: 'HEAD' })).status).toBe(200)
  })
})

describe('access to the API', () => {
  test.each([
    ['no token', {}],
    ['another token', { authorization: 'Bearer another' }],
    ['the token without its last character', { authorization: `Bearer ${TOKEN.slice(0, -1)}` }],
    ['the token with a letter behind it', { authorization: `Bearer ${TOKEN}x` }],
    ['the token as Basic', { authorization: `Basic ${TOKEN}` }],
    ['the token without Bearer', { authorization: TOKEN }],
    ['two tokens', { authorization: `Bearer ${TOKEN} ${TOKEN}` }],
  ])('is refused with %s (401), for known and unknown paths', async (_, headers: Record<string, string>) => {
    for (const path of ['/v1/instructions/x', '/metrics', '/nowhere']) {
      const response = await fetch(`${fixture.address}${path}`, { headers })
      expect(response.headers.get('www-authenticate')).toBe('Bearer')
      expect(await problemOf(response)).toMatchObject({ status: 401, code: 'UNAUTHENTICATED' })
    }
  })

  test('is refused for a POST without a token (401), and nothing is enqueued', async () => {
    const instruction = body()
    const response = await fetch(`${fixture.address}/v1/instructions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify(instruction),
    })
    expect(response.status).toBe(401)
    expect(await countItems(instruction.instructionId)).toBe(0)
  })

  test('is refused on a server that has no token, except for /healthz', async () => {
    const closed = await openHttpFixture(db, { accessToken: undefined })
    onTestFinished(() => closed.close())
    for (const headers of [{}, { authorization: 'Bearer undefined' }, { authorization: 'Bearer ' }]) {
      expect((await fetch(`${closed.address}/metrics`, { headers })).status).toBe(401)
    }
    expect((await fetch(`${closed.address}/healthz`)).status).toBe(200)
  })

  test('is not offered by a server with api: none (404)', async () => {
    const worker = await openHttpFixture(db, { api: 'none' })
    onTestFinished(() => worker.close())
    expect((await worker.post(body(), key)).status).toBe(404)
    expect((await worker.call('/metrics')).status).toBe(200)
  })
})

describe('the database role of a route', () => {
  test('causes 500 if it does not fit the route: an enqueue as readonly, a read as ingest', async () => {
    const swapped = await openHttpFixture(db, {
      roles: { ingest: db.as('symphony_readonly'), readonly: db.as('symphony_ingest') },
    })
    onTestFinished(() => swapped.close())
    const instruction = body()
    expect(await problemOf(await swapped.post(instruction, key))).toMatchObject({ status: 500, code: 'INTERNAL' })
    expect(await problemOf(await swapped.call('/v1/instructions/x'))).toMatchObject({ status: 500 })
    expect(await countItems(instruction.instructionId)).toBe(0)
  })
})

describe('on every HTTP server,', () => {
  test('/healthz and /readyz need no token, and /readyz answers 503 while isReady is false', async () => {
    let ready = true
    const changing = await openHttpFixture(db, { isReady: async () => ready })
    onTestFinished(() => changing.close())
    expect((await fetch(`${changing.address}/healthz`)).status).toBe(200)
    const first = await fetch(`${changing.address}/readyz`)
    expect([first.status, await bodyOf(first)]).toEqual([200, { status: 'ok' }])
    ready = false
    const second = await fetch(`${changing.address}/readyz`)
    expect([second.status, await bodyOf(second)]).toEqual([503, { status: 'unavailable' }])
    expect((await fetch(`${changing.address}/healthz`)).status).toBe(200)
  })

  test('/metrics shows the counters of this process and the current queue', async () => {
    await enqueue(db)
    fixture.metrics.outbox.onRelayerEvent({ type: 'outbox.notified' })
    const response = await fixture.call('/metrics')
    expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
    const text = await response.text()
    const { kinds } = await readOutboxStatus(db.as('symphony_readonly'))
    expect(text).toMatch(/^notify_wakeups_total 1$/m)
    for (const kind of ['payment', 'message'] as const) {
      expect(text).toContain(`\noutbox_pending_depth{kind="${kind}"} ${kinds[kind].pending}\n`)
      expect(text).toContain(`\ndlq_depth{kind="${kind}"} ${kinds[kind].failed}\n`)
    }
    for (const name of ['oldest_pending_age_seconds', 'expired_lease_count', 'stuck_dispatching_count']) {
      expect(text).toMatch(new RegExp(`^${name}\\{kind="message"\\} `, 'm'))
    }
  })
})

describe('an unavailable database behind the API', () => {
  test('causes 503 if it is unreachable; the answer says that nothing was accepted', async () => {
    const role = databaseAt('postgres://unknown-user@127.0.0.1:1/none').as('symphony_ingest')
    const dark = await openHttpFixture(db, { roles: { ingest: role, readonly: role } })
    onTestFinished(() => dark.close())
    const response = await dark.post(body(), key)
    expect(response.headers.get('retry-after')).toBe('1')
    expect(await problemOf(response)).toMatchObject({
      status: 503,
      code: 'DATABASE_UNAVAILABLE',
      detail: expect.stringContaining('Nothing was accepted'),
    })
    expect((await dark.call('/v1/instructions/x')).status).toBe(503)
  })

  test('causes 503 if its answer is lost; a retry with the same key finds the item', async () => {
    const gateway = await gatewayOf(db)
    const proxy = await TcpProxy.before(gateway.url)
    onTestFinished(() => proxy.close())
    const url = new URL(gateway.url)
    url.port = String(proxy.port)
    const lying = await openHttpFixture(db, {
      roles: { ingest: databaseAt(url.href).as('symphony_ingest') },
    })
    onTestFinished(() => lying.close())
    // The enqueue waits for this lock, so it has reached the server before the proxy drops answers.
    const blocker = await db.connect()
    await blocker.query('BEGIN; LOCK TABLE payment_outbox_identities IN EXCLUSIVE MODE')
    const instruction = body()
    const answering = lying.post(instruction, key)
    await expect.poll(countWaiting, POLL_OPTIONS).toBe(1)
    proxy.traffic = 'answers vanish'
    await blocker.query('COMMIT')
    await expect.poll(() => countItems(instruction.instructionId), POLL_OPTIONS).toBe(1)
    proxy.cut()
    expect(await problemOf(await answering)).toMatchObject({
      status: 503,
      code: 'DATABASE_UNAVAILABLE',
      detail: expect.stringContaining('may or may not'),
    })
    expect((await fixture.post(instruction, key)).status).toBe(200)
  })

  test('removes only the metrics of the database from /metrics', async () => {
    const nowhere = databaseAt('postgres://unknown-user@127.0.0.1:1/none')
    const counters = new Registry()
    new OutboxMetrics(counters).onRelayerEvent({ type: 'outbox.notified' })
    const dark = await openHttpFixture(db, { metrics: new MetricsEndpoint(counters, () => readSystemStatus(nowhere)) })
    onTestFinished(() => dark.close())
    const text = await (await dark.call('/metrics')).text()
    expect(text).toMatch(/^notify_wakeups_total 1$/m)
    expect(text).not.toContain('outbox_pending_depth')
  })
})

function databaseAt(url: string): Database {
  const database = openDatabase({ url, schema: db.schema })
  onTestFinished(() => database.close())
  return database
}

describe('the id of a request', () => {
  test.each([
    ['a valid id', 'trace-7', true],
    ['a space in the id', 'a b', false],
    ['an id of 129 characters', 'x'.repeat(129), false],
  ])('is the X-Request-Id header only if the header is valid: %s', async (_, given, kept) => {
    const response = await fixture.call('/v1/instructions/unknown-instruction', { headers: { 'x-request-id': given } })
    const { requestId } = await problemOf(response)
    expect(response.headers.get('x-request-id')).toBe(requestId)
    expect(requestId === given).toBe(kept)
  })
})

describe('the log of the HTTP server', () => {
  test('has a line per request, without payload, token or values of database errors', async () => {
    const quiet = await openHttpFixture(db, {
      roles: { ingest: db.as('symphony_readonly'), readonly: db.as('symphony_ingest') },
    })
    onTestFinished(() => quiet.close())
    const payload = { card: 'CANARY-4111111111111111' }
    await quiet.post(body({ payload }), key)
    await quiet.post(body({ payload, ordered: 'CANARY' }), key)
    await quiet.post(`{"payload":{"card":"CANARY","card":"CANARY"}}`, key)
    await expect.poll(() => quiet.logged().match(/"msg":"request"/g)?.length, POLL_OPTIONS).toBe(3)
    expect(quiet.logged()).toContain('request_failed')
    expect(quiet.logged()).toContain('"route":"/v1/instructions"')
    expect(quiet.logged()).not.toContain('CANARY')
    expect(quiet.logged()).not.toContain(TOKEN)
  })

  test('has no error line for a mistake of the client', async () => {
    const calm = await openHttpFixture(db)
    onTestFinished(() => calm.close())
    await calm.post('{', key)
    await calm.call('/nowhere')
    await fetch(`${calm.address}/metrics`)
    await expect.poll(() => calm.logged().match(/"msg":"request"/g)?.length, POLL_OPTIONS).toBe(3)
    expect(calm.logged()).not.toMatch(/"level":(50|60)/)
  })
})

describe('HttpServer.close', () => {
  test('closes the connection of a client that never finishes its request', async () => {
    const closing = await openHttpFixture(db)
    const { hostname, port } = new URL(closing.address)
    const socket = connect(Number(port), hostname)
    onTestFinished(() => void socket.destroy())
    const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    await new Promise<void>((resolve) => {
      socket.write('POST /v1/instructions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n', () => resolve())
    })
    await Promise.all([closing.close(), closing.close()])
    await ended
    await expect(fetch(`${closing.address}/healthz`)).rejects.toThrow('fetch failed')
  })
})
