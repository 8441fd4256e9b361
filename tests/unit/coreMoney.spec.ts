import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  AMOUNT_MINOR_DIGITS_MAX,
  ArgumentRangeError,
  currencyCodes,
  formatMoney,
  InvalidArgumentError,
  minorUnitsOf,
  parseMoney,
} from '../../libs/core/index.js'

describe('currencies of ISO 4217', () => {
  it('are 165 unique codes of three capital letters', () => {
    expect(currencyCodes()).toHaveLength(165)
    expect(new Set(currencyCodes()).size).toBe(165)
    for (const code of currencyCodes()) expect(code).toMatch(/^[A-Z]{3}$/)
  })

  it.each([
    ['JPY', 0],
    ['KRW', 0],
    ['CLP', 0],
    ['ISK', 0],
    ['UYI', 0],
    ['XOF', 0],
    ['EUR', 2],
    ['USD', 2],
    ['MGA', 2],
    ['MRU', 2],
    ['SLE', 2],
    ['VES', 2],
    ['XCG', 2],
    ['XAD', 2],
    ['ZWG', 2],
    ['CHE', 2],
    ['BHD', 3],
    ['IQD', 3],
    ['KWD', 3],
    ['TND', 3],
    ['CLF', 4],
    ['UYW', 4],
  ])('include %s with %i decimal places', (code, minorUnits) => {
    expect(minorUnitsOf(code)).toBe(minorUnits)
  })

  it.each([
    'XXX',
    'XTS',
    'XAU',
    'XAG',
    'XDR',
    'XBA',
    'BGN',
    'HRK',
    'ANG',
    'ZWL',
    'SLL',
    'CUC',
    'DEM',
    'ABC',
    'eur',
    'EU',
    'EURO',
    '',
  ])('exclude "%s" (minorUnitsOf returns undefined)', (code) => {
    expect(minorUnitsOf(code)).toBeUndefined()
  })
})

describe('parseMoney', () => {
  it.each([
    ['1', 'EUR', 100n],
    ['1.5', 'EUR', 150n],
    ['1.50', 'EUR', 150n],
    ['0.01', 'EUR', 1n],
    ['1234567.89', 'USD', 123456789n],
    ['1', 'JPY', 1n],
    ['0.001', 'KWD', 1n],
    ['0.0001', 'CLF', 1n],
    ['9007199254740993', 'JPY', 9007199254740993n],
    ['999999999999999999', 'JPY', 999999999999999999n],
    ['9999999999999999.99', 'EUR', 999999999999999999n],
  ])('parses the amount %s %s into %s minor units', (amount, currency, amountMinor) => {
    expect(parseMoney(amount, currency)).toEqual({ amountMinor, currency })
  })

  it.each([
    ['1000000000000000000', 'JPY', ArgumentRangeError],
    ['10000000000000000.00', 'EUR', ArgumentRangeError],
    ['0', 'EUR', ArgumentRangeError],
    ['0.00', 'EUR', ArgumentRangeError],
    ['1.234', 'EUR', ArgumentRangeError],
    ['1.0', 'JPY', ArgumentRangeError],
    ['0.00001', 'CLF', ArgumentRangeError],
    ['1'.repeat(41), 'JPY', ArgumentRangeError],
    ['-1', 'EUR', InvalidArgumentError],
    ['1e3', 'EUR', InvalidArgumentError],
    ['01', 'EUR', InvalidArgumentError],
    [1, 'EUR', InvalidArgumentError],
    [10n, 'EUR', InvalidArgumentError],
  ])('refuses the amount %s %s', (amount, currency, kind) => {
    expect(() => parseMoney(amount, currency)).toThrow(kind)
    expect(() => parseMoney(amount, currency)).toThrow(/^amount: /)
  })

  it('names the argument in an error, never its value', () => {
    expect(() => parseMoney('4111111111111111111111', 'EUR')).toThrow(/^(?!.*4111)/)
    expect(() => parseMoney('1', 'ABC')).toThrow(/^currency: (?!.*ABC)/)
  })

  it('limits amounts so that the sum of nine amounts fits into a PostgreSQL bigint', () => {
    expect(10n ** BigInt(AMOUNT_MINOR_DIGITS_MAX) * 9n).toBeLessThan(2n ** 63n)
  })

  it('parses the text of formatMoney to the same amount, for any amount and currency', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: 1n, max: 10n ** 18n - 1n }),
        fc.constantFrom(...currencyCodes()),
        (amountMinor, currency) => {
          const text = formatMoney({ amountMinor, currency })
          expect(parseMoney(text, currency)).toEqual({ amountMinor, currency })
        },
      ),
    )
  })
})

describe('formatMoney', () => {
  it.each([
    [1n, 'EUR', '0.01'],
    [100n, 'EUR', '1.00'],
    [-5n, 'EUR', '-0.05'],
    [0n, 'EUR', '0.00'],
    [7n, 'JPY', '7'],
    [1n, 'UYW', '0.0001'],
  ])('writes %s minor units of %s as %s', (amountMinor, currency, text) => {
    expect(formatMoney({ amountMinor, currency })).toBe(text)
  })

  it('refuses an unknown currency', () => {
    expect(() => formatMoney({ amountMinor: 1n, currency: 'ABC' })).toThrow(InvalidArgumentError)
  })
})
