import { boundedInteger, InvalidArgumentError, requiredText, type JsonObject } from '../core/index.js'
import { NotSentError, RAIL_TIMEOUT_DEFAULT_MS } from '../rails/index.js'
import { MESSAGE_KEYS, messageWriter, type BrokerMessageOptions, type WriteMessage } from './brokerMessage.js'
import { fieldsOf, refusePolicy, requireMethods, type BrokerDeclaration } from './brokerOptions.js'
import { findStreamProblem, type NatsHeaders, type NatsJetStream } from './natsStream.js'

/** Rail declaration that has `nats` instead of `dispatch` and `queryStatus`. */
export interface NatsRailOptions<
  Type extends string = string,
  Payload extends object = JsonObject,
> extends BrokerDeclaration<Type, Payload> {
  /**
   * `inquire`: the stream keeps consumed messages and answers inquiries. `hold`: the stream removes them, so operators
   * decide.
   */
  readonly onUnknown: 'inquire' | 'hold'
  readonly nats: NatsOptions<Payload>
}

export interface NatsOptions<Payload extends object = JsonObject> extends BrokerMessageOptions<Payload> {
  /** `jetstream(connection)` of `@nats-io/jetstream`. The rail does not close the connection; use `close` for that. */
  readonly jetstream: NatsJetStream
  /** Stream that stores `<subject>.*`. The rail refuses a message that another stream would store. */
  readonly stream: string
  /** Prefix of subjects. Each payment is published to its own subject `<subject>.<outbox id>`. */
  readonly subject: string
  /** Function `headers` of the client, to pass on the trace context. @default no trace context is sent */
  readonly headers?: () => NatsHeaders
  /**
   * Maximum difference between the clocks of PostgreSQL and the NATS server. If an inquiry finds no message, the
   * outcome stays unknown unless the stream is older than the payment by at least this time. @default 60000
   */
  readonly clocksApartMs?: number
}

export interface ResolvedNats<Payload extends object> {
  readonly jetstream: NatsJetStream
  readonly stream: string
  readonly subject: string
  readonly headers: (() => NatsHeaders) | undefined
  readonly clocksApartMs: number
  readonly timeoutMs: number
  readonly write: WriteMessage<Payload>
  /** Throws `NotSentError` unless the stream suits the policy. Checks only until the first success. */
  readonly requireStream: () => Promise<void>
}

const CLOCKS_APART_MS = { min: 0, max: 3_600_000 }
const NAME_LENGTH_MAX = 255

export function resolveNatsOptions<Payload extends object>(
  rail: NatsRailOptions<string, Payload>,
): ResolvedNats<Payload> {
  const given = rail.nats
  const field = fieldsOf(rail.type, 'nats', given, KEYS)
  refusePolicy(rail.type, rail.onUnknown, ['inquire', 'hold'])
  requireMethods(field('jetstream'), given.jetstream, ['publish', 'jetstreamManager'])
  if (given.headers !== undefined && typeof given.headers !== 'function') {
    throw new InvalidArgumentError(field('headers'), 'expected the function that creates headers')
  }
  const { jetstream } = given
  const stream = readName(
    field('stream'),
    given.stream,
    STREAM_NAME,
    'a name without dots, wildcards, slashes and spaces',
  )
  return {
    jetstream,
    stream,
    subject: readName(field('subject'), given.subject, SUBJECT, 'tokens joined by dots, without wildcards'),
    headers: given.headers,
    clocksApartMs: boundedInteger(field('clocksApartMs'), given.clocksApartMs ?? 60_000, CLOCKS_APART_MS),
    timeoutMs: rail.timeoutMs ?? RAIL_TIMEOUT_DEFAULT_MS,
    write: messageWriter(field, given),
    requireStream: rail.onUnknown === 'hold' ? async () => {} : streamCheck(jetstream, stream),
  }
}

const KEYS: readonly (keyof NatsOptions)[] = [
  'jetstream',
  'stream',
  'subject',
  'headers',
  'clocksApartMs',
  ...MESSAGE_KEYS,
]

function readName(field: string, value: unknown, pattern: RegExp, expected: string): string {
  const name = requiredText(field, value, NAME_LENGTH_MAX)
  if (!pattern.test(name)) throw new InvalidArgumentError(field, `expected ${expected}`)
  return name
}

/** Pattern of a stream name, which is one token of the server's subjects and a folder name on its disk. */
const STREAM_NAME = /^(?:(?![.*>/\\])[!-~])+$/
const SUBJECT = /^(?:(?![.*>])[!-~])+(?:\.(?:(?![.*>])[!-~])+)*$/

function streamCheck(jetstream: NatsJetStream, stream: string): () => Promise<void> {
  let isRight = false
  return async () => {
    if (isRight) return
    const problem = await readStreamProblem(jetstream, stream)
    if (problem !== undefined) throw new NotSentError(`the stream ${stream} cannot be used: ${problem}`)
    isRight = true
  }
}

async function readStreamProblem(jetstream: NatsJetStream, stream: string): Promise<string | undefined> {
  try {
    const { streams } = await jetstream.jetstreamManager(false)
    return findStreamProblem(await streams.info(stream))
  } catch (error) {
    throw new NotSentError(`the configuration of the stream ${stream} could not be read`, { cause: error })
  }
}
