import type { DestinationKind } from './types.js'

/**
 * Whether a value is a destination of that kind, in the spelling that is sent to a rail: no spaces, no lower case. The
 * tables of countries are loaded by the first payment that needs them: who only enqueues should not wait for them.
 */
export const isDestination: Readonly<Record<DestinationKind, (text: string) => Promise<boolean>>> = {
  iban: async (text) => (await import('ibantools')).isValidIBAN(text),
  phone: isPhoneNumber,
  account: async (text) => ACCOUNT.test(text),
}

/** For a rail that does not say what it pays to: what presents itself as a phone number or an IBAN must be one. */
export function kindOfDestination(text: string): DestinationKind {
  if (text.startsWith('+')) return 'phone'
  return IBAN_SHAPE.test(text) ? 'iban' : 'account'
}

/**
 * E.164 with a country code that exists and a length that its plan allows. Not whether the number is assigned: plans
 * change every week, and a payment must not fail for the age of a table.
 */
async function isPhoneNumber(text: string): Promise<boolean> {
  if (!E164.test(text)) return false
  const { parsePhoneNumberFromString } = await import('libphonenumber-js')
  return parsePhoneNumberFromString(text)?.isPossible() === true
}

const E164 = /^\+[1-9]\d{1,14}$/

/** Two letters, two check digits, then what every country has at least: eleven more. Spaced and lower-case ones too. */
const IBAN_SHAPE = /^[A-Z]{2}\d{2}[ ]?(?:[A-Z0-9][ ]?){10,29}[A-Z0-9]$/i

/**
 * Account numbers, wallet and merchant ids: ASCII letters and digits, with single separators inside. 64 characters,
 * because the 34 of ISO 20022 would refuse a UUID, which is what wallets use.
 */
const ACCOUNT = /^(?=.{1,64}$)[A-Za-z0-9]+(?:[-_.:/@][A-Za-z0-9]+)*$/
