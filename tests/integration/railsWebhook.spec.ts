import { createHmac, timingSafeEqual } from 'node:crypto'
import { inspect } from 'node:util'
import { afterEach, describe, expect, test } from 'vitest'
import { redact } from '../../libs/core/index.js'
import { OutboxRelayer, OutboxStore } from '../../libs/outbox/index.js'
import {
  callRail,
  httpRail,
  loadRail,
  loadRails,
  RAIL_RESULT_CODES,
  webhookRail,
  type LoadedRail,
  type WebhookRailOptions,
} from '../../libs/rails/index.js'
import { useTestDatabase } from '../support/database.js'
import { attemptRows, ledger } from '../support/outboxItems.js'
import { railRequest } from '../support/railRequest.js'
import {
  answerJson,
  startRailServer,
  type RailServer,
  type ReceivedRequest,
  type Respond,
} from '../support/railServer.js'

const db = await useTestDatabase()

/** Secret, body and signature of the published example of Standard Webhooks. */
const EXAMPLE = {
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  timestamp: 1_614_265_330,
  body: '{"test": 2432232314}',
  signature: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
}
const { secret: SECRET } = EXAMPLE
const OLD_SECRET = `whsec_${Buffer.alloc(24, 7).toString('base64')}`
const OUTCOME = { outboxId: 'o-1', instructionId: 'INV-1', state: 'DISPATCHED', outcomeNo: 1 }

const toClose: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of toClose.splice(0).toReversed()) await close()
})

async function serve(...given: Parameters<typeof startRailServer>): Promise<RailServer> {
  const server = await startRailServer(...given)
  toClose.push(server.close)
  return server
}

function railTo(url: string, given: Partial<WebhookRailOptions> = {}): LoadedRail {
  const rail = loadRail(webhookRail({ type: 'orders', url, secret: SECRET, timeoutMs: 5_000, ...given }))
  toClose.push(rail.close)
  return rail
}

/** Verifies a request as the specification describes. Returns its parsed body. */
function verify(
  secret: string,
  { headers, body }: Pick<ReceivedRequest, 'headers' | 'body'>,
  nowSeconds: number,
): unknown {
  const timestamp = Number(headers['webhook-timestamp'])
  if (!(Math.abs(nowSeconds - timestamp) <= 300)) throw new Error('the timestamp is out of tolerance')
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const expected = createHmac('sha256', key)
    .update(`${String(headers['webhook-id'])}.${timestamp}.${body}`)
    .digest()
  const signatures = String(headers['webhook-signature']).split(' ')
  const isSigned = signatures.some((signature) => {
    const [version, encoded = ''] = signature.split(',')
    const given = Buffer.from(encoded, 'base64')
    return version === 'v1' && given.length === expected.length && timingSafeEqual(given, expected)
  })
  if (!isSigned) throw new Error('no signature matches')
  return JSON.parse(body)
}

const accept: Respond = (_, response) => void response.writeHead(204).end()
const now = () => Math.floor(Date.now() / 1_000)

test('the verify function of this spec accepts the published Standard Webhooks example only', () => {
  const { secret, id, timestamp, body, signature } = EXAMPLE
  const headers = { 'webhook-id': id, 'webhook-timestamp': String(timestamp), 'webhook-signature': signature }
  expect(verify(secret, { headers, body }, timestamp)).toEqual({ test: 2_432_232_314 })
  expect(() => verify(secret, { headers, body: '{}' }, timestamp)).toThrow('no signature')
  expect(() => verify(OLD_SECRET, { headers, body }, timestamp)).toThrow('no signature')
  expect(() => verify(secret, { headers, body }, timestamp + 301)).toThrow('tolerance')
})

