import { createServer, type Server } from 'node:http'
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { JsonObject } from '../../libs/core/index.js'
import { readOidcOptions } from '../../libs/http/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { bodyOf, openHttpFixture, problemOf, type HttpFixture } from '../support/httpFixture.js'
import { enqueue } from '../support/outboxItems.js'
import { portOf } from '../support/portOf.js'

/** Tokens of an identity provider: a real one, whose keys are served by a real server of this machine. */

type KeyPair = Awaited<ReturnType<typeof generateKeyPair>>

let db: TestDatabase
let fixture: HttpFixture
let provider: Server
let jwksUrl: string
let trusted: KeyPair
let stranger: KeyPair
beforeAll(async () => {
  db = await createTestDatabase()
  trusted = await generateKeyPair('ES256', { extractable: true })
  stranger = await generateKeyPair('ES256', { extractable: true })
  const jwks = JSON.stringify({
    keys: [{ ...(await exportJWK(trusted.publicKey)), kid: 'k1', alg: 'ES256', use: 'sig' }],
  })
  provider = createServer((_request, response) => response.setHeader('content-type', 'application/json').end(jwks))
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve))
  jwksUrl = `http://127.0.0.1:${portOf(provider)}/jwks`
  fixture = await openHttpFixture(db, { oidc: readOidcOptions(SETTINGS()) })
})
afterAll(async () => {
  await fixture.close()
  await new Promise((resolve) => provider.close(resolve))
  await db.drop()
})

const SETTINGS = (overrides: JsonObject = {}): JsonObject => ({
  issuer: 'https://login.example.com',
  audience: 'symphony',
  jwksUrl,
  ownerClaim: 'email',
  scopes: { 'payments.read': ['read'], 'payments.admin': ['read', 'operate'], 'payments.write': ['ingest'] },
  ...overrides,
})

interface TokenOptions {
  readonly claims?: Readonly<Record<string, unknown>>
  readonly key?: KeyPair['privateKey'] | Uint8Array
  readonly alg?: string
  readonly kid?: string
  readonly seconds?: { readonly iat?: number; readonly nbf?: number; readonly exp?: number }
}

/** A token that counts, but for what is asked to be otherwise. */
function token({
  claims = {},
  key = trusted.privateKey,
  alg = 'ES256',
  kid = 'k1',
  seconds = {},
}: TokenOptions = {}): Promise<string> {
  const now = Math.floor(Date.now() / 1_000)
  return new SignJWT({
    iss: 'https://login.example.com',
    aud: 'symphony',
    email: 'alice@example.com',
    scope: 'openid payments.read',
    exp: now + (seconds.exp ?? 300),
    ...(seconds.nbf === undefined ? {} : { nbf: now + seconds.nbf }),
    ...claims,
  })
    .setProtectedHeader({ alg, kid })
    .sign(key)
}

async function me(jwt: string, at = fixture): Promise<Response> {
  return at.call('/v1/me', { headers: { authorization: `Bearer ${jwt}` } })
}

test('a token that counts is the person and the scopes that its claims say', async () => {
  expect(await bodyOf(await me(await token()))).toEqual({
    owner: 'alice@example.com',
    scopes: ['read'],
    participants: null,
    via: 'jwt',
    keyId: null,
    expiresAt: expect.stringMatching(/Z$/),
  })
  expect(
    await bodyOf(await me(await token({ claims: { scope: ['payments.admin', 'payments.read', 'other'] } }))),
  ).toMatchObject({ scopes: ['read', 'operate'] })
  expect((await fixture.call('/v1/jobs', { headers: { authorization: `Bearer ${await token()}` } })).status).toBe(200)
})

/** Posts an instruction as a person, with a token that ends in so many seconds. */
async function post(instructionId: string, email: string, seconds: number): Promise<Response> {
  return fixture.call('/v1/instructions', {
    method: 'POST',
    headers: {
      authorization: `Bearer ${await token({ claims: { email, scope: 'payments.write' }, seconds: { exp: seconds } })}`,
      'content-type': 'application/json',
      'idempotency-key': 'one-key',
    },
    body: JSON.stringify({ instructionId, participantId: 'p', railType: 'r', payload: {} }),
  })
}

test('an Idempotency-Key belongs to issuer and person: a renewed token keeps it', async () => {
  expect((await post('I-1', 'alice@example.com', 300)).status).toBe(201)
  expect(await problemOf(await post('I-2', 'alice@example.com', 600))).toMatchObject({
    code: 'KEY_REUSED',
    instructionId: 'I-1',
  })
  expect((await post('I-2', 'bob@example.com', 300)).status).toBe(201)
  const { rows } = await db.queryNoRole('SELECT key_scope FROM payment_outbox_identities ORDER BY instruction_id')
  expect(rows).toEqual([
    { key_scope: 'oidc:25:https://login.example.com:alice@example.com' },
    { key_scope: 'oidc:25:https://login.example.com:bob@example.com' },
  ])
})

test('a scope that is not mapped opens nothing', async () => {
  const jwt = await token({ claims: { scope: 'read operate ingest audit' } })
  expect(await bodyOf(await me(jwt))).toMatchObject({ scopes: [] })
  const response = await fixture.call('/v1/jobs', { headers: { authorization: `Bearer ${jwt}` } })
  expect(await problemOf(response)).toMatchObject({ code: 'SCOPE_MISSING' })
})

