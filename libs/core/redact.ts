import { CONTROL_CHARACTER } from './arguments.js'
import { ERROR_MESSAGE_LENGTH_MAX } from './limits.js'

/**
 * Redacts the text of a rail, a handler or an error for an append-only ledger. Replaces card numbers, account numbers,
 * phone numbers and credentials by their kind; bounds the rest and makes it storable. Every wrapper that stores error
 * text calls `redact`. If in doubt, `redact` removes too much, because nothing can be removed from the ledger.
 */
export function redact(text: string, lengthMax: number = ERROR_MESSAGE_LENGTH_MAX): string {
  // Cuts the text first, because patterns over megabytes are slow and only the beginning is kept anyway.
  const isCut = text.length > LENGTH_READ_MAX
  // Digits of other scripts and invisible characters hide a number from a pattern, but not from a reader.
  const plain = text
    .slice(0, LENGTH_READ_MAX)
    .normalize('NFKC')
    .replaceAll(/\p{Cf}/gu, '')
  const safe = RULES.reduce((rest, { pattern, replace }) => rest.replaceAll(pattern, replace), plain)
  return sanitizeErrorText(isCut ? safe.replace(CUT_END, '…') : safe, lengthMax)
}

const LENGTH_READ_MAX = 16_384

/**
 * End of a cut text. `redact` drops it, because part of a number may match no pattern. No grouped number has 64
 * characters.
 */
const CUT_END = /[\w .()+-]{0,64}$/

interface Rule {
  readonly pattern: RegExp
  readonly replace: (match: string, ...groups: string[]) => string
}

const UUID = String.raw`[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}`

/** Applied in this order: labelled secrets first, text that only looks like a number last. */
const RULES: readonly Rule[] = [
  {
    pattern: /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g,
    replace: () => '[private key]',
  },
  // Credentials in a URL: https://user:password@host
  { pattern: /([a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/?#@]+@/gi, replace: (_, scheme = '') => `${scheme}[credentials]@` },
  // The value of a header is the rest of the line: `Authorization: Digest username="…", response="…"`.
  {
    pattern: /((?:proxy-)?authorization|(?:set-)?cookie|x-api-key)(["']?\s*[:=]\s*)[^\r\n]+/gi,
    replace: (_, name = '', separator = '') => `${name}${separator}[secret]`,
  },
  // Labelled secrets: password=…, "client_secret": "…", apiKey: …
  {
    pattern:
      /([\w-]*(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|signature|cvv|cvc|pin))(["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[^\s,;&)}\]]+)/gi,
    replace: (_, name = '', separator = '') => `${name}${separator}[secret]`,
  },
  { pattern: /\b(bearer|basic|token)\s+[\w.~+/=-]{6,}/gi, replace: (_, scheme = '') => `${scheme} [secret]` },
  // Secret of a webhook, as Standard Webhooks writes it.
  { pattern: /\bwhsec_[\w+/=-]+/g, replace: () => '[secret]' },
  // JSON Web Token without a label.
  { pattern: /\beyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?/g, replace: () => '[token]' },
  // IBAN, grouped by spaces or in one piece. The check digits are not verified, because a mistyped number may be
  // another person's account. The pattern also matches UUIDs, so that `redactIban` can keep them.
  {
    pattern: new RegExp(`${UUID}|\\b[A-Z]{2}\\d{2}(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,4})?\\b`, 'gi'),
    replace: redactIban,
  },
  { pattern: /\+\d(?:[ ().-]{0,2}\d){6,14}/g, replace: () => '[phone]' },
  // Digits of cards and accounts, with separators. The pattern also matches UUIDs, so that `redactDigits` can keep
  // them.
  { pattern: new RegExp(`${UUID}|\\d(?:[\\s.–-]{0,2}\\d){8,}`, 'gi'), replace: redactDigits },
]

/**
 * Redacts an IBAN. Keeps a match with few digits, which is probably an error code: an IBAN consists mostly of digits.
 */
function redactIban(match: string): string {
  if (match.includes('-')) return match
  return match.replaceAll(/\D/g, '').length >= IBAN_DIGITS_MIN ? '[iban]' : match
}

/** Minimum number of digits in the IBAN format with the most letters, which is Malta's. */
const IBAN_DIGITS_MIN = 7

function redactDigits(match: string): string {
  if (WHOLE_UUID.test(match)) return match
  const digits = match.replaceAll(/\D/g, '')
  if (digits.length > DIGITS_SEARCHED_MAX) return '[digits]'
  if (holdsCardNumber(digits)) return '[card]'
  // Digits with separators may be a date, a time or an amount. Digits in one piece are an account, a phone or a
  // mistyped card number.
  return LONG_DIGIT_RUN.test(match) ? '[digits]' : match
}

const WHOLE_UUID = new RegExp(`^${UUID}$`, 'i')
const LONG_DIGIT_RUN = /\d{9,}/
/**
 * Maximum number of digits to search. More digits contain a card number by chance, and the search would take too long.
 */
const DIGITS_SEARCHED_MAX = 64

/** Searches at every position, because a pattern cannot tell where one of two adjacent numbers begins. */
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

/**
 * Shortens and repairs a text so that PostgreSQL can store it. Never throws, so that no error text blocks an outcome.
 */
export function sanitizeErrorText(text: string, lengthMax: number = ERROR_MESSAGE_LENGTH_MAX): string {
  if (text.trim() === '') return NO_TEXT
  const shortened = text.length > lengthMax ? `${text.slice(0, lengthMax - 1)}…` : text
  return shortened.replaceAll(CONTROL_CHARACTER, REPLACEMENT).replaceAll(/\p{Surrogate}/gu, REPLACEMENT)
}

const NO_TEXT = '(no text)'
const REPLACEMENT = '\uFFFD'
