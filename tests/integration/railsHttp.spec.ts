import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  callRail,
  httpRail,
  inquireRail,
  loadRail,
  signRequest,
  RAIL_RESULT_CODES,
  type HttpOptions,
  type LoadedRail,
} from '../../libs/rails/index.js'
import { makeCertificate, type Certificate } from '../support/certificate.js'
import { portOf } from '../support/portOf.js'
import { railRequest } from '../support/railRequest.js'
import { answerJson, startRailServer, type RailServer, type Respond } from '../support/railServer.js'

const toClose: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const close of toClose.splice(0).toReversed()) await close()
})

async function serve(...given: Parameters<typeof startRailServer>): Promise<RailServer> {
  const server = await startRailServer(...given)
  toClose.push(server.close)
  return server
}

function railTo(http: HttpOptions, declared: object = {}): LoadedRail {
  const rail = loadRail(httpRail({ type: 'http', onUnknown: 'resend', timeoutMs: 5_000, ...declared, http }))
  toClose.push(rail.close)
  return rail
}

const paid: Respond = (_, response) => answerJson(response, 200, { reference: 'r-1' })

describe('a request of httpRail', () => {
  it('has the reference, the end of the lease, the trace context and the payload', async () => {
    const server = await serve(paid)
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    const request = railRequest({ traceparent })
    const verdict = await callRail(railTo({ url: `${server.url}/payments` }), request)
    expect(verdict).toMatchObject({ kind: 'success', reference: 'r-1', code: 'OK' })
    expect(server.received).toHaveLength(1)
    const [received] = server.received
    expect(received).toMatchObject({ method: 'POST', path: '/payments' })
    expect(received?.headers).toMatchObject({
      'content-type': 'application/json',
      'idempotency-key': request.reference,
      'symphony-not-after': request.notAfter.toISOString(),
      traceparent,
    })
    expect(JSON.parse(received?.body ?? '')).toEqual({
      reference: request.reference,
      instructionId: 'instruction-1',
      participantId: 'bank-1',
      sequenceId: '9007199254740993',
      idempotencyKey: 'key-1',
      payload: request.payload,
    })
  })

  it('has the same body and key on every attempt, so that the rail can detect a repeat', async () => {
    const server = await serve(paid)
    const rail = railTo({ url: server.url })
    const request = railRequest()
    await callRail(rail, request)
    await callRail(rail, { ...request, attempt: 2, notAfter: new Date(Date.now() + 90_000) })
    const [first, second] = server.received
    expect(second?.body).toBe(first?.body)
    expect(second?.headers['idempotency-key']).toBe(first?.headers['idempotency-key'])
  })

  it('has the method, url, headers and body of the options', async () => {
    const server = await serve(paid)
    const rail = railTo({
      url: `${server.url}/v2/{reference}?by={reference}`,
      method: 'PUT',
      headers: async () => ({ Authorization: 'Bearer t0ken-of-today', 'Idempotency-Key': 'mine' }),
      body: ({ payload }) => ({ sum: payload['amount'] ?? null }),
    })
    await callRail(rail, railRequest({ reference: 'a/b c' }))
    expect(server.received[0]).toMatchObject({
      method: 'PUT',
      path: '/v2/a%2Fb%20c?by=a%2Fb%20c',
      body: '{"sum":"10.00"}',
    })
    expect(server.received[0]?.headers).toMatchObject({
      authorization: 'Bearer t0ken-of-today',
      'idempotency-key': 'a/b c',
    })
  })

  it('has the Accept header of the options once, in any letter case', async () => {
    const server = await serve(paid)
    await callRail(railTo({ url: server.url, headers: { ACCEPT: 'application/vnd.rail+json' } }), railRequest())
    await callRail(railTo({ url: server.url }), railRequest())
    expect(server.received.map(({ headers }) => headers.accept)).toEqual([
      'application/vnd.rail+json',
      'application/json',
    ])
  })

  it('has the compact reference in its url, and in its body only if a body function uses it', async () => {
    const server = await serve(paid)
    const url = `${server.url}/{compactReference}`
    const reference = '019a8f2e-1b2c-7d3e-8f40-0123456789ab'
    const compact = '019a8f2e1b2c7d3e8f400123456789ab'
    await callRail(railTo({ url }), railRequest({ reference }))
    await callRail(railTo({ url, body: ({ compactReference }) => compactReference }), railRequest({ reference }))
    expect(server.received.map(({ path }) => path)).toEqual([`/${compact}`, `/${compact}`])
    // A rail compares the bodies of two requests under one key. So an upgrade of Symphony must not change the default
    // body.
    expect(server.received[0]?.body).not.toContain(compact)
    expect(server.received[1]?.body).toBe(JSON.stringify(compact))
  })

  it('is signed over timestamp, method, path, reference, not-after and body', async () => {
    const server = await serve(paid)
    const secret = 'a secret of more than 16 bytes'
    const rail = railTo({ url: `${server.url}/pay?x=1`, signing: { keyId: '2026-a', secret } })
    const request = railRequest()
    await callRail(rail, request)
    const [received] = server.received
    const header = String(received?.headers['symphony-signature'])
    const [, timestamp, signature] = /^t=(\d+),k=2026-a,v1=([0-9a-f]{64})$/.exec(header) ?? []
    expect(Math.abs(Number(timestamp) * 1_000 - Date.now())).toBeLessThan(60_000)
    const signed = [timestamp, 'POST', '/pay?x=1', request.reference, request.notAfter.toISOString(), received?.body]
    expect(signature).toBe(createHmac('sha256', secret).update(signed.join('\n')).digest('hex'))
  })

  it('has a different signature if any signed part changes', () => {
    const parts = { timestampSeconds: 1, method: 'POST', path: '/p', reference: 'r', notAfter: 'n', body: '{}' }
    const key = { keyId: 'k', secret: 'a secret of more than 16 bytes' }
    const variants = [
      parts,
      { ...parts, timestampSeconds: 2 },
      { ...parts, method: 'PUT' },
      { ...parts, path: '/q' },
      { ...parts, reference: 's' },
      { ...parts, notAfter: 'm' },
      { ...parts, body: '[]' },
    ]
    expect(new Set(variants.map((variant) => signRequest(key, variant))).size).toBe(variants.length)
  })
})

