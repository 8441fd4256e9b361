import { readFile } from 'node:fs/promises'
import * as fc from 'fast-check'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import {
  ArgumentRangeError,
  decodeTraceContext,
  encodePayload,
  ID_LENGTH_MAX,
  InvalidArgumentError,
  PAYLOAD_BYTES_MAX,
  PAYLOAD_DEPTH_MAX,
  requiredId,
  requiredInboxId,
  requiredText,
} from '../../libs/core/index.js'

/**
 * The limits stand twice, in libs/core and in schema/. What TypeScript accepts, the database must accept; where a
 * value can be said in both languages, both must draw the line at the same place.
 */
const database = `strict_input_${process.pid}`
let server: Client
let client: Client

beforeAll(async () => {
  server = await connect('postgres')
  await server.query(`CREATE DATABASE ${database} TEMPLATE template0 ENCODING 'UTF8'`)
  client = await connect(database)
  await client.query(await readFile(new URL('../../schema/v1/005_strict_input.sql', import.meta.url), 'utf8'))
})

afterAll(async () => {
  await client.end()
  await server.query(`DROP DATABASE ${database}`)
  await server.end()
})

describe('payloads', () => {
  test.each<[string, unknown, boolean]>([
    ['depth 32', nested(PAYLOAD_DEPTH_MAX), true],
    ['depth 33', nested(PAYLOAD_DEPTH_MAX + 1), false],
    ['65536 bytes', { a: 'x'.repeat(PAYLOAD_BYTES_MAX - 9) }, true],
    ['65537 bytes', { a: 'x'.repeat(PAYLOAD_BYTES_MAX - 8) }, false],
    ['65536 bytes with the spaces jsonb adds', { a: [...Array.from({ length: 21_842 }, () => 1), 1] }, true],
    ['65537 bytes with the spaces jsonb adds', { a: [...Array.from({ length: 21_842 }, () => 1), 11] }, false],
    ['65536 bytes of control characters', { a: `${'\u0001'.repeat(10_921)}x` }, true],
    ['65537 bytes of control characters', { a: `${'\u0001'.repeat(10_921)}xx` }, false],
    ['just below 10^21', { a: 999_999_999_999_999_900_000 }, true],
    ['10^21', { a: [1e21] }, false],
    ['-10^21', { a: { b: -1e21 } }, false],
    ['20 decimals', { a: 1e-20 }, true],
    ['21 decimals', { a: 1e-21 }, false],
    ['21 decimals by their last digit', { a: 1.1e-20 }, false],
  ])('both sides agree on %s', async (_name, payload, accepted) => {
    expect({ typescript: encodes(payload) !== undefined, sql: await isAccepted(JSON.stringify(payload)) }).toEqual({
      typescript: accepted,
      sql: accepted,
    })
  })

  test('what TypeScript accepts, the database accepts, and measures to the same byte', async () => {
    const json = fc.jsonValue({ stringUnit: 'binary', maxDepth: 8 })
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fc.string({ unit: 'binary' }), json), async (payload) => {
        const text = encodes(payload) ?? '{}'
        const { rows } = await client.query(
          'SELECT payload_defect($1::jsonb) AS defect, octet_length($1::jsonb::text) AS bytes, $1::jsonb = $2::jsonb AS same',
          [text, text === '{}' ? text : JSON.stringify(payload)],
        )
        expect(rows).toEqual([{ defect: null, bytes: Buffer.byteLength(text), same: true }])
      }),
      { numRuns: 200 },
    )
  })

  test('numbers of every size are judged alike', async () => {
    const number = fc.oneof(
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc
        .tuple(fc.integer(), fc.integer({ min: -30, max: 30 }))
        .map(([digits, exponent]) => Number(`${digits}e${exponent}`)),
    )
    await fc.assert(
      fc.asyncProperty(number, async (n) => {
        fc.pre(!Object.is(n, -0))
        expect(await isAccepted(JSON.stringify({ n }))).toBe(encodes({ n }) !== undefined)
      }),
      { numRuns: 200 },
    )
  })
})

