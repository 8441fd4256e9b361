import * as fc from 'fast-check'
import { isValidIBAN } from 'ibantools'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../libs/core/index.js'
import {
  validatePayload,
  type DestinationValidator,
  type StandardResult,
  type StandardSchema,
} from '../../libs/rails/index.js'
import { answering, PAYABLE } from '../support/railRequest.js'

const rail = (given: object = {}) => answering(undefined, given)

async function codeOf(payload: JsonObject, given: object = {}): Promise<string> {
  const check = await validatePayload(rail(given), payload)
  return check.ok ? 'ok' : check.code
}

describe('amounts in a payload', () => {
  it.each([
    ['1', 'EUR', 'ok'],
    ['1.0', 'EUR', 'ok'],
    ['1.00', 'EUR', 'ok'],
    ['1.000', 'EUR', 'INVALID_AMOUNT'],
    ['0.01', 'EUR', 'ok'],
    ['0.001', 'EUR', 'INVALID_AMOUNT'],
    ['0.00', 'EUR', 'INVALID_AMOUNT'],
    ['0', 'EUR', 'INVALID_AMOUNT'],
    ['1', 'JPY', 'ok'],
    ['1.0', 'JPY', 'INVALID_AMOUNT'],
    ['100', 'KRW', 'ok'],
    ['100.5', 'KRW', 'INVALID_AMOUNT'],
    ['1.234', 'BHD', 'ok'],
    ['1.2345', 'BHD', 'INVALID_AMOUNT'],
    ['0.001', 'KWD', 'ok'],
    ['0.0001', 'KWD', 'INVALID_AMOUNT'],
    ['1.2345', 'CLF', 'ok'],
    ['1.23456', 'CLF', 'INVALID_AMOUNT'],
    ['0.0001', 'UYW', 'ok'],
    ['9999999999999999.99', 'EUR', 'ok'],
    ['10000000000000000.00', 'EUR', 'INVALID_AMOUNT'],
    ['999999999999999999', 'JPY', 'ok'],
    ['1000000000000000000', 'JPY', 'INVALID_AMOUNT'],
  ])('are checked: %s %s gives %s', async (amount, currency, code) => {
    expect(await codeOf({ ...PAYABLE, amount, currency })).toBe(code)
  })

  it.each([
    ['negative', '-1.00'],
    ['negative zero', '-0'],
    ['with a plus', '+1.00'],
    ['with an exponent', '1e3'],
    ['with a small exponent', '1E-2'],
    ['with a leading zero', '01.00'],
    ['without a whole part', '.50'],
    ['without a fraction after its point', '1.'],
    ['with a comma', '1,00'],
    ['grouped', '1,000.00'],
    ['grouped by underscores', '1_000'],
    ['with a space', ' 1.00'],
    ['with a line feed behind', '1.00\n'],
    ['with two points', '1.0.0'],
    ['hexadecimal', '0x10'],
    ['in Arabic digits', '١٠'],
    ['in full-width digits', '１０'],
    ['infinite', 'Infinity'],
    ['not a number', 'NaN'],
    ['empty', ''],
    ['with its currency', '10.00 EUR'],
    ['a number', 10],
    ['a fraction as a number', 10.5],
    ['true', true],
    ['null', null],
    ['a list', ['10.00']],
    ['an object', { value: '10.00' }],
  ])('are refused if %s', async (_, amount) => {
    expect(await codeOf({ ...PAYABLE, amount })).toBe('INVALID_AMOUNT')
  })

  it('are refused if missing', async () => {
    const { amount: _, ...payload } = PAYABLE
    expect(await codeOf(payload)).toBe('INVALID_AMOUNT')
  })
})

