/**
 * ISO 4217, list one, as published on 2026-01-01 (BGN is gone, XCG has replaced ANG, ZWG has replaced ZWL, XAD is new):
 * every code that has minor units, by how many. Intl is no substitute: it speaks of what is customary to show, and
 * differs from ISO for 29 codes.
 *
 * Funds codes (BOV, CHE, CHW, CLF, COU, MXV, USN, UYI, UYW, XAD) are here, because amounts are written and settled in
 * them. Codes without minor units are not: metals (XAU …), units of account (XDR, XSU, XUA, XBA to XBD), testing (XTS)
 * and none (XXX). Nothing can be paid in them to an exact amount.
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

/** How many digits an amount may have after the point; undefined for a code in which nothing can be paid. */
export function minorUnitsOf(currency: string): number | undefined {
  return MINOR_UNITS.get(currency)
}

export function currencyCodes(): string[] {
  return [...MINOR_UNITS.keys()]
}
