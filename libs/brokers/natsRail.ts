import {
  NotSentError,
  rejectOnAbort,
  type DefaultPayload,
  type Rail,
  type RailAnswer,
  type RailContext,
  type RailOutcome,
  type RailRequest,
  type RailStatus,
} from '../rails/index.js'
import { throwIfAborted, traceHeaders, abortedError, UnconfirmedError } from './brokerMessage.js'
import { resolveNatsOptions, type NatsRailOptions, type ResolvedNats } from './natsOptions.js'
import { findStreamProblem, retainsEverythingSince, timeOfReference, type NatsPubAck } from './natsStream.js'

/**
 * Publishes to NATS JetStream, at most once for as long as the stream keeps its messages.
 *
 * `Nats-Msg-Id` is the outbox id, but JetStream remembers ids only for the duplicate window of the stream (two minutes
 * by default), and a payment may be resent after hours. Each payment therefore has its own subject, and each message
 * requires that its subject is empty (`Nats-Expected-Last-Subject-Sequence: 0`). The server refuses a second message
 * while it keeps the first. An inquiry reads the subject. A message in it proves that the payment was published. An
 * empty subject proves that it was not, unless the stream may have removed messages.
 */
export function natsRail<
  const Type extends string,
  const Money extends boolean = true,
  Payload extends object = DefaultPayload<Money>,
>(options: NatsRailOptions<Type, Payload> & { readonly money?: Money }): Rail<Type, Payload> {
  const nats = resolveNatsOptions(options)
  const { nats: _, onUnknown, ...declaration } = options
  const dispatch: Rail<Type, Payload>['dispatch'] = (request, context) => publish(nats, request, context)
  if (onUnknown === 'hold') return { ...declaration, onUnknown, dispatch }
  return {
    ...declaration,
    onUnknown,
    dispatch,
    queryStatus: (request, context) => inquire(nats, request, context),
  }
}

async function publish<Payload extends object>(
  nats: ResolvedNats<Payload>,
  request: RailRequest<Payload>,
  { signal }: RailContext,
): Promise<RailAnswer> {
  const text = nats.write(request, signal)
  await rejectOnAbort(nats.requireStream(), signal, () => new NotSentError('aborted before the message was published'))
  throwIfAborted(signal)
  const subject = subjectOf(nats, request)
  const headers = nats.headers?.()
  for (const [name, value] of Object.entries(traceHeaders(request))) headers?.set(name, value)
  const published = nats.jetstream.publish(subject, text, {
    msgID: request.reference,
    timeout: nats.timeoutMs,
    expect: { streamName: nats.stream, lastSubjectSequence: 0 },
    ...(headers === undefined ? {} : { headers }),
  })
  const answer = published.then(answerOf, (error: unknown) => answerToError(nats, subject, error))
  return rejectOnAbort(answer, signal, abortedError)
}

function answerOf({ stream, seq }: NatsPubAck): RailAnswer {
  return { outcome: 'success', reference: referenceOf(stream, seq) }
}

/**
 * Classifies an error by its name and code, never by its text. An error in neither `NOT_SENT_ERRORS` nor `REFUSALS`
 * means an unknown outcome.
 */
async function answerToError(nats: ResolvedNats<never>, subject: string, error: unknown): Promise<RailAnswer> {
  const { name, code } = describe(error)
  if (NOT_SENT_ERRORS.has(name)) throw new NotSentError('the message was not published', { cause: error })
  if (code === SUBJECT_NOT_EMPTY) {
    // An earlier attempt stored the message, because no other publisher uses this outbox id.
    const stored = await storedUnder(nats, subject)
    if (stored !== null) return { outcome: 'success', reference: referenceOf(nats.stream, stored.seq) }
  }
  const outcome = code === undefined ? undefined : REFUSALS.get(code)
  if (outcome === undefined) throw new UnconfirmedError('the stream has not confirmed the message', { cause: error })
  return { outcome, code: `NATS_${code}`, message: error instanceof Error ? error.message : '' }
}

async function inquire<Payload extends object>(
  nats: ResolvedNats<Payload>,
  request: RailRequest<Payload>,
  { signal }: RailContext,
): Promise<RailStatus> {
  return rejectOnAbort(
    statusOf(nats, request),
    signal,
    () => new UnconfirmedError('aborted before the stream answered'),
  )
}

async function statusOf<Payload extends object>(
  nats: ResolvedNats<Payload>,
  request: RailRequest<Payload>,
): Promise<RailStatus> {
  const stored = await storedUnder(nats, subjectOf(nats, request))
  if (stored !== null) return { outcome: 'success', reference: referenceOf(nats.stream, stored.seq) }
  const { streams } = await nats.jetstream.jetstreamManager(false)
  // Reads the state of the stream after the search for the message, so that the state includes every removal before the
  // search.
  const info = await streams.info(nats.stream)
  const problem = findStreamProblem(info)
  if (problem !== undefined) return { outcome: 'unknown', code: 'NATS_STREAM_FORGETS', message: problem }
  return retainsEverythingSince(info, timeOfReference(request.reference), nats.clocksApartMs)
    ? { outcome: 'absent' }
    : { outcome: 'unknown', code: 'NATS_STREAM_FORGETS', message: MESSAGE_REMOVED }
}

const MESSAGE_REMOVED =
  'the message is not in the stream, which may have removed messages since this payment was created'

/** Asks the leader of the stream, which has every confirmed message. A replica (`direct`) may lack some. */
async function storedUnder(
  { jetstream, stream }: ResolvedNats<never>,
  subject: string,
): Promise<{ readonly seq: number } | null> {
  const { streams } = await jetstream.jetstreamManager(false)
  return streams.getMessage(stream, { last_by_subj: subject })
}

function subjectOf({ subject }: ResolvedNats<never>, { reference }: RailRequest<object>): string {
  return `${subject}.${reference}`
}

function referenceOf(stream: string, sequence: number): string {
  return `${stream}:${sequence}`
}

/** Returns name and code of an error. `JetStreamApiError.code` is the server's error number. */
function describe(error: unknown): { readonly name: string; readonly code: number | undefined } {
  if (!(error instanceof Error)) return { name: '', code: undefined }
  const code: unknown = Reflect.get(error, 'code')
  return { name: error.name, code: typeof code === 'number' ? code : undefined }
}

/** Errors that the client throws before it writes, and the server's error for a subject without a stream. */
const NOT_SENT_ERRORS: ReadonlySet<string> = new Set([
  'ClosedConnectionError',
  'DrainingConnectionError',
  'InvalidSubjectError',
  'InvalidArgumentError',
  'JetStreamNotEnabled',
])

const SUBJECT_NOT_EMPTY = 10_071

/**
 * Refusals that the server sends before it stores anything. 10077 (storing failed) is missing, because the server sends
 * it both for a full stream and for a broken disk.
 */
const REFUSALS: ReadonlyMap<number, Extract<RailOutcome, 'terminal' | 'retryable'>> = new Map([
  // The message is larger than the stream allows.
  [10_054, 'terminal'],
  // Limits of the account: messages, memory, storage.
  [10_002, 'retryable'],
  [10_028, 'retryable'],
  [10_047, 'retryable'],
  // JetStream is not enabled here, or not for this account.
  [10_039, 'retryable'],
  [10_076, 'retryable'],
  // Another stream stores this subject.
  [10_060, 'retryable'],
  // The stream is sealed.
  [10_109, 'retryable'],
])
