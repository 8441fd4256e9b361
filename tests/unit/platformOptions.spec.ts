import { describe, expect, test } from 'vitest'
import { PlatformDiscovery, StaticDiscovery } from '../../libs/platform/discovery.js'
import { PlatformOptionsError, resolvePlatformOptions } from '../../libs/platform/options.js'

const eu = { name: 'eu', url: 'postgres://worker:secret@db.example/eu' }
const us = { name: 'us', url: 'postgres://worker:secret@db.example/us' }

function failuresOf(options: object, registered?: PlatformDiscovery): string[] {
  try {
    resolvePlatformOptions(options, registered)
  } catch (error) {
    if (!(error instanceof PlatformOptionsError)) throw error
    if (error.message.includes('secret')) throw new Error('the message repeats a connection', { cause: error })
    return error.failures.map(({ option }) => option)
  }
  return []
}

/** Returns options with this option set, and other options that allow its whole range. */
function given(option: string, value: unknown): object {
  const [group, name] = option.split('.')
  const others = { databases: [eu], connectionsMax: 10_000, connectionsPerDatabase: 1 }
  return name === undefined ? { ...others, [group!]: value } : { ...others, [group!]: { [name]: value } }
}

describe('PRIM-POSTGRES-API-002 platform options', () => {
  test.for([
    ['an empty list of databases', [], ['databases']],
    ['databases that are not a list', { eu }, ['databases']],
    ['a name used twice, in any case', [eu, { ...us, name: 'EU' }], ['databases[1].name']],
    ['a blank name', [{ ...eu, name: ' ' }], ['databases[0].name']],
    ['a blank connection', [{ ...eu, url: '' }], ['databases[0].url']],
    ['a connection of another protocol', [{ ...eu, url: 'mysql://worker@db.example/eu' }], ['databases[0].url']],
    ['a connection without a database', [{ ...eu, url: 'postgres://worker@db.example' }], ['databases[0].url']],
    ['a blank schema', [{ ...eu, schema: ' ' }], ['databases[0].schema']],
    ['an entry that is null', [null, eu], ['databases[0]']],
    ['an entry with an unknown field', [{ ...eu, shema: 'x' }], ['databases[0].shema']],
    ['one database and schema twice', [eu, { ...eu, name: 'eu2' }], ['databases[1]']],
    [
      'one database and schema twice in different notation',
      [eu, { name: 'eu2', url: 'postgresql://other:pw@DB.example:5432/eu', schema: 'symphony' }],
      ['databases[1]'],
    ],
    [
      'one embedded server twice by two paths',
      [
        { name: 'dev', url: 'embedded:.symphony' },
        { name: 'dev2', url: 'embedded:./data/../.symphony' },
      ],
      ['databases[1]'],
    ],
    [
      'several faults, all reported at once',
      [{ name: '', url: '', schema: '' }, eu, { ...eu, name: 'Eu' }],
      ['databases[0].name', 'databases[0].schema', 'databases[0].url', 'databases[2].name', 'databases[2]'],
    ],
  ] as const)('refuse %s', ([, databases, expected]) => {
    expect(failuresOf({ databases })).toEqual(expected)
  })

  test('accept one database with two schemas, and one schema in two databases', () => {
    expect(failuresOf({ databases: [eu, us, { ...eu, name: 'eu-test', schema: 'test' }] })).toEqual([])
  })

  test.for([
    ['no discovery', {}, undefined],
    ['a list and a discovery', { databases: [eu], discovery: new StaticDiscovery([eu]) }, undefined],
    ['a list and a registered discovery', { databases: [eu] }, new StaticDiscovery([eu])],
    ['a discovery and a registered discovery', { discovery: new StaticDiscovery([us]) }, new StaticDiscovery([eu])],
    ['an object that is no discovery', { discovery: { databases: () => [] } }, undefined],
  ] as const)('refuse %s, because exactly one discovery is required', ([, options, registered]) => {
    expect(failuresOf(options, registered)).toEqual(['discovery'])
  })

  test('accept exactly one of databases, a discovery and a registered discovery', () => {
    expect(failuresOf({ databases: [eu] })).toEqual([])
    expect(failuresOf({ discovery: new StaticDiscovery([eu]) })).toEqual([])
    expect(failuresOf({}, new StaticDiscovery([eu]))).toEqual([])
  })
})

describe('PRIM-POSTGRES-API-003 platform options', () => {
  const bounds = [
    ['refreshMs', 100, 3_600_000],
    ['leaseSeconds', 1, 3_600],
    ['pollMs', 10, 60_000],
    ['cleanupIntervalMs', 1_000, 86_400_000],
    ['sealIntervalMs', 100, 3_600_000],
    ['connectionsMax', 1, 10_000],
    ['connectionsPerDatabase', 1, 100],
    ['retention.inboxDays', 1, 3_650],
    ['retention.jobRunsDays', 1, 3_650],
    ['retention.timersDays', 1, 3_650],
    ['retention.leasesDays', 1, 3_650],
    ['retention.searchDays', 1, 3_650],
  ] as const

  test.for(bounds)('accept %s from %d to %d only', ([option, min, max]) => {
    expect(failuresOf(given(option, min))).toEqual([])
    expect(failuresOf(given(option, max))).toEqual([])
    for (const wrong of [min - 1, max + 1, min + 0.5, Number.NaN, String(min), null]) {
      expect(failuresOf(given(option, wrong))).toContain(option)
    }
  })

  test('refuse an invalid schema, selection, connectionsPerDatabase and retention', () => {
    expect(failuresOf({ databases: [eu], schema: ' ' })).toContain('schema')
    expect(failuresOf({ databases: [eu], selection: 'random' })).toEqual(['selection'])
    expect(failuresOf({ databases: [eu], connectionsMax: 3, connectionsPerDatabase: 4 })).toEqual([
      'connectionsPerDatabase',
    ])
    expect(failuresOf({ databases: [eu], connectionsMax: 4, connectionsPerDatabase: 4 })).toEqual([])
    expect(failuresOf({ databases: [eu], retention: 30 })).toEqual(['retention'])
  })

  test('refuse unknown options', () => {
    expect(failuresOf({ databases: [eu], polMs: 5, retention: { inbox: 3 } })).toEqual(['polMs', 'retention.inbox'])
  })

  test('are all named in one error if they are invalid; the error shows no connection string', () => {
    expect(
      failuresOf({
        databases: [{ ...eu, name: '' }],
        pollMs: 0,
        leaseSeconds: -1,
        retention: { inboxDays: 0 },
        what: 1,
      }),
    ).toEqual(['what', 'leaseSeconds', 'pollMs', 'retention.inboxDays', 'databases[0].name'])
  })

  test('have a default if they are missing or undefined', () => {
    const { discovery, ...defaults } = resolvePlatformOptions({ databases: [eu] }, undefined)
    expect(discovery).toBeInstanceOf(PlatformDiscovery)
    expect(defaults).toEqual({
      refreshMs: 30_000,
      schema: 'symphony',
      leaseSeconds: 60,
      pollMs: 500,
      cleanupIntervalMs: 3_600_000,
      sealIntervalMs: 1_000,
      retention: { inboxDays: 30, jobRunsDays: 30, timersDays: 30, leasesDays: 30, searchDays: 400 },
      connectionsMax: 50,
      connectionsPerDatabase: 5,
      selection: 'round-robin',
    })
    const undefinedOnes = { databases: [eu], pollMs: undefined, retention: { inboxDays: undefined } }
    expect(Reflect.apply(resolvePlatformOptions, undefined, [undefinedOnes, undefined])).toMatchObject(defaults)
  })
})
