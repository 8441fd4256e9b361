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

/** With the real libraries: `npm run adapters`. Here is what needs none of them. */

test.for([
  [['a', 'b']],
  [['', ' ', 'NULL', 'null', '{}', '{"a":1}', 'a,b', '"', '\\', '\\"', '\n', 'é 支付 🎼']],
  [['a', null, 'b']],
  [[]],
])('an array as text is read back as it was: %j', ([given]) => {
  expect(parseArray(String(asText(given)), String)).toEqual(given)
})

test('dates, bigints and booleans inside an array are written as PostgreSQL reads them', () => {
  expect(asText([new Date(0), null])).toBe('{"1970-01-01T00:00:00.000Z",NULL}')
  expect(asText([2n ** 63n - 1n])).toBe('{"9223372036854775807"}')
  expect(asText([true, false])).toBe('{"true","false"}')
  expect(asText([['a'], ['b']])).toBe('{{"a"},{"b"}}')
})

test('what is no array, date or bigint is left as it is', () => {
  const bytes = Buffer.from('x')
  expect([asText(true), asText(null), asText('{}'), asText(bytes)]).toEqual([true, null, '{}', bytes])
})

test('a statement is cut at its placeholders, wherever they stand and however often, and at nothing that looks like one', () => {
  const text = `SELECT * FROM "a $1 ""?"."f"($2, $1, '$1 it''s', $10)`
  const values = ['one', 'two', 3, 4, 5, 6, 7, 8, 9, 'ten']
  expect(cutAtPlaceholders(text, values)).toEqual({
    fragments: [`SELECT * FROM "a $1 ""?"."f"(`, ', ', `, '$1 it''s', `, ')'],
    values: ['two', 'one', 'ten'],
  })
})

describe('something that cannot query is refused before anything is sent', () => {
  test.for([
    ['sql', fromPostgresJs],
    ['trx', fromKysely],
    ['trx', fromKnex],
    ['tx', fromPrisma],
    ['manager', fromTypeOrm],
  ] as const)('%s', ([argument, adapter]) => {
    for (const given of [undefined, null, {}, 'tx', 7]) {
      // @ts-expect-error: what a caller in JavaScript could pass
      expect(() => adapter(given)).toThrow(`${argument}: expected`)
    }
  })

  test('Drizzle without its sql', () => {
    // @ts-expect-error: what a caller in JavaScript could pass
    expect(() => fromDrizzle({ execute: async () => [], rollback: () => undefined })).toThrow('sql: expected')
  })
})
