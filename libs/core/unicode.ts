import { InvalidArgumentError, type ArgumentName } from './AppError.js'

/** PostgreSQL stores neither NUL nor half a surrogate pair; refused here, where the field can still be named. */
export function requireStorableText(path: ArgumentName, text: string): void {
  if (text.includes('\0')) throw new InvalidArgumentError(path, 'expected text without NUL (U+0000)')
  if (LONE_SURROGATE.test(text)) {
    throw new InvalidArgumentError(path, 'expected well-formed Unicode, got half of a surrogate pair')
  }
}

/**
 * Control characters other than tab and line ends: they can move a terminal's cursor or end a log line early, and the
 * ledger keeps what it is given for ever.
 */
export const CONTROL_CHARACTER = /(?![\t\n\r])\p{Cc}/gu

/** With the `u` flag a complete pair is one code point, so only halves match. */
const LONE_SURROGATE = /\p{Surrogate}/u
