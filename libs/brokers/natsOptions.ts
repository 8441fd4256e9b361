import { boundedInteger, InvalidArgumentError, requiredText, type JsonObject } from '../core/index.js'
import { NotSentError, RAIL_TIMEOUT_DEFAULT_MS } from '../rails/index.js'
import { MESSAGE_KEYS, messageWriter, type BrokerMessageOptions, type WriteMessage } from './brokerMessage.js'
import { fieldsOf, refusePolicy, requireMethods, type BrokerDeclaration } from './brokerOptions.js'
import { findStreamProblem, type NatsHeaders, type NatsJetStream } from './natsStream.js'

/** A declaration like that of any rail, but with `nats` in place of the calls. */
export interface NatsRailOptions<
  Type extends string = string,
  Payload extends object = JsonObject,
> extends BrokerDeclaration<Type, Payload> {
  /** `inquire`: the stream is asked, and keeps what was consumed. `hold`: it does not, and a person decides. */
  readonly onUnknown: 'inquire' | 'hold'
  readonly nats: NatsOptions<Payload>
}

export interface NatsOptions<Payload extends object = JsonObject> extends BrokerMessageOptions<Payload> {
  /** `jetstream(connection)` of `@nats-io/jetstream`. The connection is yours: give `close` to end it with the worker. */
  readonly jetstream: NatsJetStream
  /** The one that takes in `<subject>.*`. A message that another stream would take is refused. */
  readonly stream: string
  /** Payments are published to `<subject>.<outbox id>`, each to a subject of its own. */
  readonly subject: string
  /** `headers` of the client, with which the trace is sent on. @default the trace ends here */
  readonly headers?: () => NatsHeaders
  /**
   * How far the clocks of PostgreSQL and of the NATS server may be apart. A stream that is not older than a payment by
   * this much is not believed when it says that it has never seen it. @default 60000
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
  /** Throws `NotSentError` unless the stream is as the policy needs it. Asked until it was so once. */
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
    throw new InvalidArgumentError(field('headers'), 'expected the function that makes headers')
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

/** A stream's name is one token of the server's own subjects, and a folder of its disk. */
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
    throw new NotSentError(`the stream ${stream} could not be asked what it keeps`, { cause: error })
  }
}
