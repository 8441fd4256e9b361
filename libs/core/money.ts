import { ArgumentRangeError, InvalidArgumentError } from './SymphonyError.js'
import { kindOf } from './arguments.js'

/** Exact amount: whole minor units (cents, yen, fils) of a currency. Never a JavaScript number, never a fraction. */
export interface Money {
  readonly amountMinor: bigint
  readonly currency: string
}

/** Maximum digits of an amount. PostgreSQL's bigint holds a sum of nine such amounts. */
export const AMOUNT_MINOR_DIGITS_MAX = 18

/**
 * Parses an amount of a payload: a decimal string such as `1234.5`, greater than zero, with at most the digits of the
 * currency. Refuses a sign, an exponent, grouping and leading zeros, so two spellings of one amount differ only in
 * zeros at the end of the fraction. Errors name the argument, never its value.
 */
export function parseMoney(amount: unknown, currency: unknown): Money {
  const digits = readAmount(amount)
  const minorUnits = typeof currency === 'string' ? minorUnitsOf(currency) : undefined
  if (typeof currency !== 'string' || minorUnits === undefined) {
    throw new InvalidArgumentError('currency', 'expected an ISO 4217 code in which amounts can be paid')
  }
  if (digits.fraction.length > minorUnits) {
    throw new ArgumentRangeError(
      'amount',
      minorUnits === 0
        ? 'expected a whole amount: this currency has no minor units'
        : `expected at most ${minorUnits} digits after the point, as this currency has`,
    )
  }
  const minor = digits.whole + digits.fraction.padEnd(minorUnits, '0')
  if (minor.replace(/^0+/, '').length > AMOUNT_MINOR_DIGITS_MAX) {
    throw new ArgumentRangeError('amount', `expected at most ${AMOUNT_MINOR_DIGITS_MAX} digits in minor units`)
  }
  const amountMinor = BigInt(minor)
  if (amountMinor === 0n) throw new ArgumentRangeError('amount', 'expected an amount greater than zero')
  return { amountMinor, currency }
}

/**
 * Formats an amount as `parseMoney` reads it, with all digits of the currency: `1234.50`. Also formats sums, which may
 * be zero or negative.
 */
export function formatMoney({ amountMinor, currency }: Money): string {
  const minorUnits = minorUnitsOf(currency)
  if (minorUnits === undefined) {
    throw new InvalidArgumentError('currency', 'expected an ISO 4217 code in which amounts can be paid')
  }
  const sign = amountMinor < 0n ? '-' : ''
  const digits = String(amountMinor < 0n ? -amountMinor : amountMinor).padStart(minorUnits + 1, '0')
  const point = digits.length - minorUnits
  return sign + digits.slice(0, point) + (minorUnits === 0 ? '' : `.${digits.slice(point)}`)
}

function readAmount(amount: unknown): { readonly whole: string; readonly fraction: string } {
  if (typeof amount !== 'string') {
    throw new InvalidArgumentError('amount', `expected a decimal string, got ${kindOf(amount)}`)
  }
  if (amount.length > AMOUNT_LENGTH_MAX) {
    throw new ArgumentRangeError('amount', `expected at most ${AMOUNT_LENGTH_MAX} characters`)
  }
  const parts = AMOUNT.exec(amount)
  if (parts === null) throw new InvalidArgumentError('amount', 'expected a decimal string such as 1234.50')
  const [, whole = '', fraction = ''] = parts
  return { whole, fraction }
}

/** Amount in ASCII digits. `\d` matches no other digits in JavaScript. */
const AMOUNT = /^(0|[1-9]\d*)(?:\.(\d+))?$/

/**
 * Maximum length of an amount, longer than every valid one, so that a fraction with too many digits gets a precise
 * error.
 */
const AMOUNT_LENGTH_MAX = 40

/**
 * Currency codes by their number of minor units: ISO 4217, list one, as published on 2026-01-01 (BGN was removed, XCG
 * replaces ANG, ZWG replaces ZWL, XAD is new). Intl is no substitute: it gives customary digits, which differ from ISO
 * for codes such as HUF and IQD.
 *
 * The list has the funds codes (BOV, CHE, CHW, CLF, COU, MXV, USN, UYI, UYW, XAD), because amounts are settled in them.
 * It omits codes without minor units: metals (XAU …), units of account (XDR, XSU, XUA, XBA to XBD), testing (XTS) and
 * none (XXX). No exact amount can be paid in them.
 */
const CODES_BY_MINOR_UNITS: readonly (readonly [minorUnits: number, codes: string])[] = [
  [0, 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF'],
  [
    2,
    `AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF CHW CNY
     COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS
     INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR
     MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP
     STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG`,
  ],
  [3, 'BHD IQD JOD KWD LYD OMR TND'],
  [4, 'CLF UYW'],
]

const MINOR_UNITS: ReadonlyMap<string, number> = new Map(
  CODES_BY_MINOR_UNITS.flatMap(([minorUnits, codes]) => codes.split(/\s+/).map((code) => [code, minorUnits] as const)),
)

/** Returns the maximum number of digits after the point, or undefined for a code in which no amount can be paid. */
export function minorUnitsOf(currency: string): number | undefined {
  return MINOR_UNITS.get(currency)
}

export function currencyCodes(): string[] {
  return [...MINOR_UNITS.keys()]
}
