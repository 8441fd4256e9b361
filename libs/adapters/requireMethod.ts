import { InvalidArgumentError } from '../core/index.js'

/** Throws unless the value has the method. */
export function requireMethod(argument: string, value: unknown, method: string, expected: string): void {
  if (typeof property(value, method) !== 'function') {
    throw new InvalidArgumentError(argument, `expected ${expected}, got a value without ${method}()`)
  }
}

/** Throws unless the library marks the value as a transaction. */
export function requireMark(argument: string, isMarked: boolean, expected: string, got: string): void {
  if (isMarked) return
  throw new InvalidArgumentError(
    argument,
    `expected ${expected}, got ${got}, whose statements commit on their own; open a transaction and pass that`,
  )
}

export function property(value: unknown, name: string): unknown {
  return value === null || value === undefined ? undefined : Reflect.get(Object(value), name)
}
