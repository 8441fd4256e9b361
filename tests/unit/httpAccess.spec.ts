import { createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { ApiKeys, newApiKey, SCOPES } from '../../libs/access/index.js'
import type { Clock } from '../../libs/core/index.js'
import { call } from '../../libs/db/index.js'
import type { Route } from '../../libs/http/index.js'
import { EXAMPLE } from '../../libs/http/routes/examples.js'
import { enqueuePaymentOutboxBatch } from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { rowHashes } from '../support/fingerprint.js'
import { createKey, bodyOf, openHttpFixture, problemOf, TOKEN, type HttpFixture } from '../support/httpFixture.js'
import { bodyText, resolveExampleIds, seedExamples, type ExampleIds } from '../support/httpExamples.js'
import { buildInstruction, enqueue } from '../support/outboxItems.js'

/**
 * Tests that every route refuses invalid and insufficient keys. The routes come from the server, so none is left out.
 */

const db = await useTestDatabase()
let fixture: HttpFixture
let exampleIds: ExampleIds
beforeAll(async () => {
  exampleIds = await seedExamples(db)
  fixture = await openHttpFixture(db)
})
afterAll(async () => {
  process.stdout.write(`access: ${refusals} refusals\n`)
  await fixture.close()
})

/** Returns the routes that need a key or a token. */
function guarded(): readonly Route[] {
  return fixture.routes.filter(({ access }) => access !== 'open' && access !== 'signature')
}

/** Sends the example of a route with this authorization. */
function ask(route: Route, authorization: string | undefined, at = fixture.address): Promise<Response> {
  const example = resolveExampleIds(exampleIds, route.example!)
  const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(example.params?.[name] ?? ''),
  )
  const query = new URLSearchParams(example.query).toString()
  return fetch(`${at}${path}${query === '' ? '' : `?${query}`}`, {
    method: route.method,
    headers: {
      ...(authorization === undefined ? {} : { authorization }),
      ...(example.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...example.headers,
    },
    ...(example.body === undefined ? {} : { body: bodyText(example) }),
  })
}

let refusals = 0

async function answersOf(
  authorization: string | undefined,
  routes = guarded(),
): Promise<(readonly [string, number, string])[]> {
  const answers: (readonly [string, number, string])[] = []
  for (const route of routes) {
    const response = await ask(route, authorization)
    const { code } = await problemOf(response)
    answers.push([`${route.method} ${route.path}`, response.status, code])
    refusals += response.status < 500 ? 1 : 0
  }
  return answers
}

function all(status: number, code: string, routes = guarded()): (readonly [string, number, string])[] {
  return routes.map(({ method, path }) => [`${method} ${path}`, status, code])
}

/** Runs the body and checks that no row changes. */
async function unchanged(body: () => Promise<void>): Promise<void> {
  const before = await rowHashes(db)
  await body()
  expect(await rowHashes(db)).toEqual(before)
}

describe('every route', () => {
  test('needs a key or a signature, except the routes of health and sign-in', () => {
    const open = fixture.routes.filter(({ access }) => access === 'open').map(({ path }) => path)
    expect(open).toEqual(['/healthz', '/readyz', '/v1/sign-in', '/v1/sign-in', '/v1/session'])
    expect(guarded().length).toBeGreaterThan(35)
  })

  test.each([
    ['without a key', () => undefined],
    ['with Bearer and no key', () => 'Bearer '],
    ['with an unknown key', () => `Bearer ${newApiKey().key}`],
    ['with half a key', () => `Bearer ${newApiKey().key.slice(0, 40)}`],
    ['with something like a JWT', () => 'Bearer aaaa.bbbb.cccc'],
    ['with the token as Basic', () => `Basic ${TOKEN}`],
    ['with a key of 9,000 characters', () => `Bearer ${'x'.repeat(9_000)}`],
  ])('answers 401 to a request %s, and changes nothing', async (_, header) => {
    await unchanged(async () => {
      expect(await answersOf(header())).toEqual(all(401, 'UNAUTHENTICATED'))
    })
  })

  test('answers 401 to an expired or revoked key with the reason, and changes nothing', async () => {
    const scopes = SCOPES
    const expired = await createKey(db, { scopes, owner: 'alice', expiresAt: new Date('2099-01-01') })
    const revoked = await createKey(db, { scopes, owner: 'alice' })
    await db.queryNoRole(`UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE key_id = $1`, [
      expired.keyId,
    ])
    await new ApiKeys(db).revoke(revoked)
    await unchanged(async () => {
      expect(await answersOf(`Bearer ${expired.key}`)).toEqual(all(401, 'KEY_EXPIRED'))
      expect(await answersOf(`Bearer ${revoked.key}`)).toEqual(all(401, 'KEY_REVOKED'))
    })
  })

  test.each(SCOPES)('answers 403 to a key without the scope %s, and changes nothing', async (scope) => {
    const { key } = await createKey(db, { scopes: SCOPES.filter((one) => one !== scope), owner: 'alice' })
    const routes = guarded().filter(({ access }) => access === scope)
    expect(routes.length).toBeGreaterThan(0)
    await ask(routes[0]!, `Bearer ${key}`)
    await unchanged(async () => {
      expect(await answersOf(`Bearer ${key}`, routes)).toEqual(all(403, 'SCOPE_MISSING', routes))
    })
  })

  test('declared as "ingest or operate" needs one of these two scopes (403)', async () => {
    const routes = guarded().filter(({ access }) => access === 'ingest or operate')
    expect(routes.map(({ path }) => path)).toEqual(['/v1/outbox/{outboxId}/cancel'])
    const { key } = await createKey(db, { scopes: ['read', 'audit'], owner: 'alice' })
    await ask(routes[0]!, `Bearer ${key}`)
    await unchanged(async () => {
      expect(await answersOf(`Bearer ${key}`, routes)).toEqual(all(403, 'SCOPE_MISSING', routes))
    })
  })

  test('refuses a key of other participants or shows it no data, and changes nothing', async () => {
    const { key } = await createKey(db, { scopes: SCOPES, owner: 'alice', participants: ['another-participant'] })
    await ask(guarded()[0]!, `Bearer ${key}`)
    await unchanged(async () => {
      for (const route of guarded()) {
        if (route.path === '/v1/stream' || route.path === '/v1/session') continue
        const where = `${route.method} ${route.path}`
        const seen = await visibleItems(await ask(route, `Bearer ${key}`))
        const isNothing = route.participants === 'refused' ? seen === 'PARTICIPANT_REFUSED' : NOTHING.has(seen)
        expect([where, seen, isNothing]).toEqual([where, seen, true])
      }
    })
  })
})

function payment(participantId: string, instructionId: string) {
  return { instructionId, participantId, railType: 'r', payload: {} }
}

/** Answers that a key of other participants may get: a refusal, not found, an empty list, or its own participants. */
const NOTHING = new Set([
  'PARTICIPANT_REFUSED',
  'ITEM_NOT_FOUND',
  'INSTRUCTION_NOT_FOUND',
  'PROPOSAL_NOT_FOUND',
  'CONTRADICTION_NOT_FOUND',
  '[]',
  '["another-participant"]',
])

async function visibleItems(response: Response): Promise<string> {
  if (!response.ok) return (await problemOf(response)).code
  const { items, participants, states, points = states && [states] } = await bodyOf(response)
  return JSON.stringify(items ?? participants ?? (Array.isArray(points) ? points.filter(hasCount) : undefined))
}

/** Returns whether a count of a series or of states is above zero. */
function hasCount(point: object): boolean {
  return Object.values(point).some((value) => typeof value === 'number' && value > 0)
}

describe('an API key sent to the HTTP server', () => {
  test('gives access to the routes of its scope, and /v1/me shows its owner', async () => {
    const { key, keyId } = await createKey(db, {
      scopes: ['read'],
      owner: 'carol',
      participants: [EXAMPLE.participantId],
    })
    const headers = { authorization: `Bearer ${key}` }
    expect(await bodyOf(await fixture.call('/v1/me', { headers }))).toEqual({
      owner: 'carol',
      scopes: ['read'],
      participants: [EXAMPLE.participantId],
      via: 'key',
      keyId,
      expiresAt: null,
    })
    expect((await fixture.call(`/v1/instructions/${EXAMPLE.instructionId}`, { headers })).status).toBe(200)
  })

  test('is not needed if a request has the access token of the process, which grants every scope', async () => {
    expect(await bodyOf(await fixture.call('/v1/me'))).toMatchObject({
      owner: 'access-token',
      scopes: SCOPES,
      via: 'token',
    })
  })

  test('is accepted for up to 2 s after its revocation, because the server caches the check', async () => {
    const clock = new HandClock()
    const cached = await openHttpFixture(db, { clock })
    onTestFinished(() => cached.close())
    const { key, keyId } = await createKey(db, { scopes: ['read'], owner: 'carol' })
    const headers = { authorization: `Bearer ${key}` }
    expect((await cached.call('/v1/me', { headers })).status).toBe(200)
    await new ApiKeys(db).revoke({ keyId })
    clock.ms += 1_999
    expect((await cached.call('/v1/me', { headers })).status).toBe(200)
    clock.ms += 1
    expect(await problemOf(await cached.call('/v1/me', { headers }))).toMatchObject({ code: 'KEY_REVOKED' })
  })

  test('is checked once for many concurrent requests', async () => {
    let queries = 0
    const auth = db.as('symphony_auth')
    const counting: typeof auth = { ...auth, query: (text, values) => ((queries += 1), auth.query(text, values)) }
    const counted = await openHttpFixture(db, { roles: { auth: counting } })
    onTestFinished(() => counted.close())
    const { key } = await createKey(db, { scopes: ['read'], owner: 'carol' })
    const asked = Array.from({ length: 20 }, () =>
      counted.call('/v1/me', { headers: { authorization: `Bearer ${key}` } }),
    )
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual(Array(20).fill(200))
    expect(queries).toBe(1)
  })

  test('is logged by its id, never by its secret', async () => {
    const { key, keyId } = await createKey(db, { scopes: ['read'], owner: 'carol' })
    const secret = key.split('_').slice(2).join('_')
    await fixture.call('/v1/me', { headers: { authorization: `Bearer ${key}` } })
    await expect.poll(() => fixture.logged()).toContain(keyId)
    expect(fixture.logged()).not.toContain(secret)
    expect(fixture.logged()).not.toContain(TOKEN)
  })

  test('enqueues single payments and batches only for the participants to which it is restricted', async () => {
    const { key } = await createKey(db, { scopes: ['ingest'], owner: 'shop', participants: ['mine'] })
    const post = (path: string, body: object) =>
      fixture.call(path, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': 'k' },
        body: JSON.stringify(body),
      })
    expect((await post('/v1/instructions', payment('mine', 'bound-1'))).status).toBe(201)
    expect(await problemOf(await post('/v1/instructions', payment('theirs', 'bound-2')))).toMatchObject({
      code: 'PARTICIPANT_REFUSED',
    })
    const both = { instructions: [payment('mine', 'bound-3'), payment('theirs', 'bound-4')] }
    expect(await problemOf(await post('/v1/instructions/batch', both))).toMatchObject({ code: 'PARTICIPANT_REFUSED' })
    const { rows } = await db.queryNoRole(
      `SELECT instruction_id FROM payment_outbox_identities WHERE instruction_id LIKE 'bound-%'`,
    )
    expect(rows).toEqual([{ instruction_id: 'bound-1' }])
  })

  test('sends no payment to a topic that a worker has declared, whose handler would trust it', async () => {
    await call(db.as('symphony_executor'), 'declare_outbox_rail', ['orders', false, '{}', 'w', true])
    const { key } = await createKey(db, { scopes: ['ingest'], owner: 'shop', participants: ['mine'] })
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const forged = {
      instructionId: 'forged',
      participantId: 'mine',
      railType: 'orders',
      payload: { state: 'DISPATCHED' },
    }
    for (const [path, body] of [
      ['/v1/instructions', forged],
      ['/v1/instructions/batch', { instructions: [forged] }],
      ['/v1/instructions/propose', { ...forged, reason: 'a test' }],
    ] as const) {
      const request = {
        method: 'POST',
        headers: { ...headers, 'idempotency-key': 'forged' },
        body: JSON.stringify(body),
      }
      expect(await problemOf(await fixture.call(path, request))).toMatchObject({ code: 'PARTICIPANT_REFUSED' })
    }
    const { rows } = await db.queryNoRole(`SELECT 1 FROM payment_outbox_identities WHERE rail_type = 'orders'`)
    expect(rows).toEqual([])
  })

  test('reads an instruction of its participant behind 1,000 items of another with the same id', async () => {
    const instructionId = 'crowded'
    const { outboxId } = await enqueue(db, { instructionId, participantId: 'mine-too' })
    const others = Array.from({ length: 1_000 }, (_, n) =>
      buildInstruction({ instructionId, idempotencyKey: `x${n}`, participantId: 'others' }),
    )
    await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), others)
    const { key } = await createKey(db, { scopes: ['read'], owner: 'shop', participants: ['mine-too'] })
    const headers = { authorization: `Bearer ${key}` }
    const answer = await fixture.call(`/v1/instructions/${instructionId}`, { headers })
    expect(await answer.json()).toMatchObject({ items: [{ outboxId }] })
  })

  test('sees only items of its participants in lists, searches and proposals', async () => {
    const item = await enqueue(db, { participantId: 'mine-alone' })
    const { key } = await createKey(db, { scopes: ['read'], owner: 'shop', participants: ['mine-alone'] })
    const headers = { authorization: `Bearer ${key}` }
    expect(await bodyOf(await fixture.call('/v1/outbox', { headers }))).toMatchObject({
      items: [{ outboxId: item.outboxId }],
    })
    expect(await bodyOf(await fixture.call(`/v1/outbox?q=${EXAMPLE.instructionId}`, { headers }))).toMatchObject({
      items: [],
    })
    expect(await bodyOf(await fixture.call('/v1/proposals', { headers }))).toMatchObject({ items: [] })
    expect((await fixture.call(`/v1/outbox?participant=${EXAMPLE.participantId}`, { headers })).status).toBe(403)
    expect((await fixture.call(`/v1/outbox/${item.outboxId}`, { headers })).status).toBe(200)
  })
})