describe('an answer to httpRail', () => {
  it.each([
    [200, { reference: 'r-1' }, 'success', 'OK'],
    [201, { reference: 'r-1', code: 'DONE' }, 'success', 'DONE'],
    [202, { reference: 'r-1' }, 'success', 'OK'],
    [200, { reference: 17 }, 'success', 'OK'],
    [200, {}, 'unknown', RAIL_RESULT_CODES.noReference],
    [200, { reference: '' }, 'unknown', RAIL_RESULT_CODES.noReference],
    [200, { reference: null }, 'unknown', RAIL_RESULT_CODES.noReference],
    [200, { reference: 1.5 }, 'unknown', RAIL_RESULT_CODES.noReference],
    [200, { data: { reference: 'r-1' } }, 'unknown', RAIL_RESULT_CODES.noReference],
    [200, ['r-1'], 'unknown', RAIL_RESULT_CODES.noReference],
    [204, undefined, 'unknown', RAIL_RESULT_CODES.noReference],
    [300, {}, 'unknown', 'HTTP_300'],
    [303, {}, 'unknown', 'HTTP_303'],
    [400, { code: 'BAD_ACCOUNT' }, 'terminal', 'BAD_ACCOUNT'],
    [400, {}, 'terminal', 'HTTP_400'],
    [401, {}, 'retryable', 'HTTP_401'],
    [402, {}, 'terminal', 'HTTP_402'],
    [403, {}, 'retryable', 'HTTP_403'],
    [404, {}, 'retryable', 'HTTP_404'],
    [408, {}, 'unknown', 'HTTP_408'],
    [409, {}, 'unknown', 'HTTP_409'],
    [418, {}, 'unknown', 'HTTP_418'],
    [422, { code: 'LIMIT', message: 'over the limit' }, 'terminal', 'LIMIT'],
    [425, {}, 'retryable', 'HTTP_425'],
    [429, {}, 'retryable', 'HTTP_429'],
    [500, { reference: 'r-1' }, 'unknown', 'HTTP_500'],
    [501, {}, 'unknown', 'HTTP_501'],
    [502, {}, 'unknown', 'HTTP_502'],
    [503, {}, 'unknown', 'HTTP_503'],
    [504, {}, 'unknown', 'HTTP_504'],
  ])('is classified: status %i with body %j is %s (%s)', async (status, body, kind, code) => {
    const server = await serve((_, response) =>
      body === undefined ? response.writeHead(status).end() : answerJson(response, status, body),
    )
    expect(await callRail(railTo({ url: server.url }), railRequest())).toMatchObject({ kind, code })
  })

  it.each([
    ['only HTML', '<html><h1>Welcome</h1></html>'],
    ['cut JSON', '{"reference":"r-1"'],
    ['two references', '{"reference":"r-1","reference":"r-2"}'],
    ['a reference whose digits a double loses', '{"reference":9007199254740993}'],
    ['bytes that are not UTF-8', Buffer.from([0x7b, 0xff, 0x7d])],
    ['no content', ''],
  ])('is unknown if its status is 200 and its body has %s', async (_, body) => {
    const server = await serve((_request, response) => response.writeHead(200).end(body))
    expect(await callRail(railTo({ url: server.url }), railRequest())).toMatchObject({ kind: 'unknown' })
  })

  it('is read by the JSON pointers of the options', async () => {
    const server = await serve((_, response) =>
      answerJson(response, 200, { data: [{ 'a/b': 'r-9' }], constructor: 'x' }),
    )
    const pointers = { reference: '/data/0/a~1b' }
    expect(await callRail(railTo({ url: server.url, pointers }), railRequest())).toMatchObject({ reference: 'r-9' })
    for (const reference of ['/data/length', '/data/00', '/data/-1', '/toString', '/__proto__', '/data/0/a~1b/0']) {
      const astray = railTo({ url: server.url, pointers: { reference } })
      expect((await callRail(astray, railRequest())).kind).toBe('unknown')
    }
  })

  it('is classified by statusOutcomes instead of the default', async () => {
    const server = await serve((_, response) => answerJson(response, 503, {}))
    const rail = railTo({ url: server.url, statusOutcomes: { 503: 'retryable' } })
    expect((await callRail(rail, railRequest())).kind).toBe('retryable')
  })

  it('is classified by statusOutcomes of a 2xx status although the rail has a table of codes', async () => {
    const server = await serve((_, response) => answerJson(response, 202, {}))
    const rail = railTo({ url: server.url, statusOutcomes: { 202: 'retryable' } }, { codes: { BUSY: 'retryable' } })
    const result = await callRail(rail, railRequest())
    expect(result).toMatchObject({ kind: 'retryable', code: 'HTTP_202' })
    expect(result).not.toHaveProperty('unknownCode')
  })

  const CODES = { PAID: 'success', CLOSED: 'terminal', BUSY: 'retryable' } as const
  it.each([
    [200, { reference: 'r', code: 'PAID' }, 'success', undefined],
    [200, { reference: 'r' }, 'success', undefined],
    [200, { reference: 'r', code: 'CLOSED' }, 'terminal', undefined],
    [400, { code: 'BUSY' }, 'retryable', undefined],
    [400, { code: 'CLOSED' }, 'terminal', undefined],
    [400, {}, 'terminal', undefined],
    [503, {}, 'unknown', undefined],
    [400, { code: 'PAID' }, 'unknown', true],
    [500, { code: 'CLOSED' }, 'unknown', true],
    [200, { reference: 'r', code: 'NEW' }, 'unknown', true],
    [422, { code: 'NEW' }, 'unknown', true],
  ])('is classified by a table of codes: status %i with body %j is %s', async (status, body, kind, unknownCode) => {
    const server = await serve((_, response) => answerJson(response, status, body))
    const verdict = await callRail(railTo({ url: server.url }, { codes: CODES }), railRequest())
    expect(verdict.kind).toBe(kind)
    expect(verdict.unknownCode).toBe(unknownCode)
  })

  it.each([
    ['seconds', () => '7', 7_000, 7_000],
    ['a date', () => new Date(Date.now() + 30_000).toUTCString(), 20_000, 31_000],
    ['a date in the past', () => 'Wed, 21 Oct 2015 07:28:00 GMT', 1_000, 1_000],
  ])('sets retryAfterMs from a Retry-After with %s', async (_, retryAfter, atLeast, atMost) => {
    const server = await serve((_request, response) => answerJson(response, 429, {}, { 'retry-after': retryAfter() }))
    const { retryAfterMs } = await callRail(railTo({ url: server.url }), railRequest())
    expect(retryAfterMs).toBeGreaterThanOrEqual(atLeast)
    expect(retryAfterMs).toBeLessThanOrEqual(atMost)
  })

  it.each(['soon', '-5', '1.5', '2026-10-17', '12'.repeat(10)])(
    'sets no retryAfterMs from the invalid Retry-After "%s"',
    async (retryAfter) => {
      const server = await serve((_, response) => answerJson(response, 429, {}, { 'retry-after': retryAfter }))
      expect((await callRail(railTo({ url: server.url }), railRequest())).retryAfterMs).toBeUndefined()
    },
  )

  it('is unknown if it is a redirect, which is not followed (HTTP_307)', async () => {
    const elsewhere = await serve(paid)
    const server = await serve((_, response) => response.writeHead(307, { location: elsewhere.url }).end())
    expect(await callRail(railTo({ url: server.url }), railRequest())).toMatchObject({
      kind: 'unknown',
      code: 'HTTP_307',
    })
    expect(elsewhere.received).toEqual([])
  })

  it('is unknown if it is longer than responseBytesMax', async () => {
    const body = JSON.stringify({ reference: 'r-1', filler: 'x'.repeat(1_000) })
    const server = await serve((_, response) => response.writeHead(200).end(body))
    const responseBytesMax = Buffer.byteLength(body)
    expect((await callRail(railTo({ url: server.url, responseBytesMax }), railRequest())).kind).toBe('success')
    const smaller = railTo({ url: server.url, responseBytesMax: responseBytesMax - 1 })
    const verdict = await callRail(smaller, railRequest())
    expect(verdict).toMatchObject({ kind: 'unknown', message: expect.stringContaining('longer than') })
  })

  it('is unknown if its body never ends', async () => {
    const server = await serve((_, response) => {
      response.writeHead(200)
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(65_536)));
      }
      response.on('drain', more)
      more()
    })
    expect((await callRail(railTo({ url: server.url }), railRequest())).kind).toBe('unknown')
  })
})

