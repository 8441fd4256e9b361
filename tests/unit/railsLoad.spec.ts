import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest'
import { ArgumentRangeError, InvalidArgumentError } from '../../libs/core/index.js'
import {
  callRail,
  defineRail,
  inquireRail,
  loadRail,
  loadRails,
  type LoadOptions,
  type Rail,
  type StandardSchema,
} from '../../libs/rails/index.js'
import { builtPath } from '../support/builtPath.js'
import { railRequest } from '../support/railRequest.js'

const RAIL: Rail = { type: 'sepa', onUnknown: 'hold', dispatch: () => ({ outcome: 'success', reference: 'r' }) }

const STANDARD: StandardSchema<never>['~standard'] = {
  version: 1,
  vendor: 'test',
  validate: (value) => ({ value }),
}

function load(given: object, options?: LoadOptions) {
  return loadRail({ ...RAIL, ...given }, options)
}

describe('loadRails', () => {
  it('fills in the defaults of a declaration', () => {
    expect(load({})).toMatchObject({
      type: 'sepa',
      onUnknown: 'hold',
      queryStatus: undefined,
      payload: undefined,
      money: true,
      destination: undefined,
      timeoutMs: 30_000,
      settleMs: 30_000,
      concurrency: undefined,
      ratePerSecond: undefined,
      codes: undefined,
      listPayments: undefined,
      accountOf: undefined,
      settlementDays: undefined,
    })
  })

  it('gives a rail without timeoutMs the process timeout; settleMs defaults to the timeout', () => {
    expect(load({}, { timeoutMs: 5_000 })).toMatchObject({ timeoutMs: 5_000, settleMs: 5_000 })
    expect(load({ timeoutMs: 7_000 }, { timeoutMs: 5_000 })).toMatchObject({ timeoutMs: 7_000, settleMs: 7_000 })
  })

  it('returns the rails in the order of the file', () => {
    expect([
      ...loadRails([
        { ...RAIL, type: 'b' },
        { ...RAIL, type: 'a' },
      ]).keys(),
    ]).toEqual(['b', 'a'])
  })

  it('calls each function of an adapter with the declared object as this', async () => {
    class Adapter {
      readonly type = 'sepa'
      readonly onUnknown = 'inquire'
      // Readable only if `this` is an Adapter.
      readonly #reference = 'mine'
      dispatch() {
        return { outcome: 'success', reference: this.#reference }
      }
      queryStatus() {
        return { outcome: 'success', reference: this.#reference }
      }
      async *listPayments() {
        yield { reference: this.#reference }
      }
      accountOf() {
        return this.#reference
      }
    }
    const loaded = loadRail(new Adapter())
    expect(await callRail(loaded, railRequest())).toMatchObject({ kind: 'success', reference: 'mine' })
    expect(await inquireRail(loaded, railRequest())).toMatchObject({ kind: 'success', reference: 'mine' })
    const period = { from: new Date(0), to: new Date() }
    const listed = loaded.listPayments?.(period, { signal: new AbortController().signal })
    expect(await listed?.[Symbol.asyncIterator]().next()).toMatchObject({ value: { reference: 'mine' } })
    expect(loaded.accountOf?.({})).toBe('mine')
  })

  it('returns rails whose close() calls the declared close(), or does nothing if there is none', async () => {
    let closed = 0
    await load({ close: () => void (closed += 1) }).close()
    await load({}).close()
    expect(closed).toBe(1)
  })

  it.each([
    ['a schema that is a function', { payload: Object.assign(() => {}, { '~standard': STANDARD }) }],
    ['the shortest timeout', { timeoutMs: 1 }],
    ['the longest timeout', { timeoutMs: 3_597_000 }],
    ['a settling time equal to the timeout', { timeoutMs: 100, settleMs: 100 }],
    ['a settling time of a week', { settleMs: 604_800_000 }],
    ['one call at a time', { concurrency: 1 }],
    ['one call in a thousand seconds', { rate: { perSecond: 0.001 } }],
    ['a hundred thousand calls a second', { rate: { perSecond: 100_000 } }],
    ['a table of codes', { codes: { A: 'success', B: 'terminal', C: 'retryable', D: 'unknown', E: 'absent' } }],
    ['a destination kind', { destination: 'iban' }],
    ['a destination check', { destination: () => true }],
    ['no money', { money: false }],
    ['a settlement on the same day', { settlementDays: 0 }],
    ['a settlement after 60 days', { settlementDays: 60 }],
    ['a field that is undefined', { codes: undefined, queryStatus: undefined }],
  ])('accepts %s', (_, given) => {
    expect(() => load(given)).not.toThrow()
  })

  it.each([
    ['no dispatch', { dispatch: undefined }, 'dispatch: expected a function, got nothing'],
    ['a dispatch that is not a function', { dispatch: 'POST' }, 'dispatch: expected a function, got string'],
    ['no policy', { onUnknown: undefined }, 'onUnknown: expected "resend", "inquire", "hold", got nothing'],
    ['an unknown policy', { onUnknown: 'retry' }, 'onUnknown: expected "resend", "inquire", "hold", got string'],
    ['a misspelt policy', { onUnknown: 'inqiure' }, 'did you mean "inquire"?'],
    ['inquire without queryStatus', { onUnknown: 'inquire' }, 'queryStatus: expected a function, because onUnknown is'],
    ['a queryStatus that is not a function', { queryStatus: true }, 'queryStatus: expected a function, got boolean'],
    ['a close that is not a function', { close: {} }, 'close: expected a function, got object'],
    ['an unknown field near a known one', { timeoutMS: 5 }, '"timeoutMS": unknown; did you mean timeoutMs?'],
    [
      'another unknown field near a known one',
      { quaryStatus: () => {} },
      '"quaryStatus": unknown; did you mean queryStatus?',
    ],
    ['an unknown field near none', { retries: 3 }, '"retries": unknown; expected one of type, onUnknown, dispatch,'],
    ['a timeout of zero', { timeoutMs: 0 }, 'timeoutMs: expected a whole number from 1 to 3597000, got 0'],
    ['a timeout past the longest lease', { timeoutMs: 3_597_001 }, 'timeoutMs: expected a whole number'],
    ['a timeout as text', { timeoutMs: '30s' }, 'timeoutMs: expected a whole number from 1 to 3597000, got string'],
    ['a timeout with a fraction', { timeoutMs: 1.5 }, 'timeoutMs: expected a whole number'],
    ['a timeout that is NaN', { timeoutMs: Number.NaN }, 'timeoutMs: expected a whole number'],
    ['settling before the timeout', { timeoutMs: 100, settleMs: 99 }, 'settleMs: expected a whole number from 100 to'],
    ['settling for more than a week', { settleMs: 604_800_001 }, 'settleMs: expected a whole number'],
    ['no call at a time', { concurrency: 0 }, 'concurrency: expected a whole number from 1 to 10000, got 0'],
    ['too many calls at a time', { concurrency: 10_001 }, 'concurrency: expected a whole number'],
    ['a rate that is a number', { rate: 5 }, 'rate: expected an object with perSecond, got number'],
    ['a rate of zero', { rate: { perSecond: 0 } }, 'rate.perSecond: expected a number from 0.001 to 100000, got 0'],
    ['a rate that is NaN', { rate: { perSecond: Number.NaN } }, 'rate.perSecond: expected a number'],
    [
      'a rate as text',
      { rate: { perSecond: '5' } },
      'rate.perSecond: expected a number from 0.001 to 100000, got string',
    ],
    ['a rate beyond its bound', { rate: { perSecond: 100_001 } }, 'rate.perSecond: expected a number'],
    ['a rate by the minute', { rate: { perMinute: 5 } }, 'rate."perMinute": unknown; expected perSecond only'],
    ['codes in a list', { codes: ['A'] }, 'codes: expected an object from code to outcome, got an array'],
    ['no code at all', { codes: {} }, 'codes: expected 1 to 10000 codes, got 0'],
    ['a code with an unknown outcome', { codes: { A: 'ok' } }, 'codes.A: expected "success", "terminal"'],
    ['a code that is blank', { codes: { ' ': 'success' } }, 'codes, a code: expected text that is not blank'],
    ['a code that is too long', { codes: { ['A'.repeat(129)]: 'success' } }, 'codes, a code: expected at most 128'],
    [
      'a payload that is not a schema',
      { payload: { parse: () => {} } },
      'payload: expected a schema that implements Standard',
    ],
    ['a schema of version 2', { payload: { '~standard': { ...STANDARD, version: 2 } } }, 'payload: expected a schema'],
    ['money as text', { money: 'no' }, 'money: expected true or false, got string'],
    [
      'an unknown destination kind',
      { destination: 'swift' },
      'destination: expected "iban", "phone", "account" or a function',
    ],
    ['a misspelt destination kind', { destination: 'acount' }, 'did you mean "account"?'],
    ['a list of payments that is no function', { listPayments: [] }, 'listPayments: expected a function, got an array'],
    ['an account that is no function', { accountOf: 'DE89' }, 'accountOf: expected a function, got string'],
    ['a settlement before the payment', { settlementDays: -1 }, 'settlementDays: expected a whole number from 0 to 60'],
    ['a settlement after 61 days', { settlementDays: 61 }, 'settlementDays: expected a whole number from 0 to 60'],
  ])('refuses %s, naming rail and field', (_, given, message) => {
    expect(() => load(given)).toThrow(message)
    expect(() => load(given)).toThrow('rail "sepa", ')
  })

  it.each([
    ['no list', { default: [] }, 'rails: expected an array of rails, got object'],
    ['nothing', undefined, 'rails: expected an array of rails, got nothing'],
    ['an empty list', [], 'rails: expected 1 to 1000 rails, got 0'],
    ['a list with null', [RAIL, null], 'rails[1]: expected a rail, got null'],
    ['a list in the list', [[RAIL]], 'rails[0]: expected a rail, got an array'],
    ['a rail without a type', [{ ...RAIL, type: undefined }], 'rails[0].type: expected text, got undefined'],
    ['a type with a space', [{ ...RAIL, type: 'se pa' }], 'rails[0].type: expected printable ASCII'],
    ['two of a type', [RAIL, { ...RAIL }], 'rails[1].type: the rail "sepa" is declared twice'],
  ])('refuses %s', (_, rails, message) => {
    expect(() => loadRails(rails)).toThrow(message)
  })

  it('throws ArgumentRangeError for a value out of range, InvalidArgumentError for a wrong type', () => {
    expect(() => load({ timeoutMs: 0 })).toThrow(ArgumentRangeError)
    expect(() => load({ timeoutMs: 'x' })).toThrow(InvalidArgumentError)
    expect(() => loadRails([RAIL], { timeoutMs: 0 })).toThrow(ArgumentRangeError)
  })
})

describe('defineRail', () => {
  it('adds types and returns the same object', () => {
    const payload: StandardSchema<{ amount: string; note?: string }> = { '~standard': STANDARD }
    const rail = defineRail({
      type: 'typed',
      onUnknown: 'hold',
      payload,
      dispatch: (request) => {
        expectTypeOf(request.payload).toEqualTypeOf<{ amount: string; note?: string }>()
        return { outcome: 'success', reference: request.payload.amount }
      },
    })
    expect(defineRail(rail)).toBe(rail)
  })
})

describe('the type of a rail', () => {
  it('refuses onUnknown "inquire" without queryStatus', () => {
    // @ts-expect-error: inquire needs queryStatus
    const withoutInquiry: Rail = { ...RAIL, onUnknown: 'inquire' }
    // @ts-expect-error: inquire needs queryStatus
    const defined = defineRail({ ...RAIL, onUnknown: 'inquire' })
    for (const rail of [withoutInquiry, defined])
      expect(() => loadRails([rail])).toThrow('queryStatus: expected a function')
  })

  it('accepts other policies without queryStatus, and "inquire" with it', () => {
    const rails: Rail[] = [
      { ...RAIL, type: 'a', onUnknown: 'hold' },
      { ...RAIL, type: 'b', onUnknown: 'resend' },
      { ...RAIL, type: 'c', onUnknown: 'inquire', queryStatus: () => ({ outcome: 'absent' }) },
    ]
    expect([...loadRails(rails).keys()]).toEqual(['a', 'b', 'c'])
  })
})

describe('a rails file', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'symphony-rails-'))
  })
  afterAll(() => rm(folder, { recursive: true }))

  const BODY = `[{ type: 'sepa', onUnknown: 'hold', dispatch: () => ({ outcome: 'success', reference: 'r' }) }]`
  /** Loads the file in another process, because the test runner transforms imports and Node.js does not. */
  const loadFile = async (name: string, text: string): Promise<unknown> => {
    await writeFile(join(folder, name), text)
    const program = `const { readRailsFile } = await import(process.argv[1])
      const said = await readRailsFile(process.argv[2], { timeoutMs: 1000 }).then(
        (rails) => rails.map(({ type }) => type), ({ code, remedy }) => ({ code, remedy }))
      console.log(JSON.stringify(said))`
    const words = [
      '--input-type=module',
      '--eval',
      program,
      builtPath('libs/cli/processes/rails.js'),
      join(folder, name),
    ]
    return JSON.parse((await promisify(execFile)(process.execPath, words)).stdout)
  }

  it.each([
    ['an ES module', 'rails.mjs', `export default ${BODY}`],
    ['CommonJS', 'rails.cjs', `module.exports = ${BODY}`],
    [
      'an ES module compiled to CommonJS',
      'compiled.cjs',
      `Object.defineProperty(exports, '__esModule', { value: true }); exports.default = ${BODY}`,
    ],
  ])('is loaded if it is %s', async (_, name, text) => {
    expect(await loadFile(name, text)).toEqual(['sepa'])
  })

  it('is refused with a hint to run tsc if it is TypeScript that Node.js cannot read', async () => {
    expect(await loadFile('rails.ts', `enum Policy { Hold }\nexport default ${BODY}`)).toEqual({
      code: 'RAILS_UNREADABLE',
      remedy: expect.stringContaining('npx tsc rails.ts --module nodenext --target es2022'),
    })
  })
})
