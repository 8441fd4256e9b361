import type { DestinationKind } from './types.js'

/**
 * Whether a value is a destination of that kind, in the spelling that is sent to a rail: no spaces, no lower case. The
 * tables of countries are loaded by the first payment that needs them: who only enqueues should not wait for them. Kept here
 * then, because an import costs more than the check each time it is said.
 */
export const isDestination: Readonly<Record<DestinationKind, (text: string) => boolean | Promise<boolean>>> = {
  iban: (text) => isIban?.(text) ?? loadIbans().then((check) => check(text)),
  phone: (text) => E164.test(text) && (isPossible?.(text) ?? loadPhones().then((check) => check(text))),
  account: (text) => ACCOUNT.test(text),
}

type Check = (text: string) => boolean
let isIban: Check | undefined
let isPossible: Check | undefined

async function loadIbans(): Promise<Check> {
  const { isValidIBAN } = await import('ibantools')
  return (isIban = (text) => isValidIBAN(text))
}

/**
 * E.164 with a country code that exists and a length that its plan allows. Not whether the number is assigned: plans
 * change every week, and a payment must not fail for the age of a table.
 */
async function loadPhones(): Promise<Check> {
  const { parsePhoneNumberFromString } = await import('libphonenumber-js')
  return (isPossible = (text) => parsePhoneNumberFromString(text)?.isPossible() === true)
}

/** For a rail that does not say what it pays to: what presents itself as a phone number or an IBAN must be one. */
export function kindOfDestination(text: string): DestinationKind {
  if (text.startsWith('+')) return 'phone'
  return IBAN_SHAPE.test(text) ? 'iban' : 'account'
}

const E164 = /^\+[1-9]\d{1,14}$/

/** Two letters, two check digits, then what every country has at least: eleven more. Spaced and lower-case ones too. */
const IBAN_SHAPE = /^[A-Z]{2}\d{2}[ ]?(?:[A-Z0-9][ ]?){10,29}[A-Z0-9]$/i

/**
 * Account numbers, wallet and merchant ids: ASCII letters and digits, with single separators inside. 64 characters,
 * because the 34 of ISO 20022 would refuse a UUID, which is what wallets use.
 */
const ACCOUNT = /^(?=.{1,64}$)[A-Za-z0-9]+(?:[-_.:/@][A-Za-z0-9]+)*$/
