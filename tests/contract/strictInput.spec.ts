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
  parseStrictJson,
  requiredId,
  requiredInboxId,
  requiredText,
} from '../../libs/core/index.js'

/*
 * Compares the limits in libs/core with those in schema/. The database must accept every value that TypeScript accepts.
 * Both must agree on values that exist in both languages.
 */

const database = `strict_input_${process.pid}`
let server: Client
let client: Client

beforeAll(async () => {
  server = await connect('postgres')
  await server.query(`CREATE DATABASE ${database} TEMPLATE template0 ENCODING 'UTF8'`)
  client = await connect(database)
  for (const file of ['v1/004_table_functions.sql', 'functions/core/strict_input.sql'])
    await client.query(await readFile(new URL(`../../schema/${file}`, import.meta.url), 'utf8'))
})

afterAll(async () => {
  await client.end()
  await server.query(`DROP DATABASE ${database}`)
  await server.end()
})

describe('payload checks', () => {
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
  ])('TypeScript and SQL agree on a payload of %s', async (_name, payload, accepted) => {
    expect({ typescript: encodes(payload) !== undefined, sql: await isAccepted(JSON.stringify(payload)) }).toEqual({
      typescript: accepted,
      sql: accepted,
    })
  })

  test('SQL accepts every payload that TypeScript accepts, and measures the same bytes', async () => {
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

  test('TypeScript and SQL agree on numbers of every size', async () => {
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

describe('a number in a payload', () => {
  test.each<[string, boolean]>([
    ['9007199254740992', true],
    ['9007199254740993', false],
    ['-9007199254740993', false],
    ['0.1', true],
    ['0.30000000000000004', true],
    ['0.30000000000000001', false],
    ['1e400', false],
    ['1e-400', false],
    ['100000000000000000000', true],
    ['100000000000000000001', false],
    ['999999999999999999999', false],
    ['1.0', true],
    ['1', true],
    ['12.50', true],
    ['12345678.12345678', true],
    ['123456789.123456789', false],
    // JavaScript prints the double 18014398509482008 as 18014398509482010, which lies halfway between two doubles.
    ['18014398509482010', true],
    ['18014398509482008', false],
    // Rounded to 16 digits, this number would parse to the next double. JavaScript prints all 17 digits.
    ['18014398509481988', true],
    // Two decimals of 17 digits are equally near to one double. JavaScript prints the even decimal.
    ['1125899906842624.2', true],
    ['1125899906842624.3', false],
  ])('is accepted by both TypeScript and SQL, or by neither: %s', async (literal, accepted) => {
    const json = `{"a": [${literal}]}`
    const padded = `{"a": [${literal}], "padding": "${'x'.repeat(1_500)}"}`
    expect({
      typescript: reads(literal),
      sql: await isAccepted(json),
      large: await isAccepted(padded),
    }).toEqual({ typescript: accepted, sql: accepted, large: accepted })
  })

  test('is stored as 0 if it is -0', async () => {
    expect(await sql('($1::jsonb)::text', '{"a": -0}')).toBe('{"a": 0}')
    expect(await isAccepted('{"a": -0}')).toBe(true)
  })

  test('is accepted as a string even if it has more digits than a double can hold', async () => {
    expect(
      await isAccepted('{"iban": "DE89370400440532013000", "id": "9007199254740993", "t": ": 9007199254740993"}'),
    ).toBe(true)
  })

  test.each([1, 2, 3, 4])(
    'is accepted by SQL if and only if TypeScript parses it, for 5000 numbers (seed %i)',
    async (seed) => {
      const literals = fc.sample(anyLiteral, { numRuns: 5_000, seed })
      const { rows } = await client.query<{ readonly literal: string; readonly accepted: boolean }>(
        `SELECT literal, payload_defect(('{"a": ' || literal || '}')::jsonb) IS NULL AS accepted FROM unnest($1::text[]) AS literal`,
        [literals],
      )
      expect(rows.filter(({ literal, accepted }) => accepted !== reads(literal))).toEqual([])
      expect(rows.filter(({ accepted }) => accepted).length).toBeGreaterThan(500)
      expect(rows.filter(({ accepted }) => !accepted).length).toBeGreaterThan(500)
    },
  )

  test.each(['-15', '0', '3'])(
    'is accepted or refused in the same way with extra_float_digits = %s',
    async (setting) => {
      await client.query(`SET extra_float_digits = ${setting}`)
      expect(await isAccepted('{"a": 0.30000000000000004}')).toBe(true)
      expect(await isAccepted('{"a": 9007199254740993}')).toBe(false)
      await client.query('RESET extra_float_digits')
    },
  )
})

/**
 * Generates decimal literals: 14 to 19 random digits, the digits of a double, or a few units beside a double. Each may
 * have trailing zeros.
 */
const anyLiteral = fc
  .tuple(
    fc.oneof(
      fc
        .tuple(fc.bigInt({ min: 10n ** 13n, max: 10n ** 19n }), fc.integer({ min: 0, max: 20 }))
        .map(([n, scale]) => pointed(n, scale)),
      fc.double({ min: 1e15, max: 1e20, noNaN: true }).map((double) => pointed(BigInt(Math.trunc(double)), 0)),
      fc
        .tuple(
          fc.integer({ min: 52, max: 68 }),
          fc.bigInt({ min: 0n, max: 2n ** 52n }),
          fc.integer({ min: -12, max: 12 }),
        )
        .map(([power, fraction, beside]) =>
          String(2n ** BigInt(power) + fraction * 2n ** BigInt(power - 52) + BigInt(beside)),
        ),
      fc
        .tuple(
          fc.integer({ min: 40, max: 52 }),
          fc.bigInt({ min: 0n, max: 2n ** 40n }),
          fc.integer({ min: 0, max: 4_096 }),
        )
        .map(([power, fraction, eighths]) =>
          pointed((2n ** BigInt(power) + fraction) * 10_000n + (BigInt(eighths) * 10_000n) / 4_096n, 4),
        ),
      fc.double({ min: 1e-6, max: 1e15, noNaN: true }).map((double) => String(double)),
    ),
    fc.boolean(),
    fc.integer({ min: 0, max: 2 }),
  )
  .map(
    ([literal, isNegative, zeros]) =>
      `${isNegative ? '-' : ''}${literal}${literal.includes('.') ? '0'.repeat(zeros) : ''}`,
  )
  .filter((literal) => /^-?\d+(\.\d+)?$/.test(literal) && /[1-9]/.test(literal))

/** Inserts the decimal point: `12345` with a scale of 3 becomes `12.345`. */
function pointed(digits: bigint, scale: number): string {
  const text = digits.toString().padStart(scale + 1, '0')
  return scale === 0 ? text : `${text.slice(0, -scale)}.${text.slice(-scale)}`
}

function reads(literal: string): boolean {
  return passes(() => parseStrictJson(`{"a": ${literal}}`))
}

describe('id and text checks', () => {
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
  ])('TypeScript and SQL agree on the id %j', async (id) => {
    expect(await sql('is_id($1)', id)).toBe(passes(() => requiredId('id', id)))
  })

  test('TypeScript and SQL agree on random ids', async () => {
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
  ])('TypeScript and SQL agree on the inbox message id %j', async (id) => {
    expect(await sql('is_inbox_id($1)', id)).toBe(passes(() => requiredInboxId('id', id)))
  })

  test('TypeScript and SQL agree on random inbox message ids', async () => {
    await fc.assert(
      fc.asyncProperty(storable({ maxLength: 300 }), async (id) => {
        expect(await sql('is_inbox_id($1)', id)).toBe(passes(() => requiredInboxId('id', id)))
      }),
      { numRuns: 300 },
    )
  })

  test('SQL accepts every text that TypeScript accepts', async () => {
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
  ])('TypeScript and SQL agree on the text %j', async (text) => {
    expect(await sql('is_short_text($1, 10)', text)).toBe(passes(() => requiredText('reason', text, 10)))
  })
})

test('TypeScript and SQL agree on valid and damaged trace contexts', async () => {
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

/** Generates text that PostgreSQL can store: no NUL, no lone surrogate. */
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
