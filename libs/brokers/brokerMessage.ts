import { InvalidArgumentError, systemClock, type Clock, type JsonValue, SymphonyError } from '../core/index.js'
import { NotSentError, requestBody, type RailRequest } from '../rails/index.js'

/** Options about messages, the same for every broker rail. */
export interface BrokerMessageOptions<Payload extends object> {
  /**
   * The JSON that is published. It must not depend on `attempt` or `notAfter`: consumers that deduplicate compare what
   * comes under one id. @default reference, instructionId, participantId, sequenceId, idempotencyKey and payload
   */
  readonly body?: (request: RailRequest<Payload>) => JsonValue
  /** @default systemClock */
  readonly clock?: Clock
}

export const MESSAGE_KEYS: readonly (keyof BrokerMessageOptions<object>)[] = ['body', 'clock']

/** Writes the text of a message, or throws `NotSentError`: whatever goes wrong here goes wrong before anything is published. */
export type WriteMessage<Payload extends object> = (request: RailRequest<Payload>, signal: AbortSignal) => string

export function messageWriter<Payload extends object>(
  field: (name: string) => string,
  { body, clock = systemClock }: BrokerMessageOptions<Payload>,
): WriteMessage<Payload> {
  if (body !== undefined && typeof body !== 'function') {
    throw new InvalidArgumentError(field('body'), `expected a function, got ${typeof body}`)
  }
  const bodyOf = body ?? requestBody
  return (request, signal) => {
    throwIfAborted(signal)
    // The process was suspended: another worker may hold the lease now.
    if (clock.now() >= request.notAfter) throw new NotSentError('the lease behind this message has ended')
    return textOf(bodyOf, request)
  }
}

function textOf<Payload extends object>(
  bodyOf: (request: RailRequest<Payload>) => unknown,
  request: RailRequest<Payload>,
): string {
  let text: string | undefined
  try {
    text = JSON.stringify(bodyOf(request))
  } catch (error) {
    throw new NotSentError('the message could not be made', { cause: error })
  }
  if (text === undefined) throw new NotSentError('the message could not be made: its body is no JSON')
  return text
}

/** Throws `NotSentError` if the call was aborted. Called before each step that sends something. */
export function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new NotSentError('aborted before it was published')
}

/** The trace of the attempt, as headers. */
export function traceHeaders({ traceparent, tracestate }: RailRequest<object>): Record<string, string> {
  return {
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(tracestate === undefined ? {} : { tracestate }),
  }
}

/**
 * Returns the result of `work`, or rejects with `createError()` when the signal aborts. Clients of brokers take no signal: the
 * work continues in the background, and its result is ignored.
 */
export async function rejectOnAbort<Value>(
  work: Promise<Value>,
  signal: AbortSignal,
  createError: () => Error,
): Promise<Value> {
  const ended = new AbortController()
  const aborted = new Promise<never>((_, reject) => {
    if (signal.aborted) reject(createError())
    else signal.addEventListener('abort', () => reject(createError()), { signal: ended.signal })
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    ended.abort()
  }
}

/** The broker's client has the message, and the broker has not confirmed it: the message may have arrived. */
export class UnconfirmedError extends SymphonyError {
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super('BROKER_UNCONFIRMED', message, options)
  }
}

export function abortedError(): UnconfirmedError {
  return new UnconfirmedError('aborted before the broker confirmed it')
}