describe('ids and texts', () => {
  test.each([
    'a',
    '~!',
    'x'.repeat(ID_LENGTH_MAX),
    'x'.repeat(ID_LENGTH_MAX + 1),
    '',
    ' ',
    'a b',
    'é',
    'a\n',
    '\u007F',
  ])('both sides agree on the id %j', async (id) => {
    expect(await sql('is_id($1)', id)).toBe(passes(() => requiredId('id', id)))
  })

  test('both sides agree on any id', async () => {
    await fc.assert(
      fc.asyncProperty(storable({ maxLength: 130 }), async (id) => {
        expect(await sql('is_id($1)', id)).toBe(passes(() => requiredId('id', id)))
      }),
      { numRuns: 300 },
    )
  })

  test.each([
    'a',
    ' a b ',
    'é'.repeat(255),
    '😀'.repeat(255),
    '😀'.repeat(256),
    'x'.repeat(256),
    '',
    ' ',
    '\u00A0',
    '\u2003\u3000',
    '\uFEFF',
    '\u180E',
    '\u200B',
    'a\tb',
    'a\n',
    'a\u007F',
    'a\u0085',
  ])('both sides agree on the id of a message %j', async (id) => {
    expect(await sql('is_inbox_id($1)', id)).toBe(passes(() => requiredInboxId('id', id)))
  })

  test('both sides agree on any id of a message', async () => {
    await fc.assert(
      fc.asyncProperty(storable({ maxLength: 300 }), async (id) => {
        expect(await sql('is_inbox_id($1)', id)).toBe(passes(() => requiredInboxId('id', id)))
      }),
      { numRuns: 300 },
    )
  })

  test('a text that TypeScript accepts, the database accepts', async () => {
    await fc.assert(
      fc.asyncProperty(storable({ maxLength: 12 }), async (text) => {
        const accepted = passes(() => requiredText('reason', text, 10))
        expect(accepted && !(await sql('is_short_text($1, 10)', text))).toBe(false)
      }),
      { numRuns: 200 },
    )
  })

  test.each([
    'a',
    'x'.repeat(10),
    'x'.repeat(11),
    '',
    '\t\r\n ',
    'a\tb\r\n',
    'a\u0001',
    'a\u001F',
    'a\u007F',
    'a\u009F',
    'a\u00A0',
  ])('both sides agree on the text %j', async (text) => {
    expect(await sql('is_short_text($1, 10)', text)).toBe(passes(() => requiredText('reason', text, 10)))
  })
})

test('both sides agree on what is a trace context, whichever character of it is changed', async () => {
  const sound = fc
    .tuple(hex(32), hex(16), hex(2), fc.string({ unit: 'binary-ascii', maxLength: 600 }))
    .map(([traceId, spanId, flags, state]) => `00-${traceId}-${spanId}-${flags}${state === '' ? '' : ` ${state}`}`)
  const changed = fc
    .tuple(sound, fc.nat(60), fc.string({ unit: 'binary', maxLength: 2 }))
    .map(([text, place, other]) => text.slice(0, place) + other + text.slice(place + 1))
  const zeros = fc.constantFrom(
    `00-${'0'.repeat(32)}-${'1'.repeat(16)}-01`,
    `00-${'1'.repeat(32)}-${'0'.repeat(16)}-01`,
  )
  const any = fc.oneof(sound, sound, changed, zeros, storable({ maxLength: 80 }))
  await fc.assert(
    fc.asyncProperty(
      any.filter((text) => !text.includes('\0')),
      async (text) => {
        const kept = await sql('trace_context_or_null($1) = $1', text)
        expect([text, kept]).toEqual([text, decodeTraceContext(text) === undefined ? null : true])
      },
    ),
    { numRuns: 300 },
  )
})

function hex(length: number): fc.Arbitrary<string> {
  const digits = fc.constantFrom(...'0123456789abcdef'.split(''))
  return fc.string({ unit: digits, minLength: length, maxLength: length })
}

/** Text that reaches the database at all: no NUL, no half of a surrogate pair. */
function storable(constraints: fc.StringConstraints): fc.Arbitrary<string> {
  return fc.string({ unit: 'binary', ...constraints }).filter((text) => !text.includes('\0'))
}

function nested(depth: number): Record<string, unknown> {
  return depth === 1 ? {} : { in: nested(depth - 1) }
}

function encodes(payload: unknown): string | undefined {
  let text: string | undefined
  passes(() => (text = encodePayload(payload)))
  return text
}

function passes(check: () => unknown): boolean {
  try {
    check()
    return true
  } catch (error) {
    if (error instanceof InvalidArgumentError || error instanceof ArgumentRangeError) return false
    throw error
  }
}

async function isAccepted(json: string): Promise<boolean> {
  return (await sql('payload_defect($1::jsonb)', json)) === null
}

async function sql(expression: string, value: string): Promise<unknown> {
  const { rows } = await client.query<{ readonly answer: unknown }>(`SELECT ${expression} AS answer`, [value])
  return rows[0]?.answer
}

async function connect(name: string): Promise<Client> {
  const url = new URL(inject('serverUrl'))
  url.pathname = `/${name}`
  const connected = new Client({ connectionString: url.href })
  await connected.connect()
  return connected
}
