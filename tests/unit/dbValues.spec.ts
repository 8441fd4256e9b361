import { beforeAll, describe, expect, test } from 'vitest'
import { types } from 'pg'
import { StaleStatementError, type Database } from '../../libs/db/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { DbFixture } from '../support/dbFixture.js'

const fixture = closeAfterAll(await DbFixture.set())
let database: Database

beforeAll(async () => {
  database = fixture.open({ connectionsMax: 3 })
})

async function read(expression: string, values?: readonly unknown[]): Promise<unknown> {
  const { rows } = await database.queryAsRole<{ value: unknown }>(
    fixture.worker,
    `SELECT ${expression} AS value`,
    values,
  )
  return rows[0]?.value
}

describe('a query result of libs/db', () => {
  test.for([
    ['int8 past 2^53', `9007199254740993::int8`, 9_007_199_254_740_993n],
    ['int8[]', `ARRAY[9223372036854775807, NULL, -1]::int8[]`, [9_223_372_036_854_775_807n, null, -1n]],
    ['numeric', `0.10000000000000000000000001::numeric`, '0.10000000000000000000000001'],
    ['numeric[]', `ARRAY[12345678901234567890.10]::numeric[]`, ['12345678901234567890.10']],
    ['int4', `1::int4`, 1],
    ['timestamptz', `'2026-02-03 04:05:06.789123+02'::timestamptz`, new Date('2026-02-03T02:05:06.789Z')],
    ['the last microsecond', `'1999-12-31 23:59:59.999999Z'::timestamptz`, new Date('1999-12-31T23:59:59.999Z')],
    ['a short fraction', `'2024-02-29 00:00:00.07Z'::timestamptz`, new Date('2024-02-29T00:00:00.070Z')],
    ['no fraction', `'9999-01-01 00:00:00Z'::timestamptz`, new Date('9999-01-01T00:00:00Z')],
    ['an early year', `'0099-02-03 04:05:06Z'::timestamptz`, new Date('0099-02-03T04:05:06Z')],
    ['timestamp', `'2026-02-03 04:05:06.789123'::timestamp`, '2026-02-03 04:05:06.789123'],
    ['date', `'2026-02-03'::date`, '2026-02-03'],
    ['date[]', `ARRAY['2026-02-03']::date[]`, ['2026-02-03']],
    ['interval', `'1 day 2 hours'::interval`, '1 day 02:00:00'],
    ['jsonb', `'{"amount":"10.00","list":[1,null]}'::jsonb`, { amount: '10.00', list: [1, null] }],
    ['bytea', String.raw`'\x00ff'::bytea`, Buffer.from([0, 255])],
    ['null', 'NULL::int8', null],
    ['infinity', `'infinity'::timestamptz`, new Date(8.64e15)],
    ['a time zone of +05:45', `'2026-02-03 04:05:06+05:45'::timestamptz`, new Date('2026-02-02T22:20:06Z')],
    ['timestamptz[]', `ARRAY['2026-02-03 00:00:00.5Z']::timestamptz[]`, [new Date('2026-02-03T00:00:00.500Z')]],
    ['bool', 'true', true],
    ['bool[]', 'ARRAY[true, false]', [true, false]],
    ['float8', '0.5::float8', 0.5],
    ['uuid[]', `ARRAY['00000000-0000-0000-0000-000000000001']::uuid[]`, ['00000000-0000-0000-0000-000000000001']],
    [
      'text[] with special characters',
      `ARRAY['a,b', 'c"d', 'e\\f', '{}', 'NULL', NULL, '']`,
      ['a,b', 'c"d', 'e\\f', '{}', 'NULL', null, ''],
    ],
    ['an empty array', `'{}'::text[]`, []],
    [
      'two dimensions',
      'ARRAY[[1, 2], [3, NULL]]',
      [
        [1, 2],
        [3, null],
      ],
    ],
    ['an array that starts at index 0', `'[0:1]={7,8}'::int[]`, [7, 8]],
    ['jsonb[]', `ARRAY['{"a":"b,c"}'::jsonb]`, [{ a: 'b,c' }]],
    ['a composite', `ROW(1, 'x')`, '(1,x)'],
  ] as const)('is parsed to its JavaScript value: %s', async ([, expression, value]) => {
    expect(await read(expression)).toEqual(value)
  })

  test('does not depend on the output formats that are set for the database', async () => {
    await fixture.admin.query(`
      ALTER DATABASE ${fixture.name} SET datestyle = 'SQL, DMY';
      ALTER DATABASE ${fixture.name} SET bytea_output = 'escape'`)
    for (const pooler of ['none', 'transaction'] as const) {
      const { rows } = await fixture
        .open({ pooler })
        .queryAsRole(fixture.worker, String.raw`SELECT '2026-02-03T00:00:00Z'::timestamptz AS t, '\x00ff'::bytea AS b`)
      expect(rows).toEqual([{ t: new Date('2026-02-03T00:00:00Z'), b: Buffer.from([0, 255]) }])
    }
  })

  test('neither uses nor changes the type parsers of the application', async () => {
    expect(types.getTypeParser(20)('1')).toBe('1')
    const theirs = types.getTypeParser(1700)
    types.setTypeParser(1700, Number)
    try {
      expect(await read('0.10::numeric')).toBe('0.10')
    } finally {
      types.setTypeParser(1700, theirs)
    }
  })
})

