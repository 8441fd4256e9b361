import { connect } from 'node:net'
import * as fc from 'fast-check'
import type { TSchema } from '#typebox'
import { Compile } from '#typebox/compile'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { problemCodesOf, type Route } from '../../libs/http/index.js'
import { EXAMPLE } from '../../libs/http/routes/examples.js'
import { findDefect } from '../../libs/http/routes/route.js'
import { useTestDatabase } from '../support/database.js'
import { rowHashes } from '../support/fingerprint.js'
import { openHttpFixture, problemOf, TOKEN, type HttpFixture } from '../support/httpFixture.js'
import { seedExamples, type ExampleIds } from '../support/httpExamples.js'
import { valueOf, type Schema } from '../support/schemaValues.js'

const db = await useTestDatabase()
let fixture: HttpFixture
let exampleIds: ExampleIds
beforeAll(async () => {
  exampleIds = await seedExamples(db)
  fixture = await openHttpFixture(db, { limits: { requestsPerSecond: 100_000 } })
})
afterAll(async () => {
  await fixture.close()
})

interface Request {
  readonly params: Readonly<Record<string, unknown>>
  readonly query: Readonly<Record<string, unknown>>
  readonly body: unknown
  readonly key: string
}

/** Generates requests. Their ids often exist, so that many requests reach the handler. */
function requestTo(route: Route): fc.Arbitrary<Request> {
  const known = [...exampleIds.values(), 'acme', 'simulated', 'invoice-2041', 'nightly-report', 'bank-of-x', 'evt_17']
  const from = (schema: Schema | undefined) => (schema === undefined ? fc.constant({}) : valueOf(schema, known))
  return fc.record({
    params: from(route.params).map(toRecord),
    query: fc.oneof(
      { weight: 4, arbitrary: from(route.query).map(toRecord) },
      { weight: 1, arbitrary: fc.dictionary(fc.string(), fc.string()) },
    ),
    body: route.body === undefined ? fc.constant(undefined) : from(route.body),
    key: fc.string({ minLength: 1, maxLength: 140 }).map((text) => text.replaceAll(/[^ -~]/g, 'x').trim() || 'k'),
  })
}

function send(route: Route, { params, query, body, key }: Request): Promise<Response> {
  const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(wellFormed(textOf(params[name] ?? 'x'))),
  )
  const search = new URLSearchParams(
    Object.fromEntries(Object.entries(query).map(([name, value]) => [name, wellFormed(textOf(value))])),
  ).toString()
  return fixture.call(`${path}${search === '' ? '' : `?${search}`}`, {
    method: route.method,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), 'idempotency-key': key },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

describe('requests generated from the schemas', () => {
  test('get only documented answers from every route, and never INTERNAL', async () => {
    const routes = fixture.routes.filter(({ path, access }) => path !== '/v1/stream' && access !== 'signature')
    const anyRequest = fc
      .nat(routes.length - 1)
      .chain((index) => requestTo(routes[index]!).map((request) => ({ route: routes[index]!, request })))
    let accepted = 0
    await fc.assert(
      fc.asyncProperty(anyRequest, async ({ route, request }) => {
        const response = await send(route, request)
        accepted += response.ok ? 1 : 0
        expect([route.method, route.path, response.status, await verdictOn(route, response)]).toEqual([
          route.method,
          route.path,
          response.status,
          'as documented',
        ])
      }),
      { numRuns: 200, seed: 20_261_115 },
    )
    // Some requests must succeed. Otherwise the test would only show that invalid requests are refused.
    expect(accepted).toBeGreaterThan(30)
  })
})

