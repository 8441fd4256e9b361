import { ArgumentRangeError, InvalidArgumentError, type ArgumentName } from './AppError.js'

export interface Bounds {
  readonly min: number
  readonly max: number
}

/** A count, a size, a duration: a whole number within its bounds, or an error that names the argument. */
export function boundedInteger(argument: ArgumentName, value: unknown, { min, max }: Bounds): number {
  if (typeof value !== 'number') {
    throw new InvalidArgumentError(argument, `expected a whole number from ${min} to ${max}, got ${kindOf(value)}`)
  }
  // Object.is: -0 passes every comparison with 0, and then prints and divides differently.
  if (!Number.isInteger(value) || Object.is(value, -0) || value < min || value > max) {
    const got = Object.is(value, -0) ? '-0' : String(value)
    throw new ArgumentRangeError(argument, `expected a whole number from ${min} to ${max}, got ${got}`)
  }
  return value
}

function kindOf(value: unknown): string {
  return value === null ? 'null' : typeof value
}
