import { InvalidArgumentError, parseStrictJson, type JsonValue } from '../../core/index.js'
import { NotSentError } from '../NotSentError.js'
import {
  requestBody,
  type DefaultPayload,
  type Rail,
  type RailAnswer,
  type RailCodes,
  type RailContext,
  type RailOutcome,
  type RailRequest,
  type RailStatus,
} from '../types.js'
import {
  isOwnHeader,
  resolveHttpOptions,
  type AnswerPointers,
  type HttpRailOptions,
  type ResolvedHttp,
  type ResolvedStatusQuery,
} from './httpOptions.js'
import {
  codeOfStatus,
  isSuccessStatus,
  outcomeOfStatus,
  type StatusOutcomes,
  readRetryAfterMs,
} from './httpOutcomes.js'
import { HttpTransport, type HttpRequest, type HttpResponse } from './HttpTransport.js'
import { rejectOnAbort } from '../withDeadline.js'
import { signRequest, type SignedParts } from './requestSignature.js'

/**
 * Creates a rail that sends JSON over HTTPS. Each request has the reference as `Idempotency-Key`, the end of the lease
 * as `Symphony-Not-After`, `traceparent` and `tracestate`, and a signature if a key is set. Connections stay open until
 * `close()`.
 */
export function httpRail<
  const Type extends string,
  const Money extends boolean = true,
  Payload extends object = DefaultPayload<Money>,
>(options: HttpRailOptions<Type, Payload> & { readonly money?: Money }): Rail<Type, Payload> {
  return createHttpRail(options, {})
}

/** Parts that differ between a payment and another kind of request, such as a webhook. */
export interface HttpProtocol {
  /** Returns additional headers of a request. Each replaces a header of the same name in the options. @default none */
  readonly headersOf?: (parts: SignedParts) => Readonly<Record<string, string>>
  /** Returns the reference of a success. @default the reference in the answer */
  readonly referenceOf?: (reference: string) => string
}

export function createHttpRail<const Type extends string, Payload extends object>(
  options: HttpRailOptions<Type, Payload>,
  protocol: HttpProtocol,
): Rail<Type, Payload> {
  const http = resolveHttpOptions(options)
  const transport = new HttpTransport({ ...http, connectTimeoutMs: CONNECT_TIMEOUT_MS })
  const { http: given, ...declaration } = options
  const bodyOf = given.body ?? requestBody
  const codes = options.codes && { ...codesOfStatuses(http.statusOutcomes), ...options.codes }
  const rail = {
    ...declaration,
    ...(codes === undefined ? {} : { codes }),
    async dispatch(request: RailRequest<Payload>, { signal }: RailContext) {
      const prepared = await prepare(http, protocol, request, signal, {
        method: http.method,
        url: http.url(request.reference),
        body: () => JSON.stringify(bodyOf(request)),
      })
      const response = await transport.exchange(prepared, signal)
      return readAnswer(http, codes, response, protocol.referenceOf?.(request.reference))
    },
    close: () => transport.close(),
  }
  const { status } = http
  const { onUnknown } = options
  // The case `inquire` exists only for the compiler: `resolveHttpOptions` refuses `inquire` without a status.
  if (status === undefined) return { ...rail, onUnknown: onUnknown === 'inquire' ? 'hold' : onUnknown }
  return {
    ...rail,
    async queryStatus(request: RailRequest<Payload>, { signal }: RailContext) {
      const query = { method: 'GET', url: status.url(request.reference) } as const
      const prepared = await prepare(http, protocol, request, signal, query)
      return readStatus(http, status, await transport.exchange(prepared, signal))
    },
  }
}

/**
 * Maximum time to connect, long enough for a distant network. A call that cannot connect must end as not sent before
 * the rail's timeout makes its outcome unknown.
 */
const CONNECT_TIMEOUT_MS = 10_000

/** Prepares the request. Every error of the preparation is a `NotSentError`, because nothing was sent yet. */
async function prepare(
  http: ResolvedHttp,
  protocol: HttpProtocol,
  request: RailRequest<object>,
  signal: AbortSignal,
  { method, url, body }: { method: HttpRequest['method']; url: URL; body?: () => string | undefined },
): Promise<HttpRequest> {
  const now = http.clock.now()
  // The lease has ended, for example while the process was suspended. Another worker may have claimed the item.
  if (now >= request.notAfter) throw new NotSentError('the lease of this request has ended')
  try {
    const text = body?.()
    if (body !== undefined && text === undefined) {
      throw new InvalidArgumentError('http.body', 'expected JSON from the function, got none')
    }
    const own = ownHeaders(http, protocol, request, { method, url, body: text ?? '' }, now)
    const made = http.headers()
    // A token function accepts no signal, and may hang.
    const headersOfCaller = await (made instanceof Promise ? rejectOnAbort(made, signal, stoppedInPreparation) : made)
    const given = Object.entries(headersOfCaller).filter(
      ([name]) => !isOwnHeader(name) && !Object.hasOwn(own, name.toLowerCase()),
    )
    const accept = given.some(([name]) => name.toLowerCase() === 'accept') ? {} : { accept: 'application/json' }
    const headers = { ...accept, ...Object.fromEntries(given), ...own }
    return { method, url, headers, ...(text === undefined ? {} : { body: text }) }
  } catch (error) {
    throw new NotSentError('the request could not be made', { cause: error })
  }
}