describe('the schema of a route', () => {
  test('refuses exactly the values for which findDefect reports a defect', () => {
    const schemas = fixture.routes.flatMap(({ params, query, body }) =>
      [params, query, body].filter((schema) => schema !== undefined),
    )
    let refused = 0
    for (const schema of schemas) {
      fc.assert(
        fc.property(valueOf(schema, ['acme', 'DISPATCHED', 'a b']), (value) => {
          const isFit = compiledOf(schema).Check(value)
          refused += isFit ? 0 : 1
          expect([schema, value, findDefect(schema, value, '') === undefined]).toEqual([schema, value, isFit])
        }),
        { numRuns: 100, seed: 20_261_116 },
      )
    }
    expect(refused).toBeGreaterThan(500)
  })

  test.each([
    [{}, 'instructions', 'missing'],
    [[], 'body', 'expected an object, got an array'],
    [{ instructions: [] }, 'instructions', 'expected 1 to 1000 items, got 0'],
    [{ instructions: [null] }, 'instructions[0]', 'expected an object, got null'],
    [batchOf({ railType: 7 }), 'instructions[0].railType', 'expected text, got number'],
    [batchOf({ railType: 'é' }), 'instructions[0].railType', 'expected printable ASCII characters without spaces'],
    [batchOf({ railType: 'x'.repeat(129) }), 'instructions[0].railType', 'expected 1 to 128 characters, got 129'],
    [batchOf({ ordered: 'yes' }), 'instructions[0].ordered', 'expected true or false, got string'],
    [batchOf({ 'a b': 1 }), 'instructions[0][key 5]', 'unknown field; expected instructionId, participantId'],
  ])('refuses the batch %j and names %s', async (body, argument, expected) => {
    const problem = await problemOf(await postJson('/v1/instructions/batch', JSON.stringify(body)))
    expect(problem).toMatchObject({ status: 422, code: 'INVALID_INSTRUCTION', argument })
    expect(problem.detail).toContain(`${argument}: ${expected}`)
  })

  test('refuses a batch of 400,000 numbers by its length, without checking each number', async () => {
    const body = `{"instructions":[${'1,'.repeat(399_999)}1]}`
    expect(await problemOf(await postJson('/v1/instructions/batch', body))).toMatchObject({
      code: 'INVALID_INSTRUCTION',
      argument: 'instructions',
      detail: 'instructions: expected 1 to 1000 items, got 400000',
    })
  })
})