describe('a call of httpRail whose request was not sent', () => {
  it('is notSent if the connection is refused', async () => {
    const server = await startRailServer(paid)
    await server.close()
    const verdict = await callRail(railTo({ url: server.url }), railRequest())
    expect(verdict).toMatchObject({ kind: 'notSent', message: expect.stringContaining('ECONNREFUSED') })
  })

  it('is notSent if the host name does not resolve', async () => {
    expect((await callRail(railTo({ url: 'https://rail.invalid/pay' }), railRequest())).kind).toBe('notSent')
  })

  it('is notSent if the connection is cut in the TLS handshake', async () => {
    const server = createTcpServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const verdict = await callRail(railTo({ url: `https://127.0.0.1:${portOf(server)}` }), railRequest())
    expect(verdict.kind).toBe('notSent')
    server.close()
  })

  it('is notSent if it times out before it gets a connection, and is never sent later', async () => {
    const unanswered: ServerResponse[] = []
    const server = await serve((_, response) => void unanswered.push(response))
    const rail = railTo({ url: server.url, connectionsMax: 1 }, { timeoutMs: 300 })
    // The first call keeps the only connection for longer than the second one waits.
    const first = callRail({ ...rail, timeoutMs: 60_000 }, railRequest({ reference: 'first' }))
    const second = callRail(rail, railRequest({ reference: 'second' }))
    expect((await second).kind).toBe('notSent')
    for (const response of unanswered) answerJson(response, 200, { reference: 'r-1' })
    expect((await first).kind).toBe('success')
    expect((await callRail(railTo({ url: server.url }, { timeoutMs: 50 }), railRequest())).kind).toBe('unknown')
    expect(server.received.map(({ headers }) => headers['idempotency-key'])).not.toContain('second')
  })

  it('is notSent if it times out while a function makes the headers', async () => {
    const server = await serve(paid)
    const rail = railTo({ url: server.url, headers: () => new Promise<never>(() => {}) }, { timeoutMs: 50 })
    expect((await callRail(rail, railRequest())).kind).toBe('notSent')
    expect(server.received).toEqual([])
  })

  it('is notSent if the lease has expired', async () => {
    const server = await serve(paid)
    const verdict = await callRail(railTo({ url: server.url }), railRequest({ notAfter: new Date(Date.now() - 1) }))
    expect(verdict).toMatchObject({ kind: 'notSent', message: expect.stringContaining('lease') })
    expect(server.received).toEqual([])
  })

  it.each<[string, Partial<HttpOptions>]>([
    // The types forbid undefined, but a JavaScript function that forgets `return` returns it.
    ['a body function that returns nothing', { body: () => JSON.parse('{}').missing }],
    ['a token that cannot be fetched', { headers: () => Promise.reject(new Error('token service is down')) }],
    ['a header that HTTP forbids', { headers: () => ({ 'x-note': 'a\r\nb' }) }],
    [
      'a body function that throws',
      {
        body: () => {
          throw new Error('no mapping')
        },
      },
    ],
  ])('is notSent because of %s', async (_, http) => {
    const server = await serve(paid)
    expect((await callRail(railTo({ url: server.url, ...http }), railRequest())).kind).toBe('notSent')
    expect(server.received).toEqual([])
  })
})

