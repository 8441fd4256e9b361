import { createHmac } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../libs/core/index.js'
import { readWebhookSources, type WebhookSources } from '../../libs/http/index.js'
import { readInboxEvents } from '../../libs/inbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { bodyOf, openHttpFixture, problemOf, type HttpFixture } from '../support/httpFixture.js'
import { claimOf, rowOf } from '../support/inboxMessages.js'

/** Tests of POST /v1/webhooks/{source}: only signed messages reach the inbox. */

const SECRET = 'a secret of the tests'
const OLD_SECRET = 'the secret before it'
const STANDARD_KEY = Buffer.from('twenty-four random bytes')

const SOURCES: WebhookSources = {
  standard: { secrets: [`whsec_${STANDARD_KEY.toString('base64')}`] },
  bank: {
    secrets: [SECRET, OLD_SECRET],
    messageIdPointer: '/id',
    topicPointer: '/type',
    timestampHeader: 'X-Bank-Time',
    signatureHeader: 'X-Bank-Signature',
    toleranceSeconds: 60,
  },
}

/** Time of the clock of `fixture`, in seconds since 1970. */
const NOW_SECONDS = 1_767_225_600

const db = await useTestDatabase()
let fixture: HttpFixture
beforeAll(async () => {
  const clock = { ...systemClock, now: () => new Date(NOW_SECONDS * 1_000) }
  fixture = await openHttpFixture(db, { webhooks: { ingest: db.as('symphony_ingest'), sources: SOURCES, clock } })
})
afterAll(async () => {
  await fixture.close()
})