describe('currencies in a payload', () => {
  it.each(['EUR', 'USD', 'GBP', 'CHF', 'XCG', 'ZWG', 'SLE', 'VED', 'XAF'])('may be %s', async (currency) => {
    expect(await codeOf({ ...PAYABLE, amount: '10', currency })).toBe('ok')
  })

  it.each([
    ['does not exist', 'ABC'],
    ['means no currency', 'XXX'],
    ['is for testing', 'XTS'],
    ['is a metal', 'XAU'],
    ['is a unit of account', 'XDR'],
    ['ended in 2026', 'BGN'],
    ['ended in 2025', 'ANG'],
    ['ended in 2023', 'HRK'],
    ['is in lower case', 'eur'],
    ['is short', 'EU'],
    ['is long', 'EURO'],
    ['is spaced', 'EUR '],
    ['is a symbol', '€'],
    ['is its numeric code', '978'],
    ['is a number', 978],
    ['is null', null],
    ['is a property of every object', 'constructor'],
  ])('are refused if the code %s', async (_, currency) => {
    expect(await codeOf({ ...PAYABLE, currency })).toBe('INVALID_CURRENCY')
  })

  it('are refused if missing', async () => {
    const { currency: _, ...payload } = PAYABLE
    expect(await codeOf(payload)).toBe('INVALID_CURRENCY')
  })
})

describe('IBANs in a payload', () => {
  it.each([
    'DE89370400440532013000',
    'GB29NWBK60161331926819',
    'FR1420041010050500013M02606',
    'NO9386011117947',
    'MT84MALT011000012345MTLCAST001S',
    'NL91ABNA0417164300',
    'CH9300762011623852957',
    'BR1800360305000010009795493C1',
    'SA0380000000608010167519',
    'AE070331234567890123456',
  ])('are accepted: %s', async (destination) => {
    expect(await codeOf({ ...PAYABLE, destination }, { destination: 'iban' })).toBe('ok')
  })

  it.each([
    ['with a wrong check digit', 'DE88370400440532013000'],
    ['with two digits exchanged', 'DE89370400440532010300'],
    ['of another country with the same digits', 'FR89370400440532013000'],
    ['one digit short', 'DE8937040044053201300'],
    ['one digit long', 'DE893704004405320130000'],
    ['of a country that has none', 'US64SVBKUS6S3300958879'],
    ['of no country', 'ZZ89370400440532013000'],
    ['in lower case', 'de89370400440532013000'],
    ['with spaces', 'DE89 3704 0044 0532 0130 00'],
    ['with a letter where a digit belongs', 'GB29NWBK6016133192681A'],
    ['that is an account number', '0532013000'],
    ['that is empty', ''],
    ['that is a number', 89370400440532],
    ['that is null', null],
    ['that is an object', { iban: 'DE89370400440532013000' }],
  ])('are refused: an IBAN %s', async (_, destination) => {
    expect(await codeOf({ ...PAYABLE, destination }, { destination: 'iban' })).toBe('INVALID_DESTINATION')
  })

  const KNOWN = [
    'DE89370400440532013000',
    'GB29NWBK60161331926819',
    'MT84MALT011000012345MTLCAST001S',
    'NO9386011117947',
    'EG380019000500000000263180002',
  ]
  it.each(KNOWN)('have exactly one valid pair of check digits: %s', async (iban) => {
    const pairs = Array.from({ length: 100 }, (_, n) => String(n).padStart(2, '0'))
    const right = await Promise.all(
      pairs.map((pair) =>
        codeOf({ ...PAYABLE, destination: `${iban.slice(0, 2)}${pair}${iban.slice(4)}` }, { destination: 'iban' }),
      ),
    )
    expect(pairs.filter((_, n) => right[n] === 'ok')).toEqual([iban.slice(2, 4)])
  })

  it('are valid exactly if ibantools accepts them, with or without one changed character', async () => {
    const character = fc.constantFrom(...'0123456789ABCXYZ axÄ-'.split(''))
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...KNOWN), fc.nat(33), character, async (iban, place, put) => {
        const destination = `${iban.slice(0, place)}${put}${iban.slice(place + 1)}`
        expect(await codeOf({ ...PAYABLE, destination }, { destination: 'iban' })).toBe(
          isValidIBAN(destination) ? 'ok' : 'INVALID_DESTINATION',
        )
      }),
      { numRuns: 2_000 },
    )
  })
})