describe('a call of httpRail whose request may have been sent', () => {
  it('is unknown if the connection is cut after the request was read', async () => {
    const server = await serve((_, response) => response.destroy())
    const verdict = await callRail(railTo({ url: server.url }), railRequest())
    expect(verdict).toMatchObject({ kind: 'unknown', code: RAIL_RESULT_CODES.threw })
    expect(server.received).toHaveLength(1)
  })

  it('is unknown if the connection is cut at once', async () => {
    const server = createTcpServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const verdict = await callRail(railTo({ url: `http://127.0.0.1:${portOf(server)}` }), railRequest())
    expect(verdict.kind).toBe('unknown')
    server.close()
  })

  it('is unknown if the body of a success is truncated', async () => {
    const server = await serve((_, response) => {
      response.writeHead(200, { 'content-length': '1000' })
      response.write('{"reference":"r-1"}', () => response.destroy())
    })
    expect((await callRail(railTo({ url: server.url }), railRequest())).kind).toBe('unknown')
  })

  it('is unknown if the body of a refusal is truncated, because its code is lost', async () => {
    const server = await serve((_, response) => {
      response.writeHead(400, { 'content-length': '1000' })
      response.write('{"code":', () => response.destroy())
    })
    expect((await callRail(railTo({ url: server.url }), railRequest())).kind).toBe('unknown')
  })

  it('is unknown after timeoutMs without an answer, and closes its connection', async () => {
    const server = await serve(() => {})
    const rail = railTo({ url: server.url }, { timeoutMs: 100 })
    expect(await callRail(rail, railRequest())).toMatchObject({ kind: 'unknown', code: RAIL_RESULT_CODES.timeout })
    await expect.poll(() => server.connections.open).toBe(0)
  })

  it('is unknown if the body of the answer is not complete after timeoutMs', async () => {
    const server = await serve((_, response) => {
      response.writeHead(200)
      response.write('{"reference":')
    })
    const rail = railTo({ url: server.url }, { timeoutMs: 100 })
    expect(await callRail(rail, railRequest())).toMatchObject({ kind: 'unknown', code: RAIL_RESULT_CODES.timeout })
  })

  it('is unknown if the answer is not HTTP', async () => {
    const server = createTcpServer((socket) => socket.once('data', () => socket.end('220 mail.example ESMTP\r\n')))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const verdict = await callRail(railTo({ url: `http://127.0.0.1:${portOf(server)}` }), railRequest())
    expect(verdict.kind).toBe('unknown')
    server.close()
  })
})

