import { InvalidPayloadError, type JsonObject, type JsonValue } from '../../core/index.js'
import { mapFields, rulesOf, type FieldRule } from './fieldRules.js'

/** Refuses a payload with a card number in a field of class `forbidden`, at any depth, including keys. */
export function refuseCardNumbers(payload: JsonObject, rules: readonly FieldRule[], argument = 'payload'): void {
  mapFields(payload, rulesOf(rules, 'forbidden'), (value, { rule }) => {
    // The error names the rule's pointer, not the exact path, because a key in the path may itself be data.
    if (!textsIn(value).some(holdsCardNumber)) return value
    throw new InvalidPayloadError(`${argument}${rule.pointer}`, 'holds a card number, which this rail forbids there', {
      code: 'CARD_NUMBER_REFUSED',
      // The check runs before any query, because a card number must not leave this process. So it does not know
      // whether the payment already exists.
      remedy:
        'Leave it out, or send a token of it. If this payment was enqueued before, it stands: do not send it under another key.',
    })
  })
}

/**
 * Returns whether a text holds a card number: 13 to 19 digits that pass the Luhn check, in one piece or in groups. All
 * combinations of adjacent groups are tried, because a number may stand beside another (`4111 1111 1111 1111 12/29`).
 * Digits in one piece are tried only as a whole. Trying their parts would refuse most ids of that length instead of one
 * in ten. A run of more than 19 digits is searched at every position unless it is an IBAN, because it probably hides a
 * number.
 */
export function holdsCardNumber(text: string): boolean {
  // Normalizes digits of other scripts and removes invisible characters, which would hide a number from the pattern.
  const plain = text
    .normalize('NFKC')
    .replaceAll(/\p{Cf}/gu, '')
    .replaceAll(IBAN, (word) => (isIban(word) ? '' : word))
  for (const [run] of plain.matchAll(DIGITS)) {
    const groups = run.split(SEPARATORS)
    if (groups.some((group) => group.length > CARD_LENGTH.max && holdsInRun(group))) return true
    if (holdsInGroups(groups)) return true
  }
  return false
}

function holdsInGroups(groups: readonly string[]): boolean {
  for (let first = 0; first < groups.length; first += 1) {
    let digits = ''
    for (let last = first; last < groups.length; last += 1) {
      digits += groups[last]
      if (digits.length > CARD_LENGTH.max) break
      if (digits.length >= CARD_LENGTH.min && passesLuhn(digits, 0, digits.length)) return true
    }
  }
  return false
}

function holdsInRun(digits: string): boolean {
  // In a run this long, some part passes the Luhn check by chance. Skips the search, which would take too long.
  if (digits.length > DIGITS_SEARCHED_MAX) return true
  for (let start = 0; start + CARD_LENGTH.min <= digits.length; start += 1) {
    for (let length = CARD_LENGTH.min; length <= CARD_LENGTH.max && start + length <= digits.length; length += 1) {
      if (passesLuhn(digits, start, start + length)) return true
    }
  }
  return false
}

function passesLuhn(digits: string, start: number, end: number): boolean {
  let sum = 0
  for (let at = end - 1, doubled = false; at >= start; at -= 1, doubled = !doubled) {
    const digit = digits.charCodeAt(at) - ZERO
    const weighted = doubled ? digit * 2 : digit
    sum += weighted > 9 ? weighted - 9 : weighted
  }
  return sum % 10 === 0
}

/** Checks the IBAN's own check digits (ISO 13616). A card number after two letters passes them in one of 97 cases. */
function isIban(word: string): boolean {
  const compact = word.replaceAll(' ', '')
  const moved = `${compact.slice(4)}${compact.slice(0, 4)}`
  const digits = moved.replaceAll(/[A-Z]/g, (letter) => String(Number.parseInt(letter, 36)))
  return BigInt(digits) % 97n === 1n
}

/** Returns every text and number in a value, including keys. */
function textsIn(value: JsonValue): string[] {
  if (typeof value === 'string' || typeof value === 'number') return [String(value)]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, one]) => textsIn(one).concat(key))
}

const CARD_LENGTH = { min: 13, max: 19 }
const ZERO = 48
const DIGITS_SEARCHED_MAX = 256
/** IBAN in one piece, or in groups of four. */
const IBAN = /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b/g
/** Digits with at most two separators between neighbouring digits. */
const DIGITS = /\d(?:[\s.\p{Pd}_/]{0,2}\d)+/gu
const SEPARATORS = /[^\d]+/u
