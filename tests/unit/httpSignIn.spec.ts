import { generateKeyPair } from 'jose'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { readBrowserSessions, revokeBrowserSession } from '../../libs/access/index.js'
import type { JsonObject } from '../../libs/core/index.js'
import { readOidcOptions } from '../../libs/http/index.js'
import { useTestDatabase } from '../support/database.js'
import { EventStreamClient } from '../support/eventStream.js'
import { rowHashes } from '../support/fingerprint.js'
import { CLIENT, ForgingProvider, type Forgery } from '../support/forgingProvider.js'
import { bodyOf, createKey, openHttpFixture, problemOf, type HttpFixture } from '../support/httpFixture.js'
import { enqueue } from '../support/outboxItems.js'
import { enqueueUnknown } from '../support/outboxPeople.js'

/** Tests of the sign-in at an identity provider and of its sessions. tests/e2e tests both in a browser. */

const db = await useTestDatabase()
const PUBLIC_URL = 'https://symphony.example.com/'
const clock = { ms: 0, now: () => new Date(), monotonicMs: () => clock.ms }
let provider: ForgingProvider
let fixture: HttpFixture
beforeAll(async () => {
  provider = await new ForgingProvider().open()
  fixture = await openHttpFixture(db, { oidc: oidc(), clock })
})
afterAll(async () => {
  await fixture.close()
  await provider.stop()
})

function oidc(changes: JsonObject = {}) {
  const settings = {
    issuer: provider.issuer,
    audience: 'symphony',
    jwksUrl: `${provider.issuer}/jwks`,
    scopeClaim: 'groups',
    scopes: { 'payments.ops': ['read', 'operate'], 'payments.read': ['read'] },
    signIn: { clientId: CLIENT.id, publicUrl: PUBLIC_URL, name: 'Example' },
    ...changes,
  }
  return readOidcOptions(settings, { clientSecret: CLIENT.secret })
}

/** Headers that a browser sends with a request of the dashboard. */
const OWN = {
  'symphony-csrf': '1',
  origin: 'https://symphony.example.com',
  'sec-fetch-site': 'same-origin',
}