describe('connections of httpRail', () => {
  it('are reused, and close() closes them', async () => {
    const server = await serve(paid)
    const rail = loadRail(httpRail({ type: 'http', onUnknown: 'resend', http: { url: server.url, connectionsMax: 1 } }))
    for (let call = 0; call < 5; call += 1) await callRail(rail, railRequest())
    expect(server.connections).toEqual({ opened: 1, open: 1 })
    await rail.close()
    await expect.poll(() => server.connections.open).toBe(0)
  })

  it('are new for each payment of a hold rail', async () => {
    const server = await serve(paid)
    const rail = railTo({ url: server.url }, { onUnknown: 'hold' })
    for (let call = 0; call < 3; call += 1) await callRail(rail, railRequest())
    expect(server.connections.opened).toBe(3)
  })

  it('are limited by connectionsMax', async () => {
    const server = await serve(
      (_, response) => void setTimeout(() => answerJson(response, 200, { reference: 'r' }), 20),
    )
    const rail = railTo({ url: server.url, connectionsMax: 3 })
    await Promise.all(Array.from({ length: 12 }, () => callRail(rail, railRequest())))
    expect(server.connections.opened).toBe(3)
  })
})

describe('TLS of httpRail', () => {
  let authority: Certificate
  let localhost: Certificate
  let client: Certificate

  beforeAll(() => {
    authority = makeCertificate({ name: 'rails authority' })
    localhost = makeCertificate({ name: 'localhost', issuer: authority })
    client = makeCertificate({ name: 'symphony', issuer: authority })
  })

  it('accepts a server with a certificate of the given authority', async () => {
    const server = await serve(paid, { cert: localhost.cert, key: localhost.key })
    const rail = railTo({ url: server.url, tls: { ca: authority.cert } })
    expect((await callRail(rail, railRequest())).kind).toBe('success')
  })

  it('refuses a certificate of an unknown authority (notSent)', async () => {
    const server = await serve(paid, { cert: localhost.cert, key: localhost.key })
    const verdict = await callRail(railTo({ url: server.url }), railRequest())
    expect(verdict).toMatchObject({ kind: 'notSent', message: expect.stringMatching(/certificate|issuer/i) })
    expect(server.received).toEqual([])
  })

  it('refuses a certificate with another host name (notSent)', async () => {
    const other = makeCertificate({ name: 'other.example', issuer: authority })
    const server = await serve(paid, { cert: other.cert, key: other.key })
    const verdict = await callRail(railTo({ url: server.url, tls: { ca: authority.cert } }), railRequest())
    expect(verdict).toMatchObject({ kind: 'notSent', message: expect.stringContaining('ALTNAME') })
    expect(server.received).toEqual([])
  })

  it('refuses an expired certificate (notSent)', async () => {
    const expired = makeCertificate({ name: 'localhost', issuer: authority, notAfter: new Date(Date.now() - 1_000) })
    const server = await serve(paid, { cert: expired.cert, key: expired.key })
    const verdict = await callRail(railTo({ url: server.url, tls: { ca: authority.cert } }), railRequest())
    expect(verdict.kind).toBe('notSent')
  })

  it('sends a client certificate to a server that requires one', async () => {
    const mutual = { cert: localhost.cert, key: localhost.key, ca: authority.cert, requestCert: true }
    const server = await serve(paid, { ...mutual, rejectUnauthorized: true })
    const tls = { ca: authority.cert, cert: client.cert, key: client.key }
    expect((await callRail(railTo({ url: server.url, tls }), railRequest())).kind).toBe('success')
    const without = railTo({ url: server.url, tls: { ca: authority.cert } })
    expect((await callRail(without, railRequest())).kind).not.toBe('success')
    expect(server.received).toHaveLength(1)
  })
})

