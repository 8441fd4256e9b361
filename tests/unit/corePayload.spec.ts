import vm from 'node:vm'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  ArgumentRangeError,
  encodePayload,
  InvalidArgumentError,
  PAYLOAD_BYTES_MAX,
  PAYLOAD_DEPTH_MAX,
} from '../../libs/core/index.js'

/** Text that no error may contain, because errors do not quote payloads. */
const SECRET = 'canary-4111111111111111'

class Money {
  amount = SECRET
}

class Items extends Array<number> {}

function nested(depth: number): Record<string, unknown> {
  let value: Record<string, unknown> = {}
  for (let level = 1; level < depth; level += 1) value = { in: value }
  return value
}

function cyclic(): Record<string, unknown> {
  const parent: Record<string, unknown> = { child: {} }
  parent['child'] = { parent }
  return parent
}

function withProperty(key: PropertyKey, descriptor: PropertyDescriptor): object {
  return Object.defineProperty({}, key, descriptor)
}

function revokedProxy(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

/** Returns a graph that doubles at each of 31 levels: a few hundred bytes in memory, 2^31 leaves as text. */
function expandingGraph(): Record<string, unknown> {
  let node: unknown = 'leaf'
  for (let level = 1; level < PAYLOAD_DEPTH_MAX; level += 1) node = [node, node]
  return { node }
}

describe('encodePayload with a valid payload', () => {
  test.each<[string, unknown, string]>([
    ['an empty object', {}, '{}'],
    ['spaces as jsonb prints them', { a: 1, b: [true, null, {}] }, '{"a": 1, "b": [true, null, {}]}'],
    ['an object without prototype', Object.assign(withoutPrototype(), { a: 'x' }), '{"a": "x"}'],
    [
      'escapes as jsonb prints them',
      { a: '\b\f\n\r\t"\\\u0001\u007F/é😀\u2028' },
      `{"a": ${JSON.stringify('\b\f\n\r\t"\\\u0001\u007F/é😀\u2028')}}`,
    ],
    ['a key named toJSON that holds data', { toJSON: 'x' }, '{"toJSON": "x"}'],
    ['a small fraction, expanded', { a: 1e-7, b: -1.5e-19 }, '{"a": 0.0000001, "b": -0.00000000000000000015}'],
    ['the largest scale', { a: 1e-20 }, '{"a": 0.00000000000000000001}'],
    ['the largest magnitude', { a: 999_999_999_999_999_900_000 }, '{"a": 999999999999999900000}'],
    ['the same object twice, which is no cycle', ((shared) => ({ a: shared, b: shared }))([1]), '{"a": [1], "b": [1]}'],
  ])('accepts %s', (_name, payload, text) => {
    expect(encodePayload(payload)).toBe(text)
  })

  test('accepts depth 32, where the outer object has depth 1', () => {
    expect(encodePayload(nested(PAYLOAD_DEPTH_MAX))).toContain('{}')
  })

  test('accepts exactly 64 KiB', () => {
    const frame = Buffer.byteLength('{"a": ""}')
    expect(Buffer.byteLength(encodePayload({ a: 'x'.repeat(PAYLOAD_BYTES_MAX - frame) }))).toBe(PAYLOAD_BYTES_MAX)
  })
})

describe('encodePayload with an invalid payload', () => {
  const S = SECRET
  test.each<[string, unknown, string]>([
    ['undefined', undefined, 'payload'],
    ['null', null, 'payload'],
    ['text', S, 'payload'],
    ['a number', 1, 'payload'],
    ['an array', [S], 'payload'],
    ['a function', () => S, 'payload'],
    ['a class instance', new Money(), 'payload'],
    ['a map', new Map([[S, S]]), 'payload'],
    ['a date', new Date(0), 'payload'],
    ['an error', new Error(S), 'payload'],
    ['a buffer', Buffer.from(S), 'payload'],
    ['a boxed string', Object(S), 'payload'],
    ['a promise', Promise.resolve(S), 'payload'],
    ['a proxy', new Proxy({ a: S }, {}), 'payload'],
    ['a revoked proxy', revokedProxy(), 'payload'],
    ['an object of another realm', vm.runInNewContext('({ a: 1 })'), 'payload'],
    ['an inherited object', Object.create({ a: S }), 'payload'],
    ['undefined inside', { items: [{}, { amount: undefined }] }, 'payload.items[1].amount'],
    ['a function inside', { a: () => S }, 'payload.a'],
    ['a toJSON method', { a: { toJSON: () => S } }, 'payload.a.toJSON'],
    ['a symbol', { a: Symbol(S) }, 'payload.a'],
    ['a symbol key', { [Symbol(S)]: 1 }, 'payload'],
    ['a bigint', { a: 1n }, 'payload.a'],
    ['a date inside', { a: new Date(0) }, 'payload.a'],
    ['an invalid date', { a: new Date(Number.NaN) }, 'payload.a'],
    ['a nested proxy', { a: [new Proxy([], {})] }, 'payload.a[0]'],
    ['an array subclass', { a: Items.from([1]) }, 'payload.a'],
    ['a getter', withProperty('a', { get: () => S, enumerable: true }), 'payload.a'],
    ['a setter', withProperty('a', { set: () => undefined, enumerable: true }), 'payload.a'],
    ['a hidden property', withProperty('a', { value: S, enumerable: false }), 'payload.a'],
    ['an own __proto__ key', JSON.parse(`{"__proto__": {"a": "${S}"}}`), 'payload.__proto__'],
    ['a sparse array', { a: Object.assign([1], { 2: 3 }) }, 'payload.a[1]'],
    ['an array of undefined', { a: Array.from({ length: 3 }) }, 'payload.a[0]'],
    ['an array with an extra property', { a: Object.assign([1], { name: S }) }, 'payload.a'],
    ['an array with a symbol property', { a: Object.assign([1], { [Symbol.iterator]: () => S }) }, 'payload.a'],
    ['a cycle', cyclic(), 'payload.child.parent'],
    ['NUL in a text', { a: `${S}\0` }, 'payload.a'],
    ['NUL in a key', { ['\0']: 1 }, 'payload[key 1]'],
    ['a lone high surrogate', { a: `${S}\uD83D` }, 'payload.a'],
    ['a lone low surrogate', { a: `\uDE00${S}` }, 'payload.a'],
    ['swapped surrogates in a key', { ok: 1, ['\uDE00\uD83D']: 1 }, 'payload[key 2]'],
    ['a key that may be data', { [S.slice(7)]: undefined }, 'payload[key 1]'],
  ])('refuses %s and names its path', (_name, payload, argument) => {
    const error = refusal(payload)
    expect(error).toBeInstanceOf(TypeError)
    expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', argument })
    expect(String(error)).not.toContain('4111')
  })

  test.each<[string, unknown, string]>([
    ['NaN', { a: Number.NaN }, 'payload.a'],
    ['Infinity', { a: Number.POSITIVE_INFINITY }, 'payload.a'],
    ['-Infinity', { a: Number.NEGATIVE_INFINITY }, 'payload.a'],
    ['negative zero', { a: [-0] }, 'payload.a[0]'],
    ['10^21', { a: 1e21 }, 'payload.a'],
    ['-10^21', { a: -1e21 }, 'payload.a'],
    ['the largest double', { a: Number.MAX_VALUE }, 'payload.a'],
    ['21 digits after the point', { a: 1.5e-20 }, 'payload.a'],
    ['the smallest double', { a: Number.MIN_VALUE }, 'payload.a'],
    ['depth 33', nested(33), `payload${'.in'.repeat(32)}`],
    ['64 KiB and one byte', { a: 'x'.repeat(PAYLOAD_BYTES_MAX - 8) }, 'payload'],
    ['too many characters of three bytes', { a: '€'.repeat(PAYLOAD_BYTES_MAX / 3) }, 'payload'],
    [
      'too many control characters, each escaped as six bytes',
      { a: '\u0001'.repeat(PAYLOAD_BYTES_MAX / 6) },
      'payload',
    ],
    [
      'a list that is too large with the spaces that jsonb adds',
      { a: Array.from({ length: 25_000 }).fill(1) },
      'payload',
    ],
    ['a text of 100 MB', { a: 'x'.repeat(100_000_000) }, 'payload'],
    ['an array of 4,294,967,295 holes', { a: hugeArray() }, 'payload'],
    ['a small graph with 2^31 leaves as text', expandingGraph(), 'payload'],
  ])('refuses %s as out of range', (_name, payload, argument) => {
    const error = refusal(payload)
    expect(error).toBeInstanceOf(RangeError)
    expect(error).toMatchObject({ code: 'ARGUMENT_OUT_OF_RANGE', argument })
  })

  test('calls no getter, toJSON or proxy trap of the payload', () => {
    let calls = 0
    const spy = () => (calls += 1)
    const hostile = [
      { a: { toJSON: spy } },
      withProperty('a', { get: spy, enumerable: true }),
      new Proxy({}, { get: spy, ownKeys: () => (spy(), []), getPrototypeOf: () => (spy(), Object.prototype) }),
      { a: { [Symbol.toPrimitive]: spy, valueOf: spy, toString: spy } },
    ]
    for (const payload of hostile) expect(refusal(payload)).toBeInstanceOf(InvalidArgumentError)
    expect(calls).toBe(0)
  })

  test('describes the kind of the refused value in the error', () => {
    expect(() => encodePayload(withProperty('a', { get: () => 1, enumerable: true }))).toThrow(
      /got a getter or setter$/,
    )
    expect(() => encodePayload({ a: [new Date(0)] })).toThrow(/^payload\.a\[0\]: .*got an instance of a class$/)
  })

  test('begins the path with the given argument name', () => {
    expect(() => encodePayload({ a: undefined }, 'items[7].payload')).toThrow(/^items\[7\]\.payload\.a: /)
  })
})

describe('encodePayload with random values', () => {
  const json = fc.dictionary(
    fc.string({ unit: 'binary' }).filter((key) => key !== '__proto__' && !key.includes('\0')),
    fc.jsonValue({ stringUnit: 'binary', maxDepth: 6 }),
  )

  test('returns text that parses to the same value, or throws a typed error', () => {
    fc.assert(
      fc.property(json, (payload) => {
        const text = textUnlessRefused(payload)
        expect(text === undefined ? payload : JSON.parse(text)).toEqual(payload)
        expect(Buffer.byteLength(text ?? '')).toBeLessThanOrEqual(PAYLOAD_BYTES_MAX)
      }),
    )
  })

  test('throws a typed error for every value that JSON would change, such as a date or a map', () => {
    const anything = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withNullPrototype: true,
      withObjectString: true,
      withSet: true,
      withSparseArray: true,
      withTypedArray: true,
      withUnicodeString: true,
    })
    fc.assert(
      fc.property(anything, (value) => {
        const text = textUnlessRefused({ value })
        expect(text === undefined ? { value } : JSON.parse(text)).toEqual({ value })
      }),
    )
  })
})

function refusal(payload: unknown): unknown {
  try {
    encodePayload(payload)
    return undefined
  } catch (error) {
    return error
  }
}

/** Returns the encoded text, or undefined for the two typed errors. Any other error fails the test. */
function textUnlessRefused(payload: unknown): string | undefined {
  try {
    return encodePayload(payload)
  } catch (error) {
    if (error instanceof InvalidArgumentError || error instanceof ArgumentRangeError) return undefined
    throw error
  }
}

function withoutPrototype(): object {
  return Object.setPrototypeOf({}, null)
}

function hugeArray(): unknown[] {
  const array: unknown[] = []
  array.length = 4_294_967_295
  return array
}
