import { ArgumentRangeError, InvalidArgumentError, type ArgumentName } from './AppError.js'
import { CONTROL_CHARACTER, requireStorableText } from './unicode.js'

/**
 * Text a person or a rail wrote: not blank, storable, free of control characters, at most `lengthMax` characters.
 * Counted in UTF-16 units, which are never fewer than the characters PostgreSQL counts, so what passes here passes there.
 */
export function requiredText(argument: ArgumentName, value: unknown, lengthMax: number): string {
  if (typeof value !== 'string') {
    throw new InvalidArgumentError(argument, `expected text, got ${value === null ? 'null' : typeof value}`)
  }
  // Nearly every text: printable ASCII that begins with something.
  if (value.length <= lengthMax && PLAIN.test(value)) return value
  if (value.length > lengthMax) throw new ArgumentRangeError(argument, `expected at most ${lengthMax} characters`)
  if (value.trim() === '') throw new InvalidArgumentError(argument, 'expected text that is not blank')
  requireStorableText(argument, value)
  if (value.search(CONTROL_CHARACTER) !== -1) {
    throw new InvalidArgumentError(argument, 'expected text without control characters')
  }
  return value
}

const PLAIN = /^[!-~][ -~]*$/
