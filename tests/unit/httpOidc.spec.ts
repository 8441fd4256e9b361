import { createServer, type Server } from 'node:http'
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { JsonObject } from '../../libs/core/index.js'
import { readOidcOptions } from '../../libs/http/index.js'
import { useTestDatabase } from '../support/database.js'
import { bodyOf, openHttpFixture, problemOf, type HttpFixture } from '../support/httpFixture.js'
import { enqueue } from '../support/outboxItems.js'
import { portOf } from '../support/portOf.js'

/** Tests of tokens of an identity provider. A local server serves the provider's public keys. */

type KeyPair = Awaited<ReturnType<typeof generateKeyPair>>

const db = await useTestDatabase()
let fixture: HttpFixture
let provider: Server
let jwksUrl: string
let trusted: KeyPair
let otherKey: KeyPair
beforeAll(async () => {
  trusted = await generateKeyPair('ES256', { extractable: true })
  otherKey = await generateKeyPair('ES256', { extractable: true })
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
})

const SETTINGS = (overrides: JsonObject = {}): JsonObject => ({
  issuer: 'https://login.example.com',
  audience: 'symphony',
  jwksUrl,
  ownerClaim: 'email',
  scopes: { 'payments.read': ['read'], 'payments.admin': ['read', 'operate'], 'payments.write': ['ingest'] },
  ...overrides,
})

const SIGN_IN: JsonObject = { clientId: 'symphony-dashboard', publicUrl: 'https://symphony.example.com/' }

interface TokenOptions {
  readonly claims?: Readonly<Record<string, unknown>>
  readonly key?: KeyPair['privateKey'] | Uint8Array
  readonly alg?: string
  readonly kid?: string
  readonly seconds?: { readonly iat?: number; readonly nbf?: number; readonly exp?: number }
}

/** Signs a token that is valid except for the given changes. */
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

test('/v1/me returns the owner and the scopes from the claims of a valid token', async () => {
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

/** Posts an instruction as a person, with a token that expires in this many seconds. */
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

test('an Idempotency-Key belongs to one person of an issuer, even after the token is renewed', async () => {
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

test('a token has no scope if no setting maps its scopes; /v1/jobs refuses it (SCOPE_MISSING)', async () => {
  const jwt = await token({ claims: { scope: 'read operate ingest audit' } })
  expect(await bodyOf(await me(jwt))).toMatchObject({ scopes: [] })
  const response = await fixture.call('/v1/jobs', { headers: { authorization: `Bearer ${jwt}` } })
  expect(await problemOf(response)).toMatchObject({ code: 'SCOPE_MISSING' })
})

describe('an OIDC access token', () => {
  test.each<[string, () => Promise<string>]>([
    ['signed by another key', () => token({ key: otherKey.privateKey })],
    ['with an unknown key id', () => token({ key: otherKey.privateKey, kid: 'k2' })],
    ['of another issuer', () => token({ claims: { iss: 'https://evil.example.com' } })],
    ['for another audience', () => token({ claims: { aud: 'shop' } })],
    ['expired', () => token({ seconds: { exp: -31 } })],
    ['not valid yet', () => token({ seconds: { nbf: 40 } })],
    ['without exp', () => token({ claims: { exp: undefined } })],
    ['exp of 1e30', () => token({ claims: { exp: 1e30 } })],
    ['exp beyond the last Date', () => token({ claims: { exp: 8_640_000_000_001 } })],
    ['exp as text', () => token({ claims: { exp: '4000000000' } })],
    ['exp of null', () => token({ claims: { exp: null } })],
    ['exp as a list', () => token({ claims: { exp: [4_000_000_000] } })],
    ['exp of -1e30', () => token({ claims: { exp: -1e30 } })],
    ['nbf as text', () => token({ claims: { nbf: 'now' } })],
    ['nbf of 1e30', () => token({ claims: { nbf: 1e30 } })],
    ['nbf as an object', () => token({ claims: { nbf: {} } })],
    ['iat as text', () => token({ claims: { iat: 'now' } })],
    ['iat of null', () => token({ claims: { iat: null } })],
    ['without an owner', () => token({ claims: { email: undefined } })],
    ['with an owner that is no text', () => token({ claims: { email: 7 } })],
    ['with an owner that ends in a space', () => token({ claims: { email: 'alice ' } })],
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
      'with a changed payload',
      async () => (await token()).replace(/\.[^.]+\./, `.${Buffer.from('{"email":"root"}').toString('base64url')}.`),
    ],
  ])('is refused (401): %s', async (_, make) => {
    expect(await problemOf(await me(await make()))).toMatchObject({ status: 401, code: 'UNAUTHENTICATED' })
  })

  test('is accepted if clocks differ by 20 s', async () => {
    expect((await me(await token({ seconds: { exp: -20 } }))).status).toBe(200)
    expect((await me(await token({ seconds: { nbf: 20 } }))).status).toBe(200)
  })
})

test('participantsClaim limits a token to its participants; a token without the claim gets 401', async () => {
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

test('an unreachable identity provider causes 503 IDENTITY_PROVIDER_UNAVAILABLE, not 401', async () => {
  const dark = await openHttpFixture(db, { oidc: readOidcOptions(SETTINGS({ jwksUrl: 'http://127.0.0.1:1/jwks' })) })
  onTestFinished(() => dark.close())
  expect(await problemOf(await me(await token(), dark))).toMatchObject({
    status: 503,
    code: 'IDENTITY_PROVIDER_UNAVAILABLE',
  })
})

describe('OIDC settings', () => {
  test.each<[string, JsonObject, string]>([
    ['without an issuer', { issuer: '' }, 'issuer'],
    ['without an audience', { audience: null }, 'audience'],
    ['with an address that is not https', { jwksUrl: 'http://login.example.com/jwks' }, 'jwksUrl'],
    ['with an invalid address', { jwksUrl: 'jwks' }, 'jwksUrl'],
    ['with the algorithm HS256', { algorithms: ['HS256'] }, 'algorithms'],
    ['with the algorithm none', { algorithms: ['none'] }, 'algorithms'],
    ['with a scope that does not exist', { scopes: { admin: ['root'] } }, 'scopes.admin'],
    ['with an unknown field', { audiance: 'symphony' }, 'audiance'],
    ['with a sign-in that is no object', { signIn: true }, 'signIn'],
    ['with an unknown field of the sign-in', { signIn: { ...SIGN_IN, clientID: 'a' } }, 'signIn.clientID'],
    ['without a client', { signIn: { ...SIGN_IN, clientId: '' } }, 'signIn.clientId'],
    ['without a public URL', { signIn: { clientId: 'a' } }, 'signIn.publicUrl'],
    ['with a public URL on http', { signIn: { ...SIGN_IN, publicUrl: 'http://a.example.com/' } }, 'signIn.publicUrl'],
    [
      'with a public URL without /',
      { signIn: { ...SIGN_IN, publicUrl: 'https://a.example.com/b' } },
      'signIn.publicUrl',
    ],
    [
      'with a query in the public URL',
      { signIn: { ...SIGN_IN, publicUrl: 'https://a.example.com/?b' } },
      'signIn.publicUrl',
    ],
    ['with sessions of 481 minutes', { signIn: { ...SIGN_IN, sessionMinutes: 481 } }, 'signIn.sessionMinutes'],
    ['with a sign-in at an issuer on http', { signIn: SIGN_IN, issuer: 'http://login.example.com' }, 'issuer'],
  ])('are refused %s', (_, change, argument) => {
    expect(() => readOidcOptions(SETTINGS(change))).toThrow(expect.objectContaining({ argument }))
  })
})