describe('phone numbers in a payload', () => {
  it.each(['+4915123456789', '+14155550123', '+447911123456', '+254712345678', '+639171234567', '+2348031234567'])(
    'are accepted: %s',
    async (destination) => {
      expect(await codeOf({ ...PAYABLE, destination }, { destination: 'phone' })).toBe('ok')
    },
  )

  it.each([
    ['without its plus', '4915123456789'],
    ['with two zeros instead', '004915123456789'],
    ['with spaces', '+49 151 23456789'],
    ['with dashes', '+1-415-555-0123'],
    ['that is too short for its country', '+1415555'],
    ['that is too long for its country', '+141555501234'],
    ['longer than E.164 allows', '+1234567890123456'],
    ['of no country', '+999123456789'],
    ['that begins with zero', '+0151234567'],
    ['with letters', '+1800FLOWERS'],
    ['that is only a plus', '+'],
    ['with an extension', '+14155550123;ext=5'],
  ])('are refused: one %s', async (_, destination) => {
    expect(await codeOf({ ...PAYABLE, destination }, { destination: 'phone' })).toBe('INVALID_DESTINATION')
  })
})

describe('accounts in a payload', () => {
  it.each([
    '0532013000',
    'acct_1NG8Du2eZvKYlo2C',
    'wallet:alice',
    'alice@bank',
    'a',
    'A-1.b_2:c/3@d',
    '018f6b1e-7c9a-7b3e-9f00-0123456789ab',
    'x'.repeat(64),
  ])('are accepted: %s', async (destination) => {
    expect(await codeOf({ ...PAYABLE, destination }, { destination: 'account' })).toBe('ok')
  })

  it.each([
    ['of 65 characters', 'x'.repeat(65)],
    ['with a space', 'a b'],
    ['with a separator in front', '-a'],
    ['with a separator behind', 'a-'],
    ['with two separators together', 'a--b'],
    ['with another character', 'a#b'],
    ['with letters of other scripts', 'аlice'],
    ['with a line feed behind', 'alice\n'],
    ['with a quote', "a'b"],
  ])('are refused: one %s', async (_, destination) => {
    expect(await codeOf({ ...PAYABLE, destination }, { destination: 'account' })).toBe('INVALID_DESTINATION')
  })
})

describe('destinations of a rail without a destination kind', () => {
  it.each([
    ['an IBAN', 'DE89370400440532013000', 'ok'],
    ['an IBAN with wrong check digits', 'DE88370400440532013000', 'INVALID_DESTINATION'],
    ['an IBAN in lower case', 'de89370400440532013000', 'INVALID_DESTINATION'],
    ['an IBAN with spaces', 'DE89 3704 0044 0532 0130 00', 'INVALID_DESTINATION'],
    ['a phone number', '+4915123456789', 'ok'],
    ['an incomplete phone number', '+49', 'INVALID_DESTINATION'],
    ['an account', 'wallet-7', 'ok'],
    ['an account with a space', 'wallet 7', 'INVALID_DESTINATION'],
    ['nothing', '', 'INVALID_DESTINATION'],
    ['a number', 7, 'INVALID_DESTINATION'],
  ])('are checked: %s (%s) gives %s', async (_, destination, code) => {
    expect(await codeOf({ ...PAYABLE, destination })).toBe(code)
  })

  it('are refused if missing', async () => {
    const { destination: _, ...payload } = PAYABLE
    expect(await codeOf(payload)).toBe('INVALID_DESTINATION')
  })
})

describe('a destination that the rail checks itself', () => {
  it.each<[string, DestinationValidator, string]>([
    ['accepted', () => true, 'ok'],
    ['refused', () => false, 'INVALID_DESTINATION'],
    ['accepted by a promise', async () => true, 'ok'],
    ['refused by a promise', async () => false, 'INVALID_DESTINATION'],
  ])('is %s, as the rail’s own check decides', async (_, destination, code) => {
    expect(await codeOf(PAYABLE, { destination })).toBe(code)
  })

  it('may have any type', async () => {
    const payload = { ...PAYABLE, destination: { sort: '20-00-00', account: '55779911' } }
    expect(await codeOf(payload, { destination: (value: unknown) => typeof value === 'object' })).toBe('ok')
  })

  it.each([
    [
      'throws',
      () => {
        throw new TypeError('DE89370400440532013000')
      },
    ],
    ['answers nothing', () => undefined],
    ['answers with text', () => 'yes'],
  ])('is refused as retryable (PAYLOAD_CHECK_FAILED) if the check %s', async (_, destination) => {
    const check = await validatePayload(rail({ destination }), PAYABLE)
    expect(check).toMatchObject({ ok: false, code: 'PAYLOAD_CHECK_FAILED', retryable: true })
    expect(JSON.stringify(check)).not.toContain('DE89')
  })
})