/** Routes that run no query in a role of the API when they are called with the token. */
const NO_ROLE = new Set(['/v1/me', '/v1/session', '/v1/stream', '/v1/alerts', '/v1/databases', '/metrics'])

describe('the database role of a route', () => {
  test('is used by every route that queries the database: symphony_auth in its place causes 500', async () => {
    const authRole = db.as('symphony_auth')
    const broken = await openHttpFixture(db, {
      roles: {
        ingest: authRole,
        ingestFor: () => authRole,
        readonly: authRole,
        auditor: authRole,
        control: () => authRole,
      },
    })
    onTestFinished(() => broken.close())
    for (const route of guarded()) {
      if (NO_ROLE.has(route.path)) continue
      const where = `${route.method} ${route.path}`
      expect([where, (await ask(route, `Bearer ${TOKEN}`, broken.address)).status]).toEqual([where, 500])
    }
  })

  test('is unavailable to operate and ingest if the login is no gateway (OPERATE_UNAVAILABLE)', async () => {
    const dumb = await openHttpFixture(db, { roles: { mayActFor: async () => false } })
    onTestFinished(() => dumb.close())
    await unchanged(async () => {
      for (const route of guarded().filter(({ access }) => /operate|ingest/.test(access))) {
        expect(await problemOf(await ask(route, `Bearer ${TOKEN}`, dumb.address))).toMatchObject({
          code: 'OPERATE_UNAVAILABLE',
        })
      }
    })
  })

  test('is unavailable to decisions and proposals without a key if the login acts for keys only', async () => {
    const keysOnly = await openHttpFixture(db, { roles: { mayActFor: async (people) => people === 'keys' } })
    onTestFinished(() => keysOnly.close())
    await unchanged(async () => {
      for (const route of guarded()) {
        if (!/operate/.test(route.access) && route.path !== '/v1/instructions/propose') continue
        const { code, detail } = await problemOf(await ask(route, `Bearer ${TOKEN}`, keysOnly.address))
        expect([route.path, code, detail]).toEqual([
          route.path,
          'OPERATE_UNAVAILABLE',
          expect.stringContaining('NAME=api+names'),
        ])
      }
    })
  })
})