describe('a query parameter of libs/db', () => {
  test.for([
    ['a bigint', '$1::int8', 9_007_199_254_740_993n],
    ['a date', '$1::timestamptz', new Date('2026-02-03T04:05:06.789Z')],
    ['an object', '$1::jsonb', { a: [1, { b: null }] }],
    ['bytes', '$1::bytea', Buffer.from([0, 255])],
    ['a list', '$1::int8[]', [1n, null, 3n]],
    ['an empty list', '$1::text[]', []],
    ['a list of texts', '$1::text[]', ['a,b', 'c"d', 'e\\f', '{}', 'NULL', null, '', ' ', 'é\n']],
    [
      'a list of texts with characters that need escapes',
      '$1::text[]',
      ['"\n\t\\', '"\u0001\u001f', '\\"\u007f\u2028é', '"😀\\'],
    ],
    ['a list of flags', '$1::bool[]', [true, null, false]],
    ['a list of numbers', '$1::float8[]', [0.5, -1, 1e300]],
    ['a list of dates', '$1::timestamptz[]', [new Date('2026-02-03T04:05:06.789Z'), null]],
    ['a list of objects', '$1::jsonb[]', [{ a: 'b,"c\\' }, null]],
    ['a list of bytes', '$1::bytea[]', [Buffer.from([0, 34, 92, 255])]],
    [
      'a list of lists',
      '$1::text[]',
      [
        ['a', null],
        ['"', '}'],
      ],
    ],
    ['text with quotes', '$1::text', `it's "quoted" \\`],
  ] as const)('reads back unchanged: %s', async ([, expression, value]) => {
    expect(await read(expression, [value])).toEqual(value)
  })

  test.for([
    ['undefined', undefined, /^values\[0\]: .*undefined/],
    ['undefined in a list', [1, undefined], /^values\[0\]\[1\]: .*undefined/],
    ['a function in a list of lists', [['a'], [() => {}]], /^values\[0\]\[1\]\[0\]: .*function/],
    ['an invalid date', new Date(Number.NaN), /^values\[0\]: .*invalid/],
    ['a function', () => {}, /^values\[0\]: .*function/],
    ['JSON with a bigint', { amount: 1n }, /^values\[0\]: expected JSON/],
  ] as const)('is refused before anything is sent: %s', async ([, value, message]) => {
    await expect(read('$1::jsonb', [value])).rejects.toThrow(message)
    await expect(database.transactionAsRole(fixture.worker, (tx) => tx.query('SELECT $1', [value]))).rejects.toThrow(
      message,
    )
  })
})