describe('a token does not count', () => {
  test.each<[string, () => Promise<string>]>([
    ['that another key signed', () => token({ key: stranger.privateKey })],
    ['under a key id the provider does not have', () => token({ key: stranger.privateKey, kid: 'k2' })],
    ['of another issuer', () => token({ claims: { iss: 'https://evil.example.com' } })],
    ['for another audience', () => token({ claims: { aud: 'shop' } })],
    ['that has expired', () => token({ seconds: { exp: -31 } })],
    ['that is not valid yet', () => token({ seconds: { nbf: 40 } })],
    ['without an end', () => token({ claims: { exp: undefined } })],
    ['whose end is no time', () => token({ claims: { exp: 1e30 } })],
    ['whose end is beyond every date', () => token({ claims: { exp: 8_640_000_000_001 } })],
    ['whose end is text', () => token({ claims: { exp: '4000000000' } })],
    ['whose end is null', () => token({ claims: { exp: null } })],
    ['whose end is a list', () => token({ claims: { exp: [4_000_000_000] } })],
    ['whose end is before all time', () => token({ claims: { exp: -1e30 } })],
    ['whose beginning is text', () => token({ claims: { nbf: 'now' } })],
    ['whose beginning is never', () => token({ claims: { nbf: 1e30 } })],
    ['whose beginning is an object', () => token({ claims: { nbf: {} } })],
    ['whose issue time is text', () => token({ claims: { iat: 'now' } })],
    ['whose issue time is null', () => token({ claims: { iat: null } })],
    ['without a person', () => token({ claims: { email: undefined } })],
    ['of a person who is not text', () => token({ claims: { email: 7 } })],
    ['of a person with a space at the end', () => token({ claims: { email: 'alice ' } })],
    [
      'with an algorithm that is not allowed',
      async () =>
        token({ alg: 'HS256', key: new TextEncoder().encode(JSON.stringify(await exportJWK(trusted.publicKey))) }),
    ],
    [
      'without a signature',
      async () =>
        new UnsecuredJWT({
          iss: 'https://login.example.com',
          aud: 'symphony',
          email: 'alice@example.com',
          scope: 'payments.read',
          exp: 4_000_000_000,
        }).encode(),
    ],
    [
      'whose payload was changed',
      async () => (await token()).replace(/\.[^.]+\./, `.${Buffer.from('{"email":"root"}').toString('base64url')}.`),
    ],
  ])('%s', async (_, make) => {
    expect(await problemOf(await me(await make()))).toMatchObject({ status: 401, code: 'UNAUTHENTICATED' })
  })

  test('but clocks may differ by half a minute', async () => {
    expect((await me(await token({ seconds: { exp: -20 } }))).status).toBe(200)
    expect((await me(await token({ seconds: { nbf: 20 } }))).status).toBe(200)
  })
})

test('participants are those of the claim, and a token that should name them and does not is refused', async () => {
  const bound = await openHttpFixture(db, { oidc: readOidcOptions(SETTINGS({ participantsClaim: 'tenants' })) })
  onTestFinished(() => bound.close())
  const item = await enqueue(db, { participantId: 'oidc-mine' })
  await enqueue(db, { participantId: 'oidc-theirs' })
  const jwt = await token({ claims: { tenants: ['oidc-mine'] } })
  expect(await bodyOf(await bound.call('/v1/outbox', { headers: { authorization: `Bearer ${jwt}` } }))).toMatchObject({
    items: [{ outboxId: item.outboxId }],
  })
  expect((await me(await token(), bound)).status).toBe(401)
})

test('503 while the provider cannot be asked: nobody is let in, and nobody is told that their token is bad', async () => {
  const dark = await openHttpFixture(db, { oidc: readOidcOptions(SETTINGS({ jwksUrl: 'http://127.0.0.1:1/jwks' })) })
  onTestFinished(() => dark.close())
  expect(await problemOf(await me(await token(), dark))).toMatchObject({
    status: 503,
    code: 'IDENTITY_PROVIDER_UNAVAILABLE',
  })
})

describe('settings are refused', () => {
  test.each<[string, JsonObject, string]>([
    ['without an issuer', { issuer: '' }, 'issuer'],
    ['without an audience', { audience: null }, 'audience'],
    ['with an address that is not https', { jwksUrl: 'http://login.example.com/jwks' }, 'jwksUrl'],
    ['with an address that is none', { jwksUrl: 'jwks' }, 'jwksUrl'],
    ['with a shared secret for an algorithm', { algorithms: ['HS256'] }, 'algorithms'],
    ['with no algorithm at all', { algorithms: ['none'] }, 'algorithms'],
    ['with a scope that does not exist', { scopes: { admin: ['root'] } }, 'scopes.admin'],
    ['with a field nobody knows', { audiance: 'symphony' }, 'audiance'],
  ])('%s', (_, change, argument) => {
    expect(() => readOidcOptions(SETTINGS(change))).toThrow(expect.objectContaining({ argument }))
  })
})