interface Sent {
  readonly body: string | Uint8Array
  readonly atSeconds?: number | string
  readonly secret?: string | Buffer
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends a webhook as the bank does: the id in the body, a hexadecimal signature, no token. */
function fromBank({ body, atSeconds = NOW_SECONDS, secret = SECRET, headers = {} }: Sent): Promise<Response> {
  const signature = createHmac('sha256', secret).update(`${atSeconds}.`).update(body).digest('hex')
  return fixture.call('/v1/webhooks/bank', {
    method: 'POST',
    body,
    headers: {
      authorization: '',
      'content-type': 'application/json',
      'x-bank-time': String(atSeconds),
      'x-bank-signature': `sha256=${signature}`,
      ...headers,
    },
  })
}

/** Sends a webhook as Standard Webhooks specify: the id in a signed header, a base64 signature. */
function standard(id: string, body: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  const signature = createHmac('sha256', STANDARD_KEY).update(`${id}.${NOW_SECONDS}.${body}`).digest('base64')
  return fixture.call('/v1/webhooks/standard', {
    method: 'POST',
    body,
    headers: {
      authorization: '',
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(NOW_SECONDS),
      'webhook-signature': `v1,${'A'.repeat(43)}= v1,${signature}`,
      ...headers,
    },
  })
}

const event = (id: unknown, more: object = {}) => JSON.stringify({ id, type: 'payment.settled', ...more })

async function messages(): Promise<bigint> {
  const { rows } = await db.queryNoRole<{ count: bigint }>('SELECT count(*) FROM inbox_messages')
  return rows[0]!.count
}

describe('a signed webhook', () => {
  test('is stored before the answer 202; a repetition gets 200 and is counted', async () => {
    const first = await fromBank({ body: event('evt-1', { amount: '12.50' }) })
    expect([first.status, await bodyOf(first)]).toEqual([
      202,
      { source: 'bank', messageId: 'evt-1', state: 'seen', created: true },
    ])
    const key = { source: 'bank', messageId: 'evt-1' }
    expect(await rowOf(db, key)).toMatchObject({
      topic: 'payment.settled',
      payload: { id: 'evt-1', type: 'payment.settled', amount: '12.50' },
    })
    const again = await fromBank({ body: event('evt-1', { amount: '12.50' }), atSeconds: NOW_SECONDS + 1 })
    expect([again.status, await bodyOf(again)]).toEqual([
      200,
      { source: 'bank', messageId: 'evt-1', state: 'seen', created: false },
    ])
    expect(await rowOf(db, key)).toMatchObject({ sightings: 2n })
    expect((await claimOf(db, key)).map(({ messageId }) => messageId)).toContain('evt-1')
  })

  test('is refused (409) if its id was received with different content, and an event records it', async () => {
    const key = { source: 'bank', messageId: 'evt-2' }
    expect((await fromBank({ body: event('evt-2', { amount: '1.00' }) })).status).toBe(202)
    const other = await fromBank({ body: event('evt-2', { amount: '9.00' }) })
    expect(await problemOf(other)).toMatchObject({ status: 409, code: 'CONTENT_DIFFERS' })
    expect(await rowOf(db, key)).toMatchObject({ payload: { amount: '1.00' } })
    expect(await readInboxEvents(db.as('symphony_readonly'), key)).toMatchObject([{ eventType: 'CONTENT_DIFFERS' }])
  })

  test('is accepted with a numeric id and a signature by the old secret of a rotation', async () => {
    expect((await fromBank({ body: event(17), secret: OLD_SECRET })).status).toBe(202)
    expect(await rowOf(db, { source: 'bank', messageId: '17' })).toMatchObject({ state: 'seen' })
  })

  test('is accepted in the Standard Webhooks format if one of several signatures is valid', async () => {
    expect((await standard('msg_1', '{"a":1}')).status).toBe(202)
    expect(await rowOf(db, { source: 'standard', messageId: 'msg_1' })).toMatchObject({ topic: 'standard' })
  })

  test('is refused if its id header was changed, because the signature covers the id (401)', async () => {
    const replayed = await standard('msg_2', '{"a":1}', { 'webhook-id': 'msg_3' })
    expect(await problemOf(replayed)).toMatchObject({ status: 401, code: 'SIGNATURE_INVALID' })
    expect(await rowOf(db, { source: 'standard', messageId: 'msg_3' })).toEqual({})
  })

  test('is refused if its bytes changed, even by a space after the JSON (401)', async () => {
    const body = event('evt-3')
    const signature = createHmac('sha256', SECRET).update(`${NOW_SECONDS}.${body}`).digest('hex')
    const respelled = await fromBank({ body: `${body} `, headers: { 'x-bank-signature': signature } })
    expect(await problemOf(respelled)).toMatchObject({ status: 401, code: 'SIGNATURE_INVALID' })
  })
})

describe('a webhook request', () => {
  test.each([
    ['a missing signature', { headers: { 'x-bank-signature': '' } }],
    ['an invalid signature', { headers: { 'x-bank-signature': 'sha256=letters' } }],
    ['a signature of another secret', { secret: 'another secret, not ours' }],
    ['a timestamp that was not signed', { headers: { 'x-bank-time': String(NOW_SECONDS + 1) } }],
    ['a missing timestamp', { headers: { 'x-bank-time': '' } }],
    ['a made-up signature of the right length', { headers: { 'x-bank-signature': 'a'.repeat(64) } }],
  ])('is refused with %s (401), and not stored', async (_what, sent) => {
    const before = await messages()
    const answer = await fromBank({ body: event('evt-refused'), ...sent })
    expect(await problemOf(answer)).toMatchObject({ status: 401, code: 'SIGNATURE_INVALID' })
    expect(await messages()).toBe(before)
  })

  test.each([0, 1, 31, 32, 62, 63])('is refused if only digit %i of its signature is wrong (401)', async (digit) => {
    const body = event('evt-nearly')
    const right = createHmac('sha256', SECRET).update(`${NOW_SECONDS}.`).update(body).digest('hex')
    const wrong = `${right.slice(0, digit)}${right[digit] === '0' ? '1' : '0'}${right.slice(digit + 1)}`
    const answer = await fromBank({ body, headers: { 'x-bank-signature': `sha256=${wrong}` } })
    expect(await problemOf(answer)).toMatchObject({ status: 401, code: 'SIGNATURE_INVALID' })
  })

  test.each([
    [-60, 202],
    [60, 202],
    [-61, 401],
    [61, 401],
  ])('signed %s s from now is answered %s (tolerance 60 s)', async (offset, status) => {
    const answer = await fromBank({ body: event(`evt-at-${offset}`), atSeconds: NOW_SECONDS + offset })
    expect(answer.status).toBe(status)
    const { code } = await bodyOf(answer)
    expect(code).toBe(status === 401 ? 'TIMESTAMP_OUT_OF_TOLERANCE' : undefined)
    expect((await rowOf(db, { source: 'bank', messageId: `evt-at-${offset}` }))['state']).toBe(
      status === 202 ? 'seen' : undefined,
    )
  })

  test.each(['soon', '', '1767225600.0', '-1', 'NaN'])('is refused with the timestamp %j (401)', async (atSeconds) => {
    const answer = await fromBank({ body: event('evt-odd-time'), atSeconds })
    expect(await problemOf(answer)).toMatchObject({ status: 401 })
  })

  test.each([
    ['no JSON', 'not json', 400, 'MALFORMED_JSON'],
    ['an empty body', '', 400, 'MALFORMED_JSON'],
    ['no object', '[1]', 422, 'INVALID_MESSAGE'],
    ['a key twice', '{"id":"a","id":"b"}', 422, 'INVALID_MESSAGE'],
    ['no id', '{"type":"t"}', 422, 'INVALID_MESSAGE'],
    ['a blank id', event('  '), 422, 'INVALID_MESSAGE'],
    ['an id that is an object', event({}), 422, 'INVALID_MESSAGE'],
    ['an id of 256 characters', event('x'.repeat(256)), 422, 'INVALID_MESSAGE'],
    ['an id with a control character', event('a\tb'), 422, 'INVALID_MESSAGE'],
    ['no topic', '{"id":"a"}', 422, 'INVALID_MESSAGE'],
    ['a topic with a space', '{"id":"a","type":"a b"}', 422, 'INVALID_MESSAGE'],
    ['a NUL', event('a', { text: '\0' }), 422, 'INVALID_MESSAGE'],
    [
      'a payload that is too large as jsonb prints it',
      event('a', { list: Array.from({ length: 32_000 }, () => 1) }),
      422,
      'INVALID_MESSAGE',
    ],
  ])('is refused despite a valid signature if it has %s', async (_what, body, status, code) => {
    const before = await messages()
    const problem = await problemOf(await fromBank({ body }))
    expect(problem).toMatchObject({ status, code })
    expect(await messages()).toBe(before)
  })

  test('is accepted up to 64 KiB and refused above (413)', async () => {
    const room = 65_536 - event('evt-64', { text: '' }).length
    // jsonb adds a space after each of the five colons and commas.
    const fitting = event('evt-64', { text: 'x'.repeat(room - 5) })
    expect((await fromBank({ body: fitting })).status).toBe(202)
    const tooLarge = event('evt-65', { text: 'x'.repeat(room + 1) })
    expect(await problemOf(await fromBank({ body: tooLarge }))).toMatchObject({ status: 413, code: 'BODY_TOO_LARGE' })
  })

  test('is refused with a wrong media type (415), unknown source (404) or GET (405)', async () => {
    const form = await fromBank({ body: event('a'), headers: { 'content-type': 'text/plain' } })
    expect(await problemOf(form)).toMatchObject({ status: 415, code: 'UNSUPPORTED_MEDIA_TYPE' })
    for (const source of ['unknown', 'constructor', '__proto__']) {
      const unknown = await fixture.call(`/v1/webhooks/${source}`, {
        method: 'POST',
        body: '{}',
        headers: { 'content-type': 'application/json' },
      })
      expect(await problemOf(unknown)).toMatchObject({ status: 404, code: 'WEBHOOK_SOURCE_UNKNOWN' })
    }
    const read = await fixture.call('/v1/webhooks/bank')
    expect([read.status, read.headers.get('allow')]).toEqual([405, 'POST'])
  })

  test('is logged without secrets and payloads', async () => {
    await fromBank({ body: event('evt-canary', { card: 'CANARY4929' }) })
    await fromBank({ body: event('evt-canary', { card: 'CANARY4930' }) })
    expect(fixture.logged()).toContain('/v1/webhooks/:source')
    for (const word of ['CANARY49', SECRET, 'sha256=']) expect(fixture.logged()).not.toContain(word)
  })
})

test('the webhook route answers 503 if the database is unreachable', async () => {
  const unreachable = {
    ...db.as('symphony_ingest'),
    query: () => Promise.reject(Object.assign(new Error('gone'), { code: 'ECONNREFUSED' })),
  }
  const own = await openHttpFixture(db, { webhooks: { ingest: unreachable, sources: SOURCES } })
  const atSeconds = Math.floor(Date.now() / 1_000)
  const body = event('evt-503')
  const answer = await own.call('/v1/webhooks/bank', {
    method: 'POST',
    body,
    headers: {
      'content-type': 'application/json',
      'x-bank-time': String(atSeconds),
      'x-bank-signature': createHmac('sha256', SECRET).update(`${atSeconds}.${body}`).digest('hex'),
    },
  })
  expect(await problemOf(answer)).toMatchObject({ status: 503, code: 'DATABASE_UNAVAILABLE' })
  await own.close()
})

test('a process without webhook sources has no webhook route (404)', async () => {
  const own = await openHttpFixture(db)
  const answer = await own.call('/v1/webhooks/bank', {
    method: 'POST',
    body: '{}',
    headers: { 'content-type': 'application/json' },
  })
  expect(await problemOf(answer)).toMatchObject({ status: 404, code: 'NOT_FOUND' })
  await own.close()
})

describe('the settings of webhook sources', () => {
  const secrets = [SECRET]
  test.each([
    ['no object', [], 'webhooks.json: expected an object of sources'],
    ['a source that is no object', { bank: 'secret' }, 'webhooks.json: bank: expected an object'],
    ['a name with a space', { 'a b': { secrets } }, 'webhooks.json: a b: expected printable ASCII'],
    ['no secrets', { bank: {} }, 'webhooks.json: bank.secrets: expected an array'],
    ['an empty list of secrets', { bank: { secrets: [] } }, 'bank.secrets: expected 1 to 5'],
    ['a short secret', { bank: { secrets: ['fifteen letters'] } }, 'bank.secrets[0]: expected at least 16'],
    ['a masked secret', { bank: { secrets: [`whsec_${'*'.repeat(40)}`] } }, 'bank.secrets[0]: expected base64'],
    ['a short secret in base64', { bank: { secrets: ['whsec_AAAAAAAAAAAA'] } }, 'expected at least 16 bytes'],
    ['a misspelt field', { bank: { secrets, tolerance: 1 } }, 'bank.tolerance: unknown; expected one of secrets, '],
    [
      'a header and a pointer for the id',
      { bank: { secrets, messageIdHeader: 'a', messageIdPointer: '/a' } },
      'got both',
    ],
    ['a fixed topic and a pointer for the topic', { bank: { secrets, topic: 'a', topicPointer: '/a' } }, 'got both'],
    ['an invalid pointer', { bank: { secrets, messageIdPointer: 'id' } }, 'bank.messageIdPointer: expected a JSON'],
    ['an invalid header', { bank: { secrets, signatureHeader: 'a b' } }, 'bank.signatureHeader: expected the name'],
    ['a tolerance of 0', { bank: { secrets, toleranceSeconds: 0 } }, 'bank.toleranceSeconds: expected a whole'],
  ])('are refused for %s, and the field is named', (_what, value, message) => {
    expect(() => readWebhookSources('webhooks.json', value)).toThrow(message)
    expect(() => readWebhookSources('webhooks.json', value)).not.toThrow(SECRET)
  })

  test('are returned unchanged if valid', () => {
    expect(readWebhookSources('webhooks.json', { bank: { secrets, topic: 'a' } })).toEqual({
      bank: { secrets, topic: 'a' },
    })
  })
})