function asking(server: RailServer, status: Partial<HttpOptions['status']> = {}): LoadedRail {
  const url = `${server.url}/payments/{reference}`
  return railTo({ url: server.url, status: { url, ...status } }, { onUnknown: 'inquire' })
}

describe('an inquiry of httpRail', () => {
  it('uses GET and the same key, and is signed without a body', async () => {
    const server = await serve(paid)
    const http = { url: server.url, status: { url: `${server.url}/payments/{reference}` } }
    const rail = railTo({ ...http, signing: { keyId: 'k', secret: 'a secret of more than 16 bytes' } })
    const request = railRequest()
    expect(await inquireRail(rail, request)).toMatchObject({ kind: 'success', reference: 'r-1' })
    const [received] = server.received
    expect(received).toMatchObject({ method: 'GET', path: `/payments/${request.reference}`, body: '' })
    expect(received?.headers).toMatchObject({ 'idempotency-key': request.reference })
    expect(received?.headers['symphony-signature']).toMatch(/^t=\d+,k=k,v1=[0-9a-f]{64}$/)
  })

  it.each([
    [200, '{"reference":"r-1"}', 'success'],
    [200, '{}', 'unknown'],
    [200, '<html>', 'unknown'],
    [404, '{}', 'absent'],
    [404, '', 'absent'],
    [404, '<html>Not Found</html>', 'unknown'],
    [410, '{}', 'unknown'],
    [400, '{}', 'unknown'],
    [401, '{}', 'unknown'],
    [302, '', 'unknown'],
    [500, '{}', 'unknown'],
    [503, '{"reference":"r-1"}', 'unknown'],
  ])('classifies status %i with body %s as %s', async (status, body, kind) => {
    const server = await serve((_, response) => response.writeHead(status).end(body))
    expect((await inquireRail(asking(server), railRequest())).kind).toBe(kind)
  })

  it.each([
    ['PAID', 'success'],
    ['REFUSED', 'terminal'],
    ['NEVER_SEEN', 'absent'],
    ['PENDING', 'unknown'],
    ['SOMETHING_NEW', 'unknown'],
    [undefined, 'unknown'],
  ])('classifies the state %s as %s', async (state, kind) => {
    const server = await serve((_, response) => answerJson(response, 200, { reference: 'r-1', state }))
    const outcomes = { PAID: 'success', REFUSED: 'terminal', NEVER_SEEN: 'absent', PENDING: 'unknown' } as const
    const rail = asking(server, { states: { pointer: '/state', outcomes } })
    expect((await inquireRail(rail, railRequest())).kind).toBe(kind)
  })

  it('returns unknown if the connection is refused', async () => {
    const server = await startRailServer(paid)
    await server.close()
    expect((await inquireRail(asking(server), railRequest())).kind).toBe('unknown')
  })
})
