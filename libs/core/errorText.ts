import { ERROR_MESSAGE_LENGTH_MAX } from './limits.js'
import { CONTROL_CHARACTER } from './unicode.js'

/**
 * Makes any text storable: what a rail or a thrown value says must never be the reason why an outcome could not be
 * recorded. Shortened and repaired, never refused: what is blank says so. It removes nothing secret; that is the rail adapter's duty.
 */
export function storableErrorText(text: string, lengthMax: number = ERROR_MESSAGE_LENGTH_MAX): string {
  if (text.trim() === '') return NO_TEXT
  const shortened = text.length > lengthMax ? `${text.slice(0, lengthMax - 1)}…` : text
  return shortened.replaceAll(CONTROL_CHARACTER, REPLACEMENT).replaceAll(/\p{Surrogate}/gu, REPLACEMENT)
}

const NO_TEXT = '(no text)'
const REPLACEMENT = '\uFFFD'
