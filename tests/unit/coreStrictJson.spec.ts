import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  ArgumentRangeError,
  encodePayload,
  InvalidArgumentError,
  JSON_TEXT_BYTES_MAX,
  JsonSyntaxError,
  parseStrictJson,
} from '../../libs/core/index.js'

const deep = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)

describe('parseStrictJson with valid text', () => {
  test.each<[string, unknown]>([
    ['null', null],
    [' \t\n\r true \n', true],
    ['"\\u0041\\n\\/😀\\ud83d\\ude00"', 'A\n/😀😀'],
    ['[]', []],
    ['[1, [2], {}]', [1, [2], {}]],
    ['{"a":{"a":1},"b":[{"a":1}]}', { a: { a: 1 }, b: [{ a: 1 }] }],
    ['{"constructor":1,"toString":2,"hasOwnProperty":3}', { constructor: 1, toString: 2, hasOwnProperty: 3 }],
    ['0', 0],
    ['-1', -1],
    ['1.0', 1],
    ['0.1', 0.1],
    ['1e3', 1000],
    ['12.50E-1', 1.25],
    ['9007199254740991', Number.MAX_SAFE_INTEGER],
    ['100000000000000000000', 1e20],
    ['1e20', 1e20],
    ['0.00000000000000000001', 1e-20],
    [deep(32), JSON.parse(deep(32))],
  ])('parses %s', (text, value) => {
    expect(parseStrictJson(text)).toEqual(value)
    expect(parseStrictJson(Buffer.from(text))).toEqual(value)
  })

  test('accepts depth 33 if depthMax is 33', () => {
    expect(parseStrictJson(deep(33), { depthMax: 33 })).toHaveLength(1)
  })
})

describe('parseStrictJson with invalid text', () => {
  test.each<[string, string]>([
    ['', 'body'],
    [' ', 'body'],
    ['nul', 'body'],
    ['truefalse', 'body'],
    ['NaN', 'body'],
    ['Infinity', 'body'],
    ['undefined', 'body'],
    ["'a'", 'body'],
    ['{a:1}', 'body'],
    ['{"a" 1}', 'body'],
    ['{"a":}', 'body'],
    ['{"a":1', 'body'],
    ['{"a":1,}', 'body'],
    ['{,}', 'body'],
    ['[1,]', 'body'],
    ['[,1]', 'body'],
    ['[1 2]', 'body'],
    ['[1]]', 'body'],
    ['1 2', 'body'],
    ['"abc', 'body'],
    ['"abc\\', 'body'],
    ['"abc\\"', 'body'],
    ['// a\n1', 'body'],
    ['\uFEFF1', 'body'],
    ['\u00A01', 'body'],
    ['01', 'body'],
    ['+1', 'body'],
    ['.5', 'body'],
    ['5.', 'body'],
    ['1e', 'body'],
    ['0x10', 'body'],
    ['1_000', 'body'],
    ['1.2.3', 'body'],
    ['--1', 'body'],
    ['"\\x41"', 'body'],
    ['"\\u00g0"', 'body'],
    ['"a\nb"', 'body'],
    ['"\\u0000"', 'body'],
    ['"\\ud83d"', 'body'],
    ['"\\ude00\\ud83d"', 'body'],
    ['{"a":{"b":1,"b":2}}', 'body.a.b'],
    ['{"a":1,"\\u0061":2}', 'body.a'],
    ['{"toString":1,"toString":2}', 'body.toString'],
    ['{"a":[{"\\u0000":1}]}', 'body.a[0][key 1]'],
    ['{"__proto__":{"admin":true}}', 'body.__proto__'],
    ['{"\\u005f_proto__":1}', 'body.__proto__'],
  ])('refuses %j as malformed', (text, argument) => {
    expect(refusal(text)).toMatchObject({ code: 'INVALID_ARGUMENT', argument })
  })

  test.each<[string, string]>([
    ['-0', 'body'],
    ['-0.0', 'body'],
    ['-0e-5', 'body'],
    ['1e21', 'body'],
    ['1000000000000000000000', 'body'],
    ['{"a":[1e131071]}', 'body.a[0]'],
    ['1e99999999999999999999999999', 'body'],
    ['0e22', 'body'],
    ['0e-21', 'body'],
    ['1e-21', 'body'],
    ['1.000000000000000000000', 'body'],
    ['1e-400', 'body'],
    ['9007199254740993', 'body'],
    ['0.1000000000000000055', 'body'],
    [`0.${'1'.repeat(80)}`, 'body'],
    [deep(33), `body${'[0]'.repeat(32)}`],
    [`${'['.repeat(33)}"[\\"["${']'.repeat(33)}`, `body${'[0]'.repeat(32)}`],
    [`"${'x'.repeat(JSON_TEXT_BYTES_MAX - 1)}"`, 'body'],
    [`"${'€'.repeat(JSON_TEXT_BYTES_MAX / 3)}"`, 'body'],
  ])('refuses %.40s as out of range', (text, argument) => {
    expect(refusal(text)).toMatchObject({ code: 'ARGUMENT_OUT_OF_RANGE', argument })
  })

  test.each([
    ['lists', '['.repeat(100_000)],
    ['objects', '{"a":'.repeat(10_000)],
    ['a text with brackets', `${'['.repeat(40)}"]]]${']'.repeat(40)}`],
  ])('refuses unterminated input (JsonSyntaxError), even beyond the maximum depth: %s', (_name, text) => {
    expect(refusal(text)).toBeInstanceOf(JsonSyntaxError)
  })

  test.each([
    ['an overlong slash', [0x22, 0xc0, 0xaf, 0x22]],
    ['a surrogate in UTF-8', [0x22, 0xed, 0xa0, 0x80, 0x22]],
    ['half a character', [0x22, 0xe2, 0x82, 0x22]],
    ['Latin-1', [0x22, 0xe9, 0x22]],
  ])('refuses bytes that are not UTF-8: %s', (_name, bytes) => {
    expect(() => parseStrictJson(Uint8Array.from(bytes), { argument: 'line 3' })).toThrow(/^line 3: expected UTF-8$/)
  })

  test('refuses a byte order mark in bytes', () => {
    expect(() => parseStrictJson(Uint8Array.from([0xef, 0xbb, 0xbf, 0x31]))).toThrow(
      /expected a JSON value at offset 0/,
    )
  })

  test('refuses a number of 200,000 digits quickly', () => {
    // A regular expression that removes trailing zeros would take minutes.
    expect(refusal(`1${'0'.repeat(200_000)}1`)).toMatchObject({ code: 'ARGUMENT_OUT_OF_RANGE' })
  })

  test('never quotes the refused text in an error', () => {
    for (const text of [
      '{"pan": 4111111111111111111}',
      '{"pan": "4111\\q"}',
      '{"pan" 4111}',
      '{"4111": 1, "4111": 2}',
    ]) {
      expect(String(refusal(text))).not.toContain('4111')
    }
  })
})