/** Sends a request as a browser, without a token. */
function browse(
  path: string,
  init: { method?: string; cookie?: string; body?: unknown; headers?: Record<string, string | undefined> } = {},
  at = fixture,
): Promise<Response> {
  const { method = 'POST', cookie, body, headers } = init
  const type = body === undefined ? {} : { 'content-type': 'application/json' }
  const all = { ...OWN, ...type, ...(cookie === undefined ? {} : { cookie }), ...headers }
  const given = Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return fetch(`${at.address}${path}`, {
    method,
    headers: given,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

/** Returns `NAME=VALUE` of a cookie that a response sets; undefined if it sets none. */
function cookieIn(response: Response, name: string): string | undefined {
  const found = response.headers
    .getSetCookie()
    .find((text) => text.startsWith(`${name}=`) && !text.includes('Max-Age=0'))
  return found?.split(';', 1)[0]
}

async function start(at = fixture): Promise<{ readonly url: string; readonly cookie: string }> {
  clock.ms += 1_000
  const response = await browse('/v1/sign-in', {}, at)
  const { authorizationUrl } = await bodyOf(response)
  return { url: String(authorizationUrl), cookie: cookieIn(response, '__Host-symphony-sign-in') ?? '' }
}

function finish(answer: string, cookie: string, at = fixture): Promise<Response> {
  return browse('/v1/session', { cookie, body: { answer } }, at)
}

/** Signs a person in and returns the cookie of the session. */
async function signIn(claims: Forgery['claims'] = {}, at = fixture): Promise<string> {
  const { url, cookie } = await start(at)
  const response = await finish(provider.approve(url, { claims }), cookie, at)
  return cookieIn(response, '__Host-symphony-session') ?? `none: ${await response.text()}`
}

function sessionIdIn(cookie: string): string {
  return cookie.split('_')[3] ?? ''
}

function me(cookie: string, at = fixture): Promise<Response> {
  return browse('/v1/me', { method: 'GET', cookie }, at)
}

describe('a sign-in at the dashboard', () => {
  test('sets a Strict, HttpOnly __Host- cookie; its session has the claims’ person and scopes', async () => {
    expect(await bodyOf(await fixture.call('/v1/sign-in'))).toEqual({ provider: 'Example' })
    const { url, cookie } = await start()
    expect(Object.fromEntries(new URL(url).searchParams)).toEqual({
      client_id: CLIENT.id,
      response_type: 'code',
      redirect_uri: PUBLIC_URL,
      scope: 'openid profile email',
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge_method: 'S256',
    })
    const response = await finish(provider.approve(url), cookie)
    expect(await bodyOf(response)).toMatchObject({ owner: 'alice', scopes: ['read', 'operate'], via: 'session' })
    expect(response.headers.getSetCookie()).toEqual([
      '__Host-symphony-sign-in=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0',
      expect.stringMatching(
        /^__Host-symphony-session=symphony_[a-z0-9]{16}_[\w-]{43}; Path=\/; Secure; HttpOnly; SameSite=Strict; Max-Age=28800$/,
      ),
    ])
    const session = cookieIn(response, '__Host-symphony-session') ?? ''
    expect(await bodyOf(await me(session))).toEqual({
      owner: 'alice',
      scopes: ['read', 'operate'],
      participants: null,
      via: 'session',
      keyId: null,
      expiresAt: expect.stringMatching(/Z$/),
    })
    expect(fixture.logged()).toContain(`"sessionId":"${sessionIdIn(session)}"`)
    expect(fixture.logged()).not.toContain(session.slice(-43))
    // The value of the cookie is not accepted as an API key.
    const asKey = { authorization: `Bearer ${session.split('=')[1] ?? ''}` }
    expect((await fixture.call('/v1/me', { headers: asKey })).status).toBe(401)
  })

  test('restricts the session to the participants that the claim names', async () => {
    const bound = await openHttpFixture(db, { oidc: oidc({ participantsClaim: 'tenants' }), clock })
    onTestFinished(() => bound.close())
    const item = await enqueue(db, { participantId: 'sign-in-mine' })
    await enqueue(db, { participantId: 'sign-in-theirs' })
    const cookie = await signIn({ tenants: ['sign-in-mine', 'sign-in-mine'] }, bound)
    const response = await browse('/v1/outbox', { method: 'GET', cookie }, bound)
    expect(await bodyOf(response)).toMatchObject({ items: [{ outboxId: item.outboxId }] })
    expect((await browse('/v1/status', { method: 'GET', cookie }, bound)).status).toBe(403)
    expect(await signIn({}, bound)).toContain('SIGN_IN_REFUSED')
  })

  test('creates a new session each time and ends the previous one (no session fixation)', async () => {
    const first = await signIn()
    const { url, cookie } = await start()
    const planted = `__Host-symphony-session=symphony_${'a'.repeat(16)}_${'b'.repeat(43)}`
    const second = await finish(provider.approve(url), `${cookie}; ${planted}`)
    expect(cookieIn(second, '__Host-symphony-session')).not.toBe(planted)
    const again = await start()
    const third = await finish(provider.approve(again.url), `${again.cookie}; ${first}`)
    expect(third.status).toBe(200)
    expect(await problemOf(await me(first))).toMatchObject({ code: 'SESSION_ENDED' })
    expect((await me(cookieIn(third, '__Host-symphony-session') ?? '')).status).toBe(200)
  })

  test.each<[string, Forgery]>([
    ['the nonce of another sign-in', { claims: { nonce: 'n'.repeat(43) } }],
    ['no nonce', { claims: { nonce: undefined } }],
    ['another issuer', { claims: { iss: 'https://evil.example.com' } }],
    ['another audience', { claims: { aud: 'shop' } }],
    ['several audiences and another authorized party', { claims: { aud: [CLIENT.id, 'shop'], azp: 'shop' } }],
    ['an expiry 35 s ago', { claims: { exp: Math.floor(Date.now() / 1_000) - 35 } }],
    ['an issue time as text', { claims: { iat: 'now' } }],
    ['no signature (alg none)', { alg: 'none' }],
    [
      'a signature with the client secret (HS256)',
      { alg: 'HS256', key: new TextEncoder().encode(CLIENT.secret.padEnd(32)) },
    ],
    ['text that is no token', { token: 'x.y' }],
    ['no person', { claims: { sub: '' } }],
    ['a person with a control character', { claims: { sub: 'alice\u0007' } }],
    ['a person with " via "', { claims: { sub: 'alice via web' } }],
    ['no group', { claims: { groups: [] } }],
    ['groups without a scope here', { claims: { groups: ['operate', 'read'] } }],
  ])('is refused if the token has %s', async (_, forgery) => {
    const { url, cookie } = await start()
    const before = await rowHashes(db)
    const response = await finish(provider.approve(url, forgery), cookie)
    expect(response.headers.getSetCookie()).toEqual([expect.stringContaining('__Host-symphony-sign-in=; ')])
    expect((await problemOf(response)).code).toBe('SIGN_IN_REFUSED')
    expect(await rowHashes(db)).toEqual(before)
  })

  test('is refused if the token is signed by another key', async () => {
    const { privateKey: key } = await generateKeyPair('ES256')
    const { url, cookie } = await start()
    expect(await problemOf(await finish(provider.approve(url, { key }), cookie))).toMatchObject({
      code: 'SIGN_IN_REFUSED',
    })
  })

  test('tolerates clocks that differ by 20 s', async () => {
    const now = Math.floor(Date.now() / 1_000)
    expect(await signIn({ iat: now + 20, exp: now - 20 })).toContain('symphony_')
  })

  test('is refused for a used code, a foreign state, browser or issuer, or a provider error', async () => {
    const { url, cookie } = await start()
    const answer = provider.approve(url)
    const refused = async (given: string, sent: string) => (await problemOf(await finish(given, sent))).detail ?? ''
    const other = await start()
    // Login CSRF: the answer belongs to the sign-in of another browser.
    expect(await refused(answer, other.cookie)).toContain('OAUTH_INVALID_RESPONSE')
    expect(await refused(answer, '')).toBe('No sign-in has started in this browser. Sign in again.')
    expect(await refused(answer, `${cookie}; ${other.cookie}`)).toContain('No sign-in has started')
    expect(await refused(`${answer}&state=x`, cookie)).toContain('OAUTH_INVALID_RESPONSE')
    expect(await refused(answer.replace(/iss=[^&]+/, 'iss=https%3A%2F%2Fevil.example.com'), cookie)).toContain('OAUTH_')
    expect(await refused(answer.replace(/&iss=[^&]+/, ''), cookie)).toContain('OAUTH_INVALID_RESPONSE')
    const state = new URL(url).searchParams.get('state') ?? ''
    const denied = new URLSearchParams({
      error: 'access_denied',
      error_description: '<b>',
      state,
      iss: provider.issuer,
    })
    expect(await refused(denied.toString(), cookie)).toBe(
      'The answer of the provider is not valid (access_denied). Sign in again.',
    )
    expect((await finish(answer, cookie)).status).toBe(200)
    expect(await refused(answer, cookie)).toContain('invalid_grant')
    // A code that another browser's sign-in obtained fails PKCE, even with the right state.
    const stolen = provider.approve(other.url)
    const mixed = other.cookie.replace(/[\w-]{43}$/, 'v'.repeat(43))
    expect(await refused(stolen, mixed)).toContain('invalid_grant')
  })

  test.each(['', 'x'.repeat(8_193), 'code=%00', '#', '\\', 'code=a&code=b'])(
    'is refused with a typed problem if the provider’s answer is %j',
    async (answer) => {
      const { cookie } = await start()
      const { status } = await problemOf(await finish(answer.slice(0, 9_000), cookie))
      expect([403, 422]).toContain(status)
    },
  )

  test('is refused with an e-mail address that the provider has not verified', async () => {
    const byEmail = await openHttpFixture(db, { oidc: oidc({ ownerClaim: 'email' }), clock })
    onTestFinished(() => byEmail.close())
    expect(await signIn({ email: 'a@example.com', email_verified: true }, byEmail)).toContain('symphony_')
    expect(await signIn({ email: 'a@example.com', email_verified: false }, byEmail)).toContain('SIGN_IN_REFUSED')
  })

  test('is refused after 40 attempts in the same second (429)', async () => {
    const limited = await openHttpFixture(db, { oidc: oidc(), clock })
    onTestFinished(() => limited.close())
    const statuses: number[] = []
    for (let n = 0; n < 41; n += 1) statuses.push((await browse('/v1/sign-in', {}, limited)).status)
    expect(statuses).toEqual([...Array.from({ length: 40 }, () => 200), 429])
  })
})

describe('a failed identity provider', () => {
  test('causes 503 while unreachable; the server starts, sessions continue, sign-in works later', async () => {
    const cookie = await signIn()
    await provider.stop()
    const started = await openHttpFixture(db, { oidc: oidc(), clock })
    onTestFinished(() => started.close())
    const response = await browse('/v1/sign-in', {}, started)
    expect(response.headers.get('retry-after')).toBe('1')
    expect(await problemOf(response)).toMatchObject({
      status: 503,
      code: 'IDENTITY_PROVIDER_UNAVAILABLE',
      detail: expect.stringMatching(/Sign in later, or with a token; running sessions continue\.$/),
    })
    expect((await me(cookie, started)).status).toBe(200)
    // Sign-out needs no provider.
    expect(await bodyOf(await browse('/v1/session', { method: 'DELETE', cookie }, started))).toEqual({
      signOutUrl: null,
    })
    await provider.start()
    clock.ms += 1_000
    expect(await signIn({}, started)).toContain('symphony_')
  })

  test.each([
    [500, 'does not answer as expected'],
    [401, 'refuses the client id or the client secret'],
  ])('causes 503 if its token endpoint answers %d', async (status, detail) => {
    const { url, cookie } = await start()
    provider.tokenStatus = status
    onTestFinished(() => void (provider.tokenStatus = 200))
    expect(await problemOf(await finish(provider.approve(url), cookie))).toMatchObject({
      code: 'IDENTITY_PROVIDER_UNAVAILABLE',
      detail: expect.stringContaining(detail),
    })
  })
})

describe('a session of the dashboard', () => {
  test('is refused in a cross-site request to any route (CROSS_SITE_REQUEST), and changes nothing', async () => {
    const cookie = await signIn()
    const routes = fixture.routes.filter(({ access }) => access !== 'open' && access !== 'signature')
    expect(routes.length).toBeGreaterThan(35)
    const before = await rowHashes(db)
    const refusals = new Set<string>()
    for (const { method, path } of routes) {
      const forged: Record<string, string | undefined>[] = [
        { 'symphony-csrf': undefined },
        { 'sec-fetch-site': 'same-site' },
        { origin: 'https://evil.example.com' },
        ...(method === 'GET' ? [{ 'sec-fetch-site': 'none' }] : [{ origin: undefined }, { origin: 'null' }]),
      ]
      for (const headers of forged) {
        const response = await browse(path.replaceAll(/\{\w+\}/g, 'x'), { method, cookie, headers })
        refusals.add((await problemOf(response)).code)
      }
    }
    expect([...refusals]).toEqual(['CROSS_SITE_REQUEST'])
    for (const path of ['/v1/sign-in', '/v1/session']) {
      const headers = { origin: 'https://evil.example.com' }
      expect(await problemOf(await browse(path, { headers, body: { answer: 'x' } }))).toMatchObject({
        code: 'CROSS_SITE_REQUEST',
        detail: `Open the dashboard at ${PUBLIC_URL}`,
      })
    }
    expect(await rowHashes(db)).toEqual(before)
    expect((await me(cookie)).status).toBe(200)
  })

  test('ends at sign-out, and within 2 s after its revocation or expiry', async () => {
    const [revoked, expired, left] = [await signIn(), await signIn(), await signIn()]
    for (const cookie of [revoked, expired, left]) expect((await me(cookie)).status).toBe(200)
    await revokeBrowserSession(db.as('symphony_control'), sessionIdIn(revoked))
    await db.queryNoRole(`UPDATE browser_sessions SET expires_at = clock_timestamp() WHERE session_id = $1`, [
      sessionIdIn(expired),
    ])
    clock.ms += 2_000
    expect(await problemOf(await me(revoked))).toMatchObject({ status: 401, code: 'SESSION_ENDED' })
    expect(await problemOf(await me(expired))).toMatchObject({ status: 401, code: 'SESSION_ENDED' })
    const signedOut = await browse('/v1/session', { method: 'DELETE', cookie: left })
    expect(signedOut.headers.getSetCookie()).toEqual([
      '__Host-symphony-session=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0',
    ])
    const { searchParams } = new URL(String((await bodyOf(signedOut))['signOutUrl']))
    expect(Object.fromEntries(searchParams)).toEqual({ client_id: CLIENT.id, post_logout_redirect_uri: PUBLIC_URL })
    expect(await problemOf(await me(left))).toMatchObject({ code: 'SESSION_ENDED' })
    const sessions = await readBrowserSessions(db.as('symphony_control'))
    expect(sessions.find(({ sessionId }) => sessionId === sessionIdIn(left))).toMatchObject({ revokedBy: 'alice' })
  })

  test('loses its event stream when it is revoked', async () => {
    const running = { ms: 0, now: () => new Date(), monotonicMs: () => (running.ms += 1_000) }
    const streaming = await openHttpFixture(db, { oidc: oidc(), clock: running, streamPollMs: 20 })
    onTestFinished(() => streaming.close())
    const cookie = await signIn({}, streaming)
    const abort = new AbortController()
    const response = await fetch(`${streaming.address}/v1/stream`, {
      headers: { ...OWN, cookie },
      signal: abort.signal,
    })
    expect(response.status).toBe(200)
    const client = new EventStreamClient(response, abort)
    await revokeBrowserSession(db.as('symphony_control'), sessionIdIn(cookie))
    expect(await client.ended).toBe('ended')
  })

  test.each([
    ['an unknown cookie', `__Host-symphony-session=symphony_${'a'.repeat(16)}_${'b'.repeat(43)}`, 'SESSION_ENDED'],
    ['a cookie with an invalid value', '__Host-symphony-session=../../etc/passwd', 'SESSION_ENDED'],
    ['an empty cookie', '__Host-symphony-session=', 'SESSION_ENDED'],
    ['two cookies', '__Host-symphony-session=a; __Host-symphony-session=b', 'UNAUTHENTICATED'],
    ['a cookie of a similar name', 'symphony-session=a', 'UNAUTHENTICATED'],
    ['15 KB of cookies', `x=${'y'.repeat(15_000)}; __Host-symphony-session=a`, 'SESSION_ENDED'],
  ])('is not opened by %s (401)', async (_, cookie, code) => {
    expect(await problemOf(await me(cookie))).toMatchObject({ status: 401, code })
  })

  test('is not opened by 17 KB of cookies (431)', async () => {
    expect((await me(`x=${'y'.repeat(17_000)}`)).status).toBe(431)
  })

  test('acts as its person; an API key of that person cannot approve what the session proposed', async () => {
    const { outboxId } = await enqueueUnknown(db)
    const alice = await signIn()
    const resolve = { decision: 'FAILED', reason: 'the bank never saw it' }
    const proposed = await bodyOf(await browse(`/v1/holds/${outboxId}/resolve`, { cookie: alice, body: resolve }))
    expect(proposed).toMatchObject({ status: 'PROPOSED' })
    const path = `/v1/proposals/${String(proposed['proposalId'])}/approve`
    expect(await problemOf(await browse(path, { cookie: alice }))).toMatchObject({ code: 'SECOND_PERSON_REQUIRED' })
    const { key } = await createKey(db, { scopes: ['operate'], owner: 'Alice' })
    const byKey = await fixture.call(path, { method: 'POST', headers: { authorization: `Bearer ${key}` } })
    expect(await problemOf(byKey)).toMatchObject({ code: 'SECOND_PERSON_REQUIRED' })
    expect((await browse(path, { cookie: await signIn({ sub: 'bob' }) })).status).toBe(200)
    const { rows } = await db.queryNoRole(
      `SELECT actor FROM payment_outbox_events WHERE outbox_id = $1 ORDER BY event_id`,
      [outboxId],
    )
    expect(JSON.stringify(rows)).toMatch(/alice via .*bob via /)
  })

  test('is ignored in a request that also has an API key', async () => {
    const { key } = await createKey(db, { scopes: ['read'], owner: 'carol' })
    const response = await browse('/v1/me', {
      method: 'GET',
      cookie: await signIn(),
      headers: { authorization: `Bearer ${key}`, 'symphony-csrf': undefined },
    })
    expect(await bodyOf(response)).toMatchObject({ owner: 'carol', via: 'key' })
  })
})

test('a server without the signIn setting refuses sign-in (403) and ignores cookies (401)', async () => {
  const plain = await openHttpFixture(db)
  onTestFinished(() => plain.close())
  expect(await bodyOf(await plain.call('/v1/sign-in'))).toEqual({ provider: null })
  expect(await problemOf(await browse('/v1/sign-in', {}, plain))).toMatchObject({ code: 'SIGN_IN_REFUSED' })
  expect(await problemOf(await me(await signIn(), plain))).toMatchObject({ status: 401, code: 'UNAUTHENTICATED' })
})
