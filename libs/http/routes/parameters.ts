import { Type } from '#typebox'
import { InvalidArgumentError, parseTimestamp } from '../../core/index.js'
import { ALERT_TOPIC, NOTICE_PREFIX } from '../../observability/index.js'
import type { Identity } from '../access/Identity.js'
import { ProblemError } from '../Problem.js'
import { Cursor, Id, oneOf, Uuid } from '../shapes/common.js'

export const LIMIT_DEFAULT = 100

export const page = {
  cursor: Type.Optional(Cursor),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, description: 'default 100' })),
  format: Type.Optional(
    oneOf(
      ['json', 'csv', 'ndjson'],
      'json, the default: a page; csv, ndjson: a file of all rows, without cursor and limit',
    ),
  ),
}

const Time = Type.String({ maxLength: 40, description: 'RFC 3339 time with its offset' })

/** Range of time of a list. */
export const range = {
  from: Type.Optional(Time),
  to: Type.Optional({ ...Time, description: 'RFC 3339 time, exclusive' }),
}

interface TimeRange {
  readonly from?: string
  readonly to?: string
}

export function sinceUntil({ from, to }: TimeRange): { readonly since?: Date; readonly until?: Date } {
  const since = from === undefined ? undefined : parseTime('from', from)
  const until = to === undefined ? undefined : parseTime('to', to)
  if (since !== undefined && until !== undefined && since >= until) {
    throw new InvalidArgumentError('from', 'expected a time before the end of the range')
  }
  return { ...(since === undefined ? {} : { since }), ...(until === undefined ? {} : { until }) }
}

export function createdBetween(query: TimeRange): { readonly createdFrom?: Date; readonly createdTo?: Date } {
  const { since, until } = sinceUntil(query)
  return {
    ...(since === undefined ? {} : { createdFrom: since }),
    ...(until === undefined ? {} : { createdTo: until }),
  }
}

export function parseTime(argument: string, text: string): Date {
  const time = parseTimestamp(text)
  if (time !== undefined) return time
  throw new InvalidArgumentError(argument, 'expected a time with its offset, such as 2026-01-31T12:00:00Z')
}

export const outboxIdParam = { outboxId: Uuid }
export const proposalIdParam = { proposalId: Uuid }
export const timerIdParam = { timerId: Uuid }
export const jobNameParam = { name: Id }

/** Returns the participants to read: the requested one, or those that the key is restricted to; undefined for all. */
export function participantsFor(identity: Identity, asked: string | undefined): readonly string[] | undefined {
  const { participants } = identity
  if (asked === undefined) return participants ?? undefined
  requireParticipant(identity, asked)
  return [asked]
}

export function requireParticipant({ participants }: Identity, participantId: string): void {
  if (participants === null || participants.includes(participantId)) return
  throw new ProblemError('PARTICIPANT_REFUSED', 'participantId: this key is restricted to other participants', {
    argument: 'participantId',
  })
}

export function isVisible({ participants }: Identity, participantId: string | undefined): boolean {
  return participantId !== undefined && (participants === null || participants.includes(participantId))
}

/** Returns the option `participants`; an empty object for undefined, which means all participants. */
export function ofParticipants(participants: readonly string[] | undefined): { participants?: readonly string[] } {
  return participants === undefined ? {} : { participants }
}

/**
 * Cursor: the position at the end of a page, as opaque text. A cursor names its list, so that another list refuses it.
 * Each part is validated, because a client can forge a cursor.
 */
export interface CursorKind<Part extends string> {
  readonly list: string
  readonly parts: Readonly<Record<Part, RegExp>>
}

export function encodeCursor<Part extends string>(
  kind: CursorKind<Part>,
  parts: Readonly<Record<Part, string>>,
): string {
  const values = Object.keys(kind.parts).map((name) => new Map(Object.entries(parts)).get(name))
  return Buffer.from(JSON.stringify([kind.list, ...values])).toString('base64url')
}

export function decodeCursor<Part extends string>(
  kind: CursorKind<Part>,
  cursor: string | undefined,
): Readonly<Record<Part, string>> | undefined {
  if (cursor === undefined) return undefined
  const [list, ...values] = wordsIn(cursor)
  const names = Object.keys(kind.parts)
  const parts = Object.fromEntries(names.map((name, index) => [name, values[index] ?? '']))
  if (list === kind.list && values.length === names.length && fits(kind, parts)) return parts
  throw new ProblemError('INVALID_QUERY', FOREIGN_CURSOR, { argument: 'cursor' })
}

export const FOREIGN_CURSOR = 'cursor: expected the `next` value of an earlier page of this list'

function fits<Part extends string>(
  { parts: patterns }: CursorKind<Part>,
  parts: Readonly<Record<string, string>>,
): parts is Readonly<Record<Part, string>> {
  return Object.entries<RegExp>(patterns).every(([name, pattern]) => pattern.test(parts[name] ?? ''))
}

function wordsIn(cursor: string): readonly string[] {
  try {
    const parsed: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    return Array.isArray(parsed) && parsed.every((word) => typeof word === 'string') ? parsed : []
  } catch {
    return []
  }
}

export const UUID_PART = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
/** Microseconds since 1970, in the years 1653 to 2286, which PostgreSQL supports. */
export const MICROS_PART = /^-?\d{1,16}$/
/** Text that PostgreSQL can store. */
export const TEXT_PART = /^[^\p{Cc}\p{Cs}]{1,255}$/u
export const NUMBER_PART = /^\d{1,18}$/

/** Refuses the topic and the ids of alert notices: a caller could forge one, or take the id of a later one. */
export function refuseNotices(place: string, fields: Readonly<Record<string, string | undefined>>): void {
  for (const [name, value] of Object.entries(fields)) {
    if (value !== ALERT_TOPIC && value?.startsWith(NOTICE_PREFIX) !== true) continue
    throw new InvalidArgumentError(`${place}${name}`, `expected another value: ${value} is reserved for alert notices`)
  }
}
