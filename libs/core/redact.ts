import { CONTROL_CHARACTER } from './arguments.js'
import { ERROR_MESSAGE_LENGTH_MAX } from './limits.js'

/**
 * Makes the text of a rail, a handler or an error fit for a ledger that cannot be edited: replaces card numbers, account
 * numbers, phone numbers and credentials by their kind; the rest is bounded and storable. Every wrapper that stores error
 * text calls it. It errs towards removing too much: a kept number can never be removed.
 */
export function redact(text: string, lengthMax: number = ERROR_MESSAGE_LENGTH_MAX): string {
  // Bounded first: no pattern below is worth running over megabytes, and only its beginning would be kept anyway.
  const isCut = text.length > LENGTH_READ_MAX
  // Digits in other scripts and invisible characters between digits hide a number from a pattern, not from a reader.
  const plain = text
    .slice(0, LENGTH_READ_MAX)
    .normalize('NFKC')
    .replaceAll(/\p{Cf}/gu, '')
  const safe = RULES.reduce((rest, { pattern, replace }) => rest.replaceAll(pattern, replace), plain)
  return sanitizeErrorText(isCut ? safe.replace(CUT_END, '…') : safe, lengthMax)
}

const LENGTH_READ_MAX = 16_384

/** Half a number escapes every pattern; this is longer than any number, however it is grouped. */
const CUT_END = /[\w .()+-]{0,64}$/

interface Rule {
  readonly pattern: RegExp
  readonly replace: (match: string, ...groups: string[]) => string
}

/** In this order: what says that it is a secret comes first, what merely looks like a number last. */
const RULES: readonly Rule[] = [
  {
    pattern: /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g,
    replace: () => '[private key]',
  },
  // https://user:password@host
  { pattern: /([a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/?#@]+@/gi, replace: (_, scheme = '') => `${scheme}[credentials]@` },
  // A header's value is all of the line: `Authorization: Digest username="…", response="…"`.
  {
    pattern: /((?:proxy-)?authorization|(?:set-)?cookie|x-api-key)(["']?\s*[:=]\s*)[^\r\n]+/gi,
    replace: (_, name = '', separator = '') => `${name}${separator}[secret]`,
  },
  // password=…, "client_secret": "…", apiKey: …
  {
    pattern:
      /([\w-]*(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|signature|cvv|cvc|pin))(["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[^\s,;&)}\]]+)/gi,
    replace: (_, name = '', separator = '') => `${name}${separator}[secret]`,
  },
  { pattern: /\b(bearer|basic|token)\s+[\w.~+/=-]{6,}/gi, replace: (_, scheme = '') => `${scheme} [secret]` },
  // A JSON Web Token that stands alone.
  { pattern: /\beyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?/g, replace: () => '[token]' },
  // Grouped by spaces as printed, or in one piece. By shape: a mistyped account is still somebody's.
  { pattern: /\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,4})?\b/gi, replace: redactIban },
  { pattern: /\+\d(?:[ ().-]{0,2}\d){6,14}/g, replace: () => '[phone]' },
  // Digits as cards and accounts are written, with separators. Ids of our own (UUIDs) are matched to be kept.
  {
    pattern: /[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}|\d(?:[\s.–-]{0,2}\d){8,}/gi,
    replace: redactDigits,
  },
]

/** A word of capitals with a few digits in it is a code of some kind; an account number has digits all through. */
function redactIban(match: string): string {
  return match.replaceAll(/\D/g, '').length >= IBAN_DIGITS_MIN ? '[iban]' : match
}

/** What the format with the most letters in use, Malta's, has at least. */
const IBAN_DIGITS_MIN = 7

function redactDigits(match: string): string {
  if (match.includes('-') && UUID.test(match)) return match
  const digits = match.replaceAll(/\D/g, '')
  if (digits.length > DIGITS_SEARCHED_MAX) return '[digits]'
  if (holdsCardNumber(digits)) return '[card]'
  // With separators it may be a date, a time or an amount; in one piece it is an account, a phone or a card mistyped.
  return LONG_DIGIT_RUN.test(match) ? '[digits]' : match
}

const UUID = /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/i
const LONG_DIGIT_RUN = /\d{9,}/
/** Among more of them a card number is found by chance, and searching costs time. */
const DIGITS_SEARCHED_MAX = 64

/** Somewhere in these digits, because a pattern cannot tell where a number begins that stands next to another. */
function holdsCardNumber(digits: string): boolean {
  for (let start = 0; start + CARD_LENGTH.min <= digits.length; start += 1) {
    for (let length = CARD_LENGTH.min; length <= CARD_LENGTH.max && start + length <= digits.length; length += 1) {
      if (passesLuhn(digits.slice(start, start + length))) return true
    }
  }
  return false
}

const CARD_LENGTH = { min: 13, max: 19 }

function passesLuhn(digits: string): boolean {
  let sum = 0
  for (let position = 0; position < digits.length; position += 1) {
    const digit = Number(digits[digits.length - 1 - position])
    const weighted = position % 2 === 0 ? digit : digit * 2
    sum += weighted > 9 ? weighted - 9 : weighted
  }
  return sum % 10 === 0
}

/** Shortens and repairs a text so that PostgreSQL can store it. Never throws, so that no error text blocks an outcome. */
export function sanitizeErrorText(text: string, lengthMax: number = ERROR_MESSAGE_LENGTH_MAX): string {
  if (text.trim() === '') return NO_TEXT
  const shortened = text.length > lengthMax ? `${text.slice(0, lengthMax - 1)}…` : text
  return shortened.replaceAll(CONTROL_CHARACTER, REPLACEMENT).replaceAll(/\p{Surrogate}/gu, REPLACEMENT)
}

const NO_TEXT = '(no text)'
const REPLACEMENT = '\uFFFD'
