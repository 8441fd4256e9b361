import {
  InvalidArgumentError,
  isObject,
  keyPath,
  parseTimestamp,
  requiredId,
  requiredIdempotencyKey,
  requiredUuid,
  type JsonValue,
} from '../core/index.js'
import type { OutboxInstruction } from './types.js'

export interface ParseInstructionOptions {
  /** Prefix of field names in errors, such as `line 7, `. @default empty */
  readonly place?: string
}

/**
 * Parses an instruction from JSON, such as a line of a file. Refuses unknown fields, because a misspelt `notBefore`
 * would pay at once. If `instructionId` or `idempotencyKey` is missing, it defaults to the other.
 */
export function parseInstruction(value: JsonValue, options: ParseInstructionOptions = {}): OutboxInstruction {
  const { place = '' } = options
  const at = (field: string) => `${place}${field}`
  if (!isObject(value)) throw new InvalidArgumentError(at('instruction'), 'expected an object')
  for (const [position, field] of Object.keys(value).entries()) {
    if (FIELDS.includes(field)) continue
    // A key may itself be data, so the error names it only if it looks like a field name.
    const named = keyPath('', field, position).replace(/^\./, '')
    throw new InvalidArgumentError(at(named), `unknown field; expected ${FIELDS.join(', ')}`)
  }
  const { payload, notBefore, ordered, idempotencyKey: key, outcomeTopic, replaces } = value
  if (!isObject(payload)) throw new InvalidArgumentError(at('payload'), 'expected an object')
  // Only a missing field gets the default. A null probably means that the client lost its id or key.
  const instructionId = value['instructionId'] === undefined ? key : value['instructionId']
  return {
    instructionId: requiredId(at('instructionId'), instructionId),
    participantId: requiredId(at('participantId'), value['participantId']),
    idempotencyKey: requiredIdempotencyKey(at('idempotencyKey'), key === undefined ? instructionId : key),
    railType: requiredId(at('railType'), value['railType']),
    payload,
    ...(notBefore === undefined ? {} : { notBefore: readTime(at('notBefore'), notBefore) }),
    ...(ordered === undefined ? {} : { ordered: readBoolean(at('ordered'), ordered) }),
    ...(outcomeTopic === undefined ? {} : { outcomeTopic: requiredId(at('outcomeTopic'), outcomeTopic) }),
    ...(replaces === undefined ? {} : { replaces: requiredUuid(at('replaces'), replaces) }),
  }
}

const FIELDS: readonly string[] = [
  'instructionId',
  'participantId',
  'railType',
  'payload',
  'notBefore',
  'ordered',
  'idempotencyKey',
  'outcomeTopic',
  'replaces',
]

function readTime(argument: string, value: JsonValue): Date {
  const time = typeof value === 'string' ? parseTimestamp(value) : undefined
  if (time !== undefined) return time
  throw new InvalidArgumentError(argument, 'expected a time with its offset, such as 2026-01-31T12:00:00Z')
}

function readBoolean(argument: string, value: JsonValue): boolean {
  if (typeof value !== 'boolean') throw new InvalidArgumentError(argument, 'expected true or false')
  return value
}
