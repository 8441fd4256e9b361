import { InvalidArgumentError, systemClock, type Clock, type JsonValue, SymphonyError } from '../core/index.js'
import { NotSentError, requestBody, type RailRequest } from '../rails/index.js'

/** Message options of every broker rail. */
export interface BrokerMessageOptions<Payload extends object> {
  /**
   * Returns the JSON to publish. It must not depend on `attempt` or `notAfter`, because consumers may compare messages
   * with the same id. @default reference, instructionId, participantId, sequenceId, idempotencyKey and payload
   */
  readonly body?: (request: RailRequest<Payload>) => JsonValue
  /** @default systemClock */
  readonly clock?: Clock
}

export const MESSAGE_KEYS: readonly (keyof BrokerMessageOptions<object>)[] = ['body', 'clock']

/** Returns the text of a message. Throws `NotSentError` on failure, because nothing is published yet. */
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
    // The lease has expired, for example while the process was suspended. Another worker may have claimed the item.
    if (clock.now() >= request.notAfter) throw new NotSentError('the lease of this message has expired')
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
    throw new NotSentError('the message could not be created', { cause: error })
  }
  if (text === undefined) throw new NotSentError('the message could not be created: its body is not JSON')
  return text
}

/** Throws `NotSentError` if the call was aborted. Called before each step that sends data. */
export function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new NotSentError('aborted before the message was published')
}

/** Returns the trace context of the attempt as headers. */
export function traceHeaders({ traceparent, tracestate }: RailRequest<object>): Record<string, string> {
  return {
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(tracestate === undefined ? {} : { tracestate }),
  }
}

/** Thrown if the client sent a message and the broker has not confirmed it. The message may have arrived. */
export class UnconfirmedError extends SymphonyError {
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super('BROKER_UNCONFIRMED', message, options)
  }
}

export function abortedError(): UnconfirmedError {
  return new UnconfirmedError('aborted before the broker confirmed the message')
}
