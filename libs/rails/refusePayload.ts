import { InvalidPayloadError, nearestSpelling, requiredId, type JsonObject } from '../core/index.js'
import { RAIL_TIMEOUT_DEFAULT_MS, readSchema, type LoadedContract } from './loadRails.js'
import type { TopicContracts } from './types.js'
import { validatePayload, whenSettled, type PayloadCheck } from './validatePayload.js'

/** Contracts of a process by rail or by topic. The process enqueues only payloads that these contracts accept. */
export type KnownContracts = ReadonlyMap<string, LoadedContract>

export function loadTopics(topics: TopicContracts): KnownContracts {
  return new Map(
    Object.entries(topics).map(([topic, schema]) => [
      topic,
      {
        type: requiredId('topics, a topic', topic),
        payload: readSchema(`topics.${topic}`, schema),
        money: false,
        destination: undefined,
        timeoutMs: RAIL_TIMEOUT_DEFAULT_MS,
        fields: [],
        subject: undefined,
        accountOf: undefined,
        settlementDays: undefined,
      },
    ]),
  )
}

/**
 * Throws `InvalidPayloadError` for a message that the contract of its topic refuses, or whose topic has no contract.
 * Without topics nothing is refused. Returns a promise only if the check is asynchronous.
 */
export function requireTopicPayload(
  topics: KnownContracts,
  { topic, payload }: { readonly topic: string; readonly payload: JsonObject },
): undefined | Promise<undefined> {
  if (topics.size === 0) return undefined
  return whenSettled(findRefusal(topics, 'topic', topic, payload), (refusal) => {
    if (refusal !== undefined) throw refusal
    return undefined
  })
}

const NAME = /^[A-Za-z][\w.:-]{0,63}$/

/** Remedies. Without the same key, a corrected payment would be a second payment. */
const REMEDIES = {
  rail: 'Correct the payload and send it again under the same idempotency key.',
  topic: 'Correct the payload and send it again. A message that was enqueued before under the same id stands.',
} as const

/**
 * Returns the refusal of a payload; undefined if the payload is accepted. A check that itself fails, such as a schema
 * that throws, does not refuse the payload, because the worker checks it again. Returns a promise only if the check is
 * asynchronous.
 *
 * @param place Returns the name of a field for the error. @default the field itself
 */
export function findRefusal(
  contracts: KnownContracts,
  kind: 'rail' | 'topic',
  type: string,
  payload: JsonObject,
  place: (field: string) => string = (field) => field,
): InvalidPayloadError | undefined | Promise<InvalidPayloadError | undefined> {
  const contract = contracts.get(type)
  if (contract === undefined) {
    const nearest = nearestSpelling(type, contracts.keys())
    const known = [...contracts.keys()].join(', ')
    const meant = nearest === undefined ? `expected one of ${known}` : `did you mean ${nearest}?`
    // Text that is no valid name may be data, which must not appear in an error.
    const named = NAME.test(type) ? ` "${type}"` : ''
    const field = kind === 'rail' ? 'railType' : 'topic'
    return new InvalidPayloadError(place(field), `unknown ${kind}${named}; ${meant}`, {
      remedy: `Use one of: ${known}`,
    })
  }
  return whenSettled(validatePayload(contract, payload), (check: PayloadCheck) =>
    check.ok || check.retryable
      ? undefined
      : new InvalidPayloadError(place('payload'), `${check.message} (${check.code})`, { remedy: REMEDIES[kind] }),
  )
}