describe('malformed or oversized bodies', () => {
  const BODIES: Readonly<Record<string, string | Uint8Array>> = {
    '100,000 brackets': '['.repeat(100_000),
    '50,000 objects': '{"a":'.repeat(50_000),
    'a number of 10,000 digits': `{"reason":${'9'.repeat(10_000)}}`,
    'an exponent of 400': '{"reason":1e400}',
    'a key twice': '{"reason":"a","reason":"b"}',
    __proto__: '{"reason":"a","__proto__":{"admin":true}}',
    constructor: '{"reason":"a","constructor":{"prototype":{"admin":true}}}',
    'a NUL': '{"reason":"a\\u0000b"}',
    'half a surrogate': '{"reason":"\\ud800"}',
    'bytes that are no UTF-8': Uint8Array.from([0x7b, 0x22, 0x72, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
    'a byte order mark': '\uFEFF{"reason":"a"}',
    'a comment': '{"reason":"a"/* b */}',
    'a comma too many': '{"reason":"a",}',
    NaN: '{"reason":NaN}',
    'an array': '["a"]',
    'text alone': '"a"',
    null: 'null',
    nothing: '',
    'an escape': '{"reason":"\\u001b[2J"}',
    'a body of 300 KiB': `{"reason":"${'x'.repeat(300_000)}"}`,
  }

  test('are refused by every route that takes a body; no error quotes them, no row changes', async () => {
    const before = await rowHashes(db)
    const headers = { 'content-type': 'application/json', 'idempotency-key': 'k' }
    const takers = fixture.routes.filter(({ body, access }) => body !== undefined && access !== 'signature')
    for (const [name, body] of Object.entries(BODIES)) {
      await Promise.all(
        takers.map(async (route) => {
          const path = route.path.replaceAll(/\{(\w+)\}/g, (_, param: string) => idFor(param))
          const {
            code,
            status,
            detail = '',
          } = await problemOf(await fixture.call(path, { method: route.method, headers, body }))
          expect([name, path, code, status]).toEqual([
            name,
            path,
            code,
            // The routes of limits look up the proposal before they check the reason.
            expect.toSatisfy((one) => [400, 413, 422].includes(Number(one)) || code === 'PROPOSAL_NOT_FOUND'),
          ])
          expect(detail).not.toContain('admin')
          expect(detail).not.toContain('\u001B')
        }),
      )
    }
    expect(await rowHashes(db)).toEqual(before)
  })

  test('get 413 above 4 MiB on the batch route; below that size they are parsed and get 422', async () => {
    expect(await problemOf(await postBatch(5_242_880))).toMatchObject({ status: 413, code: 'BODY_TOO_LARGE' })
    expect(await problemOf(await postBatch(3_145_728))).toMatchObject({ status: 422, code: 'INVALID_INSTRUCTION' })
  })
})

describe('malformed requests', () => {
  test.each([
    ['headers of 20 KiB', `GET /v1/me HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, /^HTTP\/1\.1 431 /],
    ['text that is no HTTP', 'SSH-2.0-OpenSSH_9.6\r\n\r\n', /^HTTP\/1\.1 400 /],
    [
      'two Content-Length headers',
      'POST /v1/pauses HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello',
      /^HTTP\/1\.1 400 /,
    ],
    [
      'a Content-Length with chunked encoding',
      'POST /v1/pauses HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      /^HTTP\/1\.1 400 /,
    ],
  ])('are refused, and the server continues: %s', async (_, text, answer) => {
    expect(await raw(text)).toMatch(answer)
    expect((await fixture.call('/v1/me')).status).toBe(200)
  })

  test('are refused (401) if they have the token in the URL instead of a header', async () => {
    expect((await fetch(`${fixture.address}/v1/me?token=${TOKEN}&access_token=${TOKEN}`)).status).toBe(401)
  })
})

function idFor(param: string): string {
  const documented =
    { proposalId: EXAMPLE.withdrawableId, eventId: EXAMPLE.contradictionId }[param] ?? EXAMPLE.waitingId
  return param.endsWith('Id') ? (exampleIds.get(documented) ?? '') : 'x'
}

/** Returns the whole answer to a raw request, until the server closes the connection. */
function raw(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(fixture.address)
    const socket = connect(Number(port), hostname, () => socket.write(text))
    let answer = ''
    socket.on('data', (chunk) => (answer += chunk.toString('latin1')))
    socket.once('close', () => resolve(answer))
    socket.once('error', reject)
  })
}

/** Posts a batch of one instruction with a note of this many bytes. */
function postBatch(bytes: number): Promise<Response> {
  const instruction = { instructionId: 'big', participantId: 'p', railType: 'r', payload: { note: 'x'.repeat(bytes) } }
  return postJson('/v1/instructions/batch', JSON.stringify({ instructions: [instruction] }))
}

function batchOf(change: object): object {
  return { instructions: [{ instructionId: 'i', participantId: 'p', railType: 'r', payload: {}, ...change }] }
}

function postJson(path: string, body: string): Promise<Response> {
  return fixture.call(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
}

/** Returns 'as documented' for a documented success, and for a documented problem other than INTERNAL. */
async function verdictOn(route: Route, response: Response): Promise<string> {
  if (!response.ok) {
    const { code } = await problemOf(response)
    // An empty path parameter gives the path of another route or of none, which answers NOT_FOUND.
    const documented = code === 'NOT_FOUND' || (code !== 'INTERNAL' && problemCodesOf(route).includes(code))
    return documented ? 'as documented' : code
  }
  const { schema } = route.answers[response.status]!
  const text = await response.text()
  return schema === undefined || compiledOf(schema).Check(JSON.parse(text)) ? 'as documented' : text
}

const compiled = new Map<TSchema, ReturnType<typeof Compile>>()

/** Compiles each schema once. */
function compiledOf(schema: TSchema) {
  const known = compiled.get(schema) ?? Compile(schema)
  compiled.set(schema, known)
  return known
}

function toRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Replaces surrogates, because half a pair cannot be encoded in a URL. */
function wellFormed(text: string): string {
  return text.replaceAll(/[\uD800-\uDFFF]/g, '?')
}