/** Posts a body of the given size. Returns the status and the Connection header. */
async function postBytes(bearer: string, bytes: number): Promise<(number | string | null)[]> {
  const { status, headers } = await fixture.call('/v1/instructions', {
    method: 'POST',
    headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json', 'idempotency-key': 'k' },
    body: buildText(bytes),
  })
  return [status, headers.get('connection')]
}

describe('on an HTTP server,', () => {
  test('a key over its rate gets 429 with Retry-After; another key does not', async () => {
    const clock = new HandClock()
    const limited = await openHttpFixture(db, { limits: { requestsPerSecond: 2 }, clock })
    onTestFinished(() => limited.close())
    const one = await createKey(db, { scopes: ['read'], owner: 'busy' })
    const two = await createKey(db, { scopes: ['read'], owner: 'calm' })
    const me = ({ key }: { key: string }) => limited.call('/v1/me', { headers: { authorization: `Bearer ${key}` } })
    for (let asked = 0; asked < 4; asked += 1) expect((await me(one)).status).toBe(200)
    const refused = await me(one)
    expect(refused.headers.get('retry-after')).toBe('1')
    expect(await problemOf(refused)).toMatchObject({ status: 429, code: 'RATE_LIMITED' })
    expect((await me(two)).status).toBe(200)
    clock.ms += 500
    expect([(await me(one)).status, (await me(one)).status]).toEqual([200, 429])
  })

  test('the rate limit counts a long body as several requests, but never as more than the burst', async () => {
    const clock = new HandClock()
    const limited = await openHttpFixture(db, { limits: { requestsPerSecond: 2 }, clock })
    onTestFinished(() => limited.close())
    const { key } = await createKey(db, { scopes: ['ingest'], owner: 'verbose' })
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': 'k' }
    const post = (body: string) => limited.call('/v1/instructions', { method: 'POST', headers, body })
    // The burst is 4 requests. 16 KiB count as one, one byte more counts as two, so one request is left.
    expect((await post(buildText(16_384))).status).toBe(422)
    expect((await post(buildText(16_385))).status).toBe(422)
    const refused = await post(buildText(32_768))
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
    expect((await post('{}')).status).toBe(422)
    // A body of unknown length counts as the longest allowed body.
    const postChunked = () => {
      const chunked = { method: 'POST', headers, body: new Blob(['{}']).stream(), duplex: 'half' as const }
      return fetch(new URL('/v1/instructions', limited.address), chunked)
    }
    clock.ms += 1_999
    expect([(await postChunked()).status, (await post(buildText(100_000))).status]).toEqual([429, 429])
    clock.ms += 1
    expect((await postChunked()).status).toBe(422)
    clock.ms += 2_000
    expect((await post(buildText(100_000))).status).toBe(422)
    expect((await post('{}')).status).toBe(429)
  })

  test('a request with a wrong key and a body over 16 KiB gets 401 and is disconnected', async () => {
    const { key } = await createKey(db, { scopes: ['ingest'], owner: 'large' })
    expect([await postBytes('wrong', 16_385), await postBytes('wrong', 16_384), await postBytes(key, 16_385)]).toEqual([
      [401, 'close'],
      [401, 'keep-alive'],
      [422, 'keep-alive'],
    ])
  })

  test('the server listens on the given address only', async () => {
    expect(new URL(fixture.address).hostname).toBe('127.0.0.1')
    const other = createServer()
    onTestFinished(() => void other.close())
    await new Promise<void>((resolve) => other.listen(Number(new URL(fixture.address).port), '127.0.0.2', resolve))
    expect(other.listening).toBe(true)
  })

  test('answers carry security headers and are not cached', async () => {
    const response = await fixture.call('/v1/me')
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'cache-control': 'no-store',
      'content-security-policy': expect.stringContaining("frame-ancestors 'none'"),
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
    })
  })
})

/** Returns JSON of this many bytes. */
function buildText(bytes: number): string {
  return JSON.stringify('x'.repeat(bytes - 2))
}

/** Clock that stands still until a test moves it. */
class HandClock implements Clock {
  ms = 0

  now(): Date {
    return new Date(this.ms)
  }

  monotonicMs(): number {
    return this.ms
  }
}
