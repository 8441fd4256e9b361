import {
  ArgumentRangeError,
  BATCH_SIZE,
  boundedInteger,
  encodePayload,
  InvalidArgumentError,
  isUuid,
  requiredId,
  requiredUuid,
  redact,
} from '../core/index.js'
import { requiredCron, requiredTimeZone } from './cron.js'
import type { Delivery, JobDefinition, MissedRuns, ScheduledMessage, TimerDefinition } from './types.js'

/** Checks arguments before any I/O and converts them into columns. Each error names the argument. */

interface MessageColumns {
  readonly topic: string
  readonly payload: string
  readonly participantId: string | null
  readonly delivery: Delivery
}

function messageColumns(message: ScheduledMessage): MessageColumns {
  return {
    topic: requiredId('topic', message.topic),
    payload: encodePayload(message.payload),
    participantId: message.participantId === undefined ? null : requiredId('participantId', message.participantId),
    delivery: oneOf('delivery', message.delivery ?? 'outbox', DELIVERIES),
  }
}

interface TimerColumns extends MessageColumns {
  readonly dueAt: Date
  /** UUID of the timer; if undefined, the database chooses one. */
  readonly timerId: string | undefined
}

export function timerColumns(timer: TimerDefinition): TimerColumns {
  return {
    ...messageColumns(timer),
    dueAt: requiredDate('dueAt', timer.dueAt),
    timerId: timer.timerId === undefined ? undefined : requiredUuid('timerId', timer.timerId),
  }
}

interface JobColumns extends MessageColumns {
  readonly name: string
  readonly cron: string
  readonly timeZone: string
  readonly missedRuns: MissedRuns
}

export function jobColumns(job: JobDefinition): JobColumns {
  return {
    ...messageColumns(job),
    name: requiredId('name', job.name),
    cron: requiredCron('cron', job.cron),
    timeZone: requiredTimeZone('timeZone', job.timeZone ?? 'UTC'),
    missedRuns: oneOf('missedRuns', job.missedRuns ?? 'once', MISSED_RUNS),
  }
}

/**
 * Returns ids and tokens as two columns. Skips malformed ids, as the database skips unknown ids. The caller notices
 * both, because ack, abandon and fail return only the changed ids.
 */
export function claimColumns(
  argument: string,
  claims: readonly (readonly [id: string, leaseToken: string])[],
): { readonly ids: string[]; readonly leaseTokens: string[] } {
  if (claims.length > BATCH_SIZE.max) {
    throw new ArgumentRangeError(argument, `expected at most ${BATCH_SIZE.max} claims, got ${claims.length}`)
  }
  const possible = claims.filter(([id, token]) => isUuid(id) && isUuid(token))
  return { ids: possible.map(([id]) => id), leaseTokens: possible.map(([, token]) => token) }
}

export function optionalTopics(topics: readonly string[] | undefined): string[] | null {
  if (topics === undefined) return null
  boundedInteger('topics.length', topics.length, BATCH_SIZE)
  return topics.map((topic, index) => requiredId(`topics[${index}]`, topic))
}

/** Redacts the text. Never throws, because an error text must not prevent recording an outcome. */
export function optionalErrorText(value: string | undefined): string | null {
  return value === undefined ? null : redact(value)
}

export function retryDelay(value: number | undefined): number {
  return boundedInteger('retryDelaySeconds', value ?? 0, RETRY_DELAY_SECONDS)
}

function oneOf<const Choice extends string>(argument: string, value: unknown, words: readonly Choice[]): Choice {
  const known = words.find((word) => word === value)
  if (known === undefined) throw new InvalidArgumentError(argument, `expected ${words.join(', ')}`)
  return known
}

function requiredDate(argument: string, value: unknown): Date {
  if (value instanceof Date && !Number.isNaN(value.getTime())) return value
  throw new InvalidArgumentError(argument, 'expected a valid Date')
}

const DELIVERIES: readonly Delivery[] = ['outbox', 'claim']
const MISSED_RUNS: readonly MissedRuns[] = ['skip', 'once', 'all']
/** Seconds, up to thirty days. */
const RETRY_DELAY_SECONDS = Object.freeze({ min: 0, max: 2_592_000 })
/** Seconds, from a minute to ten years. */
export const RETENTION_SECONDS = Object.freeze({ min: 60, max: 315_360_000 })
