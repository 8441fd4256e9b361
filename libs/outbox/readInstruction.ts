import {
  InvalidArgumentError,
  requiredId,
  requiredIdempotencyKey,
  type JsonObject,
  type JsonValue,
} from '../core/index.js'
import type { OutboxInstruction } from './types.js'

export interface ReadInstructionOptions {
  /** What errors put before the name of a field: `line 7, `. @default nothing */
  readonly place?: string
  /** A key that came beside the JSON, in a header. Then the JSON itself must have none. */
  readonly idempotencyKey?: string
}

/**
 * An instruction as JSON carries it, in the body of a request or in a line of a file. A field that is not known is refused: a
 * misspelt `notBefore` would otherwise pay at once. Without a key of its own, the instruction's id is its key.
 */
export function readInstruction(value: JsonValue, options: ReadInstructionOptions = {}): OutboxInstruction {
  const { place = '', idempotencyKey } = options
  const at = (field: string) => `${place}${field}`
  if (!isObject(value)) throw new InvalidArgumentError(at('instruction'), 'expected an object')
  const known = idempotencyKey === undefined ? [...FIELDS, 'idempotencyKey'] : FIELDS
  const stranger = Object.keys(value).find((field) => !known.includes(field))
  if (stranger !== undefined) {
    throw new InvalidArgumentError(at(stranger), `unknown field; expected ${known.join(', ')}`)
  }
  const { payload, notBefore, ordered } = value
  if (!isObject(payload)) throw new InvalidArgumentError(at('payload'), 'expected an object')
  const instructionId = requiredId(at('instructionId'), value['instructionId'])
  return {
    instructionId,
    participantId: requiredId(at('participantId'), value['participantId']),
    idempotencyKey: requiredIdempotencyKey(
      at('idempotencyKey'),
      idempotencyKey ?? value['idempotencyKey'] ?? instructionId,
    ),
    railType: requiredId(at('railType'), value['railType']),
    payload,
    ...(notBefore === undefined ? {} : { notBefore: readTime(at('notBefore'), notBefore) }),
    ...(ordered === undefined ? {} : { ordered: readBoolean(at('ordered'), ordered) }),
  }
}

const FIELDS: readonly string[] = ['instructionId', 'participantId', 'railType', 'payload', 'notBefore', 'ordered']

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function readTime(argument: string, value: JsonValue): Date {
  const time = typeof value === 'string' && RFC_3339.test(value) ? new Date(value) : undefined
  if (time !== undefined && !Number.isNaN(time.getTime())) return time
  throw new InvalidArgumentError(argument, 'expected a time with its offset, such as 2026-01-31T12:00:00Z')
}

/** With an offset: a local time would mean another moment on another machine. */
const RFC_3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?(?:Z|[+-]\d{2}:\d{2})$/

function readBoolean(argument: string, value: JsonValue): boolean {
  if (typeof value !== 'boolean') throw new InvalidArgumentError(argument, 'expected true or false')
  return value
}
