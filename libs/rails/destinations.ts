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
  const { isValidBBAN } = await import('ibantools')
  return (isIban = (text) => hasIbanCheckDigits(text) && isValidBBAN(text.slice(4), text.slice(0, 2)))
}

/**
 * ISO 7064 mod 97-10 over the account and the country, as ISO 13616 wants it: letters count as two digits, and the check digits
 * are 98 less the rest, so that of three pairs with the same rest only one is right. Computed here, character by character: a
 * library that builds a number of sixty digits as text took longer than everything else that is checked of a payment.
 */
function hasIbanCheckDigits(text: string): boolean {
  let rest = 0
  for (let at = 4; at < text.length + 2; at += 1) {
    const code = text.charCodeAt(at < text.length ? at : at - text.length)
    if (code >= ZERO && code <= NINE) rest = (rest * 10 + code - ZERO) % 97
    else if (code >= LETTER_A && code <= LETTER_Z) rest = (rest * 100 + code - LETTER_A + 10) % 97
    else return false
  }
  const tens = text.charCodeAt(2) - ZERO
  const ones = text.charCodeAt(3) - ZERO
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 && tens * 10 + ones === 98 - ((rest * 100) % 97)
}

const ZERO = 48
const NINE = 57
const LETTER_A = 65
const LETTER_Z = 90

/**
 * E.164 with a country code that exists and a length that its plan allows. Not whether the number is assigned: plans
 * change every week, and a payment must not fail for the age of a table.
 */
async function loadPhones(): Promise<Check> {
  const { parsePhoneNumberFromString } = await import('libphonenumber-js')
  return (isPossible = (text) => parsePhoneNumberFromString(text)?.isPossible() === true)
}

/** For a rail that does not say what it pays to: what presents itself as a phone number or an IBAN must be one. */
export function detectDestinationKind(text: string): DestinationKind {
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