async function createChanging(type: string): Promise<void> {
  await fixture.admin.query(`
    DROP FUNCTION IF EXISTS symphony.changing(int);
    CREATE FUNCTION symphony.changing(n int) RETURNS TABLE (n ${type}) LANGUAGE sql RETURN n`)
}

/** Calls the function four times at once, so that every connection of the pool is used. */
function askChanging(): Promise<unknown[]> {
  const text = 'SELECT * FROM symphony.changing($1)'
  const ask = async (n: number) => (await database.queryAsRole<{ n: unknown }>(fixture.worker, text, [n])).rows[0]?.n
  return Promise.all([1, 1, 1, 1].map(ask))
}

describe('prepared statements of libs/db', () => {
  test('are kept only for queries with parameters, at most 256 per connection', async () => {
    const direct = fixture.open({ connectionsMax: 1 })
    const texts = async () => {
      const { rows } = await direct.queryAsRole<{ statement: string }>(
        fixture.worker,
        'SELECT statement FROM pg_catalog.pg_prepared_statements ORDER BY 1',
      )
      return rows.map(({ statement }) => statement)
    }
    for (let n = 0; n < 3; n += 1) await direct.queryAsRole(fixture.worker, 'SELECT $1::int AS n', [n])
    await direct.transactionAsRole(fixture.worker, (tx) => tx.query('SELECT $1::text AS t', ['x']))
    expect(await texts()).toEqual(['SELECT $1::int AS n', 'SELECT $1::text AS t'])
    for (let n = 0; n < 300; n += 1) await direct.queryAsRole(fixture.worker, `SELECT $1::int AS n${n}`, [n])
    expect(await texts()).toHaveLength(256)
  })

  test('survive a changed result type on every connection', async () => {
    await createChanging('int')
    expect(await askChanging()).toEqual([1, 1, 1, 1])
    await createChanging('text')
    expect(await askChanging()).toEqual(['1', '1', '1', '1'])
    expect(await askChanging()).toEqual(['1', '1', '1', '1'])
  })

  test('fail only in the first transaction after a table change (retryable StaleStatementError)', async () => {
    await fixture.admin.query('CREATE TABLE symphony.widening (a int); GRANT SELECT ON symphony.widening TO PUBLIC')
    const direct = fixture.open({ connectionsMax: 2 })
    const ask = () =>
      direct.transactionAsRole(fixture.worker, (tx) => tx.query('SELECT * FROM symphony.widening WHERE a = $1', [1]))
    await Promise.all([ask(), ask()])
    await fixture.admin.query('ALTER TABLE symphony.widening ADD b int')
    const first = await ask().catch((error: unknown) => error)
    expect(first).toBeInstanceOf(StaleStatementError)
    expect(first).toMatchObject({ disposition: 'retry' })
    await Promise.all([ask(), ask(), ask()])
  })

  test('are prepared again after DEALLOCATE ALL', async () => {
    const direct = fixture.open({ connectionsMax: 1 })
    const ask = () => direct.queryAsRole(fixture.worker, 'SELECT $1::int AS n', [1])
    await ask()
    await direct.queryAsRole(fixture.worker, 'DEALLOCATE ALL')
    expect((await ask()).rows).toEqual([{ n: 1 }])
  })

  test('are not used without parameters, so that one text may hold several statements', async () => {
    const { rows } = await database.queryAsRole(fixture.worker, 'SELECT 1 AS first; SELECT 2 AS last')
    expect(rows).toEqual([{ last: 2 }])
    await expect(database.queryAsRole(fixture.worker, 'SELECT $1::int; SELECT 2', [1])).rejects.toMatchObject({
      sqlstate: '42601',
    })
  })
})
