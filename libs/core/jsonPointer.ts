import { InvalidArgumentError } from './AppError.js'
import type { JsonValue } from './JsonValue.js'

/** RFC 6901, `/data/0/id`, compiled once. Undefined where the document has nothing there. */
export type JsonPointer = (document: JsonValue | undefined) => JsonValue | undefined

export function compileJsonPointer(argument: string, pointer: unknown): JsonPointer {
  if (typeof pointer !== 'string' || !POINTER.test(pointer)) {
    throw new InvalidArgumentError(argument, 'expected a JSON pointer such as /data/id')
  }
  const keys = pointer
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'))
  return (document) => keys.reduce<JsonValue | undefined>(member, document)
}

/** Own members and elements only: neither `/constructor` nor the `length` of a list is data. */
function member(container: JsonValue | undefined, key: string): JsonValue | undefined {
  if (typeof container !== 'object' || container === null || !Object.hasOwn(container, key)) return undefined
  if (Array.isArray(container) && !INDEX.test(key)) return undefined
  const value: JsonValue | undefined = Reflect.get(container, key)
  return value
}

const INDEX = /^(?:0|[1-9]\d*)$/
const POINTER = /^(?:\/(?:[^~/]|~[01])*){1,32}$/