/** Returns a Standard Schema with this validate function. */
function schema(validate: (value: unknown) => StandardResult | Promise<StandardResult>): StandardSchema<JsonObject> {
  return { '~standard': { version: 1, vendor: 'test', validate } }
}

describe('the schema of the rail', () => {
  it.each([
    ['accepts', schema((value) => ({ value })), 'ok'],
    ['accepts, by a promise,', schema(async (value) => ({ value })), 'ok'],
    ['refuses', schema(() => ({ issues: [{ message: 'no' }] })), 'INVALID_PAYLOAD'],
    ['refuses, by a promise,', schema(async () => ({ issues: [{ message: 'no' }] })), 'INVALID_PAYLOAD'],
  ])('%s the payload', async (_, payload, code) => {
    expect(await codeOf(PAYABLE, { payload })).toBe(code)
  })

  it('is checked after amount, currency and destination', async () => {
    const payload = schema(() => ({ issues: [{ message: 'no' }] }))
    expect(await codeOf({ ...PAYABLE, amount: '-1' }, { payload })).toBe('INVALID_AMOUNT')
  })

  it('reports the paths of its issues, never messages or values', async () => {
    const issues = [
      { message: 'Expected number, received "4111111111111111"', path: ['meta', { key: 'items' }, 0, 'pan'] },
      { message: 'again', path: ['meta', '4111111111111111'] },
    ]
    const meta = { items: [{ pan: '4111111111111111' }], '4111111111111111': 1 }
    const check = await validatePayload(rail({ payload: schema(() => ({ issues })) }), { ...PAYABLE, meta })
    expect(check).toEqual({
      ok: false,
      code: 'INVALID_PAYLOAD',
      message: 'refused by the schema at payload.meta.items[0].pan, payload.meta[key 2]',
      retryable: false,
    })
  })

  it('reports five paths and the number of further paths', async () => {
    const issues = Array.from({ length: 7 }, (_, index) => ({ message: 'no', path: ['list', index] }))
    const check = await validatePayload(rail({ payload: schema(() => ({ issues })) }), { ...PAYABLE, list: [] })
    expect(check).toMatchObject({ message: expect.stringMatching(/payload\.list\[4\] and 2 more$/) })
  })

  it('does not change the payload', async () => {
    const payload = { ...PAYABLE }
    await validatePayload(rail({ payload: schema(() => ({ value: { changed: true } })) }), payload)
    expect(payload).toEqual(PAYABLE)
  })

  it.each([
    [
      'throws',
      schema(() => {
        throw new RangeError('secret 4111111111111111')
      }),
      /threw RangeError$/,
    ],
    ['rejects', schema(() => Promise.reject(new Error('secret'))), /threw Error$/],
    ['hangs', schema(() => new Promise(() => {})), /did not end within 50 ms$/],
    ['answers nothing', schema(() => JSON.parse('[]')[0]), /threw TypeError$/],
  ])('refuses a payload as retryable (PAYLOAD_CHECK_FAILED) if the schema %s', async (_, payload, message) => {
    expect(await validatePayload(rail({ payload, timeoutMs: 50 }), PAYABLE)).toEqual({
      ok: false,
      code: 'PAYLOAD_CHECK_FAILED',
      message: expect.stringMatching(message),
      retryable: true,
    })
  })
})

describe('a rail with money: false', () => {
  it('checks neither amount nor currency nor destination', async () => {
    expect(await codeOf({ event: 'customer.created' }, { money: false })).toBe('ok')
  })

  it('still checks its schema', async () => {
    const payload = schema(() => ({ issues: [{ message: 'no' }] }))
    expect(await codeOf({ event: 'customer.created' }, { money: false, payload })).toBe('INVALID_PAYLOAD')
  })
})

it.each(['[]', 'null', '"amount"'])('validatePayload refuses a payload that is %s (INVALID_PAYLOAD)', async (text) => {
  expect(await codeOf(JSON.parse(text))).toBe('INVALID_PAYLOAD')
})

it.each([
  [{ ...PAYABLE, amount: '4111111111111111.555' }],
  [{ ...PAYABLE, currency: '4111111111111111' }],
  [{ ...PAYABLE, destination: '4111 1111 1111 1111' }],
])('validatePayload shows no value of the payload: %j', async (payload) => {
  expect(JSON.stringify(await validatePayload(rail(), payload))).not.toContain('4111')
})