describe('a request of webhookRail', () => {
  test('is the payload as JSON, signed over id, timestamp and body', async () => {
    const server = await serve(accept)
    const request = railRequest({ payload: OUTCOME })
    expect(await callRail(railTo(`${server.url}/hooks`), request)).toMatchObject({
      kind: 'success',
      reference: `msg_${request.reference}`,
    })
    const [received] = server.received
    expect(received).toMatchObject({ method: 'POST', path: '/hooks' })
    expect(received?.headers).toMatchObject({
      'content-type': 'application/json',
      'webhook-id': `msg_${request.reference}`,
      'webhook-timestamp': expect.stringMatching(/^\d{10}$/),
    })
    expect(verify(SECRET, received!, now())).toEqual(OUTCOME)
    expect(() => verify(OLD_SECRET, received!, now())).toThrow('no signature')
  })

  test('has the same id and body on every attempt, and the time of the attempt', async () => {
    const server = await serve(accept)
    let time = new Date('2026-11-17T10:00:00.999Z')
    const rail = railTo(server.url, { clock: { now: () => time, monotonicMs: () => performance.now() } })
    const request = railRequest({ payload: OUTCOME, notAfter: new Date('2026-11-17T11:00:00Z') })
    await callRail(rail, request)
    time = new Date('2026-11-17T10:30:00Z')
    await callRail(rail, { ...request, attempt: 2 })
    const [first, second] = server.received
    expect(first?.headers['webhook-timestamp']).toBe(String(Date.parse('2026-11-17T10:00:00Z') / 1_000))
    expect(second?.headers['webhook-timestamp']).toBe(String(Date.parse('2026-11-17T10:30:00Z') / 1_000))
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id'])
    expect(second?.body).toBe(first?.body)
    expect(second?.headers['webhook-signature']).not.toBe(first?.headers['webhook-signature'])
  })

  test('has a signature of each secret during a rotation', async () => {
    const server = await serve(accept)
    await callRail(railTo(server.url, { secret: [SECRET, OLD_SECRET] }), railRequest({ payload: OUTCOME }))
    const [received] = server.received
    expect(String(received?.headers['webhook-signature']).split(' ')).toHaveLength(2)
    for (const secret of [SECRET, OLD_SECRET]) expect(verify(secret, received!, now())).toEqual(OUTCOME)
  })

  test('has the headers of the options, which cannot replace those of the signature', async () => {
    const server = await serve(accept)
    const headers = { Authorization: 'Bearer token-of-today', 'Webhook-Id': 'mine', 'Webhook-Signature': 'v1,mine' }
    await callRail(railTo(server.url, { headers }), railRequest({ payload: OUTCOME }))
    expect(server.received[0]?.headers).toMatchObject({ authorization: 'Bearer token-of-today' })
    expect(verify(SECRET, server.received[0]!, now())).toEqual(OUTCOME)
  })

  test('is not sent after the end of its lease', async () => {
    const server = await serve(accept)
    const result = await callRail(railTo(server.url), railRequest({ notAfter: new Date(Date.now() - 1) }))
    expect(result).toMatchObject({ kind: 'notSent', code: RAIL_RESULT_CODES.notSent })
    expect(server.received).toEqual([])
  })
})

describe('an answer to webhookRail', () => {
  test.each([200, 201, 202, 204, 299])('means success if its status is %i, whatever its body', async (status) => {
    const server = await serve((_, response) => void response.writeHead(status).end(status === 204 ? '' : '<html>'))
    expect(await callRail(railTo(server.url), railRequest())).toMatchObject({ kind: 'success' })
  })

  test.each([400, 401, 402, 403, 404, 405, 410, 413, 414, 422, 425, 429, 431])(
    'means retryable, never terminal, if its status is %i',
    async (status) => {
      const server = await serve((_, response) => answerJson(response, status, {}, { 'retry-after': '120' }))
      expect(await callRail(railTo(server.url), railRequest())).toMatchObject({
        kind: 'retryable',
        code: `HTTP_${status}`,
        retryAfterMs: 120_000,
      })
    },
  )

  test.each([301, 302, 307, 408, 409, 500, 502, 503, 504])(
    'means an unknown outcome if its status is %i; no redirect is followed',
    async (status) => {
      const server = await serve((_, response) => answerJson(response, status, {}, { location: '/elsewhere' }))
      expect(await callRail(railTo(server.url), railRequest())).toMatchObject({ kind: 'unknown' })
      expect(server.received).toHaveLength(1)
    },
  )

  test('is redacted if it quotes the secret, so that the ledger does not contain it', async () => {
    const server = await serve((_, response) => answerJson(response, 401, { message: `expected ${SECRET}` }))
    const result = await callRail(railTo(server.url), railRequest())
    expect(result).toMatchObject({ kind: 'retryable', message: 'expected [secret]' })
    expect(redact(`key=${SECRET}`)).not.toContain(SECRET.slice(6, 16))
  })
})

