import { ArgumentRangeError, InvalidArgumentError, type ArgumentName } from './AppError.js'
import { NUMBER_LITERAL_LENGTH_MAX, NUMBER_MAGNITUDE, NUMBER_SCALE_MAX } from './limits.js'

/**
 * Numbers on their way into jsonb. PostgreSQL keeps them as `numeric`, exactly and expanded: a short literal with a
 * large exponent becomes kilobytes there. So digits are counted here as `numeric` will count them.
 */

/** The text that jsonb will print for this number. */
export function printJsonNumber(path: ArgumentName, value: number): string {
  if (!Number.isFinite(value)) throw new ArgumentRangeError(path, 'expected a finite number, got NaN or an infinity')
  if (Object.is(value, -0)) throw new ArgumentRangeError(path, 'expected a number, got negative zero')
  const literal = String(value)
  const decimal = readDecimal(literal)
  requireBounds(path, decimal)
  return literal.includes('e') ? expand(decimal) : literal
}

/** The number that a JSON literal stands for, or an error if JavaScript could only hold a different one. */
export function readJsonNumber(path: string, literal: string): number {
  if (literal.length > NUMBER_LITERAL_LENGTH_MAX) {
    throw new ArgumentRangeError(path, `expected a number of at most ${NUMBER_LITERAL_LENGTH_MAX} characters`)
  }
  const decimal = readDecimal(literal)
  requireBounds(path, decimal)
  const value = Number(literal)
  if (Object.is(value, -0)) throw new ArgumentRangeError(path, 'expected a number, got negative zero')
  if (!sameValue(decimal, readDecimal(String(value)))) {
    throw new ArgumentRangeError(path, 'this number would lose digits; send it as a decimal string')
  }
  return value
}

/** value = ±digits × 10^exponent, with no zeros at either end of `digits`; zero has no digits at all. */
interface Decimal {
  readonly negative: boolean
  readonly digits: string
  readonly exponent: number
  /** As written, trailing zeros included: what `scale(numeric)` returns. */
  readonly scale: number
  readonly writtenExponent: number
}

function readDecimal(literal: string): Decimal {
  const parts = DECIMAL.exec(literal)
  if (parts === null) throw new InvalidArgumentError('literal', 'expected a JSON number')
  const [, sign, whole = '', fraction = '', exponentText = '0'] = parts
  const writtenExponent = Number(exponentText)
  const significant = (whole + fraction).replace(/^0+/, '')
  const digits = significant.replace(/0+$/, '')
  return {
    negative: sign === '-',
    digits,
    exponent: digits === '' ? 0 : writtenExponent - fraction.length + (significant.length - digits.length),
    scale: Math.max(0, fraction.length - writtenExponent),
    writtenExponent,
  }
}

const DECIMAL = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

function requireBounds(path: ArgumentName, decimal: Decimal): void {
  if (decimal.digits.length + decimal.exponent > NUMBER_MAGNITUDE || decimal.writtenExponent > NUMBER_MAGNITUDE) {
    throw new ArgumentRangeError(path, `expected a number smaller than 10^${NUMBER_MAGNITUDE}`)
  }
  if (decimal.scale > NUMBER_SCALE_MAX) {
    throw new ArgumentRangeError(path, `expected at most ${NUMBER_SCALE_MAX} digits after the decimal point`)
  }
}

function sameValue(left: Decimal, right: Decimal): boolean {
  return left.negative === right.negative && left.digits === right.digits && left.exponent === right.exponent
}

/** Within bounds JavaScript writes an exponent only for small fractions (`1e-7`), so the point is always in front. */
function expand({ negative, digits, scale }: Decimal): string {
  return `${negative ? '-' : ''}0.${digits.padStart(scale, '0')}`
}
