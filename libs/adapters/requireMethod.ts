import { InvalidArgumentError } from '../core/index.js'

/** What was given must be able to query; found out before anything is sent, and said with the name of the argument. */
export function requireMethod(argument: string, value: unknown, method: string, expected: string): void {
  const found = value !== null && value !== undefined ? Reflect.get(Object(value), method) : undefined
  if (typeof found !== 'function') {
    throw new InvalidArgumentError(argument, `expected ${expected}, got something without ${method}()`)
  }
}