describe('webhookRail', () => {
  const given = { type: 'orders', url: 'https://shop.example/hooks', secret: SECRET }

  test('is a rail for messages that resends after an unknown outcome and reveals no secret', () => {
    const rail = webhookRail(given)
    expect(rail).toMatchObject({ type: 'orders', money: false, onUnknown: 'resend' })
    for (const shown of [inspect(rail, { depth: 9 }), inspect(loadRail(rail), { depth: 9 }), JSON.stringify(rail)])
      expect(shown).not.toContain(SECRET.slice('whsec_'.length))
  })

  test.each([
    ['plain HTTP to another machine', { url: 'http://shop.example/hooks' }, 'expected https'],
    ['credentials in the address', { url: 'https://me:pw@shop.example' }, 'expected no credentials'],
    ['no secret', { secret: undefined }, 'secret: expected whsec_'],
    ['a secret without whsec_', { secret: SECRET.slice('whsec_'.length) }, 'secret: expected whsec_'],
    ['a secret that is no base64', { secret: 'whsec_*notbase64*notbase64*notbase64' }, 'secret: expected whsec_'],
    ['a secret of 23 bytes', { secret: secretOf(23) }, 'secret: expected whsec_ and 24 to 64 bytes'],
    ['a secret of 65 bytes', { secret: secretOf(65) }, 'secret: expected whsec_ and 24 to 64 bytes'],
    ['an empty list of secrets', { secret: [] }, 'expected one secret, or two during a rotation, got 0'],
    ['three secrets', { secret: [SECRET, SECRET, SECRET] }, 'expected one secret, or two during a rotation, got 3'],
    ['an option of httpRail only', { method: 'PUT' }, 'rail "orders", "method": unknown'],
    ['no topic', { type: '' }, 'type'],
  ])('refuses %s, and quotes no secret', (_, wrong, message) => {
    const declare = () => Reflect.apply(webhookRail, undefined, [{ ...given, ...wrong }])
    expect(declare).toThrow(message)
    expect(declare).not.toThrow(SECRET.slice('whsec_'.length))
  })

  test.each([24, 64])('accepts a secret of %i bytes', (bytes) => {
    expect(() => webhookRail({ ...given, secret: secretOf(bytes) })).not.toThrow()
  })

  test('adds no webhook headers to requests of httpRail', async () => {
    const server = await serve((_, response) => answerJson(response, 200, { reference: 'r-1' }))
    const rail = loadRail(httpRail({ type: 'plain', onUnknown: 'resend', http: { url: server.url } }))
    toClose.push(rail.close)
    await callRail(rail, railRequest())
    expect(Object.keys(server.received[0]!.headers).filter((name) => name.startsWith('webhook-'))).toEqual([])
  })
})

test('a worker posts a message under the same id until the receiver accepts it', async () => {
  let answers = 0
  const server = await serve((_, response) => void response.writeHead((answers += 1) === 1 ? 410 : 200).end())
  const { outboxId } = await new OutboxStore(db.database).enqueue({ topic: 'orders', payload: OUTCOME })
  const rail = webhookRail({ type: 'orders', url: server.url, secret: SECRET })
  toClose.push(async () => rail.close?.())
  const relayer = new OutboxRelayer(db.database, loadRails([rail]), { listen: false })
  expect(await relayer.runOnce()).toMatchObject({ retryable: 1 })
  await db.makeDue(outboxId)
  expect(await relayer.runOnce()).toMatchObject({ dispatched: 1 })
  expect(await ledger(db, outboxId)).toEqual(['1 RETRYABLE', '2 DISPATCHED'])
  expect((await attemptRows(db, outboxId))[1]).toMatchObject({ rail_reference: `msg_${outboxId}` })
  expect(server.received.map(({ headers }) => headers['webhook-id'])).toEqual([`msg_${outboxId}`, `msg_${outboxId}`])
  for (const received of server.received) expect(verify(SECRET, received, now())).toEqual(OUTCOME)
})

function secretOf(bytes: number): string {
  return `whsec_${Buffer.alloc(bytes, 3).toString('base64')}`
}