function stoppedInPreparation(): Error {
  return new NotSentError('the headers were not ready when the call was stopped')
}

function ownHeaders(
  { signing }: ResolvedHttp,
  { headersOf }: HttpProtocol,
  { reference, notAfter, traceparent, tracestate }: RailRequest<object>,
  { method, url, body }: { method: HttpRequest['method']; url: URL; body: string },
  now: Date,
): Record<string, string> {
  const parts = {
    timestampSeconds: Math.floor(now.getTime() / 1_000),
    method,
    path: url.pathname + url.search,
    reference,
    notAfter: notAfter.toISOString(),
    body,
  }
  return {
    ...(method === 'GET' ? {} : { 'content-type': 'application/json' }),
    'idempotency-key': reference,
    'symphony-not-after': parts.notAfter,
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(tracestate === undefined ? {} : { tracestate }),
    ...(signing === undefined ? {} : { 'symphony-signature': signRequest(signing, parts) }),
    ...headersOf?.(parts),
  }
}

function readAnswer(
  http: ResolvedHttp,
  codes: RailCodes | undefined,
  response: HttpResponse,
  reference: string | undefined,
): RailAnswer {
  const answer = readBody(http.pointers, response)
  const outcome = refine(outcomeOfStatus(http.statusOutcomes, response.status), response.status, answer.code, codes)
  if (outcome === 'success') {
    // `classifyAnswer` makes a success without a reference unknown.
    return {
      outcome,
      reference: reference ?? answer.reference ?? '',
      ...(answer.code === undefined ? {} : { code: answer.code }),
    }
  }
  const retryAfterMs = readRetryAfterMs(response.headers['retry-after'], http.clock.now())
  return {
    outcome,
    code: answer.code ?? codeOfStatus(response.status),
    ...(answer.message === undefined ? {} : { message: answer.message }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  }
}

/**
 * Refines the outcome of an HTTP status by the rail's own code, if the table lists the code. The code is more precise:
 * some rails refuse with 200, others ask to wait with 400. Ignores a code that contradicts its status: an unknown
 * status stays unknown, and a refusal never becomes a success.
 */
function refine(
  byStatus: RailOutcome,
  status: number,
  code: string | undefined,
  codes: RailCodes | undefined,
): RailOutcome {
  const byCode = code !== undefined && codes !== undefined && Object.hasOwn(codes, code) ? codes[code] : undefined
  if (byCode === undefined || byCode === 'absent' || byStatus === 'unknown') return byStatus
  return byCode === 'success' && !isSuccessStatus(status) ? byStatus : byCode
}

/**
 * Returns the outcome of each status from 200 to 599 under its code (`HTTP_404`), for answers without a code in their
 * body.
 */
function codesOfStatuses(outcomes: StatusOutcomes): RailCodes {
  const statuses = Array.from({ length: 400 }, (_, index) => 200 + index)
  return Object.fromEntries(statuses.map((status) => [codeOfStatus(status), outcomeOfStatus(outcomes, status)]))
}

function readStatus(http: ResolvedHttp, query: ResolvedStatusQuery, response: HttpResponse): RailStatus {
  const answer = readBody(query.pointers, response)
  const details = {
    ...(answer.code === undefined ? {} : { code: answer.code }),
    ...(answer.message === undefined ? {} : { message: answer.message }),
  }
  if (response.status === NOT_FOUND && (answer.document !== undefined || response.body.length === 0)) {
    return { outcome: 'absent', ...details }
  }
  if (!isSuccessStatus(response.status)) {
    const retryAfterMs = readRetryAfterMs(response.headers['retry-after'], http.clock.now())
    const message = answer.message ?? `the inquiry was answered with ${codeOfStatus(response.status)}`
    return { outcome: 'unknown', ...details, message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }
  }
  const outcome =
    query.state === undefined
      ? 'success'
      : (query.outcomes.get(readText(query.state(answer.document)) ?? '') ?? 'unknown')
  return outcome === 'success' ? { outcome, reference: answer.reference ?? '', ...details } : { outcome, ...details }
}

/**
 * A 404 counts as absent only with JSON or an empty body. An HTML page comes from a proxy, so the inquiry did not reach
 * the rail.
 */
const NOT_FOUND = 404

interface ParsedBody {
  readonly document: JsonValue | undefined
  readonly reference: string | undefined
  readonly code: string | undefined
  readonly message: string | undefined
}

function readBody(pointers: AnswerPointers, { body }: HttpResponse): ParsedBody {
  const document = readJson(body)
  return {
    document,
    reference: readText(pointers.reference(document)),
    code: readText(pointers.code(document)),
    message: readText(pointers.message(document)),
  }
}

/** Parses strictly, because a reference may be a long number, and JSON.parse would silently round it. */
function readJson(body: Buffer): JsonValue | undefined {
  try {
    return parseStrictJson(body, { argument: 'answer', bytesMax: body.length })
  } catch {
    return undefined
  }
}

/** Returns text or an integer as text, because many rails number their payments. */
function readText(value: JsonValue | undefined): string | undefined {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value)
  return typeof value === 'string' && value !== '' ? value : undefined
}
