import { ERROR_MESSAGE_LENGTH_MAX } from './limits.js'
import { CONTROL_CHARACTER } from './unicode.js'

/**
 * Makes any text storable: shortened and repaired, never refused, so that an error text never keeps an outcome from being
 * recorded. Removes no secret: `redact` does, and is the only caller.
 */
export function storableErrorText(text: string, lengthMax: number = ERROR_MESSAGE_LENGTH_MAX): string {
  if (text.trim() === '') return NO_TEXT
  const shortened = text.length > lengthMax ? `${text.slice(0, lengthMax - 1)}…` : text
  return shortened.replaceAll(CONTROL_CHARACTER, REPLACEMENT).replaceAll(/\p{Surrogate}/gu, REPLACEMENT)
}

const NO_TEXT = '(no text)'
const REPLACEMENT = '\uFFFD'
