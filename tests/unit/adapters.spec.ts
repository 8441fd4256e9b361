import { describe, expect, test } from 'vitest'
import {
  fromDrizzle,
  fromKnex,
  fromKysely,
  fromPostgresJs,
  fromPrisma,
  fromTypeOrm,
} from '../../libs/adapters/index.js'
import { asText, cutAtPlaceholders } from '../../libs/adapters/parameters.js'
import { parseArray } from '../../libs/db/values.js'

/** Tests the adapters without the database libraries. `npm run adapters` tests them with the real libraries. */

test.for([
  [['a', 'b']],
  [['', ' ', 'NULL', 'null', '{}', '{"a":1}', 'a,b', '"', '\\', '\\"', '\n', 'é 支付 🎼']],
  [['a', null, 'b']],
  [[]],
])('asText writes an array that parseArray reads back unchanged: %j', ([given]) => {
  expect(parseArray(String(asText(given)), String)).toEqual(given)
})

test('asText writes dates, bigints, booleans and arrays in an array as PostgreSQL reads them', () => {
  expect(asText([new Date(0), null])).toBe('{"1970-01-01T00:00:00.000Z",NULL}')
  expect(asText([2n ** 63n - 1n])).toBe('{"9223372036854775807"}')
  expect(asText([true, false])).toBe('{"true","false"}')
  expect(asText([['a'], ['b']])).toBe('{{"a"},{"b"}}')
})

test('asText leaves booleans, null, text and bytes unchanged', () => {
  const bytes = Buffer.from('x')
  expect([asText(true), asText(null), asText('{}'), asText(bytes)]).toEqual([true, null, '{}', bytes])
})

test('cutAtPlaceholders splits at each $n placeholder, not at the same text in quotes', () => {
  const text = `SELECT * FROM "a $1 ""?"."f"($2, $1, '$1 it''s', $10)`
  const values = ['one', 'two', 3, 4, 5, 6, 7, 8, 9, 'ten']
  expect(cutAtPlaceholders(text, values)).toEqual({
    fragments: [`SELECT * FROM "a $1 ""?"."f"(`, ', ', `, '$1 it''s', `, ')'],
    values: ['two', 'one', 'ten'],
  })
})

describe('an adapter of a database library', () => {
  test.for([
    ['sql', fromPostgresJs],
    ['trx', fromKysely],
    ['trx', fromKnex],
    ['tx', fromPrisma],
    ['manager', fromTypeOrm],
  ] as const)('refuses a wrong %s argument before it sends anything', ([argument, adapter]) => {
    for (const given of [undefined, null, {}, 'tx', 7]) {
      // @ts-expect-error: a JavaScript caller could pass this
      expect(() => adapter(given)).toThrow(`${argument}: expected`)
    }
  })

  test('refuses a missing sql argument (fromDrizzle)', () => {
    // @ts-expect-error: a JavaScript caller could pass this
    expect(() => fromDrizzle({ execute: async () => [], rollback: () => undefined })).toThrow('sql: expected')
  })
})