describe('parseStrictJson with random text', () => {
  const withinBounds = fc.jsonValue({ maxDepth: 5 }).filter((value) => isWithinBounds(value))

  test('returns the value of JSON.parse for every text that it accepts', () => {
    fc.assert(
      fc.property(fc.json({ stringUnit: 'binary' }), (text) => {
        const value = readUnlessRefused(text)
        expect(value === REFUSED ? value : JSON.parse(text)).toEqual(value)
      }),
    )
  })

  test('refuses every text that JSON.parse refuses, with a typed error', () => {
    // Replaces up to three characters of valid JSON with one of the alphabet or none. Most results are invalid.
    const almost = fc
      .tuple(fc.json(), fc.nat(200), fc.constantFrom(...JSON_ALPHABET), fc.nat(3))
      .map(([text, at, piece, cut]) => text.slice(0, at) + piece + text.slice(at + cut))
    fc.assert(
      fc.property(fc.oneof(almost, fc.string({ unit: 'binary' })), (text) => {
        const value = readUnlessRefused(text)
        expect(value === REFUSED ? value : JSON.parse(text)).toEqual(value)
      }),
      { numRuns: 2_000 },
    )
  })

  test('parses the text of encodePayload to the same payload', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.stringMatching(/^[a-z]{1,8}$/), withinBounds), (payload) => {
        const text = encodePayload(payload)
        expect(parseStrictJson(text)).toEqual(payload)
      }),
    )
  })
})

const REFUSED = Symbol('refused')

/** Returns the parsed value, or REFUSED for the two typed errors. Any other error fails the test. */
function readUnlessRefused(text: string): unknown {
  try {
    return parseStrictJson(text)
  } catch (error) {
    if (error instanceof InvalidArgumentError || error instanceof ArgumentRangeError) return REFUSED
    throw error
  }
}

function isWithinBounds(value: unknown): boolean {
  try {
    encodePayload({ value })
    return true
  } catch {
    return false
  }
}

const JSON_ALPHABET = ['{', '}', '[', ']', '"', ',', ':', '\\', '0', '1', 'e', '.', '-', '+', ' ', '\n', 'u', '']

function refusal(text: string): unknown {
  try {
    parseStrictJson(text)
    return undefined
  } catch (error) {
    return error
  }
}
